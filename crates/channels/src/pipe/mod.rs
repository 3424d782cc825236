//! Programs on this server: each message becomes the input of a process, as with Postfix's pipe(8).

mod arguments;
mod exit_status;
mod settings;

use crate::local::{self, Delivered, NotDelivered};
use arguments::MessageFacts;
use bytes::Bytes;
use config::ChannelSection;
use exit_status::{failure_of, line_of};
use lookup::Requester;
use mail::{Mailbox, Reply};
use mta::delivery::{Channel, Slot, Task};
use mta::message::{Message, SentBody};
use mta::seams::{ProgramCall, ProgramEnd, RunningProgram, World};
use queue::Origin;
pub(crate) use settings::{Pipe, PipeText};
use spool::LoadError;
use std::rc::Rc;

pub(crate) struct Programs;

impl<W: World> Channel<W> for Programs {
    fn key(&self) -> &'static str {
        PipeText::KEY
    }

    fn run(&self, slot: Slot<W>) -> Task {
        Box::pin(local::run_apart::<W, Pipe>(
            slot,
            async |slot, pipe, message, (index, _): (u32, Origin)| {
                deliver(slot, pipe, message, index).await
            },
        ))
    }
}

/// Runs the program for one recipient.
async fn deliver<W: World>(
    slot: &Slot<W>,
    pipe: &Pipe,
    message: &Rc<Message>,
    index: u32,
) -> Result<Delivered, NotDelivered> {
    let recipient = &message.envelope.recipients[index as usize].mailbox;
    let place = pipe.name().to_owned();
    let found = match pipe.entries() {
        None => None,
        Some(entries) => {
            let found = entries.entry_of(&slot.world().tables(Requester::Ours), recipient).await;
            Some(found.map_err(|why| local::without_entry(why, &place))?)
        }
    };
    let sender = slot.reverse_path(message, index);
    let facts = MessageFacts {
        recipient,
        sender: sender.as_ref(),
        id: message.id,
        entry: found.as_ref().map(|found| &*found.entry),
    };
    let command = match pipe.command_for(&facts) {
        Ok(command) => command,
        Err(error) => return Err(NotDelivered::Failed { failure: error.failure(), place }),
    };
    let call = ProgramCall { command, account: pipe.account().clone(), timeout: pipe.timeout() };
    let top = local::fields_at_delivery(message, index, recipient);
    let run = slot.world().programs().start(call);
    let end = match fed(slot, message, recipient, top, run).await {
        Ok(end) => end,
        Err(FeedError::Loops) => {
            return Err(NotDelivered::OfMessage { failure: local::looped(recipient), place });
        }
        Err(FeedError::Unreadable(why)) => return Err(NotDelivered::Unreadable(why)),
    };
    match end {
        ProgramEnd::Exited { status: 0, output } => {
            let text = match line_of(&output) {
                None => format!("delivered to {place}"),
                Some(line) => format!("delivered to {place}: {line}"),
            };
            Ok(Delivered { reply: Reply::new(250, (2, 0, 0), text), place })
        }
        // The program works and has decided about this message.
        end @ ProgramEnd::Exited { .. } => {
            Err(NotDelivered::OfMessage { failure: failure_of(&end, pipe), place })
        }
        end => Err(NotDelivered::Failed { failure: failure_of(&end, pipe), place }),
    }
}

/// Reason for which a program did not get its whole input.
enum FeedError {
    /// The message was delivered to this recipient before.
    Loops,
    /// The spool can no longer read the body, or it has changed.
    Unreadable(LoadError),
}

/// Passes on the message, and waits for the program's end. On an error the program is killed, since it is dropped
/// before the end of its input.
async fn fed<W: World>(
    slot: &Slot<W>,
    message: &Message,
    recipient: &Mailbox,
    top: Bytes,
    mut run: Box<dyn RunningProgram>,
) -> Result<ProgramEnd, FeedError> {
    let mut takes_more = run.feed(top).await;
    match message.sent_body() {
        SentBody::Memory(body) => {
            if let Some((first, others)) = body.split_first() {
                let first = local::as_delivered(first, recipient).ok_or(FeedError::Loops)?;
                for piece in first.into_iter().chain(others.iter().cloned()) {
                    takes_more = takes_more && run.feed(piece).await;
                }
            }
        }
        SentBody::Blob(blob) => {
            let mut offset = 0;
            while takes_more && offset < message.sent_body_bytes() {
                let piece =
                    slot.load_blob(message, blob, offset).await.map_err(FeedError::Unreadable)?;
                let bytes = piece.len() as u64;
                let pieces = match offset {
                    0 => local::as_delivered(&piece, recipient).ok_or(FeedError::Loops)?,
                    _ => vec![piece],
                };
                for piece in pieces {
                    takes_more = takes_more && run.feed(piece).await;
                }
                offset += bytes;
            }
        }
    }
    Ok(run.finish().await)
}
