//! TLS towards a host: whether it is asked for, and the handshake.

use super::dialogue::Dialogue;
use super::lessons::Lessons;
use super::relay_of;
use super::wire::Wire;
use crate::settings::RouteTls;
use mail::{EnhancedStatus, Failure};
use mta::delivery::Slot;
use mta::routing::hop::NextHop;
use mta::seams::{Encryption, Endpoint, Net as _, World};
use smtp::client::{Lesson, StartTls};
use std::io;
use std::time::Duration;

/// How long a handshake may take; less where a command has less.
const HANDSHAKE_MAX: Duration = Duration::from_secs(30);

/// Whether a session with this host asks for TLS.
pub(super) fn policy<W: World>(slot: &Slot<W>, hop: &NextHop, peer: &Endpoint) -> StartTls {
    match (relay_of(hop).peer.tls, peer) {
        // Nobody but this machine listens on its sockets.
        (RouteTls::Off, _) | (_, Endpoint::Unix(_)) => StartTls::Off,
        (RouteTls::Required | RouteTls::Verified, _) => StartTls::Required,
        (RouteTls::Opportunistic, _) => {
            match hop.memory::<Lessons>().is_tls_unusable(slot.now(), peer) {
                true => StartTls::Off,
                false => StartTls::Opportunistic,
            }
        }
    }
}

/// Whether mail goes in clear to a host with which a handshake failed; it is remembered.
pub(super) fn goes_on_in_clear<W: World>(slot: &Slot<W>, hop: &NextHop, peer: &Endpoint) -> bool {
    let is_so = relay_of(hop).peer.tls == RouteTls::Opportunistic;
    if is_so {
        hop.memory::<Lessons>().learn(slot.now(), peer, Lesson::TlsUnusable);
    }
    is_so
}

/// Encrypts a connection whose session asks for it now. `host` is the host's name or address, `name`
/// what failures call the peer.
///
/// # Errors
/// What went wrong with the handshake; the connection is gone.
pub(super) async fn encrypt<W: World>(
    slot: &Slot<W>,
    hop: &NextHop,
    (host, name): (&str, &str),
    dialogue: Dialogue<W>,
) -> Result<(Dialogue<W>, Encryption), Failure> {
    let Wire { stream, mut session, mut alarm } = dialogue.wire;
    let until = session.deadline().min(slot.now() + HANDSHAKE_MAX);
    let is_verified = relay_of(hop).peer.tls == RouteTls::Verified;
    let begun = slot.world().net().encrypt_connected(stream, host, is_verified);
    let done = alarm.within(|_| until, begun).await;
    match done.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())) {
        Ok((stream, encryption)) => {
            slot.metrics().tls_connections.inc();
            session.handle_tls_started(slot.now());
            Ok((Dialogue::new(Wire { stream, session, alarm }), encryption))
        }
        Err(error) => {
            slot.metrics().tls_connections_failed.inc();
            // RFC 3463 §3.8: X.7.5 is a cryptographic failure.
            let status = EnhancedStatus::new(4, 7, 5);
            let text = format!("the TLS handshake failed: {error}");
            slot.console().debug("tls", format_args!("{text} peer={name}"));
            Err(Failure::network(name, status, text))
        }
    }
}
