//! Connections to a host of a next hop, and what their failures say of the host.

use mail::Failure;
use mta::routing::hop::NextHop;
use mta::routing::hosts::Host;
use mta::seams::Time;
use std::rc::Rc;

/// Counts an open connection to a host while it lives.
pub(super) struct Seat<T: Time> {
    time: T,
    hop: Rc<NextHop>,
    host: Host,
}

impl<T: Time> Seat<T> {
    pub(super) fn take(time: T, hop: &Rc<NextHop>, host: &Host) -> Seat<T> {
        hop.states.opened(host);
        Seat { time, hop: Rc::clone(hop), host: host.clone() }
    }

    /// The host put off a transaction: others are tried before it for a while.
    pub(super) fn put_off(&self) {
        self.hop.states.put_off(self.time.now(), &self.host);
    }

    /// The host said 421.
    pub(super) fn crowded(&self) {
        self.hop.states.crowded(self.time.now(), &self.host);
    }
}

impl<T: Time> Drop for Seat<T> {
    fn drop(&mut self) {
        self.hop.states.closed(self.time.now(), &self.host);
    }
}

/// Whether the peer put off a transaction, rather than a recipient as greylisting does, or the
/// session as with 421: another host may take it.
pub(super) fn is_put_off(failure: &Failure) -> bool {
    let Some(reply) = &failure.reply else { return false };
    reply.code / 100 == 4 && reply.code != 421 && !failure.is_of_recipient()
}

/// Whether it is worthwhile to try the host by another family: this one has no way to it.
pub(super) fn is_no_route(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable)
        // EADDRNOTAVAIL: this machine has no address of the family at all.
        || error.kind() == ErrorKind::AddrNotAvailable
}

/// What a failure says for good about a host, rather than about the moment.
pub(super) fn is_final(failure: &Failure, by_mx: bool) -> bool {
    match failure.reply.as_ref().map(|reply| reply.code) {
        // RFC 7504 §3: the host takes no mail, under any circumstances.
        Some(521) => true,
        // RFC 5321 §3.1: no SMTP service here. Of a host that the postmaster names it is rather
        // a mistake, which shall return no mail.
        Some(554) => by_mx,
        Some(_) => false,
        // RFC 5321 §5.1, or the failure of a loop.
        None => failure.class == mail::Class::Permanent,
    }
}
