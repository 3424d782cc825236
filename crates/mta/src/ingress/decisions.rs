//! Waits for the decisions of stages, with a timeout and within the shutdown deadline.

use super::admission::Admission;
use super::directory::{RecipientTables, Turns};
use super::limits::Debt;
use super::refusals;
use super::session::Session;
use super::stage::{DECISION_MAX, Resolved, Routed, Stages, TransactionView};
use crate::alarm::Alarm;
use crate::answer::{Answer, Decision, Later};
use crate::pools::PoolId;
use crate::routing::Active;
use crate::routing::conditional::{candidates, find_routes};
use crate::seams::{MailboxCheck, World};
use crate::services::Services;
use config::{FoundRoutes, MailFacts, Route};
use lookup::LookupError;
use mail::{Mailbox, Mono, Recipient, Refusal};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

/// Time that a shutdown grants a pending decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grace {
    /// None, because no transaction has begun.
    None,
    /// The time that transactions have to finish.
    OfTransactions,
}

/// Waits for a decision, [`DECISION_MAX`] at most.
pub(super) async fn decided<W: World, T>(
    services: &Services<W>,
    decision: Decision<'_, T>,
    grace: Grace,
) -> Result<T, Refusal> {
    decided_within(services, decision, grace, DECISION_MAX).await
}

/// Waits for a decision, `time` at most.
pub(super) async fn decided_within<W: World, T>(
    services: &Services<W>,
    decision: Decision<'_, T>,
    grace: Grace,
    time: Duration,
) -> Result<T, Refusal> {
    match decision {
        Answer::Now(decided) => decided,
        // Boxed: most decisions are made at once, and the future would enlarge every session.
        Answer::Later(later) => Box::pin(wait_for(services, later, grace, time)).await,
    }
}

async fn wait<W: World, T>(
    services: &Services<W>,
    later: Later<'_, Result<T, Refusal>>,
    grace: Grace,
) -> Result<T, Refusal> {
    wait_for(services, later, grace, DECISION_MAX).await
}

async fn wait_for<W: World, T>(
    services: &Services<W>,
    later: Later<'_, Result<T, Refusal>>,
    grace: Grace,
    time: Duration,
) -> Result<T, Refusal> {
    let undecided = services.now() + time;
    let mut stopped = Mono::NEVER;
    let mut stop = pin!(services.stopping.listen());
    let mut alarm = Alarm::new(services.world.time().clone());
    let deadline = |cx: &mut Context<'_>| {
        let _ = services.stopping.poll_woken(stop.as_mut(), cx);
        stopped = services.stopping.until().map_or(Mono::NEVER, |until| match grace {
            Grace::None => services.now(),
            Grace::OfTransactions => until,
        });
        undecided.min(stopped)
    };
    match alarm.within(deadline, later).await {
        Some(decided) => decided,
        None if stopped <= undecided => Err(refusals::STOPPED),
        None => Err(refusals::UNDECIDED),
    }
}

/// Resolves a recipient: SRS reversal, routes, stages and the route's tables.
pub(super) struct RecipientResolver<W: World> {
    pub(super) services: Rc<Services<W>>,
    pub(super) active: Rc<Active>,
    pub(super) session: Rc<Session>,
    pub(super) stages: Stages,
    /// `None` if there are neither stages nor routes with conditions.
    pub(super) view: Option<Rc<TransactionView>>,
    pub(super) debt: Debt<W>,
    pub(super) check: MailboxCheck<W>,
    /// The announced size of the content.
    pub(super) size: Option<u64>,
}

