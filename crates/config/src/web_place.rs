//! Places on web servers.

use std::net::IpAddr;

/// A URL on a web server reached confidentially: over TLS, or on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebPlace {
    pub is_encrypted: bool,
    /// Without the brackets of an IPv6 address.
    pub host: Box<str>,
    pub port: u16,
    /// With its `/`.
    pub path: Box<str>,
    /// In the form of the field Host.
    pub authority: Box<str>,
}

impl WebPlace {
    /// Parses a URL (RFC 3986, as far as needed).
    ///
    /// # Errors
    /// Returns an error for an invalid URL, or one over a network in clear.
    pub fn parse(url: &str) -> Result<WebPlace, &'static str> {
        let (is_encrypted, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            _ => return Err("it must begin with https://"),
        };
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains(['#', '@']) {
            return Err("it has characters not allowed in a URL");
        }
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => {
                (host, port.parse().map_err(|_| "its port is not a number up to 65535")?)
            }
            _ => (authority, if is_encrypted { 443 } else { 80 }),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let address = bare.parse::<IpAddr>().ok();
        if bare.is_empty() || (address.is_none() && !bare.chars().all(is_host)) || port == 0 {
            return Err("it has no host");
        }
        let is_here = address.is_some_and(|ip| ip.is_loopback()) || bare == "localhost";
        if !is_encrypted && !is_here {
            return Err("secrets would cross the network unencrypted");
        }
        Ok(WebPlace {
            is_encrypted,
            host: bare.into(),
            port,
            path: path.into(),
            authority: authority.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lead_somewhere() {
        for (url, shown) in [
            ("https://id.test/a?b=c", "true id.test 443 /a?b=c id.test"),
            ("HTTPS://id.test:8443", "true id.test 8443 / id.test:8443"),
            ("http://127.0.0.1:80/x", "false 127.0.0.1 80 /x 127.0.0.1:80"),
            ("http://localhost/x", "false localhost 80 /x localhost"),
            ("https://[2001:db8::1]/x", "true 2001:db8::1 443 /x [2001:db8::1]"),
            ("https://[::1]:9/x", "true ::1 9 /x [::1]:9"),
        ] {
            let WebPlace { is_encrypted, host, port, path, authority } =
                WebPlace::parse(url).unwrap();
            assert_eq!(format!("{is_encrypted} {host} {port} {path} {authority}"), shown);
        }
        for url in [
            "",
            "id.test",
            "ftp://id.test/",
            "https://",
            "https:///x",
            "https://id.test:x/",
            "https://id.test:0/",
            "https://jo@id.test/",
            "https://id.test/#x",
            "https://id.test/a b",
            "https://i d.test/",
            "http://id.test/",
            "http://192.0.2.1/",
        ] {
            assert!(WebPlace::parse(url).is_err(), "{url}");
        }
    }
}
