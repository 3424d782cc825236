//! The descriptors that the node's process may have open: its connections and lookups hold one
//! each, its logs keep some files open and need one for any other.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// `EMFILE`, as Linux numbers it.
const EMFILE: i32 = 24;

/// What is open, and how much may be.
#[derive(Debug)]
pub struct OpenFiles {
    used: AtomicU64,
    max: AtomicU64,
}

impl OpenFiles {
    /// None, and as many as anybody likes.
    #[must_use]
    pub fn new() -> Arc<OpenFiles> {
        Arc::new(OpenFiles { used: AtomicU64::new(0), max: AtomicU64::new(u64::MAX) })
    }

    /// So many from now on. What is open stays open.
    pub fn set_max(&self, max: u64) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Whether one more could be opened now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.used.load(Ordering::Relaxed) < self.max.load(Ordering::Relaxed)
    }

    /// Takes one, until it is dropped.
    ///
    /// # Errors
    /// EMFILE.
    pub fn open(self: &Arc<OpenFiles>) -> io::Result<OpenFile> {
        if !self.has_room() {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        self.used.fetch_add(1, Ordering::Relaxed);
        Ok(OpenFile(Arc::clone(self)))
    }
}

/// One that is open.
#[derive(Debug)]
pub struct OpenFile(Arc<OpenFiles>);

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_and_they_come_back() {
        let files = OpenFiles::new();
        files.set_max(2);
        let first = files.open().expect("one");
        let _second = files.open().expect("two");
        let error = files.open().expect_err("three");
        assert!(mta::lack::is_ours(&error));
        drop(first);
        let _third = files.open().expect("the first came back");
        files.set_max(1);
        assert!(!files.has_room(), "what is open stays open");
    }
}
