//! Secrets that stand in files of their own, and are read by whoever may read files.

use super::settings::Secret;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// A file with one secret in it. It is read before the configuration is used, and again when it changes.
pub struct SecretFile {
    path: PathBuf,
    content: RwLock<Option<Secret>>,
}

impl SecretFile {
    /// One that was not read.
    #[must_use]
    pub fn new(path: PathBuf) -> SecretFile {
        SecretFile { path, content: RwLock::default() }
    }

    /// Where it is, as the configuration says.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says; `None`: nobody has read it.
    #[must_use]
    pub fn secret(&self) -> Option<Secret> {
        self.content.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It was read.
    pub fn put(&self, secret: Secret) {
        *self.content.write().unwrap_or_else(PoisonError::into_inner) = Some(secret);
    }
}

/// The same file: what it says is none of the configuration.
impl PartialEq for SecretFile {
    fn eq(&self, other: &SecretFile) -> bool {
        self.path == other.path
    }
}

/// Nobody is shown what it says.
impl fmt::Debug for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretFile({:?})", self.path)
    }
}
