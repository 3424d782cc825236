//! Relays by sender: sender_dependent_relayhost_maps and sender_dependent_default_transport_maps.

use super::moving::Moving;
use super::transports::{Target, split};
use crate::commands::migrate::new_config::{list, table};

/// Senders with one relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SenderRelay {
    /// Addresses, or `@example.org`; never both.
    pub(super) keys: Vec<String>,
    value: String,
    /// The value is `service:nexthop` instead of a next hop.
    pub(super) is_transport: bool,
}

impl SenderRelay {
    /// The target for these senders, where other mail goes to this one.
    pub(super) fn target(&self, usual: &Target) -> Target {
        let (service, nexthop) = match self.is_transport {
            true => split(&self.value),
            false => (usual.service.clone(), self.value.clone()),
        };
        let nexthop = if nexthop.is_empty() { usual.nexthop.clone() } else { nexthop };
        Target { service, nexthop, is_by_sender: true }
    }

    /// The value of `senders` in `when`.
    pub(super) fn condition(&self, m: &mut Moving) -> String {
        if self.keys.iter().all(|key| key.starts_with('@')) {
            return list(&self.keys);
        }
        // A table finds addresses with a tag, too.
        let pairs: Vec<_> = self.keys.iter().map(|key| (key.clone(), "x".to_owned())).collect();
        table(&m.config.inline_table("senders", &pairs))
    }
}

/// All relays: those of addresses before those of domains.
pub(super) fn relays(m: &mut Moving) -> Vec<SenderRelay> {
    let (mut all, mut seen): (Vec<SenderRelay>, Vec<(bool, String)>) = Default::default();
    // A transport by sender comes first in the search of a transport, a relay by sender in that of its next hop.
    for (name, is_transport) in [
        ("sender_dependent_default_transport_maps", true),
        ("sender_dependent_relayhost_maps", false),
    ] {
        let of = m.get(name);
        for map in m.maps(&of) {
            let Some(entries) = m.map_entries(&of, &map) else {
                let why = format!("{}:{} is not read here", map.kind, map.name);
                m.missing(&of, &why, "a route with `when.senders` for each relay");
                continue;
            };
            for entry in entries {
                let key = entry.key.to_ascii_lowercase();
                let is_new = !seen.contains(&(is_transport, key.clone()));
                let is_usable = key == "<>" || key.contains('@');
                if is_new && is_usable && !entry.value.eq_ignore_ascii_case("dunno") {
                    seen.push((is_transport, key.clone()));
                    add(&mut all, key, entry.value, is_transport);
                }
            }
            let why = "a route for each relay, made from the entries; the file is not read later";
            m.different(&of, why, "change the routes instead of the file");
        }
    }
    all.sort_by_key(|relay| relay.keys.iter().any(|key| key.starts_with('@')));
    all
}

fn add(all: &mut Vec<SenderRelay>, key: String, value: String, is_transport: bool) {
    let is_domain = key.starts_with('@');
    let is_same = |relay: &&mut SenderRelay| {
        relay.value == value
            && relay.is_transport == is_transport
            && relay.keys.iter().all(|one| one.starts_with('@') == is_domain)
    };
    match all.iter_mut().find(is_same) {
        Some(relay) => relay.keys.push(key),
        None => all.push(SenderRelay { keys: vec![key], value, is_transport }),
    }
}
