//! Parameters of MAIL and RCPT (RFC 5321 §4.1.2; RFC 1870, RFC 3461, RFC 6152, RFC 6531).

use super::ServerConfig;
use super::bdat::decimal;
use mail::{BodyType, Notify, Reply, Ret};

/// What MAIL may carry.
#[derive(Debug, Default)]
pub(super) struct MailParameters<'a> {
    pub(super) size: Option<u64>,
    pub(super) body: Option<BodyType>,
    pub(super) smtputf8: bool,
    pub(super) ret: Option<Ret>,
    pub(super) envid: Option<&'a str>,
}

/// What RCPT may carry.
#[derive(Debug, Default)]
pub(super) struct RcptParameters<'a> {
    pub(super) notify: Option<Notify>,
    pub(super) orcpt: Option<&'a str>,
}

impl<'a> MailParameters<'a> {
    /// Reads what stands behind the path.
    ///
    /// # Errors
    /// The reply that refuses the command.
    pub(super) fn parse(text: &'a str, config: &ServerConfig) -> Result<Self, Reply> {
        let mut found = MailParameters::default();
        for parameter in parameters(text) {
            let (keyword, value) = parameter?;
            let is = |name: &str| keyword.eq_ignore_ascii_case(name);
            if is("SIZE") {
                let size = value.and_then(decimal).ok_or_else(|| invalid("SIZE"))?;
                once("SIZE", found.size.replace(size))?;
            } else if is("BODY") {
                let body = body_type(value.unwrap_or_default())?;
                once("BODY", found.body.replace(body))?;
            } else if is("SMTPUTF8") && config.smtputf8 {
                if value.is_some() {
                    return Err(syntax("SMTPUTF8 takes no value"));
                }
                once("SMTPUTF8", found.smtputf8.then_some(()))?;
                found.smtputf8 = true;
            } else if is("RET") && config.dsn {
                let ret = ret(value.unwrap_or_default())?;
                once("RET", found.ret.replace(ret))?;
            } else if is("ENVID") && config.dsn {
                let envid = value.filter(|v| v.len() <= 100 && is_xtext(v, false));
                once("ENVID", found.envid.replace(envid.ok_or_else(|| invalid("ENVID"))?))?;
            } else {
                return Err(unsupported(keyword));
            }
        }
        Ok(found)
    }
}

impl<'a> RcptParameters<'a> {
    /// Reads what stands behind the path.
    ///
    /// # Errors
    /// The reply that refuses the command.
    pub(super) fn parse(
        text: &'a str,
        config: &ServerConfig,
        smtputf8: bool,
    ) -> Result<Self, Reply> {
        let mut found = RcptParameters::default();
        for parameter in parameters(text) {
            let (keyword, value) = parameter?;
            if keyword.eq_ignore_ascii_case("NOTIFY") && config.dsn {
                let notify = notify(value.unwrap_or_default()).ok_or_else(|| invalid("NOTIFY"))?;
                once("NOTIFY", found.notify.replace(notify))?;
            } else if keyword.eq_ignore_ascii_case("ORCPT") && config.dsn {
                let orcpt = value.filter(|v| is_orcpt(v, smtputf8));
                once("ORCPT", found.orcpt.replace(orcpt.ok_or_else(|| invalid("ORCPT"))?))?;
            } else {
                return Err(unsupported(keyword));
            }
        }
        Ok(found)
    }
}

/// Keywords with their values.
fn parameters(text: &str) -> impl Iterator<Item = Result<(&str, Option<&str>), Reply>> {
    text.split([' ', '\t']).filter(|word| !word.is_empty()).map(|word| {
        let (keyword, value) = match word.split_once('=') {
            Some((keyword, value)) => (keyword, Some(value)),
            None => (word, None),
        };
        let alphanumeric = keyword.starts_with(|c: char| c.is_ascii_alphanumeric());
        if alphanumeric && keyword.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            Ok((keyword, value))
        } else {
            Err(syntax("Malformed parameter"))
        }
    })
}

fn body_type(value: &str) -> Result<BodyType, Reply> {
    if value.eq_ignore_ascii_case("7BIT") {
        Ok(BodyType::SevenBit)
    } else if value.eq_ignore_ascii_case("8BITMIME") {
        Ok(BodyType::EightBit)
    } else if value.eq_ignore_ascii_case("BINARYMIME") {
        // RFC 3030 §3: not offered.
        Err(Reply::new(555, (5, 5, 4), "BODY=BINARYMIME is not supported"))
    } else {
        Err(invalid("BODY"))
    }
}

fn ret(value: &str) -> Result<Ret, Reply> {
    if value.eq_ignore_ascii_case("FULL") {
        Ok(Ret::Full)
    } else if value.eq_ignore_ascii_case("HDRS") {
        Ok(Ret::Headers)
    } else {
        Err(invalid("RET"))
    }
}

