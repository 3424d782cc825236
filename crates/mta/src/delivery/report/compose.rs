//! Composition of a report's message.

use super::policy::ReportGroup;
use crate::delivery::Delivery;
use crate::facts::{Facts, RecipientRecords};
use crate::message::{Message, MessageBody};
use crate::routing::addresses::resolve_postmasters;
use crate::seams::World;
use bytes::Bytes;
use config::{Config, Returns};
use mail::dsn::{Original, RecipientReport, Report};
use mail::{
    BodyType, ContentFacts, ContentScanner, Envelope, Mailbox, MessageId, Notify, Priority,
    Recipient, RequireTls, Ret, Wall,
};

/// Composes the report about `group`; `None` if its log has no message id left for it. `start` is the part of the
/// message that may be returned, `to` the recipients of the report.
pub(super) fn compose<W: World>(
    delivery: &Delivery<W>,
    message: &Message,
    group: &ReportGroup,
    start: &[u8],
    to: Vec<Mailbox>,
) -> Option<Message> {
    let id = delivery.custody.allocate_id_beside(message.id)?;
    let now = delivery.services.wall();
    let active = delivery.router.active();
    let indexed: Vec<(u32, RecipientReport<'_>)> = group
        .judged
        .iter()
        .filter_map(|judged| {
            let recipient = message.envelope.recipients.get(judged.index as usize)?;
            let (outcome, last_attempt) = (judged.outcome()?, judged.tried_at);
            Some((judged.index, RecipientReport { recipient, outcome, last_attempt }))
        })
        .collect();
    // The postmaster reads internet mail.
    if message.kept_of_x400().is_some() && !group.is_notice {
        return own_kind(delivery, message, id, (&indexed[..], start));
    }
    let start = if message.kept_of_x400().is_some() { &[][..] } else { start };
    let recipients: Vec<RecipientReport<'_>> =
        indexed.into_iter().map(|(_, recipient)| recipient).collect();
    let pieces = [start];
    let report = Report {
        hostname: active.config.hostname.as_str(),
        id: message.id,
        report_id: id,
        to: group.address(message).unwrap_or(&active.config.postmaster.address),
        // The ENVID belongs to the sender, which gets no report about members of a list.
        envid: message.envelope.envid.as_deref().filter(|_| group.owner.is_none()),
        smtputf8: message.envelope.smtputf8,
        arrived: message.received_at,
        now,
        recipients: &recipients,
        original: if returns_all(message, group, start) {
            Original::Full(&pieces)
        } else {
            Original::Headers(start)
        },
    };
    let smtputf8 = report.needs_smtputf8();
    let (facts, content) = scanned(report.compose());
    let mut envelope = envelope_to(to, &facts, smtputf8);
    let mut records = RecipientRecords::default();
    resolve_postmasters(&active.config, &mut envelope, &mut records);
    // RFC 8689 §5: a report has the same TLS requirement as its message.
    let is_protected = message.require_tls() == RequireTls::Yes;
    let require_tls = is_protected.then_some(RequireTls::Yes);
    let lists = records.lists();
    let facts_kept = Facts { postmasters: lists.postmasters(), require_tls, ..Facts::default() };
    let meta = facts_kept.to_meta();
    Some(Message::new((id, now), envelope, (meta, Bytes::new()), (content, facts)))
}

/// The report in the form of the message's own channel.
fn own_kind<W: World>(
    delivery: &Delivery<W>,
    original: &Message,
    report_id: MessageId,
    (recipients, content): (&[(u32, RecipientReport<'_>)], &[u8]),
) -> Option<Message> {
    let (now, active) = (delivery.services.wall(), delivery.router.active());
    let config = &*active.config;
    let question = ReportQuestion { original, report_id, now, config, recipients, content };
    let mut channels = delivery.channels.iter();
    let NativeReport { to, kept, content, priority } =
        channels.find_map(|channel| channel.report(&question))?;
    let (facts, content) = scanned(content);
    let envelope = envelope_to(vec![to], &facts, false);
    let meta = Facts { priority, x400: Some(&kept), ..Facts::default() }.to_meta();
    Some(Message::new((report_id, now), envelope, (meta, Bytes::new()), (content, facts)))
}

fn returns_all(message: &Message, group: &ReportGroup, start: &[u8]) -> bool {
    // RFC 3461 §4.3: RET=FULL is for reports of a failure. RFC 8689 §5: not where TLS is required.
    message.envelope.ret == Some(Ret::Full)
        && message.require_tls() != RequireTls::Yes
        && group.owner.is_none()
        && group.reports.returns == Returns::Full
        && group.wish() == Notify::FAILURE
        && start.len() as u64 == message.content_bytes()
}

fn scanned(content: Vec<u8>) -> (ContentFacts, MessageBody) {
    let mut scanner = ContentScanner::default();
    scanner.push(&content);
    (scanner.finish(), MessageBody::Memory(vec![Bytes::from(content)]))
}

fn envelope_to(to: Vec<Mailbox>, facts: &ContentFacts, smtputf8: bool) -> Envelope {
    // RFC 3461 §6: no DSN is sent about a DSN.
    let recipient = |mailbox| Recipient { mailbox, notify: Notify::NEVER, orcpt: None };
    Envelope {
        reverse_path: None,
        recipients: to.into_iter().map(recipient).collect(),
        body: if facts.has_8bit { BodyType::EightBit } else { BodyType::SevenBit },
        smtputf8,
        ret: None,
        envid: None,
    }
}

/// The facts from which a channel writes a report.
#[derive(Debug)]
pub struct ReportQuestion<'a> {
    /// The reported message.
    pub original: &'a Message,
    /// The report's own id.
    pub report_id: MessageId,
    pub now: Wall,
    pub config: &'a Config,
    /// The results of recipients, by their indexes.
    pub recipients: &'a [(u32, RecipientReport<'a>)],
    /// The message's content, or the start of a long one.
    pub content: &'a [u8],
}

/// A report that a channel made.
#[derive(Debug)]
pub struct NativeReport {
    /// The recipient of the report.
    pub to: Mailbox,
    /// Kept with the report, under [`spool::record::tag::X400`].
    pub kept: Bytes,
    pub content: Vec<u8>,
    pub priority: Option<Priority>,
}
