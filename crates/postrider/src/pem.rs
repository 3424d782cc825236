//! Certificates and keys in PEM files.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt::Display;
use std::path::Path;

/// All certificates of a file, at least one.
///
/// # Errors
/// A sentence that names the file.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<CertificateDer<'static>> = read.map_err(|error| about(path, error))?;
    match certificates.is_empty() {
        true => Err(about(path, "no certificate in it")),
        false => Ok(certificates),
    }
}

/// The private key of a file.
///
/// # Errors
/// A sentence that names the file.
pub(crate) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| about(path, error))
}

/// The roots of this machine, as far as they can be read.
pub(crate) fn native_roots() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// The authorities of a file, at least one.
///
/// # Errors
/// A sentence that names the file.
pub(crate) fn roots(path: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| about(path, error))?;
    }
    Ok(roots)
}

/// What is wrong with a file.
pub(crate) fn about(path: &Path, error: impl Display) -> String {
    format!("{}: {error}", path.display())
}
