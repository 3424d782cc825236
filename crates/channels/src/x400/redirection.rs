//! Redirection of recipients without a route to the originator's alternate recipient (X.411 §14.3.2.2).

use mail::Wall;
use x400::mts::extension::{
    Extension, ExtensionKind, NameAndTime, Redirection, RedirectionReason, number,
};
use x400::mts::relay::{EnvelopeRewrite, RecipientChange, relay};
use x400::mts::trace::other_action;
use x400::mts::{Limits, Recipient, TransferEnvelope, UtcTime};

/// The envelope with alternate recipients, and its octets. `None` if no recipient is redirected. `is_routed` returns
/// true for a recipient with a route.
pub(super) fn redirected(
    envelope: &TransferEnvelope,
    octets: &[u8],
    now: Wall,
    is_routed: &dyn Fn(&Recipient) -> bool,
) -> Option<(TransferEnvelope, Vec<u8>)> {
    if envelope.extensions.is_reassignment_prohibited() {
        return None;
    }
    let change = |recipient: &Recipient| match alternate(recipient, now, is_routed) {
        Some(other) => RecipientChange::Replace(Box::new(other)),
        None => RecipientChange::Keep,
    };
    let recipients: Vec<RecipientChange> = envelope.recipients.iter().map(change).collect();
    if recipients.iter().all(|change| *change == RecipientChange::Keep) {
        return None;
    }
    let changes = EnvelopeRewrite { recipients: &recipients, ..EnvelopeRewrite::default() };
    let octets = relay(octets, &changes).ok()?;
    let envelope = TransferEnvelope::read(&octets, envelope.kind, &Limits::default()).ok()?;
    Some((envelope, octets))
}

/// The alternate of a recipient that no route accepts. `None` if the recipient stays or has no usable alternate.
fn alternate(
    recipient: &Recipient,
    now: Wall,
    is_routed: &dyn Fn(&Recipient) -> bool,
) -> Option<Recipient> {
    if !recipient.indicators.is_responsible() || is_routed(recipient) {
        return None;
    }
    let other = recipient.extensions.alternate_recipient().ok().flatten()?;
    let mut history = recipient.extensions.redirection_history().ok()?;
    let is_other = |past: &Redirection| past.intended.name.address.is_same(&other.address);
    if history.iter().any(is_other) {
        // Redirected from there before (X.411, redirection-loop-detected).
        return None;
    }
    let mut redirected = Recipient { name: other, ..recipient.clone() };
    if !is_routed(&redirected) {
        return None;
    }
    let asked = ExtensionKind::Standard(number::ORIGINATOR_REQUESTED_ALTERNATE_RECIPIENT);
    redirected.extensions.0.retain(|extension| extension.kind != asked);
    history.push(Redirection {
        intended: NameAndTime { name: recipient.name.clone(), time: UtcTime::from(now) },
        reason: RedirectionReason::OriginatorRequested,
    });
    redirected.extensions.set(Extension::redirection_history(&history));
    Some(redirected)
}

/// Returns true if one of this MTA's recipients was redirected here, and not before it arrived or by the previous
/// domain.
pub(super) fn was_redirected_here(envelope: &TransferEnvelope) -> bool {
    let last = envelope.trace.last();
    if last.is_some_and(|visit| visit.supplied.other_actions.has(other_action::REDIRECTED)) {
        return false;
    }
    let since = last.map(|visit| visit.supplied.arrival.wall).unwrap_or_default();
    let is_here = |recipient: &Recipient| {
        let history = recipient.extensions.redirection_history().unwrap_or_default();
        history.last().is_some_and(|past| past.intended.time.wall >= since)
    };
    envelope.recipients.iter().any(|r| r.indicators.is_responsible() && is_here(r))
}
