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

/// Compare the ledgers of a source and a sink.
///
/// Each acknowledged message must have arrived at each of its recipients, undamaged and once.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Exit codes:
  0  all messages are accounted for
  1  an acknowledged message is missing, damaged or misdelivered, or there are too many duplicates
  2  a file cannot be read

Lines of a source's ledger:
  ID acked RCPT...
  ID refused CODE
  ID unknown RCPT...
  ID unsent

Lines of a sink's ledger (ID is - for a message without the id of a source):
  ID RCPT [damaged]

To compare several runs at once, concatenate their files.")]
pub struct LedgerOptions {
    /// Ledger written by `source --ledger`
    pub source_file: PathBuf,
    /// Ledger written by `sink --ledger`
    pub sink_file: PathBuf,
    /// Maximum number of duplicates, over all messages
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub max_duplicates: u64,
    /// Maximum number of findings to list, of each kind
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub list: usize,
    /// Print the result as JSON
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
