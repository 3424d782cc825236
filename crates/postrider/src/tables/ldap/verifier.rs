//! Password verification by binding to the directory as the user (RFC 4513 §5.1.3), on dedicated connections.

use super::directory::{LdapDirectory, SearchQuery};
use super::opening::{self, Stream};
use super::settings::LdapSettings;
use ldap::{BindAs, Filter, Key, Op, Outcome, Scope, code};
use lookup::{LookupError, LookupErrorKind};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// Maximum idle time of a connection, since a firewall between may have forgotten it.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Time for which a failed server is tried last.
const AWAY: Duration = Duration::from_secs(5);

/// A directory that checks passwords, for a thread with a `LocalSet`.
pub(crate) struct Verifier {
    /// Finds users by the table's settings.
    directory: LdapDirectory,
    /// The table's settings, without a bind of our own.
    settings: LdapSettings,
    idle: RefCell<Vec<IdleBindConnection>>,
    /// Time of each server's last failure.
    failed: Vec<Cell<Option<Instant>>>,
    binds: Semaphore,
}

/// A connection on which the last user's bind is over.
struct IdleBindConnection {
    stream: Box<dyn Stream>,
    last_id: i32,
    since: Instant,
}

/// The result of a password check.
#[derive(Debug)]
pub(crate) struct PasswordResult {
    pub(crate) is_his: bool,
    /// The name of the user's entry, if there is one.
    pub(crate) entry: Option<String>,
    /// The value of one of [`NAMES`] in the entry, if the table requests it.
    pub(crate) user: Option<String>,
}

/// Attributes that name a user, and have one value for each (RFC 4519 §2.39; Active Directory).
const NAMES: [&str; 2] = ["uid", "sAMAccountName"];

impl LdapSettings {
    /// The password verifier, for the table thread.
    pub(crate) fn verifier(&self) -> Verifier {
        let bare = LdapSettings { bind: None, ..self.clone() };
        Verifier {
            directory: LdapDirectory::new(Arc::new(self.clone())),
            idle: RefCell::default(),
            failed: bare.servers.iter().map(|_| Cell::default()).collect(),
            binds: Semaphore::new(bare.connections_max),
            settings: bare,
        }
    }
}

impl Verifier {
    /// Checks a user's password; it is wrong if the user does not exist.
    ///
    /// # Errors
    /// Returns an error if no server decides.
    pub(crate) async fn check(
        &self,
        user: &str,
        password: &[u8],
    ) -> Result<PasswordResult, LookupError> {
        // That would be an anonymous bind, which succeeds (RFC 4513 §5.1.2).
        if password.is_empty() {
            return Ok(PasswordResult { is_his: false, entry: None, user: None });
        }
        let mut verdict = self.find(user).await?;
        if let Some(dn) = &verdict.entry {
            verdict.is_his = self.bind(dn, password).await?;
        }
        Ok(verdict)
    }

    /// A user's entry, without a password check.
    ///
    /// # Errors
    /// Returns an error if no server answers.
    pub(crate) async fn find(&self, user: &str) -> Result<PasswordResult, LookupError> {
        let (entry, user) = self.entry_of(user).await?.unzip();
        Ok(PasswordResult { is_his: false, entry, user: user.flatten() })
    }

    /// The name of a user's entry, and the user's in it.
    async fn entry_of(&self, user: &str) -> Result<Option<(String, Option<String>)>, LookupError> {
        let LdapSettings { base, scope, filter, .. } = &self.settings;
        let key = Key::new(user);
        if !self.settings.asks_for(&key) {
            return Ok(None);
        }
        let name = base.name(&key);
        // The name is known without a search, which many directories do not allow.
        let found = if *scope == Scope::Base && base.has_parts() && *filter == Filter::any() {
            (name, None)
        } else {
            let question = SearchQuery { base: &name, scope: *scope, filter, key };
            let found = self.directory.search(question).await?.unwrap_or_default();
            match <[ldap::Entry; 1]>::try_from(found) {
                Ok([entry]) => {
                    let user = user_in(&entry);
                    (entry.dn, user)
                }
                Err(none) if none.is_empty() => return Ok(None),
                Err(several) => {
                    let text = format!("{} entries for user {user:?}", several.len());
                    return Err(LookupError::new(LookupErrorKind::Key, text));
                }
            }
        };
        // A bind without a name is anonymous, too (RFC 4513 §5.1.1).
        match found.0.is_empty() {
            true => Err(LookupError::new(LookupErrorKind::Wrong, "the user's entry has no DN")),
            false => Ok(Some(found)),
        }
    }

