//! Arguments of the `postrider queue` commands that list or change messages.

use super::ControlCommandArgs;
use super::selecting::{FilterArgs, SelectArgs, parse_id};
use clap::{Args, ValueHint};
use mail::MessageId;
use mta::commands::{
    ControlRequest, QueueFail, QueueHold, QueueList, QueueMove, QueueRelease, QueueRemove,
    QueueRetry, QueueShow, QueueSummary, QueueWhy,
};
use mta::overrides::Overrides;
use std::path::PathBuf;

/// `queue retry`.
#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

impl ControlCommandArgs for RetryArgs {
    fn request(&self) -> ControlRequest {
        QueueRetry { select: self.select.select() }.into()
    }
}

/// `queue hold`.
#[derive(Debug, Args)]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// The reason, shown by `queue show`.
    #[arg(long, value_name = "TEXT", default_value = "held by an operator")]
    pub(crate) reason: String,
}

impl ControlCommandArgs for HoldArgs {
    fn request(&self) -> ControlRequest {
        QueueHold { select: self.select.select(), reason: self.reason.clone() }.into()
    }
}

/// `queue release`.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Remove the recipients that this event log knows as delivered, failed or removed, then release the rest: for
    /// messages of a restored backup. Rotated files beside it are read, too.
    #[arg(long, value_name = "EVENTS", value_hint = ValueHint::FilePath)]
    pub(crate) not_in: Option<PathBuf>,
}

impl ControlCommandArgs for ReleaseArgs {
    fn request(&self) -> ControlRequest {
        QueueRelease { select: self.select.select() }.into()
    }
}

/// `queue remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

impl ControlCommandArgs for RemoveArgs {
    fn request(&self) -> ControlRequest {
        QueueRemove { select: self.select.select() }.into()
    }
}

/// `queue fail`.
#[derive(Debug, Args)]
pub(crate) struct FailArgs {
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// The reason for the sender, in the bounce.
    #[arg(long, value_name = "TEXT", default_value = "failed by an operator")]
    pub(crate) reason: String,
    /// The enhanced status code in the bounce (RFC 3463), beginning with 5.
    #[arg(long, value_name = "5.X.Y", default_value = "5.0.0")]
    pub(crate) status: String,
    /// Send no bounce. Events are still written.
    #[arg(long)]
    pub(crate) silent: bool,
}

impl ControlCommandArgs for FailArgs {
    fn request(&self) -> ControlRequest {
        QueueFail {
            select: self.select.select(),
            status: Some(self.status.clone()),
            reason: self.reason.clone(),
            silent: self.silent,
        }
        .into()
    }
}

/// `queue move`.
#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    #[command(flatten)]
    pub(crate) to: TargetArgs,
}

/// The changes of `queue move`. A property without an option stays unchanged.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct TargetArgs {
    /// Use the route of this name, regardless of the recipients' domains; "" restores the route of the configuration.
    #[arg(long, value_name = "NAME")]
    pub(crate) to_route: Option<String>,
    /// Send from the sources of this pool; "" restores the pool of the tenant or route.
    #[arg(long, value_name = "NAME")]
    pub(crate) to_pool: Option<String>,
    /// Assign this campaign; "" removes the campaign.
    #[arg(long, value_name = "NAME")]
    pub(crate) to_campaign: Option<String>,
    /// Assign this priority, from -9 to 9.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i8).range(-9..=9))]
    pub(crate) to_priority: Option<i8>,
    /// Undo all earlier moves: route, pool, campaign and priority are those of the message, its tenant and its route
    /// again.
    #[arg(long, conflicts_with_all = ["to_route", "to_pool", "to_campaign", "to_priority"])]
    pub(crate) undo: bool,
}

impl ControlCommandArgs for MoveArgs {
    fn request(&self) -> ControlRequest {
        let TargetArgs { to_route, to_pool, to_campaign, to_priority, undo } = &self.to;
        let mut to = Overrides::default();
        to.route.clone_from(to_route);
        to.pool.clone_from(to_pool);
        to.campaign.clone_from(to_campaign);
        to.priority = *to_priority;
        QueueMove { select: self.select.select(), to, undo: *undo }.into()
    }
}

/// `queue list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Maximum number of messages to list.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(mta::control::ITEMS_MAX)))]
    pub(crate) limit: u32,
    /// Print long texts in full. Default: on a terminal, lines are cut to its width.
    #[arg(long)]
    pub(crate) wide: bool,
}

impl ControlCommandArgs for ListArgs {
    fn request(&self) -> ControlRequest {
        QueueList { filter: self.filter.filter(), limit: self.limit }.into()
    }
}

/// `queue summary`.
#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Maximum number of lines per table.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) top: u32,
}

impl ControlCommandArgs for SummaryArgs {
    fn request(&self) -> ControlRequest {
        QueueSummary { filter: self.filter.filter(), top: self.top }.into()
    }
}

/// `queue show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The message's ID: 16 hexadecimal digits.
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub(crate) id: MessageId,
}

impl ControlCommandArgs for ShowArgs {
    fn request(&self) -> ControlRequest {
        QueueShow { id: self.id }.into()
    }
}

/// `queue why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The message's ID: 16 hexadecimal digits.
    #[arg(value_name = "ID", value_parser = parse_id)]
    pub(crate) id: MessageId,
    /// Also print the last failed SMTP dialogue with each of its next hops, without passwords.
    #[arg(long)]
    pub(crate) dialogue: bool,
}

impl ControlCommandArgs for WhyArgs {
    fn request(&self) -> ControlRequest {
        QueueWhy { id: self.id }.into()
    }
}
