//! Arguments of `postrider search`, `trace` and `events`.

use super::queue::parse_id;
use clap::{Args, ValueHint};
use mail::MessageId;
use std::path::PathBuf;

/// Terms of `search` and `events`, for the help of both.
const TERMS: &str = concat!(
    "Terms, which must all match:\n",
    "  to:ADDRESS       the recipient; to:example.org for all of a domain\n",
    "  from:ADDRESS     the sender; from:<> for bounces\n",
    "  ADDRESS          the recipient or the sender\n",
    "  id:ID, ID        the message\n",
    "  client:CLIENT    the client: its address, name or HELO argument\n",
    "  login:USER       the authenticated user\n",
    "  message-id:ID    the Message-ID field, if [events] headers includes it\n",
    "  subject:TEXT     a part of the Subject field, if [events] headers includes it\n",
    "  status:STATUS    queued, deferred, delivered, relayed, failed, expired, held, removed,\n",
    "                   discarded or refused\n",
    "  route:NAME       the route of an attempt\n",
    "  next-hop:HOST    the next hop of an attempt, by name or address\n",
    "  since:TIME       not older: 2d, 1h30m, 2026-11-21 or 2026-11-21T10:11:12Z (UTC)\n",
    "  until:TIME       not newer",
);

/// Exit codes of `search` and `trace`.
const FOUND: &str = "\
Exit codes:
  0  found
  1  nothing was found, or a file could not be read
  2  the command line or the configuration is wrong";

/// The event log, and the server behind it.
#[derive(Clone, Debug, Args)]
pub(crate) struct HistoryArgs {
    /// The server's configuration file. Default: as for `postrider serve`.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// An event log to read instead of the server's own. No server is asked.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "config")]
    pub(crate) events: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `postrider search`.
#[derive(Debug, Args)]
#[command(after_help = format!("{TERMS}

`since` and `until` are about the time of acceptance, `status` about the present state.

{FOUND}

Examples:
  postrider search to:ann@example.org since:2d
  postrider search 'from:news@example.org status:failed since:1h'
  postrider search client:192.0.2.7 status:refused --json"))]
pub(crate) struct SearchArgs {
    /// The terms, as separate arguments or in one.
    #[arg(value_name = "TERM", required = true)]
    pub(crate) terms: Vec<String>,
    /// Maximum number of lines; the newest are printed.
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
}

/// `postrider trace`.
#[derive(Debug, Args)]
#[command(after_help = format!("{FOUND}

Examples:
  postrider trace 000100000000a3f7
  postrider trace 000100000000a3f7 --json"))]
pub(crate) struct TraceArgs {
    /// The message's ID: 16 hexadecimal digits.
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub(crate) id: MessageId,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
}

/// `postrider events`.
#[derive(Debug, Args)]
#[command(after_help = format!("{TERMS}

All terms must match the same event. `since` and `until` are about the time of the event, `status`
about its kind.

Examples:
  postrider events since:1h to:example.org
  postrider events --follow status:deferred
  postrider events --follow --json"))]
pub(crate) struct EventsArgs {
    /// The terms, as separate arguments or in one. Default: all events.
    #[arg(value_name = "TERM")]
    pub(crate) terms: Vec<String>,
    /// Wait for further events. Without `since:`, earlier events are not printed.
    #[arg(short, long)]
    pub(crate) follow: bool,
    #[command(flatten)]
    pub(crate) history: HistoryArgs,
}
