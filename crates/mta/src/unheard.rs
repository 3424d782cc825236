//! Deduplication of resent APDUs: a peer may not have received our acknowledgement. It then resends the same APDU,
//! perhaps before this server detects that the connection is broken.

use mail::{MessageId, Recent};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of entries of ended associations, over all peers, and of confirmed entries. Each is kept until at
/// least half as many newer ones have come.
pub const UNHEARD_MAX: usize = 8_192;

/// Start of a transfer, in the order of starts and confirmations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransferStart(u64);

/// State of a received APDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferState {
    /// New: the caller makes it durable, and reports the result.
    New,
    /// It arrived on another association and is being made durable.
    BeingStored,
    /// Stored as this message: there is no second copy.
    Stored(MessageId),
    /// Stored, and the peer confirmed it on another association during this transfer. No task waits for the end of this
    /// one.
    Heard(MessageId),
}

/// APDUs without a confirmed acknowledgement, by peer and digest.
#[derive(Debug)]
pub struct ApduDedup(Mutex<DedupLedger>);

type TransferKey = Box<[u8]>;

#[derive(Debug)]
struct DedupLedger {
    /// On open associations, at most one each; `None`: it is being made durable.
    open: BTreeMap<TransferKey, Option<MessageId>>,
    /// On ended associations.
    ended: Recent<TransferKey, Option<MessageId>>,
    /// Confirmed APDUs, with the time. The same APDU may still be read on another association, because the disk is
    /// slow.
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
    /// Begins a transfer: an APDU that is confirmed from here on may be the same one.
    #[must_use]
    pub fn begin(&self) -> TransferStart {
        self.lock().now
    }

    /// Returns the state of an APDU that arrived on an association since `begun`. A new one is claimed by this
    /// association.
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

    /// Sets the message that a new APDU was stored as.
    pub fn store(&self, peer: &str, digest: &[u8], id: MessageId) {
        self.lock().open.insert(key(peer, digest), Some(id));
    }

    /// The peer has received the acknowledgement: a later transfer of the same content is a new message.
    pub fn hear(&self, peer: &str, digest: &[u8]) {
        let (mut book, key) = (self.lock(), key(peer, digest));
        let (open, ended) = (book.open.remove(&key).flatten(), book.take_ended(&key));
        if let Some(id) = open.or(ended) {
            book.now.0 += 1;
            let now = book.now;
            book.heard.insert(key, (id, now));
        }
    }

    /// The APDU was rejected, and the peer is notified: it may resend it.
    pub fn forget(&self, peer: &str, digest: &[u8]) {
        self.lock().open.remove(&key(peer, digest));
    }

    /// The association has ended without a confirmation.
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
    // Unambiguous, as all digests have the same length.
    [digest, peer.as_bytes()].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> MessageId {
        MessageId::new(1, 0, 7)
    }

    /// The state of a transfer that begins now.
    fn claim(unheard: &ApduDedup, peer: &str, digest: &[u8]) -> TransferState {
        unheard.claim(peer, digest, unheard.begin())
    }

    /// A ledger with a stored message.
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
        // It was rejected.
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
        // A second message with the same content is not the first association's.
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
            // The last of its generation is forgotten first.
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
