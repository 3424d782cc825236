//! `queue retry`.

use super::command::{Command, Worded, changed};
use crate::control::{Select, ShardAnswer, Tally};
use crate::operator::{CommandReply, Operator};
use crate::seams::World;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// Makes recipients due now. Recipients on hold stay on hold.
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
            0 => "nothing scheduled".to_owned(),
            _ => format!("{} scheduled for an immediate attempt", changed(tally)),
        })
    }
}

impl Command for QueueRetry {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer {
        operator.retry(self.select, answer).await;
        ShardAnswer::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::merge::tests::text_of;
    use crate::control::Filter;

    #[test]
    fn what_was_made_due_is_reported_in_messages_and_recipients() {
        let retry = QueueRetry { select: Select::All };
        let of =
            |messages, recipients, held| Tally { messages, recipients, held, ..Tally::default() };
        assert_eq!(text_of(&retry, of(1, 1, 0)), "1 message scheduled for an immediate attempt");
        assert_eq!(
            text_of(&retry, of(300, 300_000, 0)),
            "300000 recipients of 300 messages scheduled for an immediate attempt"
        );
        assert_eq!(
            text_of(&retry, of(0, 0, 2)),
            "nothing scheduled; 2 recipients on hold left there (release them first)"
        );
        assert_eq!(text_of(&retry, of(0, 0, 0)), "the queue is empty");
        let nowhere = Filter { domain: Some("nowhere.test".into()), ..Filter::default() };
        let some = QueueRetry { select: Select::Filter(Box::new(nowhere)) };
        assert_eq!(text_of(&some, of(0, 0, 0)), "nothing in the queue matches");
    }
}
