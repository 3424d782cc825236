//! What is sent of a message, probe or report: its envelope with our trace and the next MTA's recipients, and its
//! content as it came.

use super::kept::{self, ApduKind};
use super::{names, redirection};
use bytes::Bytes;
use config::X400;
use mail::{Class, EnhancedStatus, Failure};
use mta::message::Message;
use x400::mts::envelope::message_prefix;
use x400::mts::relay::{Changes, RecipientChange, relay, relay_report};
use x400::mts::trace::{Supplied, other_action};
use x400::mts::{
    EnvelopeKind, InternalTraceElement, Limits, ReportEnvelope, TraceElement, TransferEnvelope,
    UtcTime,
};

/// An APDU but for its content.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Departure {
    /// The octets before the content.
    pub(super) prefix: Vec<u8>,
    /// What follows.
    pub(super) content: Content,
}

/// The content of an APDU.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A probe has none.
    None,
    /// As it is kept.
    Kept,
    /// Made of a message of internet mail.
    Made(Bytes),
}

/// What is sent of `message` to an MTA that answers for its recipients of these indexes. `x400`: who we are.
///
/// # Errors
/// What is kept of it is no envelope.
pub(super) fn departure(
    message: &Message,
    indexes: &[u32],
    x400: &X400,
) -> Result<Departure, Failure> {
    let kept = message.kept_of_x400().and_then(kept::read);
    let (kind, envelope) = kept.ok_or_else(|| unusable("it is no message of X.400"))?;
    let wrong = |error: &dyn std::fmt::Display| unusable(&error.to_string());
    let visit = Visit::new(message, x400);
    match kind {
        ApduKind::Report => {
            let read = ReportEnvelope::read(&envelope).map_err(|error| wrong(&error))?;
            let (trace, internal) = visit.elements(&read.trace);
            // One that was made here has it already.
            let known = read.extensions.internal_trace().unwrap_or_default();
            let is_written = known.last() == Some(&internal);
            let changes = Changes {
                trace: trace.as_ref(),
                internal_trace: Some(&internal).filter(|_| !is_written),
                ..Changes::default()
            };
            let envelope = relay_report(&envelope, &changes).map_err(|error| wrong(&error))?;
            let prefix = x400::mts::report::report_prefix(&envelope, message.sent_body_bytes());
            Ok(Departure { prefix, content: Content::Kept })
        }
        ApduKind::Message | ApduKind::Probe => {
            let is_message = kind == ApduKind::Message;
            let kind = if is_message { EnvelopeKind::Message } else { EnvelopeKind::Probe };
            let read = TransferEnvelope::read(&envelope, kind, &Limits::default());
            let read = read.map_err(|error| wrong(&error))?;
            let is_redirected = redirection::was_redirected_here(&read);
            let (trace, internal) = visit.redirected(is_redirected).elements(&read.trace);
            let recipients = responsibilities(&read, indexes);
            let changes = Changes {
                trace: trace.as_ref(),
                internal_trace: Some(&internal),
                recipients: &recipients,
                extensions: &[],
            };
            let envelope = relay(&envelope, &changes).map_err(|error| wrong(&error))?;
            let prefix = match is_message {
                true => message_prefix(&envelope, message.sent_body_bytes()),
                false => envelope,
            };
            let content = if is_message { Content::Kept } else { Content::None };
            Ok(Departure { prefix, content })
        }
    }
}

/// Our recipients are those that came with the responsibility bit, in their order: the next MTA answers for those
/// whose index is among `indexes`, and for no other.
fn responsibilities(envelope: &TransferEnvelope, indexes: &[u32]) -> Vec<RecipientChange> {
    let mut ours = 0..;
    let change = |is_ours: bool| match is_ours {
        true => RecipientChange::Responsibility(ours.next().is_some_and(|i| indexes.contains(&i))),
        false => RecipientChange::Keep,
    };
    envelope
        .recipients
        .iter()
        .map(|recipient| recipient.indicators.is_responsible())
        .map(change)
        .collect()
}

/// Our part of its way.
struct Visit<'a> {
    x400: &'a X400,
    supplied: Supplied,
}

impl Visit<'_> {
    fn new<'a>(message: &Message, x400: &'a X400) -> Visit<'a> {
        let arrival = UtcTime::from(message.received_at);
        Visit { x400, supplied: Supplied { arrival, ..Supplied::default() } }
    }

    /// The same, where recipients were redirected.
    fn redirected(mut self, is_redirected: bool) -> Self {
        let actions = self.supplied.other_actions;
        self.supplied.other_actions = actions.with(other_action::REDIRECTED, is_redirected);
        self
    }

    /// A domain writes itself down when a message enters it, each of its MTAs when it comes there (X.411 §12.3.1).
    fn elements(&self, trace: &[TraceElement]) -> (Option<TraceElement>, InternalTraceElement) {
        let domain = names::global_domain(&self.x400.domain);
        let is_inside = trace.last().is_some_and(|last| last.domain.is_same(&domain));
        let supplied = self.supplied.clone();
        let element = (!is_inside)
            .then(|| TraceElement { domain: domain.clone(), supplied: supplied.clone() });
        let internal = InternalTraceElement { domain, mta: self.x400.mta.clone(), supplied };
        (element, internal)
    }
}

/// RFC 3463 §3.6: X.6.0, the content, which no attempt will change.
fn unusable(why: &str) -> Failure {
    let text = format!("it can't be passed on: {why}");
    Failure::local(Class::Permanent, EnhancedStatus::new(5, 6, 0), text)
}
