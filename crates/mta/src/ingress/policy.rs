//! Who may say what: limits of a listener, relay decisions, refusals in the log.

use super::{Ingress, refusals};
use super::rules::ListenerRules;
use crate::clients::{Rate, SessionCounts};
use crate::event::{self, Client, Event, Kind};
use crate::metrics::{Counter, Metrics};
use crate::seams::World;
use mail::{Envelope, Mailbox, Recipient, Refusal, Reply};
use smtp::server::Refused;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Counts a session of one client address at one listener while it lives.
pub(super) struct ClientCount<W: World> {
    ingress: Rc<Ingress<W>>,
    /// The index of the socket.
    listener: usize,
    ip: IpAddr,
    /// When it began.
    at_start: SessionCounts,
    is_turned_away: bool,
    /// By `relay_from` of its listener.
    pub(super) may_relay: bool,
    /// By `exempt_from_limits` of its listener.
    is_exempt: bool,
}

impl<W: World> ClientCount<W> {
    pub(super) fn enter(
        ingress: &Rc<Ingress<W>>,
        rules: &ListenerRules,
        listener: usize,
        ip: IpAddr,
    ) -> ClientCount<W> {
        let at_start = ingress.services.shared.clients.enter(listener, ip, ingress.services.now());
        let may_relay = rules.listener.relay_network(ip).is_some();
        let is_exempt = rules.listener.is_exempt(ip);
        ClientCount {
            ingress: Rc::clone(ingress),
            listener,
            ip,
            at_start,
            is_turned_away: false,
            may_relay,
            is_exempt,
        }
    }

    /// The session is not let in. From now on it takes no place that another could have: strangers
    /// who hammer would hold what is kept from them until their connections are closed.
    pub(super) fn turn_away(&mut self) {
        self.is_turned_away = true;
        self.ingress.services.shared.turned_away.fetch_add(1, Ordering::Relaxed);
        self.leave();
    }

    fn leave(&self) {
        self.ingress.services.shared.clients.leave(
            self.listener,
            self.ip,
            self.ingress.services.now(),
        );
    }
}

impl<W: World> Drop for ClientCount<W> {
    fn drop(&mut self) {
        if self.is_turned_away {
            self.ingress.services.shared.turned_away.fetch_sub(1, Ordering::Relaxed);
        } else {
            self.leave();
        }
    }
}

/// Whether a new session may proceed.
///
/// # Errors
/// Why it is turned away.
pub(super) fn admit<W: World>(
    ingress: &Rc<Ingress<W>>,
    rules: &ListenerRules,
    count: &ClientCount<W>,
) -> Result<(), Refusal> {
    if ingress.services.stopping.until().is_some() {
        return Err(refusals::SHUTTING_DOWN);
    }
    let listener = &rules.listener;
    let may_relay = count.may_relay;
    // What strangers can't take is there for those whom the server is for.
    let part = |max: u32, reserved: bool| if reserved { max - max / RESERVED_PART } else { max };
    let own = part(listener.max_sessions, !may_relay && !listener.relay_from.is_empty());
    let all = part(
        ingress.services.shared.sessions_max,
        !may_relay && ingress.router.active().config.has_relay(),
    );
    if over(count.at_start.listener, own) || ingress.services.shared.admitted_count() > all {
        return Err(refusals::SESSIONS);
    }
    let each = listener.max_sessions_per_address;
    let each = if may_relay { each.saturating_mul(RELAY_SESSIONS_FACTOR) } else { each };
    if !count.is_exempt && over(count.at_start.client, each) {
        return Err(refusals::SESSIONS_OF_CLIENT);
    }
    if !count.charge(rules, Rate::Connections) {
        return Err(refusals::CONNECTIONS);
    }
    if count.is_exhausted(rules, Rate::Refusals) {
        return Err(refusals::REFUSED_BEFORE);
    }
    Ok(())
}

/// One in so many sessions is kept for clients that may relay.
const RESERVED_PART: u32 = 10;
/// Clients that may relay may have so many times `max_sessions_per_address`.
const RELAY_SESSIONS_FACTOR: u32 = 20;

