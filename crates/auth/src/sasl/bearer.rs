//! Tokens of OAuth 2.0 servers: OAUTHBEARER (RFC 7628), and XOAUTH2 as Google and Microsoft have it; the
//! server's side.

use super::scram::unescaped;
use super::{LoginFailure, user_of};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of a token. Those of Microsoft have some 2,000.
pub const TOKEN_BYTES_MAX: usize = 8_192;

/// Between the parts of a message, and alone the answer to a refusal (RFC 7628 §3.1, §3.2.3).
const END: char = '\u{1}';

/// A bearer token, used in place of a password. It is never shown, and overwritten when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Zeroizing<Box<str>>);

impl Token {
    /// RFC 6750 §2.1: `b64token`.
    fn new(text: &str) -> Option<Token> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
        let stem = text.trim_end_matches('=');
        let fits = !stem.is_empty() && text.len() <= TOKEN_BYTES_MAX && stem.bytes().all(is_token);
        fits.then(|| Token(Zeroizing::new(text.into())))
    }

    /// Its key in a cache.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        crate::digest::sha256(self.0.as_bytes())
    }

    /// The body of an introspection request (RFC 7662 §2.1).
    #[must_use]
    pub fn question(&self) -> Zeroizing<String> {
        let token = Zeroizing::new(form_encoded(&self.0));
        Zeroizing::new(format!("token={}&token_type_hint=access_token", *token))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// A token, and its claimed user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presented {
    /// `None`: only the token identifies the user.
    pub user: Option<String>,
    pub token: Token,
}

/// RFC 7628 §3.1: `n,a=USER,^Ahost=…^Aport=…^Aauth=Bearer TOKEN^A^A`.
pub(super) fn oauthbearer(message: &[u8]) -> Result<Presented, LoginFailure> {
    let text = std::str::from_utf8(message).map_err(|_| LoginFailure::Form)?;
    let (header, pairs) = text.split_once(END).ok_or(LoginFailure::Form)?;
    // RFC 5801 §4: no channel is bound.
    let mut header = header.split(',');
    let (Some("n" | "y"), Some(identity), Some(""), None) =
        (header.next(), header.next(), header.next(), header.next())
    else {
        return Err(LoginFailure::Form);
    };
    let user = match identity.strip_prefix("a=") {
        Some(name) => {
            let name = unescaped(name).and_then(|name| user_of(name.as_bytes()));
            Some(name.ok_or(LoginFailure::Form)?)
        }
        None if identity.is_empty() => None,
        None => return Err(LoginFailure::Form),
    };
    Ok(Presented { user, token: token_in(pairs)? })
}

/// `user=USER^Aauth=Bearer TOKEN^A^A`.
pub(super) fn xoauth2(message: &[u8]) -> Result<Presented, LoginFailure> {
    let text = std::str::from_utf8(message).map_err(|_| LoginFailure::Form)?;
    let (user, pairs) = text.split_once(END).ok_or(LoginFailure::Form)?;
    let user = user.strip_prefix("user=").and_then(|user| user_of(user.as_bytes()));
    Ok(Presented { user: Some(user.ok_or(LoginFailure::Form)?), token: token_in(pairs)? })
}

/// The token in a list of terminated pairs.
fn token_in(pairs: &str) -> Result<Token, LoginFailure> {
    let pairs = pairs.strip_suffix(END).ok_or(LoginFailure::Form)?;
    if !pairs.is_empty() && !pairs.ends_with(END) {
        return Err(LoginFailure::Form);
    }
    let mut token = None;
    for pair in pairs.split_terminator(END) {
        let (key, value) = pair.split_once('=').ok_or(LoginFailure::Form)?;
        if key != "auth" {
            continue;
        }
        // The scheme is case-insensitive (RFC 7235 §2.1).
        let (scheme, value) = value.split_once(' ').ok_or(LoginFailure::Form)?;
        if token.is_some() || !scheme.eq_ignore_ascii_case("Bearer") {
            return Err(LoginFailure::Form);
        }
        token = Some(Token::new(value.trim_matches(' ')).ok_or(LoginFailure::Form)?);
    }
    token.ok_or(LoginFailure::Form)
}

/// The error sent to a client with a rejected token (RFC 7628 §3.2.2). Its response is ignored, and then the login
/// fails.
#[must_use]
pub fn refusal(is_xoauth2: bool, scope: Option<&str>) -> String {
    let status = if is_xoauth2 { "401" } else { "invalid_token" };
    match scope {
        // As configured, without quotes or backslashes.
        Some(scope) => {
            format!("{{\"status\":\"{status}\",\"schemes\":\"bearer\",\"scope\":\"{scope}\"}}")
        }
        None => format!("{{\"status\":\"{status}\",\"schemes\":\"bearer\"}}"),
    }
}

