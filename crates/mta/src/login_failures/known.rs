//! Clients that were a user lately: his own machines, which nobody else's guesses shall keep waiting.
//! Only who knows a password is remembered here, so nobody pushes out another by guessing.

use super::Who;
use mail::Mono;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Users remembered; beyond it those are forgotten who have been away longest.
const USERS_MAX: usize = 64 * 1_024;
/// Clients of one user, the last ones.
const CLIENTS_MAX: usize = 16;

/// The clients of one user.
#[derive(Debug, Default)]
struct Seen {
    last: Mono,
    /// The latest last.
    clients: VecDeque<Who>,
}

/// Who was whom, over all shards.
#[derive(Debug, Default)]
pub(crate) struct KnownClients(Mutex<BTreeMap<Who, Seen>>);

impl KnownClients {
    /// The client has proved to be the user.
    pub(crate) fn note(&self, user: Who, client: Who, now: Mono) {
        let mut users = self.lock();
        if users.len() >= USERS_MAX && !users.contains_key(&user) {
            forget_half(&mut users);
        }
        let seen = users.entry(user).or_default();
        seen.last = now;
        if seen.clients.back() == Some(&client) {
            return;
        }
        seen.clients.retain(|known| *known != client);
        if seen.clients.len() >= CLIENTS_MAX {
            seen.clients.pop_front();
        }
        seen.clients.push_back(client);
    }

    /// Whether it has lately, and not failed since.
    pub(crate) fn knows(&self, user: Who, client: Who) -> bool {
        self.lock().get(&user).is_some_and(|seen| seen.clients.contains(&client))
    }

    /// It has failed to.
    pub(crate) fn forget(&self, user: Who, client: Who) {
        let mut users = self.lock();
        let Some(seen) = users.get_mut(&user) else { return };
        seen.clients.retain(|known| *known != client);
        if seen.clients.is_empty() {
            users.remove(&user);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Who, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn forget_half(users: &mut BTreeMap<Who, Seen>) {
    let mut all: Vec<Mono> = users.values().map(|seen| seen.last).collect();
    let (_, middle, _) = all.select_nth_unstable(USERS_MAX / 2);
    let middle = *middle;
    users.retain(|_, seen| seen.last > middle);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(n: u8) -> Who {
        Who::client([192, 0, 2, n].into())
    }

    #[test]
    fn a_client_is_known_as_the_user_that_it_was_until_it_fails() {
        let known = KnownClients::default();
        let (jo, al) = (Who::user("jo"), Who::user("al"));
        known.note(jo, client(1), Mono(1));
        assert!(known.knows(jo, client(1)));
        assert!(!known.knows(jo, client(2)) && !known.knows(al, client(1)));
        known.forget(jo, client(2));
        assert!(known.knows(jo, client(1)), "another has failed");
        known.forget(jo, client(1));
        assert!(!known.knows(jo, client(1)) && known.lock().is_empty());
    }

    #[test]
    fn the_last_clients_of_a_user_are_remembered() {
        let known = KnownClients::default();
        let jo = Who::user("jo");
        (0..CLIENTS_MAX as u8).for_each(|n| known.note(jo, client(n), Mono(u64::from(n))));
        known.note(jo, client(0), Mono(50));
        known.note(jo, client(200), Mono(51));
        assert!(known.knows(jo, client(0)) && known.knows(jo, client(200)));
        assert!(!known.knows(jo, client(1)), "it was away longest");
        assert!(known.knows(jo, client(2)));
    }

    #[test]
    fn the_users_who_were_here_last_are_remembered() {
        let known = KnownClients::default();
        for n in 0..=USERS_MAX as u64 {
            known.note(Who::User(n), client(1), Mono(n));
            assert!(known.lock().len() <= USERS_MAX);
        }
        assert!(known.knows(Who::User(USERS_MAX as u64), client(1)));
        assert!(known.knows(Who::User(USERS_MAX as u64 - 1), client(1)));
        assert!(!known.knows(Who::User(0), client(1)));
        // The worst: all at one moment.
        let known = KnownClients::default();
        for n in 0..=USERS_MAX as u64 {
            known.note(Who::User(n), client(1), Mono(1));
        }
        assert!(known.lock().len() <= USERS_MAX);
    }
}
