//! What mail passes before it is durable.

mod copy;
mod policy;

pub(crate) use copy::{Copies, CopyText};
pub(crate) use policy::{Policies, PolicyText};
