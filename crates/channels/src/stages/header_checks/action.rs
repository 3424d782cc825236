//! Actions of header and body checks (Postfix's header_checks(5)).

use crate::stages::action::{Action, refusal_of};
use lookup::EntryText;
use mail::{EnhancedStatus, Mailbox, Refusal, RefusalClass};

/// Action on a message for one body line, or one header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LineAction {
    /// Continue with the next line.
    Next,
    /// Inspect nothing more of the message.
    Pass,
    Refuse(Refusal),
    /// Accept and discard the message.
    Discard(String),
    /// Hold the message for an operator.
    Hold(String),
    /// Remove the line; with a console line, or without.
    Remove {
        is_logged: bool,
    },
    /// Replace the line.
    Replace(String),
    /// Insert a line before it.
    Prepend(String),
    /// Replace all recipients.
    Redirect(Mailbox),
    /// Add a recipient.
    Copy(Mailbox),
    /// Log this text for the operator; as a warning, or not.
    Log {
        text: String,
        is_warning: bool,
    },
}

/// Text of a refusal without one, as in Postfix.
const REJECTED: &str = "Message content rejected";

impl LineAction {
    /// Parses a table's value. `is_header`: the line is a header field, which only another field may replace.
    ///
    /// # Errors
    /// A description of the error.
    pub(super) fn parse(value: &str, is_header: bool) -> Result<LineAction, String> {
        let value = value.trim();
        let (word, text) = value.split_once([' ', '\t']).unwrap_or((value, ""));
        let text = text.trim();
        let line = |action: fn(String) -> LineAction| match text {
            "" => Err(format!("{word} without a text")),
            _ if is_header && !is_field(text) => {
                Err(format!("{word} of a header field needs \"Name: value\", not {text:?}"))
            }
            _ => Ok(action(text.to_owned())),
        };
        match word.to_ascii_uppercase().as_str() {
            "DUNNO" | "OK" => Ok(LineAction::Next),
            "PASS" => Ok(LineAction::Pass),
            "REJECT" => Ok(LineAction::Refuse(rejected(text))),
            "IGNORE" => Ok(LineAction::Remove { is_logged: false }),
            "STRIP" => Ok(LineAction::Remove { is_logged: true }),
            "REPLACE" => line(LineAction::Replace),
            "PREPEND" => line(LineAction::Prepend),
            "WARN" => Ok(LineAction::Log { text: text.to_owned(), is_warning: true }),
            "INFO" => Ok(LineAction::Log { text: text.to_owned(), is_warning: false }),
            "HOLD" | "DISCARD" | "REDIRECT" | "BCC" => shared(value),
            _ if word.len() == 3 && word.starts_with(['4', '5']) => shared(value),
            _ => Err(format!("unknown action {value:?}")),
        }
    }

    /// Checks an entry when its table is read.
    ///
    /// # Errors
    /// A description of the error.
    pub(super) fn check(entry: &EntryText<'_>, is_header: bool) -> Result<(), String> {
        if !entry.goes_on {
            return LineAction::parse(entry.text, is_header).map(drop);
        }
        let Some((word, _)) = entry.text.trim_start().split_once([' ', '\t']) else {
            return Ok(());
        };
        // The text after the action is assumed to be valid for some lines.
        let some = match word.to_ascii_uppercase().as_str() {
            "REDIRECT" | "BCC" => "name@example.org",
            _ => "X-Name: text",
        };
        let parsed = LineAction::parse(&format!("{word} {some}"), is_header);
        parsed.map(drop).map_err(|_| format!("unknown action {word:?}"))
    }
}

/// Actions that access rules have as well.
fn shared(value: &str) -> Result<LineAction, String> {
    Ok(match Action::parse(value, "a header check")? {
        Action::Refuse(refusal) => LineAction::Refuse(refusal),
        Action::Hold(reason) => LineAction::Hold(reason),
        Action::Discard(reason) => LineAction::Discard(reason),
        Action::Redirect(mailbox) => LineAction::Redirect(mailbox),
        Action::Copy(mailbox) => LineAction::Copy(mailbox),
        _ => return Err(format!("unknown action {value:?}")),
    })
}

/// The text may begin with a status; one of class 4 defers.
pub(super) fn rejected(text: &str) -> Refusal {
    let is_later = text.starts_with("4.") && EnhancedStatus::parse_prefix(text).is_some();
    let class = if is_later { RefusalClass::Transient } else { RefusalClass::Permanent };
    let refusal = refusal_of(class, text).with_code(if is_later { 451 } else { 550 });
    match EnhancedStatus::parse_prefix(text).map_or(text, |(_, rest)| rest) {
        "" => Refusal { text: REJECTED.into(), ..refusal },
        _ => refusal,
    }
}

/// Returns true if the text begins with a field name and a colon (RFC 5322 §2.2).
fn is_field(text: &str) -> bool {
    mail::header::fields(text.as_bytes()).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Reply;

    fn reply(value: &str) -> String {
        match LineAction::parse(value, true) {
            Ok(LineAction::Refuse(refusal)) => Reply::from(refusal).to_string(),
            other => panic!("{value}: {other:?}"),
        }
    }

    #[test]
    fn refusals_have_the_status_of_their_text() {
        assert_eq!(reply("REJECT"), "550 5.7.1 Message content rejected");
        assert_eq!(reply("reject  No viruses "), "550 5.7.1 No viruses");
        assert_eq!(reply("REJECT 5.6.0 No"), "550 5.6.0 No");
        assert_eq!(reply("REJECT 4.7.1 Later"), "451 4.7.1 Later");
        assert_eq!(reply("REJECT 5.7.1"), "550 5.7.1 Message content rejected");
        assert_eq!(reply("554 5.7.0 No"), "554 5.7.0 No");
    }

    #[test]
    fn other_actions_and_errors() {
        let parse = |value, is_header| LineAction::parse(value, is_header);
        assert_eq!(parse("dunno", true), Ok(LineAction::Next));
        assert_eq!(parse("PASS all", true), Ok(LineAction::Pass));
        assert_eq!(parse("IGNORE", true), Ok(LineAction::Remove { is_logged: false }));
        assert_eq!(parse("STRIP why", false), Ok(LineAction::Remove { is_logged: true }));
        assert_eq!(parse("REPLACE A: b", true), Ok(LineAction::Replace("A: b".into())));
        assert_eq!(parse("REPLACE any", false), Ok(LineAction::Replace("any".into())));
        assert_eq!(parse("HOLD", true), Ok(LineAction::Hold("by a header check".into())));
        for bad in [
            "",
            "REPLACE",
            "REPLACE no field",
            "PREPEND a b: c",
            "FILTER x:y",
            "DELAY 5m",
            "BCC me",
            "RELAY",
            "40 x",
            "300 x",
        ] {
            assert!(parse(bad, true).is_err(), "{bad}");
        }
        assert!(parse("REPLACE", false).is_err());
    }

    #[test]
    fn entries_that_go_on_are_known_by_their_word() {
        let check = |text, goes_on| {
            LineAction::check(&EntryText { key: None, text, goes_on, so_far: None }, true).is_ok()
        };
        for right in ["REPLACE Subject: [x] ", "BCC ", "REJECT no ", "", "PREP"] {
            assert!(check(right, true), "{right}");
        }
        assert!(!check("FILTER smtp:", true) && !check("REPLACE Subject", false));
    }
}
