//! Opening a connection: hosts in order, their addresses, the connection, the greeting.

use super::connection::Connection;
use super::content::Wire;
use super::{Host, HostGroup, NextHop};
use crate::alarm::Alarm;
use crate::budget::Share;
use crate::config::{Balance, Channel, EightBit, Peer};
use crate::line::{Standing, Who};
use crate::lookup::Asker;
use crate::seams::{DnsError, Net, Time, World};
use crate::shard::Shard;
use mail::{Class, Culprit, EnhancedStatus, Failure};
use queue::ReadyId;
use smtp::client::{ClientConfig, ClientEvent, ClientSession, StartTls};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

/// Addresses tried in one opening at most: a domain must not keep us busy with dead hosts.
const ADDRESSES_MAX: usize = 8;

/// Opens a connection to the first host that can be reached and greets.
///
/// # Errors
/// The failure of the last host tried.
pub(super) async fn open<W: World>(
    shard: &Rc<Shard<W>>,
    ready: ReadyId,
    hop: &Rc<NextHop>,
) -> Result<Connection<W>, Failure> {
    let Some(parameters) = hop.channel.peer() else {
        return Err(no_hosts());
    };
    let mut last = None;
    let mut tried = 0;
    for host in order(shard, &hop.hosts, parameters.balance) {
        let addresses = match addresses(shard, ready, &host).await {
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
            let peer = SocketAddr::new(ip, host.port);
            match open_address(shard, hop, parameters, &host, peer).await {
                Ok(connection) => return Ok(connection),
                Err(failure) => last = Some(failure),
            }
        }
    }
    Err(last.unwrap_or_else(no_hosts))
}

fn no_hosts() -> Failure {
    let status = EnhancedStatus::new(4, 4, 4);
    Failure::local(Class::Transient, status, "the next hop has no host to connect to")
}

/// The hosts in the order in which they are tried. RFC 5321 §5.1: those of equal preference in
/// random order.
fn order<W: World>(shard: &Shard<W>, groups: &[HostGroup], balance: Balance) -> Vec<Host> {
    let mut all = Vec::new();
    for group in groups {
        let mut hosts = group.hosts.clone();
        if balance == Balance::RoundRobin {
            // Fisher and Yates.
            for last in (1..hosts.len()).rev() {
                let at = (shard.world.time().random() % (last as u64 + 1)) as usize;
                hosts.swap(last, at);
            }
        }
        all.extend(hosts);
    }
    all
}

async fn addresses<W: World>(
    shard: &Rc<Shard<W>>,
    ready: ReadyId,
    host: &Host,
) -> Result<Vec<IpAddr>, Failure> {
    if let Ok(ip) = host.name.parse::<IpAddr>() {
        return Ok(vec![ip]);
    }
    let failure = |class, status, text: String| Failure {
        class,
        culprit: Culprit::Dns(Box::from(&*host.name)),
        status,
        reply: None,
        text: text.into(),
    };
    let who = Who::other(shard.number, ready.0);
    let asker = Asker { who, standing: Standing::Unknown };
    match shard.look_up_addresses(asker, &host.name).await {
        Ok(addresses) if !addresses.is_empty() => Ok(addresses),
        // A host that a route or an MX names should exist: it may yet appear.
        Ok(_) | Err(DnsError::NoRecords | DnsError::NoSuchDomain) => Err(failure(
            Class::Transient,
            EnhancedStatus::new(4, 4, 4),
            "the host has no address".to_owned(),
        )),
        Err(error) => {
            Err(failure(Class::Transient, EnhancedStatus::new(4, 4, 3), error.to_string()))
        }
    }
}

async fn open_address<W: World>(
    shard: &Rc<Shard<W>>,
    hop: &Rc<NextHop>,
    parameters: &Peer,
    host: &Host,
    peer: SocketAddr,
) -> Result<Connection<W>, Failure> {
    let name = peer_name(host, peer);
    let time = shard.world.time();
    let mut descriptor = Share::none(&shard.shared.egress_connections);
    if !descriptor.try_grow(1) {
        let status = EnhancedStatus::new(4, 3, 2);
        let text = "as many connections are open as this process may have";
        return Err(Failure::local(Class::Transient, status, text));
    }
    let until = time.now() + parameters.connect_timeout;
    let mut alarm = Alarm::new(time.clone());
    let connected = tokio::select! {
        biased;
        connected = shard.world.net().connect(peer, None) => connected,
        () = alarm.wait(until) => Err(std::io::ErrorKind::TimedOut.into()),
    };
    let stream = connected.map_err(|error| {
        let status = EnhancedStatus::new(4, 4, 1);
        Failure::network(name.clone(), status, format!("cannot connect: {error}"))
    })?;
    let mut config = client_config(parameters, hop, &name);
    config.chunking &= !hop.lessons.is_bdat_unusable(time.now(), peer);
    let session = ClientSession::new(Arc::new(config), time.now());
    #[cfg(feature = "planted")]
    let session = planted(shard, session);
    let mut connection = Connection {
        shard: Rc::clone(shard),
        event_hop: hop.event_hop(&name),
        peer,
        wire: Wire { stream, session, alarm },
        plan: Vec::new(),
        carried: 0,
        in_flight: VecDeque::new(),
        peer_closed: false,
        _descriptor: descriptor,
    };
    loop {
        match connection.next_event().await {
            ClientEvent::Ready => return Ok(connection),
            ClientEvent::Closed(failure) => return Err(failure.unwrap_or_else(no_hosts)),
            // Offered to no session until there is TLS.
            ClientEvent::StartTls | ClientEvent::Done { .. } => {}
        }
    }
}

#[cfg(feature = "planted")]
fn planted<W: World>(shard: &Shard<W>, mut session: ClientSession) -> ClientSession {
    if shard.planted.get() == Some(crate::shard::Planted::ReuseAfterProtocolError) {
        session.plant_forgiveness();
    }
    session
}

/// `mx.example.com[192.0.2.1]:25`; the address alone where the host has no other name.
fn peer_name(host: &Host, peer: SocketAddr) -> Box<str> {
    if host.name.parse::<IpAddr>().is_ok() {
        peer.to_string().into()
    } else {
        format!("{}[{}]:{}", host.name, peer.ip(), peer.port()).into()
    }
}

fn client_config(parameters: &Peer, hop: &NextHop, peer: &str) -> ClientConfig {
    ClientConfig {
        hostname: hop.hostname.as_str().to_owned(),
        peer: Box::from(peer),
        lmtp: matches!(hop.channel, Channel::Lmtp(_)),
        starttls: StartTls::Off,
        chunking: parameters.chunking,
        pipelining: parameters.pipelining,
        unasked_content: parameters.unasked_content,
        eight_bit_as_is: parameters.eight_bit == EightBit::AsIs,
        reply_line_bytes_max: 2048,
        reply_lines_max: 100,
        greeting_timeout: parameters.greeting_timeout,
        command_timeout: parameters.command_timeout,
        data_timeout: parameters.data_timeout,
        content_timeout: parameters.content_timeout,
        final_timeout: parameters.final_timeout,
        transaction_timeout: parameters.transaction_timeout,
    }
}
