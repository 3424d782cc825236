//! State shared by a remote table's handles and its worker.

use super::metrics::RemoteMetrics;
use super::status::RemoteServerState;
use crate::world::clock::Start;
use config::TableCache;
use lookup::{Cache, Doubt, Entry, Lifetimes, LookupError};
use mail::Mono;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

/// The final answer for a key.
pub(super) type RemoteAnswer = Result<Option<Arc<Entry>>, LookupError>;

/// State shared by a remote table's handles and its worker.
#[derive(Debug)]
pub(super) struct RemoteTableShared {
    pub(super) name: Arc<str>,
    pub(super) cache: Cache,
    pub(super) metrics: Arc<RemoteMetrics>,
    /// Origin of [`Mono`].
    pub(super) started: Start,
    pub(super) next_ticket: AtomicU64,
    pub(super) seen: Mutex<RemoteServerState>,
    /// Decides if negative answers of the server count.
    pub(super) doubt: Mutex<Doubt>,
}

impl RemoteTableShared {
    pub(super) fn new(
        name: Arc<str>,
        cache: &TableCache,
        started: Start,
        seed: u64,
    ) -> RemoteTableShared {
        let lifetimes =
            Lifetimes { positive: cache.positive, negative: cache.negative, stale: cache.stale };
        RemoteTableShared {
            name,
            cache: Cache::new(cache.entries_max as usize, lifetimes, seed),
            metrics: Arc::default(),
            started,
            next_ticket: AtomicU64::new(0),
            seen: Mutex::default(),
            doubt: Mutex::default(),
        }
    }

    pub(super) fn now(&self) -> Mono {
        self.started.elapsed()
    }
}
