//! Maildirs on this server: each message becomes a file, synced and moved to `new`.

mod settings;

use crate::local::{self, Delivered, NotDelivered};
use bytes::Bytes;
use config::ChannelSection;
use mail::{Class, EnhancedStatus, Failure, Mailbox, Reply};
use mta::delivery::{Channel, Slot, Task};
use mta::message::{Message, MessageBody};
use mta::seams::{MailStore, World};
use settings::Maildir;
pub(crate) use settings::MaildirText;
use spool::LoadError;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::rc::Rc;

pub(crate) struct Maildirs;

impl<W: World> Channel<W> for Maildirs {
    fn key(&self) -> &'static str {
        MaildirText::KEY
    }

    fn run(&self, slot: Slot<W>) -> Task {
        Box::pin(local::run::<W, Maildir>(slot, async |slot, maildir, message, index| {
            deliver(slot, maildir, message, index).await
        }))
    }
}

/// Delivers to the Maildir of one recipient.
async fn deliver<W: World>(
    slot: &Slot<W>,
    maildir: &Maildir,
    message: &Rc<Message>,
    index: u32,
) -> Result<Delivered, NotDelivered> {
    let recipient = &message.envelope.recipients[index as usize].mailbox;
    let directory = maildir.path_for(recipient);
    let shown = directory.to_string_lossy().into_owned();
    match into_maildir(slot, message, recipient, directory, index).await {
        Ok(()) => {
            let reply = Reply::new(250, (2, 0, 0), "delivered to the mailbox");
            Ok(Delivered { reply, place: shown })
        }
        Err(WriteError::Io(error)) => {
            Err(NotDelivered::Failed { failure: unwritten(&shown, &error), place: shown })
        }
        Err(WriteError::Unreadable(why)) => Err(NotDelivered::Unreadable(why)),
    }
}

/// Why a message was not written.
enum WriteError {
    /// The mailbox failed.
    Io(io::Error),
    /// The spool can't read the body any more, or not as it was written.
    Unreadable(LoadError),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> WriteError {
        WriteError::Io(error)
    }
}

/// Writes the message into one Maildir; Return-Path goes on top (RFC 5321 §4.4).
async fn into_maildir<W: World>(
    slot: &Slot<W>,
    message: &Rc<Message>,
    recipient: &Mailbox,
    directory: PathBuf,
    index: u32,
) -> Result<(), WriteError> {
    let sender = message.envelope.reverse_path.as_ref().map_or("", Mailbox::as_str);
    let mut top = format!("Return-Path: <{sender}>\r\nDelivered-To: {recipient}\r\n").into_bytes();
    top.extend_from_slice(&message.prefix);
    let name = file_name(slot, message, index);
    write(slot, message, Bytes::from(top), directory, name).await
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
    slot: &Slot<W>,
    message: &Rc<Message>,
    top: Bytes,
    directory: PathBuf,
    name: String,
) -> Result<(), WriteError> {
    let store = slot.world().store();
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
                result = match slot.load_blob(message, *blob, offset).await {
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
fn file_name<W: World>(slot: &Slot<W>, message: &Message, index: u32) -> String {
    let seconds = message.received_at.0 / 1000;
    format!("{seconds}.{}_{index}.{}", message.id, slot.config().hostname)
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
