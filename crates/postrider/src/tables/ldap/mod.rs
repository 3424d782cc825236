//! Tables in LDAP directories.
//!
//! The protocol is implemented in `crates/ldap`. Public client libraries panic on malformed responses (`ldap3` 0.12 in
//! its decoder and where it reads results). A panic ends this process, so a broken directory server would take down the
//! mail switch. These libraries also accept messages of any length.

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
