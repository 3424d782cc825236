//! Delivery status notifications (RFC 3461, RFC 3464, RFC 6522, RFC 6533).
//!
//! [`Report::compose`] makes the content of a report from what this server knows; [`parse`] reads
//! what another server reports.

mod compose;
mod original;
mod text;
pub mod xtext;

use crate::{EnhancedStatus, Failure, Mailbox, MessageId, Recipient, Reply, Wall, header};
use memchr::memchr;
pub use original::Original;
use std::time::Duration;

/// Recipients that a report names at most. More are counted only: who wrote to a thousand needs no
/// report of a megabyte, and nobody should be able to have one sent to a stranger.
pub const RECIPIENTS_MAX: usize = 100;

/// Bytes of a header that are returned at most.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a message that is returned in full at most.
pub const FULL_BYTES_MAX: usize = 64 * 1024;

/// No report is longer than this, whatever peers said and however long addresses are: it fits,
/// with the settle that it reports, into the smallest segment a spool may have.
pub const REPORT_BYTES_MAX: usize = 640 * 1024;

/// Longest line of a message, its CRLF not counted (RFC 5322 §2.1.1).
const LINE_BYTES_MAX: usize = 998;

/// A report to the sender of a message about some of its recipients, none of whom need have the
/// same outcome.
///
/// Whether a report is due at all (RFC 3461 §5.2, and none for a null reverse-path) is the
/// caller's decision.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// This server's name.
    pub hostname: &'a str,
    /// The message that is reported on.
    pub id: MessageId,
    /// The id of the report itself: makes its Message-ID and its MIME boundary.
    pub report_id: MessageId,
    /// The reverse-path of the message, to which the report goes.
    pub to: &'a Mailbox,
    /// ENVID= as it came, still xtext-encoded.
    pub envid: Option<&'a str>,
    /// The message came with SMTPUTF8.
    pub smtputf8: bool,
    /// When the message was accepted.
    pub arrived: Wall,
    /// The date of the report.
    pub now: Wall,
    /// At least one; of more than [`RECIPIENTS_MAX`] the first are named (those that failed before
    /// the others), and the rest is counted.
    pub recipients: &'a [RecipientReport<'a>],
    /// What is returned of the message. RET=FULL asks for all of it in reports of a failure only;
    /// others return the header (RFC 3461 §4.3).
    pub original: Original<'a>,
}

/// What became of one recipient.
#[derive(Clone, Copy, Debug)]
pub struct RecipientReport<'a> {
    /// As it stands in the envelope.
    pub recipient: &'a Recipient,
    /// Its fate.
    pub outcome: DsnOutcome<'a>,
    /// When delivery was last tried, if it was.
    pub last_attempt: Option<Wall>,
}

