//! `postrider shaping`: what rules of shaping do.

use super::{ConfigFile, ServerArgs};
use clap::{ArgGroup, Args, Subcommand};
use mta::control::Lift;

/// `postrider shaping`.
#[derive(Debug, Args)]
pub(crate) struct ShapingArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: ShapingCommand,
}

/// What to do with what rules of shaping do.
#[derive(Debug, Subcommand)]
pub(crate) enum ShapingCommand {
    /// List what rules have set in force: for whom, since when, how long, and what was said
    List(ServerArgs),
    /// End what rules have set in force, and forget that it was
    ///
    /// All that match are lifted. If the provider says the same again, the rule takes effect again, as if for
    /// the first time.
    Lift(LiftArgs),
}

/// `postrider shaping lift`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).multiple(true).args(["rule", "provider", "source", "all"]))]
#[command(after_help = "\
Exit codes:
  0  lifted
  1  nothing such is in force

Examples:
  postrider shaping lift unusual-rate --provider google --config /etc/postrider.toml
  postrider shaping lift --all")]
pub(crate) struct LiftArgs {
    /// What the rule of this name has set.
    #[arg(value_name = "RULE")]
    pub(crate) rule: Option<String>,
    /// What rules of this provider have set.
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// What is set for this source.
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Everything.
    #[arg(long, conflicts_with_all = ["rule", "provider", "source"])]
    pub(crate) all: bool,
    /// The server.
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

impl LiftArgs {
    /// As the server is asked.
    pub(crate) fn lift(&self) -> Lift {
        let LiftArgs { rule, provider, source, all, .. } = self;
        match all {
            true => Lift::default(),
            false => {
                Lift { rule: rule.clone(), provider: provider.clone(), source: source.clone() }
            }
        }
    }
}

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
