//! What the node is told: its configuration file, and what the DNS says.

use super::{
    BY_MX, CROWD_DOMAIN, DescriptorLimits, DirectoryPlan, Hop, Mire, PacePlan, Plan, SESSIONS_MAX,
    X400Plan, ZoneChange, Zones, mx_name,
};
use crate::names::{BOX_DOMAIN, DEAD_DOMAIN, NODE, NODE_NAME, OR_DEAD, WELL_DOMAIN};
use crate::plant::Plant;
use mta::control::BlockerKind;
use mta::seams::Mx;
use std::fmt::Write as _;

impl Plan {
    /// The node's configuration after so many changes, and so many of what is shared.
    #[must_use]
    pub fn config(&self, (changes, paces): (usize, usize), plant: Option<Plant>) -> String {
        let paths: Vec<String> = (0..self.logs).map(|log| format!("\"/log{log}\"")).collect();
        let pace = self.pace.as_ref();
        let (body_memory, blob_bytes) = self.body_memory();
        let mut text = format!(
            "hostname = \"{NODE_NAME}\"\nevents = \"off\"\n{}\
             [spool]\npaths = [{}]\nunsettled_max = {}\nbody_memory_bytes = \"{body_memory}\"\nblob_bytes = \"{blob_bytes}\"\n\
             [[listener]]\nname = \"in\"\naddress = \"{NODE}:25\"\nrelay_from = [\"10.9.0.0/16\"]\n\
             command_timeout = \"30s\"\ncontent_timeout = \"30s\"\nmax_sessions = {SESSIONS_MAX}\n{}\
             [retry]\nfirst = \"2s\"\nlongest = \"20s\"\njitter = 0.2\ngive_up_after = \"1h\"\n\
             warn_after = \"50s\"\n",
            pace.map_or("", PacePlan::top),
            paths.join(", "),
            self.unsettled_max,
            pace.map_or("", PacePlan::of_listener),
        );
        text.push_str(&pace.map_or_else(String::new, |pace| pace.sections(paces, plant)));
        if self.has_tls() {
            // Its files are the program's, which is not here.
            let _ = writeln!(
                text,
                "[[certificate]]\nnames = [\"{NODE_NAME}\"]\nchain = \"/node.pem\"\nkey = \"/node.key\""
            );
        }
        if let Some(max) = self.lookups_max {
            let more = u32::from(plant == Some(Plant::OneLookupMore));
            let _ = writeln!(text, "[dns]\nmax_lookups = {}", max + more);
        }
        let hops = self.hops_after(changes);
        for (number, hop) in hops.iter().enumerate().filter(|(_, hop)| !hop.gone) {
            self.route(number, hop, plant, &mut text);
        }
        let directory = self.directory.as_ref();
        let (keys, mailbox) =
            directory.map_or((String::new(), "{local}"), DirectoryPlan::keys_of_boxes);
        let _ = write!(
            text,
            "[[route]]\ndomains = [\"{BOX_DOMAIN}\"]\n{keys}\
             maildir = {{ path = \"/boxes/{{domain}}/{mailbox}\" }}\n",
        );
        text.push_str(directory.map_or("", DirectoryPlan::tables));
        let x400 = self.x400.as_ref();
        text.push_str(&x400.map_or_else(String::new, |x400: &X400Plan| x400.sections(changes)));
        text
    }

    /// Writes the route of a hop.
    fn route(&self, number: usize, hop: &Hop, plant: Option<Plant>, text: &mut String) {
        // Where peers drip, a transaction must not take for ever.
        let timeout = match self.fault_rates.peer_drip {
            0 => "",
            _ => "transaction_timeout = \"60s\", ",
        };
        let more = u32::from(plant == Some(Plant::OneConnectionMore));
        let faster = 1 + u32::from(plant == Some(Plant::RateDoubled));
        let content = self.content_timeout(hop);
        let _ = write!(
            text,
            "[[route]]\nname = \"hop{number}\"\ndomains = {:?}\n{}{}{}max_connections = {}, {}{timeout}\
             messages_per_second = {}, \
             connect_timeout = \"5s\", greeting_timeout = \"10s\", command_timeout = \"15s\", data_timeout = \"{content}\", \
             content_timeout = \"{content}\", final_timeout = \"20s\", idle_timeout = \"3s\" }}\n",
            hop.domains,
            self.pace.as_ref().filter(|_| hop.by_mx).map_or("", PacePlan::of_route),
            self.directory_keys(number, hop, plant),
            hop.channel(),
            hop.connections_max + more,
            hop.in_flight(),
            hop.per_second * faster,
        );
        if hop.dead {
            text.push_str("retry = { give_up_after = \"90s\" }\n");
        }
    }