/// The fate of a recipient, in the words of RFC 3464 §2.3.3.
#[derive(Clone, Copy, Debug)]
pub enum DsnOutcome<'a> {
    /// Given up.
    Failed(&'a Failure),
    /// Given up because time ran out.
    Expired {
        /// Why the last attempt did not succeed.
        failure: &'a Failure,
        /// For how long it was tried.
        after: Duration,
    },
    /// Not yet delivered.
    Delayed {
        /// Why the last attempt did not succeed.
        failure: &'a Failure,
        /// When it will be given up.
        retry_until: Wall,
    },
    /// In the recipient's mailbox.
    Delivered(Success<'a>),
    /// Passed on to a server that doesn't know DSNs.
    Relayed(Success<'a>),
    /// Passed on to the members of a list or to several aliases.
    Expanded,
}

/// How a recipient was delivered or relayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Success<'a> {
    /// Who took it, as in [`crate::Culprit::Peer`]; `None` when this server delivered itself.
    pub peer: Option<&'a str>,
    /// What the peer said.
    pub reply: Option<&'a Reply>,
}

impl<'a> DsnOutcome<'a> {
    /// The value of the Action field (RFC 3464 §2.3.3).
    #[must_use]
    pub fn action(&self) -> &'static str {
        match self {
            DsnOutcome::Failed(_) | DsnOutcome::Expired { .. } => "failed",
            DsnOutcome::Delayed { .. } => "delayed",
            DsnOutcome::Delivered(_) => "delivered",
            DsnOutcome::Relayed(_) => "relayed",
            DsnOutcome::Expanded => "expanded",
        }
    }

    /// The value of the Status field (RFC 3464 §2.3.4). A failure keeps its class 4 when only time
    /// ran out, so that the sender's program can tell.
    #[must_use]
    pub fn status(&self) -> EnhancedStatus {
        match self {
            DsnOutcome::Failed(failure) | DsnOutcome::Expired { failure, .. } => failure.status,
            DsnOutcome::Delayed { failure, .. } => EnhancedStatus { class: 4, ..failure.status },
            DsnOutcome::Delivered(success) | DsnOutcome::Relayed(success) => success
                .reply
                .and_then(|reply| reply.enhanced)
                .filter(|status| status.class == 2)
                .unwrap_or(EnhancedStatus::new(2, 0, 0)),
            DsnOutcome::Expanded => EnhancedStatus::new(2, 0, 0),
        }
    }

    fn failure(&self) -> Option<&'a Failure> {
        match *self {
            DsnOutcome::Failed(failure)
            | DsnOutcome::Expired { failure, .. }
            | DsnOutcome::Delayed { failure, .. } => Some(failure),
            _ => None,
        }
    }

    fn success(&self) -> Option<Success<'a>> {
        match *self {
            DsnOutcome::Delivered(success) | DsnOutcome::Relayed(success) => Some(success),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;

/// The body of a message/delivery-status (or message/global-delivery-status) part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryStatus {
    /// What concerns the message as a whole.
    pub message: FieldGroup,
    /// One for each recipient.
    pub recipients: Vec<FieldGroup>,
}

/// Fields that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldGroup {
    /// Names as they were written and values in one line, in their order.
    pub fields: Vec<(String, String)>,
}

impl FieldGroup {
    /// The value of the first field called `name`, in any case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        Some(&field.1)
    }

    /// The value of a field of the form `type; text`, such as Final-Recipient, in its two parts.
    #[must_use]
    pub fn typed(&self, name: &str) -> Option<(&str, &str)> {
        let (kind, text) = self.get(name)?.split_once(';')?;
        Some((kind.trim(), text.trim()))
    }

    /// The status of a recipient; what follows it (a comment) is ignored.
    #[must_use]
    pub fn status(&self) -> Option<EnhancedStatus> {
        EnhancedStatus::parse_prefix(self.get("Status")?).map(|(status, _)| status)
    }
}

/// Reads a delivery status part. Never fails: what isn't a field is skipped, bytes that aren't
/// UTF-8 are replaced.
#[must_use]
pub fn parse(body: &[u8]) -> DeliveryStatus {
    let mut groups: Vec<FieldGroup> = Vec::new();
    let mut is_new = true;
    let mut rest = body;
    while !rest.is_empty() {
        let end = if let Some(field) = header::fields(rest).next() {
            let name = String::from_utf8_lossy(field.name).into_owned();
            let value = String::from_utf8_lossy(&field.unfolded()).into_owned();
            match groups.last_mut() {
                Some(group) if !is_new => group.fields.push((name, value)),
                _ => groups.push(FieldGroup { fields: vec![(name, value)] }),
            }
            is_new = false;
            field.range.end
        } else {
            let end = memchr(b'\n', rest).map_or(rest.len(), |lf| lf + 1);
            is_new |= header::trim(&rest[..end]).is_empty();
            end
        };
        rest = &rest[end..];
    }
    let mut groups = groups.into_iter();
    DeliveryStatus { message: groups.next().unwrap_or_default(), recipients: groups.collect() }
}
