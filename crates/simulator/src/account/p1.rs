//! What was transferred over P1, and what has arrived of it: octet for octet, with the trace of the node, with the
//! responsibility for whom it was sent there. (What has no place in X.400 of 1984 is left out for MTAs of 1984.)

use super::{Account, Copy, Records, fails, name_of};
use crate::executor::TaskGroup;
use crate::names::{OR_BACK, OR_NOWHERE};
use crate::network::Network;
use crate::plan::{P1Peer, X400Plan};
use std::collections::BTreeMap;
use x400::association::Mode;
use x400::mts::downgrade::to_1984;
use x400::mts::extension::{ExtensionKind, number};
use x400::mts::report::{ReportType, ReportedRecipient};
use x400::mts::{
    MtsIdentifier, Recipient, ReportContent, ReportEnvelope, TraceElement, TransferEnvelope,
};

/// What was sent.
#[derive(Debug)]
pub(super) struct Transfer {
    envelope: TransferEnvelope,
    content_bytes: u64,
    checksum: u32,
    /// The lives of the node to which all of it may have come, and how often.
    lives: BTreeMap<TaskGroup, usize>,
}

/// Where something has arrived, and from whom.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// At which MTA.
    pub at: &'a P1Peer,
    /// The life of the node that sent it.
    pub life: TaskGroup,
    /// On which connection.
    pub connection: u64,
    /// Where in what the MTA wrote the acknowledgement ends.
    pub reply_end: u64,
    /// Where in what the node wrote the APDU begins.
    pub apdu_start: u64,
}

impl Arrival<'_> {
    fn copy(&self) -> Copy {
        let Arrival { life: group, connection, reply_end, apdu_start, .. } = *self;
        Copy { group, connection, reply_end, apdu_start: Some(apdu_start) }
    }
}

impl Copy {
    /// Whether the node heard that it was taken while it waited for that. An APDU that is given up after the time
    /// for an answer, because the network or the MTA held it or its acknowledgement back, may be acknowledged all the
    /// same: by then it goes another time, and what the node hears on the association that it has
    /// aborted comes too late.
    pub(super) fn is_heard(&self, network: &Network) -> bool {
        let Copy { connection, reply_end, apdu_start, .. } = *self;
        let given_up = |start| network.gave_up(connection, start, reply_end, X400Plan::ANSWER_US);
        network.read_by_client(connection) >= reply_end && !apdu_start.is_some_and(given_up)
    }
}

/// The text of a recipient's address.
fn text_of(recipient: &Recipient) -> String {
    recipient.name.address.to_string()
}

/// Whether something must be heard of a recipient for whom the node answers: who can't be delivered to is reported,
/// where anybody wants that and can be told.
fn is_awaited(recipient: &Recipient, originator: &str) -> bool {
    let is_told = recipient.indicators.wants_non_delivery_report() && originator.ends_with(OR_BACK);
    !fails(&text_of(recipient)) || is_told
}

impl Records {
    /// So many more copies than one may come of what was sent, for it was sent to so many more lives of the node: each
    /// knows only what it has heard itself. And each of its logs that has failed may have kept, for the next life to
    /// find, what it refused for that, and what was sent again was stored in another. (`address`: a recipient's, or a
    /// sender's.)
    pub(super) fn excused(&self, address: &str) -> usize {
        let Some(transfer) = self.transfers.get(name_of(address)) else { return 0 };
        let kept = |(life, &times): (&TaskGroup, &usize)| {
            times.min(1 + self.failed_logs.get(life).copied().unwrap_or(0))
        };
        transfer.lives.iter().map(kept).sum::<usize>().saturating_sub(1)
    }
}

impl Account {
    /// An MTA begins to transfer a message.
    pub fn submit_transfer(&self, name: &str, envelope: &TransferEnvelope, content: &[u8]) {
        let sender = envelope.originator.address.to_string();
        let ours = envelope.recipients.iter().filter(|r| r.indicators.is_responsible());
        let awaited = ours.filter(|recipient| is_awaited(recipient, &sender)).map(text_of);
        self.submit(name, &sender, awaited.collect(), content);
        let transfer = Transfer {
            envelope: envelope.clone(),
            content_bytes: content.len() as u64,
            checksum: crc32c::crc32c(content),
            lives: BTreeMap::new(),
        };
        self.records.borrow_mut().transfers.insert(name.to_owned(), transfer);
    }

    /// The last octets of it are sent to this life of the node.
    pub fn note_transfer(&self, name: &str, life: TaskGroup) {
        if let Some(transfer) = self.records.borrow_mut().transfers.get_mut(name) {
            *transfer.lives.entry(life).or_default() += 1;
        }
    }

    /// An MTA took a message.
    pub fn handle_transfer(
        &self,
        envelope: &TransferEnvelope,
        content: &[u8],
        arrival: Arrival<'_>,
    ) {
        let name = &*envelope.identifier.local;
        let wrong = match self.records().transfers.get(name) {
            Some(sent) => wrong(sent, envelope, content, arrival.at),
            None => Some("was never sent".to_owned()),
        };
        if let Some(what) = wrong {
            self.violate(Some(name), format!("{name} {what}"));
        }
        for recipient in envelope.recipients.iter().filter(|r| r.indicators.is_responsible()) {
            let address = text_of(recipient);
            self.note_arrival(&address, arrival);
            let mut records = self.records.borrow_mut();
            records.copies.entry(address).or_default().push(arrival.copy());
        }
    }

