//! `[[certificate]]` as it is written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A certificate of this server, for TLS on listeners. Clients choose by the name that they ask for
/// (SNI); the first is for those that ask for none, or for one that no certificate has. Two of the
/// same names with keys of two kinds (RSA and ECDSA) stand beside each other: the client takes what
/// it knows, ECDSA first. Files that change are read anew within seconds; what can't be used is told, and the
/// one before stays.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CertificateText {
    /// The names that it is shown for: `mx.example.org`, or `*.example.org` for each name one label
    /// longer. Required.
    #[schemars(extend("items" = { "type": "string", "title": "domain" }))]
    pub names: Vec<String>,
    /// The file with the certificate and those that lead from it to a root, in PEM. Required
    /// without `acme`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// The file with its private key, in PEM, without a password. Required without `acme`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The certificate is ordered from the authority of `[acme]`, for `names`, and renewed in time. Before
    /// the first has come, the server starts without it.
    pub acme: bool,
    /// Of what kind its key is, with `acme`. Without it: `"ecdsa"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_type: Option<KeyType>,
    /// With `acme`: the key stays the same when the certificate is renewed, so that TLSA records about the
    /// key (`3 1 1`) go on being true.
    pub reuse_key: bool,
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
