//! `queue list`, `show`, `why` and `summary`: commands that change nothing.

use super::command::{Command, Worded};
use crate::control::{Filter, ITEMS_MAX, ShardAnswer, text};
use crate::operator::{CommandReply, Operator};
use crate::seams::World;
use mail::MessageId;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// Lists queued messages, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueList {
    #[serde(default)]
    pub filter: Filter,
    /// Maximum number of messages.
    pub limit: u32,
}

impl Worded for QueueList {
    fn may_be_empty(&self) -> bool {
        true
    }

    fn limit(&self) -> Option<u32> {
        Some(self.limit.min(ITEMS_MAX))
    }
}

impl Command for QueueList {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer {
        operator.list(self.filter, self.limit.min(ITEMS_MAX), answer).await;
        ShardAnswer::default()
    }
}

/// Shows everything known about one message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueShow {
    #[serde(with = "text::id")]
    pub id: MessageId,
}

impl Worded for QueueShow {
    fn id(&self) -> Option<MessageId> {
        Some(self.id)
    }
}

impl Command for QueueShow {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer {
        operator.one(self.id, answer).await
    }
}

/// Shows the blocker of each open recipient of one message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueWhy {
    #[serde(with = "text::id")]
    pub id: MessageId,
}

impl Worded for QueueWhy {
    fn id(&self) -> Option<MessageId> {
        Some(self.id)
    }
}

impl Command for QueueWhy {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer {
        operator.one(self.id, answer).await
    }
}

/// Counts queued recipients by tenant, campaign, destination, reason and age.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSummary {
    #[serde(default)]
    pub filter: Filter,
    /// Number of rows in each table.
    #[serde(default = "default_top")]
    pub top: u32,
}

fn default_top() -> u32 {
    10
}

impl Worded for QueueSummary {
    fn may_be_empty(&self) -> bool {
        true
    }

    fn rows(&self) -> usize {
        usize::try_from(self.top).unwrap_or(usize::MAX)
    }
}

impl Command for QueueSummary {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer {
        let summary = Some(Box::new(operator.summary(self.filter, answer).await));
        ShardAnswer { summary, ..ShardAnswer::default() }
    }
}
