//! Arguments of `postrider spool`.

use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// `postrider spool`.
#[derive(Debug, Args)]
pub(crate) struct SpoolArgs {
    #[command(subcommand)]
    pub(crate) command: SpoolCommand,
}

/// Commands of `postrider spool`.
#[derive(Debug, Subcommand)]
pub(crate) enum SpoolCommand {
    /// Check every record of a stopped or copied spool
    ///
    /// Reads the spool of a stopped server, or a copy, and changes nothing. Checks every checksum, checks that every
    /// message went only through valid states, and prints the numbers of live, settled and damaged records.
    Verify(VerifyArgs),
    /// Import the queue of another mail server
    ///
    /// Adds messages to the spool of a stopped server, each with its open recipients, and moves their files aside.
    Import(ImportArgs),
}

/// `postrider spool verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  no damage
  1  damage, or the spool cannot be read

Examples:
  postrider spool verify /var/spool/postrider
  postrider spool verify /var/spool/postrider --json

Stop the server before; a copy must be from a stopped server: changes during the check look like damage.")]
pub(crate) struct VerifyArgs {
    /// The spool directory.
    #[arg(value_name = "PATH", value_hint = ValueHint::DirPath)]
    pub(crate) path: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postrider spool import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    pub(crate) command: ImportCommand,
}

/// Sources of `postrider spool import`.
#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// Import the queue of a stopped Postfix
    ///
    /// Reads the queue files themselves: Postfix need not be installed. Each message is synced here, then its file is
    /// moved to imported-postrider/ in the queue directory. Run it again after an interruption: no message is sent
    /// twice.
    Postfix(ImportPostfixArgs),
}

/// `postrider spool import postfix`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  all messages were imported
  1  some were left in their place, each with the reason; or the import ended early
  2  the command line or the configuration is wrong

Examples:
  postfix stop
  postrider spool import postfix /var/spool/postfix
  postrider spool import postfix /mnt/old/var/spool/postfix --copied

Both servers must be stopped.")]
pub(crate) struct ImportPostfixArgs {
    /// Postfix's queue directory.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// The directory is a copy: names of queue files may have another inode.
    #[arg(long)]
    pub(crate) copied: bool,
    /// The server's configuration file. Default: as for `postrider serve`.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
