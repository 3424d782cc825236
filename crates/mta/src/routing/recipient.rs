//! Which recipients stand for our postmaster (RFC 5321 §4.5.1): the one place that decides.

use super::Active;
use crate::answer::Answer;
use crate::facts::{Kept, RecipientRecords};
use crate::message::Message;
use config::{Config, Reports};
use mail::{Envelope, Mailbox};
use spool::Meta;
use std::rc::Rc;
use std::sync::Arc;

/// Who reads what is sent to an address of ours: those that it stands for by `aliases`, or itself.
pub(crate) type Readers = Rc<dyn Fn(Mailbox) -> Answer<'static, Vec<Mailbox>>>;

/// Recipients that stand for our postmaster get the address that the configuration names, and go the postmaster's
/// way, not their domain's.
pub(crate) fn resolve_postmasters(
    config: &Config,
    envelope: &mut Envelope,
    records: &mut RecipientRecords,
) {
    for (recipient, index) in envelope.recipients.iter_mut().zip(0..) {
        if config.is_postmaster(&recipient.mailbox) {
            recipient.mailbox = config.postmaster.address.clone();
            records.get_mut(index).is_for_postmaster = true;
        }
    }
}

/// The route of a recipient that its domain does not decide: the postmaster's, none for one that was refused, or
/// what an operator `chose`, which may be nothing.
pub(crate) fn chosen_route<'a>(meta: &'a Meta, index: u32, chose: &'a str) -> &'a str {
    let kept = Kept::of(meta);
    if kept.is_for_postmaster(index) {
        return config::POSTMASTER_ROUTE;
    }
    kept.refusal_of(index).unwrap_or(chose)
}

/// What the configuration says of reports about a recipient.
pub(crate) fn reports_of<'a>(
    active: &'a Active,
    message: &Message,
    index: u32,
) -> &'a Arc<Reports> {
    let config = &active.config;
    if message.kept().is_for_postmaster(index) {
        let route = config.routes.get(config.postmaster.route);
        return route.map_or(&config.reports, |route| &route.reports);
    }
    let recipient = message.envelope.recipients.get(index as usize);
    let route = recipient.and_then(|recipient| active.route_for(&recipient.mailbox.domain()));
    route.map_or(&config.reports, |route| &route.reports)
}
