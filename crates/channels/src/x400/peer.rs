//! Calling a peer: what is asked of it, and whether it is who answers.

use super::outbound::ended;
use crate::x400::section::{X400Mode, X400Peer};
use mail::Wall;
use x400::association::{
    Binding, End, Identity, InitiatorSettings, Mode, Password, Selectors, Timeouts,
};
use x400::mts::UtcTime;

/// What an association to a peer is opened with.
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

/// Who we say that we are to a peer.
pub(super) fn our_identity(peer: &X400Peer) -> Identity {
    let password = Some(peer.our_password.octets()).filter(|password| !password.is_empty());
    Identity {
        name: Some(peer.our_name.to_string()),
        password: password.map(|password| Password(password.to_vec())),
    }
}

/// Whether who answers has the name and the password that the configuration has for it.
#[must_use]
pub fn is_peer(binding: &Binding, peer: &X400Peer) -> bool {
    binding.identity.name.as_deref() == Some(&*peer.their_name) && is_its(&binding.identity, peer)
}

/// Whether a password that was shown, if one was, is the peer's.
pub(super) fn is_its(identity: &Identity, peer: &X400Peer) -> bool {
    let shown = identity.password.clone().unwrap_or(Password(Vec::new()));
    shown.is(peer.their_password.octets())
}

/// Why an association to a peer ended, for people.
#[must_use]
pub fn association_failure(end: &End, peer: &X400Peer) -> String {
    ended("", end, peer).text.into()
}
