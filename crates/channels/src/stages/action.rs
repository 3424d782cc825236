//! Actions of policy services and access tables: those of Postfix's access(5) that concern one recipient.

use auth::judgement::ActionLimit;
use lookup::EntryText;
use mail::{EnhancedStatus, Mailbox, Notify, Recipient, Refusal, RefusalClass};
use mta::console::Console;
use mta::ingress::{Resolved, TransactionView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Action on a recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// No decision.
    Pass,
    /// Accepts: further rules of the same list are skipped.
    Permit,
    Refuse(Refusal),
    /// Refuse, unless a later rule does.
    DeferIfPermit(Refusal),
    /// Refuse so if a later rule rejects.
    DeferIfReject(Refusal),
    /// Add a header field.
    Prepend(String),
    /// Hold the message for an operator.
    Hold(String),
    /// Accept and discard.
    Discard(String),
    /// Replace the recipient.
    Redirect(Mailbox),
    /// Add a recipient.
    Copy(Mailbox),
    /// No decision; a text is logged for the operator.
    Log(String),
}

/// Effect of an action on its recipient, unless it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ActionEffect {
    /// No decision.
    Open,
    /// Further rules of the same list are skipped.
    Permitted,
    /// Refused so if no later rule refuses.
    DeferredIfPermitted(Refusal),
    /// Refused so if a later rule of the same list rejects.
    DeferredIfRejected(Refusal),
    /// Final: discarded or redirected.
    Settled(Resolved),
}

impl Action {
    /// Parses an action. `by` names its origin, for actions without a reason.
    ///
    /// # Errors
    /// A description of the error.
    pub(super) fn parse(action: &str, by: &str) -> Result<Action, String> {
        let action = action.trim();
        let (word, text) = action.split_once([' ', '\t']).unwrap_or((action, ""));
        let text = text.trim();
        let reason = || if text.is_empty() { format!("by {by}") } else { text.to_owned() };
        if let Some(refusal) = coded(word, text) {
            return Ok(Action::Refuse(refusal));
        }
        Ok(match word.to_ascii_uppercase().as_str() {
            "DUNNO" => Action::Pass,
            "OK" | "PERMIT" | "RELAY" => Action::Permit,
            "REJECT" => Action::Refuse(refusal_of(RefusalClass::Permanent, text)),
            "DEFER" => Action::Refuse(refusal_of(RefusalClass::Transient, text)),
            "DEFER_IF_PERMIT" => Action::DeferIfPermit(refusal_of(RefusalClass::Transient, text)),
            "DEFER_IF_REJECT" => Action::DeferIfReject(refusal_of(RefusalClass::Transient, text)),
            "PREPEND" if text.split_once(':').is_some_and(|(name, _)| is_field_name(name)) => {
                Action::Prepend(text.to_owned())
            }
            "HOLD" => Action::Hold(reason()),
            "DISCARD" => Action::Discard(reason()),
            "REDIRECT" => Action::Redirect(address(text)?),
            "BCC" => Action::Copy(address(text)?),
            "WARN" | "INFO" => Action::Log(text.to_owned()),
            // A time stamp, from tools that keep tables of authorized clients (POP before SMTP).
            word if is_number(word) && text.is_empty() => Action::Permit,
            _ => return Err(format!("unknown action {action:?}")),
        })
    }

    /// The action of a table entry. `None` if it depends on the text that a pattern matches.
    ///
    /// # Errors
    /// A description of the error.
    pub(super) fn of_entry(entry: &EntryText<'_>) -> Result<Option<Action>, String> {
        let by = "an access rule";
        if !entry.goes_on {
            return Action::parse(entry.text, by).map(Some);
        }
        let Some((word, _)) = entry.text.trim_start().split_once([' ', '\t']) else {
            return Ok(None);
        };
        // The text after the action is assumed to be valid for some keys.
        let some = match word.to_ascii_uppercase().as_str() {
            "PREPEND" => "X-Name: text",
            _ => "name@example.org",
        };
        let unknown = |_| format!("unknown action {word:?}");
        Action::parse(&format!("{word} {some}"), by).map(Some).map_err(unknown)
    }

