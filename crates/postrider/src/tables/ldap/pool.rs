//! The connections of a table to its directory: which server, how many, and when it is tried again.

use super::connection::LdapConnection;
use super::opening;
use super::settings::LdapSettings;
use lookup::{LookupError, LookupErrorKind};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::task::spawn_local;
use tokio::time::Instant;

/// Maximum number of concurrent searches on one connection. OpenLDAP closes connections with more than a hundred
/// pending (`conn_max_pending`).
const SEARCHES_MAX: usize = 32;
/// Number of searches on the least loaded connection at which another one is opened.
const CROWDED: usize = 4;
/// Back-off of a failed server, doubled after each further failure.
const AWAY_MIN: Duration = Duration::from_millis(250);
/// But after no longer than this.
const AWAY_MAX: Duration = Duration::from_secs(5);

/// The connections of a table to its directory.
pub(super) struct LdapPool {
    settings: Arc<LdapSettings>,
    /// In the order of the settings.
    servers: Vec<LdapServerHealth>,
    connections: RefCell<Vec<Rc<LdapConnection>>>,
    /// Locked by the search that opens a connection, while other searches wait for it.
    opening: Mutex<()>,
    /// A connection is being opened in the background.
    is_growing: Cell<bool>,
    searches: Semaphore,
}

/// Observed health of a server.
#[derive(Debug, Default)]
struct LdapServerHealth {
    /// In a row.
    failures: Cell<u32>,
    /// It is not tried before.
    away_until: Cell<Option<Instant>>,
    /// The error of the last attempt.
    trouble: RefCell<Option<LookupError>>,
}

/// A connection for one search.
pub(super) struct Lease<'a> {
    pub(super) connection: Rc<LdapConnection>,
    _permit: SemaphorePermit<'a>,
}

impl LdapPool {
    pub(super) fn new(settings: Arc<LdapSettings>) -> LdapPool {
        LdapPool {
            servers: settings.servers.iter().map(|_| LdapServerHealth::default()).collect(),
            connections: RefCell::new(Vec::new()),
            opening: Mutex::new(()),
            is_growing: Cell::new(false),
            searches: Semaphore::new(settings.connections_max.saturating_mul(SEARCHES_MAX)),
            settings,
        }
    }

    /// The server in use, for people.
    pub(super) fn server(&self) -> Option<String> {
        let connections = self.connections.borrow();
        let first = connections.iter().filter(|c| c.is_open()).map(|c| c.server).min()?;
        self.settings.servers.get(first).map(ToString::to_string)
    }

    /// Open connections.
    #[cfg(test)]
    pub(super) fn connections(&self) -> usize {
        self.connections.borrow().len()
    }

    /// A connection with capacity for a search.
    ///
    /// # Errors
    /// Returns the errors of all servers if none accepts a connection.
    pub(super) async fn lease(self: &Rc<Self>) -> Result<Lease<'_>, LookupError> {
        let closed = |_| LookupError::new(LookupErrorKind::Busy, "the table is no longer in use");
        let permit = self.searches.acquire().await.map_err(closed)?;
        loop {
            if let Some(connection) = self.least_loaded() {
                self.think_of_more(&connection);
                return Ok(Lease { connection, _permit: permit });
            }
            let _turn = self.opening.lock().await;
            // Another search may have opened one during the wait.
            if self.least_loaded().is_none() {
                let all = self.servers.len();
                self.open(all).await?;
            }
        }
    }

    /// Records that a lease's search was answered.
    pub(super) fn proved(&self, lease: &Lease<'_>) {
        if let Some(standing) = self.servers.get(lease.connection.server) {
            standing.failures.set(0);
        }
    }

    /// Records that a lease's search was lost with the connection, which may have been idle for too long. A connection
    /// that never answered counts as a failure of its server.
    pub(super) fn lost(&self, lease: &Lease<'_>, trouble: &LookupError) {
        if lease.connection.has_proved() {
            self.connections.borrow_mut().retain(|c| c.is_open());
        } else {
            self.failed(lease, trouble);
        }
    }

    /// Records that the server failed a lease's search. The server is avoided for a while.
    pub(super) fn failed(&self, lease: &Lease<'_>, trouble: &LookupError) {
        let server = lease.connection.server;
        for connection in self.connections.borrow().iter().filter(|c| c.server == server) {
            connection.close(trouble.clone());
        }
        lease.connection.close(trouble.clone());
        self.connections.borrow_mut().retain(|c| c.is_open());
        self.put_away(server, trouble);
    }

    fn put_away(&self, server: usize, trouble: &LookupError) {
        let Some(standing) = self.servers.get(server) else { return };
        let failures = standing.failures.get();
        standing.failures.set(failures.saturating_add(1));
        let away = AWAY_MIN.saturating_mul(1 << failures.min(16)).min(AWAY_MAX);
        standing.away_until.set(Some(Instant::now() + away));
        standing.trouble.replace(Some(trouble.clone()));
    }

    /// The open connection with the fewest searches, if it has capacity.
    fn least_loaded(&self) -> Option<Rc<LdapConnection>> {
        let mut connections = self.connections.borrow_mut();
        connections.retain(|c| c.is_open());
        let least = connections.iter().min_by_key(|c| c.load())?;
        (least.load() < SEARCHES_MAX).then(|| Rc::clone(least))
    }

    /// Opens a connection in the background: beside busy ones, or to a preferred server that may have recovered.
    fn think_of_more(self: &Rc<Self>, least: &LdapConnection) {
        let count = self.connections.borrow().len();
        let is_crowded = least.load() >= CROWDED && count < self.settings.connections_max;
        let may_be_back =
            self.servers.iter().take(least.server).any(LdapServerHealth::may_be_tried);
        if (!is_crowded && !may_be_back) || self.is_growing.replace(true) {
            return;
        }
        let servers = if is_crowded { self.servers.len() } else { least.server };
        let pool = Rc::clone(self);
        spawn_local(async move {
            // The error is stored with each server.
            let _ = pool.open(servers).await;
            pool.is_growing.set(false);
        });
    }

    /// Opens a connection to the first of `servers` servers that accepts one.
    async fn open(&self, servers: usize) -> Result<(), LookupError> {
        for (n, standing) in self.servers.iter().enumerate().take(servers) {
            let Some(server) = self.settings.servers.get(n) else { continue };
            if !standing.may_be_tried() {
                continue;
            }
            match opening::open(&self.settings, server).await {
                Ok(stream) => {
                    standing.away_until.set(None);
                    self.keep(LdapConnection::new(n, stream));
                    return Ok(());
                }
                Err(trouble) => self.put_away(n, &trouble),
            }
        }
        Err(self.why_not())
    }

    /// Connections to less preferred servers only finish their searches.
    fn keep(&self, connection: LdapConnection) {
        let mut connections = self.connections.borrow_mut();
        connections.retain(|c| c.server <= connection.server);
        if connections.len() < self.settings.connections_max {
            connections.push(Rc::new(connection));
        }
    }

    /// The errors of all servers.
    fn why_not(&self) -> LookupError {
        let known: Vec<LookupError> =
            self.servers.iter().filter_map(|standing| standing.trouble.borrow().clone()).collect();
        let kind = known.first().map_or(LookupErrorKind::Unreachable, |trouble| trouble.kind);
        let texts: Vec<&str> = known.iter().map(|trouble| &*trouble.text).collect();
        LookupError::new(kind, texts.join("; "))
    }
}

impl LdapServerHealth {
    fn may_be_tried(&self) -> bool {
        self.away_until.get().is_none_or(|until| until <= Instant::now())
    }
}
