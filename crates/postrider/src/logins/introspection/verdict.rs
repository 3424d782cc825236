//! Parses an introspection response (RFC 7662 §2.2).

use auth::sasl::user_of;
use mail::Wall;
use serde_json::Value;
use std::time::Duration;

/// The result of an introspection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum IntrospectionResult {
    /// The token's user, and the remaining lifetime, if known.
    User { name: String, left: Option<Duration> },
    /// The token is unknown, expired or lacks the scope.
    Nobody,
}

impl IntrospectionResult {
    /// `claim` has the user's name; `scope` is the required scope of the token.
    ///
    /// # Errors
    /// Returns an error for an invalid response, or one without the user's name.
    pub(super) fn read(
        text: &[u8],
        now: Wall,
        claim: &str,
        scope: Option<&str>,
    ) -> Result<IntrospectionResult, &'static str> {
        let answer: Value = serde_json::from_slice(text).map_err(|_| "its reply is not JSON")?;
        let active = answer.get("active").and_then(Value::as_bool);
        if !active.ok_or("its reply has no `active`")? {
            return Ok(IntrospectionResult::Nobody);
        }
        let left = match answer.get("exp") {
            None | Some(Value::Null) => None,
            Some(ends) => {
                let ends = ends.as_f64().filter(|ends| *ends >= 0.0);
                let ends = ends.ok_or(
                    "`exp` in the reply of the introspection server is not a number of seconds",
                )?;
                let left = ends - Duration::from_millis(now.0).as_secs_f64();
                match Duration::try_from_secs_f64(left) {
                    Ok(left) if !left.is_zero() => Some(left),
                    // Beyond all that can be counted, or over.
                    _ if left > 0.0 => None,
                    _ => return Ok(IntrospectionResult::Nobody),
                }
            }
        };
        let scopes = answer.get("scope").and_then(Value::as_str).unwrap_or_default();
        if scope.is_some_and(|wanted| !scopes.split(' ').any(|scope| scope == wanted)) {
            return Ok(IntrospectionResult::Nobody);
        }
        let name = answer.get(claim).and_then(Value::as_str);
        let name = name.ok_or("its reply lacks the claim with the user name")?;
        let name = user_of(name.as_bytes()).ok_or("the user name is invalid")?;
        Ok(IntrospectionResult::User { name, left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Wall = Wall(1_800_000_000_000);

    fn read(text: &str) -> Result<IntrospectionResult, &'static str> {
        IntrospectionResult::read(text.as_bytes(), NOW, "username", Some("mail"))
    }

    fn jo(left: Option<Duration>) -> Result<IntrospectionResult, &'static str> {
        Ok(IntrospectionResult::User { name: "jo".into(), left })
    }

    #[test]
    fn verdicts() {
        assert_eq!(read(r#"{"active":true,"username":"jo","scope":"a mail"}"#), jo(None));
        let second = Some(Duration::from_secs(1));
        let until = r#"{"active":true,"username":"jo","scope":"mail","exp":1800000001,"x":[1]}"#;
        assert_eq!(read(until), jo(second));
        let far = r#"{"active":true,"username":"jo","scope":"mail","exp":1e300}"#;
        assert_eq!(read(far), jo(None));
        for nobodys in [
            r#"{"active":false}"#,
            r#"{"active":false,"username":"jo","scope":"mail"}"#,
            r#"{"active":true,"username":"jo","scope":"mail","exp":1800000000}"#,
            r#"{"active":true,"username":"jo","scope":"mailbox"}"#,
            r#"{"active":true,"username":"jo"}"#,
        ] {
            assert_eq!(read(nobodys), Ok(IntrospectionResult::Nobody), "{nobodys}");
        }
        for bad in [
            "",
            "<html>",
            "[]",
            "{}",
            r#"{"active":"true","username":"jo","scope":"mail"}"#,
            r#"{"active":true,"scope":"mail"}"#,
            r#"{"active":true,"username":7,"scope":"mail"}"#,
            r#"{"active":true,"username":"a\nb","scope":"mail"}"#,
            r#"{"active":true,"username":"","scope":"mail"}"#,
            r#"{"active":true,"username":"jo","scope":"mail","exp":"soon"}"#,
            r#"{"active":true,"username":"jo","scope":"mail","exp":-1}"#,
            r#"{"active":true"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
