//! What mail passes before it is durable.

mod access;
mod action;
mod checks;
mod copy;
mod milters;
mod policy;

pub use access::{AccessQuestion, ConsultedAccess, consult_access};
pub(crate) use access::{AccessText, Accesses};
pub(crate) use checks::Checking;
pub use checks::lookups_at_once;
pub(crate) use copy::{Copies, CopyText};
pub(crate) use milters::Milters;
pub use milters::milter_connections;
pub(crate) use policy::{Policies, PolicyText};

/// Whether a rule with these `listeners` is for one of this name; none named: for all.
fn is_for_listener(names: &[String], listener: &str) -> bool {
    names.is_empty() || names.iter().any(|name| name == listener)
}
