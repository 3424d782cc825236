//! How a connection is encrypted, and whom a peer's certificate must convince.

use auth::fingerprint::Fingerprint;
use auth::tls_report::ResultType;
use auth::tlsa::Tlsa;
use config::CertificateIdentity;
use std::fmt;
use std::sync::Arc;

/// How a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// `TLSv1.3`, `TLSv1.2`.
    pub version: &'static str,
    /// The suite by its registered name: `TLS_AES_256_GCM_SHA384`.
    pub cipher: &'static str,
}

/// What a handshake with a peer failed for, in words and as reports have it.
#[derive(Debug)]
pub struct HandshakeError {
    pub result: ResultType,
    pub words: Box<str>,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for HandshakeError {}

impl HandshakeError {
    /// What an error of a handshake, or of a look at a certificate, is in a report.
    #[must_use]
    pub fn result_of(error: &std::io::Error) -> ResultType {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<HandshakeError>());
        inner.map_or(ResultType::ValidationFailure, |error| error.result)
    }
}

/// What a client's certificate is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    certificate: Fingerprint,
    key: Fingerprint,
    name: Option<Box<str>>,
}

impl ClientCertificate {
    /// One in DER, with the name in it that counts. `None`: it is none.
    #[must_use]
    pub fn new(der: &[u8], name: Option<Box<str>>) -> Option<ClientCertificate> {
        let certificate = Fingerprint::of(der);
        Some(ClientCertificate { certificate, key: Fingerprint::of_key(der)?, name })
    }

    /// What it is known by; `None`: it has no name.
    #[must_use]
    pub fn identity(&self, by: CertificateIdentity) -> Option<String> {
        match by {
            CertificateIdentity::Name => self.name.as_deref().map(str::to_owned),
            CertificateIdentity::Certificate => Some(self.certificate.to_string()),
            CertificateIdentity::Key => Some(self.key.to_string()),
        }
    }
}

/// Which certificate a peer must have. Sessions that began with one are never resumed with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Any: that keeps out who only listens (RFC 7435).
    Anyone,
    /// One that is valid by the roots of this machine, for the host's name: the route says so.
    Roots,
    /// The same, as the domain promises (RFC 8461 §4.2).
    MtaSts,
    /// One that the host's TLSA records are about (RFC 7672 §3).
    Dane(Arc<DaneTrust>),
}

/// TLSA records of a host, and what it may be called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DaneTrust {
    /// One of these must be in the host's certificate, where a record is about an authority
    /// (RFC 7672 §3.2.2). The first is what the host is asked for (§8.1).
    pub names: Vec<Arc<str>>,
    /// At least one, all usable.
    pub records: Vec<Tlsa>,
}
