//! Delivery status notifications (RFC 3461, RFC 3464, RFC 6522, RFC 6533).
//!
//! [`Report::compose`] composes the content of a report; [`parse`] reads the reports of other servers.

mod compose;
mod original;
mod text;
pub mod xtext;

use crate::{EnhancedStatus, Failure, Mailbox, MessageId, Recipient, Reply, Wall, header};
use memchr::memchr;
pub use original::Original;
use std::time::Duration;

/// Maximum number of recipients named in a report; further ones are only counted. The sender of a message to a thousand
/// recipients needs no report of a megabyte, and a forged sender must not receive one.
pub const RECIPIENTS_MAX: usize = 100;

/// Maximum size of a returned header in bytes.
pub const HEADER_BYTES_MAX: usize = 16 * 1024;

/// Maximum size in bytes of a message that is returned in full.
pub const FULL_BYTES_MAX: usize = 64 * 1024;

/// Maximum length of a report, whatever the replies and addresses. It fits, with the settle that it reports, into the
/// smallest segment that a spool may have.
pub const REPORT_BYTES_MAX: usize = 640 * 1024;

/// Maximum length of a line in a message, without its CRLF (RFC 5322 §2.1.1).
const LINE_BYTES_MAX: usize = 998;

/// A report to the sender of a message about some of its recipients, which may have different outcomes.
///
/// The caller decides if a report is due at all (RFC 3461 §5.2, and none for a null reverse-path).
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// This server's name.
    pub hostname: &'a str,
    /// The message that is reported on.
    pub id: MessageId,
    /// The id of the report, from which its Message-ID and MIME boundary are derived.
    pub report_id: MessageId,
    /// The reverse-path of the message, which is the report's recipient.
    pub to: &'a Mailbox,
    /// ENVID= as received, still xtext-encoded.
    pub envid: Option<&'a str>,
    /// The message was received with SMTPUTF8.
    pub smtputf8: bool,
    /// Time at which the message was accepted.
    pub arrived: Wall,
    /// The date of the report.
    pub now: Wall,
    /// At least one. If there are more than [`RECIPIENTS_MAX`], the first are named, failed ones before the rest, and
    /// the rest is counted.
    pub recipients: &'a [RecipientReport<'a>],
    /// The returned part of the message. RET=FULL requests the whole message only in reports of a failure; other
    /// reports return the header (RFC 3461 §4.3).
    pub original: Original<'a>,
}

/// Result for one recipient.
#[derive(Clone, Copy, Debug)]
pub struct RecipientReport<'a> {
    /// The recipient in the envelope.
    pub recipient: &'a Recipient,
    /// Its fate.
    pub outcome: DsnOutcome<'a>,
    /// Time of the last delivery attempt, if any.
    pub last_attempt: Option<Wall>,
}

/// The result for a recipient, in the terms of RFC 3464 §2.3.3.
#[derive(Clone, Copy, Debug)]
pub enum DsnOutcome<'a> {
    /// Failed.
    Failed(&'a Failure),
    /// Expired.
    Expired {
        /// Failure of the last attempt.
        failure: &'a Failure,
        /// Duration of the attempts.
        after: Duration,
    },
    /// Not yet delivered.
    Delayed {
        /// Failure of the last attempt.
        failure: &'a Failure,
        /// Time of expiry.
        retry_until: Wall,
    },
    /// In the recipient's mailbox.
    Delivered(Success<'a>),
    /// Relayed to a server without DSN support.
    Relayed(Success<'a>),
    /// Forwarded to the members of a list or to several aliases.
    Expanded,
}

/// Details of a delivery or relaying.
#[derive(Clone, Copy, Debug, Default)]
pub struct Success<'a> {
    /// The accepting peer, as in [`crate::Culprit::Peer`]; `None` for local delivery.
    pub peer: Option<&'a str>,
    /// The peer's reply.
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

    /// The value of the Status field (RFC 3464 §2.3.4). A transient failure that expired keeps its class 4, so that the
    /// sender's program can distinguish it.
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
    /// Fields about the message as a whole.
    pub message: FieldGroup,
    /// One for each recipient.
    pub recipients: Vec<FieldGroup>,
}

/// Fields that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldGroup {
    /// Names as written, and unfolded values, in order.
    pub fields: Vec<(String, String)>,
}

impl FieldGroup {
    /// The value of the first field with this `name`, in any case.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        Some(&field.1)
    }

    /// The two parts of a field value of the form `type; text`, for example Final-Recipient.
    #[must_use]
    pub fn typed(&self, name: &str) -> Option<(&str, &str)> {
        let (kind, text) = self.get(name)?.split_once(';')?;
        Some((kind.trim(), text.trim()))
    }

    /// The status of a recipient; a comment after it is ignored.
    #[must_use]
    pub fn status(&self) -> Option<EnhancedStatus> {
        EnhancedStatus::parse_prefix(self.get("Status")?).map(|(status, _)| status)
    }
}

/// Parses a delivery status part. Never fails: text that is not a field is skipped, bytes that are not UTF-8 are
/// replaced.
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
