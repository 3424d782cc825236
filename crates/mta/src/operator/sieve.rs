//! Filters for queue entries: first by the queue's data, then, if necessary, by the message's.

use crate::control::{Filter, QueuedRecipient, RecipientState, is_hop};
use crate::delivery::unreported::FailedRecipient;
use crate::message::Message;
use crate::reply_classes::ReplyClasses;
use crate::routing::Active;
use mail::Mailbox;
use queue::{Glance, GlanceState, Queue};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of messages read in parallel. Each may be several megabytes.
pub(super) const READS_MAX: usize = 16;

/// A filter with normalised values.
pub(super) struct EntryFilter {
    filter: Filter,
    /// Empty: any.
    recipients: BTreeSet<QueuedRecipient>,
}

impl EntryFilter {
    pub(super) fn new(filter: Filter) -> EntryFilter {
        let lower = |text: Option<String>| text.map(|text| text.to_lowercase());
        // O/R addresses have several notations and one normal form.
        let address = |text: &str| Mailbox::parse_any(text).ok().filter(Mailbox::is_or_address);
        let recipient =
            |text: String| address(&text).map_or(text, |it| it.to_string()).to_lowercase();
        let domain = |text: String| match address(&text) {
            Some(it) => it.domain().as_str().to_owned(),
            None => text.to_lowercase(),
        };
        EntryFilter {
            recipients: filter.recipients.iter().copied().collect(),
            filter: Filter {
                domain: filter.domain.map(domain),
                recipient: filter.recipient.map(recipient),
                reason: lower(filter.reason),
                ..filter
            },
        }
    }

    pub(super) fn reads_messages(&self) -> bool {
        let Filter { sender, recipient, client, login, .. } = &self.filter;
        sender.is_some() || recipient.is_some() || client.is_some() || login.is_some()
    }

    /// Returns true if the filter needs more than age and state.
    fn asks_for_queues(&self) -> bool {
        let Filter { domain, route, next_hop, tenant, campaign, .. } = &self.filter;
        let Filter { pool, provider, source, reason, class, .. } = &self.filter;
        let names = [domain, route, next_hop, tenant, campaign, pool, provider, source, reason];
        class.is_some() || names.into_iter().any(Option::is_some)
    }

