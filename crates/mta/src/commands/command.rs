//! What a command of an operator is, on a shard and in words.

use crate::control::{Select, ShardAnswer, Tally};
use crate::operator::{CommandReply, Operator};
use crate::seams::World;
use mail::MessageId;
use std::rc::Rc;

/// A command that shards carry out.
pub(super) trait Command: Worded {
    /// Carries it out on one shard. What was counted stands in `answer`.
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer;
}

/// What is answered to a command, for people and for whoever merges the shards' answers.
pub(super) trait Worded: Send + Sync {
    /// The messages that it changes; `None`: it only reads.
    fn select(&self) -> Option<&Select> {
        None
    }

    /// The one message that it is about, if it is about one.
    fn id(&self) -> Option<MessageId> {
        match self.select() {
            Some(Select::Id(id)) => Some(*id),
            _ => None,
        }
    }

    /// Whether it is no error that no message is concerned. What is asked for all of them is done when
    /// the last has just left.
    fn may_be_empty(&self) -> bool {
        self.select() == Some(&Select::All)
    }

    /// Shown where all were meant and there were none.
    fn nothing(&self) -> &'static str {
        "the queue is empty"
    }

    /// Shown where the message is not there.
    fn not_found(&self, id: MessageId) -> String {
        format!("no message {id} in the queue: it is done with, or was never here")
    }

    /// What was done; `None`: it only reads.
    fn done(&self, _tally: Tally) -> Option<String> {
        None
    }

    /// What became of recipients that are being tried.
    fn in_flight(&self) -> &'static str {
        "being tried left alone"
    }

    /// Its items come oldest first over all shards, at most so many; `None`: in any order.
    fn limit(&self) -> Option<u32> {
        None
    }

    /// Rows of each table of a summary.
    fn rows(&self) -> usize {
        0
    }
}

/// `3 recipients of 1 message`.
pub(super) fn changed(tally: Tally) -> String {
    let messages = counted(tally.messages, "message");
    match tally.recipients == tally.messages {
        true => messages,
        false => format!("{} of {messages}", counted(tally.recipients, "recipient")),
    }
}

/// `1 message`, `2 messages`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// What went wrong, if anything did.
pub(super) fn failed(error: Option<String>) -> ShardAnswer {
    ShardAnswer { error, ..ShardAnswer::default() }
}

/// A command that makes no sense.
pub(super) fn refused(why: String) -> ShardAnswer {
    ShardAnswer { refused: Some(why), ..ShardAnswer::default() }
}
