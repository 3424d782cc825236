//! Output of a message, probe or report: its envelope with this MTA's trace and the responsibilities of the next MTA,
//! and its content as received.

use super::acceptance::told;
use super::kept::{self, ApduContent, ApduKind, Departure, RefusedRecipients};
use super::{names, redirection};
use crate::x400::section::{X400, X400Mode};
use bytes::Bytes;
use mail::{Class, EnhancedStatus, Failure, Wall};
use mta::delivery::Field;
use mta::message::{Message, Original};
use x400::mts::downgrade::{self, NotDowngraded};
use x400::mts::envelope::message_prefix;
use x400::mts::relay::{EnvelopeRewrite, RecipientChange, relay, relay_report};
use x400::mts::report::report_prefix;
use x400::mts::trace::{RoutingAction, Supplied, other_action};
use x400::mts::{
    EnvelopeKind, InternalTraceElement, Limits, ReportContent, ReportEnvelope, TraceElement,
    TransferEnvelope, UtcTime,
};

/// Builds the APDU of `message` for an MTA that becomes responsible for the recipients of these indexes. `x400`
/// identifies this MTA; `mode` is the protocol mode of the next one. A report to an MTA of 1984 is built by
/// [`report_to_1984`].
///
/// # Errors
/// The stored octets are not an envelope, or can't be expressed in X.400 of 1984.
pub(super) fn departure(
    message: &Message,
    indexes: &[u32],
    x400: &X400,
    mode: X400Mode,
) -> Result<Departure, Failure> {
    let kept = message.kept_of_x400().and_then(kept::read);
    let (kind, envelope) = kept.ok_or_else(|| unusable(&"not an X.400 message"))?;
    let visit = Visit::new(message.received_at, message.is_rerouted(), x400, mode);
    let kind = match kind {
        ApduKind::Report => {
            let envelope = report_envelope(&envelope, &visit)?;
            let prefix = report_prefix(&envelope, message.sent_body_bytes());
            return Ok(Departure { prefix, content: ApduContent::Kept, refused: Vec::new() });
        }
        ApduKind::Message => EnvelopeKind::Message,
        ApduKind::Probe => EnvelopeKind::Probe,
    };
    let read = TransferEnvelope::read(&envelope, kind, &Limits::default());
    let read = read.map_err(|error| unusable(&error))?;
    let envelope = transfer_envelope(&envelope, &read, indexes, visit)?;
    let (envelope, refused) = match mode {
        X400Mode::Normal | X400Mode::X410 => (envelope, Vec::new()),
        X400Mode::X4101984 => downgraded(&envelope, &read)?,
    };
    Ok(match kind {
        EnvelopeKind::Message => Departure {
            prefix: message_prefix(&envelope, message.sent_body_bytes()),
            content: ApduContent::Kept,
            refused,
        },
        EnvelopeKind::Probe => Departure { prefix: envelope, content: ApduContent::None, refused },
    })
}

/// The envelope for an MTA of 1984, and the recipients that it can't have. `came` is the envelope as received.
fn downgraded(
    octets: &[u8],
    came: &TransferEnvelope,
) -> Result<(Vec<u8>, RefusedRecipients), Failure> {
    let read = TransferEnvelope::read(octets, came.kind, &Limits::default());
    let made = downgrade::to_1984(&read.map_err(|error| unusable(&error))?);
    let made = made.map_err(not_downgraded)?;
    let ours = (0..).zip(&came.recipients).filter(|(_, r)| r.indicators.is_responsible());
    let ours = ours.zip(0..).map(|((place, _), index): ((usize, _), u32)| (place, index));
    let refused = ours.filter_map(|(place, index)| {
        let (_, why) = made.refused.iter().find(|(refused, _)| *refused == place)?;
        Some((index, not_downgraded(*why)))
    });
    Ok((made.envelope.encode(), refused.collect()))
}

/// Returns true for a report.
pub(super) fn is_report(message: &Message) -> bool {
    let kept = message.kept_of_x400().and_then(kept::read);
    kept.is_some_and(|(kind, _)| kind == ApduKind::Report)
}

/// Builds the APDU of a report for an MTA of 1984 from its whole `content`.
///
/// # Errors
/// As for [`departure`].
pub(super) fn report_to_1984(
    message: &Original,
    content: &[u8],
    x400: &X400,
) -> Result<Departure, Failure> {
    let kept = message.kept_of_x400().and_then(kept::read);
    let (_, envelope) = kept.ok_or_else(|| unusable(&"not an X.400 message"))?;
    let visit = Visit::new(message.received_at, message.is_rerouted, x400, X400Mode::X4101984);
    let envelope = report_envelope(&envelope, &visit)?;
    let envelope = ReportEnvelope::read(&envelope).map_err(|error| unusable(&error))?;
    let content = ReportContent::read(content, &Limits::default());
    let content = content.map_err(|error| unusable(&error))?;
    let made = downgrade::report_to_1984(&envelope, &content).map_err(not_downgraded)?;
    let content = Bytes::from(made.1.encode());
    let prefix = report_prefix(&made.0.encode(), content.len() as u64);
    Ok(Departure { prefix, content: ApduContent::Made(content), refused: Vec::new() })
}

