//! Proof for Postrider: the benchmarks, the crash and limits harnesses, and the program `postrider-lab`, which
//! also has the load tools of crate `load` and the simulator of crate `simulator`.

// As in `postrider`: this crate is where sockets, clocks and files are real.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod bench;
pub mod cli;
pub mod prove;
pub mod show;
pub mod stand;
