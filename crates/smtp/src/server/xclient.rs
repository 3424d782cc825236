//! XCLIENT: a trusted client names the client that it acts for (Postfix's XCLIENT_README).

use super::Need;
use super::ServerConfig;
use super::dispatch::fit_name;
use super::replies;
use super::session::{Greeting, PendingNeed, Phase, ServerSession};
use mail::dsn::xtext;
use mail::{Mono, Reply};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Maximum length of a decoded attribute value; 501 5.5.4 beyond it.
pub const XCLIENT_VALUE_BYTES_MAX: usize = 255;

/// Values of an attribute that does not exist, or is temporarily unknown.
const UNAVAILABLE: &str = "[UNAVAILABLE]";
const TEMPORARILY_UNAVAILABLE: &str = "[TEMPUNAVAIL]";

/// The client named by XCLIENT, as far as given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Xclient {
    /// `None`: not given.
    pub name: Option<XclientName>,
    /// An unknown address is [`Ipv4Addr::UNSPECIFIED`].
    pub address: Option<IpAddr>,
    /// An unknown port is 0.
    pub port: Option<u16>,
    /// Its name in EHLO or HELO: printable ASCII without blanks.
    pub helo: Option<Arc<str>>,
    /// It did so by EHLO.
    pub is_extended: bool,
    /// Its authenticated user, without control characters. Only with logins configured.
    pub login: Option<Box<str>>,
}

/// The host name of the named client, verified against its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XclientName {
    /// Letters, digits, hyphens, underscores and dots.
    Is(Box<str>),
    /// It has none.
    Unavailable,
    /// Temporarily unknown.
    NotNow,
}

impl Xclient {
    /// Parses the arguments of the command. `LOGIN` is an attribute if `takes_login`.
    ///
    /// # Errors
    /// Returns the reply that refuses the command.
    pub fn parse(argument: &str, takes_login: bool) -> Result<Xclient, Reply> {
        let mut said = Xclient::default();
        let mut seen: Vec<&'static str> = Vec::new();
        for attribute in argument.split([' ', '\t']).filter(|attribute| !attribute.is_empty()) {
            let (name, value) = attribute
                .split_once('=')
                .ok_or_else(|| replies::argument("Syntax: XCLIENT attribute=value ..."))?;
            let known = attributes(takes_login).find(|known| known.eq_ignore_ascii_case(name));
            let known = known.ok_or_else(|| replies::argument("Unknown XCLIENT attribute"))?;
            if seen.contains(&known) {
                return Err(bad(known));
            }
            seen.push(known);
            let value = value_of(value).ok_or_else(|| bad(known))?;
            said.take(known, &value).ok_or_else(|| bad(known))?;
        }
        if seen.is_empty() {
            return Err(replies::argument("Syntax: XCLIENT attribute=value ..."));
        }
        Ok(said)
    }

    /// `None`: the attribute can't have this value.
    fn take(&mut self, attribute: &str, value: &str) -> Option<()> {
        let is_known = !is_unavailable(value);
        match attribute {
            "NAME" => self.name = Some(name_of(value)?),
            "ADDR" => self.address = Some(address_of(value)?),
            "PORT" => self.port = Some(port_of(value)?),
            "PROTO" if value.eq_ignore_ascii_case("ESMTP") => self.is_extended = true,
            "PROTO" => return value.eq_ignore_ascii_case("SMTP").then_some(()),
            "HELO" if is_known => self.helo = Some(helo_of(value)?),
            "LOGIN" if is_known => {
                self.login = Some((!value.contains(char::is_control)).then(|| value.into())?);
            }
            // The destination address is checked but not used.
            "DESTADDR" => return address_of(value).map(drop),
            "DESTPORT" => return port_of(value).map(drop),
            _ => {}
        }
        Some(())
    }
}

/// As EHLO offers them.
fn attributes(takes_login: bool) -> impl Iterator<Item = &'static str> {
    let known = ["NAME", "ADDR", "PORT", "PROTO", "HELO", "LOGIN", "DESTADDR", "DESTPORT"];
    known.into_iter().filter(move |name| takes_login || *name != "LOGIN")
}

fn bad(attribute: &str) -> Reply {
    Reply { text: format!("Invalid XCLIENT {attribute}").into(), ..replies::argument("") }
}

