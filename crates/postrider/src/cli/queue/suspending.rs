//! `queue suspend`, `resume` and `trust-clock`.

use super::Ask;
use super::scope::ScopeArgs;
use super::selecting::parse_time;
use clap::Args;
use mail::Wall;
use mta::commands::{ControlRequest, QueueResume, QueueSuspend, TrustClock};
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

impl Ask for SuspendArgs {
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

impl Ask for ResumeArgs {
    fn request(&self) -> ControlRequest {
        QueueResume { scope: self.scope.scope() }.into()
    }
}

/// `queue trust-clock`.
#[derive(Debug, Args)]
pub(crate) struct TrustClockArgs {}

impl Ask for TrustClockArgs {
    fn request(&self) -> ControlRequest {
        TrustClock {}.into()
    }
}

fn parse_wall(text: &str) -> Result<Wall, String> {
    mta::control::text::parse_wall(text)
        .ok_or_else(|| "a time looks like 2026-11-22T18:00:00.000Z".to_owned())
}
