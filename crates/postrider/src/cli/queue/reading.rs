//! `queue list`, `summary`, `show` and `why`.

use super::Ask;
use super::selecting::{FilterArgs, parse_id};
use clap::Args;
use mail::MessageId;
use mta::commands::{ControlRequest, QueueList, QueueShow, QueueSummary, QueueWhy};

/// `queue list`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// At most this many messages.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(mta::control::ITEMS_MAX)))]
    pub(crate) limit: u32,
}

impl Ask for ListArgs {
    fn request(&self) -> ControlRequest {
        QueueList { filter: self.filter.filter(), limit: self.limit }.into()
    }
}

/// `queue summary`.
#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    /// Which.
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Lines per table.
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) top: u32,
}

impl Ask for SummaryArgs {
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

impl Ask for ShowArgs {
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
}

impl Ask for WhyArgs {
    fn request(&self) -> ControlRequest {
        QueueWhy { id: self.id }.into()
    }
}
