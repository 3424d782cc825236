//! What mail passes before it is durable.

mod access;
mod action;
mod check;
mod checks;
mod copy;
mod event_headers;
mod keys;
mod lookups;
mod milters;
mod policy;
mod rescan;
mod signing;
mod steering;
mod strangers;

pub(crate) use access::Beside;
pub use access::{AccessQuestion, ConsultedAccess, EntryJudge, consult_access, entry_judge};
pub(crate) use access::{AccessText, Accesses};
pub(crate) use checks::{CheckRules, Checking, seal_of};
pub(crate) use copy::{Copies, CopyText};
pub(crate) use event_headers::EventHeaders;
pub use milters::milter_connections;
pub(crate) use milters::{MilterKeys, Milters};
pub(crate) use policy::{Policies, PolicyText};
pub(crate) use signing::{Signer, SignerText, Signing, SigningRules};
pub use signing::{SigningName, SigningScope};
pub(crate) use steering::{SteeringFields, Steerings};
pub(crate) use strangers::StrangerChecks;
pub use strangers::asks_for_greylisting;

use config::Config;

/// Lookups that checks have under way at once, at most, on each shard.
#[must_use]
pub fn lookups_at_once(config: &Config) -> u32 {
    checks::lookups_at_once(config) + strangers::lookups_at_once(config)
}

/// Whether a rule with these `listeners` is for one of this name; none named: for all.
fn is_for_listener(names: &[String], listener: &str) -> bool {
    names.is_empty() || names.iter().any(|name| name == listener)
}
