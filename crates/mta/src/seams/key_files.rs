//! Who reads keys that sign.

use crate::answer::{Answer, Later};
use auth::dkim::SigningKey;
use std::path::Path;
use std::sync::Arc;

/// A key, or why there is none, in a sentence.
pub type ReadKey = Result<Arc<SigningKey>, String>;

/// Reads keys that sign from files that tables name.
pub trait KeyFiles {
    /// The key that a file has now.
    fn read(&self, path: &Path) -> Answer<'static, ReadKey>;

    /// The key in a PEM text.
    ///
    /// # Errors
    /// What is wrong with it.
    fn parse(&self, pem: &str) -> ReadKey;
}

/// Where nobody reads any.
#[derive(Clone, Copy, Debug)]
pub struct NoKeyFiles;

impl KeyFiles for NoKeyFiles {
    fn read(&self, _: &Path) -> Answer<'static, ReadKey> {
        let later: Later<'static, ReadKey> =
            Box::pin(async { Err("nobody reads key files".to_owned()) });
        Answer::Later(later)
    }

    fn parse(&self, _: &str) -> ReadKey {
        Err("nobody reads keys".to_owned())
    }
}
