//! `postrider classify`: what a reply means.

use super::ConfigFile;
use clap::Args;

/// `postrider classify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes:
  0  a rule matches
  1  none does
  2  the command line or the configuration is wrong, or REPLY is no refusal

Examples:
  postrider classify '550 5.1.1 <jo@example.org>: Recipient address rejected: User unknown'
  postrider classify --mx gmail-smtp-in.l.google.com '421 4.7.0 Try again later, closing connection.'
  postrider classify --provider yahoo --config /etc/postrider.toml --json '554 5.7.9 Message not accepted'")]
pub(crate) struct ClassifyArgs {
    /// The reply, with its code; `-` reads it from standard input. Several lines are one reply.
    #[arg(value_name = "REPLY")]
    pub(crate) reply: String,
    /// Who said it, as rules name providers.
    #[arg(long, value_name = "NAME", conflicts_with = "mx")]
    pub(crate) provider: Option<String>,
    /// The host that said it, by which rules know the provider.
    #[arg(long, value_name = "HOST")]
    pub(crate) mx: Option<String>,
    /// Whose rules go first.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
