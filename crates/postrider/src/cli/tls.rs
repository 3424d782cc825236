//! `postrider tls`: how connections are encrypted.

use super::ConfigFile;
use clap::{Args, Subcommand};

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
