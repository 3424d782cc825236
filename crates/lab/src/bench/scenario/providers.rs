//! Many tenants' mail to many domains.

use super::{Case, RELAY, Scenario};
use crate::stand::egress::{Egress, Providers};
use load::source::Span;

/// The scenario.
pub(super) fn scenario() -> Scenario {
    let egress = |connections_each| {
        Egress::Providers(Providers { domains: 1000, providers: 50, connections_each })
    };
    Scenario {
        name: "providers-10k",
        title: "10 KB alerts of 20 tenants to 1,000 domains at 50 providers",
        about: "Four sources with 25 sessions each inject mail of 20 tenants, as fast as the relay takes \
                it, for 1,000 domains. Their hosts are found by the DNS: 50 providers with a host each, \
                which put off one recipient in twenty (451) each time. Both contenders have as many \
                connections to a provider, up to 16 or up to four. One knows no more than that; the other has the same mail \
                shaped: a provider's limits and rates, four sources in a pool with limits for each, and \
                tenants by header field, each with a weight, rates and a bound. With 16, \
                no limit is so low that mail waits for it: what it costs to keep them is measured. With \
                four, each source has a single connection to a provider, and all cores must share it.",
        publication: "KumoMTA's load of alerts, with what senders configure",
        differences: &[
            "all hosts, the name server, sources and the relay are one machine's",
            "what was put off is tried again after one second",
        ],
        published: Vec::new(),
        contenders: &["postrider-shaped", "postrider"],
        cases: vec![
            case("local", "four connections from each source to a provider", egress(16)),
            case("tight", "one connection from each source to a provider", egress(4)),
        ],
    }
}

fn case(name: &'static str, title: &'static str, egress: Egress) -> Case {
    Case {
        name,
        title,
        messages: 100_000,
        body_bytes: Span::of(10_000),
        sources: 4,
        sessions: 25,
        per_connection: Span::of(1000),
        egress,
        ..RELAY
    }
}
