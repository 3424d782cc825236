//! What an operator sees of a queued message, probe or report beside its addresses.

use super::acceptance::told;
use super::kept::{self, ApduKind};
use mta::delivery::Field;
use mta::message::Message;
use x400::mts::{EnvelopeKind, Limits, ReportEnvelope, TransferEnvelope};

/// As its `received` event has it; empty: it is none of X.400.
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
