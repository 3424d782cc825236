//! Receiving: sessions, what they may do, and the way of a message into the spool.

mod accept;
mod intake;
mod policy;
mod session;

pub(crate) use accept::{
    PRIORITY_NORMAL, accept_record, event_message, is_for_postmaster, resolve_postmasters,
};
pub(crate) use policy::ListenerRules;

use crate::seams::{Net, Spawn, World};
use crate::shard::Shard;
use std::net::SocketAddr;
use std::rc::Rc;

/// Serves a connection that the acceptor placed on this shard.
pub(crate) fn start_session<W: World>(
    shard: &Rc<Shard<W>>,
    accepted: <W::Net as Net>::Accepted,
    peer: SocketAddr,
    listener: usize,
) {
    let stream = match shard.world.net().adopt(accepted) {
        Ok(stream) => stream,
        Err(error) => {
            shard.count_session(false);
            shard.console.warn("adopt", format_args!("cannot take a connection: {error}"));
            return;
        }
    };
    let Some(rules) = shard.active().listeners.get(listener).cloned() else {
        shard.count_session(false);
        return;
    };
    let task = Rc::clone(shard);
    shard
        .world
        .spawn()
        .spawn(async move { session::run(task, stream, peer, listener, rules).await });
}
