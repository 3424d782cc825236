//! How many messages are read from the spool at once by who reads many.

use super::sieve::READS_MAX;
use crate::message::Message;
use mail::MessageId;
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

/// Messages that an order could not read: it goes on, and names them at its end.
#[derive(Default)]
pub(super) struct Unread {
    first: Option<MessageId>,
    count: u64,
}

impl Unread {
    /// Gives the message if it was read. One that is gone was delivered meanwhile: that is no mistake.
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

    /// What was not done, if there is any, and `why` it matters.
    pub(super) fn sentence(&self, why: &str) -> Option<String> {
        let first = self.first?;
        Some(match self.count {
            1 => format!("{first}: it can't be read, {why}"),
            count => format!("{first} and {} others can't be read, {why}", count - 1),
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
        assert_eq!(unread.sentence("why"), Some(format!("{}: it can't be read, why", id(3))));
        assert!(unread.sort(id(4), Err(LoadError::Disk("x".into()))).is_none());
        let both = format!("{} and 1 others can't be read, why", id(3));
        assert_eq!(unread.sentence("why"), Some(both));
    }
}
