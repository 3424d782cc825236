//! Where passwords are hashed.

use super::Lane;
use crate::answer::{Answer, Later};
use auth::dkim::SigningKey;
use lookup::Requester;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// More is to be hashed than those who do it get done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overloaded;

/// What comes of hashing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hashed<T> {
    pub answer: T,
    /// As far as is known it was for nothing: what a wrong password takes is paced, what a right one takes
    /// is not.
    pub is_wasted: bool,
    /// Its client has failed to log in by it: what else it asks for waits among those who failed.
    pub has_failed: bool,
}

/// Where passwords are hashed: that takes long on purpose, and no shard waits for it.
pub trait Hashing: 'static {
    /// Does the work elsewhere, in the turn of whom it is for.
    ///
    /// # Errors
    /// Too much waits already in this lane, or it has waited too long: it is not done.
    fn run<T: Send + 'static>(
        &self,
        of: (Lane, Requester),
        work: impl FnOnce() -> Hashed<T> + Send + 'static,
    ) -> impl Future<Output = Result<T, Overloaded>> + 'static;

    /// Waits for the turn that a check in this lane would have, with nothing to be done then: a guess at a user
    /// who does not exist costs nothing, and nobody can tell it by its time from others.
    ///
    /// # Errors
    /// As [`Hashing::run`] has them; the places that they take are not those of checks.
    fn take_turn(
        &self,
        of: (Lane, Requester),
    ) -> impl Future<Output = Result<(), Overloaded>> + 'static;

    /// How long a check takes once its turn has come: the last one did.
    fn usual_time(&self) -> Duration;

    /// Bytes that nobody can guess.
    fn secret(&self) -> [u8; 16];
}

/// A world in which nobody logs in.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHashing;

impl Hashing for NoHashing {
    fn run<T: Send + 'static>(
        &self,
        _of: (Lane, Requester),
        _work: impl FnOnce() -> Hashed<T> + Send + 'static,
    ) -> impl Future<Output = Result<T, Overloaded>> + 'static {
        std::future::ready(Err(Overloaded))
    }

    fn take_turn(
        &self,
        _of: (Lane, Requester),
    ) -> impl Future<Output = Result<(), Overloaded>> + 'static {
        std::future::ready(Err(Overloaded))
    }

    fn usual_time(&self) -> Duration {
        Duration::ZERO
    }

    fn secret(&self) -> [u8; 16] {
        [0; 16]
    }
}

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
