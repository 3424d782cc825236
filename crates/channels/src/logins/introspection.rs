//! OAuth 2.0 token introspection (RFC 7662): the server returns the user of a token.

use config::{Reader, WebPlace};
use mta::seams::Introspection;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// OAuth 2.0 token introspection (RFC 7662).
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct IntrospectionText {
    /// The introspection endpoint, `https://…`; `http://` is accepted for a loopback address only. Required.
    url: String,
    /// Client id of this server (RFC 6749 §2.3.1). Required.
    client_id: String,
    /// File with the client secret in its first line, read for each request. Also `env:NAME` or
    /// `$CREDENTIALS_DIRECTORY/NAME`, see `docs/tls.md`. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    secret_file: Option<PathBuf>,
    /// The member of the response that contains the user name: `username`, `sub`, `email`.
    user_claim: String,
    /// Scope that a token must have (one entry of `scope`). Default: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    /// PEM file with the certificate authorities for the server's certificate. Default: those of the system.
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
    /// Returns `None` after an error, which `reader` has reported.
    pub(super) fn read(&self, reader: &mut Reader<'_, '_>) -> Option<Arc<Introspection>> {
        const AT: &str = "logins.introspection";
        let place = WebPlace::parse(&self.url);
        if let Err(why) = &place {
            let help = "for example \"https://id.example.org/oauth2/introspect\"";
            let message =
                format!("\"{}\" is not an introspection endpoint: {why}", self.url.escape_debug());
            let key = if self.url.is_empty() { AT.to_owned() } else { format!("{AT}.url") };
            reader.error(&key, message, help);
        }
        if self.client_id.is_empty() || self.secret_file.is_none() {
            let help = "set `client_id` and `secret_file`";
            reader.error(AT, "`introspection` without client id and secret", help);
        }
        reader.printable(&format!("{AT}.user_claim"), &self.user_claim, 64);
        // RFC 6749 §3.3: no blanks and no quotes, so it needs no escaping in JSON.
        let is_word = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
        let scope = self.scope.as_deref();
        if scope.is_some_and(|scope| scope.is_empty() || !scope.chars().all(is_word)) {
            reader.error(&format!("{AT}.scope"), "not a single scope", "for example \"mail.send\"");
        }
        reader.named_file(&format!("{AT}.secret_file"), self.secret_file.as_deref());
        reader.named_file(&format!("{AT}.ca_file"), self.ca_file.as_deref());
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
