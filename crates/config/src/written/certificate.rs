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
    /// The file with the certificate and those that lead from it to a root, in PEM. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// The file with its private key, in PEM, without a password. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}
