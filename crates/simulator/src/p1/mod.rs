//! MTAs of X.400 around the node: those that transfer to it and those that it transfers to, on the machines of crate
//! `x400` at both ends. (That they don't share a misreading with the node is proved elsewhere, with programs of
//! others.)

mod client;
mod hop;
mod letter;
mod wire;

use super::account::Account;
use super::executor::{Executor, OUTSIDE, wall_ms};
use super::names::NODE;
use super::network::{Network, Queues, SimNet};
use super::peer::Peers;
use super::plan::{P1Peer, X400Plan};
use load::random::Random;
use mail::Wall;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use x400::association::{Identity, Password};

/// What all these MTAs share.
#[derive(Debug)]
pub struct P1World {
    peers: Rc<Peers>,
    plan: X400Plan,
    /// The network as those see it that call the node.
    net: SimNet,
    random: RefCell<Random>,
    /// Numbers messages.
    next: Cell<u64>,
    /// Those that have not transferred all.
    busy: Cell<u32>,
}

impl P1World {
    /// Those of a world; `None`: it has none.
    #[must_use]
    pub fn new(peers: &Rc<Peers>) -> Option<Rc<P1World>> {
        let plan = peers.plan.x400.clone()?;
        Some(Rc::new(P1World {
            net: peers.network.attach(OUTSIDE, NODE),
            random: RefCell::new(Random::new(peers.plan.seed ^ 0x7031_7031)),
            peers: Rc::clone(peers),
            plan,
            next: Cell::new(0),
            busy: Cell::new(0),
        }))
    }

    /// Starts those that are called.
    pub fn listen(self: &Rc<P1World>) {
        for peer in &self.plan.peers {
            self.network().watch(vec![peer.host], peer.associations_max, Queues::One);
        }
        for number in (0..self.plan.peers.len()).filter(|number| !self.plan.peers[*number].dead) {
            hop::start(self, number);
        }
    }

    /// Starts those that call.
    pub fn call(self: &Rc<P1World>) {
        (0..self.plan.clients.len()).for_each(|number| client::start(self, number));
    }

    /// Whether all have transferred what they had.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.busy.get() == 0
    }

    fn executor(&self) -> &Executor {
        &self.peers.executor
    }

    fn network(&self) -> &Network {
        &self.peers.network
    }

    fn account(&self) -> &Account {
        &self.peers.account
    }

    fn is_healed(&self) -> bool {
        self.peers.healed.get()
    }

    fn wall(&self) -> Wall {
        Wall(wall_ms(&self.peers.executor, &self.peers.wall_offset_ms))
    }

    fn draws(&self, permille: u16) -> bool {
        !self.is_healed() && self.random.borrow_mut().permille(permille)
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.borrow_mut().below(bound)
    }

    async fn pause(&self, most_us: u64) {
        let after_us = self.below(most_us);
        self.executor().sleep(after_us).await;
    }
}

/// Who silent ones are waited for so long at most: longer than the node waits for any answer.
const SILENCE_US: u64 = 40_000_000;

fn identity(name: &str, password: &str) -> Identity {
    Identity { name: Some(name.to_owned()), password: Some(Password(password.into())) }
}

/// What the node shows a peer.
fn node_to(peer: &P1Peer) -> Identity {
    identity(X400Plan::MTA, &peer.password_of_node())
}
