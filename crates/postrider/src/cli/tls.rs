//! Arguments of `postrider tls` and `postrider auth`.

use super::{ConfigFile, Sender, parse_sender};
use clap::{Args, Subcommand, ValueHint};
use std::net::IpAddr;
use std::path::PathBuf;

/// `postrider tls`.
#[derive(Debug, Args)]
pub(crate) struct TlsArgs {
    #[command(subcommand)]
    pub(crate) command: TlsCommand,
}

/// Commands of `postrider tls`.
#[derive(Debug, Subcommand)]
pub(crate) enum TlsCommand {
    /// Show the TLS records of a domain's MX hosts, and the resulting TLS policy
    ///
    /// Looks up the MX records of a domain, their DNSSEC status and the TLSA records of each host, and fetches the
    /// domain's MTA-STS policy. Then prints for each host how the route of the domain would encrypt mail, and why, or
    /// why it would skip the host. Connects to no MX host.
    Check(TlsCheckArgs),
}

/// `postrider tls check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  mail could be sent to at least one host, as far as visible without a connection
  1  all hosts would be skipped, or the domain has no hosts
  2  the command line or the configuration is wrong, or the domain takes no route by MX

Example:
  postrider tls check example.org --config /etc/postrider.toml")]
pub(crate) struct TlsCheckArgs {
    /// The recipients' domain.
    pub(crate) domain: String,
    /// For the resolver and the route.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postrider auth`.
#[derive(Debug, Args)]
pub(crate) struct AuthArgs {
    #[command(subcommand)]
    pub(crate) command: AuthCommand,
}

/// Commands of `postrider auth`.
#[derive(Debug, Subcommand)]
pub(crate) enum AuthCommand {
    /// Authenticate a message in a file
    ///
    /// Runs the SPF, DKIM, DMARC and ARC checks of a listener on a message in a file, and prints the results and the
    /// DNS records used. Nothing is sent or stored.
    Check(AuthCheckArgs),
}

/// `postrider auth check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --client-ip SPF cannot be checked, and DMARC goes by DKIM alone.

Exit codes:
  0  checked, with any result
  1  the file cannot be read
  2  the command line or the configuration is wrong

Examples:
  postrider auth check message.eml
  postrider auth check message.eml --client-ip 192.0.2.1 --helo mx.example.com \\
      --from someone@example.com --json")]
pub(crate) struct AuthCheckArgs {
    /// The message as received, with all header fields.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) message: PathBuf,
    /// The IP address of the client that sent the message.
    #[arg(long, value_name = "IP")]
    pub(crate) client_ip: Option<IpAddr>,
    /// The client's HELO or EHLO name.
    #[arg(long, value_name = "NAME", requires = "client_ip", default_value = "")]
    pub(crate) helo: String,
    /// The sender's address (MAIL FROM). Default: the null sender, `<>`.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_sender, requires = "client_ip")]
    #[arg(default_value = "<>", hide_default_value = true, value_hint = ValueHint::EmailAddress)]
    pub(crate) from: Sender,
    /// For the name servers.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
