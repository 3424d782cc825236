//! What the DNS says, and how well it says it.

use super::Hop;
use mta::seams::Mx;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// What the DNS holds.
#[derive(Clone, Debug, Default)]
pub struct Zones {
    /// MX records by domain.
    pub mx: BTreeMap<String, Vec<Mx>>,
    /// Addresses by host.
    pub addresses: BTreeMap<String, Vec<IpAddr>>,
    /// CNAMEs that lead back to themselves.
    pub looped: BTreeSet<String>,
    /// Questions about names below it get no answer in time.
    pub hanging: Option<&'static str>,
    /// Those about names below it get one at once, whatever the resolver does otherwise.
    pub spared: Option<&'static str>,
}

/// How the resolver feels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// It answers.
    #[default]
    Well,
    /// After seconds.
    Slow,
    /// It says nothing, and the time for the question runs out.
    Silent,
    /// SERVFAIL.
    Failing,
    /// There is no descriptor to ask it with.
    Lacking,
}

/// The name of a host of a hop that is found by MX records. The hosts of the small domains have an owner each, who
/// takes turns with others: those of one zone would leave most to everybody else.
pub(super) fn mx_name(hop: &Hop, number: usize) -> String {
    if hop.is_crowd() {
        return format!("mx.crowd{number}.test");
    }
    format!("mx{number}.{}", hop.domains[0].trim_start_matches("*."))
}
