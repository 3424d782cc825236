//! `queue fail` and `queue remove`.

use super::command::{Command, Worded, changed, failed, refused};
use crate::control::{Select, ShardAnswer, Tally};
use crate::operator::{CommandReply, FailOrder, Operator};
use crate::seams::World;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// Fails recipients now, with reports to their senders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueFail {
    pub select: Select,
    /// The enhanced status code for the report, for example `5.7.1`. The default is `5.0.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The reason, for the sender.
    pub reason: String,
    /// No report is sent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub silent: bool,
}

impl Worded for QueueFail {
    fn select(&self) -> Option<&Select> {
        Some(&self.select)
    }

    fn done(&self, tally: Tally) -> Option<String> {
        Some(match (tally.messages, self.silent) {
            (0, _) => "nothing failed".to_owned(),
            (_, true) => format!("{} failed, no DSN sent", changed(tally)),
            (_, false) => format!("{} failed, DSNs sent to their senders", changed(tally)),
        })
    }
}

impl Command for QueueFail {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer {
        match FailOrder::new(self.status.as_deref(), &self.reason, self.silent) {
            Ok(order) => failed(operator.fail(self.select, &order, answer).await),
            Err(why) => refused(why),
        }
    }
}

/// Removes messages without a report.
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
        "in delivery: removed unless delivered"
    }
}

impl Command for QueueRemove {
    async fn run<W: World>(self, operator: &Rc<Operator<W>>, answer: &CommandReply) -> ShardAnswer {
        failed(operator.remove(self.select, answer).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::merge::tests::text_of;

    #[test]
    fn a_report_shows_whether_senders_get_a_dsn() {
        let fail =
            |silent| QueueFail { select: Select::All, status: None, reason: "x".into(), silent };
        let tally = Tally { messages: 2, recipients: 2, ..Tally::default() };
        let flying = Tally { in_flight: 1, ..tally };
        assert_eq!(
            text_of(&fail(false), flying),
            "2 messages failed, DSNs sent to their senders; 1 recipient in delivery left alone"
        );
        assert_eq!(text_of(&fail(true), tally), "2 messages failed, no DSN sent");
    }

    #[test]
    fn removed_recipients_are_reported() {
        let remove = QueueRemove { select: Select::All };
        let tally = Tally { messages: 1, recipients: 3, ..Tally::default() };
        assert_eq!(text_of(&remove, tally), "3 recipients of 1 message removed");
    }
}
