//! The directory as it is known now.

use super::file::{SnapshotFile, SnapshotHeader};
use super::item::{Id, Item, SnapshotQuery};
use super::overlay::Overlay;
use crate::tables::ldap::settings::LdapSettings;
use lookup::{Entry, Field, LookupError, LookupErrorKind};
use mail::Wall;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A file, and what became of its entries since.
#[derive(Debug)]
pub(super) struct View {
    pub(super) stored: SnapshotFile,
    overlay: RwLock<Overlay>,
}

impl View {
    pub(super) fn new(stored: SnapshotFile) -> View {
        View { stored, overlay: RwLock::default() }
    }

    /// Entries that there are.
    pub(super) fn entries(&self) -> u64 {
        self.stored.about.entries.saturating_add_signed(self.overlay().more)
    }

    /// Whether it has an entry, where that is known by name.
    pub(super) fn has(&self, id: &Id) -> bool {
        self.overlay().knows(id).unwrap_or_else(|| self.stored.has(id))
    }

    /// An entry has come or has changed, or it is gone.
    pub(super) fn put(&self, id: Id, item: Option<Item>) {
        // One without keys is never found, and has no place in a file.
        let item = item.filter(|item| !item.keys.is_empty());
        let more = i64::from(item.is_some()) - i64::from(self.has(&id));
        let mut overlay = self.overlay_mut();
        overlay.put(id, item);
        overlay.more += more;
    }

    /// Whether its cookie is this server's.
    pub(super) fn is_of(&self, server: &str) -> bool {
        self.stored.about.cookie.as_ref().is_some_and(|(own, _)| own == server)
    }

    /// How far the server has told us of changes; `None`: it does not.
    pub(super) fn cookie(&self) -> Option<Vec<u8>> {
        let of_file = self.stored.about.cookie.as_ref().map(|(_, cookie)| cookie.clone());
        let overlay = self.overlay();
        if overlay.is_lost { None } else { overlay.cookie.clone().or(of_file) }
    }

    /// We are so far; `None`: as far as before.
    pub(super) fn set_cookie(&self, cookie: Option<Vec<u8>>) {
        if cookie.is_some() {
            self.overlay_mut().cookie = cookie;
        }
    }

    /// Where we are is of no use to the server.
    pub(super) fn forget_cookie(&self) {
        self.overlay_mut().is_lost = true;
    }

    /// Entries of which the file's word counts no more.
    pub(super) fn changes(&self) -> usize {
        self.overlay().len()
    }

    /// The names of all entries.
    ///
    /// # Errors
    /// The file is damaged.
    pub(super) fn ids(&self) -> Result<Vec<Id>, LookupError> {
        let mut ids = Vec::new();
        self.each(&mut |item| {
            ids.push(item.id);
            Ok(())
        })?;
        Ok(ids)
    }

    /// All entries, each once.
    ///
    /// # Errors
    /// The file is damaged, or `take` says so.
    pub(super) fn each(
        &self,
        take: &mut dyn FnMut(&Item) -> Result<(), LookupError>,
    ) -> Result<(), LookupError> {
        let overlay = self.overlay();
        // The keys of an entry stand side by side.
        let mut last: Option<Item> = None;
        for read in self.stored.keys() {
            let (id, key, fields) = read?;
            match &mut last {
                Some(item) if item.id == id => item.keys.push(key),
                _ => {
                    if let Some(item) = last.take().filter(|item| !overlay.has(&item.id)) {
                        take(&item)?;
                    }
                    last = Some(Item { id, keys: vec![key], fields });
                }
            }
        }
        if let Some(item) = last.filter(|item| !overlay.has(&item.id)) {
            take(&item)?;
        }
        overlay.items().try_for_each(take)
    }

    /// What a file would say of itself that has all of it.
    pub(super) fn about(&self, changed: Option<(Wall, String)>) -> SnapshotHeader {
        let of_file = self.stored.about.clone();
        let server = of_file.cookie.as_ref().map(|(server, _)| server.clone());
        SnapshotHeader { changed, cookie: server.zip(self.cookie()), ..of_file }
    }

    pub(super) fn overlay(&self) -> RwLockReadGuard<'_, Overlay> {
        self.overlay.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn overlay_mut(&self) -> RwLockWriteGuard<'_, Overlay> {
        self.overlay.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the directory says of a key; `None`: the disk would have to be waited for.
    ///
    /// # Errors
    /// There are more entries than may be, one of them can't be an answer, or the file is damaged.
    pub(super) fn find(
        &self,
        question: &SnapshotQuery,
        key: &str,
        waits: bool,
    ) -> Result<Option<Option<Entry>>, LookupError> {
        let LdapSettings { results_max, .. } = &question.settings;
        let sought = question.sought(key);
        // Before the lock is taken: a file may hang. Those of which the overlay knows better are no more than
        // there are changes.
        let entries_max = results_max.saturating_add(1).saturating_add(self.changes());
        let mut of_file = Vec::with_capacity(sought.len());
        for key in &sought {
            match self.stored.of_key(key, entries_max, waits)? {
                Some(entries) => of_file.push(entries),
                None => return Ok(None),
            }
        }
        let overlay = self.overlay();
        let (mut met, mut found): (Vec<Id>, Vec<Box<[Field]>>) = Default::default();
        for (key, of_file) in sought.iter().zip(of_file) {
            let of_file = of_file.into_iter().filter(|(id, _)| !overlay.has(id));
            let since = overlay.of_key(key).map(|Item { id, fields, .. }| (*id, fields.clone()));
            for (id, fields) in of_file.chain(since) {
                if met.contains(&id) {
                    continue;
                }
                if met.len() >= *results_max {
                    let text = format!("the key finds more than {results_max} entries");
                    return Err(LookupError::new(LookupErrorKind::Key, text));
                }
                met.push(id);
                found.push(fields);
            }
        }
        question.answer(found).map(Some)
    }
}
