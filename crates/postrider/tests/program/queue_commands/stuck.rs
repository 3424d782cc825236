//! Mail that waits for a next hop.

use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::tool::free_port;
use crate::support::{Files, config};
use serde_json::Value;

/// A next hop that nobody is at, and three messages for it: server, address, ids.
pub(crate) fn stuck(files: &Files) -> (Server, String, [String; 3]) {
    let hop = format!("127.0.0.1:{}", free_port());
    let text = config(&format!(
        "[[route]]\nname = \"far\"\nsmtp = {{ hosts = [\"{hop}\"] }}\n\
         [retry]\nfirst = \"1s\"\nlongest = \"1s\"\n"
    ));
    let server = Server::start(files, &text);
    let mut client = Client::connect(server.address());
    let ids = [("a@one.test", "x@far.test"), ("b@one.test", "y@far.test"), ("", "z@other.test")]
        .map(|(from, to)| client.mail(from, &[to], "Subject: stuck\r\n\r\n"));
    (server, hop, ids)
}

pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer}: {value}"))
}

pub(crate) fn ids(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| text(item, "/id")).collect()
}
