//! Delivery: connections of ready queues, one task each.

mod addresses;
mod bearing;
pub(crate) mod connection;
mod content;
mod encoding;
mod hops;
mod host;
mod idle;
mod lessons;
mod local;
mod opening;
mod ourselves;

pub(crate) use content::read_blob;
pub(crate) use hops::Hops;
pub(crate) use host::HostStates;
pub(crate) use idle::IdleConnections;
pub(crate) use lessons::Lessons;
pub(crate) use local::WORKERS_MAX;
pub(crate) use opening::connection_parts;

use crate::config::Channel;
use crate::event::Hop;
use crate::seams::{Spawn, World};
use crate::shard::Shard;
use mail::{Class, Domain, EnhancedStatus, Failure};
use queue::{CloseReason, ReadyId};
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Where a ready queue's messages go, and how.
#[derive(Debug)]
pub(crate) struct NextHop {
    /// The route it comes from, as events name it.
    pub(crate) route: Arc<str>,
    /// How to deliver.
    pub(crate) channel: Channel,
    /// For smtp, lmtp and mx: hosts in the order in which they are tried, groups of equal
    /// preference together.
    pub(crate) hosts: Vec<HostGroup>,
    /// What is known about them.
    pub(crate) states: HostStates,
    /// What we call ourselves there.
    pub(crate) hostname: Domain,
    /// The configuration says something else by now.
    pub(crate) superseded: Cell<bool>,
    /// What its hosts' replies have taught.
    pub(crate) lessons: Lessons,
}

/// Hosts of equal preference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostGroup {
    pub(crate) hosts: Vec<Host>,
}

/// One host of a next hop.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Host {
    /// Name or address, or the path of a socket.
    pub(crate) name: Arc<str>,
    /// 0 for a socket: no port of the configuration is 0, nor does the DNS name any.
    pub(crate) port: u16,
}

impl Host {
    /// The path of its socket, if it is one.
    fn socket(&self) -> Option<&Path> {
        (self.port == 0).then(|| Path::new(&*self.name))
    }
}

impl NextHop {
    /// Whether a connection to one is as good as a connection to the other.
    fn is_like(&self, other: &NextHop) -> bool {
        self.route == other.route
            && self.channel == other.channel
            && self.hosts == other.hosts
            && self.hostname == other.hostname
    }

    /// Whether there is more than one host.
    fn has_other_hosts(&self) -> bool {
        self.hosts.iter().map(|group| group.hosts.len()).sum::<usize>() > 1
    }

    /// The channel's name as events and `explain` show it.
    pub(crate) fn channel_name(&self) -> &'static str {
        self.channel.name()
    }

    /// What events call this hop, with `peer` at its other end.
    pub(crate) fn event_hop(&self, peer: &str) -> Arc<Hop> {
        Arc::new(Hop {
            route: Arc::clone(&self.route),
            channel: self.channel_name(),
            peer: Arc::from(peer),
        })
    }
}

/// Opens one more connection (or starts one more worker) for `ready`, whose slot is taken.
pub(crate) fn start_connection<W: World>(shard: &Rc<Shard<W>>, ready: ReadyId) {
    let Some(hop) = shard.hops.get(ready) else {
        // Never: what the queue knows came with its hop, and is forgotten with it.
        let status = EnhancedStatus::new(4, 3, 0);
        let failure = Failure::local(Class::Transient, status, "the next hop is not known");
        let now = shard.now();
        shard.queue.borrow_mut().handle_open_failed(now, ready, Arc::new(failure));
        return;
    };
    let shard = Rc::clone(shard);
    let world = shard.world.clone();
    world.spawn().spawn(async move {
        let slot =
            Slot { shard: Rc::clone(&shard), ready, reason: CloseReason::Normal, held: true };
        match hop.channel {
            Channel::Smtp(_) | Channel::Lmtp(_) | Channel::Mx(_) => {
                connection::run(shard, slot, hop).await;
            }
            Channel::Maildir(_) | Channel::Discard => local::run(shard, slot, hop).await,
        }
    });
}

/// A connection slot of a ready queue, given back when dropped, however the task ends.
pub(crate) struct Slot<W: World> {
    pub(crate) shard: Rc<Shard<W>>,
    pub(crate) ready: ReadyId,
    reason: CloseReason,
    held: bool,
}

impl<W: World> Slot<W> {
    /// The connection is open.
    pub(crate) fn opened(&self) {
        let now = self.shard.now();
        self.shard.queue.borrow_mut().handle_opened(now, self.ready);
        self.note_opening();
    }

    /// The connection could not be opened: gives the slot back with the reason.
    pub(crate) fn open_failed(mut self, failure: Arc<Failure>) {
        self.held = false;
        let now = self.shard.now();
        self.shard.queue.borrow_mut().handle_open_failed(now, self.ready, failure);
        self.note_opening();
        self.shard.pump();
    }

    /// There will never be mail service: gives the slot back, and all that waits fails.
    pub(crate) fn refused(mut self, failure: Arc<Failure>) {
        self.held = false;
        let now = self.shard.now();
        self.shard.queue.borrow_mut().handle_open_refused(now, self.ready, failure);
        self.shard.pump();
    }

    /// No connection was opened, for nothing waits for one any more.
    pub(crate) fn not_needed(mut self) {
        self.held = false;
        let now = self.shard.now();
        self.shard.queue.borrow_mut().handle_open_not_needed(now, self.ready);
        self.shard.pump();
    }

    /// Lets the other shards know how the last opening went.
    fn note_opening(&self) {
        let last = self.shard.queue.borrow().last_opening(self.ready);
        if let Some(opened) = last {
            self.shard.hops.note_opening(&self.shard.shared.known_hops, self.ready, opened);
        }
    }

    /// Says why it will be closed.
    pub(crate) fn closing(&mut self, reason: CloseReason) {
        self.reason = reason;
    }
}

impl<W: World> Drop for Slot<W> {
    fn drop(&mut self) {
        if self.held {
            let now = self.shard.now();
            self.shard.queue.borrow_mut().handle_closed(now, self.ready, self.reason);
            #[cfg(feature = "planted")]
            if self.shard.planted.get() == Some(crate::shard::Planted::ReleaseSlotTwice) {
                self.shard.queue.borrow_mut().handle_closed(now, self.ready, self.reason);
            }
            self.shard.pump();
        }
    }
}
