//! Services that accept mail, before they are written as listeners.

use super::master::Service;
use super::moving::Moving;
use super::values::Parameter;
use crate::commands::migrate::new_config::{Keys, list};

/// A service that accepts mail, at one or more addresses.
pub(super) struct Intake {
    /// The service with the options.
    pub(super) service: Service,
    /// A name for each address.
    pub(super) names: Vec<String>,
    /// Addresses with ports.
    pub(super) addresses: Vec<String>,
    /// Users log in.
    pub(super) is_submission: bool,
    /// Clients of mynetworks may relay.
    pub(super) has_networks: bool,
    pub(super) checks: Checks,
    pub(super) keys: Keys,
}

impl Intake {
    pub(super) fn get(&self, m: &Moving, name: &str) -> Parameter {
        m.site.get_at(Some(&self.service), name)
    }
}

impl Intake {
    /// Sets a key of the listener.
    pub(super) fn set(&mut self, key: &str, value: impl Into<String>) {
        self.keys.set(key, value);
    }
}

/// Settings of `checks` that restrictions ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    pub(super) keys: Keys,
    pub(super) lists: Vec<String>,
    pub(super) helo_lists: Vec<String>,
    pub(super) sender_lists: Vec<String>,
    /// Weight of a listed client; 0 for 1.
    pub(super) threshold: u32,
    /// Listed clients are only marked.
    pub(super) is_marked: bool,
    /// Users may send from their own addresses only.
    pub(super) has_owners: bool,
    /// Clients with a certificate may relay.
    pub(super) relays_certificates: bool,
}

impl Checks {
    pub(super) fn write(&self, intake: &mut Intake) {
        let mut keys = self.keys.clone();
        let mut dnsbl = Keys::new();
        for (key, all) in [
            ("lists", &self.lists),
            ("helo_lists", &self.helo_lists),
            ("sender_lists", &self.sender_lists),
        ] {
            if !all.is_empty() {
                dnsbl.set(key, list(all));
            }
        }
        if !dnsbl.is_empty() {
            if self.threshold > 1 {
                dnsbl.set("threshold", self.threshold.to_string());
            }
            if self.is_marked {
                dnsbl.text("action", "mark");
            }
            keys.set("dnsbl", dnsbl.inline());
        }
        if !keys.is_empty() {
            intake.set("checks", keys.inline());
        }
    }
}
