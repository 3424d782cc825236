//! The real program where the machine matters: what it takes of processor, memory, disk and
//! descriptors, and what it does when there is no more or when it is killed.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod bench;
mod crash;
mod fail_memory;
mod limits;
mod scarcity;
mod signing;
mod start_memory;
#[path = "../support/mod.rs"]
mod support;
mod syncs;
mod trace;
