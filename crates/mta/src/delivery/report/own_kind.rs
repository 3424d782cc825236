//! Reports of a message's own kind, which its channel makes.

use crate::message::Message;
use bytes::Bytes;
use config::Config;
use mail::dsn::RecipientReport;
use mail::{Mailbox, MessageId, Priority, Wall};

/// What a report is to say.
#[derive(Debug)]
pub struct ReportQuestion<'a> {
    /// The message that is reported on.
    pub original: &'a Message,
    /// The report's own id.
    pub report_id: MessageId,
    pub now: Wall,
    pub config: &'a Config,
    /// What became of recipients, by their indexes.
    pub recipients: &'a [(u32, RecipientReport<'a>)],
    /// The content of the message, or how it begins, where it is long.
    pub content: &'a [u8],
}

/// A report that a channel made.
#[derive(Debug)]
pub struct OwnReport {
    /// Who gets it.
    pub to: Mailbox,
    /// What is kept with it, under [`spool::record::tag::X400`].
    pub kept: Bytes,
    pub content: Vec<u8>,
    pub priority: Option<Priority>,
}
