//! Configurations that change during a run, and the clock, which is set.

use super::executor::{Executor, TaskGroup, wall_ms};
use super::node::Node;
use super::plan::{Hop, Plan};
use super::plant::Plant;
use super::{LOWERED_US, Simulation};
use config::Config;
use config::shaping::ShapingFile;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The configuration after so many changes, and so many of what is shared.
pub(super) fn configuration(
    plan: &Plan,
    changes: (usize, usize),
    plant: Option<Plant>,
) -> Arc<Config> {
    let config = channels::schema().parse(&plan.config(changes, plant), "the plan");
    let shaped = config.and_then(|mut config| {
        if let Some(text) = plan.shaping(changes.1, plant) {
            let file = ShapingFile { name: "shaping.toml".into(), text: text.into() };
            config.shape(&[file])?;
        }
        Ok(config)
    });
    match shaped {
        Ok(config) => Arc::new(config),
        Err(errors) => unreachable!("the simulator's own configuration is wrong: {errors}"),
    }
}

/// What the wall clock says when the world begins, beyond the usual.
pub(super) fn first_offset_ms(plan: &Plan, executor: &Executor) -> Rc<Cell<i64>> {
    let offset_ms = Rc::new(Cell::new(0));
    let warmup = plan.pace.as_ref().and_then(|pace| pace.warmup.as_ref());
    let more_ms = warmup.map_or(0, |warmup| warmup.offset_ms(wall_ms(executor, &offset_ms)));
    offset_ms.set(more_ms as i64);
    offset_ms
}

impl Simulation {
    /// The wall clock is set, ahead or back.
    pub(super) fn turn_clock(&self, by_ms: i64) {
        self.environment.effects.end_those_over();
        let offset_ms = &self.environment.wall_offset_ms;
        offset_ms.set(offset_ms.get() + by_ms);
        self.peers.warmed.turn(u64::try_from(by_ms).unwrap_or(0));
        self.environment.effects.turn();
    }

    /// The configuration is changed, and read again.
    pub(super) fn change(&self, node: &Node, number: usize) {
        self.changes.set(number + 1);
        self.environment.promises.configure(number + 1);
        self.configure();
        self.limit(LOWERED_US);
        node.reload(&self.environment);
    }

    /// What is shared is changed, and the configuration is read again.
    pub(super) fn change_pace(&self, node: &Node, number: usize) {
        let Some(pace) = &self.plan.pace else { return };
        self.paces.set(number);
        self.configure();
        let (environment, terms) = (&self.environment, pace.terms_after(number));
        environment.network.limit_sources(terms.connections_max, LOWERED_US);
        self.peers.paces.change(TaskGroup(self.lives), environment.executor.now_us(), number);
        environment.effects.set_rules(&terms.rules);
        node.reload(environment);
    }

    /// A life of the node begins, with what is shared now.
    pub(super) fn begin_pace(&self, life: TaskGroup) {
        let Some(pace) = &self.plan.pace else { return };
        let (environment, number) = (&self.environment, self.paces.get());
        environment.network.limit_sources(pace.terms_after(number).connections_max, 0);
        self.peers.paces.change(life, environment.executor.now_us(), number);
        environment.effects.begin(life);
    }

    fn configure(&self) {
        let changes = (self.changes.get(), self.paces.get());
        *self.environment.config.borrow_mut() =
            configuration(&self.plan, changes, self.environment.plant);
    }

    /// The judge learns which limits hold now.
    pub(super) fn limit(&self, grace_us: u64) {
        let changes = self.changes.get();
        let hops = self.plan.hops_after(changes);
        let hops_before = self.plan.hops_after(changes.saturating_sub(1));
        for original in &self.plan.hops {
            // Two routes to the same hosts have connections of their own, and while one moves away
            // the other may be there already.
            let here =
                |hop: &Hop| if hop.hosts == original.hosts { hop.connections_max } else { 0 };
            let max = hops.iter().map(here).sum();
            let both = hops.iter().zip(&hops_before);
            let more = both.map(|(now, before)| here(now).saturating_sub(here(before))).sum();
            let network = &self.environment.network;
            network.limit(&original.hosts, max, more, grace_us);
            let was_here = |(now, before): &(&Hop, &Hop)| {
                before.hosts == original.hosts && now.hosts != original.hosts
            };
            for (left, _) in hops.iter().zip(&hops_before).filter(was_here) {
                network.leave(&original.hosts, &left.domains);
            }
        }
    }
}