    async fn bind(&self, dn: &str, password: &[u8]) -> Result<bool, LookupError> {
        let closed =
            |_| LookupError::new(LookupErrorKind::Busy, "the directory is no longer in use");
        let _permit = self.binds.acquire().await.map_err(closed)?;
        // An idle connection may have been closed, which is no failure of its server.
        if let Some(idle) = self.take_idle()
            && let Ok(is_his) = self.bind_on(idle, dn, password).await
        {
            return Ok(is_his);
        }
        let mut troubles = Vec::new();
        for server in self.in_turn() {
            match self.bind_at(server, dn, password).await {
                Ok(is_his) => {
                    self.note(server, None);
                    return Ok(is_his);
                }
                Err(trouble) => {
                    self.note(server, Some(Instant::now()));
                    troubles.push(trouble);
                }
            }
        }
        let kind = troubles.first().map_or(LookupErrorKind::Unreachable, |trouble| trouble.kind);
        let texts: Vec<&str> = troubles.iter().map(|trouble| &*trouble.text).collect();
        Err(LookupError::new(kind, texts.join("; ")))
    }

    /// A connection that may still be open.
    fn take_idle(&self) -> Option<IdleBindConnection> {
        let mut idle = self.idle.borrow_mut();
        idle.retain(|idle| idle.since.elapsed() < IDLE_MAX);
        idle.pop()
    }

    /// The servers in the table's order, with recently failed ones last.
    fn in_turn(&self) -> Vec<usize> {
        let mut servers: Vec<usize> = (0..self.settings.servers.len()).collect();
        servers.sort_by_key(|server| {
            let failed = self.failed.get(*server).and_then(Cell::get);
            failed.is_some_and(|at| at.elapsed() < AWAY)
        });
        servers
    }

    fn note(&self, server: usize, failed: Option<Instant>) {
        if let Some(known) = self.failed.get(server) {
            known.set(failed);
        }
    }

    async fn bind_at(&self, server: usize, dn: &str, password: &[u8]) -> Result<bool, LookupError> {
        let Some(at) = self.settings.servers.get(server) else { return Ok(false) };
        let stream = opening::open(&self.settings, at).await?;
        // Lower ids may have been used to open it.
        let idle = IdleBindConnection { stream, last_id: 2, since: Instant::now() };
        let named = |LookupError { kind, text }| LookupError::new(kind, format!("{at}: {text}"));
        self.bind_on(idle, dn, password).await.map_err(named)
    }

    /// One bind after the other on a connection (RFC 4511 §4.2.1), which is then reused for the next user.
    async fn bind_on(
        &self,
        mut idle: IdleBindConnection,
        dn: &str,
        password: &[u8],
    ) -> Result<bool, LookupError> {
        idle.last_id = idle.last_id.checked_add(1).unwrap_or(1);
        let request = ldap::bind(idle.last_id, BindAs::Simple { dn, password });
        let wait = self.settings.timeout;
        let answer = opening::exchange(&mut idle.stream, &request, idle.last_id);
        let op = match timeout(wait, answer).await {
            Ok(Ok(op)) => op,
            Ok(Err(error)) => {
                let text = format!("user bind: {error}");
                return Err(LookupError::new(LookupErrorKind::Unreachable, text));
            }
            Err(_) => {
                let text = format!("user bind: no answer within {wait:?}");
                return Err(LookupError::new(LookupErrorKind::Timeout, text));
            }
        };
        let is_his = match op {
            Op::Bind(outcome) => judge(&outcome)?,
            // Farewell (RFC 4511 §4.4.1).
            Op::Extended(outcome) => return Err(refused(&outcome)),
            _ => {
                return Err(LookupError::new(LookupErrorKind::Wrong, "invalid reply to a bind"));
            }
        };
        idle.since = Instant::now();
        let mut kept = self.idle.borrow_mut();
        if kept.len() < self.settings.connections_max {
            kept.push(idle);
        }
        Ok(is_his)
    }
}

/// The name of the user in the entry, if unique.
fn user_in(entry: &ldap::Entry) -> Option<String> {
    let named = |name: &str| {
        let is_it = |attribute: &&ldap::Attribute| attribute.name.eq_ignore_ascii_case(name);
        let attribute = entry.attributes.iter().find(is_it)?;
        match attribute.values.as_slice() {
            [value] => std::str::from_utf8(value).ok().filter(|name| !name.trim().is_empty()),
            _ => None,
        }
    };
    NAMES.into_iter().find_map(named).map(str::to_owned)
}

/// Interprets the result of a bind (RFC 4511 appendix A). An entry that is gone, locked or without a password is a
/// failed login. Other errors are the server's.
fn judge(outcome: &Outcome) -> Result<bool, LookupError> {
    match outcome.code {
        code::SUCCESS => Ok(true),
        code::INVALID_CREDENTIALS
        | code::INAPPROPRIATE_AUTHENTICATION
        | code::NO_SUCH_OBJECT
        | code::INVALID_DN_SYNTAX
        | code::CONSTRAINT_VIOLATION => Ok(false),
        _ => Err(refused(outcome)),
    }
}

fn refused(outcome: &Outcome) -> LookupError {
    LookupError::new(LookupErrorKind::Wrong, format!("user bind: {outcome}"))
}
