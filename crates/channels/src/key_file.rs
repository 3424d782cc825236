//! Files with private keys that sign.

use auth::dkim::SigningKey;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// A file that has a private key. Settings name it; whoever reads files puts the key here, before the
/// settings are in force and whenever the file changes.
#[derive(Debug)]
pub struct KeyFile {
    path: PathBuf,
    /// Where it is named: file and line.
    place: String,
    key: RwLock<Option<Arc<SigningKey>>>,
}

impl KeyFile {
    pub(crate) fn new(path: PathBuf, place: String) -> KeyFile {
        KeyFile { path, place, key: RwLock::default() }
    }

    /// Where the configuration names it: file and line.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// It has this key from now on.
    pub fn set(&self, key: Arc<SigningKey>) {
        *self.key.write().unwrap_or_else(PoisonError::into_inner) = Some(key);
    }

    /// `None`: nobody has read it.
    pub(crate) fn key(&self) -> Option<Arc<SigningKey>> {
        self.key.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
