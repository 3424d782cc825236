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
pub(crate) use checks::CheckRules;
pub use milters::milter_connections;
pub(crate) use signing::Signer;
pub use signing::{SigningName, SigningScope};
pub use strangers::asks_for_greylisting;

use config::{Config, Schema};
use mta::ingress::StageKinds;
use mta::seams::World;
use std::rc::Rc;

/// Adds the keys of stages: sections of their own, and keys of listeners.
pub(crate) fn keys(schema: Schema) -> Schema {
    schema
        .section::<steering::SteeringFields>()
        .listener::<milters::MilterKeys>()
        .listener::<CheckRules>()
        .listener::<signing::SigningRules>()
        .stage::<access::AccessText>()
        .stage::<copy::CopyText>()
        .stage::<policy::PolicyText>()
        .stage::<signing::SignerText>()
}

/// All stages, for one shard.
pub(crate) fn kinds<W: World>() -> StageKinds<W> {
    vec![
        Rc::new(steering::Steerings),
        Rc::new(checks::Checking),
        Rc::new(strangers::StrangerChecks),
        Rc::new(access::Accesses),
        Rc::new(copy::Copies),
        Rc::new(milters::Milters),
        Rc::new(policy::Policies),
        Rc::new(signing::Signing),
        Rc::new(event_headers::EventHeaders),
    ]
}

/// Lookups that checks have under way at once, at most, on each shard.
#[must_use]
pub fn lookups_at_once(config: &Config) -> u32 {
    checks::lookups_at_once(config) + strangers::lookups_at_once(config)
}

/// Whether a rule with these `listeners` is for one of this name; none named: for all.
fn is_for_listener(names: &[String], listener: &str) -> bool {
    names.is_empty() || names.iter().any(|name| name == listener)
}
