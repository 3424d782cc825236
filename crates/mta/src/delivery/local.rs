//! Delivery without a peer: Maildirs and discarding.

use super::Delivery;
use super::bearing;
use super::content::WriteError;
use super::giving_back::give_back;
use super::outcome::{self, Concluded};
use super::slot::Slot;
use crate::config::Channel;
use crate::line::{Standing, Who};
use crate::message::{Message, MessageBody};
use crate::routing::hop::NextHop;
use crate::seams::{MailStore, World};
use crate::stopping::Busy;
use bytes::Bytes;
use mail::{Class, EnhancedStatus, Failure, Mailbox, Reply};
use queue::{Take, Work};
use smallvec::SmallVec;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::rc::Rc;

/// Works off the slot's ready queue until it is empty, or until others wait for their first
/// worker.
pub(super) async fn run<W: World>(delivery: Rc<Delivery<W>>, slot: Slot<W>, hop: Rc<NextHop>) {
    let who = Who::new(delivery.services.number, slot.ready.0);
    let mut permit = delivery.services.shared.workers.join(who, Standing::Good, 1).await;
    slot.opened();
    loop {
        let work = match delivery.schedule.take(slot.ready, 0) {
            Take::Work(work) => work,
            Take::Wait | Take::Close => return,
        };
        let _busy = Busy::new(&delivery.services.stopping);
        if delivery.services.stopping.until().is_some() {
            give_back(&delivery, &work);
            return;
        }
        deliver(&slot, who, &hop, &work).await;
        if permit.must_go() {
            return;
        }
    }
}

async fn deliver<W: World>(slot: &Slot<W>, who: Who, hop: &Rc<NextHop>, work: &Work) {
    let delivery = &slot.delivery;
    let place = delivery.custody.messages.place_to_load(who, work.id);
    let message = match delivery.custody.messages.load_in_turn(place, work.id).await {
        Ok(message) => message,
        Err(why) => return outcome::unreadable(delivery, work, "record", &why),
    };
    for entry in &work.entries {
        let index = entry.1;
        let Some(recipient) = message.envelope.recipients.get(index as usize) else {
            continue;
        };
        let one = Work { id: work.id, entries: SmallVec::from_slice(&[*entry]) };
        let (result, where_to) = match &hop.channel {
            Channel::Maildir(maildir) => {
                let directory = maildir.path_for(&recipient.mailbox);
                let shown = directory.to_string_lossy().into_owned();
                match into_maildir(delivery, &message, &recipient.mailbox, directory, index).await {
                    Ok(()) => (Ok(Reply::new(250, (2, 0, 0), "delivered to the mailbox")), shown),
                    Err(WriteError::Io(error)) => (Err(unwritten(&shown, &error)), shown),
                    Err(WriteError::Unreadable(why)) => {
                        outcome::unreadable(delivery, &one, "body", &why);
                        continue;
                    }
                }
            }
            _ => (Ok(Reply::new(250, (2, 0, 0), "discarded")), "discard".to_owned()),
        };
        bearing::tell_local(slot, &result);
        let concluded =
            Concluded { hop: hop.event_hop(&where_to), local: true, dsn_passed_on: false };
        outcome::conclude(delivery, &message, &one, vec![result], &concluded);
    }
}

/// Writes the message into one Maildir; Return-Path goes on top (RFC 5321 §4.4).
async fn into_maildir<W: World>(
    delivery: &Rc<Delivery<W>>,
    message: &Rc<Message>,
    recipient: &Mailbox,
    directory: PathBuf,
    index: u32,
) -> Result<(), WriteError> {
    let sender = message.envelope.reverse_path.as_ref().map_or("", Mailbox::as_str);
    let mut top = format!("Return-Path: <{sender}>\r\nDelivered-To: {recipient}\r\n").into_bytes();
    top.extend_from_slice(&message.prefix);
    let name = file_name(delivery, message, index);
    write(delivery, message, Bytes::from(top), directory, name).await
}

