//! Options of `postrider queue` that select messages and recipients.

use ::classes::ReplyClass;
use clap::{Args, ValueEnum};
use mail::MessageId;
use mta::control::{Filter, RecipientState, Select};
use std::time::Duration;

/// A filter of recipients: all given options must match.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FilterArgs {
    /// Only recipients in this domain.
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
    /// Only messages from this sender; `<>` for DSNs and other messages with the null sender.
    #[arg(long, value_name = "ADDR")]
    pub(crate) sender: Option<String>,
    /// Only this recipient.
    #[arg(long, value_name = "ADDR")]
    pub(crate) recipient: Option<String>,
    /// Only messages from this client: its IP address or EHLO name.
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: Option<String>,
    /// Only messages of this login: the canonical name of the authenticated user.
    #[arg(long, value_name = "LOGIN")]
    pub(crate) login: Option<String>,
    /// Only recipients in this state.
    #[arg(long, value_enum)]
    pub(crate) state: Option<StateArg>,
    /// Only recipients with the route of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) route: Option<String>,
    /// Only recipients with this next hop, or with a next hop that includes this host.
    #[arg(long, value_name = "HOST")]
    pub(crate) next_hop: Option<String>,
    /// Only mail of this tenant; "" for mail without a tenant.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Only mail of this campaign.
    #[arg(long, value_name = "NAME")]
    pub(crate) campaign: Option<String>,
    /// Only mail sent from this pool: the pool of the message, else of its tenant or its route.
    #[arg(long, value_name = "NAME")]
    pub(crate) pool: Option<String>,
    /// Only recipients with hosts of this provider, if the hosts are known already.
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Only recipients to be sent from this source, if a source is chosen already.
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Only recipients with this text in the last failure or in the reason of the hold.
    #[arg(long, value_name = "WORDS")]
    pub(crate) failure: Option<String>,
    /// Only recipients with a reply of this class as last failure, for example rate_limited.
    #[arg(long, value_name = "CLASS")]
    pub(crate) class: Option<ReplyClass>,
    /// Only messages of at least this age, for example 2h.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) older_than: Option<Duration>,
    /// Only messages younger than this, for example 2h.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) younger_than: Option<Duration>,
}

impl FilterArgs {
    pub(super) fn filter(&self) -> Filter {
        let ms = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        Filter {
            domain: self.domain.clone(),
            sender: self.sender.as_deref().map(reverse_path),
            recipient: self.recipient.as_deref().map(reverse_path),
            client: self.client.clone(),
            login: self.login.clone(),
            state: self.state.map(RecipientState::from),
            route: self.route.clone(),
            next_hop: self.next_hop.clone(),
            tenant: self.tenant.clone(),
            campaign: self.campaign.clone(),
            pool: self.pool.clone(),
            provider: self.provider.clone(),
            source: self.source.clone(),
            reason: self.failure.clone(),
            class: self.class,
            older_than_ms: self.older_than.map(ms),
            younger_than_ms: self.younger_than.map(ms),
            recipients: Vec::new(),
        }
    }
}

/// The selection for a change. There is no default: all messages need an explicit `--all`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SelectArgs {
    /// The message's ID: 16 hexadecimal digits.
    #[arg(value_name = "ID", value_parser = parse_id, conflicts_with_all = OTHERWISE)]
    #[arg(required_unless_present_any = OTHERWISE)]
    pub(crate) id: Option<MessageId>,
    /// All messages.
    #[arg(long, conflicts_with_all = &OTHERWISE[1..])]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// Alternatives to an ID.
const OTHERWISE: [&str; 18] = [
    "all",
    "domain",
    "sender",
    "recipient",
    "client",
    "login",
    "state",
    "route",
    "next_hop",
    "tenant",
    "campaign",
    "pool",
    "provider",
    "source",
    "failure",
    "class",
    "older_than",
    "younger_than",
];

/// States of a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StateArg {
    /// Waits for its retry time or for the next-hop lookup
    Scheduled,
    /// Due for delivery, waits for a connection
    Ready,
    /// A delivery attempt is in progress
    InFlight,
    /// On hold until released
    Held,
    /// Failed; the bounce waits for capacity in the spool
    Unreported,
}

impl From<StateArg> for RecipientState {
    fn from(state: StateArg) -> RecipientState {
        match state {
            StateArg::Scheduled => RecipientState::Scheduled,
            StateArg::Ready => RecipientState::Ready,
            StateArg::InFlight => RecipientState::InFlight,
            StateArg::Held => RecipientState::Held,
            StateArg::Unreported => RecipientState::Unreported,
        }
    }
}

impl SelectArgs {
    pub(super) fn select(&self) -> Select {
        match self.id {
            Some(id) => Select::Id(id),
            None if self.all => Select::All,
            None => Select::Filter(Box::new(self.filter.filter())),
        }
    }
}

/// Parses a sender with or without angle brackets.
fn reverse_path(text: &str) -> String {
    let bare = text.strip_prefix('<').and_then(|t| t.strip_suffix('>')).unwrap_or(text);
    bare.to_owned()
}

pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    config::quantity::parse_duration(text).map_err(str::to_owned)
}

pub(in crate::cli) fn parse_id(text: &str) -> Result<MessageId, String> {
    text.parse().map_err(|_| "an ID has 16 hexadecimal digits".to_owned())
}
