//! Receiving: sessions, what they may do, and the way of a message into the spool.

mod accept;
mod intake;
mod policy;
mod refusals;
mod rules;
mod session;
pub(crate) mod start;

use crate::custody::Custody;
use crate::event::RefusalMeter;
use crate::routing::Router;
use crate::schedule::Schedule;
use crate::seams::World;
use crate::services::Services;
use config::Config;
use rules::{ListenerRules, rules_by_socket, rules_of};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// What the sessions of one shard share.
pub(crate) struct Ingress<W: World> {
    services: Rc<Services<W>>,
    custody: Rc<Custody<W>>,
    router: Rc<Router>,
    schedule: Rc<Schedule<W>>,
    /// In the order of the sockets that were opened at start.
    listeners: RefCell<Vec<Rc<ListenerRules>>>,
    refusals: RefCell<RefusalMeter>,
}

impl<W: World> Ingress<W> {
    /// With the listeners of the configuration in force.
    pub(crate) fn new(schedule: &Rc<Schedule<W>>) -> Rc<Ingress<W>> {
        let (services, router) = (&schedule.services, &schedule.router);
        Rc::new(Ingress {
            listeners: RefCell::new(rules_of(&router.active().config)),
            refusals: RefCell::new(RefusalMeter::new(10, 100, services.now())),
            services: Rc::clone(services),
            custody: Rc::clone(&schedule.custody),
            router: Rc::clone(router),
            schedule: Rc::clone(schedule),
        })
    }

    /// Follows a reload.
    pub(crate) fn adopt(&self, config: &Config) {
        let rules = rules_by_socket(&self.listeners.borrow(), &rules_of(config));
        *self.listeners.borrow_mut() = rules;
    }

    fn rules(&self, listener: usize) -> Option<Rc<ListenerRules>> {
        self.listeners.borrow().get(listener).cloned()
    }

    /// A session ended here. (The acceptor counts those that begin.)
    fn count_end(&self) {
        let sessions = &self.services.shared.sessions;
        if let Some(count) = sessions.get(usize::from(self.services.number)) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
