//! Files with private keys that sign.

use auth::dkim::SigningKey;
use mail::Mono;
use mta::line::{Permit, TrustLevel};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::Context;
use std::time::Duration;

/// A file that has a private key. Settings name it; whoever reads files puts the key here, before the
/// settings are in force and whenever the file changes.
#[derive(Debug)]
pub struct KeyFile {
    path: PathBuf,
    /// The key of the configuration that names it, `signer[0].key`.
    at: String,
    key: RwLock<Option<Arc<SigningKey>>>,
}

impl KeyFile {
    pub(crate) fn new(path: PathBuf, at: String) -> KeyFile {
        KeyFile { path, at, key: RwLock::default() }
    }

    /// The key of the configuration that names it, `signer[0].key`.
    #[must_use]
    pub fn at(&self) -> &str {
        &self.at
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

/// For so long it is held whatever others need, for a peer that is known to answer.
const KEPT_FOR: Duration = Duration::from_secs(5);
/// The same for another peer, the first time; each further time for twice as long, up to the same.
const KEPT_FIRST_FOR: Duration = Duration::from_millis(500);
/// A peer for which it is held longer is silent, or as good as.
const SILENCE: Duration = Duration::from_secs(30);

/// How long it is held.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    since: Mono,
    /// For so long it is held for a peer that is not known to answer.
    kept_for: Duration,
}

impl HeldMemory {
    /// From `now` on. What can be made without the disk is made again as soon as the peer asks for it.
    pub(crate) fn new(now: Mono, is_made: bool) -> HeldMemory {
        let kept_for = if is_made { Duration::ZERO } else { KEPT_FIRST_FOR };
        HeldMemory { since: now, kept_for }
    }

    /// What was let go is here again.
    pub(crate) fn again(&mut self, now: Mono) {
        self.since = now;
        self.kept_for = (self.kept_for * 2).clamp(KEPT_FIRST_FOR, KEPT_FOR);
    }

    /// Whether it is to be let go: it was held for long, and somebody waits for it who holds less. When to look again
    /// otherwise.
    pub(crate) fn poll_give_way(
        &self,
        memory: &mut Permit,
        cx: &mut Context<'_>,
        now: Mono,
    ) -> (bool, Mono) {
        // Whoever is not known to answer is doubtful as soon as its connection is.
        let (kept_for, silence) = match memory.standing() {
            TrustLevel::Good => (KEPT_FOR, SILENCE),
            TrustLevel::Unknown | TrustLevel::Doubtful => (self.kept_for, KEPT_FOR),
        };
        let (kept_until, silent_at) = (self.since + kept_for, self.since + silence);
        if now < kept_until {
            return (false, kept_until);
        }
        memory.idle(self.since);
        if now >= silent_at {
            memory.doubt();
        }
        let gives_way = memory.poll_give_way(cx).is_ready();
        (gives_way, if now < silent_at { silent_at } else { Mono::NEVER })
    }
}
