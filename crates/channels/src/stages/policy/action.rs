//! What a policy service answers: the actions of Postfix's access(5), as far as they concern one
//! recipient.

use mail::{EnhancedStatus, Refusal, RefusalClass};

/// What shall become of a recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing is said against it.
    Pass,
    Refuse(Refusal),
    /// The message gets a header field.
    Prepend(String),
    /// The message waits for an operator.
    Hold(String),
    /// It is taken, and nothing is kept for it.
    Discard(String),
    /// Nothing is said against it, and something is told to the operator.
    Log(String),
}

impl Action {
    /// Reads an answer: lines up to an empty one, one of which is `action=…`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(answer: &str) -> Result<Action, String> {
        let action = answer.lines().find_map(|line| line.strip_prefix("action="));
        let Some(action) = action else { return Err("an answer without an action".to_owned()) };
        let action = action.trim();
        let (word, text) = action.split_once([' ', '\t']).unwrap_or((action, ""));
        let text = text.trim();
        let or = |words: &str| if text.is_empty() { words.to_owned() } else { text.to_owned() };
        if let Some(refusal) = coded(word, text) {
            return Ok(Action::Refuse(refusal));
        }
        Ok(match word.to_ascii_uppercase().as_str() {
            // Only recipients that are taken are asked about: nothing is to be deferred that would
            // be rejected.
            "DUNNO" | "OK" | "PERMIT" | "DEFER_IF_REJECT" => Action::Pass,
            "REJECT" => Action::Refuse(refusal(RefusalClass::Permanent, text)),
            "DEFER" | "DEFER_IF_PERMIT" => Action::Refuse(refusal(RefusalClass::Transient, text)),
            "PREPEND" if text.split_once(':').is_some_and(|(name, _)| is_field_name(name)) => {
                Action::Prepend(text.to_owned())
            }
            "HOLD" => Action::Hold(or("a policy service said so")),
            "DISCARD" => Action::Discard(or("a policy service said so")),
            "WARN" | "INFO" => Action::Log(or("")),
            _ => return Err(format!("an action that is not known: {action:?}")),
        })
    }
}

/// RFC 5322 §3.6.8.
fn is_field_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `450 4.7.1 text` and its like; 421 ends the session.
fn coded(word: &str, text: &str) -> Option<Refusal> {
    let class = match word.as_bytes() {
        [b'4', b'0'..=b'9', b'0'..=b'9'] => RefusalClass::Transient,
        [b'5', b'0'..=b'9', b'0'..=b'9'] => RefusalClass::Permanent,
        _ => return None,
    };
    let refusal = refusal(class, text);
    Some(if word == "421" { refusal.closing() } else { refusal })
}

/// `text` may begin with a status; without one it is 7.1, a matter of policy.
fn refusal(class: RefusalClass, text: &str) -> Refusal {
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
    Refusal { class, status, text: text.to_owned().into() }
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
            ("554 no", "550 5.7.1 no"),
            ("421 4.7.0 bye", "421 4.7.0 bye"),
        ] {
            let action = Action::parse(&format!("action={answer}\n\n"));
            let Ok(Action::Refuse(refusal)) = action else { panic!("{answer}: {action:?}") };
            assert_eq!(Reply::from(refusal).to_string(), reply, "{answer}");
        }
    }

    #[test]
    fn the_other_actions_and_what_is_none() {
        let parse = |answer: &str| Action::parse(&format!("x=y\naction={answer}\n\n"));
        for pass in ["DUNNO", "dunno ", "OK", "PERMIT", "DEFER_IF_REJECT why", "OK really"] {
            assert_eq!(parse(pass), Ok(Action::Pass), "{pass}");
        }
        let field = "X-Greylist: delayed 300 seconds by postgrey";
        assert_eq!(parse(&format!("PREPEND {field}")), Ok(Action::Prepend(field.into())));
        assert_eq!(parse("HOLD"), Ok(Action::Hold("a policy service said so".into())));
        assert_eq!(parse("DISCARD spam"), Ok(Action::Discard("spam".into())));
        assert_eq!(parse("WARN hm"), Ok(Action::Log("hm".into())));
        for bad in ["", "PREPEND no field", "PREPEND a b: c", "FILTER x:y", "40 x", "450x y"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(Action::parse("\n").is_err() && Action::parse("act=OK\n\n").is_err());
    }

    proptest! {
        #[test]
        fn any_answer_is_read(answer: String) {
            if let Ok(Action::Refuse(refusal)) = Action::parse(&format!("action={answer}")) {
                prop_assert!((400..600).contains(&refusal.code()));
            }
        }
    }
}
