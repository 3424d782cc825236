//! Clients from which a user logged in lately: the user's own machines, which password guessing by other clients must
//! not delay.
//!
//! Only a client with a correct password is stored here, so guessing can't displace an entry. The list is written from
//! time to time, as text with one line per user. It is advisory: without it all clients are unknown.

use super::LoginSubject;
use mail::Mono;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of users; beyond it those with the oldest logins are forgotten.
const USERS_MAX: usize = 64 * 1_024;
/// Maximum number of clients of one user, the latest ones.
const CLIENTS_MAX: usize = 16;

/// The clients of one user.
#[derive(Debug, Default)]
struct UserClients {
    last: Mono,
    /// In order of logins, the latest last.
    clients: VecDeque<LoginSubject>,
}

#[derive(Debug, Default)]
struct Users {
    seen: BTreeMap<LoginSubject, UserClients>,
    /// Number of users for each client.
    clients: BTreeMap<LoginSubject, u32>,
}

impl Users {
    fn count(&mut self, client: LoginSubject) {
        *self.clients.entry(client).or_default() += 1;
    }

    fn count_no_more(&mut self, client: LoginSubject) {
        let Some(count) = self.clients.get_mut(&client) else { return };
        *count -= 1;
        if *count == 0 {
            self.clients.remove(&client);
        }
    }

    fn recount(&mut self) {
        self.clients.clear();
        for client in self.seen.values().flat_map(|seen| &seen.clients) {
            *self.clients.entry(*client).or_default() += 1;
        }
    }
}

/// The known clients of each user, over all shards.
#[derive(Debug, Default)]
pub struct KnownClients {
    users: Mutex<Users>,
    changes: AtomicU64,
}

