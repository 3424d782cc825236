//! Logins with open sessions, over all shards, and those that an operator has revoked.

use crate::control::Revocation;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// The logins. Case makes no difference: a revocation must not be evaded by another spelling.
#[derive(Debug, Default)]
pub struct LoginRegistry {
    state: Mutex<Registered>,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Registered {
    in_use: BTreeMap<Box<str>, LoginInUse>,
    revoked: BTreeMap<Box<str>, Revocation>,
}

#[derive(Debug)]
struct LoginInUse {
    /// As its first session has it.
    name: Arc<str>,
    /// For each session, a channel that ends it.
    sessions: BTreeMap<u64, oneshot::Sender<()>>,
}

/// A session of a login. Dropping it takes it from the list.
#[derive(Debug)]
pub(crate) struct LoginTicket {
    registry: Arc<LoginRegistry>,
    folded: Box<str>,
    number: u64,
    /// `None` once it has been called.
    called: Option<oneshot::Receiver<()>>,
}

impl LoginRegistry {
    /// A session of this login begins. `None` if the login is revoked.
    pub(crate) fn enter(self: &Arc<Self>, login: &str) -> Option<LoginTicket> {
        let folded: Box<str> = login.to_lowercase().into();
        let mut state = self.lock();
        if state.revoked.contains_key(&folded) {
            return None;
        }
        let (call, called) = oneshot::channel();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let new = || LoginInUse { name: login.into(), sessions: BTreeMap::new() };
        let in_use = state.in_use.entry(folded.clone()).or_insert_with(new);
        in_use.sessions.insert(number, call);
        Some(LoginTicket { registry: Arc::clone(self), folded, number, called: Some(called) })
    }

    /// Puts revocations in force, and ends the sessions of the revoked logins.
    pub fn adopt(&self, revoked: &[Revocation]) {
        let mut state = self.lock();
        let folded = |one: &Revocation| (one.login.to_lowercase().into(), one.clone());
        state.revoked = revoked.iter().map(folded).collect();
        let Registered { in_use, revoked } = &mut *state;
        for login in in_use.iter_mut().filter(|(folded, _)| revoked.contains_key(*folded)) {
            // Dropping the senders calls the sessions.
            login.1.sessions.clear();
        }
        in_use.retain(|_, login| !login.sessions.is_empty());
    }

    /// The logins with open sessions, and their number.
    #[must_use]
    pub fn in_use(&self) -> Vec<(Arc<str>, u64)> {
        let state = self.lock();
        let counted = |login: &LoginInUse| (Arc::clone(&login.name), login.sessions.len() as u64);
        state.in_use.values().map(counted).collect()
    }

    /// The revoked logins.
    #[must_use]
    pub fn revoked(&self) -> Vec<Revocation> {
        self.lock().revoked.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Registered> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoginTicket {
    /// Ready once the login is revoked: the session then ends.
    pub(crate) fn poll_revoked(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(called) = &mut self.called else { return Poll::Ready(()) };
        let polled = Pin::new(called).poll(cx).map(drop);
        if polled.is_ready() {
            self.called = None;
        }
        polled
    }
}

impl Drop for LoginTicket {
    fn drop(&mut self) {
        let mut state = self.registry.lock();
        if let Some(in_use) = state.in_use.get_mut(&self.folded) {
            in_use.sessions.remove(&self.number);
            if in_use.sessions.is_empty() {
                state.in_use.remove(&self.folded);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Wall;
    use std::task::Waker;

    fn revoked(login: &str) -> Revocation {
        Revocation { login: login.to_owned(), reason: String::new(), since: Wall(0) }
    }

    #[test]
    fn revocation_ends_all_sessions_of_the_login() {
        let registry = Arc::<LoginRegistry>::default();
        let mut cx = Context::from_waker(Waker::noop());
        let mut tickets: Vec<_> =
            ["jo", "Jo", "al"].map(|login| registry.enter(login).unwrap()).into();
        assert_eq!(registry.in_use(), [("al".into(), 1), ("jo".into(), 2)]);
        registry.adopt(&[revoked("JO")]);
        let ends = |ticket: &mut LoginTicket, cx: &mut Context<'_>| {
            ticket.poll_revoked(cx).is_ready() && ticket.poll_revoked(cx).is_ready()
        };
        let ended: Vec<bool> = tickets.iter_mut().map(|ticket| ends(ticket, &mut cx)).collect();
        assert_eq!(ended, [true, true, false]);
        assert!(registry.enter("jO").is_none() && registry.enter("joe").is_some());
        assert_eq!(registry.in_use(), [("al".into(), 1)]);
        registry.adopt(&[]);
        let again = registry.enter("jo").unwrap();
        // The end of an old session does not remove a new one.
        tickets.clear();
        assert_eq!(registry.in_use(), [("jo".into(), 1)]);
        drop(again);
        assert!(registry.in_use().is_empty() && registry.revoked().is_empty());
    }
}
