//! What a token endpoint answers (RFC 6749 §5).

use auth::sasl::client::SECRET_BYTES_MAX;
use config::Secret;
use hyper::StatusCode;
use serde_json::Value;
use std::time::Duration;
use zeroize::Zeroizing;

/// A token of which nobody says how long it is good is taken to be good for so long.
const LASTS: Duration = Duration::from_secs(600);
/// A token is renewed after a day at the latest, however long it is good.
const LASTS_MAX: Duration = Duration::from_secs(86_400);
/// A token that ends sooner is of no use.
const LASTS_MIN: Duration = Duration::from_secs(10);
/// Before its end by so much, or by a tenth of its time where that is less.
const BEFORE_END: Duration = Duration::from_secs(300);
/// Words for what is wrong have no more octets.
const CODE_BYTES_MAX: usize = 64;

/// A token that was given out.
pub(super) struct TokenGrant {
    pub(super) token: Secret,
    pub(super) lasts: Duration,
    /// What it is renewed with from now on, if that is another (§6).
    pub(super) refresh_token: Option<Zeroizing<String>>,
}

impl TokenGrant {
    /// Reads an answer.
    ///
    /// # Errors
    /// What is wrong with it, in words that have nothing of a secret.
    pub(super) fn read(status: StatusCode, text: &[u8]) -> Result<TokenGrant, String> {
        let answer: Option<Value> = serde_json::from_slice(text).ok();
        let text_of = |key: &str| answer.as_ref()?.get(key)?.as_str();
        if status != StatusCode::OK {
            return Err(match text_of("error").filter(|code| is_code(code)) {
                Some(code) => format!("it returned {status}: {code}"),
                None => format!("it returned {status}"),
            });
        }
        let token = text_of("access_token").ok_or("its reply has no token")?;
        let is_fit = |token: &str| {
            (1..=SECRET_BYTES_MAX).contains(&token.len())
                && token.bytes().all(|byte| byte.is_ascii_graphic())
        };
        if !is_fit(token) {
            return Err("its reply has an unprintable token".to_owned());
        }
        // §7.1: what is of another type must not be used.
        if !text_of("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
            return Err("its reply has a token other than a bearer token".to_owned());
        }
        let seconds = match answer.as_ref().and_then(|answer| answer.get("expires_in")) {
            None | Some(Value::Null) => LASTS.as_secs_f64(),
            // Some write it as text.
            Some(Value::String(text)) => text.parse().unwrap_or(f64::NAN),
            Some(number) => number.as_f64().unwrap_or(f64::NAN),
        };
        if seconds.is_nan() || seconds < LASTS_MIN.as_secs_f64() {
            return Err("its reply has a token without lifetime".to_owned());
        }
        let lasts = Duration::from_secs_f64(seconds.min(LASTS_MAX.as_secs_f64()));
        let refresh_token = text_of("refresh_token").filter(|token| is_fit(token));
        Ok(TokenGrant {
            token: Secret(token.as_bytes().into()),
            lasts,
            refresh_token: refresh_token.map(|token| Zeroizing::new(token.to_owned())),
        })
    }

    /// When it is renewed, from when it was given out.
    pub(super) fn renewed_after(&self) -> Duration {
        self.lasts - BEFORE_END.min(self.lasts / 10)
    }
}

/// §5.2: printable ASCII without quotes; the ones that are registered are words.
fn is_code(code: &str) -> bool {
    (1..=CODE_BYTES_MAX).contains(&code.len())
        && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, u64, u64, Option<String>), String> {
        let granted = TokenGrant::read(StatusCode::OK, text.as_bytes())?;
        let token = String::from_utf8(granted.token.0.to_vec()).unwrap();
        let after = granted.renewed_after().as_secs();
        let refresh = granted.refresh_token.map(|token| token.to_string());
        Ok((token, granted.lasts.as_secs(), after, refresh))
    }

    #[test]
    fn tokens_are_renewed_before_their_end() {
        for (more, lasts, after) in [
            ("\"expires_in\":3600", 3_600, 3_300),
            ("\"expires_in\":\"100\"", 100, 90),
            ("\"expires_in\":10", 10, 9),
            ("\"expires_in\":null", 600, 540),
            ("\"x\":1", 600, 540),
            ("\"expires_in\":1e300", 86_400, 86_100),
        ] {
            let text = format!("{{\"access_token\":\"t\",\"token_type\":\"bearer\",{more}}}");
            assert_eq!(read(&text), Ok(("t".to_owned(), lasts, after, None)), "{more}");
        }
        let text = "{\"access_token\":\"t\",\"token_type\":\"Bearer\",\"refresh_token\":\"r\"}";
        assert_eq!(read(text).unwrap().3.as_deref(), Some("r"));
    }

    #[test]
    fn what_is_no_token_is_none_and_nothing_of_it_is_told() {
        let long =
            format!("{{\"access_token\":\"{}\",\"token_type\":\"Bearer\"}}", "x".repeat(8193));
        for (text, why) in [
            ("", "has no token"),
            ("<html>", "has no token"),
            ("[]", "has no token"),
            ("{\"access_token\":7}", "has no token"),
            ("{\"access_token\":\"\",\"token_type\":\"Bearer\"}", "unprintable token"),
            ("{\"access_token\":\"se cret\",\"token_type\":\"Bearer\"}", "unprintable token"),
            ("{\"access_token\":\"secret\\r\\n\",\"token_type\":\"Bearer\"}", "unprintable token"),
            (&long, "unprintable token"),
            ("{\"access_token\":\"secret\"}", "other than a bearer token"),
            ("{\"access_token\":\"secret\",\"token_type\":\"mac\"}", "other than a bearer token"),
            (
                "{\"access_token\":\"secret\",\"token_type\":\"Bearer\",\"expires_in\":9}",
                "without lifetime",
            ),
            (
                "{\"access_token\":\"secret\",\"token_type\":\"Bearer\",\"expires_in\":\"soon\"}",
                "without lifetime",
            ),
        ] {
            let told = read(text).unwrap_err();
            assert!(told.contains(why) && !told.contains("secret"), "{text}: {told}");
        }
    }

    #[test]
    fn a_refusal_is_told_by_its_code() {
        let told = |text: &str| {
            let read = TokenGrant::read(StatusCode::BAD_REQUEST, text.as_bytes());
            read.err().expect("it is a refusal")
        };
        let text = "{\"error\":\"invalid_grant\",\"error_description\":\"secret\"}";
        assert_eq!(told(text), "it returned 400 Bad Request: invalid_grant");
        for odd in ["", "{}", "{\"error\":\"a b\"}", "{\"error\":\"\\u001b[2J\"}"] {
            assert_eq!(told(odd), "it returned 400 Bad Request", "{odd}");
        }
    }
}
