//! Greylisting: defers the first attempt of a triplet; a real mail server retries. Time is an argument, and the caller
//! stores the records.

mod book;
mod key;

pub use book::{Changes, ENTRIES_MAX, GreylistLedger};
pub use key::{ClientIdentity, KEY_BYTES, Key, network};
use mail::{TagDelimiters, Wall};
use std::time::Duration;

/// Parameters of greylisting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GreylistPolicy {
    /// Earlier retries are deferred again.
    pub delay: Duration,
    /// Later retries count as a first attempt.
    pub retry_window: Duration,
    /// Time after their last use for which triplets and clients are remembered.
    pub remember: Duration,
    /// A client with this many passed triplets is exempt; 0: never.
    pub clients_after: u32,
}

/// Client, sender and recipient.
#[derive(Clone, Copy, Debug)]
pub struct Triplet<'a> {
    pub client: ClientIdentity<'a>,
    /// Local part and domain; `None` is `<>`.
    pub sender: Option<(&'a str, &'a str)>,
    /// The whole address.
    pub recipient: &'a str,
    /// Characters that begin a tag, which does not distinguish senders.
    pub tags: &'a TagDelimiters,
}

/// Decision about a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GreylistResult {
    /// The triplet is new: deferred for this time.
    New(Duration),
    /// It retried too early: deferred for this time.
    Early(Duration),
    /// It retried after this time: accepted from now on.
    Passed(Duration),
    /// It has passed before.
    Known,
    /// The client has proved often enough that it retries.
    Client,
}

#[cfg(test)]
mod tests;

/// Octets of a record in a file.
pub const RECORD_BYTES: usize = 21;

/// State of a triplet or a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    state: State,
    /// It is forgotten then.
    until: Wall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A triplet first seen at this time, without a retry in time.
    New(Wall),
    /// One that has.
    Passed,
    /// A client with this number of passed triplets, and the time of the last that counted.
    Client { passed: u32, counted: Wall },
}

impl Record {
    /// The form in a file.
    #[must_use]
    pub fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let (kind, at, count) = match self.state {
            State::New(first) => (1, first.0, 0),
            State::Passed => (2, 0, 0),
            State::Client { passed, counted } => (3, counted.0, passed),
        };
        let mut bytes = [kind; RECORD_BYTES];
        let numbers = at.to_be_bytes().into_iter().chain(self.until.0.to_be_bytes());
        let numbers = numbers.chain(u32::to_be_bytes(count));
        for (to, from) in bytes.iter_mut().skip(1).zip(numbers) {
            *to = from;
        }
        bytes
    }

    /// The reverse of [`Record::to_bytes`]; `None` if invalid.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Record> {
        let (kind, rest) = bytes.split_first()?;
        let (at, rest) = rest.split_first_chunk()?;
        let (until, rest) = rest.split_first_chunk()?;
        let (count, rest) = rest.split_first_chunk()?;
        let at = Wall(u64::from_be_bytes(*at));
        let state = match kind {
            1 => State::New(at),
            2 => State::Passed,
            3 => State::Client { passed: u32::from_be_bytes(*count), counted: at },
            _ => return None,
        };
        rest.is_empty().then_some(Record { state, until: Wall(u64::from_be_bytes(*until)) })
    }
}
