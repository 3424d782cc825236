//! xtext, and the two SMTP parameters encoded in it: ENVID and ORCPT (RFC 3461 §4, §4.2, §4.4; RFC 6533 §3).

/// Maximum length of an encoded value of ENVID (RFC 3461 §4.4).
pub const ENVID_BYTES_MAX: usize = 100;
/// Maximum length of an encoded value of ORCPT (RFC 3461 §4.2).
pub const ORCPT_BYTES_MAX: usize = 500;

/// Encodes any text; non-ASCII text is encoded byte by byte as UTF-8.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for b in text.bytes() {
        if is_xchar(b) {
            out.push(char::from(b));
        } else {
            out.push('+');
            for nibble in [b >> 4, b & 0xf] {
                out.push(char::from(b"0123456789ABCDEF"[usize::from(nibble)]));
            }
        }
    }
    out
}

/// Decodes xtext; `None` if it is invalid or does not decode to UTF-8. The result may contain any character, line ends
/// included.
#[must_use]
pub fn decode(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        match b {
            b'+' => out.push(upper_hex(bytes.next()?)? << 4 | upper_hex(bytes.next()?)?),
            _ if is_xchar(b) => out.push(b),
            _ => return None,
        }
    }
    String::from_utf8(out).ok()
}

/// xchar = any ASCII CHAR between "!" and "~", except "+" and "=".
fn is_xchar(b: u8) -> bool {
    matches!(b, b'!'..=b'~') && b != b'+' && b != b'='
}

/// RFC 3461 §4: hexadecimal digits are upper case only.
fn upper_hex(b: u8) -> Option<u8> {
    match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'A'..=b'F' => Some(b - b'A' + 10),
        _ => None,
    }
}

/// A value of ENVID= accepted by every server: xtext of printable ASCII, up to 100 octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envid(Box<str>);

impl Envid {
    /// Checks a value from a command; `None` if invalid.
    #[must_use]
    pub fn parse(value: &str) -> Option<Envid> {
        (value.len() <= ENVID_BYTES_MAX && decode_envid(value).is_some())
            .then(|| Envid(value.into()))
    }

    /// The value that encodes this text, if any.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Envid> {
        Envid::parse(&encode(text))
    }
}

impl std::ops::Deref for Envid {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Decodes an ENVID; `None` if it is invalid (RFC 3461 §4.4: printable ASCII and blanks).
#[must_use]
pub fn decode_envid(value: &str) -> Option<String> {
    decode(value)
        .filter(|text| !text.is_empty() && text.bytes().all(|b| matches!(b, b' '..=b'~' | b'\t')))
}

/// Returns true if `value` is valid for ORCPT=: an address type and an address, at most 500 octets. Non-ASCII
/// characters are allowed only with `smtputf8`, in an address of type `utf-8`.
#[must_use]
pub fn is_orcpt(value: &str, smtputf8: bool) -> bool {
    value.len() <= ORCPT_BYTES_MAX
        && (smtputf8 || value.is_ascii())
        && decode_orcpt(value).is_some()
}

/// An original recipient, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginalRecipient {
    /// The address type: `rfc822`, `utf-8`, or another type of the client.
    pub kind: String,
    /// The address. Without control characters; ASCII unless the type is `utf-8`.
    pub address: String,
}

/// Decodes an ORCPT; `None` if it is invalid.
#[must_use]
pub fn decode_orcpt(value: &str) -> Option<OriginalRecipient> {
    let (kind, address) = value.split_once(';')?;
    // addr-type = atom
    let is_atom = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b);
    if kind.is_empty() || !kind.bytes().all(is_atom) {
        return None;
    }
    let address = if kind.eq_ignore_ascii_case("utf-8") {
        decode_utf8_address(address)?
    } else {
        decode(address).filter(|text| text.is_ascii())?
    };
    // RFC 3461 §4.2: only printable characters; a line end would forge fields of a DSN.
    if address.is_empty() || address.contains(char::is_control) {
        return None;
    }
    Some(OriginalRecipient { kind: kind.to_owned(), address })
}

