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
        about: "Four sources with 25 sessions each inject mail of 20 tenants for 1,000 domains, as fast as \
                the relay accepts it. The DNS names their hosts: 50 providers with one host each, which \
                defers one recipient in twenty (451) at each attempt. Both contenders have the same \
                number of connections to a provider, at most 16 or four. One has no other limits. The \
                other has limits and rates for each provider, a pool of four sources with limits, and \
                tenants by header field with weights, rates and queue limits. With 16, no limit delays \
                mail, and the result is the cost of shaping. With four, each source has one connection \
                to a provider, which all cores share.",
        publication: "KumoMTA's load of alerts, with the usual configuration of senders",
        differences: &[
            "all hosts, the name server, sources and the relay share one machine",
            "deferred recipients are retried after one second",
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
