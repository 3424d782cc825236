//! Mailboxes of the world: in memory, and as slow as a test wants.

use bytes::Bytes;
use mta::seams::{MailStore, MailboxError, MailboxPlace};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

/// Mailboxes in memory.
#[derive(Default)]
pub(crate) struct Mailboxes {
    pub(crate) messages: RefCell<BTreeMap<PathBuf, Vec<String>>>,
    open: RefCell<BTreeMap<u64, (MailboxPlace, Vec<u8>)>>,
    pub(crate) failure: Cell<Option<ErrorKind>>,
    pub(crate) last: RefCell<Option<MailboxPlace>>,
    /// How long each delivery takes.
    pub(crate) delay: Cell<Duration>,
}

impl Mailboxes {
    fn check(&self, place: &MailboxPlace, bytes: usize) -> Result<(), MailboxError> {
        self.failure.get().map_or(Ok(()), |kind| Err(MailboxError::from(kind)))?;
        match place.quota_bytes.filter(|quota_bytes| *quota_bytes < bytes as u64) {
            Some(quota_bytes) => Err(MailboxError::Full { quota_bytes }),
            None => Ok(()),
        }
    }

    fn keep(&self, place: &MailboxPlace, content: &[u8]) {
        let text = String::from_utf8_lossy(content).into_owned();
        *self.last.borrow_mut() = Some(place.clone());
        let mut directory = place.path();
        directory.extend(place.folder.as_ref().map(|folder| &folder.name));
        self.messages.borrow_mut().entry(directory).or_default().push(text);
    }
}

impl MailStore for Mailboxes {
    async fn deliver(
        &self,
        place: MailboxPlace,
        _name: String,
        pieces: Vec<Bytes>,
    ) -> Result<(), MailboxError> {
        if !self.delay.get().is_zero() {
            tokio::time::sleep(self.delay.get()).await;
        }
        let content = pieces.concat();
        self.check(&place, content.len())?;
        self.keep(&place, &content);
        Ok(())
    }

    async fn begin(&self, place: MailboxPlace, _name: String) -> Result<u64, MailboxError> {
        self.check(&place, 0)?;
        let mut open = self.open.borrow_mut();
        let file = open.keys().next_back().map_or(1, |last| last + 1);
        open.insert(file, (place, Vec::new()));
        Ok(file)
    }

    async fn append(&self, file: u64, piece: Bytes) -> Result<(), MailboxError> {
        self.failure.get().map_or(Ok(()), |kind| Err(MailboxError::from(kind)))?;
        let mut open = self.open.borrow_mut();
        let (_, content) = open.get_mut(&file).ok_or(ErrorKind::NotFound)?;
        content.extend_from_slice(&piece);
        Ok(())
    }

    async fn finish(&self, file: u64, keep: bool) -> Result<(), MailboxError> {
        let found = self.open.borrow_mut().remove(&file);
        let (place, content) = found.ok_or(ErrorKind::NotFound)?;
        if keep {
            self.check(&place, content.len())?;
            self.keep(&place, &content);
        }
        Ok(())
    }

    fn was_full(&self) -> bool {
        self.failure.get() == Some(ErrorKind::StorageFull)
    }

    async fn room(&self, place: MailboxPlace, bytes: u64) -> Result<(), MailboxError> {
        self.failure.get().map_or(Ok(()), |kind| Err(MailboxError::from(kind)))?;
        let messages = self.messages.borrow();
        let used: usize = messages.get(&place.path()).into_iter().flatten().map(String::len).sum();
        match place.quota_bytes {
            Some(quota_bytes) if used as u64 + bytes > quota_bytes => {
                Err(MailboxError::Full { quota_bytes })
            }
            _ => Ok(()),
        }
    }
}
