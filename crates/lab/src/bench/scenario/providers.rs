//! Many tenants' mail to many domains.

use super::{Case, RELAY, Scenario};
use crate::stand::Egress;
use crate::stand::providers::Providers;
use load::source::Span;

/// The scenario.
pub(super) fn scenario() -> Scenario {
    let egress = Egress::Providers(Providers { domains: 1000, providers: 50, connections_each: 4 });
    Scenario {
        name: "providers-10k",
        title: "10 KB alerts of 20 tenants to 1,000 domains at 50 providers",
        about: "Four sources with 25 sessions each inject mail of 20 tenants, as fast as the relay takes \
                it, for 1,000 domains. Their hosts are found by the DNS: 50 providers with a host each, \
                which put off one recipient in twenty (451) each time. Both contenders have up to four \
                connections to a provider. One knows no more than that; the other has the same mail \
                shaped: a provider's limits and rates, four sources in a pool with limits for each, and \
                tenants by header field, each with a weight, rates and a bound. No limit is so low that \
                mail waits for it: what it costs to keep them is measured.",
        publication: "KumoMTA's load of alerts, with what senders configure",
        differences: &[
            "all hosts, the name server, sources and the relay are one machine's",
            "what was put off is tried again after one second",
        ],
        published: Vec::new(),
        contenders: &["postrider-shaped", "postrider"],
        cases: vec![Case {
            title: "shaped, and not",
            messages: 100_000,
            body_bytes: Span::of(10_000),
            sources: 4,
            sessions: 25,
            per_connection: Span::of(1000),
            egress,
            ..RELAY
        }],
    }
}
