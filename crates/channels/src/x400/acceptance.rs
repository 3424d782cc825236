//! Acceptance of messages, probes and reports: determines recipients, immediate refusals and deferred delivery. The
//! refusals have the status codes that RFC 2156 maps to the reasons of a report.

use super::kept::{self, ApduKind};
use super::{gateway, loops, names, redirection};
use crate::x400::section::X400;
use bytes::Bytes;
use config::Config;
use mail::{BodyType, ContentFacts, Envelope, Mailbox, Notify, Priority, Recipient, Refusal, Wall};
use mta::ingress::{NativeMessage, Submission};
use mta::steering::{HOLD_MAX, Steering};
use std::sync::Arc;
use x400::mts::extension::Stage;
use x400::mts::{self, Broken, EnvelopeKind, MtsIdentifier, ReportEnvelope, TransferEnvelope};

/// Refusals: a recipient gets no message, and the originator gets a non-delivery report.
pub(super) const NO_ROUTE: Refusal = Refusal::permanent((1, 1), "Unrecognised O/R name: no route");
pub(super) const TOO_MANY: Refusal = Refusal::permanent((5, 3), "Too many recipients");
pub(super) const TOO_LONG: Refusal = Refusal::permanent((2, 3), "Content too long");
const UNSUPPORTED: Refusal = Refusal::permanent((5, 5), "Critical extension not supported");
/// RFC 3463 §3.7: conversion required but not supported.
const NOT_CONVERTED: Refusal =
    Refusal::permanent((6, 3), "Requested conversion not supported by the gateway");
const BROKEN: Refusal = Refusal::permanent((5, 4), "Malformed envelope");

/// Limits and configuration for acceptance.
#[derive(Clone, Copy, Debug)]
pub(super) struct AcceptanceContext<'a> {
    pub(super) x400: &'a X400,
    pub(super) config: &'a Config,
    /// Maximum number of recipients that this MTA is responsible for.
    pub(super) recipients_max: usize,
    pub(super) now: Wall,
}

impl AcceptanceContext<'_> {
    /// Returns true if a route accepts this recipient.
    fn have_route_to(&self, recipient: &mts::Recipient) -> bool {
        let mailbox = gateway::recipient(&recipient.name, self.config, self.x400);
        self.config.route_of(&mailbox, None).is_some()
    }
}

/// Result of the acceptance of an APDU, without its content.
#[derive(Debug)]
pub(super) struct Acceptance {
    /// Recipients that this MTA is responsible for. With none, the APDU is acknowledged and dropped.
    pub(super) envelope: Envelope,
    pub(super) steering: Steering,
    pub(super) foreign: NativeMessage,
    /// Held because it is unreadable.
    is_unreadable: bool,
}

impl Acceptance {
    /// Refuses further recipients, by index.
    pub(super) fn refuse(&mut self, refused: Vec<(u32, Refusal)>) {
        self.foreign.refused.extend(refused);
        self.foreign.refused.sort_by_key(|(index, _)| *index);
    }

    /// Returns true for a report.
    pub(super) fn is_report(&self) -> bool {
        kept::read(&self.foreign.kept).is_some_and(|(kind, _)| kind == ApduKind::Report)
    }

    /// Holds the APDU for an operator because of the error `what`.
    pub(super) fn hold(&mut self, peer: &str, what: &str) {
        self.foreign.hold = Some(why_held(peer, what));
        self.is_unreadable = true;
    }

    /// The reason for a hold because the APDU is unreadable.
    pub(super) fn why_unreadable(&self) -> Option<&str> {
        self.foreign.hold.as_deref().filter(|_| self.is_unreadable)
    }

    /// The submission to the queue, with the properties of its content.
    pub(super) fn into_submission(self, facts: ContentFacts) -> Submission {
        let Acceptance { envelope, steering, foreign, is_unreadable: _ } = self;
        Submission { steering, foreign: Some(foreign), ..Submission::new(envelope, facts) }
    }

    /// Refuses all remaining recipients for this reason. Earlier refusals stay.
    pub(super) fn refuse_all(&mut self, why: &Refusal) {
        let (known, all) = (&self.foreign.refused, self.envelope.recipients.len());
        let others = (0..all).map(|index| u32::try_from(index).unwrap_or(u32::MAX));
        let is_new = |index: &u32| known.binary_search_by_key(index, |(known, _)| *known).is_err();
        let refused = others.filter(is_new).map(|index| (index, why.clone())).collect();
        self.refuse(refused);
    }
}