    /// An MTA took a report.
    pub fn handle_transfer_report(
        &self,
        envelope: &ReportEnvelope,
        content: &ReportContent,
        arrival: Arrival<'_>,
    ) {
        let (to, id) = (envelope.destination.address.to_string(), &*envelope.identifier.local);
        self.note_arrival(&to, arrival);
        let name = &*content.subject.local;
        for recipient in &content.recipients {
            let address = recipient.actual.address.to_string();
            let wrong = match self.records().transfers.get(name) {
                Some(sent) => wrong_report(sent, &to, recipient, &content.subject),
                None => Some("about a message that was never sent"),
            };
            if let Some(what) = wrong {
                self.violate_about(&address, &format!("is reported to {to}: {what}"));
            }
            let mut records = self.records.borrow_mut();
            records.failed.entry(address).or_default().insert(id.to_owned());
        }
        let mut records = self.records.borrow_mut();
        records.copies.entry(format!("{to} {id}")).or_default().push(arrival.copy());
    }

    /// Something goes wrong at an MTA.
    pub fn handle_fault(&self, at: &P1Peer, what: &str) {
        self.trace.note_bytes("p1", what.as_bytes(), || format!("{}: {what}", at.name));
    }

    fn note_arrival(&self, address: &str, arrival: Arrival<'_>) {
        self.trace.note_bytes("arrive", address.as_bytes(), || {
            format!("{address} at {} on connection {}", arrival.at.name, arrival.connection)
        });
    }
}

/// What is wrong with what has come to `at`, for people.
fn wrong(sent: &Transfer, came: &TransferEnvelope, content: &[u8], at: &P1Peer) -> Option<String> {
    let found = (content.len() as u64, crc32c::crc32c(content));
    if found != (sent.content_bytes, sent.checksum) {
        let told = (sent.content_bytes, sent.checksum);
        return Some(format!("arrived as {found:?}, sent as {told:?}"));
    }
    let is_with = |recipient: &Recipient| recipient.indicators.is_responsible();
    if !came.recipients.iter().any(is_with) {
        return Some(format!("arrived at {}, which has responsibility for no recipient", at.name));
    }
    for (sent, came) in sent.envelope.recipients.iter().zip(&came.recipients) {
        let address = text_of(came);
        if is_with(came) && !(is_with(sent) && at.has(&address)) {
            return Some(format!(
                "arrived at {}, which has no responsibility for {address}",
                at.name
            ));
        }
    }
    let is_here = |visit: &TraceElement| visit.domain.to_address().to_string() == X400Plan::DOMAIN;
    let is_noted = came.internal_trace().last().is_some_and(|visit| &*visit.mta == X400Plan::MTA);
    let is_of_1984 = at.mode == Mode::X410Of1984;
    // In 1984 there was no trace within a domain.
    if !came.trace.last().is_some_and(is_here) || is_noted == is_of_1984 {
        return Some("has come without the trace of the node".to_owned());
    }
    let expected = match is_of_1984 {
        true => to_1984(&sent.envelope).map(|made| made.envelope).unwrap_or_default(),
        false => sent.envelope.clone(),
    };
    (relayed(came, &sent.envelope) != expected)
        .then(|| format!("has come as {came:?}, where {expected:?} was expected"))
}

/// What has come without what a relay adds to it and what it changes (X.411 §14.3): it must be what was sent.
fn relayed(came: &TransferEnvelope, sent: &TransferEnvelope) -> TransferEnvelope {
    let mut came = came.clone();
    came.trace.pop();
    let internal = ExtensionKind::Standard(number::INTERNAL_TRACE_INFORMATION);
    came.extensions.0.retain(|extension| extension.kind != internal);
    for (came, sent) in came.recipients.iter_mut().zip(&sent.recipients) {
        let on = sent.indicators.is_responsible();
        came.indicators = came.indicators.with_responsibility(on);
    }
    came
}

/// What is wrong with what a report says of one recipient.
fn wrong_report(
    sent: &Transfer,
    to: &str,
    reported: &ReportedRecipient,
    subject: &MtsIdentifier,
) -> Option<&'static str> {
    let envelope = &sent.envelope;
    let address = reported.actual.address.to_string();
    let mut recipients = envelope.recipients.iter();
    let Some(recipient) = recipients.find(|recipient| text_of(recipient) == address) else {
        return Some("it was never sent a message");
    };
    // Who takes an APDU reports what becomes of it, so the node reports what comes to nothing.
    let diagnostic = match address.ends_with(OR_NOWHERE) {
        // Unrecognised O/R name; maximum time expired (X.411, NonDeliveryDiagnosticCode).
        true => 0,
        false => 5,
    };
    let expected = ReportType::Failed { reason: 1, diagnostic: Some(diagnostic) };
    let indicators = recipient.indicators;
    let mistakes = [
        (to != envelope.originator.address.to_string(), "it has another originator"),
        (*subject != envelope.identifier, "it is about another message"),
        (!indicators.is_responsible(), "another MTA has the responsibility"),
        (!indicators.wants_non_delivery_report(), "its originator requested no report"),
        (reported.number != recipient.number, "it has another number"),
        (reported.outcome != expected, "for another reason"),
    ];
    mistakes.into_iter().find(|(is_so, _)| *is_so).map(|(_, what)| what)
}
