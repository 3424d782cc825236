//! Opens an association: hosts in order, their addresses, the connection, the bind.

use super::wire::P1Transport;
use super::{route_of, trouble};
use crate::x400::peer;
use crate::x400::peer::Unwritten;
use crate::x400::section::X400Peer;
use mail::{Class, Culprit, EnhancedStatus, Failure, Mono};
use mta::alarm::Alarm;
use mta::delivery::Slot;
use mta::event::Hop;
use mta::lack;
use mta::line::Permit;
use mta::routing::addresses::interleaved;
use mta::routing::hop::NextHop;
use mta::routing::hosts::Host;
use mta::seams::{Egress, Endpoint, Net, Time, World};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use x400::association::{AbortReason, Event, Initiator};

/// Maximum number of addresses tried per opening.
const ADDRESSES_MAX: usize = 8;

/// Reason for which no association was opened.
pub(super) enum OpenError {
    /// Temporary.
    Later(Failure),
    /// Its messages were delivered or moved while it waited for a connection.
    NotNeeded,
}

/// An association accepted by the peer.
pub(super) struct Opened<W: World> {
    pub(super) wire: P1Transport<W>,
    pub(super) permit: Permit,
    pub(super) event_hop: Arc<Hop>,
    /// Address of the peer, for people.
    pub(super) place: Box<str>,
}

/// Opens an association to the first host that can be reached and accepts it.
pub(super) async fn open<W: World>(
    slot: &Slot<W>,
    hop: &Rc<NextHop>,
) -> Result<Opened<W>, OpenError> {
    let (mut last, mut tried) = (None, 0);
    for candidate in hop.states.order(slot.now(), &hop.hosts, || slot.world().time().random()) {
        let host = &candidate.host;
        let addresses = match addresses(slot, host).await {
            Ok(addresses) => addresses,
            Err(failure) => {
                last = Some(failure);
                continue;
            }
        };
        for ip in addresses {
            if tried == ADDRESSES_MAX {
                break;
            }
            tried += 1;
            match open_at(slot, hop, host, SocketAddr::new(ip, host.port)).await {
                Err(OpenError::Later(failure)) => last = Some(failure),
                done => return done,
            }
        }
        // Local exhaustion does not count against a host.
        if last.as_ref().is_some_and(|failure| !matches!(failure.culprit, Culprit::Local)) {
            hop.states.failed(slot.now(), host);
        }
    }
    Err(OpenError::Later(last.unwrap_or_else(|| {
        let status = EnhancedStatus::new(4, 4, 4);
        Failure::local(Class::Transient, status, "the peer has no hosts")
    })))
}

async fn addresses<W: World>(slot: &Slot<W>, host: &Host) -> Result<Vec<IpAddr>, Failure> {
    if let Ok(ip) = host.name.parse::<IpAddr>() {
        return Ok(vec![ip]);
    }
    Ok(interleaved(slot.addresses(host).await?))
}

async fn open_at<W: World>(
    slot: &Slot<W>,
    hop: &Rc<NextHop>,
    host: &Host,
    address: SocketAddr,
) -> Result<Opened<W>, OpenError> {
    let settings = &route_of(hop).peer;
    let place: Box<str> = match host.name.parse::<IpAddr>() {
        Ok(_) => address.to_string().into(),
        Err(_) => format!("{}[{}]:{}", host.name, address.ip(), address.port()).into(),
    };
    let time = slot.world().time();
    let mut alarm = Alarm::new(time.clone());
    let from = match &hop.source {
        Some(source) => Egress { address: source.towards(address), proxy: source.proxy },
        None => Egress::default(),
    };
    let (to, name) = (Endpoint::Tcp(address), &host.name);
    let (stream, mut permit) = loop {
        let Some(permit) = slot.connection(name, &to).await else {
            return Err(OpenError::NotNeeded);
        };
        let until = time.now() + settings.connect_timeout;
        let connected = alarm.within(|_| until, slot.world().net().connect(&to, from)).await;
        match connected.unwrap_or_else(|| Err(std::io::ErrorKind::TimedOut.into())) {
            Ok(stream) => break (stream, permit),
            // Local exhaustion: the peer was not contacted.
            Err(error) if lack::is_ours(&error) => {
                drop(permit);
                alarm.wait(time.now() + lack::WAIT).await;
            }
            Err(error) => {
                let text = format!("cannot connect: {error}");
                let status = EnhancedStatus::new(4, 4, 1);
                return Err(OpenError::Later(Failure::network(place, status, text)));
            }
        }
    };
    let machine = Initiator::new(peer::initiator_settings(settings, slot.wall()), slot.now());
    let mut wire =
        P1Transport { stream, machine, alarm, unwritten: Unwritten::default(), until: Mono::NEVER };
    bind(slot, &mut wire, (&**settings, &place)).await.map_err(OpenError::Later)?;
    permit.prove();
    let event_hop = hop.event_hop(&place, None, None);
    Ok(Opened { wire, permit, event_hop, place })
}

/// Waits until the peer accepts, and verifies its identity.
async fn bind<W: World>(
    slot: &Slot<W>,
    wire: &mut P1Transport<W>,
    (settings, place): (&X400Peer, &str),
) -> Result<(), Failure> {
    loop {
        match wire.next_event(slot).await {
            Event::Bound(binding) if peer::is_peer(&binding, settings) => return Ok(()),
            Event::Bound(binding) => {
                let failure = trouble::stranger(place, binding.identity.name.as_deref(), settings);
                wire.machine.abort(AbortReason::UserError, slot.now());
                wire.close(slot).await;
                return Err(failure);
            }
            Event::Ended(end) => {
                let failure = trouble::ended(place, &end, settings);
                wire.close(slot).await;
                return Err(failure);
            }
            // No transfer has started.
            Event::Bind(_)
            | Event::ActivityStarted
            | Event::Content(_)
            | Event::ApduComplete
            | Event::ActivityDropped
            | Event::Acknowledged
            | Event::NotTaken(_)
            | Event::TurnTaken
            | Event::TurnGiven => {}
        }
    }
}