/// The requester's credentials in the field Authorization (RFC 6749 §2.3.1).
#[must_use]
pub fn authorization(client_id: &str, secret: &str) -> Zeroizing<String> {
    let pair = Zeroizing::new(format!("{}:{}", form_encoded(client_id), form_encoded(secret)));
    Zeroizing::new(format!("Basic {}", STANDARD.encode(pair.as_bytes())))
}

/// Encodes for a form (application/x-www-form-urlencoded).
#[must_use]
pub fn form_encoded(text: &str) -> String {
    let mut out = String::with_capacity(3 * text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            byte if byte.is_ascii_alphanumeric() || b"-._*".contains(&byte) => {
                out.push(char::from(byte));
            }
            byte => out.extend(['%', hex(byte >> 4), hex(byte & 15)]),
        }
    }
    out
}

fn hex(digit: u8) -> char {
    char::from_digit(u32::from(digit), 16).unwrap_or('0').to_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_a_form() {
        let token = Token::new("a.b-c~d/e+f==").unwrap();
        let form = "token=a.b-c%7Ed%2Fe%2Bf%3D%3D&token_type_hint=access_token";
        assert_eq!(*token.question(), form);
        assert_ne!(token.digest(), Token::new("x").unwrap().digest());
        // `a+b:%C3%B6%26`
        assert_eq!(*authorization("a b", "\u{f6}&"), "Basic YStiOiVDMyVCNiUyNg==");
    }

    fn presented(user: Option<&str>, token: &str) -> Presented {
        Presented { user: user.map(str::to_owned), token: Token::new(token).unwrap() }
    }

    #[test]
    fn oauthbearer_is_as_rfc_7628_shows_it() {
        let message = b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01\
            auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01";
        let token = "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==";
        assert_eq!(oauthbearer(message), Ok(presented(Some("user@example.com"), token)));
        assert_eq!(oauthbearer(b"n,,\x01auth=bearer  x \x01\x01"), Ok(presented(None, "x")));
        assert_eq!(
            oauthbearer(b"y,a=a=2Cb,\x01auth=Bearer x\x01\x01"),
            Ok(presented(Some("a,b"), "x"))
        );
        for bad in [
            "",
            "\u{1}",
            "n,,",
            "n,,\u{1}\u{1}",
            "n,,\u{1}auth=Bearer x\u{1}",
            "n,,\u{1}auth=Bearer x",
            "n,\u{1}auth=Bearer x\u{1}\u{1}",
            "p=tls-exporter,,\u{1}auth=Bearer x\u{1}\u{1}",
            "n,b=jo,\u{1}auth=Bearer x\u{1}\u{1}",
            "n,a=,\u{1}auth=Bearer x\u{1}\u{1}",
            "n,,jo\u{1}auth=Bearer x\u{1}\u{1}",
            "n,,\u{1}auth=Basic x\u{1}\u{1}",
            "n,,\u{1}auth=Bearer\u{1}\u{1}",
            "n,,\u{1}auth=Bearer a b\u{1}\u{1}",
            "n,,\u{1}auth=Bearer =\u{1}\u{1}",
            "n,,\u{1}auth=Bearer x\u{1}auth=Bearer x\u{1}\u{1}",
            "n,,\u{1}host\u{1}auth=Bearer x\u{1}\u{1}",
            "n,,\u{1}auth=Bearer \u{f6}\u{1}\u{1}",
        ] {
            assert_eq!(oauthbearer(bad.as_bytes()), Err(LoginFailure::Form), "{bad:?}");
        }
        assert_eq!(oauthbearer(b"n,,\x01auth=Bearer \xff\x01\x01"), Err(LoginFailure::Form));
    }

    #[test]
    fn xoauth2_has_a_user() {
        let message = b"user=jo@x.test\x01auth=Bearer ya29.x\x01\x01";
        assert_eq!(xoauth2(message), Ok(presented(Some("jo@x.test"), "ya29.x")));
        for bad in
            ["user=\u{1}auth=Bearer x\u{1}\u{1}", "auth=Bearer x\u{1}\u{1}", "user=jo\u{1}\u{1}"]
        {
            assert_eq!(xoauth2(bad.as_bytes()), Err(LoginFailure::Form), "{bad:?}");
        }
    }

    #[test]
    fn a_token_has_a_longest_length_and_is_shown_to_nobody() {
        let message =
            |bytes: usize| format!("user=jo\u{1}auth=Bearer {}\u{1}\u{1}", "x".repeat(bytes));
        assert!(xoauth2(message(TOKEN_BYTES_MAX).as_bytes()).is_ok());
        assert_eq!(xoauth2(message(TOKEN_BYTES_MAX + 1).as_bytes()), Err(LoginFailure::Form));
        let shown = format!("{:?}", presented(None, "secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }

    #[test]
    fn refusals_are_json() {
        assert_eq!(refusal(true, None), r#"{"status":"401","schemes":"bearer"}"#);
        let scoped = r#"{"status":"invalid_token","schemes":"bearer","scope":"mail.send"}"#;
        assert_eq!(refusal(false, Some("mail.send")), scoped);
    }
}
