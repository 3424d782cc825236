//! Settings of the ARC seal of a listener (`seal`).

use crate::stages::key_file::KeyFile;
use auth::dkim::SigningIdentity;
use config::{Explainer, Reader};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// Identity for ARC seals.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SealText {
    /// The signing domain, one of this server's. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    /// Selector of the public key in the TXT record `SELECTOR._domainkey.DOMAIN`, as for DKIM. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<String>,
    /// File with the private key in PEM: RSA of at least 2,048 bits, or Ed25519 (RFC 8463), which few servers can
    /// verify yet. It must be readable by its owner and group only. A changed file is read again within seconds.
    /// Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

/// Identity for ARC seals.
#[derive(Debug)]
pub(crate) struct Seal {
    domain: String,
    selector: String,
    pub(crate) key: Arc<KeyFile>,
}

impl SealText {
    /// Returns `None` after an error, which `reader` has reported.
    pub(super) fn read(&self, reader: &mut Reader<'_, '_>) -> Option<Seal> {
        let domain = dns_name(reader, "domain", self.domain.as_deref(), "\"example.org\"");
        let selector = dns_name(reader, "selector", self.selector.as_deref(), "\"s2026\"");
        let Some(key) = &self.key else {
            let help = "name the file, for example key = \"/etc/postrider/arc.pem\"";
            reader.error("seal", "a seal without `key`", help);
            return None;
        };
        let key = KeyFile::new(reader.file_path("seal.key", key), reader.path("seal.key"));
        Some(Seal { domain: domain?, selector: selector?, key: Arc::new(key) })
    }
}

/// A name that can be looked up in the DNS, in ASCII and lower case.
fn dns_name(
    reader: &mut Reader<'_, '_>,
    key: &str,
    text: Option<&str>,
    example: &str,
) -> Option<String> {
    let help = format!("for example {key} = {example}");
    let Some(text) = text else {
        reader.error("seal", format!("a seal without `{key}`"), &help);
        return None;
    };
    let ascii = mail::Domain::dns_name(text);
    if ascii.is_none() {
        let message = format!("\"{text}\" is not a DNS name");
        reader.error(&format!("seal.{key}"), message, &help);
    }
    ascii
}

impl Seal {
    /// The signing identity. `None` if the key was not read.
    pub(crate) fn identity(&self) -> Option<SigningIdentity> {
        let (domain, selector) = (self.domain.clone(), self.selector.clone());
        Some(SigningIdentity { domain, selector, key: self.key.key()? })
    }

    pub(super) fn explain(&self, explainer: &mut Explainer<'_>) {
        explainer.own_key("seal", self.to_string());
    }
}

impl fmt::Display for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seal { domain, selector, key } = self;
        write!(f, "ARC by {selector}._domainkey.{domain}, key {}", key.path().display())
    }
}
