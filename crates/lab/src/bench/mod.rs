//! The published benchmarks of this field, reproduced by one command.

mod markup;
pub mod number;
pub mod page;
pub mod path;
pub mod plot;
pub mod report;

use std::path::PathBuf;

/// Measures the relay and its peers with the published benchmarks, in interleaved rounds.
#[derive(clap::Args, Clone, Debug)]
pub struct BenchOptions {
    /// The scenario, or `all`; --list shows them
    #[arg(value_name = "SCENARIO", required_unless_present = "list")]
    pub scenario: Option<String>,
    /// Who is measured, separated by commas; the first is held against each of the others
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "postrider,floor,floor-log,postfix"
    )]
    pub against: Vec<String>,
    /// Another server that runs already: where it listens, and its process
    #[arg(long, value_name = "NAME=HOST:PORT,pid=PID")]
    pub target: Vec<String>,
    /// Share of the published number of messages
    #[arg(long, value_name = "F", default_value_t = 0.04)]
    pub scale: f64,
    /// How often each contender is measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// For the bodies' text
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Take a scale that fits into so many minutes
    #[arg(long, value_name = "M", conflicts_with = "scale")]
    pub minutes: Option<f64>,
    /// Directory of the reports and, while it runs, of the spools; without it one is made here
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The postrider program; without it the one beside this program
    #[arg(long, value_name = "FILE")]
    pub postrider: Option<PathBuf>,
    /// List scenarios and contenders
    #[arg(long)]
    pub list: bool,
    /// Print the report as JSON instead of tables
    #[arg(long)]
    pub json: bool,
}
