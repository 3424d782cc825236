//! Accounts for refusals: increments the counters and writes to the event log.

use super::Ingress;
use crate::event::{self, Client, Event, Kind};
use crate::metrics::RefusalReason;
use crate::seams::World;
use mail::{Envelope, Mailbox, Reply};
use std::sync::Arc;

/// A refused command, login or message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalRecord {
    /// The step: `connect`, `AUTH`, `MAIL`, `RCPT`, `DATA` or `content`; `command` for every other command.
    pub step: &'static str,
    /// The reverse-path, if it was known; empty for `<>`.
    pub sender: Option<Box<str>>,
    /// The refused recipient, if the refusal is about exactly one.
    pub recipient: Option<Box<str>>,
    /// The user name of a failed login.
    pub login: Option<Box<str>>,
    /// The SASL mechanism of a failed login.
    pub mechanism: Option<&'static str>,
    pub reply: Reply,
}

/// Counts a refusal and emits an event, within the rate limit for refusal events. Every refusal at intake passes here
/// exactly once.
pub(super) fn account<W: World>(
    ingress: &Ingress<W>,
    client: &Arc<Client>,
    refused: RefusalRecord,
) {
    ingress.services.metrics.refused[reason_of(&refused.reply)].inc();
    if !ingress.services.events.is_on() {
        return;
    }
    let Some(unlogged) = ingress.refusals.borrow_mut().admit(ingress.services.now()) else {
        return;
    };
    let RefusalRecord { step, sender, recipient, login, mechanism, reply } = refused;
    let client = Arc::clone(client);
    let refusal =
        event::Refusal { client, step, sender, recipient, login, mechanism, reply, unlogged };
    ingress.services.events.emit(Event {
        at: ingress.services.wall(),
        message: None,
        recipients: event::Recipients::new(),
        kind: Kind::Refused(Box::new(refusal)),
    });
}

/// The record for refused content. Names the recipient only if the envelope has exactly one.
pub(super) fn content_refused(envelope: &Envelope, reply: Reply) -> RefusalRecord {
    let sender = envelope.reverse_path.as_ref().map_or("", Mailbox::as_str);
    let recipient = match envelope.recipients.as_slice() {
        [only] => Some(Box::from(only.mailbox.as_str())),
        _ => None,
    };
    RefusalRecord {
        step: "content",
        sender: Some(Box::from(sender)),
        recipient,
        login: None,
        mechanism: None,
        reply,
    }
}

/// The label value for the reason, from the enhanced status code (RFC 3463 §3).
fn reason_of(reply: &Reply) -> RefusalReason {
    let Some(status) = reply.enhanced else { return RefusalReason::Protocol };
    match (status.class, status.subject, status.detail) {
        (5, 3, 4) => RefusalReason::Size,
        // Sender authentication checks (RFC 7372).
        (4, 7, 20..=29) => RefusalReason::Policy,
        (_, 3, 2) | (4, 7, _) | (4, 5, 3) => RefusalReason::Limit,
        (_, 3, _) => RefusalReason::Resources,
        (_, 6, _) | (5, 4, 6) => RefusalReason::Content,
        (_, 5, _) | (5, 1, 3 | 7) => RefusalReason::Protocol,
        _ => RefusalReason::Policy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_has_a_reason() {
        let reason = |code, status| reason_of(&Reply::new(code, status, "no"));
        for (code, status, expected) in [
            (500, (5, 5, 2), RefusalReason::Protocol),
            (501, (5, 1, 3), RefusalReason::Protocol),
            (501, (5, 1, 7), RefusalReason::Protocol),
            (552, (5, 3, 4), RefusalReason::Size),
            (550, (5, 6, 0), RefusalReason::Content),
            (554, (5, 4, 6), RefusalReason::Content),
            (550, (5, 7, 1), RefusalReason::Policy),
            (450, (4, 7, 25), RefusalReason::Policy),
            (450, (4, 7, 1), RefusalReason::Limit),
            (550, (5, 1, 2), RefusalReason::Policy),
            (421, (4, 7, 0), RefusalReason::Limit),
            (421, (4, 3, 2), RefusalReason::Limit),
            (452, (4, 5, 3), RefusalReason::Limit),
            (452, (4, 3, 1), RefusalReason::Resources),
            (451, (4, 3, 0), RefusalReason::Resources),
        ] {
            assert_eq!(reason(code, status), expected, "{code} {status:?}");
        }
    }
}
