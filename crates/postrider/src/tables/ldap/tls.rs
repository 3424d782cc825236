//! TLS to a directory's server.

use super::settings::TlsSettings;
use lookup::{Trouble, TroubleKind};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// What a connection needs to begin TLS. Files are read anew for each: certificates are renewed.
///
/// # Errors
/// A file that can't be read, or has not what it should.
pub(super) fn connector(settings: &TlsSettings) -> Result<TlsConnector, Trouble> {
    let versions = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("TLS", error))?;
    let builder = versions.with_root_certificates(roots(settings)?);
    let config = match &settings.own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| file(key, error))?;
            builder
                .with_client_auth_cert(chain, secret)
                .map_err(|error| file(certificate, error))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The name that a server's certificate must have.
pub(super) fn name(host: &str) -> Result<ServerName<'static>, Trouble> {
    ServerName::try_from(host.to_owned()).map_err(|error| unusable(host, error))
}

fn roots(settings: &TlsSettings) -> Result<RootCertStore, Trouble> {
    let mut roots = RootCertStore::empty();
    match &settings.ca_file {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| file(path, error))?;
            }
        }
        None => {
            // Some that can't be read leave the others.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Trouble> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<CertificateDer<'static>> = read.map_err(|error| file(path, error))?;
    if certificates.is_empty() { Err(file(path, "no certificate in it")) } else { Ok(certificates) }
}

fn file(path: &Path, error: impl Display) -> Trouble {
    unusable(&path.display().to_string(), error)
}

fn unusable(what: &str, error: impl Display) -> Trouble {
    Trouble::new(TroubleKind::Unreachable, format!("{what}: {error}"))
}
