//! `postrider-lab`: see [`lab`].

use clap::Parser;
use std::process::ExitCode;

/// The load tools share two cores with what they measure, so they use the same allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    lab::cli::Cli::parse().run()
}
