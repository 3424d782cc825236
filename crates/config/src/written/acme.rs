//! `[acme]` as it is written.

use crate::quantity::DurationText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The authority that certificates with `acme = true` come from, asked over ACME (RFC 8555). Its account
/// and the certificates with their keys are kept in `acme/` of the first spool directory. A certificate is
/// renewed when a third of its time is left; whatever goes wrong with that, the one before stays in use.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AcmeText {
    /// The authority's directory, `https://…`. Without it: that of Let's Encrypt, whose
    /// `https://acme-staging-v02.api.letsencrypt.org/directory` is for trying.
    pub directory: String,
    /// Says that the authority's terms of service were read and are agreed to. Required: nothing is asked
    /// of it otherwise.
    pub terms_agreed: bool,
    /// The mail address at which the authority reaches whoever runs this server; given to it when
    /// the account is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// How the authority sees that a name is this server's.
    pub challenge: AcmeChallenge,
    /// Where its question is answered, and nothing else: it comes to port 80 for `"http-01"`, to 443 for
    /// `"tls-alpn-01"`, unless something before this machine leads it elsewhere. Without it: that port at all
    /// addresses of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "address:port"))]
    pub address: Option<String>,
    /// PEM file with the authorities that the certificate of the directory's server must be valid by.
    /// Without it: the roots of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
    /// What ties the account to a customer of the authority, where it wants that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_account: Option<ExternalAccountText>,
    /// Wait after an order that the authority refused, and between two orders for the same certificate; twice as
    /// long after each further refusal, up to 12 hours. Let's Encrypt bears five refusals an hour for
    /// each name.
    pub retry: DurationText,
}

impl Default for AcmeText {
    fn default() -> AcmeText {
        AcmeText {
            directory: "https://acme-v02.api.letsencrypt.org/directory".to_owned(),
            terms_agreed: false,
            contact: None,
            challenge: AcmeChallenge::default(),
            address: None,
            ca_file: None,
            external_account: None,
            retry: "15m".into(),
        }
    }
}

/// How an authority sees that a name is this server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum AcmeChallenge {
    /// It asks for a page at `http://NAME/.well-known/acme-challenge/` (RFC 8555 §8.3).
    #[default]
    #[serde(rename = "http-01")]
    Http01,
    /// It begins a TLS session with a protocol of its own (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl AcmeChallenge {
    /// Its name as RFC 8555 §9.7.8 registers it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            AcmeChallenge::Http01 => "http-01",
            AcmeChallenge::TlsAlpn01 => "tls-alpn-01",
        }
    }

    /// Where the authority's question comes to.
    #[must_use]
    pub fn port(self) -> u16 {
        match self {
            AcmeChallenge::Http01 => 80,
            AcmeChallenge::TlsAlpn01 => 443,
        }
    }
}

/// An external account binding (RFC 8555 §7.3.4).
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExternalAccountText {
    /// The key's name, as the authority gave it. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The file with the key, one line in base64url as the authority gave it, which others than its
    /// owner and group must not be able to read. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_file: Option<String>,
}

/// Kinds of keys that certificates are made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyType {
    /// ECDSA with P-256.
    #[default]
    Ecdsa,
    /// RSA with 2,048 bits.
    Rsa,
}
