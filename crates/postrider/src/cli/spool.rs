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
    /// Back up the spool of a running server
    ///
    /// Links the files of the spool that do not change any more, or copies them to another disk, and copies the rest and
    /// the state files. A further backup to the same directory adds new files.
    Backup(BackupArgs),
    /// Restore a backup into the empty spool of a stopped server
    ///
    /// All messages are on hold afterwards, because some were delivered since the backup.
    Restore(RestoreArgs),
    /// Measure a disk for the spool
    ///
    /// Writes and syncs in files below this directory, as the spool does for a message and for a batch, and prints the
    /// times with their meaning. The files are removed afterwards.
    Bench(SpoolBenchArgs),
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

/// `postrider spool bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  measured
  1  the directory cannot be written to, or its disk failed
  2  the command line is wrong

Examples:
  postrider spool bench /var/spool/postrider
  postrider spool bench /mnt/new --seconds 10 --json

On a running server the figures include its load, and its mail waits a little longer.")]
pub(crate) struct SpoolBenchArgs {
    /// A directory on the disk, for example that of the spool.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// Duration of each of the four measurements, in seconds.
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=600))]
    pub(crate) seconds: u32,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postrider spool backup`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  the backup is whole
  1  it is not; an earlier backup in the directory still is
  2  the command line or the configuration is wrong
  3  no server answers at the control socket

Examples:
  postrider spool backup /var/backups/postrider
  postrider spool backup /mnt/other-disk/postrider --json

Run it as root or as the server's user.")]
pub(crate) struct BackupArgs {
    /// The directory of the backup; created if only it is missing.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// The server's configuration file. Default: as for `postrider serve`.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postrider spool restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  restored, with all messages on hold
  1  not restored; the server does not start in an incomplete spool
  2  the command line or the configuration is wrong

Examples:
  postrider spool restore /var/backups/postrider
  postrider serve
  postrider queue release --failure 'restored from the backup' --not-in events.jsonl

The server must be stopped, and its spool directories empty or missing.")]
pub(crate) struct RestoreArgs {
    /// The directory of the backup.
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: PathBuf,
    /// The server's configuration file. Default: as for `postrider serve`.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
