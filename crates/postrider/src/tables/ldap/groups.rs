//! Groups of entries, which may have groups in them.

use super::directory::{LdapDirectory, SearchQuery};
use ldap::{Entry, Filter, Key, Scope};
use lookup::{LookupError, LookupErrorKind};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use tokio::task::JoinSet;

/// Members that are read at once for one group.
const READ_AT_ONCE: usize = 16;

/// Expands groups.
pub(super) struct Groups {
    directory: Rc<LdapDirectory>,
    /// Names of all entries that were met, in one writing: each counts once, and a group that is in
    /// itself ends there.
    met: BTreeSet<String>,
    /// Members that are still to be read, and how deep they are.
    ahead: VecDeque<(String, u32)>,
    leaves: Vec<Entry>,
}

impl Groups {
    pub(super) fn new(directory: Rc<LdapDirectory>) -> Groups {
        Groups { directory, met: BTreeSet::new(), ahead: VecDeque::new(), leaves: Vec::new() }
    }

    /// The entries that are no groups, of these and all that is in them.
    ///
    /// # Errors
    /// There are too many, or too deep; or a search failed.
    pub(super) async fn leaves(mut self, found: Vec<Entry>) -> Result<Vec<Entry>, LookupError> {
        for entry in found {
            if self.meet(&entry.dn)? {
                self.place(entry, 0)?;
            }
        }
        while !self.ahead.is_empty() {
            for (name, depth, entry) in self.read_some().await? {
                // The directory may write the name otherwise than the group does.
                let is_same = ldap::normalise(&name) == ldap::normalise(&entry.dn);
                if is_same || self.meet(&entry.dn)? {
                    self.place(entry, depth)?;
                }
            }
        }
        Ok(self.leaves)
    }

    /// Returns true if the name is new.
    fn meet(&mut self, name: &str) -> Result<bool, LookupError> {
        let is_new = self.met.insert(ldap::normalise(name));
        let members_max = self.directory.settings.members_max;
        if self.met.len() > members_max {
            let text = format!("the group has more than {members_max} entries");
            return Err(LookupError::new(LookupErrorKind::Key, text));
        }
        Ok(is_new)
    }

    /// Adds an entry to the leaves, or its members to the entries to read.
    fn place(&mut self, entry: Entry, depth: u32) -> Result<(), LookupError> {
        let directory = Rc::clone(&self.directory);
        let members = directory.settings.members.iter().flat_map(|name| entry.values(name));
        let mut is_group = false;
        for member in members {
            is_group = true;
            let Ok(name) = std::str::from_utf8(member) else {
                let text = format!("{}: the name of a member is not UTF-8", entry.dn);
                return Err(LookupError::new(LookupErrorKind::Key, text));
            };
            if !self.meet(name)? {
                continue;
            }
            if depth >= directory.settings.depth_max {
                let text = format!("{}: more than {depth} nested groups", entry.dn);
                return Err(LookupError::new(LookupErrorKind::Key, text));
            }
            self.ahead.push_back((name.to_owned(), depth + 1));
        }
        if !is_group {
            self.leaves.push(entry);
        }
        Ok(())
    }

    /// Reads the next members, in their order. One that is not there is left out.
    async fn read_some(&mut self) -> Result<Vec<(String, u32, Entry)>, LookupError> {
        let mut reads = JoinSet::new();
        let count = self.ahead.len().min(READ_AT_ONCE);
        for (place, (name, depth)) in self.ahead.drain(..count).enumerate() {
            let directory = Rc::clone(&self.directory);
            reads.spawn_local(async move {
                let filter = Filter::any();
                let key = Key::new("");
                let question =
                    SearchQuery { base: &name, scope: Scope::Base, filter: &filter, key };
                let found = directory.search(question).await;
                (place, name, depth, found)
            });
        }
        let mut read = Vec::with_capacity(count);
        while let Some(done) = reads.join_next().await {
            let gone =
                |_| LookupError::new(LookupErrorKind::Unreachable, "the search was abandoned");
            let (place, name, depth, found) = done.map_err(gone)?;
            if let Some(entry) = found?.and_then(|found| found.into_iter().next()) {
                read.push((place, (name, depth, entry)));
            }
        }
        read.sort_by_key(|(place, _)| *place);
        Ok(read.into_iter().map(|(_, entry)| entry).collect())
    }
}
