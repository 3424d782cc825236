//! Address of a directory server.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// RFC 4516 §2.
const PORT: u16 = 389;
const TLS_PORT: u16 = 636;
/// Socket of Debian's slapd.
const SOCKET: &str = "/run/slapd/ldapi";

/// Address of a directory server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LdapServer {
    /// `ldap://`
    Plain(HostPort),
    /// `ldaps://`
    Tls(HostPort),
    /// `ldapi://`
    Unix(PathBuf),
}

/// A host by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HostPort {
    pub(super) host: Box<str>,
    pub(super) port: u16,
}

impl LdapServer {
    /// Parses the server's part of a URL (RFC 4516).
    ///
    /// # Errors
    /// Returns the reason if it is invalid.
    pub(super) fn parse(url: &str) -> Result<LdapServer, &'static str> {
        let (scheme, rest) = url.split_once("://").ok_or("it has no scheme")?;
        if scheme.eq_ignore_ascii_case("ldapi") {
            let path =
                percent_decoded(rest).ok_or("% must be followed by two hexadecimal digits")?;
            return match &*path {
                "" | "/" => Ok(LdapServer::Unix(SOCKET.into())),
                path if path.starts_with('/') => Ok(LdapServer::Unix(path.into())),
                _ => Err("a socket path must begin with /"),
            };
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#', '@']) {
            return Err("no text is allowed after host and port");
        }
        if scheme.eq_ignore_ascii_case("ldap") {
            HostPort::parse(rest, PORT).map(LdapServer::Plain)
        } else if scheme.eq_ignore_ascii_case("ldaps") {
            HostPort::parse(rest, TLS_PORT).map(LdapServer::Tls)
        } else {
            Err("its scheme is not ldap, ldaps or ldapi")
        }
    }

    /// Returns true if requests go over a network in clear text.
    pub(super) fn is_readable_by_others(&self) -> bool {
        match self {
            LdapServer::Plain(at) => {
                let is_here = at.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
                !is_here && !at.host.eq_ignore_ascii_case("localhost")
            }
            LdapServer::Tls(_) | LdapServer::Unix(_) => false,
        }
    }
}

impl HostPort {
    fn parse(text: &str, default_port: u16) -> Result<HostPort, &'static str> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or("] is missing")?;
                if host.parse::<IpAddr>().is_err() {
                    return Err("no IP address between [ and ]");
                }
                (host, port.strip_prefix(':').or(port.is_empty().then_some("")))
            }
            None => match text.split_once(':') {
                Some((_, port)) if port.contains(':') => {
                    return Err("put an IPv6 address between [ and ]");
                }
                Some((host, port)) => (host, Some(port)),
                None => (text, Some("")),
            },
        };
        let is_host = !host.is_empty()
            && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._:".contains(c));
        let port = match port.ok_or("no port after ]")? {
            "" => default_port,
            port => port.parse().map_err(|_| "its port is not a number up to 65535")?,
        };
        if is_host { Ok(HostPort { host: host.into(), port }) } else { Err("invalid host name") }
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut digit = || char::from(bytes.next()?).to_digit(16);
            out.push(u8::try_from(digit()? * 16 + digit()?).ok().filter(|byte| *byte != 0)?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostPort { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl fmt::Display for LdapServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LdapServer::Plain(at) => write!(f, "ldap://{at}"),
            LdapServer::Tls(at) => write!(f, "ldaps://{at}"),
            LdapServer::Unix(path) => write!(f, "ldapi://{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let cases = [
            ("ldap://a.test", "ldap://a.test:389"),
            ("LDAP://a.test:1389/", "ldap://a.test:1389"),
            ("ldaps://[::1]", "ldaps://[::1]:636"),
            ("ldaps://127.0.0.1:1", "ldaps://127.0.0.1:1"),
            ("ldapi://", "ldapi:///run/slapd/ldapi"),
            ("ldapi:///", "ldapi:///run/slapd/ldapi"),
            ("ldapi:///run/a", "ldapi:///run/a"),
            ("ldapi://%2Frun%2fa%20b", "ldapi:///run/a b"),
        ];
        for (url, shown) in cases {
            assert_eq!(
                LdapServer::parse(url).map(|s| s.to_string()).as_deref(),
                Ok(shown),
                "{url}"
            );
        }
        for url in [
            "a.test",
            "http://a.test",
            "ldap://",
            "ldap://:389",
            "ldap://a.test:x",
            "ldap://a.test:70000",
            "ldap://::1",
            "ldap://[::1",
            "ldap://[::1]x",
            "ldap://[a.test]",
            "ldap://a.test/dc=test",
            "ldap://joe@a.test",
            "ldap://a b",
            "ldapi://run/a",
            "ldapi://%2",
            "ldapi:///a%00",
        ] {
            assert!(LdapServer::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn only_networks_are_readable_by_others() {
        for (url, readable) in [
            ("ldap://a.test", true),
            ("ldap://192.0.2.1", true),
            ("ldap://localhost", false),
            ("ldap://127.0.0.1", false),
            ("ldap://[::1]", false),
            ("ldaps://a.test", false),
            ("ldapi://", false),
        ] {
            assert_eq!(LdapServer::parse(url).unwrap().is_readable_by_others(), readable, "{url}");
        }
    }
}