impl<W: World> RecipientResolver<W> {
    /// The decision about a recipient.
    pub(super) fn ask(self, recipient: &Recipient) -> Decision<'static, Resolved> {
        let Some(view) = self.view.clone() else { return self.resolve(recipient) };
        let (services, stages) = (Rc::clone(&self.services), Rc::clone(&self.stages));
        let taken = Taken { services, stages, view };
        match self.resolve(recipient) {
            Answer::Now(Ok(resolved)) => taken.ask(recipient, resolved),
            Answer::Now(Err(refusal)) => Answer::Now(Err(refusal)),
            Answer::Later(later) => {
                let recipient = recipient.clone();
                Answer::later(async move { taken.ask(&recipient, later.await?).get().await })
            }
        }
    }

    fn resolve(self, recipient: &Recipient) -> Decision<'static, Resolved> {
        let original = match self.original_of(&recipient.mailbox) {
            Ok(original) => original,
            Err(refusal) => return Answer::Now(Err(refusal)),
        };
        if !self.active.has_domain_tables() && !self.active.config.has_conditional_routes() {
            return self.decide(recipient, original, Ok(FoundRoutes::default()));
        }
        match self.find_routes(original.as_ref().unwrap_or(&recipient.mailbox)) {
            Answer::Now(found) => self.decide(recipient, original, found),
            Answer::Later(later) => {
                let recipient = recipient.clone();
                Answer::later(async move {
                    let later: Later<'_, _> = Box::pin(async { Ok(later.await) });
                    let found = wait(&self.services, later, Grace::OfTransactions).await?;
                    self.decide(&recipient, original, found).get().await
                })
            }
        }
    }

    /// The routes that the file alone does not decide.
    fn find_routes(&self, to: &Mailbox) -> Answer<'static, Result<FoundRoutes, LookupError>> {
        let (client, active) = (self.session.client(), &self.active);
        let tables = self.services.world.tables(client.requester());
        let domain = to.domain();
        let view = self.view.as_ref().filter(|_| active.may_have_conditions(&domain));
        let candidates = view.map_or_else(Vec::new, |view| {
            let login = client.login.as_deref();
            let tenancy = active.config.tenants.choose(login, None).ok().flatten();
            let (sender, recipient) = (view.sender.as_ref(), Some(to));
            let facts = MailFacts { sender, recipient, ..client.facts(tenancy.as_ref()) };
            candidates(&active.config, &facts, &domain, self.session.may_relay())
        });
        find_routes(&tables, active, domain, candidates)
    }

    /// The original sender, if the address was rewritten by our SRS and now gets a bounce.
    fn original_of(&self, mailbox: &Mailbox) -> Result<Option<Mailbox>, Refusal> {
        let srs = self.active.srs.as_ref().filter(|srs| srs.is_rewritten(mailbox));
        let Some(srs) = srs else { return Ok(None) };
        let original = srs.reverse(mailbox, self.services.wall());
        original.map(Some).map_err(refusals::no_way_back)
    }

    /// As `resolve`, after the lookups: `original` is the reversed SRS address.
    fn decide(
        self,
        recipient: &Recipient,
        original: Option<Mailbox>,
        found: Result<FoundRoutes, LookupError>,
    ) -> Decision<'static, Resolved> {
        let found = match found {
            Ok(found) => found,
            Err(trouble) => {
                return Answer::Now(Err(refusals::no_answer(&*self.services.console, &trouble)));
            }
        };
        if let Some(mailbox) = original {
            let original = Recipient { mailbox, ..recipient.clone() };
            let routed = Ok(Resolved::Replaced([original.into()].into()));
            return self.ask_stages(recipient, (routed, None), None);
        }
        let config = &self.active.config;
        let (listener, may_relay) = (self.session.listener(), self.session.may_relay());
        let decision = config.decide_as(listener, may_relay, &recipient.mailbox, found);
        let index = decision.route();
        let route = index.and_then(|index| config.routes.get(index));
        let mut routed = decision.refusal().map_or_else(|| Ok(kept_by(route)), Err);
        // A postmaster that only this session knows as this server's, for example by an address literal.
        if matches!(decision, config::Decision::Postmaster { .. })
            && !config.is_postmaster(&recipient.mailbox)
        {
            let mailbox = config.postmaster.address.clone();
            let own = Recipient { mailbox, ..recipient.clone() };
            routed = Ok(Resolved::Replaced([own.into()].into()));
        }
        // The postmaster always has a mailbox, whatever the tables hold (RFC 5321 §4.5.1).
        let is_asked_for = !matches!(decision, config::Decision::Postmaster { .. });
        if route.is_some_and(|route| route.is_built_in())
            && self.services.shared.own_mailbox.is_full()
        {
            self.services.note_turned_away(PoolId::OwnMailbox);
            routed = Err(refusals::OWN_MAILBOX_FULL);
        }
        let directory = route.filter(|_| routed.is_ok() && is_asked_for).and_then(|route| {
            let Services { world, console, shared, .. } = &*self.services;
            let client = self.session.client().address.ip();
            let turns = || Turns::of_client(&shared.expansions, client, may_relay);
            RecipientTables::of(world, console, &self.active, route, turns)
        });
        let directory = directory.map(|directory| {
            let admission = Admission { check: Rc::clone(&self.check), size: self.size };
            directory.paid_by(self.debt.clone()).admitting(admission)
        });
        self.ask_stages(recipient, (routed, index), directory)
    }

    fn ask_stages(
        self,
        recipient: &Recipient,
        (routed, route): (Result<Resolved, Refusal>, Option<usize>),
        directory: Option<RecipientTables<W>>,
    ) -> Decision<'static, Resolved> {
        // The bare postmaster passes all rules, as in Postfix: a refused sender must be able to ask (RFC 5321 §4.5.1).
        let view = self.view.filter(|_| recipient.mailbox.has_domain());
        if view.is_none() && directory.is_none() {
            return Answer::Now(routed);
        }
        let question = RecipientDecision {
            services: self.services,
            stages: self.stages,
            view,
            recipient: recipient.clone(),
            active: self.active,
            routed,
            route,
            directory,
        };
        question.ask(0)
    }
}

