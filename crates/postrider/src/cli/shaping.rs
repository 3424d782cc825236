//! Arguments of `postrider shaping` and `postrider classify`.

use super::{ConfigFile, ServerArgs};
use clap::{ArgGroup, Args, Subcommand};
use mta::control::Lift;

/// `postrider shaping`.
#[derive(Debug, Args)]
pub(crate) struct ShapingArgs {
    #[command(subcommand)]
    pub(crate) command: ShapingCommand,
}

/// Commands of `postrider shaping`.
#[derive(Debug, Subcommand)]
pub(crate) enum ShapingCommand {
    /// List effects of rules now in force: provider, source, start, end and the reply that caused each
    List(ServerArgs),
    /// End effects of rules, and forget them
    ///
    /// Lifts all effects that match. After another matching reply of the provider, the rule takes effect as if for the
    /// first time.
    Lift(LiftArgs),
}

/// `postrider shaping lift`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).multiple(true).args(["rule", "provider", "source", "all"]))]
#[command(after_help = "\
Exit codes:
  0  lifted
  1  effect not found

Examples:
  postrider shaping lift unusual-rate --provider google --config /etc/postrider.toml
  postrider shaping lift --all")]
pub(crate) struct LiftArgs {
    /// Effects of the rule of this name.
    #[arg(value_name = "RULE")]
    pub(crate) rule: Option<String>,
    /// Effects of rules of this provider.
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Effects on this source.
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// All effects.
    #[arg(long, conflicts_with_all = ["rule", "provider", "source"])]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

impl LiftArgs {
    /// The selection for the control request.
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
  2  the command line or the configuration is wrong, or REPLY is not a failure

Examples:
  postrider classify '550 5.1.1 <jo@example.org>: Recipient address rejected: User unknown'
  postrider classify --mx gmail-smtp-in.l.google.com '421 4.7.0 Try again later, closing connection.'
  postrider classify --provider yahoo --config /etc/postrider.toml --json '554 5.7.9 Message not accepted'")]
pub(crate) struct ClassifyArgs {
    /// The reply, with its code; `-` reads it from standard input. Several lines form one reply.
    #[arg(value_name = "REPLY")]
    pub(crate) reply: String,
    /// The provider that sent the reply, as named in the rules.
    #[arg(long, value_name = "NAME", conflicts_with = "mx")]
    pub(crate) provider: Option<String>,
    /// The host that sent the reply, from which the rules determine the provider.
    #[arg(long, value_name = "HOST")]
    pub(crate) mx: Option<String>,
    /// For its rules, which take precedence over the built-in ones.
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
