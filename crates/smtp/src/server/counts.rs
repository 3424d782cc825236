//! Counts of a session's commands, for the log line at its end, as smtpd(8) of Postfix writes it.

use super::command::Verb;
use std::fmt;

/// Names in the order of Postfix's table of commands; the last one is for all that is not a command.
const NAMES: [&str; 16] = [
    "helo", "ehlo", "lhlo", "xclient", "starttls", "auth", "mail", "rcpt", "data", "bdat", "rset",
    "noop", "vrfy", "help", "quit", "unknown",
];
const UNKNOWN: usize = NAMES.len() - 1;

/// Commands of a session by name, and those that were rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandCounts {
    all: [u32; NAMES.len()],
    rejected: [u32; NAMES.len()],
    last: Option<usize>,
    /// The content of a message has ended since the last command.
    is_after_message: bool,
    had_too_many_errors: bool,
    timed_out: bool,
}

impl CommandCounts {
    pub(super) fn count(&mut self, verb: Verb) {
        let at = index(verb);
        if let Some(count) = self.all.get_mut(at) {
            *count = count.saturating_add(1);
        }
        (self.last, self.is_after_message) = (Some(at), false);
    }

    /// The command of this step was rejected, or the message that it began.
    pub(super) fn reject(&mut self, step: &str) {
        let last = self.last.unwrap_or(UNKNOWN);
        let is_chunk = last == index(Verb::Bdat);
        let at = match step {
            "MAIL" => index(Verb::Mail),
            "RCPT" => index(Verb::Rcpt),
            "AUTH" => index(Verb::Auth),
            "STARTTLS" => index(Verb::StartTls),
            "DATA" | "content" if is_chunk => last,
            "DATA" | "content" => index(Verb::Data),
            _ => last,
        };
        if let (Some(rejected), Some(all)) = (self.rejected.get_mut(at), self.all.get(at)) {
            // A message and its command are one.
            *rejected = rejected.saturating_add(1).min(*all);
        }
    }

    pub(super) fn note_message(&mut self) {
        self.is_after_message = true;
    }

    /// The client went within the content of a message.
    pub(super) fn note_lost_content(&mut self) {
        self.reject("content");
    }

    pub(super) fn note_errors(&mut self) {
        self.had_too_many_errors = true;
    }

    pub(super) fn note_timeout(&mut self) {
        self.timed_out = true;
    }

    /// The last command in capitals; `CONNECT` before the first, `END-OF-MESSAGE` after content.
    #[must_use]
    pub fn last(&self) -> &'static str {
        const CAPITALS: [&str; NAMES.len()] = [
            "HELO", "EHLO", "LHLO", "XCLIENT", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA", "BDAT",
            "RSET", "NOOP", "VRFY", "HELP", "QUIT", "UNKNOWN",
        ];
        match self.last {
            Some(_) if self.is_after_message => "END-OF-MESSAGE",
            Some(at) => CAPITALS.get(at).copied().unwrap_or("UNKNOWN"),
            None => "CONNECT",
        }
    }

    /// Returns true if the client ended the session with QUIT.
    #[must_use]
    pub fn has_quit(&self) -> bool {
        self.last == Some(index(Verb::Quit))
    }

    /// Returns true if the session ended because of too many errors.
    #[must_use]
    pub fn had_too_many_errors(&self) -> bool {
        self.had_too_many_errors
    }

    /// Returns true if the session ended because of a timeout.
    #[must_use]
    pub fn has_timed_out(&self) -> bool {
        self.timed_out
    }
}

/// As Postfix writes them: ` ehlo=1 mail=1 rcpt=0/1 commands=2/3`, accepted ones before all.
impl fmt::Display for CommandCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut write = |name: &str, all: u64, rejected: u64| match rejected {
            0 if all > 0 => write!(f, " {name}={all}"),
            _ => write!(f, " {name}={}/{all}", all.saturating_sub(rejected)),
        };
        let (mut total, mut total_rejected) = (0_u64, 0_u64);
        for ((name, &all), &rejected) in NAMES.iter().zip(&self.all).zip(&self.rejected) {
            total = total.saturating_add(u64::from(all));
            total_rejected = total_rejected.saturating_add(u64::from(rejected));
            if all > 0 {
                write(name, u64::from(all), u64::from(rejected))?;
            }
        }
        write("commands", total, total_rejected)
    }
}

fn index(verb: Verb) -> usize {
    match verb {
        Verb::Helo => 0,
        Verb::Ehlo => 1,
        Verb::Lhlo => 2,
        Verb::Xclient => 3,
        Verb::StartTls => 4,
        Verb::Auth => 5,
        Verb::Mail => 6,
        Verb::Rcpt => 7,
        Verb::Data => 8,
        Verb::Bdat => 9,
        Verb::Rset => 10,
        Verb::Noop => 11,
        Verb::Vrfy => 12,
        Verb::Help => 13,
        Verb::Quit => 14,
        Verb::Unimplemented | Verb::Http | Verb::Field | Verb::Unknown => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_as_postfix_writes_them() {
        let mut counts = CommandCounts::default();
        assert_eq!((counts.to_string(), counts.last()), (" commands=0/0".to_owned(), "CONNECT"));
        for verb in [Verb::Ehlo, Verb::Mail, Verb::Rcpt] {
            counts.count(verb);
        }
        counts.reject("RCPT");
        counts.count(Verb::Rcpt);
        assert_eq!(counts.last(), "RCPT");
        counts.count(Verb::Data);
        counts.note_message();
        assert_eq!(counts.last(), "END-OF-MESSAGE");
        // The content, and the command before it, are one command.
        counts.reject("content");
        counts.reject("DATA");
        counts.count(Verb::Http);
        counts.reject("command");
        counts.count(Verb::Quit);
        assert!(counts.has_quit());
        assert_eq!(
            counts.to_string(),
            " ehlo=1 mail=1 rcpt=1/2 data=0/1 quit=1 unknown=0/1 commands=4/7"
        );
        let all = counts.all.iter().sum::<u32>();
        assert_eq!(all, 7);
        assert!(index(Verb::Quit) < UNKNOWN && NAMES[index(Verb::Quit)] == "quit");
    }
}
