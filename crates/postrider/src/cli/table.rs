//! `postrider table`: lookup tables.

use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// `postrider table`.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: TableCommand,
}

/// What to do with tables.
#[derive(Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Build a constant database from a file of keys and values
    ///
    /// Writes a database for `database = { path = "…" }` in `[[table]]`: looked up in a microsecond,
    /// however many keys there are, without being read into memory. It is written beside the old one,
    /// made durable and then put in its place in one step: a running server finds the old answers or the
    /// new ones. Needs room on the disk for both, and for 24 bytes for each key.
    Build(BuildArgs),
}

/// `postrider table build`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  the database is in place
  1  it is not, and what was there before still is
  2  the command line is wrong

Of entries with one key the first counts, as with postmap; the others are told.

Examples:
  postrider table build --from users.txt --to /etc/postrider/users.db
  psql -AtF $'\\t' -c 'SELECT address, maildir FROM users' | \\
      postrider table build --format tsv --from - --to users.db")]
pub(crate) struct BuildArgs {
    /// The file with keys and values; `-` is standard input.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) from: PathBuf,
    /// The database to build.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) to: PathBuf,
    /// How keys and values are written.
    #[arg(long, value_enum, default_value_t = Format::Postfix)]
    pub(crate) format: Format,
    /// Tell upper from lower case in keys.
    #[arg(long)]
    pub(crate) keep_case: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// How keys and values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// As for Postfix's postmap: a key, blanks and a value; lines that begin with a blank go on, `#`
    /// begins a comment.
    Postfix,
    /// A key, a tab and a value on each line, and nothing else.
    Tsv,
}
