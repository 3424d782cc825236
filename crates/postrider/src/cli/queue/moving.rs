//! `queue move`.

use super::Ask;
use super::selecting::SelectArgs;
use clap::Args;
use mta::commands::{ControlRequest, QueueMove};
use mta::overrides::Overrides;

/// `queue move`.
#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Where to.
    #[command(flatten)]
    pub(crate) to: TargetArgs,
}

/// What is chosen; what is left out stays as it is.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct TargetArgs {
    /// By the route of this name, whatever the recipients' domains; "" by the configuration again.
    #[arg(long, value_name = "NAME")]
    pub(crate) to_route: Option<String>,
    /// From the sources of this pool; "" from those of its tenant or route.
    #[arg(long, value_name = "NAME")]
    pub(crate) to_pool: Option<String>,
    /// With the mail of this campaign; "" with none.
    #[arg(long, value_name = "NAME")]
    pub(crate) to_campaign: Option<String>,
    /// With this priority, from -9 to 9.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = clap::value_parser!(i8).range(-9..=9))]
    pub(crate) to_priority: Option<i8>,
    /// As the messages, their tenants and routes say: all that was chosen before is taken back.
    #[arg(long, conflicts_with_all = ["to_route", "to_pool", "to_campaign", "to_priority"])]
    pub(crate) undo: bool,
}

impl Ask for MoveArgs {
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
