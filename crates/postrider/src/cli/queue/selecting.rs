//! Which queued mail a command is about.

use ::classes::ReplyClass;
use clap::{Args, ValueEnum};
use mail::MessageId;
use mta::control::{Filter, RecipientState, Select};
use std::time::Duration;

/// Which recipients a command is about: all that is given must match.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FilterArgs {
    /// Only recipients in this domain.
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
    /// Only messages from this sender; `<>` for reports.
    #[arg(long, value_name = "ADDR")]
    pub(crate) sender: Option<String>,
    /// Only this recipient.
    #[arg(long, value_name = "ADDR")]
    pub(crate) recipient: Option<String>,
    /// Only messages that this client handed in: its IP address or EHLO name.
    #[arg(long, value_name = "CLIENT")]
    pub(crate) client: Option<String>,
    /// Only recipients in this state.
    #[arg(long, value_enum)]
    pub(crate) state: Option<StateArg>,
    /// Only recipients whose route has this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) route: Option<String>,
    /// Only recipients with this next hop, or with this host in it.
    #[arg(long, value_name = "HOST")]
    pub(crate) next_hop: Option<String>,
    /// Only mail of this tenant; "" for nobody's.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Only mail with this campaign.
    #[arg(long, value_name = "NAME")]
    pub(crate) campaign: Option<String>,
    /// Only mail that is sent from this pool: its own, or else its tenant's or its route's.
    #[arg(long, value_name = "NAME")]
    pub(crate) pool: Option<String>,
    /// Only recipients whose hosts are this provider's, as far as that is known.
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Only recipients that are sent to from this source, as far as that was chosen.
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
    /// Only recipients whose last failure, or reason of hold, has these words.
    #[arg(long, value_name = "WORDS")]
    pub(crate) failure: Option<String>,
    /// Only recipients whose last failure is a reply of this class, such as rate_limited.
    #[arg(long, value_name = "CLASS")]
    pub(crate) class: Option<ReplyClass>,
    /// Only messages that are at least so old, such as 2h.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) older_than: Option<Duration>,
    /// Only messages that are younger than this.
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
        }
    }
}

/// What a change is about. There is no default: "all" must be said.
#[derive(Clone, Debug, Args)]
pub(crate) struct SelectArgs {
    /// The message's ID: 16 hexadecimal digits.
    #[arg(value_name = "ID", value_parser = parse_id, conflicts_with_all = OTHERWISE)]
    #[arg(required_unless_present_any = OTHERWISE)]
    pub(crate) id: Option<MessageId>,
    /// All messages.
    #[arg(long, conflicts_with_all = &OTHERWISE[1..])]
    pub(crate) all: bool,
    /// Or those that match.
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// What may be said instead of an ID.
const OTHERWISE: [&str; 17] = [
    "all",
    "domain",
    "sender",
    "recipient",
    "client",
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
    /// Waits for its time, or for its route to be found
    Scheduled,
    /// May go, and waits for its turn
    Ready,
    /// Is being tried
    InFlight,
    /// Waits for an operator
    Held,
    /// Was given up, and the report about it waits for room in the spool
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

/// A sender as it is written, with or without angle brackets.
fn reverse_path(text: &str) -> String {
    let bare = text.strip_prefix('<').and_then(|t| t.strip_suffix('>')).unwrap_or(text);
    bare.to_owned()
}

pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    config::quantity::parse_duration(text).map_err(str::to_owned)
}

pub(super) fn parse_id(text: &str) -> Result<MessageId, String> {
    text.parse().map_err(|_| "an ID has 16 hexadecimal digits".to_owned())
}
