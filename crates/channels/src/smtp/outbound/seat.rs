//! Connections to a host of a next hop, and the effect of their failures on the host's state.

use super::failed_addresses::FailedAddresses;
use super::lacking::Lacking;
use super::lessons::HostQuirks;
use super::moves::{Avoided, Failovers};
use super::refusals::Refusals;
use super::tls_lessons::TlsFallbacks;
use mail::Domain;
use mta::routing::hop::NextHop;
use mta::routing::hosts::{Host, Others};
use mta::seams::Time;
use std::cell::RefCell;
use std::rc::Rc;

/// Counts an open connection to a host, until dropped.
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

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    /// The host deferred a transaction: other hosts are tried before it for a while.
    pub(super) fn put_off(&self) {
        self.hop.states.put_off(self.time.now(), &self.host);
    }

    /// The host ended a transaction without a verdict. If it has other working connections, it seems to have enough.
    pub(super) fn broke_off(&self) {
        match self.hop.states.has_no_other(&self.host) {
            true => self.hop.states.failed(self.time.now(), &self.host),
            false => self.crowded(),
        }
    }

    /// The host replied 421.
    pub(super) fn crowded(&self) {
        self.hop.states.crowded(self.time.now(), &self.host);
    }

    /// The host can't accept one message that another host may accept.
    pub(super) fn pass_over(&self, others: Others) {
        self.hop.states.pass_over(&self.host, others);
    }

    /// The host has given a verdict on a message.
    pub(super) fn well(&self) {
        self.hop.states.well(&self.host);
    }

    /// Returns true if another host of the hop should be tried before this one.
    pub(super) fn has_another_host(&self) -> bool {
        let now = self.time.now();
        self.hop.states.has_another_in_front(now, &self.hop.hosts, &self.host)
    }
}

impl<T: Time> Drop for Seat<T> {
    fn drop(&mut self) {
        self.hop.states.closed(self.time.now(), &self.host);
    }
}

/// Returns true if the host may be reachable over another address family: this one has no route to it.
pub(super) fn is_no_route(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable)
        // EADDRNOTAVAIL: this machine has no address of the family.
        || error.kind() == ErrorKind::AddrNotAvailable
}

/// State kept with the next hop, and dropped with it.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) lessons: HostQuirks,
    pub(super) tls: TlsFallbacks,
    pub(super) addresses: FailedAddresses,
    pub(super) refusals: Refusals,
    pub(super) moves: Failovers,
    pub(super) avoided: Avoided,
    pub(super) lacking: Lacking,
    /// Sender domain of the last refusal for the sender, until a message is accepted. The inner `None` stands for DSNs.
    pub(super) refused_sender: RefCell<Option<Option<Domain>>>,
}
