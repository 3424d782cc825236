//! `postrider dkim`: keys that sign.

use super::ConfigFile;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// `postrider dkim`.
#[derive(Debug, Args)]
pub(crate) struct DkimArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: DkimCommand,
}

/// What to do about keys that sign.
#[derive(Debug, Subcommand)]
pub(crate) enum DkimCommand {
    /// Make a key, and show the DNS record by which others know it
    ///
    /// Writes a private key to a file that nobody but its owner can read, and prints the TXT record of its
    /// public half as zone files have it. A file that is there is not overwritten.
    New(DkimNewArgs),
    /// Hold the DNS against the keys that sign for a domain
    ///
    /// Asks the DNS for the record of each key with which mail from the domain is signed, now or later, and says
    /// what is wrong with it: it is not there, is no key, is another one, is of a test, or too short. Keys that a
    /// table has are not looked at.
    Check(DkimCheckArgs),
}

/// `postrider dkim new`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  done
  1  the file is there already, or cannot be written
  2  the command line is wrong

Examples:
  postrider dkim new example.org s2026a --out /etc/postrider/s2026a.pem
  postrider dkim new example.org e2026a --out /etc/postrider/e2026a.pem --algorithm ed25519")]
pub(crate) struct DkimNewArgs {
    /// The domain that signs.
    pub(crate) domain: String,
    /// The selector: one name for each key, as keys change.
    pub(crate) selector: String,
    /// The file to write.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: PathBuf,
    /// The kind of key: RSA (of 2,048 bits), which all can verify, or Ed25519, which few can.
    #[arg(long, value_enum, default_value_t = KeyKind::Rsa)]
    pub(crate) algorithm: KeyKind,
}

/// The kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyKind {
    Rsa,
    Ed25519,
}

/// `postrider dkim check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  all records are right
  1  one of them is not, or there was no answer
  2  the command line or the configuration is wrong, or nobody signs for the domain

Example:
  postrider dkim check example.org --config /etc/postrider.toml")]
pub(crate) struct DkimCheckArgs {
    /// The domain of authors.
    pub(crate) domain: String,
    /// The configuration, for the signers and the resolver.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Show it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
