//! The users of a directory whose mail a server keeps: who they are, who of them gets mail, and the
//! files and the slapd that servers look them up in.

pub(crate) mod slapd;

use super::error::{Error, Result};
use load::file::{self, FileError};
use load::mailboxes::Mailbox;
use load::random::Random;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The domain of all users.
pub(crate) const DOMAIN: &str = "example.org";
/// Whose the Maildirs are, user and group: nobody's, whom Debian gives this number. Postfix delivers to
/// no mailbox of root's.
pub(crate) const OWNER: u32 = 65_534;

/// What a server looks users up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// A text file, a user on each line.
    Text,
    /// A file with an index, built from the text.
    Database,
    /// The directory itself, asked by LDAP.
    Ldap,
    /// The directory, asked by one process for all the others.
    LdapProxy,
    /// A copy of the directory, which is kept as it is by LDAP.
    Snapshot,
}

impl Lookup {
    /// Whether slapd must run.
    pub(crate) fn is_by_ldap(self) -> bool {
        match self {
            Lookup::Text | Lookup::Database => false,
            Lookup::Ldap | Lookup::LdapProxy | Lookup::Snapshot => true,
        }
    }
}

/// A user, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct User(u64);

impl User {
    /// What stands before the at sign.
    pub(crate) fn local(self) -> String {
        format!("user{:07}", self.0)
    }

    pub(crate) fn address(self) -> String {
        format!("{}@{DOMAIN}", self.local())
    }

    /// The Maildir, below where all of them are; with the slash that says to Postfix that it is one.
    pub(crate) fn path(self) -> String {
        format!("{DOMAIN}/{}/", self.local())
    }
}

/// All users, and those who get mail. What is made of them is made once, and kept in a directory.
#[derive(Debug)]
pub(crate) struct Population {
    directory: PathBuf,
    users: u64,
    recipients: Vec<User>,
}

impl Population {
    /// So many users, so many of them drawn as recipients. Writes them down.
    ///
    /// # Errors
    /// When there are fewer users than recipients, or a file can't be written.
    pub(crate) fn make(
        directory: &Path,
        users: u64,
        recipients: u64,
        seed: u64,
    ) -> Result<Population> {
        if recipients > users {
            let text = format!("{recipients} recipients cannot be drawn from {users} users");
            return Err(Error::Missing(text));
        }
        file::create_directory(directory)?;
        let directory = directory.to_owned();
        let population = Population { directory, users, recipients: draw(users, recipients, seed) };
        let mut text = String::new();
        for user in population.users() {
            // Writing to a String can't fail.
            let _ = writeln!(text, "{}\t{}", user.address(), user.path());
        }
        file::write(&population.text(), &text)?;
        let addresses = population.recipients.iter().map(|user| user.address() + "\n");
        file::write(&population.recipients(), &addresses.collect::<String>())?;
        Ok(population)
    }

    /// How many users there are.
    pub(crate) fn count(&self) -> u64 {
        self.users
    }

    pub(crate) fn users(&self) -> impl Iterator<Item = User> + use<> {
        (1..=self.users).map(User)
    }

    /// Address and Maildir of each, on a line.
    pub(crate) fn text(&self) -> PathBuf {
        self.directory.join("users")
    }

    /// The addresses of those who get mail, a line each.
    pub(crate) fn recipients(&self) -> PathBuf {
        self.directory.join("recipients")
    }

    /// The mailboxes of those who get mail, with all Maildirs below `root`.
    pub(crate) fn mailboxes(&self, root: &Path) -> Vec<Mailbox> {
        let mailbox = |user: &User| Mailbox {
            address: user.address(),
            directory: root.join(user.path().trim_end_matches('/')),
        };
        self.recipients.iter().map(mailbox).collect()
    }

    /// Removes all that was made.
    ///
    /// # Errors
    /// When it can't be removed.
    pub(crate) fn remove(&self) -> Result<()> {
        let removed = std::fs::remove_dir_all(&self.directory);
        Ok(removed.map_err(FileError::at(&self.directory))?)
    }

    /// What `build` makes under this name, made once. It is given another name meanwhile: what was
    /// begun and not finished is never found.
    ///
    /// # Errors
    /// What `build` ends with.
    pub(crate) fn once(
        &self,
        name: &str,
        build: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let path = self.directory.join(name);
        if !path.exists() {
            let unfinished = self.directory.join(format!("unfinished-{name}"));
            build(&unfinished)?;
            std::fs::rename(&unfinished, &path).map_err(FileError::at(&path))?;
        }
        Ok(path)
    }
}

fn draw(users: u64, count: u64, seed: u64) -> Vec<User> {
    let mut random = Random::new(seed);
    let mut known = HashSet::new();
    let mut drawn = Vec::new();
    while (drawn.len() as u64) < count {
        let user = User(1 + random.below(users));
        if known.insert(user) {
            drawn.push(user);
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::{Population, User};
    use std::collections::HashSet;

    #[test]
    fn recipients_are_users_drawn_once_and_the_same_for_a_seed() {
        let directory = tempfile::tempdir().expect("a directory");
        let population = Population::make(directory.path(), 1000, 400, 1).expect("made");
        let text = std::fs::read_to_string(population.text()).expect("users");
        assert_eq!(text.lines().count(), 1000);
        assert_eq!(text.lines().next(), Some("user0000001@example.org\texample.org/user0000001/"));
        let all: HashSet<&str> = text.lines().filter_map(|line| line.split('\t').next()).collect();
        let drawn = std::fs::read_to_string(population.recipients()).expect("recipients");
        let recipients: HashSet<&str> = drawn.lines().collect();
        assert_eq!(recipients.len(), 400);
        assert!(recipients.is_subset(&all));
        let again = Population::make(directory.path(), 1000, 400, 1).expect("made");
        assert_eq!(again.recipients, population.recipients);
        let everybody = Population::make(directory.path(), 10, 10, 1).expect("made");
        assert_eq!(everybody.recipients.iter().collect::<HashSet<_>>().len(), 10);
        let error = Population::make(directory.path(), 10, 11, 1).expect_err("too few");
        assert_eq!(error.to_string(), "11 recipients cannot be drawn from 10 users");
    }

    #[test]
    fn a_mailbox_lies_where_the_users_entry_says() {
        let directory = tempfile::tempdir().expect("a directory");
        let population = Population::make(directory.path(), 1, 1, 1).expect("made");
        let mailbox = population.mailboxes(directory.path()).remove(0);
        assert_eq!(mailbox.address, User(1).address());
        assert_eq!(mailbox.directory, directory.path().join("example.org/user0000001"));
    }

    #[test]
    fn what_was_begun_and_failed_is_made_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let population = Population::make(directory.path(), 1, 1, 1).expect("made");
        let fails = population.once("x", |path| {
            std::fs::write(path, "half").expect("written");
            Err(super::Error::Missing("no".to_owned()))
        });
        fails.expect_err("it fails");
        let write = |text: &'static str| {
            move |path: &std::path::Path| {
                std::fs::write(path, text).expect("written");
                Ok(())
            }
        };
        let path = population.once("x", write("whole")).expect("made");
        population.once("x", write("again")).expect("there");
        assert_eq!(std::fs::read_to_string(path).expect("read"), "whole");
    }
}