    /// The keyword of an action that only internet mail can have.
    pub(super) fn word_of_mail(&self) -> Option<&'static str> {
        match self {
            Action::Prepend(_) => Some("PREPEND"),
            Action::Discard(_) => Some("DISCARD"),
            Action::Redirect(_) => Some("REDIRECT"),
            Action::Copy(_) => Some("BCC"),
            Action::Pass
            | Action::Permit
            | Action::Refuse(_)
            | Action::DeferIfPermit(_)
            | Action::DeferIfReject(_)
            | Action::Hold(_)
            | Action::Log(_) => None,
        }
    }

    /// Performs the immediate part of the action. `who` is its origin, for the log.
    ///
    /// # Errors
    /// The recipient is refused.
    pub(super) fn take(
        self,
        transaction: &TransactionView,
        recipient: &Recipient,
        console: &dyn Console,
        (kind, who): (&'static str, &dyn fmt::Display),
    ) -> Result<ActionEffect, Refusal> {
        match &self {
            Action::Prepend(field) => transaction.prepend(field),
            Action::Hold(reason) => transaction.hold(reason),
            Action::Copy(mailbox) => {
                let mailbox = mailbox.clone();
                // The sender does not know of the copy, and gets no DSN about it.
                let copy = Recipient { mailbox, notify: Notify::NEVER, orcpt: None };
                transaction.add_recipient(copy);
            }
            Action::Log(text) => console.info(kind, format_args!("{who}: {text}")),
            _ => {}
        }
        self.effect(recipient)
    }

    /// The effect of the action on its recipient.
    ///
    /// # Errors
    /// The recipient is refused.
    pub(super) fn effect(self, recipient: &Recipient) -> Result<ActionEffect, Refusal> {
        Ok(match self {
            Action::Permit => ActionEffect::Permitted,
            Action::Refuse(refusal) => return Err(refusal),
            Action::DeferIfPermit(refusal) => ActionEffect::DeferredIfPermitted(refusal),
            Action::DeferIfReject(refusal) => ActionEffect::DeferredIfRejected(refusal),
            Action::Discard(reason) => ActionEffect::Settled(Resolved::Dropped(reason.into())),
            Action::Redirect(mailbox) => {
                let other = Recipient { mailbox, ..recipient.clone() };
                ActionEffect::Settled(Resolved::Replaced([other.into()].into()))
            }
            Action::Pass
            | Action::Prepend(_)
            | Action::Hold(_)
            | Action::Copy(_)
            | Action::Log(_) => ActionEffect::Open,
        })
    }
}

fn address(text: &str) -> Result<Mailbox, String> {
    Mailbox::parse(text, true)
        .ok()
        .filter(|mailbox| mailbox.has_domain())
        .ok_or_else(|| format!("\"{text}\" is not an address"))
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// RFC 5322 §3.6.8.
fn is_field_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Actions like `450 4.7.1 text`. 421 ends the session.
fn coded(word: &str, text: &str) -> Option<Refusal> {
    let class = match word.as_bytes() {
        [b'4', b'0'..=b'9', b'0'..=b'9'] => RefusalClass::Transient,
        [b'5', b'0'..=b'9', b'0'..=b'9'] => RefusalClass::Permanent,
        _ => return None,
    };
    let refusal = refusal_of(class, text);
    if word == "421" {
        return Some(refusal.closing());
    }
    Some(Refusal { chosen_code: word.parse().ok(), ..refusal })
}

/// `text` may begin with an enhanced status code. The default is X.7.1, policy.
pub(super) fn refusal_of(class: RefusalClass, text: &str) -> Refusal {
    let digit = if class == RefusalClass::Permanent { 5 } else { 4 };
    let (status, text) = match EnhancedStatus::parse_prefix(text) {
        Some((status, text)) if status.class == digit => (status, text),
        Some((_, text)) => (EnhancedStatus::new(digit, 7, 1), text),
        None => (EnhancedStatus::new(digit, 7, 1), text),
    };
    let text = match (text, digit) {
        ("", 5) => "Access denied",
        ("", _) => "Try again later",
        _ => text,
    };
    Refusal { class, status, text: text.to_owned().into(), chosen_code: None }
}

/// Action for a failed check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Check {
    /// The check is off.
    #[default]
    None,
    /// Record the result in Authentication-Results, events and metrics.
    Mark,
    /// Also hold a message that fails for an operator.
    Hold,
    /// Also reject a message that fails.
    Reject,
}

impl Check {
    pub(crate) fn power(self) -> ActionLimit {
        match self {
            Check::None => ActionLimit::None,
            Check::Mark => ActionLimit::Mark,
            Check::Hold => ActionLimit::Hold,
            Check::Reject => ActionLimit::Reject,
        }
    }
}