impl<W: World> ClientCount<W> {
    /// What is allowed per minute of this; 0, which is no limit, for clients that may relay and for
    /// those that the configuration exempts.
    fn per_minute(&self, rules: &ListenerRules, rate: Rate) -> u32 {
        let listener = &rules.listener;
        let max = match rate {
            Rate::Connections => listener.connections_per_minute,
            Rate::Messages => listener.messages_per_minute,
            Rate::Recipients => listener.recipients_per_minute,
            Rate::Refusals => listener.refusals_per_minute,
        };
        if self.may_relay || self.is_exempt { 0 } else { max }
    }

    /// Counts one; `false`: one too many.
    pub(super) fn charge(&self, rules: &ListenerRules, rate: Rate) -> bool {
        let clients = &self.ingress.services.shared.clients;
        let max = self.per_minute(rules, rate);
        max == 0 || clients.charge(self.listener, self.ip, rate, max, self.ingress.services.now())
    }

    fn is_exhausted(&self, rules: &ListenerRules, rate: Rate) -> bool {
        let clients = &self.ingress.services.shared.clients;
        let max = self.per_minute(rules, rate);
        max > 0
            && clients.is_exhausted(self.listener, self.ip, rate, max, self.ingress.services.now())
    }
}

/// 0 is no limit.
fn over(count: u32, max: u32) -> bool {
    max > 0 && count > max
}

/// Whether the reverse-path may send at all. The spool's state is looked at here already, so that
/// a client learns early that it is in vain.
pub(super) fn decide_mail<W: World>(
    ingress: &Rc<Ingress<W>>,
    rules: &ListenerRules,
    count: &ClientCount<W>,
) -> Result<(), Refusal> {
    if ingress.custody.is_poisoned() {
        return Err(refusals::CANNOT_WRITE);
    }
    if count.is_exhausted(rules, Rate::Refusals) {
        return Err(refusals::REFUSALS);
    }
    if !count.charge(rules, Rate::Messages) {
        return Err(refusals::MESSAGES);
    }
    Ok(())
}

/// Whether this client may send to this recipient.
///
/// # Errors
/// Why not.
pub(super) fn decide_rcpt<W: World>(
    ingress: &Rc<Ingress<W>>,
    rules: &ListenerRules,
    count: &ClientCount<W>,
    recipient: &Recipient,
) -> Result<(), Refusal> {
    if count.is_exhausted(rules, Rate::Refusals) {
        return Err(refusals::REFUSALS);
    }
    let active = ingress.router.active();
    let decision = active.config.decide(&rules.listener, Some(count.ip), &recipient.mailbox);
    if let Some(refusal) = decision.refusal() {
        return Err(refusal);
    }
    if !count.charge(rules, Rate::Recipients) {
        return Err(refusals::RECIPIENTS);
    }
    Ok(())
}

/// Counts a refusal and puts it into the event log, unless there were too many lately. Every
/// refusal at intake passes here, once.
pub(super) fn account<W: World>(
    ingress: &Ingress<W>,
    client: impl FnOnce() -> Arc<Client>,
    refused: Refused,
) {
    reason_counter(&ingress.services.metrics, &refused.reply).inc();
    if !ingress.services.events.is_on() {
        return;
    }
    let Some(unlogged) = ingress.refusals.borrow_mut().admit(ingress.services.now()) else {
        return;
    };
    let Refused { step, sender, recipient, reply } = refused;
    let refusal =
        event::Refusal { client: client(), step, sender, recipient, reply, unlogged };
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
    Refused { step: "content", sender: Some(Box::from(sender)), recipient, reply }
}

/// Why, as far as a label may tell: by the enhanced status (RFC 3463 §3).
fn reason_counter<'a>(metrics: &'a Metrics, reply: &Reply) -> &'a Counter {
    let Some(status) = reply.enhanced else { return &metrics.refused_protocol };
    match (status.class, status.subject, status.detail) {
        (5, 3, 4) => &metrics.refused_size,
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
