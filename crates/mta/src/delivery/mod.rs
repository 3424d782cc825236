//! Delivery: connections of ready queues, one task each; what becomes of recipients, and who is told.

mod addresses;
mod bearing;
mod connection;
mod content;
mod dialogue;
mod encoding;
pub(crate) mod gathering;
mod giving_back;
pub(crate) mod giving_up;
mod local;
mod making;
mod opening;
pub(crate) mod outcome;
mod pending;
pub(crate) mod removal;
mod report;
mod seat;
mod slot;
pub(crate) mod start;
pub(crate) mod unreported;
mod verdict;
mod wire;

use crate::custody::Custody;
use crate::routing::Router;
use crate::schedule::Schedule;
use crate::seams::World;
use crate::services::Services;
use pending::Gathering;
use std::rc::Rc;
use unreported::Unreported;

/// What the connections of one shard to next hops share.
pub(crate) struct Delivery<W: World> {
    pub(crate) services: Rc<Services<W>>,
    pub(crate) custody: Rc<Custody<W>>,
    pub(crate) router: Rc<Router>,
    pub(crate) schedule: Rc<Schedule<W>>,
    pub(crate) gathering: Gathering,
    pub(crate) unreported: Unreported,
}

impl<W: World> Delivery<W> {
    /// With nothing under way.
    pub(crate) fn new(schedule: &Rc<Schedule<W>>) -> Rc<Delivery<W>> {
        Rc::new(Delivery {
            services: Rc::clone(&schedule.services),
            custody: Rc::clone(&schedule.custody),
            router: Rc::clone(&schedule.router),
            schedule: Rc::clone(schedule),
            gathering: Gathering::default(),
            unreported: Unreported::default(),
        })
    }
}
