//! Arguments of `postrider queue suspend`, `resume` and `trust-clock`.

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
    #[command(flatten)]
    pub(crate) scope: ScopeArgs,
    /// The reason, shown by `status`.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) reason: String,
    /// End the suspension automatically after this time, for example 2h.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, conflicts_with = "until")]
    pub(crate) lasting: Option<Duration>,
    /// End the suspension automatically at this time, for example 2026-11-22T18:00:00.000Z.
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

/// The scope of a suspension: mail that matches all given options.
#[derive(Clone, Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct ScopeArgs {
    /// All delivery.
    #[arg(long, conflicts_with_all = PARTS)]
    pub(crate) all: bool,
    /// Mail for this domain.
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
    /// Mail on the route of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) route: Option<String>,
    /// Mail to this next hop, or to every next hop that includes this host.
    #[arg(long, value_name = "HOST")]
    pub(crate) next_hop: Option<String>,
    /// Mail to hosts of this provider, as named in the shaping files.
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// Mail from the source of this name. Other sources of its pools send this mail instead.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["domain", "tenant", "campaign"])]
    pub(crate) source: Option<String>,
    /// Mail of the tenant of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Mail of this campaign.
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