/// Acceptance of a message or probe, with the octets of its envelope.
pub(super) fn of_transfer(
    envelope: &TransferEnvelope,
    octets: &[u8],
    terms: &AcceptanceContext<'_>,
) -> Acceptance {
    let is_routed = |recipient: &mts::Recipient| terms.have_route_to(recipient);
    match redirection::redirected(envelope, octets, terms.now, &is_routed) {
        Some((envelope, octets)) => of_redirected(&envelope, &octets, terms),
        None => of_redirected(envelope, octets, terms),
    }
}

/// The same after redirection of recipients.
fn of_redirected(
    envelope: &TransferEnvelope,
    octets: &[u8],
    terms: &AcceptanceContext<'_>,
) -> Acceptance {
    let kind = match envelope.kind {
        EnvelopeKind::Message => ApduKind::Message,
        EnvelopeKind::Probe => ApduKind::Probe,
    };
    let ours =
        || envelope.recipients.iter().filter(|recipient| recipient.indicators.is_responsible());
    let recipients: Vec<Recipient> = ours().map(|fields| recipient_of(fields, terms)).collect();
    let (told, kept) =
        (told(kind, &envelope.identifier, Some(&envelope.content_type)), kept::keep(kind, octets));
    let foreign = NativeMessage { kept, refused: Vec::new(), told, hold: None };
    let steering = steering_of(envelope, terms.now);
    let from = Some(names::mailbox_or_none(&envelope.originator));
    let to_ours = envelope_of(from, recipients);
    let mut acceptance = Acceptance { envelope: to_ours, steering, foreign, is_unreadable: false };
    if let Some(why) = refusal_of_all(envelope, acceptance.envelope.recipients.len(), terms) {
        acceptance.refuse_all(&why);
        return acceptance;
    }
    for ((index, recipient), fields) in (0..).zip(&acceptance.envelope.recipients).zip(ours()) {
        if let Some(why) = refusal_of_one(&recipient.mailbox, fields, envelope, terms) {
            acceptance.foreign.refused.push((index, why));
        }
    }
    acceptance
}

/// The refusal of all recipients, if any.
fn refusal_of_all(
    envelope: &TransferEnvelope,
    ours: usize,
    terms: &AcceptanceContext<'_>,
) -> Option<Refusal> {
    let domain = names::global_domain(&terms.x400.domain);
    let we_are = (&*terms.x400.mta, &domain);
    if let Some(why) = loops::why(&envelope.trace, &envelope.internal_trace(), we_are) {
        return Some(Refusal::permanent((4, 6), why));
    }
    if ours > terms.recipients_max {
        return Some(TOO_MANY);
    }
    envelope.extensions.unsupported(Stage::Transfer).map(|_| UNSUPPORTED)
}

/// The refusal of one recipient, if any.
fn refusal_of_one(
    mailbox: &Mailbox,
    fields: &mts::Recipient,
    envelope: &TransferEnvelope,
    terms: &AcceptanceContext<'_>,
) -> Option<Refusal> {
    let Some((_, route)) = terms.config.route_of(mailbox, None) else { return Some(NO_ROUTE) };
    let stage = match route.channel.is_local() {
        true => Stage::Delivery,
        false => Stage::Transfer,
    };
    // A relaying MTA leaves conversion to the delivering MTA (X.411 §14.3.5).
    let is_converted = !route.channel.kinds_of_mail().x400;
    if is_converted
        && fields.explicit_conversion.is_some_and(|wanted| !CONVERSIONS.contains(&wanted))
    {
        return Some(NOT_CONVERTED);
    }
    let own = fields.extensions.unsupported(stage);
    own.or_else(|| envelope.extensions.unsupported(stage)).map(|_| UNSUPPORTED)
}

/// Explicit conversions that the gateway supports (X.411, ExplicitConversion): teletex to IA5 text.
const CONVERSIONS: [u32; 1] = [11];

/// Acceptance of a message or probe with a broken envelope, as far as a report can be made. `None` if that is
/// impossible.
pub(super) fn of_broken(
    broken: &Broken,
    kind: EnvelopeKind,
    terms: &AcceptanceContext<'_>,
) -> Option<Acceptance> {
    let (identifier, originator) = (broken.identifier.clone()?, broken.originator.clone()?);
    let envelope = TransferEnvelope {
        kind,
        identifier,
        originator,
        content_type: broken.content_type.clone().unwrap_or(mts::ContentType::UNIDENTIFIED),
        trace: broken.trace.clone(),
        recipients: broken.recipients.clone(),
        ..TransferEnvelope::default()
    };
    let mut acceptance = of_transfer(&envelope, &envelope.encode(), terms);
    let why = if broken.has_too_many_recipients() { TOO_MANY } else { BROKEN };
    acceptance.foreign.refused.clear();
    acceptance.refuse_all(&why);
    (!acceptance.envelope.recipients.is_empty()).then_some(acceptance)
}