/// Asks the stages about recipients that were accepted.
struct Taken<W: World> {
    services: Rc<Services<W>>,
    stages: Stages,
    view: Rc<TransactionView>,
}

impl<W: World> Taken<W> {
    fn ask(self, recipient: &Recipient, resolved: Resolved) -> Decision<'static, Resolved> {
        for (place, stage) in self.stages.iter().enumerate() {
            match stage.taken(&self.view, recipient) {
                Answer::Now(Ok(())) => {}
                Answer::Now(Err(refusal)) => return Answer::Now(Err(refusal)),
                Answer::Later(later) => {
                    let recipient = recipient.clone();
                    return Answer::later(self.go_on(later, place + 1, recipient, resolved));
                }
            }
        }
        Answer::Now(Ok(resolved))
    }

    async fn go_on(
        self,
        later: Later<'static, Result<(), Refusal>>,
        next: usize,
        recipient: Recipient,
        resolved: Resolved,
    ) -> Result<Resolved, Refusal> {
        wait(&self.services, later, Grace::OfTransactions).await?;
        for stage in self.stages.iter().skip(next) {
            let decision = stage.taken(&self.view, &recipient);
            decided(&self.services, decision, Grace::OfTransactions).await?;
        }
        Ok(resolved)
    }
}

/// The result for a recipient that a route accepts.
pub(super) fn kept_by(route: Option<&Arc<Route>>) -> Resolved {
    match route.filter(|route| !route.channel.keeps_mail()) {
        Some(route) => Resolved::Dropped(format!("discarded by route {}", route.name).into()),
        None => Resolved::Kept,
    }
}

/// The pending decision about one recipient.
struct RecipientDecision<W: World> {
    services: Rc<Services<W>>,
    stages: Stages,
    view: Option<Rc<TransactionView>>,
    recipient: Recipient,
    active: Rc<Active>,
    /// The decision by the routes.
    routed: Result<Resolved, Refusal>,
    /// Index of the route that decided.
    route: Option<usize>,
    /// The tables of the route, if it has any.
    directory: Option<RecipientTables<W>>,
}

impl<W: World> RecipientDecision<W> {
    /// Asks the stages one after another from `next` on, then the tables of the route.
    fn ask(self, mut next: usize) -> Decision<'static, Resolved> {
        while let (Some(view), Some(stage)) = (&self.view, self.stages.get(next)) {
            next += 1;
            let route = self.route.and_then(|index| self.active.config.routes.get(index));
            let routed = Routed { is_taken: self.routed.is_ok(), route: route.map(|it| &**it) };
            match stage.recipient(view, &self.recipient, routed) {
                Answer::Now(Ok(None)) => {}
                Answer::Now(Ok(Some(resolved))) => return self.conclude(resolved),
                Answer::Now(Err(refusal)) => return Answer::Now(Err(refusal)),
                Answer::Later(later) => return Answer::later(self.go_on(later, next)),
            }
        }
        self.conclude(Resolved::Kept)
    }

    async fn go_on(
        self,
        later: Later<'static, Result<Option<Resolved>, Refusal>>,
        next: usize,
    ) -> Result<Resolved, Refusal> {
        match wait(&self.services, later, Grace::OfTransactions).await? {
            Some(resolved) => self.conclude(resolved).get().await,
            None => self.ask(next).get().await,
        }
    }

    fn conclude(self, resolved: Resolved) -> Decision<'static, Resolved> {
        match (resolved, self.routed, self.directory) {
            (Resolved::Kept, Ok(_), Some(directory)) => match directory.resolve(self.recipient) {
                Answer::Now(decided) => Answer::Now(decided),
                Answer::Later(later) => {
                    let services = self.services;
                    let grace = Grace::OfTransactions;
                    Answer::later(async move { wait(&services, later, grace).await })
                }
            },
            (Resolved::Kept, routed, _) => Answer::Now(routed),
            (other, ..) => Answer::Now(Ok(other)),
        }
    }
}
