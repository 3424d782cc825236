//! What mail passes before it is durable.

mod access;
mod action;
mod copy;
mod policy;

pub(crate) use access::{AccessText, Accesses};
pub(crate) use copy::{Copies, CopyText};
pub(crate) use policy::{Policies, PolicyText};