/// A decoded value (RFC 3461 §4). The markers of a missing value are not encoded.
fn value_of(text: &str) -> Option<Cow<'_, str>> {
    let value = match is_unavailable(text) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(xtext::decode(text)?),
    };
    (1..=XCLIENT_VALUE_BYTES_MAX).contains(&value.len()).then_some(value)
}

fn is_unavailable(value: &str) -> bool {
    [UNAVAILABLE, TEMPORARILY_UNAVAILABLE].iter().any(|none| value.eq_ignore_ascii_case(none))
}

fn name_of(value: &str) -> Option<XclientName> {
    if value.eq_ignore_ascii_case(TEMPORARILY_UNAVAILABLE) {
        return Some(XclientName::NotNow);
    }
    if is_unavailable(value) {
        return Some(XclientName::Unavailable);
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    value.bytes().all(is_plain).then(|| XclientName::Is(value.to_ascii_lowercase().into()))
}

fn address_of(value: &str) -> Option<IpAddr> {
    if is_unavailable(value) {
        return Some(Ipv4Addr::UNSPECIFIED.into());
    }
    match value.split_at_checked("IPV6:".len()) {
        Some((prefix, address)) if prefix.eq_ignore_ascii_case("IPV6:") => {
            address.parse::<Ipv6Addr>().ok().map(|address| address.to_canonical())
        }
        _ => value.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
    }
}

fn port_of(value: &str) -> Option<u16> {
    if is_unavailable(value) {
        return Some(0);
    }
    value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok())?
}

/// Accepts any name that EHLO accepts from a lenient client: a name accepted by a proxy is no reason to refuse the
/// proxy. Line ends and other control characters are excluded.
fn helo_of(value: &str) -> Option<Arc<str>> {
    (!value.contains(char::is_control)).then(|| fit_name(value).into())
}

impl ServerSession {
    /// Trusts the client to name the client it acts for: XCLIENT is offered.
    pub fn believe(&mut self) {
        self.is_believed = true;
    }

    /// Withdraws this trust.
    pub fn doubt(&mut self) {
        self.is_believed = false;
    }

    /// The line in the reply to EHLO; empty if not offered.
    pub(super) fn xclient_offer(&self) -> String {
        if !self.is_believed {
            return String::new();
        }
        let names: Vec<_> = attributes(self.config.logins.is_some()).collect();
        format!("250-XCLIENT {}\r\n", names.join(" "))
    }

    /// `XCLIENT attribute=value …`.
    pub(super) fn xclient(&mut self, argument: &str) -> Result<Option<Need>, Reply> {
        if !self.is_believed {
            return Err(Reply::new(550, (5, 7, 0), "Insufficient authorization"));
        }
        if self.transaction.is_some() {
            return Err(replies::sequence("XCLIENT not allowed during a mail transaction"));
        }
        let said = Xclient::parse(argument, self.config.logins.is_some())?;
        self.phase = Phase::Answer(PendingNeed::Xclient);
        Ok(Some(Need::Xclient(Box::new(said))))
    }

