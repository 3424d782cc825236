//! Which certificate a client is shown.

use config::Certificate;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{SignatureAlgorithm, SignatureScheme};
use std::sync::Arc;

/// A certificate with its key.
#[derive(Debug)]
pub(super) struct Shown {
    configured: Certificate,
    key: Arc<CertifiedKey>,
}

impl Shown {
    pub(super) fn new(configured: Certificate, key: Arc<CertifiedKey>) -> Shown {
        Shown { configured, key }
    }

    fn is_rsa(&self) -> bool {
        self.key.key.algorithm() == SignatureAlgorithm::RSA
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Choice(Vec<Shown>);

impl Choice {
    /// Those of the configuration, in its order.
    pub(super) fn new(mut all: Vec<Shown>) -> Choice {
        // Those of the first one's names stand for any: they come first, and RSA, which costs most,
        // last among equals.
        let names = all.first().map(|shown| shown.configured.names.clone());
        all.sort_by_key(|shown| (Some(&shown.configured.names) != names.as_ref(), shown.is_rsa()));
        Choice(all)
    }

    /// The first whose key the client takes, of those that have the name; if none has, of those that
    /// stand for any.
    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<&Shown> {
        let is_named = |shown: &&Shown| name.is_some_and(|name| shown.configured.is_for(name));
        let has_name = self.0.iter().any(|shown| is_named(&shown));
        let first = self.0.first()?;
        let is_meant = |shown: &&Shown| match has_name {
            true => is_named(shown),
            false => shown.configured.names == first.configured.names,
        };
        let takes = |shown: &&Shown| shown.key.key.choose_scheme(schemes).is_some();
        self.0.iter().filter(is_meant).find(takes)
    }
}

impl ResolvesServerCert for Choice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = self.choose(hello.server_name(), hello.signature_schemes())?;
        Some(Arc::clone(&shown.key))
    }
}