/// The envelope of a report with this MTA's trace.
fn report_envelope(octets: &[u8], visit: &Visit<'_>) -> Result<Vec<u8>, Failure> {
    let read = ReportEnvelope::read(octets).map_err(|error| unusable(&error))?;
    let (trace, internal) = visit.elements(&read.trace);
    // A report made here has the trace already.
    let known = read.extensions.internal_trace().unwrap_or_default();
    let is_written = known.last() == Some(&internal);
    let changes = EnvelopeRewrite {
        trace: trace.as_ref().filter(|_| !is_written),
        internal_trace: Some(&internal).filter(|_| !is_written),
        ..EnvelopeRewrite::default()
    };
    relay_report(octets, &changes).map_err(|error| unusable(&error))
}

/// The envelope of a message or probe with this MTA's trace, for the recipients of these indexes.
fn transfer_envelope(
    octets: &[u8],
    read: &TransferEnvelope,
    indexes: &[u32],
    visit: Visit<'_>,
) -> Result<Vec<u8>, Failure> {
    let is_redirected = redirection::was_redirected_here(read);
    let (trace, internal) = visit.redirected(is_redirected).elements(&read.trace);
    let recipients = responsibilities(read, indexes);
    let changes = EnvelopeRewrite {
        trace: trace.as_ref(),
        internal_trace: Some(&internal),
        recipients: &recipients,
        extensions: &[],
    };
    relay(octets, &changes).map_err(|error| unusable(&error))
}

/// This MTA's recipients are those received with the responsibility bit, in order. The next MTA becomes responsible for
/// those with an index in `indexes` only.
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

/// This MTA's trace elements of a message.
struct Visit<'a> {
    x400: &'a X400,
    /// Mode of the next MTA.
    mode: X400Mode,
    supplied: Supplied,
}

impl Visit<'_> {
    /// X.411 §12.3.1.5, `is_rerouted`: an operator has chosen another route, so the message may legitimately pass this
    /// MTA again.
    fn new(received_at: Wall, is_rerouted: bool, x400: &X400, mode: X400Mode) -> Visit<'_> {
        let arrival = UtcTime::from(received_at);
        let action = if is_rerouted { RoutingAction::Rerouted } else { RoutingAction::Relayed };
        Visit { x400, mode, supplied: Supplied { arrival, action, ..Supplied::default() } }
    }

    /// The same after redirection of recipients.
    fn redirected(mut self, is_redirected: bool) -> Self {
        let actions = self.supplied.other_actions;
        self.supplied.other_actions = actions.with(other_action::REDIRECTED, is_redirected);
        self
    }

    /// A domain adds a trace element when a message enters it, and each MTA an internal one (X.411 §12.3.1). An MTA of
    /// 1984 gets no internal trace, so a loop with an MTA of the same domain would go undetected. In this case the
    /// domain element is added each time.
    fn elements(&self, trace: &[TraceElement]) -> (Option<TraceElement>, InternalTraceElement) {
        let domain = names::global_domain(&self.x400.domain);
        let is_inside = trace.last().is_some_and(|last| last.domain.is_same(&domain));
        let supplied = self.supplied.clone();
        let is_counted =
            self.mode != X400Mode::X4101984 && self.supplied.action != RoutingAction::Rerouted;
        let element = (!(is_inside && is_counted))
            .then(|| TraceElement { domain: domain.clone(), supplied: supplied.clone() });
        let internal = InternalTraceElement { domain, mta: self.x400.mta.clone(), supplied };
        (element, internal)
    }
}

/// RFC 3463 §3.7: X.6.0, other media error. A further attempt would fail as well.
fn unusable(why: &dyn std::fmt::Display) -> Failure {
    let text = format!("it cannot be relayed: {why}");
    Failure::local(Class::Permanent, EnhancedStatus::new(5, 6, 0), text)
}

/// RFC 3463 §3.7: X.6.5, conversion failed.
fn not_downgraded(why: NotDowngraded) -> Failure {
    let text = format!("not supported by the next MTA: {why}");
    Failure::local(Class::Permanent, EnhancedStatus::new(5, 6, 5), text)
}

/// Fields for the `received` event. Empty if the message did not come over X.400.
pub(super) fn describe(message: &Message) -> Vec<Field> {
    let Some((kind, octets)) = message.kept_of_x400().and_then(kept::read) else {
        return Vec::new();
    };
    let envelope_kind = match kind {
        ApduKind::Message => EnvelopeKind::Message,
        ApduKind::Probe => EnvelopeKind::Probe,
        ApduKind::Report => {
            let envelope = ReportEnvelope::read(&octets).ok();
            return envelope.map(|it| told(kind, &it.identifier, None)).unwrap_or_default();
        }
    };
    let envelope = TransferEnvelope::read(&octets, envelope_kind, &Limits::default()).ok();
    envelope.map(|it| told(kind, &it.identifier, Some(&it.content_type))).unwrap_or_default()
}
