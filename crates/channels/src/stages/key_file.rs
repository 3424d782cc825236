//! Files with private signing keys.

use auth::dkim::SigningKey;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// A file with a private key, as named by settings. The reader of files stores the key here before the settings come
/// into force, and after each change of the file.
#[derive(Debug)]
pub struct KeyFile {
    path: PathBuf,
    /// Its key in the configuration: `signer[0].key`.
    at: String,
    key: RwLock<Option<Arc<SigningKey>>>,
}

impl KeyFile {
    pub(crate) fn new(path: PathBuf, at: String) -> KeyFile {
        KeyFile { path, at, key: RwLock::default() }
    }

    /// Its key in the configuration: `signer[0].key`.
    #[must_use]
    pub fn at(&self) -> &str {
        &self.at
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the key that was read.
    pub fn set(&self, key: Arc<SigningKey>) {
        *self.key.write().unwrap_or_else(PoisonError::into_inner) = Some(key);
    }

    /// `None` if it was not read yet.
    pub(crate) fn key(&self) -> Option<Arc<SigningKey>> {
        self.key.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
