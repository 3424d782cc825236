//! Starts a session.

use super::{Ingress, session};
use crate::seams::{Net, World};
use std::net::SocketAddr;
use std::rc::Rc;

/// Serves a connection that the acceptor placed on this shard.
pub(crate) fn start_session<W: World>(
    ingress: &Rc<Ingress<W>>,
    accepted: <W::Net as Net>::Accepted,
    peer: SocketAddr,
    listener: usize,
) {
    let stream = match ingress.services.world.net().adopt(accepted) {
        Ok(stream) => stream,
        Err(error) => {
            ingress.count_end();
            ingress
                .services
                .console
                .warn("adopt", format_args!("cannot take a connection: {error}"));
            return;
        }
    };
    let Some(rules) = ingress.rules(listener) else {
        ingress.count_end();
        return;
    };
    let task = Rc::clone(ingress);
    let session = session::run(task, stream, peer, listener, rules);
    ingress.services.spawn(session);
}
