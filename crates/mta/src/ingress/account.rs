//! The account of what was refused: counters, and the event log.

use super::Ingress;
use crate::event::{self, Client, Event, Kind};
use crate::metrics::{Counter, Metrics};
use crate::seams::World;
use mail::{Envelope, Mailbox, Reply};
use std::sync::Arc;

/// Something that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// At which step: `connect`, `AUTH`, `MAIL`, `RCPT`, `DATA`, `content`, or `command` for all others.
    pub step: &'static str,
    /// The reverse-path, if it was known; empty for `<>`.
    pub sender: Option<Box<str>>,
    /// The recipient, where one was refused.
    pub recipient: Option<Box<str>>,
    /// Who wanted to log in, where that failed.
    pub login: Option<Box<str>>,
    pub reply: Reply,
}

/// Counts a refusal and puts it into the event log, unless there were too many lately. Every
/// refusal at intake passes here, once.
pub(super) fn account<W: World>(ingress: &Ingress<W>, client: &Arc<Client>, refused: Refused) {
    reason_counter(&ingress.services.metrics, &refused.reply).inc();
    if !ingress.services.events.is_on() {
        return;
    }
    let Some(unlogged) = ingress.refusals.borrow_mut().admit(ingress.services.now()) else {
        return;
    };
    let Refused { step, sender, recipient, login, reply } = refused;
    let client = Arc::clone(client);
    let refusal = event::Refusal { client, step, sender, recipient, login, reply, unlogged };
    ingress.services.events.emit(Event {
        at: ingress.services.wall(),
        message: None,
        recipients: event::Recipients::new(),
        kind: Kind::Refused(Box::new(refusal)),
    });
}

/// A refusal of what `envelope` was to carry; the recipient is named when there is only one.
pub(super) fn content_refused(envelope: &Envelope, reply: Reply) -> Refused {
    let sender = envelope.reverse_path.as_ref().map_or("", Mailbox::as_str);
    let recipient = match envelope.recipients.as_slice() {
        [only] => Some(Box::from(only.mailbox.as_str())),
        _ => None,
    };
    Refused { step: "content", sender: Some(Box::from(sender)), recipient, login: None, reply }
}

/// Why, as far as a label may tell: by the enhanced status (RFC 3463 §3).
fn reason_counter<'a>(metrics: &'a Metrics, reply: &Reply) -> &'a Counter {
    let Some(status) = reply.enhanced else { return &metrics.refused_protocol };
    match (status.class, status.subject, status.detail) {
        (5, 3, 4) => &metrics.refused_size,
        // Of checks of who sends (RFC 7372).
        (4, 7, 20..=29) => &metrics.refused_policy,
        (_, 3, 2) | (4, 7, _) | (4, 5, 3) => &metrics.refused_limit,
        (_, 3, _) => &metrics.refused_resources,
        (_, 6, _) | (5, 4, 6) => &metrics.refused_content,
        (_, 5, _) | (5, 1, 3 | 7) => &metrics.refused_protocol,
        _ => &metrics.refused_policy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_has_a_reason() {
        let metrics = Metrics::default();
        let reason = |code, status| {
            let counter = reason_counter(&metrics, &Reply::new(code, status, "no"));
            let all = [
                ("protocol", &metrics.refused_protocol),
                ("size", &metrics.refused_size),
                ("content", &metrics.refused_content),
                ("policy", &metrics.refused_policy),
                ("limit", &metrics.refused_limit),
                ("resources", &metrics.refused_resources),
            ];
            let found = all.into_iter().find(|(_, other)| std::ptr::eq(counter, *other));
            found.map_or("", |(name, _)| name)
        };
        for (code, status, expected) in [
            (500, (5, 5, 2), "protocol"),
            (501, (5, 1, 3), "protocol"),
            (501, (5, 1, 7), "protocol"),
            (552, (5, 3, 4), "size"),
            (550, (5, 6, 0), "content"),
            (554, (5, 4, 6), "content"),
            (550, (5, 7, 1), "policy"),
            (450, (4, 7, 25), "policy"),
            (450, (4, 7, 1), "limit"),
            (550, (5, 1, 2), "policy"),
            (421, (4, 7, 0), "limit"),
            (421, (4, 3, 2), "limit"),
            (452, (4, 5, 3), "limit"),
            (452, (4, 3, 1), "resources"),
            (451, (4, 3, 0), "resources"),
        ] {
            assert_eq!(reason(code, status), expected, "{code} {status:?}");
        }
    }
}
