//! `postrider table`: lookup tables.

use super::ServerArgs;
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
    /// List the tables of a running server, and how they are
    List(ServerArgs),
    /// Show what a table of a running server says of a key
    ///
    /// Shows the answer, and each lookup that led to it: which table, by which key, and where it had
    /// its answer.
    Get(GetArgs),
    /// Have a running server forget what it has cached of a table
    ///
    /// Whoever asks next gets what the table's server says then.
    Flush(FlushArgs),
}

/// `postrider table get`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  the table has the key
  1  it has not, or gives no answer

Example:
  postrider table get users jo@example.org --config /etc/postrider.toml")]
pub(crate) struct GetArgs {
    /// The table's name.
    pub(crate) table: String,
    /// The key.
    pub(crate) key: String,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `postrider table flush`.
#[derive(Debug, Args)]
pub(crate) struct FlushArgs {
    /// The table's name.
    pub(crate) table: String,
    /// Forget this key only.
    pub(crate) key: Option<String>,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
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
