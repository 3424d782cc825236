//! Acknowledgements that a peer may not have heard: until it says anything more, nobody knows. Who has not heard one
//! sends the same again, perhaps before it is noticed here that its connection is gone.

use mail::{MessageId, Recent};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many are remembered of associations that have ended, over all peers.
pub const UNHEARD_MAX: usize = 8_192;

/// What is known of something that a peer has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nothing: who asks makes it durable, and says what came of it.
    New,
    /// It came on another association and is being made durable.
    BeingStored,
    /// It is this message: it gets no second copy.
    Stored(MessageId),
}

/// What came and was not heard to be acknowledged, by peer and digest.
#[derive(Debug)]
pub struct Unheard(Mutex<Book>);

type Key = Box<[u8]>;

#[derive(Debug)]
struct Book {
    /// On associations that are open, one each at most; `None`: it is being made durable.
    open: BTreeMap<Key, Option<MessageId>>,
    /// On those that have ended.
    ended: Recent<Key, Option<MessageId>>,
}

impl Default for Unheard {
    fn default() -> Unheard {
        let ended = Recent::new(UNHEARD_MAX);
        Unheard(Mutex::new(Book { open: BTreeMap::new(), ended }))
    }
}

impl Unheard {
    /// A peer has sent this on an association: what is known of it. What is new is its own from here on.
    #[must_use]
    pub fn claim(&self, peer: &str, digest: &[u8]) -> Claim {
        let (mut book, key) = (self.lock(), key(peer, digest));
        let known = match book.open.get(&key) {
            Some(None) => return Claim::BeingStored,
            Some(known) => *known,
            None => book.take_ended(&key),
        };
        book.open.insert(key, known);
        known.map_or(Claim::New, Claim::Stored)
    }

    /// What was new is this message.
    pub fn store(&self, peer: &str, digest: &[u8], id: MessageId) {
        self.lock().open.insert(key(peer, digest), Some(id));
    }

    /// The peer knows that it was taken, or was told that it was not: who sends it again means it.
    pub fn forget(&self, peer: &str, digest: &[u8]) {
        let (mut book, key) = (self.lock(), key(peer, digest));
        book.open.remove(&key);
        let _ = book.take_ended(&key);
    }

    /// The association has ended, and nothing more was heard on it.
    pub fn end(&self, peer: &str, digest: &[u8]) {
        let (mut book, key) = (self.lock(), key(peer, digest));
        if let Some(Some(id)) = book.open.remove(&key) {
            book.ended.insert(key, Some(id));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn take_ended(&mut self, key: &Key) -> Option<MessageId> {
        if self.ended.is_empty() {
            return None;
        }
        let found = self.ended.get(key).flatten();
        if found.is_some() {
            self.ended.insert(key.clone(), None);
        }
        found
    }
}

fn key(peer: &str, digest: &[u8]) -> Key {
    // No digest ends like another one with a name behind it: all are of one length.
    [digest, peer.as_bytes()].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> MessageId {
        MessageId::new(1, 0, 7)
    }

    /// A book in which the message was stored.
    fn stored() -> Unheard {
        let unheard = Unheard::default();
        assert_eq!(unheard.claim("hub", b"digest"), Claim::New);
        assert_eq!(unheard.claim("hub", b"digest"), Claim::BeingStored);
        unheard.store("hub", b"digest", id());
        unheard
    }

    #[test]
    fn a_resend_is_known_by_its_peer_alone_whether_the_first_association_has_ended_or_not() {
        for has_ended in [false, true] {
            let unheard = stored();
            if has_ended {
                unheard.end("hub", b"digest");
            }
            assert_eq!(unheard.claim("other", b"digest"), Claim::New);
            assert_eq!(unheard.claim("hub", b"digesT"), Claim::New);
            assert_eq!(unheard.claim("hub", b"digest"), Claim::Stored(id()), "{has_ended}");
            assert_eq!(unheard.claim("hub", b"digest"), Claim::Stored(id()), "{has_ended}");
        }
    }

    #[test]
    fn who_has_heard_it_and_sends_it_again_means_it() {
        let unheard = stored();
        unheard.forget("hub", b"digest");
        assert_eq!(unheard.claim("hub", b"digest"), Claim::New);
        // It was not taken.
        unheard.forget("hub", b"digest");
        assert_eq!(unheard.claim("hub", b"digest"), Claim::New);
    }

    #[test]
    fn what_the_second_association_hears_counts_for_the_first() {
        for first_ends_before in [false, true] {
            let unheard = stored();
            assert_eq!(unheard.claim("hub", b"digest"), Claim::Stored(id()));
            if first_ends_before {
                unheard.end("hub", b"digest");
            }
            unheard.forget("hub", b"digest");
            unheard.end("hub", b"digest");
            assert_eq!(unheard.claim("hub", b"digest"), Claim::New, "{first_ends_before}");
        }
    }

    #[test]
    fn an_association_that_ends_amid_a_commit_has_stored_nothing() {
        let unheard = Unheard::default();
        assert_eq!(unheard.claim("hub", b"digest"), Claim::New);
        unheard.end("hub", b"digest");
        assert_eq!(unheard.claim("hub", b"digest"), Claim::New);
    }
}
