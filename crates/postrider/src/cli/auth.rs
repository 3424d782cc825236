//! `postrider auth`: who sends.

use super::{ConfigFile, parse_mailbox};
use clap::{Args, Subcommand, ValueHint};
use mail::Mailbox;
use std::net::IpAddr;
use std::path::PathBuf;

/// `postrider auth`.
#[derive(Debug, Args)]
pub(crate) struct AuthArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: AuthCommand,
}

/// What to do about who sends.
#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Check who sent a message
    ///
    /// Makes all checks that a listener can make of a message in a file, and shows what comes of them and
    /// the DNS records that led there. Nothing is sent and nothing kept.
    Check(AuthCheckArgs),
}

/// `postrider auth check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --client-ip SPF can't be checked, and DMARC goes by DKIM alone.

Exit codes:
  0  checked, whatever came of it
  1  the file can't be read
  2  the command line or the configuration is wrong

Examples:
  postrider auth check message.eml
  postrider auth check message.eml --client-ip 192.0.2.1 --helo mx.example.com \\
      --from someone@example.com --json")]
pub(crate) struct AuthCheckArgs {
    /// The message, as it came: with all its header fields.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) message: PathBuf,
    /// The address of the client that brought it.
    #[arg(long, value_name = "IP")]
    pub(crate) client_ip: Option<IpAddr>,
    /// The name that the client gave itself.
    #[arg(long, value_name = "NAME", requires = "client_ip", default_value = "")]
    pub(crate) helo: String,
    /// The sender's address (MAIL FROM). Without it: none, `<>`.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_mailbox, requires = "client_ip")]
    #[arg(value_hint = ValueHint::EmailAddress)]
    pub(crate) from: Option<Mailbox>,
    /// The file, which says which name servers are asked.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
