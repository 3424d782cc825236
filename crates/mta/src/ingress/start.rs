//! Starts a session.

use super::proxied::client_behind;
use super::{Connection, Ingress};
use crate::seams::{Net, World};
use std::net::SocketAddr;
use std::rc::Rc;

/// Serves a connection that the acceptor assigned to this shard.
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
            console.warn("adopt", format_args!("cannot accept a connection: {error}"));
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
        let what =
            format_args!("no protocol handler kind={} listener={}", listener.kind, listener.name);
        console.error("listener", what);
        return;
    };
    if !listener.is_proxy(peer.ip()) {
        let connection = Connection::new(ingress, peer, None, socket, listener);
        return ingress.services.run(handler.serve(connection, stream));
    }
    // The connection counts for no client before the PROXY header is read.
    let (ingress, mut stream) = (Rc::clone(ingress), stream);
    let services = Rc::clone(&ingress.services);
    services.spawn(async move {
        let listener = &rules.listener;
        let Some(client) = client_behind(&ingress, &mut stream, peer, listener).await else {
            return ingress.count_end();
        };
        let proxy = (client != peer).then(|| peer.ip());
        let connection = Connection::new(&ingress, client, proxy, socket, listener);
        handler.serve(connection, stream).await;
    });
}
