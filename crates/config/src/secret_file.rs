//! Secrets in separate files, read outside of this crate, or fetched from a server.

use super::settings::Secret;
use super::web_place::WebPlace;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// Source of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// A file.
    Place(PathBuf),
    /// A server issues it, renewed from time to time.
    Token(Box<TokenSource>),
}

/// An OAuth 2.0 server that issues tokens (RFC 6749).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSource {
    /// Its token endpoint.
    pub at: WebPlace,
    /// The client id at that server.
    pub client_id: Box<str>,
    /// File with the client secret; `None`: none.
    pub client_secret: Option<PathBuf>,
    /// File with the refresh token (§6); `None`: the client credentials grant is used (§4.4).
    pub refresh_token: Option<PathBuf>,
    /// Requested scope of the token.
    pub scope: Option<Box<str>>,
    /// Trusted authorities; `None`: the machine's roots.
    pub ca_file: Option<PathBuf>,
}

/// For people.
impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretSource::Place(path) => path.display().fmt(f),
            SecretSource::Token(source) => write!(f, "a token of {}", source.at.authority),
        }
    }
}

/// A secret. It is read before the configuration is used, and again when it changes.
pub struct SecretFile {
    source: SecretSource,
    content: RwLock<Result<Secret, Box<str>>>,
    is_refused: AtomicBool,
}

impl SecretFile {
    /// A secret in a file, not read yet.
    #[must_use]
    pub fn new(path: PathBuf) -> SecretFile {
        SecretFile::of(SecretSource::Place(path))
    }

    /// One that was not read.
    #[must_use]
    pub fn of(source: SecretSource) -> SecretFile {
        let content = RwLock::new(Err("not obtained yet".into()));
        SecretFile { source, content, is_refused: AtomicBool::new(false) }
    }

    /// Its source, as configured.
    #[must_use]
    pub fn source(&self) -> &SecretSource {
        &self.source
    }

    /// Its file; `None` if fetched.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            SecretSource::Place(path) => Some(path),
            SecretSource::Token(_) => None,
        }
    }

    /// The secret.
    ///
    /// # Errors
    /// Returns the reason why it is unavailable.
    pub fn secret(&self) -> Result<Secret, Box<str>> {
        self.content.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the secret, or the reason why it is unavailable.
    pub fn put(&self, secret: Result<Secret, Box<str>>) {
        self.is_refused.store(false, Ordering::Relaxed);
        *self.content.write().unwrap_or_else(PoisonError::into_inner) = secret;
    }

    /// A peer rejected it.
    pub fn note_refused(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }

    /// Returns true if the current secret was rejected.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }
}

/// Compares the sources: the content is not part of the configuration.
impl PartialEq for SecretFile {
    fn eq(&self, other: &SecretFile) -> bool {
        self.source == other.source
    }
}

/// The content is not shown.
impl fmt::Debug for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretFile({:?})", self.source)
    }
}
