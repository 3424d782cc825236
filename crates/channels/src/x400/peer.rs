//! Parameters for an association to a peer, and verification of the peer's identity.

use super::outbound::ended;
use crate::x400::section::{X400Mode, X400Peer};
use bytes::{Buf as _, Bytes};
use mail::Wall;
use std::collections::VecDeque;
use std::io::IoSlice;
use x400::association::{
    AssociationEnd, Binding, Identity, InitiatorSettings, Mode, Password, Selectors, Timeouts,
};
use x400::mts::UtcTime;

/// Settings for opening an association to a peer.
#[must_use]
pub fn initiator_settings(peer: &X400Peer, now: Wall) -> InitiatorSettings {
    InitiatorSettings {
        mode: match peer.mode {
            X400Mode::Normal => Mode::Normal,
            X400Mode::X410 => Mode::X410,
            X400Mode::X4101984 => Mode::X410Of1984,
        },
        called: Selectors {
            t: peer.t_selector.to_vec(),
            s: peer.s_selector.to_vec(),
            p: peer.p_selector.to_vec(),
        },
        calling: Selectors::default(),
        identity: our_identity(peer),
        checkpoint_kib: u32::from(peer.checkpoint_kib),
        window: u32::from(peer.window),
        two_way: false,
        tpdu_bytes: peer.tpdu_bytes as usize,
        reference_time: UtcTime::from(now).to_text(),
        timeouts: Timeouts {
            bind: peer.connect_timeout,
            window: peer.answer_timeout,
            acknowledge: peer.answer_timeout,
            ..Timeouts::default()
        },
    }
}

/// This MTA's identity towards a peer.
pub(super) fn our_identity(peer: &X400Peer) -> Identity {
    let password = Some(peer.our_password.octets()).filter(|password| !password.is_empty());
    Identity {
        name: Some(peer.our_name.to_string()),
        password: password.map(|password| Password(password.to_vec())),
    }
}

/// Returns true if the responder shows the name and password configured for the peer.
#[must_use]
pub fn is_peer(binding: &Binding, peer: &X400Peer) -> bool {
    binding.identity.name.as_deref() == Some(&*peer.their_name) && is_its(&binding.identity, peer)
}

/// Returns true if the password shown, or its absence, matches the peer's.
pub(super) fn is_its(identity: &Identity, peer: &X400Peer) -> bool {
    let shown = identity.password.clone().unwrap_or(Password(Vec::new()));
    shown.is(peer.their_password.octets())
}

/// Reason for the end of an association to a peer, for people.
#[must_use]
pub fn association_failure(end: &AssociationEnd, peer: &X400Peer) -> String {
    ended("", end, peer).text.into()
}

/// Maximum number of pieces in one write; the kernel's limit is 1,024 (IOV_MAX).
const PIECES_MAX: usize = 256;

/// Pieces waiting to be written, in order.
#[derive(Debug, Default)]
pub(super) struct Unwritten(VecDeque<Bytes>);

impl Unwritten {
    pub(super) fn extend(&mut self, pieces: impl IntoIterator<Item = Bytes>) {
        self.0.extend(pieces.into_iter().filter(|piece| !piece.is_empty()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Slices for one write.
    pub(super) fn slices(&self) -> Vec<IoSlice<'_>> {
        self.0.iter().take(PIECES_MAX).map(|piece| IoSlice::new(piece)).collect()
    }

    /// Removes the octets that were written.
    pub(super) fn advance(&mut self, mut count: usize) {
        while let Some(first) = self.0.front_mut() {
            if count < first.len() {
                return first.advance(count);
            }
            count -= first.len();
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_forgotten_wherever_a_write_ended() {
        for step in 1..8 {
            let mut unwritten = Unwritten::default();
            unwritten.extend([&b"ab"[..], b"", b"cde", b"f"].map(Bytes::from_static));
            let mut seen = Vec::new();
            while !unwritten.is_empty() {
                let next: Vec<u8> =
                    unwritten.slices().iter().flat_map(|slice| slice.to_vec()).take(step).collect();
                unwritten.advance(next.len());
                seen.extend(next);
            }
            assert_eq!(seen, b"abcdef", "{step}");
        }
    }
}
