//! Batch size for reading many messages from the spool.

use super::sieve::READS_MAX;
use crate::message::Message;
use mail::MessageId;
use spool::LoadError;
use std::rc::Rc;

/// Batch size while messages are small.
const SMALL_READS_MAX: usize = 64;
/// Maximum size of a small message.
const SMALL_BYTES: usize = 64 << 10;

/// The batch size, large if the last batch had small messages only: sequential reads cost a disk wait each.
pub(super) struct ReadAhead(usize);

impl Default for ReadAhead {
    fn default() -> ReadAhead {
        ReadAhead(READS_MAX)
    }
}

impl ReadAhead {
    /// Size of the next batch.
    pub(super) fn count(&self) -> usize {
        self.0
    }

    /// Notes a batch that was read.
    pub(super) fn note(&mut self, read: &[Result<Rc<Message>, LoadError>]) {
        let largest = read.iter().flatten().map(|message| message.cost()).max();
        let are_small = largest.unwrap_or(0) <= SMALL_BYTES;
        self.0 = if are_small { SMALL_READS_MAX } else { READS_MAX };
    }
}

/// Messages that a command could not read. It continues, and names them at its end.
#[derive(Default)]
pub(super) struct Unread {
    first: Option<MessageId>,
    count: u64,
}

impl Unread {
    /// Returns the message if it was read. A message not found was delivered in the meantime, which is no error.
    pub(super) fn sort(
        &mut self,
        id: MessageId,
        read: Result<Rc<Message>, LoadError>,
    ) -> Option<Rc<Message>> {
        match read {
            Ok(message) => return Some(message),
            Err(LoadError::NotFound) => {}
            Err(LoadError::Damaged(_) | LoadError::Disk(_)) => {
                self.first.get_or_insert(id);
                self.count += 1;
            }
        }
        None
    }

    /// The error about unread messages, if any, with `why` as the consequence.
    pub(super) fn sentence(&self, why: &str) -> Option<String> {
        let first = self.first?;
        Some(match self.count {
            1 => format!("{first}: cannot be read, {why}"),
            count => format!("{first} and {} more cannot be read, {why}", count - 1),
        })
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

    #[test]
    fn what_was_delivered_meanwhile_is_no_mistake_and_what_can_not_be_read_is_named() {
        let mut unread = Unread::default();
        let id = |n| MessageId::new(0, 0, n);
        assert!(unread.sort(id(1), Err(LoadError::NotFound)).is_none());
        assert_eq!(unread.sentence("why"), None);
        let message = Rc::new(crate::message::tests::message(2, 10));
        assert!(unread.sort(id(2), Ok(message)).is_some());
        assert!(unread.sort(id(3), Err(LoadError::Damaged("x".into()))).is_none());
        assert_eq!(unread.sentence("why"), Some(format!("{}: cannot be read, why", id(3))));
        assert!(unread.sort(id(4), Err(LoadError::Disk("x".into()))).is_none());
        let both = format!("{} and 1 more cannot be read, why", id(3));
        assert_eq!(unread.sentence("why"), Some(both));
    }
}