    /// The answer to [`Need::Xclient`] for an accepted client: the session starts again for it. A refused one gets a
    /// session of [`ServerSession::refused`] instead. `is_believed`: the named client may name another one in turn.
    pub fn answer_xclient(
        &mut self,
        now: Mono,
        config: Arc<ServerConfig>,
        said: &Xclient,
        is_believed: bool,
    ) {
        if self.take_awaited(now, |awaited| awaited == PendingNeed::Xclient).is_none() {
            return;
        }
        // An authenticated user is never trusted to name another client, whatever its address.
        self.is_believed &= is_believed && said.login.is_none();
        self.config = config;
        self.is_logged_in = said.login.is_some();
        self.login_failures = 0;
        self.client_since = now;
        self.helo = said.helo.clone();
        self.greeting = match (&said.helo, said.is_extended) {
            (None, _) => Greeting::None,
            (Some(_), true) => Greeting::Ehlo,
            (Some(_), false) => Greeting::Helo,
        };
        replies::write_greeting(&mut self.output, &self.config);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(argument: &str) -> Result<Xclient, Reply> {
        Xclient::parse(argument, true)
    }

    #[test]
    fn all_that_can_be_said_of_a_client() {
        let said = parse(
            "NAME=Mail.Example.com addr=192.0.2.17 PORT=54321 PROTO=ESMTP HELO=[192.0.2.17] \
             LOGIN=jo+40x.test DESTADDR=IPV6:2001:db8::1  DESTPORT=25",
        );
        let expected = Xclient {
            name: Some(XclientName::Is("mail.example.com".into())),
            address: Some("192.0.2.17".parse().unwrap()),
            port: Some(54_321),
            helo: Some("[192.0.2.17]".into()),
            is_extended: true,
            login: Some("jo@x.test".into()),
        };
        assert_eq!(said, Ok(expected));
        let address = |argument| parse(argument).unwrap().address;
        assert_eq!(address("ADDR=ipv6:2001:DB8::9"), Some("2001:db8::9".parse().unwrap()));
        assert_eq!(address("ADDR=IPV6:::ffff:192.0.2.1"), Some("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn what_is_not_known_is_said_to_be_so() {
        let said = parse(
            "NAME=[UNAVAILABLE] ADDR=[UNAVAILABLE] PORT=[unavailable] HELO=[UNAVAILABLE] \
             LOGIN=[UNAVAILABLE] PROTO=SMTP DESTADDR=[UNAVAILABLE] DESTPORT=[UNAVAILABLE]",
        );
        let expected = Xclient {
            name: Some(XclientName::Unavailable),
            address: Some(Ipv4Addr::UNSPECIFIED.into()),
            port: Some(0),
            ..Xclient::default()
        };
        assert_eq!(said, Ok(expected));
        // A client may have been called anything.
        for (argument, helo) in [("HELO=a+20b", "a-b"), ("HELO=+C3+A9", "?"), ("HELO=a+3D", "a=")] {
            assert_eq!(parse(argument).unwrap().helo.as_deref(), Some(helo), "{argument}");
        }
        assert_eq!(parse("NAME=[TEMPUNAVAIL]").unwrap().name, Some(XclientName::NotNow));
    }

    #[test]
    fn bad_attributes_are_refused_by_name() {
        let long = format!("HELO={}", "x".repeat(XCLIENT_VALUE_BYTES_MAX + 1));
        for (argument, text) in [
            ("", "Syntax: XCLIENT attribute=value ..."),
            ("NAME", "Syntax: XCLIENT attribute=value ..."),
            ("NAME=a b", "Syntax: XCLIENT attribute=value ..."),
            ("FOO=bar", "Unknown XCLIENT attribute"),
            ("=a", "Unknown XCLIENT attribute"),
            ("ADDR=1.1.1.1 ADDR=1.1.1.2", "Invalid XCLIENT ADDR"),
            ("NAME=", "Invalid XCLIENT NAME"),
            ("NAME=a+0D+0AMAIL", "Invalid XCLIENT NAME"),
            ("NAME=a+00b", "Invalid XCLIENT NAME"),
            ("NAME=a+2", "Invalid XCLIENT NAME"),
            ("NAME=a=b", "Invalid XCLIENT NAME"),
            ("NAME=(a)", "Invalid XCLIENT NAME"),
            ("NAME=b\u{fc}cher.test", "Invalid XCLIENT NAME"),
            ("ADDR=1.1.1", "Invalid XCLIENT ADDR"),
            ("ADDR=2001:db8::1", "Invalid XCLIENT ADDR"),
            ("ADDR=IPV6:1.1.1.1", "Invalid XCLIENT ADDR"),
            ("PORT=65536", "Invalid XCLIENT PORT"),
            ("PORT=+2B1", "Invalid XCLIENT PORT"),
            ("PROTO=LMTP", "Invalid XCLIENT PROTO"),
            ("HELO=a+0D+0Ab", "Invalid XCLIENT HELO"),
            ("LOGIN=jo+00", "Invalid XCLIENT LOGIN"),
            ("LOGIN=+FF", "Invalid XCLIENT LOGIN"),
            ("DESTADDR=here", "Invalid XCLIENT DESTADDR"),
            ("DESTPORT=smtp", "Invalid XCLIENT DESTPORT"),
            (long.as_str(), "Invalid XCLIENT HELO"),
        ] {
            let reply = parse(argument).unwrap_err();
            let shown = (reply.code, reply.enhanced.map(|status| status.to_string()), &*reply.text);
            assert_eq!(shown, (501, Some("5.5.4".into()), text), "{argument:?}");
        }
        assert!(parse(&long[..long.len() - 1]).is_ok());
        assert_eq!(
            Xclient::parse("LOGIN=jo", false).unwrap_err().text,
            "Unknown XCLIENT attribute"
        );
    }
}
