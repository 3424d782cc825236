//! `queue suspend`, `resume` and `trust-clock`.

use super::ControlCommandArgs;
use super::selecting::parse_time;
use clap::Args;
use mail::Wall;
use mta::commands::{ControlRequest, QueueResume, QueueSuspend, TrustClock};
use mta::control::Scope;
use std::time::Duration;

/// `queue suspend`.
#[derive(Debug, Args)]
pub(crate) struct SuspendArgs {
    /// What.
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// Why, for whoever looks at the queue later.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    /// It ends by itself after this time, such as 2h.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, conflicts_with = "until")]
    pub(crate) lasting: Option<Duration>,
    /// It ends by itself then, such as 2026-11-22T18:00:00.000Z.
    #[arg(long, value_name = "WHEN", value_parser = parse_wall)]
    pub(crate) until: Option<Wall>,
}

impl ControlCommandArgs for SuspendArgs {
    fn request(&self) -> ControlRequest {
        let ends = self.lasting.map(|lasting| crate::world::clock::wall_now().after(lasting));
        let (scope, reason) = (self.scope.scope(), self.reason.clone());
        QueueSuspend { scope, reason, until: ends.or(self.until) }.into()
    }
}

/// `queue resume`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// What.
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
}

impl ControlCommandArgs for ResumeArgs {
    fn request(&self) -> ControlRequest {
        QueueResume { scope: self.scope.scope() }.into()
    }
}

/// `queue trust-clock`.
#[derive(Debug, Args)]
pub(crate) struct TrustClockArgs {}

impl ControlCommandArgs for TrustClockArgs {
    fn request(&self) -> ControlRequest {
        TrustClock {}.into()
    }
}

fn parse_wall(text: &str) -> Result<Wall, String> {
    mta::control::text::parse_wall(text)
        .ok_or_else(|| "a time looks like 2026-11-22T18:00:00.000Z".to_owned())
}

/// What is suspended or resumed: the mail to which all apply that are given.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct ScopeArgs {
    /// All delivery.
    #[arg(long, conflicts_with_all = PARTS)]
    pub(crate) all: bool,
    /// Mail for this domain.
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
    /// Mail that takes the route of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) route: Option<String>,
    /// Mail to this next hop, or to all that have this host.
    #[arg(long, value_name = "HOST")]
    pub(crate) next_hop: Option<String>,
    /// Mail to hosts of this provider, as the shaping files know it.
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Mail from the source of this name; other sources of its pools take it over.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["domain", "tenant", "campaign"])]
    pub(crate) source: Option<String>,
    /// Mail of the tenant of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Mail with this campaign.
    #[arg(long, value_name = "NAME")]
    pub(crate) campaign: Option<String>,
}

const PARTS: [&str; 7] =
    ["domain", "route", "next_hop", "provider", "source", "tenant", "campaign"];

impl ScopeArgs {
    pub(super) fn scope(&self) -> Scope {
        Scope {
            domain: self.domain.clone(),
            route: self.route.clone(),
            next_hop: self.next_hop.clone(),
            provider: self.provider.clone(),
            source: self.source.clone(),
            tenant: self.tenant.clone(),
            campaign: self.campaign.clone(),
        }
    }
}