/// Acceptance of a report, with the octets of its envelope.
pub(super) fn of_report(
    envelope: &ReportEnvelope,
    octets: &[u8],
    terms: &AcceptanceContext<'_>,
) -> Acceptance {
    // No report is sent about a report (X.411 §14.3.4).
    let mailbox = gateway::recipient(&envelope.destination, terms.config, terms.x400);
    let recipient = Recipient { mailbox, notify: Notify::NEVER, orcpt: None };
    let foreign = NativeMessage {
        kept: kept::keep(ApduKind::Report, octets),
        refused: Vec::new(),
        told: told(ApduKind::Report, &envelope.identifier, None),
        hold: None,
    };
    let steering = Steering { priority: Priority::new(URGENT), ..Steering::default() };
    let to_recipient = envelope_of(None, vec![recipient]);
    let mut acceptance =
        Acceptance { envelope: to_recipient, steering, foreign, is_unreadable: false };
    let domain = names::global_domain(&terms.x400.domain);
    let we_are = (&*terms.x400.mta, &domain);
    let internal = envelope.extensions.internal_trace().unwrap_or_default();
    let looping = loops::why(&envelope.trace, &internal, we_are);
    let why = looping.map(|why| Refusal::permanent((4, 6), why)).or_else(|| {
        let recipient = acceptance.envelope.recipients.first()?;
        terms.config.route_of(&recipient.mailbox, None).is_none().then_some(NO_ROUTE)
    });
    if let Some(why) = why {
        acceptance.refuse_all(&why);
    }
    acceptance
}

/// Holds an unreadable APDU for an operator, as mail for the postmaster.
pub(super) fn of_unreadable(peer: &str, what: &str, config: &Config) -> Acceptance {
    let mailbox = config.postmaster.address.clone();
    let recipient = Recipient { mailbox, notify: Notify::NEVER, orcpt: None };
    let hold = Some(why_held(peer, what));
    let foreign = NativeMessage { kept: Bytes::new(), refused: Vec::new(), told: Vec::new(), hold };
    Acceptance {
        envelope: envelope_of(None, vec![recipient]),
        steering: Steering::default(),
        foreign,
        is_unreadable: true,
    }
}

fn why_held(peer: &str, what: &str) -> Box<str> {
    format!("X.400: unreadable APDU from peer {peer}: {what}").into()
}

fn envelope_of(reverse_path: Option<Mailbox>, recipients: Vec<Recipient>) -> Envelope {
    let body = BodyType::EightBit;
    Envelope { reverse_path, recipients, body, smtputf8: false, ret: None, envid: None }
}

fn recipient_of(fields: &mts::Recipient, terms: &AcceptanceContext<'_>) -> Recipient {
    let indicators = fields.indicators;
    let wish = |wanted: bool, wish: Notify| if wanted { wish.0 } else { 0 };
    let notify = wish(indicators.wants_delivery_report(), Notify::SUCCESS)
        | wish(indicators.wants_non_delivery_report(), Notify::FAILURE);
    let mailbox = gateway::recipient(&fields.name, terms.config, terms.x400);
    Recipient { mailbox, notify: Notify(notify), orcpt: None }
}

/// MT-PRIORITY of urgent messages and of reports (RFC 6710, appendix B, MIXER).
pub(super) const URGENT: i8 = 4;
const NON_URGENT: i8 = -4;

fn steering_of(envelope: &TransferEnvelope, now: Wall) -> Steering {
    let priority = match envelope.priority {
        mts::Priority::NonUrgent => Priority::new(NON_URGENT),
        mts::Priority::Normal => None,
        mts::Priority::Urgent => Priority::new(URGENT),
    };
    let deferred = envelope.deferred_delivery.map(|time| time.wall.min(now.after(HOLD_MAX)));
    let latest = envelope.extensions.latest_delivery_time();
    Steering {
        priority,
        not_before: deferred.filter(|at| *at > now),
        expires: latest.ok().flatten().map(|time| time.wall),
        ..Steering::default()
    }
}

/// Fields for events and the queue, besides addresses.
pub(super) fn told(
    kind: ApduKind,
    identifier: &MtsIdentifier,
    content_type: Option<&mts::ContentType>,
) -> Vec<(Arc<str>, Box<str>)> {
    let mut told: Vec<(Arc<str>, Box<str>)> = vec![
        ("X400-APDU".into(), kind.name().into()),
        ("X400-MTS-Identifier".into(), identifier.to_string().into()),
    ];
    if let Some(content_type) = content_type {
        told.push(("X400-Content-Type".into(), content_type.to_string().into()));
    }
    told
}
