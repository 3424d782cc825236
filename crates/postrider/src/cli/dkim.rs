//! Arguments of `postrider dkim`.

use super::ConfigFile;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// `postrider dkim`.
#[derive(Debug, Args)]
pub(crate) struct DkimArgs {
    #[command(subcommand)]
    pub(crate) command: DkimCommand,
}

/// Commands of `postrider dkim`.
#[derive(Debug, Subcommand)]
pub(crate) enum DkimCommand {
    /// Create a key, and print its DNS record
    ///
    /// Writes a private key to a file that only its owner can read, and prints the TXT record of the public key in zone
    /// file format. An existing file is not overwritten.
    New(DkimNewArgs),
    /// Compare the DNS with the keys that sign for a domain
    ///
    /// Looks up the record of each key that signs mail from the domain, now or later, and reports errors: missing,
    /// invalid, a different key, in test mode, or too short. Keys in tables are not checked.
    Check(DkimCheckArgs),
}

/// `postrider dkim new`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  done
  1  the file already exists, or cannot be written
  2  the command line is wrong

Examples:
  postrider dkim new example.org s2026a --out /etc/postrider/s2026a.pem
  postrider dkim new example.org e2026a --out /etc/postrider/e2026a.pem --algorithm ed25519")]
pub(crate) struct DkimNewArgs {
    /// The signing domain.
    pub(crate) domain: String,
    /// The selector; use a new one for each key.
    pub(crate) selector: String,
    /// The private key file to write.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: PathBuf,
    /// The key type: RSA (2,048 bits), which every verifier supports, or Ed25519, which few support.
    #[arg(long, value_enum, default_value_t = KeyKind::Rsa)]
    pub(crate) algorithm: KeyKind,
}

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyKind {
    Rsa,
    Ed25519,
}

/// `postrider dkim check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  all records are correct
  1  a record is wrong, or its lookup failed
  2  the command line or the configuration is wrong, or no [[signer]] for the domain

Example:
  postrider dkim check example.org --config /etc/postrider.toml")]
pub(crate) struct DkimCheckArgs {
    /// The domain of From addresses.
    pub(crate) domain: String,
    /// For the signers and the resolver.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
