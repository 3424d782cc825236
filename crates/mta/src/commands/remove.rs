//! `queue remove`.

use super::command::{Command, Worded, changed, failed};
use crate::control::{Select, ShardAnswer, Tally};
use crate::operator::{Answer, Operator};
use crate::seams::World;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// Removes messages; nobody is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueRemove {
    pub select: Select,
}

impl Worded for QueueRemove {
    fn select(&self) -> Option<&Select> {
        Some(&self.select)
    }

    fn done(&self, tally: Tally) -> Option<String> {
        Some(format!("{} removed", changed(tally)))
    }

    fn in_flight(&self) -> &'static str {
        "being tried: removed unless delivered"
    }
}

impl Command for QueueRemove {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &Answer) -> ShardAnswer {
        failed(operator.remove(self.select, answer).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::merge::tests::text_of;

    #[test]
    fn removed_recipients_are_reported() {
        let remove = QueueRemove { select: Select::All };
        let tally = Tally { messages: 1, recipients: 3, ..Tally::default() };
        assert_eq!(text_of(&remove, tally), "3 recipients of 1 message removed");
    }
}
