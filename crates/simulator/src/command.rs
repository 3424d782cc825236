//! `postrider-lab sim`.

use super::{Plan, Plant, RunResult, pool, run as run_seed};
use load::progress::Progress;
use load::stop;
use std::process::ExitCode;

/// Trace lines of the message concerned that are shown of a failing seed.
const LINES_MAX: usize = 200;

/// Run the relay in a simulated world and check its promises.
///
/// The seed decides the faults of clients, next hops, network, disks and DNS, and the crashes and
/// restarts of the process. Then all faults end, and each acknowledged recipient must be delivered
/// or reported. The same seed gives the same history.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Exit codes:
  0  all laws hold
  1  a law is broken: prints the seed, its faults and the history of the message
  2  the command line is wrong")]
pub struct SimOptions {
    /// First seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Number of seeds
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seeds: u64,
    /// Number of seeds at the same time [default: number of processors]
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Print all events of the simulation
    #[arg(long)]
    pub trace: bool,
    /// Plant a fault that the laws must detect
    #[arg(long, value_name = "FAULT")]
    pub plant: Option<Plant>,
}

/// Runs the seeds.
///
/// # Errors
/// None: the simulator needs nothing from outside.
pub fn run_command(options: &SimOptions) -> stop::Outcome {
    let mut progress = (options.seeds > 1).then(|| Progress::new("seeds", Some(options.seeds)));
    let mut broken = Vec::new();
    let mut count = 0;
    let seeds = options.seed..options.seed.saturating_add(options.seeds);
    let jobs = options.jobs.unwrap_or_else(pool::jobs);
    pool::play(seeds, jobs, options.plant, options.trace, |outcome| {
        if options.trace {
            outcome.lines.iter().for_each(|line| println!("{line}"));
        }
        if options.seeds == 1 {
            summarise(&outcome);
        }
        if !outcome.violations.is_empty() {
            explain(&outcome, options.plant);
            broken.push(outcome.seed);
        }
        count += 1;
        if let Some(progress) = &mut progress {
            progress.tell(count);
        }
        true
    });
    drop(progress);
    broken.sort_unstable();
    if broken.is_empty() {
        println!("{} seeds from {}: all laws hold", options.seeds, options.seed);
        return Ok(ExitCode::SUCCESS);
    }
    println!("{} of {} seeds broke a law: {broken:?}", broken.len(), options.seeds);
    Ok(ExitCode::FAILURE)
}

fn summarise(outcome: &RunResult) {
    let totals = &outcome.totals;
    println!("{}", Plan::new(outcome.seed));
    println!(
        "{} messages submitted, {} acknowledged; {} arrivals including {} duplicates; {} reported \
         as failed",
        totals.submitted, totals.acknowledged, totals.arrived, totals.duplicates, totals.failed
    );
    let seconds = outcome.ended_us / 1_000_000;
    println!(
        "{} events in {seconds} simulated seconds, hash {:016x}",
        outcome.events_count, outcome.hash
    );
}

/// Says what is wrong, which faults there were, and what happened to the message concerned.
fn explain(outcome: &RunResult, plant: Option<Plant>) {
    println!("{}", Plan::new(outcome.seed));
    for violation in &outcome.violations {
        println!("VIOLATED: {}", violation.text);
    }
    let concerned = outcome.violations.iter().find_map(|violation| violation.message.as_deref());
    // Played again, this time with the text: the history is the same.
    let lines = run_seed(outcome.seed, plant, true).lines;
    let is_of = |line: &&String| {
        let general = ["crash", "recover", "VIOLATED"].iter().any(|kind| line.contains(kind));
        general || concerned.is_some_and(|name| mentions(line, name))
    };
    for line in lines.iter().filter(is_of).take(LINES_MAX) {
        println!("{line}");
    }
}

/// Whether `m1` is meant, not `m12`.
fn mentions(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let edge = |c: Option<char>| c.is_none_or(|c| !c.is_ascii_alphanumeric());
        edge(line[..at].chars().next_back()) && edge(line[at + name.len()..].chars().next())
    })
}
