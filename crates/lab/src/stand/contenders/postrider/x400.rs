//! Postrider's sections where it speaks X.400.

use super::CONNECTIONS_MAX;
use crate::stand::egress::{Egress, domain};
use crate::stand::place::ServerSetup;
use crate::stand::ways::{
    GATEWAY, PASSWORD, Protocol, SERVER_NAME, SOURCE_NAME, or_domain, sink_name,
};

/// Sources that have a domain of their own at most.
const SOURCES_MAX: u32 = 10;

/// The listener's keys behind its address, where P1 comes in.
pub(super) const LISTENER: &str = "kind = \"p1\"\n";

/// Who we are, our peers, and the routes to the sinks.
pub(super) fn sections(place: &ServerSetup) -> String {
    let ways = place.ways;
    let mut text = String::new();
    if !ways.is_mail() {
        text += &identity(ways.inbound != ways.outbound);
    }
    if ways.inbound == Protocol::P1 {
        // It may open as many associations at once as it likes.
        text += &peer(SOURCE_NAME, "from = [\"127.0.0.0/8\"]\n");
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
fn recipients(place: &ServerSetup, sink: u32) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand::ways::Ways;
    use std::path::PathBuf;

    fn place(ways: Ways, egress: Egress) -> ServerSetup {
        ServerSetup {
            encryption: None,
            directory: PathBuf::from("/x"),
            sink: "127.0.0.1:4001".to_owned(),
            more_sinks: (1..ways.sinks).map(|n| format!("127.0.0.1:{}", 4001 + n)).collect(),
            ways,
            port: 2525,
            admin_port: 0,
            postrider: PathBuf::new(),
            egress,
            dns: None,
            mail: None,
            group: None,
        }
    }

    #[test]
    fn each_sink_is_a_peer_with_a_route_of_its_own() {
        let ways = Ways { sinks: 2, tpdu_bytes: 2048, ..Ways::P1 };
        let text = sections(&place(ways, Egress::Limited(400)));
        for (number, port) in [(1, 4001), (2, 4002)] {
            let peer = format!(
                "name = \"sink{number}\"\ntheir_name = \"sink{number}\"\ntheir_password = \"secret\"\n\
                 our_name = \"bench\"\nour_password = \"secret\"\nhosts = [\"127.0.0.1:{port}\"]\n\
                 max_associations = 400\ntpdu_bytes = 2048\n"
            );
            let route = format!(
                "[[route]]\nor_addresses = [\"/O=Sink{number}/PRMD=Bench/ADMD= /C=GB/\"]\n\
                 x400 = {{ peer = \"sink{number}\" }}\n"
            );
            assert!(text.contains(&peer) && text.contains(&route), "{text}");
        }
        assert!(text.contains("name = \"source\"") && !text.contains("gateway"), "{text}");
    }

    #[test]
    fn a_gateway_has_one_side_of_each_kind() {
        let (smtp, p1) = (Protocol::Smtp, Protocol::P1);
        for (inbound, outbound) in [(smtp, p1), (p1, smtp)] {
            let ways = Ways { inbound, outbound, ..Ways::P1 };
            let text = sections(&place(ways, Egress::Usual));
            assert!(text.contains("gateway = { address = \"/O=gw/PRMD=Bench/ADMD= /C=GB/\""));
            assert!(text.contains("domains = [\"domain1.grey\", \"domain2.grey\""), "{text}");
            assert_eq!(text.contains("[[x400.peer]]\nname = \"source\""), inbound == p1);
            assert_eq!(text.contains("smtp = { hosts = [\"127.0.0.1:4001\"]"), outbound == smtp);
        }
        let mail = sections(&place(Ways { sinks: 2, ..Ways::SMTP }, Egress::Usual));
        assert!(!mail.contains("x400"), "{mail}");
        assert!(mail.contains("domains = [\"domain2.grey\", \"domain4.grey\""), "{mail}");
    }
}
