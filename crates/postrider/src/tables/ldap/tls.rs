//! TLS to a directory's server.

use super::settings::TlsSettings;
use crate::{crypto, pem};
use lookup::{LookupError, LookupErrorKind};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::fmt::Display;
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// The TLS connector of a connection. Files are read for each connection, since certificates are renewed.
///
/// # Errors
/// Returns an error for an unreadable or invalid file.
pub(super) fn connector(settings: &TlsSettings) -> Result<TlsConnector, LookupError> {
    let versions = ClientConfig::builder_with_provider(crypto::provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("TLS", error))?;
    let builder = versions.with_root_certificates(roots(settings)?);
    let config = match &settings.own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = pem::certificates(certificate).map_err(unreadable)?;
            let secret = pem::key(key).map_err(unreadable)?;
            let config = builder.with_client_auth_cert(chain, secret);
            config.map_err(|error| unreadable(pem::about(certificate, error)))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The name that a server's certificate must have.
pub(super) fn name(host: &str) -> Result<ServerName<'static>, LookupError> {
    ServerName::try_from(host.to_owned()).map_err(|error| unusable(host, error))
}

fn roots(settings: &TlsSettings) -> Result<RootCertStore, LookupError> {
    if let Some(path) = &settings.ca_file {
        return pem::roots(path).map_err(unreadable);
    }
    let mut roots = RootCertStore::empty();
    let native = pem::native_roots().map_err(|error| unreadable(error.to_string()))?;
    roots.add_parsable_certificates(native);
    Ok(roots)
}

fn unusable(what: &str, error: impl Display) -> LookupError {
    unreadable(format!("{what}: {error}"))
}

fn unreadable(why: String) -> LookupError {
    LookupError::new(LookupErrorKind::Unreachable, why)
}
