//! The traits of an operator's command: its action on a shard, and the text of its answer.

use crate::control::{Select, ShardAnswer, Tally};
use crate::operator::{CommandReply, Operator};
use crate::seams::World;
use mail::MessageId;
use std::rc::Rc;

/// A command for shards.
pub(super) trait Command: Worded {
    /// Runs the command on one shard. Counts go to `answer`.
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer;
}

/// Texts of a command's answer, and options for merging the shards' answers.
pub(super) trait Worded: Send + Sync {
    /// The messages to be changed. `None` for a command that only reads.
    fn select(&self) -> Option<&Select> {
        None
    }

    /// The single message that the command is about, if any.
    fn id(&self) -> Option<MessageId> {
        match self.select() {
            Some(Select::Id(id)) => Some(*id),
            _ => None,
        }
    }

    /// Returns true if an empty selection is no error. A command for all messages succeeds even if the last one has
    /// just left.
    fn may_be_empty(&self) -> bool {
        self.select() == Some(&Select::All)
    }

    /// The text if all messages were selected and the queue is empty.
    fn nothing(&self) -> &'static str {
        "the queue is empty"
    }

    /// The text if the message does not exist.
    fn not_found(&self, id: MessageId) -> String {
        format!("no message {id} in the queue")
    }

    /// The text about the changes. `None` for a command that only reads.
    fn done(&self, _tally: Tally) -> Option<String> {
        None
    }

    /// The text about recipients in flight.
    fn in_flight(&self) -> &'static str {
        "in delivery left alone"
    }

    /// Maximum number of items, oldest first over all shards. `None` for items in any order.
    fn limit(&self) -> Option<u32> {
        None
    }

    /// Number of rows in each table of a summary.
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

/// An answer with an error, if there was one.
pub(super) fn failed(error: Option<String>) -> ShardAnswer {
    ShardAnswer { error, ..ShardAnswer::default() }
}

/// The answer to an invalid command.
pub(super) fn refused(why: String) -> ShardAnswer {
    ShardAnswer { refused: Some(why), ..ShardAnswer::default() }
}
