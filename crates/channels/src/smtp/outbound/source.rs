//! Egress source of a connection.

use mail::{Class, EnhancedStatus, Failure};
use mta::delivery::Slot;
use mta::routing::hop::NextHop;
use mta::seams::{Egress, Endpoint, SourceFailure, World};
use std::io;

/// The egress for a connection to `peer`.
pub(super) fn of(hop: &NextHop, peer: &Endpoint) -> Egress {
    match (peer, &hop.source) {
        (Endpoint::Tcp(peer), Some(source)) => {
            Egress { address: source.towards(*peer), proxy: source.proxy }
        }
        _ => Egress::default(),
    }
}

/// The source has addresses of one family only, and the host has none in it.
pub(super) struct OutOfReach(String);

impl OutOfReach {
    /// The source reaches none of the next hop's hosts: the mail is moved to another source.
    pub(super) fn note<W: World>(&self, slot: &Slot<W>, hop: &NextHop) {
        if let Some(source) = &hop.source {
            slot.note_way_out(source, &self.0);
        }
    }

    pub(super) fn failure(&self, hop: &NextHop) -> Failure {
        failure(hop.source.as_ref().map_or("", |source| &source.name), &self.0)
    }
}

/// A host's addresses in the families that the source has.
///
/// # Errors
/// The source can't reach this host.
pub(super) fn reached(
    hop: &NextHop,
    mut found: Vec<Endpoint>,
) -> Result<Vec<Endpoint>, OutOfReach> {
    let Some(source) = &hop.source else { return Ok(found) };
    let is_reached = |peer: &Endpoint| match peer {
        Endpoint::Tcp(peer) => source.reaches(*peer),
        Endpoint::Unix(_) => true,
    };
    if found.is_empty() || found.iter().any(is_reached) {
        found.retain(is_reached);
        return Ok(found);
    }
    let family = if source.address.is_none() { "IPv4" } else { "IPv6" };
    Err(OutOfReach(format!("the source has no {family} address, and the host has only {family}")))
}

/// The failure of an attempt, if the source caused it.
pub(super) fn failed<W: World>(
    slot: &Slot<W>,
    hop: &NextHop,
    error: &io::Error,
) -> Option<Failure> {
    let source = hop.source.as_ref()?;
    let why = error.get_ref()?.downcast_ref::<SourceFailure>()?.to_string();
    slot.note_source_out(source, &why);
    Some(failure(&source.name, &why))
}

/// RFC 3463 §3.4: X.3.5, system incorrectly configured.
fn failure(source: &str, why: &str) -> Failure {
    let text = format!("source {source} disabled: {why}");
    Failure::local(Class::Transient, EnhancedStatus::new(4, 3, 5), text)
}
