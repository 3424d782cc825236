//! Load tools for Postrider: a source, a sink, the ledger that accounts for every message, and the
//! bare relay that marks the limit of what a machine can do.
//!
//! The two ends speak SMTP with code of their own instead of crate `smtp`: an error of reading that
//! the relay and its judge had in common would cancel out and never be seen.

// Floor 3: this crate is where sockets, clocks and files are real.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod bench;
pub mod cli;
pub mod cpu;
pub mod crash;
pub mod dialogue;
pub mod floor;
pub mod ledger;
pub mod limits;
pub mod listener;
mod namespace;
pub mod outcome;
mod power;
mod process;
pub mod progress;
pub mod random;
mod rig;
pub mod sim;
pub mod sink;
pub mod source;
pub mod stats;
pub mod stop;
