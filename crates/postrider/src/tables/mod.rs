//! Lookup tables of the running program.

mod files;
mod kinds;
mod registry;
pub(crate) mod remote;
mod shown;

pub(crate) use kinds::schema;
pub(crate) use registry::{Registry, ShardTables};
pub(crate) use shown::handle;
