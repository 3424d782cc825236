//! Lookup tables of the running program.

pub(crate) mod remote;
