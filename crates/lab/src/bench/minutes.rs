//! A line for each minute of a run that keeps mail, as the publication prints it.

use super::report::Minute;
use crate::stand::MinuteLine;

/// What is in the mailboxes at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stock {
    /// Accepted, and found in no mailbox.
    pub(super) backlog: u64,
    /// Messages in all mailboxes.
    pub(super) messages: u64,
    /// Mailboxes that have mail.
    pub(super) mailboxes: u64,
}

/// Gathers them.
#[derive(Clone, Debug, Default)]
pub(super) struct Minutes(Vec<Minute>);

impl Minutes {
    /// Takes what sources have told since the last time, and tells it on, with what the mailboxes
    /// have now.
    pub(super) fn handle_lines(&mut self, lines: &[MinuteLine], stock: Stock) {
        for line in lines.iter().skip(self.0.len()) {
            let minute = Minute {
                number: self.0.len() as u32 + 1,
                messages: line.messages,
                kilobytes: line.kilobytes,
                errors: line.errors,
                connections: line.connections,
                backlog: stock.backlog,
                in_mailboxes: stock.messages,
                mailboxes: stock.mailboxes,
            };
            eprintln!("{}", shown(&minute));
            self.0.push(minute);
        }
    }

    pub(super) fn done(self) -> Vec<Minute> {
        self.0
    }
}

fn shown(minute: &Minute) -> String {
    let Minute { number, messages, kilobytes, errors, connections, .. } = minute;
    let Minute { backlog, in_mailboxes, mailboxes, .. } = minute;
    format!(
        "minute {number}: {messages} messages, {kilobytes} kB, {errors} errors, {connections} \
         connections; backlog {backlog}, {in_mailboxes} in {mailboxes} mailboxes"
    )
}

#[cfg(test)]
mod tests {
    use super::{Minutes, Stock, shown};
    use crate::stand::MinuteLine;

    #[test]
    fn each_line_is_taken_once_with_what_there_was_then() {
        let line = |messages| MinuteLine { messages, kilobytes: 2, errors: 0, connections: 3 };
        let stock = |backlog| Stock { backlog, messages: 10, mailboxes: 4 };
        let mut minutes = Minutes::default();
        minutes.handle_lines(&[], stock(1));
        minutes.handle_lines(&[line(5)], stock(2));
        minutes.handle_lines(&[line(5)], stock(3));
        minutes.handle_lines(&[line(5), line(6)], stock(4));
        let done = minutes.done();
        let seen: Vec<(u32, u64, u64)> =
            done.iter().map(|minute| (minute.number, minute.messages, minute.backlog)).collect();
        assert_eq!(seen, [(1, 5, 2), (2, 6, 4)]);
        let text =
            "minute 2: 6 messages, 2 kB, 0 errors, 3 connections; backlog 4, 10 in 4 mailboxes";
        assert_eq!(shown(&done[1]), text);
    }
}
