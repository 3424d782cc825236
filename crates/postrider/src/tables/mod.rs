//! Lookup tables of the running program: the registry of the tables in force, and the kinds answered by a server, each
//! in a file or folder.

mod call_ahead;
mod circles;
mod connections;
mod entry_checks;
mod files;
mod kinds;
mod ldap;
mod lists;
mod numbers;
mod problems;
mod reads;
mod redis;
mod registry;
pub(crate) mod remote;
mod renewal;
mod server;
pub(crate) mod shown;
mod socketmap;
#[cfg(feature = "sql")]
mod sql;
mod tcp_table;
#[cfg(test)]
mod testing;
mod text;

pub(crate) use kinds::{kinds, verifier};
pub(crate) use ldap::{PasswordResult, Verifier};
pub(crate) use numbers::TableNumbers;
#[cfg(test)]
pub(crate) use numbers::TableSets;
pub(crate) use problems::{SilentTables, TableProblems};
pub(crate) use registry::{Registry, ShardTables};
pub(crate) use remote::Seed;
pub(crate) use server::{TableServer, TableStream, within};
pub(crate) use shown::TracedTables;
