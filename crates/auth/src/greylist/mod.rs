//! Greylisting: who comes for the first time is put off, and whoever is a mail server comes again. Time
//! comes in as an argument; what is known is kept by whoever asks.

mod book;
mod key;
mod record;

pub use book::{Book, Changes, ENTRIES_MAX};
pub use key::{Client, KEY_BYTES, Key, network};
pub use record::{RECORD_BYTES, Record};

use std::time::Duration;

/// How greylisting is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whoever comes again earlier is put off again.
    pub delay: Duration,
    /// Whoever comes again later comes for the first time.
    pub retry_window: Duration,
    /// So long after they were last seen triplets and clients are known.
    pub remember: Duration,
    /// A client that has come again for so many triplets is asked about none; 0: none ever is.
    pub clients_after: u32,
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug)]
pub struct Triplet<'a> {
    pub client: Client<'a>,
    /// Local part and domain; `None` is `<>`.
    pub sender: Option<(&'a str, &'a str)>,
    /// The whole address.
    pub recipient: &'a str,
}

/// What becomes of a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The triplet is new: put off for so long.
    New(Duration),
    /// It came again too early: for so long.
    Early(Duration),
    /// It came again so long after it came first: taken from now on.
    Passed(Duration),
    /// It has passed before.
    Known,
    /// The client has shown often enough that it comes again.
    Client,
}

#[cfg(test)]
mod tests;
