//! TLS properties of a connection, and trust in a peer's certificate.

use auth::fingerprint::Fingerprint;
use auth::tls_report::ResultType;
use auth::tlsa::Tlsa;
use config::CertificateIdentity;
use std::fmt;
use std::sync::Arc;

/// TLS properties of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// `TLSv1.3`, `TLSv1.2`.
    pub version: &'static str,
    /// The suite by its registered name: `TLS_AES_256_GCM_SHA384`.
    pub cipher: &'static str,
}

/// The reason for which a handshake with a peer failed, as text and as a report's result type.
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
    /// The result type of a handshake error or certificate error.
    #[must_use]
    pub fn result_of(error: &std::io::Error) -> ResultType {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<HandshakeError>());
        inner.map_or(ResultType::ValidationFailure, |error| error.result)
    }
}

/// The identities of a client's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    certificate: Fingerprint,
    key: Fingerprint,
    name: Option<Box<str>>,
}

impl ClientCertificate {
    /// A certificate in DER, with its accepted name. `None` if it is malformed.
    #[must_use]
    pub fn new(der: &[u8], name: Option<Box<str>>) -> Option<ClientCertificate> {
        let certificate = Fingerprint::of(der);
        Some(ClientCertificate { certificate, key: Fingerprint::of_key(der)?, name })
    }

    /// The identity of the given kind; `None` if it is a name and the certificate has none.
    #[must_use]
    pub fn identity(&self, by: CertificateIdentity) -> Option<String> {
        match by {
            CertificateIdentity::Name => self.name.as_deref().map(str::to_owned),
            CertificateIdentity::Certificate => Some(self.certificate.to_string()),
            CertificateIdentity::Key => Some(self.key.to_string()),
        }
    }
}

/// The certificate that a peer must have. A session that began with one policy is never resumed with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Any certificate: protects against passive attacks only (RFC 7435).
    Anyone,
    /// A certificate valid by the system's roots for the host's name, as the route requires.
    Roots,
    /// The same, as the domain's policy requires (RFC 8461 §4.2).
    MtaSts,
    /// A certificate that matches the host's TLSA records (RFC 7672 §3).
    Dane(Arc<DaneTrust>),
}

/// TLSA records of a host, and its reference names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DaneTrust {
    /// If a record is about an authority, the certificate must contain one of these names (RFC 7672 §3.2.2). The first
    /// is sent as SNI (§8.1).
    pub names: Vec<Arc<str>>,
    /// At least one, all usable.
    pub records: Vec<Tlsa>,
}
