//! What rules of shaping have set in force: the file that outlives the process, and the judge of whether it holds.
//!
//! What is written in the file holds until its time is over, whatever process reads it: where nothing may be sent
//! nothing is, and what goes slower does. Only its end by the clock ends it, and a reload that drops its rule. (No
//! operator lifts anything here, and no rule counts deliveries.)

use super::LOWERED_US;
use super::account::Account;
use super::executor::{Executor, OUTSIDE, TaskGroup, wall_ms};
use super::network::Network;
use super::paces::{self, StartedTransaction};
use super::plan::{Plan, RulePlan, Word};
use super::rates::worst_stretch;
use super::ready_queues::ReadyQueues;
use mta::control::Effect;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

/// What was taken by a connection when its mail was stopped is begun within this time.
const TAKEN_US: u64 = 20_000_000;

/// A clock of milliseconds cuts something off.
const ROUNDED_MS: u64 = 2;

/// The file, and who reads it over the node's shoulder.
#[derive(Debug)]
pub struct Effects {
    executor: Executor,
    account: Rc<Account>,
    network: Network,
    queues: Rc<ReadyQueues>,
    plan: Rc<Plan>,
    wall_offset_ms: Rc<Cell<i64>>,
    /// The life of the node that there is.
    life: Cell<TaskGroup>,
    /// What stands in the file.
    kept: RefCell<Vec<Effect>>,
    /// In the order in which they came.
    held: RefCell<Vec<RecordedEffect>>,
}

/// An effect that was written.
#[derive(Debug)]
struct RecordedEffect {
    effect: Effect,
    word: Word,
    /// The life of the node that wrote it, and when.
    by: (TaskGroup, u64),
    /// It was seen to end, or to begin anew.
    is_over: bool,
    /// It was given up too soon: that was told.
    is_lost: bool,
    /// Something was sent in spite of it: that was told.
    is_broken: bool,
    /// What it slows down, by life of the node.
    begun: BTreeMap<TaskGroup, Vec<u64>>,
}

/// Which rule it is of, and whom it concerns.
fn concerns(effect: &Effect) -> [Option<&str>; 4] {
    let Effect { rule, next_hop, source, tenant, .. } = effect;
    [Some(rule), next_hop.as_deref(), source.as_deref(), tenant.as_deref()]
}

impl RecordedEffect {
    fn is_same(&self, effect: &Effect) -> bool {
        let own = &self.effect;
        concerns(own) == concerns(effect) && own.renewed == effect.renewed
    }

    fn left_ms(&self, now_ms: u64) -> u64 {
        self.effect.until.0.saturating_sub(now_ms)
    }

    /// From when on it must hold for this life of the node, if `grace_us` is what takes its time.
    fn since_us(&self, life: TaskGroup, grace_us: u64) -> u64 {
        let (by, at_us) = self.by;
        match life.cmp(&by) {
            Ordering::Less => u64::MAX,
            Ordering::Equal => at_us.saturating_add(grace_us),
            Ordering::Greater => 0,
        }
    }
}

impl Effects {
    /// An empty file.
    #[must_use]
    pub fn new(
        plan: &Rc<Plan>,
        executor: &Executor,
        account: &Rc<Account>,
        (network, queues): (&Network, &Rc<ReadyQueues>),
        wall_offset_ms: &Rc<Cell<i64>>,
    ) -> Rc<Effects> {
        Rc::new(Effects {
            executor: executor.clone(),
            account: Rc::clone(account),
            network: network.clone(),
            queues: Rc::clone(queues),
            plan: Rc::clone(plan),
            wall_offset_ms: Rc::clone(wall_offset_ms),
            life: Cell::new(OUTSIDE),
            kept: RefCell::default(),
            held: RefCell::default(),
        })
    }

    /// Whether there are any rules.
    #[must_use]
    pub fn are_possible(&self) -> bool {
        self.plan.pace.as_ref().is_some_and(|pace| !pace.angers.is_empty() || pace.echo.is_some())
    }

    /// What stands in the file.
    #[must_use]
    pub fn kept(&self) -> Vec<Effect> {
        self.kept.borrow().clone()
    }

    fn now_ms(&self) -> u64 {
        wall_ms(&self.executor, &self.wall_offset_ms)
    }

    /// This life of the node has written these.
    pub fn keep(&self, life: TaskGroup, effects: Vec<Effect>) {
        let now_ms = self.now_ms();
        let mut held = self.held.borrow_mut();
        for known in held.iter_mut().filter(|known| !known.is_over) {
            let is_full = |effect: &Effect| known.is_same(effect) && effect.returned == 0;
            if effects.iter().any(is_full) {
                continue;
            }
            let is_renewed = effects.iter().any(|effect| {
                let own = &known.effect;
                concerns(own) == concerns(effect) && effect.renewed > own.renewed
            });
            let left_ms = known.left_ms(now_ms);
            known.is_over = is_renewed || left_ms <= ROUNDED_MS;
            if !known.is_over && !std::mem::replace(&mut known.is_lost, true) {
                let rule = &known.effect.rule;
                let text = format!("rule {rule} is ended by {life:?} {left_ms} ms too soon");
                self.account.violate(None, text);
            }
        }
        for effect in effects.iter().filter(|effect| effect.returned == 0) {
            let word = Word::of_rule(&effect.rule);
            let is_known = held.iter().any(|known| known.is_same(effect));
            if let Some(word) = word.filter(|_| !is_known) {
                self.check_said(word);
                held.push(RecordedEffect {
                    effect: effect.clone(),
                    word,
                    by: (life, self.executor.now_us()),
                    is_over: false,
                    is_lost: false,
                    is_broken: false,
                    begun: BTreeMap::new(),
                });
            }
        }
        drop(held);
        *self.kept.borrow_mut() = effects;
        self.cap();
    }

