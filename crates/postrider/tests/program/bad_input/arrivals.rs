//! Rows about clients that others announce, over SMTP as in [`wire`](super::wire), with listeners that
//! believe this machine.

use super::bench::Bench;
use super::table;
use super::wire;

/// What they are told, in their order behind all others.
const LISTENERS: [(&str, &str); 2] = [
    ("proxied", "proxy_protocol_from = [\"127.0.0.0/8\"]"),
    ("believed", "relay_from = [\"127.0.0.0/8\"]\nxclient_from = [\"127.0.0.0/8\"]"),
];

#[test]
fn arrivals() {
    let section = |(name, keys)| {
        format!("[[listener]]\nname = \"{name}\"\naddress = \"127.0.0.1:0\"\n{keys}\n")
    };
    let bench = Bench::start_with(&LISTENERS.map(section).concat());
    let first = bench.server.addresses.len() - LISTENERS.len();
    table::check("arrivals", |row| {
        let name = row.setting("at").unwrap_or("in");
        let at = LISTENERS.iter().position(|(listener, _)| *listener == name);
        let address = at.map(|at| bench.server.addresses[first + at]);
        wire::play_at(&bench, row, address.unwrap_or_else(|| bench.listener(name)))
    });
    bench.server.stop();
}