impl KnownClients {
    /// Notes a login of the user from the client.
    pub(crate) fn note(&self, user: LoginSubject, client: LoginSubject, now: Mono) {
        let mut users = self.lock();
        if users.seen.len() >= USERS_MAX && !users.seen.contains_key(&user) {
            forget_half(&mut users);
        }
        let seen = users.seen.entry(user).or_default();
        seen.last = now;
        if seen.clients.back() == Some(&client) {
            return;
        }
        let before = seen.clients.len();
        seen.clients.retain(|known| *known != client);
        let is_new = seen.clients.len() == before;
        let oldest = (before >= CLIENTS_MAX && is_new).then(|| seen.clients.pop_front()).flatten();
        seen.clients.push_back(client);
        if is_new {
            users.count(client);
        }
        if let Some(oldest) = oldest {
            users.count_no_more(oldest);
        }
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if the client logged in as this user lately, and has not failed since.
    pub(crate) fn knows(&self, user: LoginSubject, client: LoginSubject) -> bool {
        self.lock().seen.get(&user).is_some_and(|seen| seen.clients.contains(&client))
    }

    /// Returns true if the client logged in as any user lately.
    pub(crate) fn knows_client(&self, client: LoginSubject) -> bool {
        self.lock().clients.contains_key(&client)
    }

    /// Removes the client after a failed login.
    pub(crate) fn forget(&self, user: LoginSubject, client: LoginSubject) {
        let mut users = self.lock();
        let Some(seen) = users.seen.get_mut(&user) else { return };
        let before = seen.clients.len();
        seen.clients.retain(|known| *known != client);
        let is_known = seen.clients.len() < before;
        if seen.clients.is_empty() {
            users.seen.remove(&user);
        }
        if is_known {
            users.count_no_more(client);
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of changes to the list.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// The list as text of at most `bytes_max` octets, the latest logins.
    #[must_use]
    pub fn written(&self, bytes_max: usize) -> String {
        let mut lines: Vec<(Mono, String)> = Vec::new();
        for (user, seen) in &self.lock().seen {
            let LoginSubject::User(number) = user else { continue };
            let mut line = format!("{number:016x}");
            for client in &seen.clients {
                if let LoginSubject::Client(ip) = client {
                    let _ = write!(line, " {ip}");
                }
            }
            line.push('\n');
            lines.push((seen.last, line));
        }
        // In the order in which they are loaded: the oldest first.
        lines.sort_by_key(|(last, _)| *last);
        let mut bytes: usize = lines.iter().map(|(_, line)| line.len()).sum();
        let fits = |(_, line): &(Mono, String)| {
            let is_beyond = bytes > bytes_max;
            bytes -= if is_beyond { line.len() } else { 0 };
            !is_beyond
        };
        lines.into_iter().filter(fits).map(|(_, line)| line).collect()
    }

    /// Loads a text by [`KnownClients::written`]. Nothing is loaded from an invalid text.
    ///
    /// # Errors
    /// The number of the first invalid line, from 1.
    pub fn read(&self, text: &str) -> Result<(), usize> {
        let mut read = BTreeMap::new();
        for (line, number) in text.lines().zip(1..) {
            let (user, seen) = user_of(line, Mono(number as u64)).ok_or(number)?;
            if read.len() >= USERS_MAX {
                return Err(number);
            }
            read.insert(user, seen);
        }
        let mut users = self.lock();
        users.seen = read;
        users.recount();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn user_of(line: &str, last: Mono) -> Option<(LoginSubject, UserClients)> {
    let mut words = line.split(' ');
    let number = u64::from_str_radix(words.next()?, 16).ok()?;
    let mut clients = VecDeque::new();
    for word in words {
        if clients.len() >= CLIENTS_MAX {
            return None;
        }
        clients.push_back(LoginSubject::client(word.parse().ok()?));
    }
    (!clients.is_empty()).then_some((LoginSubject::User(number), UserClients { last, clients }))
}

fn forget_half(users: &mut Users) {
    let mut all: Vec<Mono> = users.seen.values().map(|seen| seen.last).collect();
    let (_, middle, _) = all.select_nth_unstable(USERS_MAX / 2);
    let middle = *middle;
    users.seen.retain(|_, seen| seen.last > middle);
    users.recount();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(n: u8) -> LoginSubject {
        LoginSubject::client([192, 0, 2, n].into())
    }

    #[test]
    fn a_client_is_known_as_the_user_that_it_was_until_it_fails() {
        let known = KnownClients::default();
        let (jo, al) = (LoginSubject::user("jo"), LoginSubject::user("al"));
        known.note(jo, client(1), Mono(1));
        assert!(known.knows(jo, client(1)));
        assert!(!known.knows(jo, client(2)) && !known.knows(al, client(1)));
        known.forget(jo, client(2));
        assert!(known.knows(jo, client(1)), "another has failed");
        known.forget(jo, client(1));
        assert!(
            !known.knows(jo, client(1))
                && known.lock().seen.is_empty()
                && known.lock().clients.is_empty()
        );
    }

    #[test]
    fn the_last_clients_of_a_user_are_remembered() {
        let known = KnownClients::default();
        let jo = LoginSubject::user("jo");
        (0..CLIENTS_MAX as u8).for_each(|n| known.note(jo, client(n), Mono(u64::from(n))));
        known.note(jo, client(0), Mono(50));
        known.note(jo, client(200), Mono(51));
        assert!(known.knows(jo, client(0)) && known.knows(jo, client(200)));
        assert!(!known.knows(jo, client(1)), "it was away longest");
        assert!(!known.knows_client(client(1)) && known.knows_client(client(2)));
        assert!(known.knows(jo, client(2)));
    }

    #[test]
    fn the_users_who_were_here_last_are_remembered() {
        let known = KnownClients::default();
        for n in 0..=USERS_MAX as u64 {
            known.note(LoginSubject::User(n), client(1), Mono(n));
            assert!(known.lock().seen.len() <= USERS_MAX);
        }
        assert!(known.knows(LoginSubject::User(USERS_MAX as u64), client(1)));
        assert!(known.knows(LoginSubject::User(USERS_MAX as u64 - 1), client(1)));
        assert!(!known.knows(LoginSubject::User(0), client(1)));
        // The worst case: all at the same time.
        let known = KnownClients::default();
        for n in 0..=USERS_MAX as u64 {
            known.note(LoginSubject::User(n), client(1), Mono(1));
        }
        assert!(known.lock().seen.len() <= USERS_MAX);
    }

    #[test]
    fn what_was_written_is_known_again() {
        let known = KnownClients::default();
        let six = LoginSubject::client("2001:db8:1:2::5".parse().unwrap());
        for (n, user) in (0..).zip(["old", "jo", "al"]) {
            known.note(LoginSubject::user(user), client(1), Mono(n));
            known.note(LoginSubject::user(user), six, Mono(n));
        }
        let text = known.written(1 << 20);
        let again = KnownClients::default();
        again.read(&text).unwrap();
        assert_eq!(again.written(1 << 20), text);
        for user in ["old", "jo", "al"] {
            assert!(
                again.knows(LoginSubject::user(user), client(1))
                    && again.knows(LoginSubject::user(user), six)
            );
        }
        // The oldest user is omitted if the text would be too long.
        let line = text.lines().next().unwrap().len() + 1;
        assert_eq!(known.written(text.len() - 1).len(), text.len() - line);
        again.read(&known.written(text.len() - 1)).unwrap();
        assert!(
            !again.knows(LoginSubject::user("old"), six)
                && again.knows(LoginSubject::user("jo"), six)
        );
        assert_eq!(known.written(line - 1), "");
    }

    #[test]
    fn of_a_damaged_file_nothing_is_believed() {
        let known = KnownClients::default();
        known.note(LoginSubject::user("jo"), client(1), Mono(1));
        let good = known.written(1 << 20);
        for bad in ["\n", "x 192.0.2.1\n", "00ff\n", "00ff 192.0.2\n", "00ff  192.0.2.1\n"] {
            let read = known.read(&format!("{good}{bad}"));
            assert_eq!(read, Err(2), "{bad:?}");
        }
        let many = format!("00ff{}\n", " 192.0.2.1".repeat(CLIENTS_MAX + 1));
        assert_eq!(known.read(&many), Err(1));
        assert!(known.knows(LoginSubject::user("jo"), client(1)), "as before");
        assert_eq!(known.read(""), Ok(()));
    }
}
