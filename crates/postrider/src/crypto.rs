//! The one library by which TLS is done here, with its suites in our order.

use rustls::CipherSuite;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use std::sync::{Arc, LazyLock};

/// The TLS crypto provider, shared by all configurations, since some connections have their own.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(ordered()));
    Arc::clone(&PROVIDER)
}

/// Puts AES-128 suites first among the strong ones. A handshake derives its keys by their SHA-256, which processors
/// accelerate, unlike SHA-384. Mail sessions consist mostly of the handshake.
fn ordered() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    let is_light = |suite: CipherSuite| {
        matches!(
            suite,
            CipherSuite::TLS13_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        )
    };
    // TLS 1.3 stays in front: the sort is stable.
    provider.cipher_suites.sort_by_key(|suite| (suite.tls13().is_none(), !is_light(suite.suite())));
    provider
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lighter_of_good_suites_go_first_and_none_is_lost() {
        let suites = &provider().cipher_suites;
        let name = |n: usize| suites[n].suite();
        assert_eq!(name(0), CipherSuite::TLS13_AES_128_GCM_SHA256);
        assert_eq!(name(1), CipherSuite::TLS13_AES_256_GCM_SHA384);
        assert!(suites[..3].iter().all(|suite| suite.tls13().is_some()));
        assert_eq!(name(3), CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256);
        assert_eq!(suites.len(), aws_lc_rs::default_provider().cipher_suites.len());
    }
}
