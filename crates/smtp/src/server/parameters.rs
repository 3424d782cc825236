//! Parameters of MAIL and RCPT (RFC 5321 §4.1.2; RFC 1870, RFC 2852, RFC 3461, RFC 4865, RFC 6152,
//! RFC 6531, RFC 6710, RFC 8689).

use super::ServerConfig;
use crate::wishes::{ByParameter, DeliveryOptions, Hold};
use mail::dsn::xtext::{self, Envid};
use mail::{BodyType, Notify, Priority, Reply, Ret};

/// Characters of a parameter repeated in a reply.
const NAMED_CHARS_MAX: usize = 40;

/// Parameters of MAIL.
#[derive(Debug, Default)]
pub(super) struct MailParameters {
    pub(super) size: Option<u64>,
    pub(super) body: Option<BodyType>,
    pub(super) smtputf8: bool,
    pub(super) require_tls: bool,
    pub(super) ret: Option<Ret>,
    pub(super) envid: Option<Envid>,
    pub(super) wishes: DeliveryOptions,
    /// The submitter named by the client (RFC 4954 §5): ignored.
    auth: Option<()>,
}

/// Parameters of RCPT.
#[derive(Debug, Default)]
pub(super) struct RcptParameters<'a> {
    pub(super) notify: Option<Notify>,
    pub(super) orcpt: Option<&'a str>,
}

impl MailParameters {
    /// Parses the parameters after the path; `require_tls`: REQUIRETLS is offered now.
    ///
    /// # Errors
    /// Returns the reply that refuses the command.
    pub(super) fn parse(
        text: &str,
        config: &ServerConfig,
        require_tls: bool,
    ) -> Result<Self, Reply> {
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
                flag("SMTPUTF8", value, &mut found.smtputf8)?;
            } else if is("REQUIRETLS") && require_tls {
                flag("REQUIRETLS", value, &mut found.require_tls)?;
            } else if is("RET") && config.dsn {
                let ret = ret(value.unwrap_or_default())?;
                once("RET", found.ret.replace(ret))?;
            } else if is("ENVID") && config.dsn {
                let envid = value.and_then(Envid::parse);
                once("ENVID", found.envid.replace(envid.ok_or_else(|| invalid("ENVID"))?))?;
            } else if is("AUTH") && config.logins.is_some() {
                let identity = value.filter(|v| *v == "<>" || xtext::decode(v).is_some());
                identity.filter(|v| !v.is_empty()).ok_or_else(|| invalid("AUTH"))?;
                once("AUTH", found.auth.replace(()))?;
            } else if !found.take_wish(keyword, value, config)? {
                return Err(unsupported(keyword));
            }
        }
        Ok(found)
    }

    /// Parses a parameter about priority or time of delivery; returns false for any other parameter.
    fn take_wish(
        &mut self,
        keyword: &str,
        value: Option<&str>,
        config: &ServerConfig,
    ) -> Result<bool, Reply> {
        let is = |name: &str| keyword.eq_ignore_ascii_case(name);
        let value = value.unwrap_or_default();
        if is("MT-PRIORITY") && config.mt_priority {
            let priority = Priority::parse(value).ok_or_else(|| invalid("MT-PRIORITY"))?;
            once("MT-PRIORITY", self.wishes.priority.replace(priority))?;
        } else if is("BY") && config.deliver_by {
            let by = ByParameter::parse(value).ok_or_else(|| invalid("BY"))?;
            once("BY", self.wishes.deliver_by.replace(by))?;
        } else if let (true, Some(max)) = (is("HOLDFOR") || is("HOLDUNTIL"), config.future_release)
        {
            let (name, hold) = match is("HOLDFOR") {
                true => ("HOLDFOR", Hold::parse_for(value)),
                false => ("HOLDUNTIL", Hold::parse_until(value)),
            };
            let hold = hold.ok_or_else(|| invalid(name))?;
            if !hold.is_within(max) {
                return Err(syntax(format!("{name} exceeds the advertised maximum")));
            }
            // RFC 4865 §4: only one.
            once("HOLDFOR or HOLDUNTIL", self.wishes.hold.replace(hold))?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }
}

impl<'a> RcptParameters<'a> {
    /// Parses the parameters after the path.
    ///
    /// # Errors
    /// Returns the reply that refuses the command.
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
                let orcpt = value.filter(|v| xtext::is_orcpt(v, smtputf8));
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
            // Characters that a reply cannot contain become `?` on output.
            let start: String = word.chars().take(NAMED_CHARS_MAX).collect();
            Err(syntax(format!("Malformed parameter {start}")))
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
        Err(Reply::new(555, (5, 5, 4), "BODY=BINARYMIME not supported"))
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

/// RFC 3461 §4.1: NEVER must be alone.
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

/// Parses a parameter without a value.
fn flag(keyword: &'static str, value: Option<&str>, is_set: &mut bool) -> Result<(), Reply> {
    if value.is_some() {
        return Err(syntax(format!("{keyword} takes no value")));
    }
    once(keyword, std::mem::replace(is_set, true).then_some(()))
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
    let keyword = keyword.get(..keyword.len().min(NAMED_CHARS_MAX)).unwrap_or_default();
    Reply::new(555, (5, 5, 4), format!("Parameter {keyword} not supported"))
}

/// A chunk that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    /// Octets after the command line. Numbers beyond 64 bits count as [`u64::MAX`]: a chunk of that size is never
    /// complete.
    pub(super) octets: u64,
    /// LAST: the message ends with this chunk.
    pub(super) last: bool,
    /// The argument was not LAST: the chunk follows, but is refused.
    pub(super) malformed: bool,
}

