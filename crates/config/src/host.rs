//! Hosts that the file names.

use super::next_hop::host_text;
use mail::{AddressError, Domain};
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// A host and port, or a socket, to connect to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// Address or name.
    pub host: Host,
    /// TCP port; 0 for a socket.
    pub port: u16,
}

/// A host: an address, a name with addresses to look up, or a socket of this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// No lookup needed.
    Address(IpAddr),
    /// A and AAAA are looked up, never MX.
    Name(Domain),
    /// The path of a Unix socket; for LMTP.
    Socket(Arc<Path>),
}

/// Always with port: `192.0.2.1:25`, `[2001:db8::1]:25`, `mail.example.org:25`; or a path.
impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::Socket(path) => f.write_str(&host_text(&path.to_string_lossy(), 0)),
        }
    }
}

/// Limit of the kernel.
const SOCKET_PATH_BYTES: usize = 108;

impl HostPort {
    /// Reads `192.0.2.1`, `[2001:db8::1]:25`, `2001:db8::1`, `mail.example.org:587`,
    /// `/run/dovecot/lmtp` (also with `unix:` before it).
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str, default_port: u16) -> Result<HostPort, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(HostPort { host: Host::Address(address), port: default_port });
        }
        let path = text.strip_prefix("unix:").unwrap_or(text);
        if path.starts_with('/') {
            // sun_path, with the NUL at its end (unix(7)).
            if path.len() >= SOCKET_PATH_BYTES || path.contains('\0') {
                return Err(format!("a socket path has at most {} octets", SOCKET_PATH_BYTES - 1));
            }
            return Ok(HostPort { host: Host::Socket(Arc::from(Path::new(path))), port: 0 });
        }
        if text.starts_with("unix:") {
            return Err("a socket path must begin with /".to_owned());
        }
        let (host, port) = match text.rsplit_once(':') {
            // A colon inside the brackets of an address without port.
            Some((_, tail)) if tail.contains(']') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        let port = match port {
            None => default_port,
            Some(port) => match port.parse() {
                Ok(0) | Err(_) => return Err(format!("\"{port}\" is not a port")),
                Ok(port) => port,
            },
        };
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bracketed {
            Some(inner) => Host::Address(inner.parse().map_err(|_| not_an_address(inner, text))?),
            None => match host.parse::<IpAddr>() {
                Ok(address) => Host::Address(address),
                Err(_) => Host::Name(
                    Domain::parse(host)
                        .map_err(|e| format!("\"{host}\": {}", domain_mistake(host, &e)))?,
                ),
            },
        };
        Ok(HostPort { host, port })
    }
}

/// Brackets around a name are Postfix's mark for a host without MX lookup.
fn not_an_address(inner: &str, text: &str) -> String {
    match Domain::parse(inner) {
        Ok(_) => {
            let bare = text.replace(['[', ']'], "");
            format!("leave out the brackets: \"{bare}\"; only IP addresses have them")
        }
        Err(_) => format!("\"{inner}\" is not an IP address"),
    }
}

/// The error in a domain, with its remedy if that is known.
#[must_use]
pub fn domain_mistake(text: &str, error: &AddressError) -> String {
    let is = |name: &str| Domain::parse(name).is_ok();
    if let Some(name) = text.strip_suffix('.').filter(|name| is(name)) {
        return format!("leave out the dot at the end: \"{name}\"");
    }
    if let Some(name) = text.strip_prefix('*').filter(|name| is(name)) {
        return format!("write \"*.{name}\" for the domains below it, \"{name}\" for itself");
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unix_socket_is_told_from_a_host() {
        for text in ["unix:/run/dovecot/lmtp", "/run/dovecot/lmtp"] {
            let host = HostPort::parse(text, 24).unwrap();
            assert_eq!(host.host, Host::Socket(Arc::from(Path::new("/run/dovecot/lmtp"))));
            assert_eq!(host.to_string(), "/run/dovecot/lmtp");
        }
        assert!(HostPort::parse("unix:run/lmtp", 24).is_err());
        assert!(HostPort::parse(&format!("/{}", "x".repeat(106)), 24).is_ok());
        assert!(HostPort::parse(&format!("/{}", "x".repeat(107)), 24).is_err());
    }

    #[test]
    fn hosts_in_all_their_forms() {
        for (text, canonical) in [
            ("127.0.0.1:55225", "127.0.0.1:55225"),
            ("192.0.2.1", "192.0.2.1:25"),
            ("[::1]:2525", "[::1]:2525"),
            ("[2001:db8::1]", "[2001:db8::1]:25"),
            ("2001:db8::1", "[2001:db8::1]:25"),
            ("mail.example.org", "mail.example.org:25"),
            ("Mail.Example.org:587", "mail.example.org:587"),
        ] {
            assert_eq!(HostPort::parse(text, 25).unwrap().to_string(), canonical, "{text}");
        }
        for bad in
            ["", ":25", "host:", "host:0", "host:99999", "[::1", "[bad]:25", "a b", "[1.2.3]"]
        {
            assert!(HostPort::parse(bad, 25).is_err(), "{bad}");
        }
        let remedy = |text: &str| HostPort::parse(text, 25).unwrap_err();
        assert!(
            remedy("[smtp.example.net]:587")
                .starts_with("leave out the brackets: \"smtp.example.net:587\"")
        );
        assert!(
            remedy("[smtp.example.net]")
                .starts_with("leave out the brackets: \"smtp.example.net\"")
        );
        assert!(remedy("example.net.").ends_with("leave out the dot at the end: \"example.net\""));
    }
}
