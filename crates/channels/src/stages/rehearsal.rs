//! The stages of a rehearsed session: those that need nothing but tables and the DNS.

use super::access::Accesses;
use super::checks::CheckRules;
use super::milters::MilterKeys;
use super::policy::PolicyText;
use super::strangers::StrangerChecks;
use config::{Config, Listener, StageSection as _};
use mta::ingress::StageKinds;
use mta::seams::World;
use std::rc::Rc;

/// The stages that decide up to RCPT without another service and without a state that the running server keeps. With
/// greylisting, the world's greylist decides.
#[must_use]
pub fn rehearsed_stages<W: World>() -> StageKinds<W> {
    vec![Rc::new(StrangerChecks), Rc::new(Accesses)]
}

/// The checks at a listener that decide up to RCPT and are left out.
#[must_use]
pub fn unrehearsed(config: &Config, listener: &Listener) -> Vec<String> {
    let strangers = CheckRules::strangers_at(listener);
    let has_policies = config.stages.iter().any(|entry| entry.key == PolicyText::KEY);
    let left_out = [
        (strangers.is_some_and(|strangers| strangers.greylist.is_some()), "greylisting"),
        (has_policies, "policy services"),
        (!MilterKeys::at(listener).is_empty(), "milters"),
    ];
    left_out.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name.to_owned()).collect()
}
