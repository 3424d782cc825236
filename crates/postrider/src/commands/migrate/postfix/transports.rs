//! Transports: `service:nexthop` in parameters and in transport(5) maps.

use super::domains::{DomainClass, Kind};
use super::master::Service;
use super::moving::Moving;
use super::values::entry_origin;
use crate::commands::migrate::new_config::Keys;
use crate::commands::migrate::report::{SourceLine, Verdict};

/// A service with a next hop, which is empty for the recipient's domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) service: String,
    pub(super) nexthop: String,
    /// A relay by sender takes precedence.
    pub(super) is_by_sender: bool,
}

/// An entry of transport_maps.
#[derive(Clone, Debug)]
pub(super) struct TransportEntry {
    /// `user@example.org`, `example.org`, `.example.org` or `*`.
    pub(super) key: String,
    pub(super) service: String,
    pub(super) nexthop: String,
    pub(super) origin: SourceLine,
}

/// A channel's key with its settings, and further keys of the route.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) kind: &'static str,
    pub(super) keys: Keys,
    pub(super) fallback: Option<String>,
    pub(super) pool: Option<String>,
    /// smtp_generic_maps apply.
    pub(super) has_generic: bool,
}

impl Channel {
    pub(super) fn with(kind: &'static str, keys: Keys) -> Channel {
        Channel { kind, keys, fallback: None, pool: None, has_generic: false }
    }

    pub(super) fn discard() -> Channel {
        Channel::with("discard", Keys::new())
    }
}

/// Splits `service:nexthop`.
pub(super) fn split(text: &str) -> (String, String) {
    let (service, nexthop) = text.trim().split_once(':').unwrap_or((text.trim(), ""));
    (service.to_owned(), nexthop.trim().to_owned())
}

impl Moving {
    /// The service of this name, as master.cf has it, or as it is by default.
    pub(super) fn service(&self, name: &str) -> Service {
        let is_it = |service: &&Service| service.name == name && service.kind == "unix";
        if let Some(service) = self.site.services.iter().find(is_it) {
            return service.clone();
        }
        let command = match name {
            "relay" => "smtp",
            "retry" => "error",
            name => name,
        };
        Service::standard(name, command)
    }

    /// The target of a class without an entry of transport_maps.
    pub(super) fn class_target(&self, class: &DomainClass) -> Target {
        let (service, nexthop) = split(&self.get(class.transport).text);
        let goes_out = matches!(class.kind, Kind::Relay | Kind::Default);
        if nexthop.is_empty() && goes_out {
            let relayhost = self.get("relayhost").text.trim().to_owned();
            return Target { service, nexthop: relayhost, is_by_sender: true };
        }
        Target { service, nexthop, is_by_sender: false }
    }

    /// The target of an entry, for a class.
    pub(super) fn entry_target(&self, class: &DomainClass, entry: &TransportEntry) -> Target {
        let usual = self.class_target(class);
        match (entry.service.is_empty(), entry.nexthop.is_empty()) {
            (true, true) => usual,
            (true, false) => {
                let nexthop = entry.nexthop.clone();
                Target { service: usual.service, nexthop, is_by_sender: false }
            }
            (false, _) => {
                let (service, nexthop) = (entry.service.clone(), entry.nexthop.clone());
                Target { service, nexthop, is_by_sender: false }
            }
        }
    }

    /// The entries of transport_maps; remote maps are reported.
    pub(super) fn transport_entries(&mut self) -> Vec<TransportEntry> {
        let of = self.get("transport_maps");
        let mut all: Vec<TransportEntry> = Vec::new();
        for map in self.maps(&of) {
            let Some(entries) = self.map_entries(&of, &map) else {
                let why = format!("{}:{} is not read here", map.kind, map.name);
                let remedy = "write a route for each transport, or take the host from the table of \
                              recipients: docs/tables.md";
                self.missing(&of, &why, remedy);
                continue;
            };
            for entry in entries {
                let key = entry.key.to_ascii_lowercase();
                if all.iter().any(|one| one.key == key) {
                    continue;
                }
                let (service, nexthop) = split(&entry.value);
                let origin = entry_origin(&map, entry.line);
                if key.contains('@') && key.starts_with('@') {
                    let why = "Postfix finds no key that begins with @";
                    self.note(Verdict::Missing, &origin, &key, why, "", false);
                    continue;
                }
                all.push(TransportEntry { key, service, nexthop, origin });
            }
        }
        if !all.is_empty() {
            self.different(
                &of,
                "a route for each transport, made from the entries; the file is not read later",
                "change the routes instead of the file",
            );
        }
        all
    }
}
