//! How a connection is encrypted.

/// How a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// `TLSv1.3`, `TLSv1.2`.
    pub version: &'static str,
    /// The suite by its registered name: `TLS_AES_256_GCM_SHA384`.
    pub cipher: &'static str,
}
