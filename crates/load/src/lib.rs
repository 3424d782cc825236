//! The judge of a mail relay: a source, a sink, the ledger that accounts for every message, and the
//! bare relay that marks the limit of what a machine can do.
//!
//! It shares no code with what it judges, and depends on no crate of the house: an error of reading
//! that the relay and its judge had in common would cancel out and never be seen. So both ends speak
//! SMTP with code of their own.

// The judge stands outside the house's floors: sockets, clocks and files are real here.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod cpu;
pub mod dialogue;
pub mod dns;
pub mod file;
pub mod floor;
pub mod guess;
pub mod ledger;
pub mod listener;
pub mod mailboxes;
pub mod on_panic;
pub mod p1;
pub mod proc;
pub mod process;
pub mod progress;
pub mod random;
pub mod sink;
pub mod source;
pub mod stats;
pub mod stop;
pub mod tls;
pub mod tls_cost;
mod tool;
pub mod tree;
mod wire;
pub mod words;
