//! `queue hold` and `queue release`.

use super::command::{Command, Worded, counted, failed};
use crate::control::{Select, ShardAnswer, Tally};
use crate::operator::{CommandReply, Operator};
use crate::seams::World;
use mail::MessageId;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// Holds messages until they are released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueHold {
    pub select: Select,
    /// The reason, for operators.
    pub reason: String,
}

impl Worded for QueueHold {
    fn select(&self) -> Option<&Select> {
        Some(&self.select)
    }

    fn done(&self, tally: Tally) -> Option<String> {
        Some(format!("{} held", counted(tally.messages, "message")))
    }
}

impl Command for QueueHold {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer {
        failed(operator.hold(self.select, Some(self.reason.into()), answer).await)
    }
}

/// Releases messages on hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueRelease {
    pub select: Select,
}

impl Worded for QueueRelease {
    fn select(&self) -> Option<&Select> {
        Some(&self.select)
    }

    fn nothing(&self) -> &'static str {
        "nothing is on hold"
    }

    fn not_found(&self, id: MessageId) -> String {
        format!("no message {id} is on hold")
    }

    fn done(&self, tally: Tally) -> Option<String> {
        Some(format!("{} released", counted(tally.messages, "message")))
    }
}

impl Command for QueueRelease {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer {
        failed(operator.hold(self.select, None, answer).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::merge::tests::text_of;

    #[test]
    fn holds_and_releases_are_reported_in_messages() {
        let hold = QueueHold { select: Select::All, reason: "x".into() };
        let of = |messages| Tally { messages, ..Tally::default() };
        assert_eq!(text_of(&hold, of(2)), "2 messages held");
        let release = QueueRelease { select: Select::All };
        assert_eq!(text_of(&release, of(1)), "1 message released");
        assert_eq!(text_of(&release, of(0)), "nothing is on hold");
    }
}