/// RFC 3461 §4.1: NEVER stands alone.
fn notify(value: &str) -> Option<Notify> {
    if value.eq_ignore_ascii_case("NEVER") {
        return Some(Notify::NEVER);
    }
    value.split(',').try_fold(Notify::NEVER, |set, event| {
        let events =
            [("SUCCESS", Notify::SUCCESS), ("FAILURE", Notify::FAILURE), ("DELAY", Notify::DELAY)];
        let found = events.iter().find(|(name, _)| name.eq_ignore_ascii_case(event));
        found.map(|(_, bit)| Notify(set.0 | bit.0))
    })
}

/// RFC 3461 §4.2, RFC 6533 §3: an address type, a semicolon, the encoded address.
fn is_orcpt(value: &str, smtputf8: bool) -> bool {
    let Some((address_type, address)) = value.split_once(';') else { return false };
    let utf8 = smtputf8 && address_type.eq_ignore_ascii_case("utf-8");
    value.len() <= 500
        && !address_type.is_empty()
        && address_type.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !address.is_empty()
        && is_xtext(address, utf8)
}

/// RFC 3461 §4. What is encoded must be printable, too (§4.2, §4.4): it goes into the header of
/// reports.
fn is_xtext(value: &str, utf8: bool) -> bool {
    let mut bytes = value.bytes();
    while let Some(byte) = bytes.next() {
        let fits = match byte {
            b'+' => {
                let hex = |digit: Option<u8>| match digit {
                    Some(digit @ b'0'..=b'9') => Some(digit - b'0'),
                    Some(digit @ b'A'..=b'F') => Some(digit - b'A' + 10),
                    _ => None,
                };
                match (hex(bytes.next()), hex(bytes.next())) {
                    (Some(high), Some(low)) => matches!(high << 4 | low, b' '..=b'~'),
                    _ => false,
                }
            }
            b'=' => false,
            b'!'..=b'~' => true,
            _ => utf8 && byte >= 0x80,
        };
        if !fits {
            return false;
        }
    }
    !value.is_empty()
}

fn once<T>(keyword: &'static str, before: Option<T>) -> Result<(), Reply> {
    match before {
        None => Ok(()),
        Some(_) => Err(syntax(format!("{keyword} given twice"))),
    }
}

fn invalid(keyword: &'static str) -> Reply {
    syntax(format!("Invalid value of {keyword}"))
}

fn syntax(text: impl Into<std::borrow::Cow<'static, str>>) -> Reply {
    Reply::new(501, (5, 5, 4), text)
}

/// RFC 5321 §4.1.1.11. The keyword is letters, digits and hyphens.
fn unsupported(keyword: &str) -> Reply {
    let keyword = keyword.get(..keyword.len().min(40)).unwrap_or_default();
    Reply::new(555, (5, 5, 4), format!("Parameter {keyword} is not supported"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xtext_is_printable_encoded_and_decoded() {
        for good in ["a", "QQ314159", "a+2Bb+3Dc", "+20", "~!"] {
            assert!(is_xtext(good, false), "{good}");
        }
        for bad in ["", "a=b", "a+", "a+2", "a+2b", "a+0A", "+0D+0A", "+7F", "+FF", "é", "a b"] {
            assert!(!is_xtext(bad, false), "{bad}");
        }
        assert!(is_xtext("é\\x{20AC}", true));
    }

    #[test]
    fn orcpt_has_a_type_and_an_end() {
        assert!(is_orcpt("rfc822;user+2Bx@example.com", false));
        assert!(is_orcpt("utf-8;bücher@example.com", true));
        assert!(!is_orcpt("utf-8;bücher@example.com", false));
        assert!(!is_orcpt("rfc822;bücher@example.com", true));
        for bad in ["", ";a", "rfc822", "rfc822;", "rfc 822;a", "rfc_822;a"] {
            assert!(!is_orcpt(bad, false), "{bad}");
        }
        let long = |n: usize| format!("rfc822;{}", "a".repeat(n - 7));
        assert!(is_orcpt(&long(500), false));
        assert!(!is_orcpt(&long(501), false));
    }

    #[test]
    fn notify_is_never_or_a_list() {
        assert_eq!(notify("never"), Some(Notify::NEVER));
        assert_eq!(notify("SUCCESS,delay"), Some(Notify(1 | 4)));
        for bad in ["", "NEVER,SUCCESS", "SUCCESS,NEVER", "SUCCESS,", ",DELAY", "SOMETIMES"] {
            assert_eq!(notify(bad), None, "{bad}");
        }
    }
}
