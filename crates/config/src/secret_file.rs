//! Secrets that stand in places of their own, and are read by whoever may read there, or fetched from a
//! server.

use super::settings::Secret;
use super::web_place::WebPlace;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// Where a secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// It stands there.
    Place(PathBuf),
    /// A server gives it out, anew from time to time.
    Token(Box<TokenSource>),
}

/// An OAuth 2.0 server that gives out tokens (RFC 6749).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSource {
    /// Its token endpoint.
    pub at: WebPlace,
    /// Who we are there.
    pub client_id: Box<str>,
    /// Where the secret for that stands; `None`: it has none.
    pub client_secret: Option<PathBuf>,
    /// Where the refresh token stands (§6); `None`: we ask in our own name (§4.4).
    pub refresh_token: Option<PathBuf>,
    /// What the token is to be good for.
    pub scope: Option<Box<str>>,
    /// Those whose certificates are trusted; `None`: the machine's roots.
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
    /// One that stands at a place, and was not read.
    #[must_use]
    pub fn new(path: PathBuf) -> SecretFile {
        SecretFile::of(SecretSource::Place(path))
    }

    /// One that was not read.
    #[must_use]
    pub fn of(source: SecretSource) -> SecretFile {
        let content = RwLock::new(Err("there is none yet".into()));
        SecretFile { source, content, is_refused: AtomicBool::new(false) }
    }

    /// Where it comes from, as the configuration says.
    #[must_use]
    pub fn source(&self) -> &SecretSource {
        &self.source
    }

    /// Where it stands; `None`: it is fetched.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            SecretSource::Place(path) => Some(path),
            SecretSource::Token(_) => None,
        }
    }

    /// What it says.
    ///
    /// # Errors
    /// Why there is none.
    pub fn secret(&self) -> Result<Secret, Box<str>> {
        self.content.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It was read, or why there is none.
    pub fn put(&self, secret: Result<Secret, Box<str>>) {
        self.is_refused.store(false, Ordering::Relaxed);
        *self.content.write().unwrap_or_else(PoisonError::into_inner) = secret;
    }

    /// It was shown to somebody who did not take it.
    pub fn note_refused(&self) {
        self.is_refused.store(true, Ordering::Relaxed);
    }

    /// Whether what it says now was not taken.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }
}

/// The same source: what it says is none of the configuration.
impl PartialEq for SecretFile {
    fn eq(&self, other: &SecretFile) -> bool {
        self.source == other.source
    }
}

/// Nobody is shown what it says.
impl fmt::Debug for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretFile({:?})", self.source)
    }
}
