//! `postrider tls`: how connections are encrypted.

use super::{ConfigFile, parse_mailbox};
use clap::{Args, Subcommand, ValueHint};
use mail::Mailbox;
use std::net::IpAddr;
use std::path::PathBuf;

/// `postrider tls`.
#[derive(Debug, Args)]
pub(crate) struct TlsArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: TlsCommand,
}

/// What to do about TLS.
#[derive(Debug, Subcommand)]
pub(crate) enum TlsCommand {
    /// Show what is said of TLS to the hosts of a domain, and what comes of it
    ///
    /// Asks the DNS for the MX records of a domain, whether DNSSEC vouches for them, and for the TLSA
    /// records of each host, and fetches the domain's MTA-STS policy; then shows for each host how mail
    /// would be encrypted by the route that the domain takes, and why, or why the host would be left out.
    /// No host is connected to.
    Check(TlsCheckArgs),
}

/// `postrider tls check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  mail could be sent to one of the hosts, as far as is seen without asking it
  1  all of them would be left out, or there are none
  2  the command line or the configuration is wrong, or the domain takes no route by MX

Example:
  postrider tls check example.org --config /etc/postrider.toml")]
pub(crate) struct TlsCheckArgs {
    /// The domain of recipients.
    pub(crate) domain: String,
    /// The configuration, for the resolver and the route.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Show it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

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