    /// Returns true if an entry may match by the queue's data. `provider` returns its mailbox provider.
    pub(super) fn passes(
        &self,
        queue: &Queue,
        active: &Active,
        classes: &ReplyClasses,
        glance: &Glance,
        provider: impl FnOnce() -> Option<Arc<str>>,
    ) -> bool {
        let filter = &self.filter;
        let recipient = || QueuedRecipient { id: glance.id, index: glance.recipient };
        if !self.recipients.is_empty() && !self.recipients.contains(&recipient()) {
            return false;
        }
        let age_ms = glance.age_us / 1_000;
        if filter.older_than_ms.is_some_and(|least| age_ms < least)
            || filter.younger_than_ms.is_some_and(|most| age_ms >= most)
            || filter.state.is_some_and(|state| state != state_of(glance.state))
        {
            return false;
        }
        if !self.asks_for_queues() {
            return true;
        }
        let Some(key) = queue.scheduled_key(glance.scheduled) else { return false };
        if filter.domain.as_deref().is_some_and(|domain| key.domain.as_str() != domain) {
            return false;
        }
        let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|w| w == is);
        let placed = glance.ready.and_then(|ready| queue.ready_key(ready));
        if !is(&filter.tenant, &key.tenant)
            || !is(&filter.campaign, &key.campaign)
            || !is(&filter.source, placed.map_or("", |key| &key.source))
            || filter.pool.as_deref().is_some_and(|wanted| active.pool_of_key(key) != wanted)
            || (filter.provider.is_some() && filter.provider.as_deref() != provider().as_deref())
        {
            return false;
        }
        let route = active.route_of_key(key);
        if let Some(wanted) = &filter.route
            && route.is_none_or(|route| *route.name != **wanted)
        {
            return false;
        }
        if let Some(wanted) = &filter.next_hop {
            let is = match placed {
                Some(key) => is_hop(&key.next_hop, wanted),
                None => {
                    route.and_then(|route| route.next_hop()).is_some_and(|hop| is_hop(&hop, wanted))
                }
            };
            if !is {
                return false;
            }
        }
        self.passes_failure(queue, classes, glance)
    }

    /// Returns true if an entry may match by its failure or hold reason.
    fn passes_failure(&self, queue: &Queue, classes: &ReplyClasses, glance: &Glance) -> bool {
        let filter = &self.filter;
        if let Some(wanted) = filter.class {
            let failure = queue.last_failure(glance.entry);
            if failure.and_then(|failure| classes.of(failure)).is_none_or(|v| v.class != wanted) {
                return false;
            }
        }
        filter.reason.as_deref().is_none_or(|words| {
            let failure = queue.last_failure(glance.entry);
            let failed = failure.is_some_and(|f| f.to_string().to_lowercase().contains(words));
            let hold = queue.hold_reason(glance.entry);
            failed || hold.is_some_and(|reason| reason.to_lowercase().contains(words))
        })
    }

    /// Returns true if a recipient matches by its message's data.
    pub(super) fn passes_message(&self, message: &Message, recipient: u32) -> bool {
        let filter = &self.filter;
        if filter.sender.as_deref().is_some_and(|sender| message.sender() != sender) {
            return false;
        }
        if let Some(wanted) = &filter.client {
            let is =
                |text: Option<&str>| text.is_some_and(|text| text.eq_ignore_ascii_case(wanted));
            let kept = message.kept();
            if !is(kept.client().map(|client| client.0)) && !is(kept.helo()) {
                return false;
            }
        }
        if let Some(wanted) = &filter.login
            && !message.kept().login().is_some_and(|login| is_login(login, wanted))
        {
            return false;
        }
        filter.recipient.as_deref().is_none_or(|wanted| {
            let recipient = message.envelope.recipients.get(recipient as usize);
            recipient.is_some_and(|r| r.mailbox.as_str().to_lowercase() == wanted)
        })
    }

    /// Returns true if a failed recipient without a report matches.
    pub(super) fn passes_given_up(
        &self,
        given_up: &FailedRecipient,
        classes: &ReplyClasses,
        age_ms: u64,
    ) -> bool {
        let filter = &self.filter;
        let domain = given_up.domain.as_ref().map(mail::Domain::as_str);
        let failure = given_up.failure.as_ref().map(|f| f.to_string().to_lowercase());
        filter.state.is_none_or(|state| state == RecipientState::Unreported)
            && filter.domain.as_deref().is_none_or(|wanted| domain == Some(wanted))
            && filter.recipient.as_deref().is_none_or(|w| given_up.address.to_lowercase() == w)
            && filter.older_than_ms.is_none_or(|least| age_ms >= least)
            && filter.younger_than_ms.is_none_or(|most| age_ms < most)
            && filter.reason.as_deref().is_none_or(|words| {
                failure.as_deref().is_some_and(|failure| failure.contains(words))
            })
            && filter.class.is_none_or(|wanted| {
                let verdict = given_up.failure.as_ref().and_then(|failure| classes.of(failure));
                verdict.is_some_and(|verdict| verdict.class == wanted)
            })
            && filter.route.is_none()
            && filter.next_hop.is_none()
            && filter.client.is_none()
            && filter.login.is_none()
            && filter.tenant.is_none()
            && filter.campaign.is_none()
            && filter.pool.is_none()
            && filter.provider.is_none()
            && filter.source.is_none()
            && self.recipients.is_empty()
    }

    /// The sender in the filter.
    pub(super) fn sender(&self) -> Option<&str> {
        self.filter.sender.as_deref()
    }
}

/// Compares as a revocation does.
fn is_login(login: &str, wanted: &str) -> bool {
    login.to_lowercase() == wanted.to_lowercase()
}

fn state_of(state: GlanceState) -> RecipientState {
    match state {
        GlanceState::Scheduled => RecipientState::Scheduled,
        GlanceState::Ready => RecipientState::Ready,
        GlanceState::InFlight => RecipientState::InFlight,
        GlanceState::Held => RecipientState::Held,
    }
}
