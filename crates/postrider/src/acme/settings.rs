//! `[acme]`.

use config::quantity::DurationText;
use config::{Area, Reader, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Octets of a directory's URL.
const URL_BYTES_MAX: usize = 1_024;

/// A retry is no shorter: whatever an authority bears, a loop is none of it.
const RETRY_MIN: Duration = Duration::from_secs(1);

/// The certificate authority for certificates with `acme = true`, by ACME (RFC 8555). The account and the certificates
/// with their keys are stored in `acme/` in the first spool directory. A certificate is renewed when a third of its
/// lifetime is left. If the renewal fails, the previous certificate stays in use.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AcmeText {
    /// URL of the authority's directory, `https://…`. Default: Let's Encrypt. Its directory for tests is
    /// `https://acme-staging-v02.api.letsencrypt.org/directory`.
    pub(crate) directory: String,
    /// Agreement to the authority's terms of service. Required for any request.
    pub(crate) terms_agreed: bool,
    /// Mail address for messages of the authority to the operator. Sent when the account is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) contact: Option<String>,
    /// Proof of control over a name.
    pub(crate) challenge: AcmeChallenge,
    /// Address and port for the authority's validation, used for nothing else. The authority connects to port 80 for
    /// `"http-01"` and to 443 for `"tls-alpn-01"`, unless a proxy in front forwards it. Default: that port on all
    /// addresses of this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "address:port"))]
    pub(crate) address: Option<String>,
    /// PEM file with the certificate authorities for the ACME server's certificate. Default: those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<String>,
    /// External account binding, if the authority requires it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) external_account: Option<ExternalAccountText>,
    /// Delay after a rejected order, and between two orders for the same certificate. Doubled after each further
    /// rejection, up to 12 hours. Let's Encrypt permits five failures per hour for each name.
    pub(crate) retry: DurationText,
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

/// Proof of control over a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub(crate) enum AcmeChallenge {
    /// The authority requests a page at `http://NAME/.well-known/acme-challenge/` (RFC 8555 §8.3).
    #[default]
    #[serde(rename = "http-01")]
    Http01,
    /// The authority opens a TLS connection with a special ALPN protocol (RFC 8737).
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl AcmeChallenge {
    /// Its name as RFC 8555 §9.7.8 registers it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            AcmeChallenge::Http01 => "http-01",
            AcmeChallenge::TlsAlpn01 => "tls-alpn-01",
        }
    }

    /// Where the authority's question comes to.
    pub(crate) fn port(self) -> u16 {
        match self {
            AcmeChallenge::Http01 => 80,
            AcmeChallenge::TlsAlpn01 => 443,
        }
    }
}

/// An external account binding (RFC 8555 §7.3.4).
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ExternalAccountText {
    /// Key identifier from the authority. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_id: Option<String>,
    /// File with the key from the authority, one line in base64url, readable by its owner and group only. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_file: Option<String>,
}

/// `[acme]`, where a certificate wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authority {
    /// The authority's directory, an `https` URL.
    pub(crate) directory: Box<str>,
    /// An address in ASCII.
    pub(crate) contact: Option<Box<str>>,
    /// How names are shown to be ours.
    pub(crate) challenge: AcmeChallenge,
    /// Where that is answered; `None`: at its port of all addresses.
    pub(crate) address: Option<SocketAddr>,
    /// PEM: who vouches for the directory; `None`: the roots of this machine.
    pub(crate) ca_file: Option<PathBuf>,
    /// What ties the account to a customer.
    pub(crate) external_account: Option<ExternalAccount>,
    /// Wait after the first refusal, and between two orders.
    pub(crate) retry: Duration,
    /// The directory of the account and the certificates.
    pub(crate) store: PathBuf,
}

impl Authority {
    /// The host in the directory's URL, with its port if that is no usual one.
    pub(crate) fn host(&self) -> &str {
        let rest = self.directory.split_once("://").map_or("", |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default()
    }
}

/// An external account binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExternalAccount {
    /// What the authority calls the key.
    pub(crate) key_id: Box<str>,
    /// The key, in base64url.
    pub(crate) key_file: PathBuf,
}

impl Section for Authority {
    const KEY: &'static str = "acme";
    const SUMMARY: &'static str = "The certificate authority for certificates with `acme = true`.";
    const AREA: Area = Area::Listeners;
    const IN_FORCE_BY: &'static str = "ordered certificates";
    type Text = AcmeText;
    type Value = Authority;

    fn read(text: AcmeText, reader: &mut Reader<'_, '_>) -> Option<Authority> {
        let Some(first) = reader.first_ordered() else {
            if reader.is_written("") {
                let help = "set `acme = true` in a [[certificate]] instead of `chain` and `key`";
                reader.warn("", "[acme] without a certificate with acme = true", help);
            }
            return None;
        };
        if !text.terms_agreed {
            check_terms(first, reader);
        }
        check_directory(&text.directory, reader);
        let retry = reader.timeout("retry", &text.retry);
        if !retry.is_zero() && retry < RETRY_MIN {
            reader.error("retry", "less than a second", "");
        }
        let contact = text.contact.filter(|contact| reader.mailbox("contact", contact).is_some());
        let address = text.address.as_deref();
        let external = text.external_account.as_ref();
        Some(Authority {
            directory: text.directory.as_str().into(),
            contact: contact.map(String::into_boxed_str),
            challenge: text.challenge,
            address: address.and_then(|address| reader.socket_address("address", address)),
            ca_file: text.ca_file.as_deref().map(|path| reader.file_path("ca_file", path)),
            external_account: external.and_then(|account| external_account(account, reader)),
            retry,
            store: reader.issued_certificates(),
        })
    }
}

/// The terms are not agreed to, and the certificate of this number is the first that needs it.
fn check_terms(first: usize, reader: &mut Reader<'_, '_>) {
    let message = "the terms of the certificate authority are not accepted";
    let help = "read the authority's terms of service, then set terms_agreed = true in [acme]";
    if reader.is_written("") {
        reader.error("", message, help);
    } else {
        reader.elsewhere(&format!("certificate[{first}]")).error("", message, help);
    }
}

/// RFC 8555 §6.1: only over HTTPS.
fn check_directory(url: &str, reader: &mut Reader<'_, '_>) {
    let rest = url.strip_prefix("https://");
    let host = rest.and_then(|rest| rest.split(['/', '?']).next()).unwrap_or_default();
    let is_url = !host.is_empty()
        && !host.contains('@')
        && url.len() <= URL_BYTES_MAX
        && url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if !is_url {
        let help = "for example \"https://acme-v02.api.letsencrypt.org/directory\"";
        reader.error("directory", format!("\"{}\" is not an https URL", url.escape_debug()), help);
    }
}

fn external_account(
    text: &ExternalAccountText,
    reader: &mut Reader<'_, '_>,
) -> Option<ExternalAccount> {
    let mut reader = reader.table_at("external_account");
    let Some((key_id, key_file)) = text.key_id.as_deref().zip(text.key_file.as_deref()) else {
        let help = "the authority gives both to its customers";
        reader.error("", "`key_id` and `key_file` need each other", help);
        return None;
    };
    reader.printable("key_id", key_id, 256);
    let key_file = reader.file_path("key_file", key_file);
    Some(ExternalAccount { key_id: key_id.into(), key_file })
}