    /// What the route of a hop is told of the directory.
    fn directory_keys(&self, number: usize, hop: &Hop, plant: Option<Plant>) -> String {
        let all = plant == Some(Plant::AskForAll);
        let keys = |directory: &DirectoryPlan| directory.keys_of_hop(number, &hop.domains[0], all);
        self.directory.as_ref().map_or_else(String::new, keys)
    }

    /// What the DNS says.
    #[must_use]
    pub fn zones(&self) -> Zones {
        let mut zones = Zones::default();
        for hop in self.hops.iter().filter(|hop| hop.by_mx && !hop.is_crowd()) {
            for (number, host) in hop.hosts.iter().enumerate() {
                let name = mx_name(hop, number);
                zones.addresses.insert(name.clone(), vec![host.ip()]);
                for (which, domain) in hop.domains.iter().enumerate() {
                    let preference = self.preference(which, if number == 0 { 10 } else { 20 });
                    let mx = Mx { preference, host: name.clone() };
                    zones.mx.entry(domain.clone()).or_default().push(mx);
                }
            }
        }
        self.add_crowd_zones(&mut zones);
        if self.mire() == Some(Mire::Hangs) {
            (zones.hanging, zones.spared) = (Some(CROWD_DOMAIN), Some(WELL_DOMAIN));
        }
        zones
    }

    /// The preference of a host of domain number `which`.
    fn preference(&self, which: usize, preference: u16) -> u16 {
        if self.swapped && which == 1 { 30 - preference } else { preference }
    }

    /// What the DNS says after a change.
    #[must_use]
    pub fn zones_after(&self, change: &ZoneChange) -> Zones {
        let mut zones = self.zones();
        let hop = &self.hops[BY_MX];
        for (which, domain) in hop.domains.iter().enumerate() {
            let named = change.preferences.iter().enumerate().filter_map(|(number, preference)| {
                let preference = self.preference(which, (*preference)?);
                Some(Mx { preference, host: mx_name(hop, number) })
            });
            zones.mx.insert(domain.clone(), named.collect());
        }
        zones.looped.extend(change.looped.clone());
        zones
    }
}

impl Hop {
    fn channel(&self) -> String {
        let tls = self.tls.as_ref().map_or(String::new(), |tls| format!("tls = {:?}, ", tls.word));
        if self.by_mx {
            return format!("mx = {{ {tls}");
        }
        if self.is_by_entry {
            return "smtp = { hosts = [\"{value}\"], ".to_owned();
        }
        let hosts: Vec<String> = self.hosts.iter().map(|host| format!("\"{host}\"")).collect();
        format!("smtp = {{ hosts = [{}], {tls}", hosts.join(", "))
    }

    /// Whether the node is told that it may send content unasked.
    pub(super) fn may_be_unasked(&self) -> bool {
        !self.by_mx && self.in_flight_max > 1
    }

    /// No key for hosts that DNS names; towards the others content goes unasked where there is
    /// any use in it.
    fn in_flight(&self) -> String {
        if !self.may_be_unasked() {
            return String::new();
        }
        let max = self.in_flight_max;
        format!("unasked_content = true, transactions_in_flight = {max}, ")
    }
}

/// How far in the future deadlines may lie, by what the configuration says.
#[derive(Clone, Copy, Debug)]
pub struct Horizon {
    /// The longest pause between two tries of a message.
    pub retry_ms: u64,
    /// The longest pause between two connections to a next hop, or two questions where it is.
    pub back_off_ms: u64,
    /// The oldest a message gets.
    pub expiry_ms: u64,
    /// The same for those to the next hop that is dead.
    pub dead_ms: u64,
    /// The longest wait for what a source that warms up may send; 0 where none does.
    pub warmup_ms: u64,
}

impl Horizon {
    /// How far for a recipient who waits for this.
    #[must_use]
    pub fn of(&self, kind: BlockerKind, address: &str) -> u64 {
        match kind {
            BlockerKind::Time => self.retry_ms,
            BlockerKind::Backoff => self.back_off_ms,
            _ if address.ends_with(DEAD_DOMAIN) || address.ends_with(OR_DEAD) => self.dead_ms,
            // What can't be read says so in place of what it waits for.
            BlockerKind::Rate | BlockerKind::Spool => self.expiry_ms.max(self.warmup_ms),
            _ => self.expiry_ms,
        }
    }
}

/// What the node may use.
#[derive(Clone, Copy, Debug)]
pub struct ResourceLimits {
    /// Delivered recipients whose settle is not durable.
    pub unsettled: u64,
    /// Client sessions.
    pub sessions: u64,
    /// How its descriptors are divided.
    pub parts: Option<DescriptorLimits>,
    /// Of those in small domains who wait for memory somebody gets some within this time, in microseconds.
    pub memory_within_us: Option<u64>,
}
