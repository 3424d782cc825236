//! The real program: its sockets, its files, its commands, its peers.
//!
//! One program for all of it, so that what they share is built once and tests that wait wait side by
//! side. What needs the machine for itself is in `machine`.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod access;
mod acme;
mod alerts;
mod aliases;
mod arrivals;
mod bad_input;
mod bad_peers;
mod check_dns;
mod classes;
mod client_limits;
mod configured_files;
mod directories;
mod documents;
mod embedded;
mod examples;
mod explained;
mod followed_files;
mod from_postfix;
mod hanging_files;
mod history;
mod init;
mod intake;
mod interop;
mod keys_of_strangers;
mod local_users;
mod login_secrets;
mod logins;
mod mailboxes;
mod migrate;
mod moves;
mod next_hops;
mod peers;
mod postfix_log;
mod privileges;
mod problem_kinds;
mod problems;
mod programs;
mod queue_commands;
mod relative_paths;
mod relay;
mod reloads;
mod reports;
mod require_tls;
mod rules;
mod sendmail;
mod sendmail_callers;
mod service_manager;
mod shaping;
mod shutdown;
mod smarthosts;
mod sources;
mod starts;
mod state_files;
mod steering;
mod stolen_account;
mod submission;
#[path = "../support/mod.rs"]
mod support;
mod tenants;
mod tls;
mod tls_policies;
mod verification;
mod warmup;
mod x400;