/// RFC 6533 §3: utf-8-addr-xtext or utf-8-addr-unitext, with `\x{20AC}` for a character; other characters are literal.
/// `+` escapes are also decoded, because clients send them.
fn decode_utf8_address(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '\\' {
            let (hex, after) = rest.strip_prefix("\\x{")?.split_once('}')?;
            out.push(embedded_char(hex)?);
            rest = after;
        } else if c == '+' {
            // A run of escapes: a UTF-8 character may take several.
            let run = rest.as_bytes().chunks(3).take_while(|chunk| chunk[0] == b'+').count() * 3;
            out.push_str(&decode(rest.get(..run.min(rest.len()))?)?);
            rest = rest.get(run..)?;
        } else if c.is_ascii() && !is_xchar(c as u8) {
            return None;
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    Some(out)
}

/// HEXPOINT: two to six upper case digits.
fn embedded_char(hex: &str) -> Option<char> {
    if !(2..=6).contains(&hex.len()) || !hex.bytes().all(|b| upper_hex(b).is_some()) {
        return None;
    }
    char::from_u32(u32::from_str_radix(hex, 16).ok()?)
}

/// The ASCII form of an internationalised address, utf-8-addr-xtext (RFC 6533 §3).
#[must_use]
pub fn encode_utf8_address(address: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(address.len());
    for c in address.chars() {
        if c.is_ascii() && is_xchar(c as u8) && c != '\\' {
            out.push(c);
        } else {
            // Writing to a String can't fail.
            let _ = write!(out, "\\x{{{:02X}}}", u32::from(c));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn xtext_both_ways() {
        assert_eq!(encode("user+tag=x@a b"), "user+2Btag+3Dx@a+20b");
        assert_eq!(decode("user+2Btag+3Dx").as_deref(), Some("user+tag=x"));
        assert_eq!(decode("").as_deref(), Some(""));
        for bad in ["+", "+2", "+2b", "+G0", "a=b", "a b", "ü", "+FF", "a\r"] {
            assert_eq!(decode(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn envid() {
        assert_eq!(decode_envid("QQ314159+20x").as_deref(), Some("QQ314159 x"));
        assert!(Envid::parse(&"x".repeat(100)).is_some());
        assert_eq!(Envid::parse(&"x".repeat(101)), None);
        for bad in ["", "+0D+0AX:", "+00", "+7F", "+C3+BC"] {
            assert_eq!(Envid::parse(bad), None, "{bad}");
        }
        // A blank takes three octets.
        assert_eq!(Envid::of_text(&" ".repeat(33)).map(|envid| envid.len()), Some(99));
        assert_eq!(Envid::of_text(&" ".repeat(34)), None);
        assert_eq!([Envid::of_text(""), Envid::of_text("a\r\nb")], [None, None]);
    }

    #[test]
    fn orcpt() {
        let orcpt = decode_orcpt("rfc822;Bob+2Bx@example.com").unwrap();
        assert_eq!((&*orcpt.kind, &*orcpt.address), ("rfc822", "Bob+x@example.com"));
        assert!(is_orcpt("x400;/C+3Dus/O+3De/", false));
        assert!(is_orcpt("rfc822;+22a+20b+22@c", false));
        for bad in ["", "a@b", "rfc822;", ";a@b", "rf c;a", "rfc822;a b", "rfc822;a+0D+0AX:+20y"] {
            assert!(!is_orcpt(bad, true), "{bad}");
        }
        assert!(!is_orcpt("rfc822;ü@b", true));
        assert!(!is_orcpt("rfc822;+C3+BC@b", true));
        assert!(!is_orcpt(&format!("rfc822;{}", "x".repeat(494)), false));
    }

    #[test]
    fn internationalised_orcpt() {
        let address = |value: &str| decode_orcpt(value).map(|o| o.address);
        let euro = Some("\u{20ac}+x@b".to_owned());
        assert_eq!(address("utf-8;\\x{20AC}\\x{2B}x@b"), euro);
        assert_eq!(address("UTF-8;\u{20ac}+2Bx@b"), euro);
        assert_eq!(address("utf-8;+E2+82+AC+2Bx@b"), euro);
        assert!(is_orcpt("utf-8;ü@b", true));
        assert!(!is_orcpt("utf-8;ü@b", false));
        assert!(is_orcpt("utf-8;\\x{FC}@b", false));
        for bad in [
            "\\x{}",
            "\\x{A}",
            "\\x{0D}",
            "\\x{D800}",
            "\\x{110000}",
            "\\x{0000041}",
            "\\",
            "\\x{fc}",
            "a=b",
            "a b",
            "+",
            "+ü2",
            "+C3",
            "\\x{85}",
            "\u{85}",
        ] {
            assert_eq!(address(&format!("utf-8;{bad}")), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes(text: String) {
            prop_assert_eq!(decode(&encode(&text)), Some(text.clone()));
            prop_assert!(encode(&text).bytes().all(|b| b == b'+' || is_xchar(b)));
            let address = encode_utf8_address(&text);
            prop_assert!(address.is_ascii());
            prop_assert_eq!(decode_utf8_address(&address), Some(text));
        }

        #[test]
        fn strangers_values_are_harmless(value in prop_oneof![
            any::<String>(),
            "(utf-8|rfc822);(\\\\x\\{[0-9A-F]{0,7}\\}|\\+[0-9A-F]{0,3}|[\\\\aü+= ]){0,12}",
        ]) {
            if let Some(orcpt) = decode_orcpt(&value) {
                prop_assert!(!orcpt.address.contains(char::is_control));
            }
            prop_assert!(!decode_envid(&value).is_some_and(|t| t.contains(['\r', '\n'])));
        }
    }
}
