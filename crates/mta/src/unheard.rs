//! Acknowledgements that a peer may not have heard: until it says anything more, nobody knows. Who has not heard one
//! sends the same again, perhaps before it is noticed here that its connection is gone.

use mail::{MessageId, Recent};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many are remembered at most of associations that have ended, over all peers, and so many that were heard: each
/// until half as many others have come, at least.
pub const UNHEARD_MAX: usize = 8_192;

/// When a transfer began, among all that began and were heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransferStart(u64);

/// What is known of something that a peer has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferState {
    /// Nothing: who asks makes it durable, and says what came of it.
    New,
    /// It came on another association and is being made durable.
    BeingStored,
    /// It is this message: it gets no second copy.
    Stored(MessageId),
    /// The same, and while it came the peer has heard that on another association: nobody waits for this one's end.
    Heard(MessageId),
}

/// What came and was not heard to be acknowledged, by peer and digest.
#[derive(Debug)]
pub struct ApduDedup(Mutex<DedupLedger>);

type TransferKey = Box<[u8]>;

#[derive(Debug)]
struct DedupLedger {
    /// On associations that are open, one each at most; `None`: it is being made durable.
    open: BTreeMap<TransferKey, Option<MessageId>>,
    /// On those that have ended.
    ended: Recent<TransferKey, Option<MessageId>>,
    /// What was heard, and when: of the same another association may still have the last octets to read, because its
    /// disk is slow.
    heard: Recent<TransferKey, (MessageId, TransferStart)>,
    now: TransferStart,
}

impl Default for ApduDedup {
    fn default() -> ApduDedup {
        let (ended, heard) = (Recent::new(UNHEARD_MAX), Recent::new(UNHEARD_MAX));
        ApduDedup(Mutex::new(DedupLedger {
            open: BTreeMap::new(),
            ended,
            heard,
            now: TransferStart::default(),
        }))
    }
}

impl ApduDedup {
    /// A transfer begins: what is heard from here on may be what it brings.
    #[must_use]
    pub fn begin(&self) -> TransferStart {
        self.lock().now
    }

    /// A peer has sent this on an association, from `begun` on: what is known of it. What is new is its own from here
    /// on.
    #[must_use]
    pub fn claim(&self, peer: &str, digest: &[u8], begun: TransferStart) -> TransferState {
        let (mut book, key) = (self.lock(), key(peer, digest));
        let known = match book.open.get(&key) {
            Some(None) => return TransferState::BeingStored,
            Some(known) => *known,
            None => match book.heard.get(&key) {
                Some((id, heard)) if begun < heard => return TransferState::Heard(id),
                _ => book.take_ended(&key),
            },
        };
        book.open.insert(key, known);
        known.map_or(TransferState::New, TransferState::Stored)
    }

    /// What was new is this message.
    pub fn store(&self, peer: &str, digest: &[u8], id: MessageId) {
        self.lock().open.insert(key(peer, digest), Some(id));
    }

    /// The peer knows that it was taken: who begins it again from here on means it.
    pub fn hear(&self, peer: &str, digest: &[u8]) {
        let (mut book, key) = (self.lock(), key(peer, digest));
        let (open, ended) = (book.open.remove(&key).flatten(), book.take_ended(&key));
        if let Some(id) = open.or(ended) {
            book.now.0 += 1;
            let now = book.now;
            book.heard.insert(key, (id, now));
        }
    }

    /// It was not taken, and the peer is told so: it may come again.
    pub fn forget(&self, peer: &str, digest: &[u8]) {
        self.lock().open.remove(&key(peer, digest));
    }

    /// The association has ended, and nothing more was heard on it.
    pub fn end(&self, peer: &str, digest: &[u8]) {
        let (mut book, key) = (self.lock(), key(peer, digest));
        if let Some(Some(id)) = book.open.remove(&key) {
            book.ended.insert(key, Some(id));
        }
    }

