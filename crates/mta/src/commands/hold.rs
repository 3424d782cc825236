//! `queue hold` and `queue release`.

use super::command::{Command, Worded, counted, failed};
use crate::control::{Select, ShardAnswer, Tally};
use crate::operator::{Answer, Operator};
use crate::seams::World;
use mail::MessageId;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// Keeps messages from being tried until they are released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueHold {
    pub select: Select,
    /// Why, for whoever looks later.
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
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &Answer) -> ShardAnswer {
        failed(operator.hold(self.select, Some(self.reason.into()), answer).await)
    }
}

/// Ends holds.
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
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &Answer) -> ShardAnswer {
        failed(operator.hold(self.select, None, answer).await)
    }
}
