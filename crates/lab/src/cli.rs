//! The table of commands.
//!
//! What becomes of a command that panics: it ends, whatever else runs, and with it what it has started.
//!
//! Whoever reads our output may have seen enough before its end (`| head`). That is a panic to `println!`, and no
//! mistake: then the command ends without a word.

use crate::bench;
use crate::prove::{crash, limits};
use crate::stand::long_path as path;
use clap::{CommandFactory as _, Parser, Subcommand};
use load::stop::{CommandError, Outcome};
use load::{cpu, dns, floor, guess, ledger, on_panic, p1, sink, source};
use std::any::Any;
use std::io::{self, Write as _};
use std::panic;
use std::path::PathBuf;
use std::process::{ExitCode, exit};

/// Exit code of what went wrong, or came to no end: what a command was to prove is not proved.
const UNFINISHED: u8 = 2;

/// Load tools, benchmarks and proofs for mail servers.
#[derive(Debug, Parser)]
#[command(name = "postrider-lab", version)]
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
    Sim(simulator::SimOptions),
    Crash(crash::CrashOptions),
    Limits(limits::LimitsOptions),
    Bench(bench::BenchOptions),
    Cpu(cpu::CpuOptions),
    Path(path::PathOptions),
    /// Write the manual pages
    Man(ManOptions),
}

/// `postrider-lab man`.
#[derive(Debug, clap::Args)]
struct ManOptions {
    /// The output directory; created if missing.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

/// Writes a page for the program and one for each of its commands.
fn write_manual(options: &ManOptions) -> Outcome {
    std::fs::create_dir_all(&options.out)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &options.out))
        .map_err(|error| CommandError::new(format!("{}: {error}", options.out.display())))?;
    Ok(ExitCode::SUCCESS)
}

impl Cli {
    /// Runs the command to its end, or until nobody reads what it prints.
    #[must_use]
    pub fn run(self) -> ExitCode {
        end_the_program();
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
            Command::Sim(options) => simulator::run_command(&options),
            Command::Crash(options) => crash::run(&options),
            Command::Limits(options) => limits::run(&options),
            Command::Bench(options) => bench::run(&options),
            Command::Cpu(options) => cpu::run(&options),
            Command::Path(options) => path::run(&options),
            Command::Man(options) => write_manual(&options),
        };
        outcome.unwrap_or_else(|error| {
            eprintln!("postrider-lab: {error}");
            ExitCode::from(UNFINISHED)
        })
    }
}

/// How `println!` and `eprintln!` begin to say that nobody reads.
const NOBODY_READS: [&str; 2] =
    ["failed printing to stdout: Broken pipe", "failed printing to stderr: Broken pipe"];

/// As Rust has it.
const PANICKED: i32 = 101;

/// From now on panics end this program.
fn end_the_program() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let is_closed = is_closed(info.payload());
        if !is_closed {
            tell(info);
            if let Some(seed) = simulator::pool::played() {
                // Not `eprintln!`, which would panic here if nobody reads.
                let _ = writeln!(io::stderr(), "postrider-lab: seed {seed} panicked");
            }
        }
        on_panic::do_all();
        exit(if is_closed { UNFINISHED.into() } else { PANICKED });
    }));
}

fn is_closed(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<String>();
    text.is_some_and(|text| NOBODY_READS.iter().any(|begin| text.starts_with(begin)))
}
