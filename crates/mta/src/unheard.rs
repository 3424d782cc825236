//! Acknowledgements that a peer may not have heard: its connection broke before it said anything more.

use mail::{MessageId, Recent};
use std::sync::{Mutex, PoisonError};

/// So many are remembered, over all peers.
pub const UNHEARD_MAX: usize = 8_192;

/// What was acknowledged so, by peer and digest: a peer that sends the same again has not heard it, and gets
/// no second copy delivered.
#[derive(Debug)]
pub struct Unheard(Mutex<Recent<Box<[u8]>, Option<MessageId>>>);

impl Default for Unheard {
    fn default() -> Unheard {
        Unheard(Mutex::new(Recent::new(UNHEARD_MAX)))
    }
}

impl Unheard {
    /// This message was acknowledged to a peer that may not know it.
    pub fn note(&self, peer: &str, digest: &[u8], id: MessageId) {
        self.lock().insert(key(peer, digest), Some(id));
    }

    /// The message that is the same, once: whoever sends it a third time means it.
    #[must_use]
    pub fn take(&self, peer: &str, digest: &[u8]) -> Option<MessageId> {
        let mut recent = self.lock();
        if recent.is_empty() {
            return None;
        }
        let key = key(peer, digest);
        let found = recent.get(&key).flatten();
        if found.is_some() {
            recent.insert(key, None);
        }
        found
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Recent<Box<[u8]>, Option<MessageId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(peer: &str, digest: &[u8]) -> Box<[u8]> {
    // No digest ends like another one with a name behind it: all are of one length.
    [digest, peer.as_bytes()].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resend_is_known_once_and_by_its_peer_alone() {
        let (unheard, id) = (Unheard::default(), MessageId::new(1, 0, 7));
        assert_eq!(unheard.take("hub", b"digest"), None);
        unheard.note("hub", b"digest", id);
        assert_eq!(unheard.take("other", b"digest"), None);
        assert_eq!(unheard.take("hub", b"digesT"), None);
        assert_eq!(unheard.take("hub", b"digest"), Some(id));
        assert_eq!(unheard.take("hub", b"digest"), None, "the third is meant");
        unheard.note("hub", b"digest", id);
        assert_eq!(unheard.take("hub", b"digest"), Some(id));
    }
}