/// Describes for people the action that a check may take. `None` if the check is off.
pub(crate) fn said(check: &str, power: ActionLimit) -> Option<String> {
    let does = match power {
        ActionLimit::None => return None,
        ActionLimit::Mark => "marks",
        ActionLimit::Hold => "holds",
        ActionLimit::Reject => "refuses",
    };
    Some(format!("{check} {does}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Reply;
    use proptest::prelude::*;

    #[test]
    fn refusals_are_read_as_postfix_reads_them() {
        for (answer, reply) in [
            ("REJECT", "550 5.7.1 Access denied"),
            ("reject Not here", "550 5.7.1 Not here"),
            ("REJECT 5.1.1 Nobody", "550 5.1.1 Nobody"),
            ("REJECT 4.1.1 Nobody", "550 5.7.1 Nobody"),
            ("DEFER", "450 4.7.1 Try again later"),
            (
                "DEFER_IF_PERMIT Greylisted, see http://x.test/",
                "450 4.7.1 Greylisted, see http://x.test/",
            ),
            ("DEFER_IF_PERMIT 4.2.0 Greylisted", "450 4.2.0 Greylisted"),
            ("451 4.3.0 later", "451 4.3.0 later"),
            ("554 no", "554 5.7.1 no"),
            ("553 5.1.8 Not your address", "553 5.1.8 Not your address"),
            ("550", "550 5.7.1 Access denied"),
            ("421 4.7.0 bye", "421 4.7.0 bye"),
        ] {
            let action = Action::parse(answer, "a table");
            let Ok(Action::Refuse(refusal) | Action::DeferIfPermit(refusal)) = action else {
                panic!("{answer}: {action:?}")
            };
            assert_eq!(Reply::from(refusal).to_string(), reply, "{answer}");
        }
    }

    #[test]
    fn the_other_actions_and_what_is_none() {
        let parse = |answer: &str| Action::parse(answer, "a table");
        for pass in ["DUNNO", "dunno "] {
            assert_eq!(parse(pass), Ok(Action::Pass), "{pass}");
        }
        for permit in ["OK", "Permit", "OK really", "RELAY", "1700000000"] {
            assert_eq!(parse(permit), Ok(Action::Permit), "{permit}");
        }
        let field = "X-Greylist: delayed 300 seconds by postgrey";
        assert_eq!(parse(&format!("PREPEND {field}")), Ok(Action::Prepend(field.into())));
        assert_eq!(parse("HOLD"), Ok(Action::Hold("by a table".into())));
        assert_eq!(parse("DISCARD spam"), Ok(Action::Discard("spam".into())));
        assert_eq!(parse("WARN hm"), Ok(Action::Log("hm".into())));
        let other = address("jo@x.test").expect("an address");
        assert_eq!(parse("REDIRECT jo@x.test"), Ok(Action::Redirect(other.clone())));
        assert_eq!(parse("bcc jo@x.test"), Ok(Action::Copy(other)));
        for bad in [
            "",
            "PREPEND no field",
            "PREPEND a b: c",
            "FILTER x:y",
            "40 x",
            "450x y",
            "REDIRECT",
            "REDIRECT jo",
            "BCC postmaster",
            "permit_mynetworks, reject",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_entry_that_goes_on_with_what_was_matched_is_known_by_its_word() {
        let of =
            |text, goes_on| Action::of_entry(&EntryText { key: None, text, goes_on, so_far: None });
        let word = |text| of(text, true).map(|action| action.and_then(|it| it.word_of_mail()));
        for (text, known) in [
            ("", Ok(None)),
            ("REDI", Ok(None)),
            ("REDIRECT ", Ok(Some("REDIRECT"))),
            ("BCC archive-", Ok(Some("BCC"))),
            ("prepend X-Was: ", Ok(Some("PREPEND"))),
            ("PREPEND ", Ok(Some("PREPEND"))),
            ("DISCARD of ", Ok(Some("DISCARD"))),
            ("REJECT Nobody has ", Ok(None)),
            ("550 5.1.1 ", Ok(None)),
        ] {
            assert_eq!(word(text), known, "{text}");
        }
        assert!(of("FILTER smtp:", true).is_err());
        assert!(of("REDIRECT ", false).is_err(), "an address is missing");
    }

    proptest! {
        #[test]
        fn any_answer_is_read(answer: String) {
            if let Ok(Action::Refuse(refusal)) = Action::parse(&answer, "a table") {
                prop_assert!((400..600).contains(&refusal.code()));
            }
        }
    }
}
