//! Password hashing.

use super::Lane;
use crate::answer::{Answer, Later};
use auth::dkim::SigningKey;
use lookup::Requester;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The hashing threads are overloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overloaded;

/// The result of hashing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hashed<T> {
    pub answer: T,
    /// The work was probably wasted: the time for wrong passwords is paced, the time for correct ones is not.
    pub is_wasted: bool,
    /// The client's login failed: its further requests wait in the lane of failed clients.
    pub has_failed: bool,
}

/// Password hashing. It is slow on purpose, so it runs outside the shards.
pub trait Hashing: 'static {
    /// Does the work on another thread, in the requester's turn.
    ///
    /// # Errors
    /// Too many requests wait in this lane, or the request has waited too long: it is not done.
    fn run<T: Send + 'static>(
        &self,
        of: (Lane, Requester),
        work: impl FnOnce() -> Hashed<T> + Send + 'static,
    ) -> impl Future<Output = Result<T, Overloaded>> + 'static;

    /// Waits for the turn that a check in this lane would get, without work. A guess at a nonexistent user then costs
    /// no hashing, and its time does not show that the user does not exist.
    ///
    /// # Errors
    /// As for [`Hashing::run`]; the waiting places are separate from those of checks.
    fn take_turn(
        &self,
        of: (Lane, Requester),
    ) -> impl Future<Output = Result<(), Overloaded>> + 'static;

    /// Duration of the last check, from the start of its turn.
    fn usual_time(&self) -> Duration;

    /// Unpredictable bytes.
    fn secret(&self) -> [u8; 16];
}

/// Has no logins.
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

/// A key, or the error as a sentence.
pub type ReadKey = Result<Arc<SigningKey>, String>;

/// Reads signing keys from files named in tables.
pub trait KeyFiles {
    /// The current key in a file.
    fn read(&self, path: &Path) -> Answer<'static, ReadKey>;

    /// Parses a key in PEM.
    ///
    /// # Errors
    /// The error in the key.
    fn parse(&self, pem: &str) -> ReadKey;
}

/// Reads no key files.
#[derive(Clone, Copy, Debug)]
pub struct NoKeyFiles;

impl KeyFiles for NoKeyFiles {
    fn read(&self, _: &Path) -> Answer<'static, ReadKey> {
        let later: Later<'static, ReadKey> =
            Box::pin(async { Err("key files are not supported".to_owned()) });
        Answer::Later(later)
    }

    fn parse(&self, _: &str) -> ReadKey {
        Err("keys are not supported".to_owned())
    }
}
