//! What is known of a triplet or a client.

use mail::Wall;

/// Octets of a record in a file.
pub const RECORD_BYTES: usize = 21;

/// What is known of a triplet or a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub(super) state: State,
    /// It is forgotten then.
    pub(super) until: Wall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A triplet that came first then, and has not come again in time.
    New(Wall),
    /// One that has.
    Passed,
    /// A client for which so many triplets have passed, the last that counted then.
    Client { passed: u32, counted: Wall },
}

impl Record {
    /// As it is kept in a file.
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

    /// Reads what [`Record::to_bytes`] made; `None`: it is something else.
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
