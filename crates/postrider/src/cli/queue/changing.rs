//! `queue retry`, `hold`, `release`, `remove` and `fail`.

use super::Ask;
use super::selecting::SelectArgs;
use clap::Args;
use mta::commands::{ControlRequest, QueueFail, QueueHold, QueueRelease, QueueRemove, QueueRetry};

/// `queue retry`.
#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

impl Ask for RetryArgs {
    fn request(&self) -> ControlRequest {
        QueueRetry { select: self.select.select() }.into()
    }
}

/// `queue hold`.
#[derive(Debug, Args)]
pub(crate) struct HoldArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// Why, for whoever looks at the queue later.
    #[arg(long, value_name = "TEXT", default_value = "held by an operator")]
    pub(crate) reason: String,
}

impl Ask for HoldArgs {
    fn request(&self) -> ControlRequest {
        QueueHold { select: self.select.select(), reason: self.reason.clone() }.into()
    }
}

/// `queue release`.
#[derive(Debug, Args)]
pub(crate) struct ReleaseArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

impl Ask for ReleaseArgs {
    fn request(&self) -> ControlRequest {
        QueueRelease { select: self.select.select() }.into()
    }
}

/// `queue remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) select: SelectArgs,
}

impl Ask for RemoveArgs {
    fn request(&self) -> ControlRequest {
        QueueRemove { select: self.select.select() }.into()
    }
}

/// `queue fail`.
#[derive(Debug, Args)]
pub(crate) struct FailArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) select: SelectArgs,
    /// What the sender is told.
    #[arg(long, value_name = "TEXT", default_value = "given up by an operator")]
    pub(crate) reason: String,
    /// The enhanced status code of the report (RFC 3463), which begins with 5.
    #[arg(long, value_name = "5.X.Y", default_value = "5.0.0")]
    pub(crate) status: String,
    /// Tell nobody. There are events all the same.
    #[arg(long)]
    pub(crate) silent: bool,
}

impl Ask for FailArgs {
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