    /// What only recipients' addresses say sets nothing in force.
    fn check_said(&self, word: Word) {
        if self.plan.pace.as_ref().is_some_and(|pace| pace.echo == Some(word)) {
            let rule = word.rule();
            self.account
                .violate(None, format!("rule {rule} is in force by an echo of our own command"));
        }
    }

    /// These rules are in force from now on.
    pub fn set_rules(&self, rules: &[RulePlan]) {
        for known in self.held.borrow_mut().iter_mut() {
            let rule = rules.iter().find(|rule| rule.word == known.word);
            // One that concerns others is another.
            let is_there = rule.is_some_and(|rule| {
                known.word == Word::SuspendTenant
                    || rule.is_of_every_source == known.effect.source.is_none()
            });
            known.is_over |= !is_there;
        }
        self.cap();
    }

    /// A life of the node begins.
    pub fn begin(&self, life: TaskGroup) {
        self.life.set(life);
        self.cap();
    }

    /// The wall clock is about to be turned. What is over by then is over, though it is not written yet: a process
    /// that was not there meanwhile, or has just begun, may have read so.
    pub fn end_those_over(&self) {
        let now_ms = self.now_ms();
        for held in self.held.borrow_mut().iter_mut() {
            held.is_over |= held.left_ms(now_ms) <= ROUNDED_MS;
        }
    }

    /// The wall clock was turned: what ends by it ends at another time.
    pub fn turn(&self) {
        self.cap();
    }

    /// Until which time of the simulation it holds, if it does.
    fn until_us(&self, held: &RecordedEffect) -> Option<u64> {
        let left_ms = held.effect.until.0.checked_sub(self.now_ms() + ROUNDED_MS)?;
        (!held.is_over).then(|| self.executor.now_us() + left_ms * 1_000)
    }

    /// Has the network count connections by what slows down to one. What was being opened may be opened still.
    fn cap(&self) {
        let Some(pace) = &self.plan.pace else { return };
        for &source in &pace.sources {
            let name = pace.name_of(source);
            let held = self.held.borrow();
            // One of a next hop alone leaves the others theirs.
            let slow = held.iter().filter(|held| {
                held.word == Word::Backoff
                    && held.effect.source == name
                    && held.effect.next_hop.is_none()
            });
            let spans = slow.filter_map(|held| {
                Some((held.since_us(self.life.get(), LOWERED_US), self.until_us(held)?))
            });
            self.network.cap_from(source, spans.max_by_key(|&(_, until_us)| until_us), 1);
        }
    }

    /// The node began a transaction.
    pub fn note(&self, begun: StartedTransaction<'_>) {
        let StartedTransaction { life, between: (from, to), sender, at_us } = begun;
        let Some(pace) = &self.plan.pace else { return };
        if !self.plan.provider_hosts().iter().any(|host| host.ip() == to) {
            return;
        }
        let source = pace.name_of(from);
        let tenant = paces::number_of(sender).and_then(|number| self.plan.tenant_of(number));
        let tenant = tenant.map(|tenant| format!("t{tenant}"));
        for held in self.held.borrow_mut().iter_mut() {
            let Effect { source: of, tenant: whose, .. } = &held.effect;
            let is_meant = (of.is_none() || *of == source) && (whose.is_none() || *whose == tenant);
            let is_meant = is_meant && self.is_way(&held.effect, life, to);
            let is_in_time =
                at_us >= held.since_us(life, TAKEN_US) && self.until_us(held) > Some(at_us);
            if !is_meant || !is_in_time {
                continue;
            }
            if RulePlan::per_second(held.word).is_some() {
                held.begun.entry(life).or_default().push(at_us);
            } else if !held.is_broken {
                held.is_broken = true;
                let (rule, by) = (&held.effect.rule, held.by);
                self.account.violate(
                    None,
                    format!(
                        "{life:?} began a transaction from {from} at {at_us} us in spite of rule {rule}, \
                         which {:?} wrote at {} us",
                        by.0, by.1
                    ),
                );
            }
        }
    }

    /// Whether all that this life sends to a host of the provider is concerned: of one that other mail has another way
    /// to nobody sees which it was.
    fn is_way(&self, effect: &Effect, life: TaskGroup, to: IpAddr) -> bool {
        let Some(next_hop) = &effect.next_hop else { return true };
        self.plan.order_of(next_hop).is_some_and(|order| self.queues.has_one_way(life, to, &order))
    }

    /// What was too fast, for people.
    #[must_use]
    pub fn exceeded(&self, queues: &ReadyQueues) -> Vec<String> {
        let mut wrong = Vec::new();
        for held in self.held.borrow().iter() {
            let Some(per_second) = RulePlan::per_second(held.word) else { continue };
            for (life, times_us) in &held.begun {
                let mut times_us = times_us.clone();
                times_us.sort_unstable();
                let (sets, lead_there) = paces::named(&self.plan, queues, *life);
                // What is set holds for each set of hosts by itself.
                let limits = if held.word == Word::Set { sets } else { 1 };
                let extra =
                    paces::of_source(&self.plan, per_second as u32, (limits, lead_there), limits);
                let rate = per_second * f64::from(limits);
                let allowed_at = |at_us: u64| rate * at_us as f64 / 1e6;
                let found = worst_stretch(&times_us, allowed_at, |_| extra);
                wrong.extend(found.map(|(count, from_us, to_us)| {
                    let (rule, source) = (&held.effect.rule, &held.effect.source);
                    format!(
                        "{count} transactions from {source:?} by {life:?} from {from_us} to {to_us} us in spite \
                         of rule {rule}, at {rate} per second and {extra} beyond"
                    )
                }));
            }
        }
        wrong
    }
}
