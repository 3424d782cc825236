//! The table of commands.

mod panics;

use crate::bench;
use crate::prove::{crash, limits, sim};
use crate::stand::long_path as path;
use clap::{Parser, Subcommand};
use load::{cpu, dns, floor, guess, ledger, p1, sink, source};
use std::process::ExitCode;

/// Exit code of what went wrong, or came to no end: what a command was to prove is not proved.
const UNFINISHED: u8 = 2;

/// Load tools for mail relays: send mail, receive mail, account for every message.
#[derive(Debug, Parser)]
#[command(name = "postrider-lab", version, about, long_about = None)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Source(source::SourceOptions),
    Sink(sink::SinkOptions),
    P1Source(Box<p1::P1SourceOptions>),
    P1Sink(p1::P1SinkOptions),
    P1Floor(Box<p1::P1FloorOptions>),
    Dns(dns::DnsOptions),
    Ledger(ledger::LedgerOptions),
    Floor(floor::FloorOptions),
    Guess(guess::GuessOptions),
    Sim(sim::SimOptions),
    Crash(crash::CrashOptions),
    Limits(limits::LimitsOptions),
    Bench(bench::BenchOptions),
    Cpu(cpu::CpuOptions),
    Path(path::PathOptions),
}

impl Cli {
    /// Runs the command to its end, or until nobody reads what it prints.
    #[must_use]
    pub fn run(self) -> ExitCode {
        panics::end_the_program();
        let outcome = match self.command {
            Command::Source(options) => source::run(&options),
            Command::Sink(options) => sink::run(&options),
            Command::P1Source(options) => p1::run_source(&options),
            Command::P1Sink(options) => p1::run_sink(&options),
            Command::P1Floor(options) => p1::run_floor(&options),
            Command::Dns(options) => dns::run(&options),
            Command::Ledger(options) => ledger::run(&options),
            Command::Floor(options) => floor::run(&options),
            Command::Guess(options) => guess::run(&options),
            Command::Sim(options) => sim::run_command(&options),
            Command::Crash(options) => crash::run(&options),
            Command::Limits(options) => limits::run(&options),
            Command::Bench(options) => bench::run(&options),
            Command::Cpu(options) => cpu::run(&options),
            Command::Path(options) => path::run(&options),
        };
        outcome.unwrap_or_else(|error| {
            eprintln!("postrider-lab: {error}");
            ExitCode::from(UNFINISHED)
        })
    }
}
