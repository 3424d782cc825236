//! Which recipients stand for our postmaster (RFC 5321 §4.5.1): the one place that decides.

use super::Active;
use crate::answer::Answer;
use crate::message::Message;
use crate::meta;
use bytes::Bytes;
use config::{Config, Reports};
use mail::{Envelope, Mailbox};
use spool::Meta;
use std::rc::Rc;
use std::sync::Arc;

/// Who reads what is sent to an address of ours: those that it stands for by `aliases`, or itself.
pub(crate) type Readers = Rc<dyn Fn(Mailbox) -> Answer<'static, Vec<Mailbox>>>;

/// Recipients that stand for our postmaster get the address that the configuration names. Their
/// indexes as a field, if there are any: they go the postmaster's way, not their domain's.
pub(crate) fn resolve_postmasters(
    config: &Config,
    envelope: &mut Envelope,
) -> Option<(u16, Bytes)> {
    let mut indexes = Vec::new();
    for (recipient, index) in envelope.recipients.iter_mut().zip(0..) {
        if config.is_postmaster(&recipient.mailbox) {
            recipient.mailbox = config.postmaster.address.clone();
            indexes.push(index);
        }
    }
    meta::postmasters(indexes)
}

/// The route of a recipient that its domain does not decide: the postmaster's, none for one that was refused, or
/// what an operator `chose`, which may be nothing.
pub(crate) fn chosen_route<'a>(meta: &'a Meta, index: u32, chose: &'a str) -> &'a str {
    if meta::is_for_postmaster(meta, index) {
        return config::POSTMASTER_ROUTE;
    }
    meta::refusal_of(meta, index).unwrap_or(chose)
}

/// What the configuration says of reports about a recipient.
pub(crate) fn reports_of<'a>(
    active: &'a Active,
    message: &Message,
    index: u32,
) -> &'a Arc<Reports> {
    let config = &active.config;
    if meta::is_for_postmaster(&message.meta, index) {
        let route = config.routes.get(config.postmaster.route);
        return route.map_or(&config.reports, |route| &route.reports);
    }
    let recipient = message.envelope.recipients.get(index as usize);
    let route = recipient.and_then(|recipient| active.route_for(&recipient.mailbox.domain()));
    route.map_or(&config.reports, |route| &route.reports)
}
