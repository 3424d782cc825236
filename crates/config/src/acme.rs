//! Certificates that an authority is asked for.

use super::written::{AcmeChallenge, KeyType};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// `[acme]`, where a certificate wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acme {
    /// The authority's directory, an `https` URL.
    pub directory: Box<str>,
    /// An address in ASCII.
    pub contact: Option<Box<str>>,
    /// How names are shown to be ours.
    pub challenge: AcmeChallenge,
    /// Where that is answered; `None`: at its port of all addresses.
    pub address: Option<SocketAddr>,
    /// PEM: who vouches for the directory; `None`: the roots of this machine.
    pub ca_file: Option<PathBuf>,
    /// What ties the account to a customer.
    pub external_account: Option<ExternalAccount>,
    /// Wait after the first refusal, and between two orders.
    pub retry: Duration,
    /// The directory of the account and the certificates.
    pub store: PathBuf,
}

impl Acme {
    /// The host in the directory's URL, with its port if that is no usual one.
    #[must_use]
    pub fn host(&self) -> &str {
        let rest = self.directory.split_once("://").map_or("", |(_, rest)| rest);
        rest.split('/').next().unwrap_or_default()
    }
}

/// An external account binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalAccount {
    /// What the authority calls the key.
    pub key_id: Box<str>,
    /// The key, in base64url.
    pub key_file: PathBuf,
}

/// How a certificate is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// Of its key.
    pub key_type: KeyType,
    /// Whether the key stays the same.
    pub reuse_key: bool,
}
