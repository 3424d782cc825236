//! Certificates and keys in PEM files.

use crate::kept_open;
use mta::lack;
use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls_native_certs::ErrorKind;
use std::fmt::Display;
use std::io;
use std::path::Path;

/// All certificates of a file, at least one.
///
/// # Errors
/// A sentence that names the file.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let opened = kept_open::open(path).map_err(pem::Error::Io);
    let read = opened.and_then(|file| CertificateDer::pem_reader_iter(file).collect());
    let certificates: Vec<CertificateDer<'static>> = read.map_err(|error| about(path, error))?;
    match certificates.is_empty() {
        true => Err(about(path, "no certificate found")),
        false => Ok(certificates),
    }
}

/// All certificates of a text, at least one.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn certificates_in(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match read {
        Ok(certificates) if certificates.is_empty() => Err("no certificate found".to_owned()),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(error.to_string()),
    }
}

/// The private key of a file.
///
/// # Errors
/// A sentence that names the file.
pub(crate) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let opened = kept_open::open(path).map_err(pem::Error::Io);
    opened.and_then(PrivateKeyDer::from_pem_reader).map_err(|error| about(path, error))
}

/// The private key in a text.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn key_in(text: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(text).map_err(|error| error.to_string())
}

/// The roots of this machine. Invalid or forbidden files are skipped.
///
/// # Errors
/// Returns an error if a temporary exhaustion of resources made some unreadable: the rest must not pass for all.
pub(crate) fn native_roots() -> io::Result<Vec<CertificateDer<'static>>> {
    let found = rustls_native_certs::load_native_certs();
    match found.errors.iter().find(|error| is_passing(&error.kind)) {
        Some(error) => Err(lack::error(format!("the roots of this machine: {error}"))),
        None => Ok(found.certs),
    }
}

fn is_passing(error: &ErrorKind) -> bool {
    let ErrorKind::Io { inner, .. } = error else { return false };
    !matches!(inner.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
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

/// An error with the file's path.
pub(crate) fn about(path: &Path, error: impl Display) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_that_cannot_be_read_for_a_moment_are_told_from_such_as_are_not_there() {
        let kind = |number| {
            let inner = io::Error::from_raw_os_error(number);
            ErrorKind::Io { inner, path: "x".into() }
        };
        // EMFILE, EIO; ENOENT, EACCES.
        assert_eq!([24, 5, 2, 13].map(|n| is_passing(&kind(n))), [true, true, false, false]);
    }
}
