//! Postrider's sections where it speaks X.400.

use super::CONNECTIONS_MAX;
use crate::stand::place::{Egress, Place, domain};
use crate::stand::ways::{
    GATEWAY, PASSWORD, Protocol, SERVER_NAME, SOURCE_NAME, or_domain, sink_name,
};

/// Sources that have a domain of their own at most.
const SOURCES_MAX: u32 = 10;

/// The listener's keys behind its address, where P1 comes in.
pub(super) const LISTENER: &str = "kind = \"p1\"\n";

/// Who we are, our peers, and the routes to the sinks.
pub(super) fn sections(place: &Place) -> String {
    let ways = place.ways;
    let mut text = String::new();
    if !ways.is_mail() {
        text += &identity(ways.inbound != ways.outbound);
    }
    if ways.inbound == Protocol::P1 {
        text += &peer(SOURCE_NAME, "");
    }
    let connections = match place.egress {
        Egress::Limited(connections) => connections,
        Egress::Usual | Egress::Routes { .. } | Egress::Providers(_) => CONNECTIONS_MAX,
    };
    let sinks = || (1..).zip(place.sinks());
    if ways.outbound == Protocol::P1 {
        for (number, address) in sinks() {
            let keys = format!(
                "hosts = [\"{address}\"]\nmax_associations = {connections}\ntpdu_bytes = {}\n",
                ways.tpdu_bytes
            );
            text += &peer(&sink_name(number), &keys);
        }
    }
    for (number, address) in sinks() {
        let to = match ways.outbound {
            Protocol::P1 => format!("x400 = {{ peer = \"{}\" }}", sink_name(number)),
            Protocol::Smtp => format!(
                "smtp = {{ hosts = [\"{address}\"], tls = \"off\", max_connections = {connections} }}"
            ),
        };
        text += &format!("[[route]]\n{}{to}\n\n", recipients(place, number));
    }
    text
}

fn identity(is_gateway: bool) -> String {
    let gateway = match is_gateway {
        true => format!("gateway = {{ address = \"{GATEWAY}\", domain = \"gw.bench.grey\" }}\n"),
        false => String::new(),
    };
    format!("[x400]\nmta = \"{SERVER_NAME}\"\ndomain = \"/PRMD=Bench/ADMD= /C=GB/\"\n{gateway}\n")
}

fn peer(name: &str, keys: &str) -> String {
    format!(
        "[[x400.peer]]\nname = \"{name}\"\ntheir_name = \"{name}\"\ntheir_password = \"{PASSWORD}\"\n\
         our_name = \"{SERVER_NAME}\"\nour_password = \"{PASSWORD}\"\n{keys}\n"
    )
}

/// Whose mail goes to a sink.
fn recipients(place: &Place, sink: u32) -> String {
    let ways = place.ways;
    match (ways.inbound, ways.outbound) {
        (Protocol::P1, Protocol::P1) => format!("or_addresses = [\"{}\"]\n", or_domain(sink)),
        _ => {
            let sources = (1..=SOURCES_MAX).filter(|source| ways.sink_of(*source) == sink);
            let names: Vec<String> =
                sources.map(|source| format!("\"{}\"", domain(source))).collect();
            format!("domains = [{}]\n", names.join(", "))
        }
    }
}
