//! A directory that is searched: with timeouts, and by another server when one fails.

use super::connection::{SearchError, SearchResult};
use super::pool::{LdapPool, Lease};
use super::settings::LdapSettings;
use ldap::{Filter, Key, Scope, Search, code};
use lookup::{LookupError, LookupErrorKind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Extra time for the server's own time limit error to arrive.
const GRACE: Duration = Duration::from_millis(500);

/// A server that is silent for this time during a search may be dead.
const SUSPICIOUS: Duration = Duration::from_secs(1);

/// A directory that can be searched.
pub(super) struct LdapDirectory {
    pub(super) settings: Arc<LdapSettings>,
    pub(super) pool: Rc<LdapPool>,
    /// Requested attributes: values and members.
    wanted: Vec<Box<str>>,
}

/// Selects entries.
#[derive(Clone, Copy)]
pub(super) struct SearchQuery<'a> {
    pub(super) base: &'a str,
    pub(super) scope: Scope,
    pub(super) filter: &'a Filter,
    pub(super) key: Key<'a>,
}

/// Detects, when dropped, a search that was abandoned before its timeout. If the server sent nothing in that time, the
/// server or the connection may be dead, and the next search must not use it.
struct AbandonedSearch<'a> {
    directory: &'a LdapDirectory,
    lease: &'a Lease<'a>,
    asked: Instant,
}

impl Drop for AbandonedSearch<'_> {
    fn drop(&mut self) {
        let waited = self.asked.elapsed();
        if waited >= SUSPICIOUS && self.lease.connection.heard() <= self.asked {
            let text = format!("no answer within {waited:.1?}");
            let trouble = LookupError::new(LookupErrorKind::Timeout, text);
            let trouble = self.directory.named(self.lease, &trouble);
            self.directory.pool.failed(self.lease, &trouble);
        }
    }
}

/// The meaning of a search's result.
enum SearchOutcome {
    /// The entries found; `None` if the base does not exist.
    Entries(Option<Vec<ldap::Entry>>),
    /// Another server may know.
    Elsewhere(LookupError),
    /// Other servers would return the same error.
    Final(LookupError),
}

impl LdapDirectory {
    pub(super) fn new(settings: Arc<LdapSettings>) -> LdapDirectory {
        let wanted = settings.attributes.iter().chain(&settings.members).cloned().collect();
        let pool = Rc::new(LdapPool::new(Arc::clone(&settings)));
        LdapDirectory { settings, pool, wanted }
    }

    /// The entries that answer a question; `None`: its base is not there. Asks another server when one
    /// fails.
    pub(super) async fn search(
        &self,
        question: SearchQuery<'_>,
    ) -> Result<Option<Vec<ldap::Entry>>, LookupError> {
        // A connection may have been closed while it was idle, and then each server may fail.
        let mut chances = self.settings.servers.len();
        loop {
            let lease = self.pool.lease().await?;
            let trouble = match self.ask(&lease, question).await {
                SearchOutcome::Entries(entries) => return Ok(entries),
                SearchOutcome::Final(trouble) => return Err(trouble),
                SearchOutcome::Elsewhere(trouble) => trouble,
            };
            if chances == 0 {
                return Err(trouble);
            }
            chances -= 1;
        }
    }

    /// Asks one server.
    async fn ask(&self, lease: &Lease<'_>, question: SearchQuery<'_>) -> SearchOutcome {
        let SearchQuery { base, scope, filter, key } = question;
        let LdapSettings { results_max, timeout: wait, .. } = &*self.settings;
        let search = Search {
            base,
            scope,
            filter,
            key,
            attributes: &self.wanted,
            entries_max: i32::try_from(*results_max).unwrap_or(i32::MAX),
            seconds_max: i32::try_from(wait.as_secs().max(1)).unwrap_or(i32::MAX),
        };
        let asked = Instant::now();
        let wait = wait.saturating_add(GRACE);
        let given_up = AbandonedSearch { directory: self, lease, asked };
        let found = timeout(wait, lease.connection.search(&search, *results_max)).await;
        // It was not.
        std::mem::forget(given_up);
        match found {
            Ok(Ok(found)) => {
                self.pool.proved(lease);
                self.judge(lease, found)
            }
            Ok(Err(SearchError::TooMany)) => SearchOutcome::Final(self.too_many()),
            Ok(Err(SearchError::Lost(trouble))) => {
                let trouble = self.named(lease, &trouble);
                self.pool.lost(lease, &trouble);
                SearchOutcome::Elsewhere(trouble)
            }
            Err(_) => {
                let text = format!("no answer within {wait:?}");
                let trouble = self.named(lease, &LookupError::new(LookupErrorKind::Timeout, text));
                // The server sent nothing at all: it may be dead.
                if lease.connection.heard() <= asked {
                    self.pool.failed(lease, &trouble);
                    return SearchOutcome::Elsewhere(trouble);
                }
                SearchOutcome::Final(trouble)
            }
        }
    }

    fn judge(&self, lease: &Lease<'_>, found: SearchResult) -> SearchOutcome {
        let SearchResult { entries, outcome } = found;
        let trouble = |kind| self.named(lease, &LookupError::new(kind, outcome.to_string()));
        match outcome.code {
            code::SUCCESS => SearchOutcome::Entries(Some(entries)),
            code::NO_SUCH_OBJECT | code::INVALID_DN_SYNTAX => SearchOutcome::Entries(None),
            code::SIZE_LIMIT_EXCEEDED | code::ADMIN_LIMIT_EXCEEDED => {
                SearchOutcome::Final(self.too_many())
            }
            code::TIME_LIMIT_EXCEEDED => SearchOutcome::Final(trouble(LookupErrorKind::Timeout)),
            code::BUSY | code::UNAVAILABLE | code::UNWILLING_TO_PERFORM => {
                let trouble = trouble(LookupErrorKind::Wrong);
                self.pool.failed(lease, &trouble);
                SearchOutcome::Elsewhere(trouble)
            }
            _ => SearchOutcome::Final(trouble(LookupErrorKind::Wrong)),
        }
    }

    fn too_many(&self) -> LookupError {
        let text = format!(
            "the key finds more than {} entries, or more than the server's limit",
            self.settings.results_max
        );
        LookupError::new(LookupErrorKind::Key, text)
    }

    /// The error with the server's name.
    fn named(&self, lease: &Lease<'_>, trouble: &LookupError) -> LookupError {
        match self.settings.servers.get(lease.connection.server) {
            // It may have come from another search of the same connection, which named it.
            Some(server) if !trouble.text.starts_with(&*server.to_string()) => trouble.of(server),
            _ => trouble.clone(),
        }
    }
}
