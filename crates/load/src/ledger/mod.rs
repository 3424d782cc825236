//! The account of every message: what the source says of it, what the sink says, and whether they
//! agree.

mod audit;
mod follow;
mod record;

pub use audit::{Audit, audit};
pub use follow::Followed;
pub use record::{Arrival, ArrivalState, Fate, LedgerWriter, Sent};

use crate::file;
use crate::stats::value_table;
use crate::stop::{CommandError, Outcome};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compares what a source sent with what a sink received.
///
/// Message by message and recipient by recipient: what was acknowledged must have arrived, whole
/// and once.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Exit code: 0 all is accounted for; 1 something acknowledged is missing, arrived damaged or at a \
recipient it was not for, or more duplicates than allowed; 2 a file can't be read.

Source lines:  ID acked RCPT... | ID refused CODE | ID unknown RCPT... | ID unsent
Sink lines:    ID RCPT [damaged]        (ID is - for a message that came from no source of ours)
Several runs can be judged at once: concatenate their files.")]
pub struct LedgerOptions {
    /// Written by `source --ledger`
    pub source_file: PathBuf,
    /// Written by `sink --ledger`
    pub sink_file: PathBuf,
    /// How often, in all, a message may arrive once more at the same recipient
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_duplicates: u64,
    /// How many findings of each kind to list
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub list: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The command.
pub fn run(options: &LedgerOptions) -> Outcome {
    let text = |path: &Path| file::read(path).map_err(|error| CommandError::new(error.to_string()));
    let (source, sink) = (text(&options.source_file)?, text(&options.sink_file)?);
    let audit = audit(&source, &sink, options.list).map_err(CommandError::new)?;
    let good = audit.is_clean(options.max_duplicates);
    if options.json {
        let mut value = serde_json::json!(audit);
        value["ok"] = good.into();
        println!("{value}");
    } else {
        println!("{}", value_table(&audit.rows()));
        for (kind, id, recipient) in audit.findings() {
            println!("{kind} {id} {recipient}");
        }
        println!("{}", if good { "accounted for" } else { "NOT accounted for" });
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
