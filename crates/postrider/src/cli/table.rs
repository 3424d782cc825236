//! Arguments of `postrider table`.

use super::ServerArgs;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// `postrider table`.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    #[command(subcommand)]
    pub(crate) command: TableCommand,
}

/// Commands of `postrider table`.
#[derive(Debug, Subcommand)]
pub(crate) enum TableCommand {
    /// Build a constant database from a file of keys and values
    ///
    /// Writes a database for `database = { path = "…" }` in `[[table]]`. A lookup takes a microsecond for any number of
    /// keys, and the database is not loaded into memory. The new file is written beside the old one, synced and renamed
    /// over it, so a running server uses either the old or the new one as a whole. Needs disk space for both files, and
    /// 24 bytes per key.
    Build(BuildArgs),
    /// List the tables of a running server, with their state
    List(ServerArgs),
    /// Look up a key in a table of a running server
    ///
    /// Prints the result, and each lookup on the path to it: the table, the key and the source of the answer.
    Get(GetArgs),
    /// Flush cached answers of a table in a running server
    ///
    /// The next lookup queries the table's server again.
    Flush(FlushArgs),
}

/// `postrider table get`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  the table has the key
  1  it does not, or the lookup failed

Example:
  postrider table get users jo@example.org --config /etc/postrider.toml")]
pub(crate) struct GetArgs {
    /// The table's name.
    pub(crate) table: String,
    /// The key.
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `postrider table flush`.
#[derive(Debug, Args)]
pub(crate) struct FlushArgs {
    /// The table's name.
    pub(crate) table: String,
    /// Flush only the answer for this key.
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// `postrider table build`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  the database is in place
  1  build failed, the previous database is unchanged
  2  the command line is wrong

Of entries with the same key the first counts, as with postmap; each further one gets a warning.

Examples:
  postrider table build --from users.txt --to /etc/postrider/users.db
  psql -AtF $'\\t' -c 'SELECT address, maildir FROM users' | \\
      postrider table build --format tsv --from - --to users.db")]
pub(crate) struct BuildArgs {
    /// The file with keys and values; `-` is standard input.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) from: PathBuf,
    /// The database file to write.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) to: PathBuf,
    /// The format of the input file.
    #[arg(long, value_enum, default_value_t = Format::Postfix)]
    pub(crate) format: Format,
    /// Keep the case of keys: lookups are case-sensitive.
    #[arg(long)]
    pub(crate) keep_case: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The format of the input file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Postfix's postmap format: a key, blanks and a value; a line that begins with a blank continues the previous one;
    /// `#` begins a comment
    Postfix,
    /// A key, a tab and a value per line, without comments or continuation lines
    Tsv,
}
