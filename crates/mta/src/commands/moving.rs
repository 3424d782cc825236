//! `queue move`.

use super::command::{Command, Worded, changed, failed, refused};
use crate::control::{Select, ShardAnswer, Tally};
use crate::operator::{CommandReply, Operator};
use crate::overrides::Overrides;
use crate::seams::World;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// Overrides the routing of messages, which otherwise follows from the message, its tenant and its route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueMove {
    pub select: Select,
    /// The overrides. Fields left out stay unchanged.
    #[serde(default, skip_serializing_if = "Overrides::is_empty")]
    pub to: Overrides,
    /// Removes all overrides.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
}

impl Worded for QueueMove {
    fn select(&self) -> Option<&Select> {
        Some(&self.select)
    }

    fn done(&self, tally: Tally) -> Option<String> {
        Some(match (tally.recipients, self.undo) {
            (0, _) => "nothing moved".to_owned(),
            (_, true) => format!("{} moved back", changed(tally)),
            (_, false) => format!("{} moved to {}", changed(tally), self.to),
        })
    }
}

impl Command for QueueMove {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer {
        match operator.check_order(self.to, self.undo) {
            Ok(order) => failed(operator.move_to(self.select, &order, answer).await),
            Err(why) => refused(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::merge::tests::text_of;

    #[test]
    fn a_move_is_reported_with_its_target() {
        let of = |messages| Tally { messages, recipients: messages, ..Tally::default() };
        let moved = |undo| {
            let to = Overrides::parse("\npriority 3");
            QueueMove { select: Select::All, to, undo }
        };
        assert_eq!(
            text_of(&moved(false), Tally { in_flight: 1, ..of(2) }),
            "2 messages moved to priority 3; 1 recipient in delivery left alone"
        );
        assert_eq!(text_of(&moved(true), of(1)), "1 message moved back");
        assert_eq!(text_of(&moved(true), of(0)), "the queue is empty");
    }
}
