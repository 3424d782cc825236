//! What happened, folded into one number, and on demand as text.

use super::executor::Executor;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Odd, with bits all over; as good as any.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// The history of one run.
#[derive(Debug)]
pub struct Trace {
    executor: Executor,
    hash: Cell<u64>,
    events_count: Cell<u64>,
    /// One line per event; `None`: only the number is wanted.
    lines: Option<RefCell<Vec<String>>>,
}

impl Trace {
    /// An empty one.
    #[must_use]
    pub fn new(executor: Executor, with_text: bool) -> Rc<Trace> {
        Rc::new(Trace {
            executor,
            hash: Cell::new(FACTOR),
            events_count: Cell::new(0),
            lines: with_text.then(RefCell::default),
        })
    }

    /// The time of what happens.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.executor.now_us()
    }

    fn fold(&self, value: u64) {
        self.hash.set((self.hash.get().rotate_left(5) ^ value).wrapping_mul(FACTOR));
    }

    /// Something of this kind happened now; `what` says what to people.
    pub fn note(&self, kind: &'static str, values: &[u64], what: impl FnOnce() -> String) {
        self.fold(self.executor.now_us());
        self.fold_bytes(kind.as_bytes());
        values.iter().for_each(|&value| self.fold(value));
        self.write(kind, what);
    }

    /// As [`Trace::note`], for what is bytes.
    pub fn note_bytes(&self, kind: &'static str, bytes: &[u8], what: impl FnOnce() -> String) {
        self.fold(self.executor.now_us());
        self.fold_bytes(kind.as_bytes());
        self.fold_bytes(bytes);
        self.write(kind, what);
    }

    fn fold_bytes(&self, bytes: &[u8]) {
        self.fold(bytes.len() as u64);
        for word in bytes.chunks(8) {
            let mut padded = [0; 8];
            padded[..word.len()].copy_from_slice(word);
            self.fold(u64::from_le_bytes(padded));
        }
    }

    fn write(&self, kind: &'static str, what: impl FnOnce() -> String) {
        self.events_count.set(self.events_count.get() + 1);
        if let Some(lines) = &self.lines {
            let now_us = self.executor.now_us();
            let (seconds, us) = (now_us / 1_000_000, now_us % 1_000_000);
            lines.borrow_mut().push(format!("{seconds:>6}.{us:06} {kind:<8} {}", what()));
        }
    }

    /// The number that two runs with one seed have in common.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash.get()
    }

    /// How much happened.
    #[must_use]
    pub fn events_count(&self) -> u64 {
        self.events_count.get()
    }

    /// The text; empty if it was not wanted.
    #[must_use]
    pub fn take_lines(&self) -> Vec<String> {
        self.lines
            .as_ref()
            .map(|lines| std::mem::take(&mut *lines.borrow_mut()))
            .unwrap_or_default()
    }
}
