//! Starts a session.

use super::{Entrance, Ingress};
use crate::seams::{Net, World};
use std::net::SocketAddr;
use std::rc::Rc;

/// Serves a connection that the acceptor placed on this shard.
pub(crate) fn start_session<W: World>(
    ingress: &Rc<Ingress<W>>,
    accepted: <W::Net as Net>::Accepted,
    peer: SocketAddr,
    socket: usize,
) {
    let console = &ingress.services.console;
    let stream = match ingress.services.world.net().adopt(accepted) {
        Ok(stream) => stream,
        Err(error) => {
            ingress.count_end();
            console.warn("adopt", format_args!("cannot take a connection: {error}"));
            return;
        }
    };
    let Some(rules) = ingress.rules(socket) else {
        ingress.count_end();
        return;
    };
    let listener = &rules.listener;
    let Some(handler) = rules.handler.clone() else {
        ingress.count_end();
        let what = format_args!("nobody speaks {} here; listener={}", listener.kind, listener.name);
        console.error("listener", what);
        return;
    };
    let entrance = Box::new(Entrance::new(ingress, peer, socket, &rules.listener));
    ingress.services.run(handler.serve(entrance, stream));
}
