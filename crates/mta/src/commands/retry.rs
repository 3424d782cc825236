//! `queue retry`.

use super::command::{Command, Worded, changed};
use crate::control::{Select, ShardAnswer, Tally};
use crate::operator::{Answer, Operator};
use crate::seams::World;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// Makes recipients due now; those held stay held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueRetry {
    pub select: Select,
}

impl Worded for QueueRetry {
    fn select(&self) -> Option<&Select> {
        Some(&self.select)
    }

    fn done(&self, tally: Tally) -> Option<String> {
        Some(match tally.messages {
            0 => "nothing made due".to_owned(),
            _ => format!("{} made due now", changed(tally)),
        })
    }
}

impl Command for QueueRetry {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &Answer) -> ShardAnswer {
        operator.retry(self.select, answer).await;
        ShardAnswer::default()
    }
}
