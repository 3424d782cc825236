//! An OAuth 2.0 server that is asked whose a token is.

use config::Reader;
use mta::seams::{Introspection, WebPlace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// An OAuth 2.0 server that is asked whose a token is (RFC 7662).
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct IntrospectionText {
    /// Its introspection endpoint, `https://…`; `http://` only at a loopback address. Required.
    url: String,
    /// As whom it is asked (RFC 6749 §2.3.1). Required.
    client_id: String,
    /// File whose first line is the secret for that. It is read at each question. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret_file: Option<PathBuf>,
    /// The member of its answer that has the user's name: `username`, `sub`, `email`.
    user_claim: String,
    /// A token must be good for this (one of the words in `scope`). Without it: for anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    /// PEM file with the certificates that the server's must be signed by; without it the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    ca_file: Option<PathBuf>,
}

impl Default for IntrospectionText {
    fn default() -> IntrospectionText {
        IntrospectionText {
            url: String::new(),
            client_id: String::new(),
            secret_file: None,
            user_claim: "username".into(),
            scope: None,
            ca_file: None,
        }
    }
}

impl IntrospectionText {
    /// `None` when there is a mistake in it, which `reader` was told.
    pub(super) fn read(&self, reader: &mut Reader<'_, '_>) -> Option<Arc<Introspection>> {
        const AT: &str = "logins.introspection";
        let place = place(&self.url);
        if let Err(why) = &place {
            let help = "such as \"https://id.example.org/oauth2/introspect\"";
            let message = format!("\"{}\" is no place to ask: {why}", self.url.escape_debug());
            let key = if self.url.is_empty() { AT.to_owned() } else { format!("{AT}.url") };
            reader.error(&key, message, help);
        }
        if self.client_id.is_empty() || self.secret_file.is_none() {
            let help = "give it `client_id` and `secret_file`, as the server knows us";
            reader.error(AT, "nobody is told whose a token is who doesn't say who asks", help);
        }
        reader.printable(&format!("{AT}.user_claim"), &self.user_claim, 64);
        // RFC 6749 §3.3: it has neither blanks nor quotes, so that it may stand in JSON as it is.
        let is_word = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
        let scope = self.scope.as_deref();
        if scope.is_some_and(|scope| scope.is_empty() || !scope.chars().all(is_word)) {
            reader.error(&format!("{AT}.scope"), "one word is wanted", "such as \"mail.send\"");
        }
        Some(Arc::new(Introspection {
            at: place.ok()?,
            client_id: self.client_id.as_str().into(),
            secret_file: self.secret_file.clone()?,
            user_claim: self.user_claim.as_str().into(),
            scope: scope.map(Box::from),
            ca_file: self.ca_file.clone(),
        }))
    }
}

/// Where a URL leads (RFC 3986, as far as it is of use here).
fn place(url: &str) -> Result<WebPlace, &'static str> {
    let (is_encrypted, rest) = match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
        _ => return Err("it does not begin with https://"),
    };
    if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains(['#', '@']) {
        return Err("it has characters that mean nothing here");
    }
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            (host, port.parse().map_err(|_| "its port is no number up to 65535")?)
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
        return Err("tokens would go over the network in clear");
    }
    Ok(WebPlace {
        is_encrypted,
        host: bare.into(),
        port,
        path: path.into(),
        authority: authority.into(),
    })
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
            let WebPlace { is_encrypted, host, port, path, authority } = place(url).unwrap();
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
            assert!(place(url).is_err(), "{url}");
        }
    }
}
