//! Directories that are asked by LDAP.
//!
//! The protocol itself is our own (`crates/ldap`). Clients that others wrote panic at answers that are
//! none (`ldap3` 0.12 in its decoder and where it reads results), and here a panic ends the process: a
//! broken directory server would take the mail switch with it. They also take messages of any length.

mod backend;
mod connection;
mod directory;
mod groups;
mod opening;
mod pool;
mod server;
mod settings;
mod snapshot;
mod text;
mod tls;
mod verifier;

pub(crate) use settings::LdapSettings;
pub(crate) use snapshot::{Snapshot, SnapshotMetrics};
pub(crate) use text::LdapText;
pub(crate) use verifier::{PasswordResult, Verifier};

#[cfg(test)]
mod tests;
