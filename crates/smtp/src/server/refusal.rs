//! The refusals of a session, for its log and its counters.

use super::command::Verb;
use mail::Reply;

/// Bytes kept of an address that could not be parsed.
const SHOWN_BYTES_MAX: usize = 256;

/// A command, a recipient, a content or the session itself that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// `AUTH`, `MAIL`, `RCPT`, `DATA`, `content`; `command` for all others.
    pub step: &'static str,
    /// The reverse-path of the transaction, or what MAIL gave for one; empty for `<>`.
    pub sender: Option<Box<str>>,
    /// The recipient, where one was refused: as it was given when it was not understood.
    pub recipient: Option<Box<str>>,
    /// The reply that the client got.
    pub reply: Reply,
}

/// The step, sender and recipient that a refusal concerns.
#[derive(Clone, Copy, Debug)]
pub(super) struct About<'a> {
    pub(super) step: &'static str,
    pub(super) sender: Option<&'a str>,
    pub(super) recipient: Option<&'a str>,
}

impl<'a> About<'a> {
    pub(super) fn step(step: &'static str) -> About<'a> {
        About { step, sender: None, recipient: None }
    }

    /// A command that was refused before its argument was parsed.
    pub(super) fn command(verb: Verb, argument: &'a str) -> About<'a> {
        match verb {
            Verb::Mail => About { sender: Some(shown(argument)), ..About::step("MAIL") },
            Verb::Rcpt => About { recipient: Some(shown(argument)), ..About::step("RCPT") },
            Verb::Data | Verb::Bdat => About::step("DATA"),
            Verb::Auth => About::step("AUTH"),
            _ => About::step("command"),
        }
    }
}

/// The address in the argument of MAIL or RCPT, as far as it can be recognised.
fn shown(argument: &str) -> &str {
    let address = match argument.split_once(':') {
        Some((_, path)) => path.trim_start_matches([' ', '\t']),
        None => argument,
    };
    let address = match address.strip_prefix('<') {
        Some(inner) => inner.rsplit_once('>').map_or(inner, |(inner, _)| inner),
        None => address,
    };
    address.get(..address.floor_char_boundary(SHOWN_BYTES_MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_was_not_understood_is_shown_as_it_was_given() {
        assert_eq!(shown("TO:<a b@c> NOTIFY=X"), "a b@c");
        assert_eq!(shown("FROM: <a@b"), "a@b");
        assert_eq!(shown("FROM:<>"), "");
        assert_eq!(shown("a@b"), "a@b");
        assert_eq!(shown(&format!("TO:<{}>", "\u{e9}".repeat(200))).len(), 256);
    }
}
