//! How many messages are read from the spool at once by who reads many.

use super::sieve::READS_MAX;
use crate::message::Message;
use spool::LoadError;
use std::rc::Rc;

/// Of small messages so many are read at once.
const SMALL_READS_MAX: usize = 64;
/// Messages up to this size are small.
const SMALL_BYTES: usize = 64 << 10;

/// As many as were small before: one after the other would wait for the disk each time.
pub(super) struct ReadAhead(usize);

impl Default for ReadAhead {
    fn default() -> ReadAhead {
        ReadAhead(READS_MAX)
    }
}

impl ReadAhead {
    /// How many are read next.
    pub(super) fn count(&self) -> usize {
        self.0
    }

    /// These were read.
    pub(super) fn note(&mut self, read: &[Result<Rc<Message>, LoadError>]) {
        let largest = read.iter().flatten().map(|message| message.cost()).max();
        let are_small = largest.unwrap_or(0) <= SMALL_BYTES;
        self.0 = if are_small { SMALL_READS_MAX } else { READS_MAX };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_messages_are_read_a_few_at_a_time() {
        let of = |bytes: usize| Ok(Rc::new(crate::message::tests::message(1, bytes)));
        let mut reading = ReadAhead::default();
        assert_eq!(reading.count(), READS_MAX);
        reading.note(&[of(10), Err(LoadError::NotFound)]);
        assert_eq!(reading.count(), SMALL_READS_MAX);
        reading.note(&[of(10), of(SMALL_BYTES)]);
        assert_eq!(reading.count(), READS_MAX);
    }
}
