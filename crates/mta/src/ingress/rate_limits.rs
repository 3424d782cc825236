//! Limits of accepted mail (`[[limit]]`) at MAIL and RCPT.

use super::{Connection, Ingress, Transaction, refusals};
use crate::answer::Answer;
use crate::conditions::all_hold;
use crate::console::Quoted;
use crate::event::{Client, Kind, LimitEvent};
use crate::rate_limits::{LimitBy, LimitCharges, RateLimit, RateLimits, Spent, Unit};
use crate::seams::World;
use config::{Config, Listener, MailFacts};
use mail::{Mailbox, Refusal, TagDelimiters};
use std::rc::Rc;
use std::sync::Arc;

/// The limits of a listener.
pub(super) type ListenerLimits = Rc<[Arc<RateLimit>]>;

/// The limits of a listener, without any if none limits anything.
pub(super) fn limits_at(config: &Config, listener: &Listener) -> ListenerLimits {
    let all = config.of::<RateLimits>().map_or(&[][..], |RateLimits(limits)| limits);
    let here = || all.iter().filter(|limit| limit.is_at(listener));
    if here().all(|limit| limit.maxima.is_empty()) {
        return Rc::default();
    }
    here().cloned().collect()
}

impl<W: World> Connection<W> {
    /// Counts a message of this sender towards the limits that apply to it.
    ///
    /// # Errors
    /// A limit is reached, or a table with conditions gives no answer.
    pub(super) async fn count_message(
        &self,
        sender: Option<&Mailbox>,
    ) -> Result<Option<Box<LimitCharges>>, Refusal> {
        let Some(limits) = self.ingress.limits(self.count.socket) else { return Ok(None) };
        if limits.iter().all(|limit| limit.when.is_none()) {
            return self.count_by(&limits, sender);
        }
        // Boxed: the future would enlarge every session.
        let limits = Box::pin(self.applicable(&limits, sender)).await?;
        self.count_by(&limits, sender)
    }

    /// The limits with conditions that hold for the message, and those without.
    async fn applicable(
        &self,
        limits: &[Arc<RateLimit>],
        sender: Option<&Mailbox>,
    ) -> Result<Vec<Arc<RateLimit>>, Refusal> {
        let (services, client) = (&self.ingress.services, self.session.client());
        let active = self.ingress.router.active();
        let login = client.login.as_deref();
        let tenancy = active.config.tenants.choose(login, None).ok().flatten();
        let facts = MailFacts { sender, ..client.facts(tenancy.as_ref()) };
        let tables = services.world.tables(client.requester());
        let mut applicable = Vec::with_capacity(limits.len());
        for limit in limits {
            let holds = match &limit.when {
                None => Answer::Now(Ok(true)),
                Some(when) => all_hold(&tables, when, &facts),
            };
            let holds = holds.get().await;
            if holds.map_err(|trouble| refusals::no_answer(&*services.console, &trouble))? {
                applicable.push(Arc::clone(limit));
            }
        }
        Ok(applicable)
    }

    fn count_by(
        &self,
        limits: &[Arc<RateLimit>],
        sender: Option<&Mailbox>,
    ) -> Result<Option<Box<LimitCharges>>, Refusal> {
        let (shared, client) = (&self.ingress.services.shared, self.session.client());
        let active = self.ingress.router.active();
        let config = &active.config;
        let value = |by: LimitBy| match by {
            LimitBy::Login => client.login.clone(),
            LimitBy::Sender => sender.map(|sender| untagged(sender, &config.tag_delimiters).into()),
            LimitBy::SenderDomain => {
                sender.map(|sender| sender.domain_str().to_ascii_lowercase().into())
            }
            LimitBy::Listener => Some(Arc::clone(&client.listener)),
        };
        let now = self.ingress.services.wall();
        let tenants = &config.tenants;
        let charges = LimitCharges::new(&shared.rate_limits, limits, value, tenants, now);
        let Some(mut charges) = charges else { return Ok(None) };
        self.ingress.count_towards(&mut charges, Unit::Messages, client)?;
        Ok(Some(charges))
    }
}

impl<W: World> Transaction<W> {
    /// Counts a recipient towards the limits that apply to the message.
    ///
    /// # Errors
    /// A limit is reached.
    pub(super) fn count_recipient(&mut self) -> Result<(), Refusal> {
        let Some(charges) = &mut self.limits else { return Ok(()) };
        self.ingress.count_towards(charges, Unit::Recipients, self.session.client())
    }

    /// The reason to hold the message, if it exceeds a limit with `over = "hold"`.
    pub(super) fn exceeds(&self) -> Option<String> {
        let hold = self.limits.as_ref()?.hold.as_ref()?;
        Some(hold.to_string())
    }
}

impl<W: World> Ingress<W> {
    /// The limits of a socket; `None` without any.
    fn limits(&self, socket: usize) -> Option<ListenerLimits> {
        self.limits.borrow().get(socket).filter(|limits| !limits.is_empty()).cloned()
    }

    fn count_towards(
        &self,
        charges: &mut LimitCharges,
        unit: Unit,
        client: &Arc<Client>,
    ) -> Result<(), Refusal> {
        let counted = charges.count(unit, self.services.wall(), |spent| self.report(spent, client));
        counted.map_err(|unit| match unit {
            Unit::Messages => refusals::LIMIT_OF_MESSAGES,
            Unit::Recipients => refusals::LIMIT_OF_RECIPIENTS,
        })
    }

    /// Reports a reached limit: in metrics each time, and as line and event when it is reached.
    fn report(&self, Spent { reached, is_news }: &Spent, client: &Arc<Client>) {
        let (services, by) = (&self.services, reached.limit.by);
        services.metrics.limited[by].inc();
        if !is_news {
            return;
        }
        services.metrics.limits_reached[by].inc();
        let (value, over) = (Quoted(&reached.value), reached.limit.over.as_str());
        let (maximum, address) = (&reached.maximum, client.address);
        services.console.warn(
            "limit",
            format_args!(
                "limit reached by={} value={value} limit={} unit={} over={over} client={address}",
                by.as_str(),
                maximum.rate,
                maximum.unit.as_str()
            ),
        );
        if services.events.is_on() {
            let event = LimitEvent {
                by,
                value: Arc::clone(&reached.value),
                maximum: reached.maximum,
                over: reached.limit.over,
                client: Arc::clone(client),
            };
            services.emit_of_none(Kind::Limited(Box::new(event)));
        }
    }
}

/// A sender without its tag, in lower case: a client could use any number of tags.
fn untagged(sender: &Mailbox, tags: &TagDelimiters) -> String {
    let address = sender.as_str().to_lowercase();
    let Some((local, domain)) = address.rsplit_once('@') else { return address };
    match tags.split(local) {
        Some((user, ..)) => format!("{user}@{domain}"),
        None => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_capitals_make_no_other_sender() {
        for (delimiters, sender, counted) in [
            ("+", "Jo@X.test", "jo@x.test"),
            ("+", "jo+a+b@x.test", "jo@x.test"),
            ("+", "+jo@x.test", "+jo@x.test"),
            ("+", "jo-a@x-y.test", "jo-a@x-y.test"),
            ("-", "jo-a@x-y.test", "jo@x-y.test"),
            ("-", "jo+a@x.test", "jo+a@x.test"),
            ("", "jo+a@x.test", "jo+a@x.test"),
        ] {
            let mailbox = Mailbox::parse(sender, false).unwrap();
            let tags = TagDelimiters::parse(delimiters).unwrap();
            assert_eq!(untagged(&mailbox, &tags), counted, "{delimiters} {sender}");
        }
    }
}