    fn lock(&self) -> MutexGuard<'_, DedupLedger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DedupLedger {
    fn take_ended(&mut self, key: &TransferKey) -> Option<MessageId> {
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

fn key(peer: &str, digest: &[u8]) -> TransferKey {
    // No digest ends like another one with a name behind it: all are of one length.
    [digest, peer.as_bytes()].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> MessageId {
        MessageId::new(1, 0, 7)
    }

    /// What is known of a transfer that begins now.
    fn claim(unheard: &ApduDedup, peer: &str, digest: &[u8]) -> TransferState {
        unheard.claim(peer, digest, unheard.begin())
    }

    /// A book in which the message was stored.
    fn stored() -> ApduDedup {
        let unheard = ApduDedup::default();
        assert_eq!(claim(&unheard, "hub", b"digest"), TransferState::New);
        assert_eq!(claim(&unheard, "hub", b"digest"), TransferState::BeingStored);
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
            assert_eq!(claim(&unheard, "other", b"digest"), TransferState::New);
            assert_eq!(claim(&unheard, "hub", b"digesT"), TransferState::New);
            assert_eq!(
                claim(&unheard, "hub", b"digest"),
                TransferState::Stored(id()),
                "{has_ended}"
            );
            assert_eq!(
                claim(&unheard, "hub", b"digest"),
                TransferState::Stored(id()),
                "{has_ended}"
            );
        }
    }

    #[test]
    fn who_has_heard_it_and_sends_it_again_means_it() {
        let unheard = stored();
        unheard.hear("hub", b"digest");
        assert_eq!(claim(&unheard, "hub", b"digest"), TransferState::New);
        // It was not taken.
        unheard.forget("hub", b"digest");
        assert_eq!(claim(&unheard, "hub", b"digest"), TransferState::New);
    }

    #[test]
    fn what_the_second_association_hears_counts_for_the_first() {
        for first_ends_before in [false, true] {
            let unheard = stored();
            assert_eq!(claim(&unheard, "hub", b"digest"), TransferState::Stored(id()));
            if first_ends_before {
                unheard.end("hub", b"digest");
            }
            unheard.hear("hub", b"digest");
            unheard.end("hub", b"digest");
            assert_eq!(
                claim(&unheard, "hub", b"digest"),
                TransferState::New,
                "{first_ends_before}"
            );
        }
    }

    #[test]
    fn an_association_that_ends_amid_a_commit_has_stored_nothing() {
        let unheard = ApduDedup::default();
        assert_eq!(claim(&unheard, "hub", b"digest"), TransferState::New);
        unheard.end("hub", b"digest");
        assert_eq!(claim(&unheard, "hub", b"digest"), TransferState::New);
    }

    #[test]
    fn who_began_before_it_was_heard_brings_the_same() {
        let unheard = ApduDedup::default();
        let slow = unheard.begin();
        for has_ended in [false, true] {
            assert_eq!(claim(&unheard, "hub", b"digest"), TransferState::New, "{has_ended}");
            unheard.store("hub", b"digest", id());
            if has_ended {
                unheard.end("hub", b"digest");
            }
            unheard.hear("hub", b"digest");
            assert_eq!(
                unheard.claim("hub", b"digest", slow),
                TransferState::Heard(id()),
                "{has_ended}"
            );
            assert_eq!(unheard.claim("other", b"digest", slow), TransferState::New);
            unheard.forget("other", b"digest");
        }
        // What is meant a second time is not the first association's.
        assert_eq!(claim(&unheard, "hub", b"digest"), TransferState::New);
        assert_eq!(unheard.claim("hub", b"digest", slow), TransferState::BeingStored);
    }

    #[test]
    fn what_was_heard_is_remembered_until_half_as_many_others_were() {
        let half = UNHEARD_MAX / 2;
        for (others, expected) in
            [(half, TransferState::Heard(id())), (half + 1, TransferState::New)]
        {
            let unheard = ApduDedup::default();
            let slow = unheard.begin();
            // The last of its generation is the first to be forgotten.
            for n in 1..=half + others {
                let digest = n.to_be_bytes();
                assert_eq!(claim(&unheard, "hub", &digest), TransferState::New);
                unheard.store("hub", &digest, id());
                unheard.hear("hub", &digest);
            }
            assert_eq!(unheard.claim("hub", &half.to_be_bytes(), slow), expected, "{others}");
        }
    }
}
