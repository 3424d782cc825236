//! What is fuzzed, a module for each target: `run` takes the fuzzer's bytes and panics if anything
//! does not hold. `fuzz_targets/` only calls it. See `docs/internals/fuzzing.md`.

// Nothing of it stands where scripts/fuzz doesn't build it: editors look at the whole workspace.
#![cfg(fuzzing)]

pub mod bdat_reader;
pub mod checks;
pub mod classes;
pub mod client_session;
pub mod command;
pub mod config;
pub mod data_reader;
pub mod database;
pub mod dovecot;
pub mod dsn;
pub mod header;
pub mod ldap_answers;
pub mod milter_packets;
pub mod mta_sts;
pub mod proxy_header;
pub mod sasl;
pub mod server_session;
pub mod spool_records;
pub mod spool_recovery;
pub mod table_files;
pub mod tls_report;
pub mod x400_apdus;
pub mod x400_associations;
pub mod x400_ber;
pub mod x400_gateway;
pub mod x400_spdus;
pub mod xclient;

mod stream;

/// The models that the spool's own tests use.
#[path = "../../crates/spool/tests/log/model/history.rs"]
mod history;
#[path = "../../crates/spool/tests/log/model/world/mod.rs"]
#[allow(dead_code, reason = "tests use more of it")]
mod world;