impl Chunk {
    /// `None`: it cannot be known how many octets follow.
    pub(super) fn parse(argument: &str) -> Option<Chunk> {
        let (digits, rest) = argument.split_once([' ', '\t']).unwrap_or((argument, ""));
        let octets = decimal(digits)?;
        let rest = rest.trim_start_matches([' ', '\t']);
        let last = rest.eq_ignore_ascii_case("LAST");
        Some(Chunk { octets, last, malformed: !last && !rest.is_empty() })
    }
}

/// One to twenty digits (RFC 3030 §2 chunk-size, RFC 1870 §5 size-value), saturating.
pub(super) fn decimal(digits: &str) -> Option<u64> {
    if digits.is_empty() || digits.len() > 20 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(digits.bytes().fold(0, |n: u64, digit| {
        n.saturating_mul(10).saturating_add(u64::from(digit.wrapping_sub(b'0')))
    }))
}

/// Splits the text after `FROM:` or `TO:` into the text between the brackets and the parameters.
///
/// Two deviations are accepted, as in Postfix, because old clients need them and they change no meaning. One is blanks
/// before the path. The other is a path without brackets that contains no quote, backslash or bracket, so that it must
/// end at the first blank.
///
/// # Errors
/// Returns the error as text.
pub(super) fn split(text: &str) -> Result<(&str, &str), &'static str> {
    let text = text.trim_start_matches([' ', '\t']);
    let Some(inner) = text.strip_prefix('<') else {
        let (path, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
        if path.is_empty() {
            return Err("address missing");
        }
        if path.contains(['<', '>', '"', '\\']) {
            return Err("address must be enclosed in <>");
        }
        return Ok((path, rest));
    };
    let end = closing_bracket(inner.as_bytes()).ok_or("missing \">\" after the address")?;
    let (path, rest) = inner.split_at(end);
    let rest = rest.get(1..).unwrap_or("");
    if rest.is_empty() || rest.starts_with([' ', '\t']) {
        Ok((path, rest))
    } else {
        Err("expected space after \">\"")
    }
}

/// The first `>` that is not within a quoted string (RFC 5321 §4.1.2).
fn closing_bracket(bytes: &[u8]) -> Option<usize> {
    let plain = memchr::memchr2(b'>', b'"', bytes)?;
    if bytes.get(plain) == Some(&b'>') {
        return Some(plain);
    }
    let (mut quoted, mut escaped) = (false, false);
    bytes.iter().position(|&byte| {
        let literal = std::mem::take(&mut escaped);
        match byte {
            b'\\' if quoted && !literal => escaped = true,
            b'"' if !literal => quoted = !quoted,
            b'>' if !quoted => return true,
            _ => {}
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notify_is_never_or_a_list() {
        assert_eq!(notify("never"), Some(Notify::NEVER));
        assert_eq!(notify("SUCCESS,delay"), Some(Notify(1 | 4)));
        for bad in ["", "NEVER,SUCCESS", "SUCCESS,NEVER", "SUCCESS,", ",DELAY", "SOMETIMES"] {
            assert_eq!(notify(bad), None, "{bad}");
        }
    }

    #[test]
    fn sizes_up_to_twenty_digits() {
        assert_eq!(decimal("0"), Some(0));
        assert_eq!(decimal("18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal("18446744073709551616"), Some(u64::MAX));
        assert_eq!(decimal("99999999999999999999"), Some(u64::MAX));
        assert_eq!(decimal("00000000000000000012"), Some(12));
        for bad in ["", "000000000000000000012", "-1", "+1", "1x", "0x10", "١"] {
            assert_eq!(decimal(bad), None, "{bad}");
        }
    }

    #[test]
    fn last_and_what_is_not() {
        let chunk = |octets, last, malformed| Some(Chunk { octets, last, malformed });
        assert_eq!(Chunk::parse("12"), chunk(12, false, false));
        assert_eq!(Chunk::parse("0  last"), chunk(0, true, false));
        assert_eq!(Chunk::parse("5 LASST"), chunk(5, false, true));
        assert_eq!(Chunk::parse("5 LAST LAST"), chunk(5, false, true));
        assert_eq!(Chunk::parse("LAST"), None);
        assert_eq!(Chunk::parse(""), None);
    }

    #[test]
    fn brackets_quotes_and_blanks() {
        assert_eq!(split("<a@b>"), Ok(("a@b", "")));
        assert_eq!(split(" \t<a@b> SIZE=1"), Ok(("a@b", " SIZE=1")));
        assert_eq!(split("<>"), Ok(("", "")));
        assert_eq!(split(r#"<"a>b"@c> X"#), Ok((r#""a>b"@c"#, " X")));
        assert_eq!(split(r#"<"a\">"@c>"#), Ok((r#""a\">"@c"#, "")));
        assert_eq!(split(r#"<"a\\">x"#), Err("expected space after \">\""));
        assert_eq!(split("a@b SIZE=1"), Ok(("a@b", "SIZE=1")));
        assert_eq!(split(""), Err("address missing"));
        assert_eq!(split("<a@b"), Err("missing \">\" after the address"));
        assert_eq!(split(r#"<"a@b>"#), Err("missing \">\" after the address"));
        assert_eq!(split("a@b>"), Err("address must be enclosed in <>"));
        assert_eq!(split(r#""a b"@c"#), Err("address must be enclosed in <>"));
        assert_eq!(split("<a@b>SIZE=1"), Err("expected space after \">\""));
    }
}