/// The start of a body without the Return-Path fields that it came with: whoever reads the mailbox
/// takes the field for ours (RFC 5321 §4.4: at final delivery there is one).
fn without_return_path(start: &Bytes) -> Vec<Bytes> {
    let mut pieces = Vec::with_capacity(1);
    let mut kept = 0;
    for field in mail::header::fields(start).filter(|field| field.is("Return-Path")) {
        pieces.push(start.slice(kept..field.range.start));
        kept = field.range.end;
    }
    pieces.push(start.slice(kept..));
    pieces
}

/// The failure of a mailbox that could not be written.
fn unwritten(directory: &str, error: &io::Error) -> Failure {
    let text = format!("cannot write to {directory}: {error}");
    // RFC 3463 §3.3: 4.2.0 is the mailbox, 4.3.1 the whole system.
    let status = match error.kind() {
        ErrorKind::StorageFull => EnhancedStatus::new(4, 3, 1),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::StaleNetworkFileHandle => {
            EnhancedStatus::new(4, 3, 0)
        }
        _ => EnhancedStatus::new(4, 2, 0),
    };
    Failure::local(Class::Transient, status, text)
}

async fn write<W: World>(
    delivery: &Rc<Delivery<W>>,
    message: &Rc<Message>,
    top: Bytes,
    directory: PathBuf,
    name: String,
) -> Result<(), WriteError> {
    let store = delivery.services.world.store();
    match &message.body {
        MessageBody::Memory(body) => {
            let mut pieces = vec![top];
            let (first, others) = body.split_first().map_or((None, &[][..]), |(f, o)| (Some(f), o));
            pieces.extend(first.into_iter().flat_map(without_return_path));
            pieces.extend(others.iter().cloned());
            Ok(store.deliver(directory, name, pieces).await?)
        }
        MessageBody::Blob(blob) => {
            let file = store.begin(directory, name).await?;
            let mut result = store.append(file, top).await.map_err(WriteError::Io);
            let mut offset = 0;
            while result.is_ok() && offset < message.facts.body_bytes {
                result = match delivery.custody.messages.load_blob(message, *blob, offset).await {
                    Ok(piece) => {
                        let is_first = offset == 0;
                        offset += piece.len() as u64;
                        let piece = if is_first {
                            Bytes::from(without_return_path(&piece).concat())
                        } else {
                            piece
                        };
                        store.append(file, piece).await.map_err(WriteError::Io)
                    }
                    Err(why) => Err(WriteError::Unreadable(why)),
                };
            }
            let kept = store.finish(file, result.is_ok()).await;
            result.and(kept.map_err(WriteError::Io))
        }
    }
}

/// Unique for ever, and the same again when a crash makes us deliver a second time: the second
/// file then replaces the first instead of standing beside it.
fn file_name<W: World>(delivery: &Rc<Delivery<W>>, message: &Message, index: u32) -> String {
    let seconds = message.received_at.0 / 1000;
    format!("{seconds}.{}_{index}.{}", message.id, delivery.router.active().config.hostname)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_path_that_came_along_does_not_stay() {
        let kept = |text: &'static str| {
            String::from_utf8(without_return_path(&Bytes::from_static(text.as_bytes())).concat())
        };
        assert_eq!(
            kept(
                "Return-Path: <a@b>\r\nSubject: x\r\nreturn-path : <c@d>\r\n (more)\r\nTo: y\r\n\r\n\
                 Return-Path: <in@the.body>\r\n"
            )
            .as_deref(),
            Ok("Subject: x\r\nTo: y\r\n\r\nReturn-Path: <in@the.body>\r\n")
        );
        assert_eq!(kept("Subject: x\r\n\r\nbody").as_deref(), Ok("Subject: x\r\n\r\nbody"));
        assert_eq!(kept("").as_deref(), Ok(""));
    }
}
