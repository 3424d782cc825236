//! `postrider table`.

mod build;
#[cfg(test)]
mod cost;
mod progress;
mod running;
mod source;
#[cfg(test)]
mod tests;

use crate::cli::{TableArgs, TableCommand};
use std::process::ExitCode;

/// Runs what was asked.
pub(crate) fn run(args: &TableArgs) -> ExitCode {
    match &args.command {
        TableCommand::Build(args) => build::run(args),
        TableCommand::List(server) => running::list(server),
        TableCommand::Get(args) => running::get(args),
        TableCommand::Flush(args) => running::flush(args),
    }
}
