//! Where a service listens, as the file has it.

use mta::seams::Endpoint;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// What may be written, for people.
pub(crate) const HELP: &str =
    "an IP address and port are wanted, such as \"127.0.0.1:10023\", or \"unix:\" and a path";

/// An IP address and port, or `unix:` and the path of a socket.
pub(crate) fn read(text: &str) -> Option<Endpoint> {
    match text.strip_prefix("unix:") {
        Some("") => None,
        Some(path) => Some(Endpoint::Unix(Arc::from(Path::new(path)))),
        None => text.parse::<SocketAddr>().ok().map(Endpoint::Tcp),
    }
}
