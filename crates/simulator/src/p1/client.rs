//! MTAs that transfer to the node: they keep a message until it is acknowledged, send it again when they have not heard
//! that it was, and believe nothing else.

use super::letter::Letter;
use super::wire::{TIMEOUTS, Wire};
use super::{P1World, SILENCE_US, identity, node_to};
use crate::account::Fate;
use crate::executor::OUTSIDE;
use crate::names::{NODE, P1_PORT};
use crate::network::SimStream;
use crate::plan::{P1ClientFaults, P1ClientPlan, P1Peer};
use load::random::Random;
use mta::seams::{Egress, Endpoint, Net as _};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use x400::association::{
    AbortReason, AssociationEnd, BindError, Binding, Event, Initiator, InitiatorSettings, Refusal,
};
use x400::mts::UtcTime;

/// Tries of one message.
const TRIES_MAX: u32 = 12;
/// Behind the time from which on nothing goes wrong any more, so long none is tried again.
const PATIENCE_US: u64 = 120_000_000;
/// A pause between two tries is no longer, and every third is no longer than this: the first may be on its way still.
const PAUSE_US: u64 = 6_000_000;
const SHORT_PAUSE_US: u64 = 10_000;
/// A connect that nobody answers is given up.
const CONNECT_US: u64 = 30_000_000;
/// Who cuts the connection behind the last octet does so within this time: before the acknowledgement is there, or after
/// it.
const LOSE_US: u64 = 120_000;
/// The pause of who takes its time in the middle of an APDU.
const SLOW_US: u64 = 5_000_000;

/// Starts the one of this number.
pub(super) fn start(world: &Rc<P1World>, number: usize) {
    let plan = world.plan.clients[number];
    let seed = world.peers.plan.seed ^ (number as u64 + 1) << 50;
    world.busy.set(world.busy.get() + 1);
    let mut client = P1Client {
        world: Rc::clone(world),
        random: Random::new(seed),
        from: IpAddr::from([10, 3, 1, number as u8 + 1]),
        peer: world.plan.peers[plan.peer].clone(),
        plan,
        wire: None,
    };
    world.executor().spawn(OUTSIDE, async move {
        client.run().await;
        client.release().await;
        client.world.busy.set(client.world.busy.get() - 1);
    });
}

struct P1Client {
    world: Rc<P1World>,
    random: Random,
    from: IpAddr,
    peer: P1Peer,
    plan: P1ClientPlan,
    wire: Option<Wire<Initiator>>,
}

/// What goes wrong with one APDU before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Cut,
    Abort,
    Discard,
    Slow,
}

/// What was heard of an APDU, and the association if it can be used further.
type TransferResult = (Fate, Option<Wire<Initiator>>);

impl P1Client {
    async fn run(&mut self) {
        let plan = Rc::clone(&self.world.peers.plan);
        for _ in 0..self.plan.messages {
            let pause_us = self.random.below(2 * plan.traffic_us / u64::from(self.plan.messages));
            self.world.executor().sleep(pause_us).await;
            if self.world.executor().now_us() > plan.traffic_us {
                return;
            }
            let letter = Letter::draw(&self.world, &mut self.random);
            self.world.account().submit_transfer(&letter.name, &letter.envelope, &letter.content);
            self.hand_over(&letter, plan.heal_us + PATIENCE_US).await;
            if self.random.below(4) == 0 {
                self.release().await;
            }
        }
    }

    /// Tries until it is acknowledged.
    async fn hand_over(&mut self, letter: &Letter, until_us: u64) {
        let mut known = Fate::Begun;
        for _ in 0..TRIES_MAX {
            let heard = self.attempt(letter).await;
            known = match (known, heard) {
                (Fate::Acknowledged, _) | (_, Fate::Acknowledged) => Fate::Acknowledged,
                (Fate::Unknown, _) | (_, Fate::Unknown) => Fate::Unknown,
                (Fate::Refused, _) | (_, Fate::Refused) => Fate::Refused,
                (Fate::Begun, Fate::Begun) => Fate::Begun,
            };
            self.world.account().conclude(&letter.name, known, None);
            if known == Fate::Acknowledged || self.world.executor().now_us() > until_us {
                return;
            }
            let most_us = if self.random.below(3) == 0 { SHORT_PAUSE_US } else { PAUSE_US };
            let pause_us = self.random.below(most_us);
            self.world.executor().sleep(pause_us).await;
        }
    }

    async fn attempt(&mut self, letter: &Letter) -> Fate {
        if self.wire.is_none() {
            self.wire = self.bind().await;
        }
        let Some(wire) = self.wire.take() else { return Fate::Begun };
        let (fate, wire) = self.transfer(wire, letter).await;
        let Some(wire) = wire else { return fate };
        let vanishes = self.world.draws(self.faults().vanish);
        self.wire = if vanishes { None } else { self.give_turn(wire).await };
        fate
    }

    fn faults(&self) -> P1ClientFaults {
        self.world.plan.client_faults
    }

    async fn release(&mut self) {
        if let Some(mut wire) = self.wire.take() {
            let now = wire.now();
            wire.machine.release(now);
            wire.close().await;
        }
    }

    async fn connect(&self) -> Option<SimStream> {
        let to = Endpoint::Tcp(SocketAddr::new(NODE, P1_PORT));
        let from = Egress { address: Some(self.from), proxy: None };
        tokio::select! {
            biased;
            stream = self.world.net.connect(&to, from) => stream.ok(),
            () = self.world.executor().sleep(CONNECT_US) => None,
        }
    }

    async fn bind(&mut self) -> Option<Wire<Initiator>> {
        let stream = self.connect().await?;
        if self.world.draws(self.faults().mute) {
            self.world.pause(SILENCE_US).await;
            return None;
        }
        let is_wrong = self.world.draws(self.faults().wrong_password);
        let password = if is_wrong { "another".to_owned() } else { self.peer.password() };
        let settings = InitiatorSettings {
            mode: self.plan.mode,
            identity: identity(&self.peer.mta(), &password),
            checkpoint_kib: self.plan.checkpoint_kib,
            window: self.plan.window,
            two_way: self.plan.two_way,
            tpdu_bytes: self.plan.tpdu_bytes,
            reference_time: UtcTime::from(self.world.wall()).to_text(),
            timeouts: TIMEOUTS,
            ..InitiatorSettings::default()
        };
        let now = mail::Mono(self.world.executor().now_us());
        let mut wire = Wire::new(&self.world, stream, Initiator::new(settings, now));
        loop {
            match wire.next_event().await {
                Event::Bound(binding) => {
                    self.check_bound(&binding, is_wrong);
                    return Some(wire);
                }
                Event::Ended(end) => {
                    self.check_refused(&end, is_wrong);
                    wire.close().await;
                    return None;
                }
                Event::Bind(_)
                | Event::ActivityStarted
                | Event::Content(_)
                | Event::ApduComplete
                | Event::ActivityDropped
                | Event::Acknowledged
                | Event::NotTaken(_)
                | Event::TurnTaken
                | Event::TurnGiven => {}
            }
        }
    }

    /// Only who shows its password is let in, and the node shows its own.
    fn check_bound(&self, binding: &Binding, is_wrong: bool) {
        let name = &self.peer.name;
        if is_wrong {
            self.world.account().violate(None, format!("{name} is accepted with a wrong password"));
        }
        if binding.identity != node_to(&self.peer) {
            let text = format!("the node answers {name} as {:?}", binding.identity);
            self.world.account().violate(None, text);
        }
    }

    /// Who shows its password is not told that it is wrong.
    fn check_refused(&self, end: &AssociationEnd, is_wrong: bool) {
        if let AssociationEnd::Refused(Refusal { error: Some(BindError::Authentication), .. }) = end
            && !is_wrong
        {
            let text = format!("{} is refused with its own password", self.peer.name);
            self.world.account().violate(None, text);
        }
    }

    fn draw_fault(&self) -> Option<Fault> {
        let P1ClientFaults { cut, abort, discard, slow, .. } = self.faults();
        let all = [
            (Fault::Cut, cut),
            (Fault::Abort, abort),
            (Fault::Discard, discard),
            (Fault::Slow, slow),
        ];
        all.into_iter().find(|(_, permille)| self.world.draws(*permille)).map(|(fault, _)| fault)
    }

    async fn transfer(&mut self, mut wire: Wire<Initiator>, letter: &Letter) -> TransferResult {
        let mut octets = letter.apdu();
        let first = 1 + self.random.below(octets.len() as u64 - 1) as usize;
        let now = wire.now();
        wire.machine.begin_transfer(octets.len() as u64, now);
        wire.machine.push_content(octets.split_to(first), now);
        if let Some(fault) = self.draw_fault() {
            let text = format!("{fault:?} amid {} to the node", letter.name);
            self.world.account().handle_fault(&self.peer, &text);
            // Some of it may be there by then.
            let most_us = if fault == Fault::Slow { SLOW_US } else { LOSE_US };
            let until_us = now.0 + self.random.below(most_us);
            match Self::before_end(wire, fault, until_us).await {
                Ok(same) => wire = same,
                Err(heard) => return heard,
            }
        }
        if let Some(life) = self.world.network().server_of(wire.connection()) {
            self.world.account().note_transfer(&letter.name, life);
        }
        let now = wire.now();
        wire.machine.push_content(octets, now);
        let loses = self.world.draws(self.faults().lose);
        if loses {
            let text = format!("Lose behind {} to the node", letter.name);
            self.world.account().handle_fault(&self.peer, &text);
        }
        let until_us = if loses { now.0 + self.random.below(LOSE_US) } else { u64::MAX };
        Self::hear(wire, until_us).await
    }

    /// What goes wrong before the last octet is sent; or the transfer goes on.
    async fn before_end(
        mut wire: Wire<Initiator>,
        fault: Fault,
        until_us: u64,
    ) -> Result<Wire<Initiator>, TransferResult> {
        while let Some(event) = wire.event_until(until_us).await {
            match event {
                // The node does not want it, whatever else it is to be told.
                Event::NotTaken(_) => return Err((Fate::Begun, Some(wire))),
                Event::Ended(_) => {
                    wire.close().await;
                    return Err((Fate::Begun, None));
                }
                Event::Bind(_)
                | Event::Bound(_)
                | Event::ActivityStarted
                | Event::Content(_)
                | Event::ApduComplete
                | Event::ActivityDropped
                | Event::Acknowledged
                | Event::TurnTaken
                | Event::TurnGiven => {}
            }
        }
        let now = wire.now();
        match fault {
            Fault::Slow => return Ok(wire),
            Fault::Cut => wire.cut(),
            Fault::Abort => {
                wire.machine.abort(AbortReason::LocalSystemProblem, now);
                wire.close().await;
            }
            Fault::Discard => {
                wire.machine.discard_transfer(now);
                let (_, wire) = Self::hear(wire, u64::MAX).await;
                return Err((Fate::Begun, wire));
            }
        }
        Err((Fate::Begun, None))
    }

    /// What the node says to what was sent; then the connection is cut.
    async fn hear(mut wire: Wire<Initiator>, until_us: u64) -> TransferResult {
        loop {
            match wire.event_until(until_us).await {
                Some(Event::Acknowledged) => return (Fate::Acknowledged, Some(wire)),
                Some(Event::NotTaken(_)) => return (Fate::Refused, Some(wire)),
                Some(Event::Ended(_)) => {
                    wire.close().await;
                    return (Fate::Unknown, None);
                }
                None => {
                    wire.cut();
                    return (Fate::Unknown, None);
                }
                Some(
                    Event::Bind(_)
                    | Event::Bound(_)
                    | Event::ActivityStarted
                    | Event::Content(_)
                    | Event::ApduComplete
                    | Event::ActivityDropped
                    | Event::TurnTaken
                    | Event::TurnGiven,
                ) => {}
            }
        }
    }

    /// Gives the node the turn now and then, which it does not want: it comes back.
    async fn give_turn(&mut self, mut wire: Wire<Initiator>) -> Option<Wire<Initiator>> {
        if !self.plan.two_way || self.random.below(3) > 0 {
            return Some(wire);
        }
        let now = wire.now();
        wire.machine.give_turn(now);
        loop {
            match wire.next_event().await {
                Event::TurnTaken => return Some(wire),
                Event::Ended(_) => {
                    wire.close().await;
                    return None;
                }
                Event::Bind(_)
                | Event::Bound(_)
                | Event::ActivityStarted
                | Event::Content(_)
                | Event::ApduComplete
                | Event::ActivityDropped
                | Event::Acknowledged
                | Event::NotTaken(_)
                | Event::TurnGiven => {}
            }
        }
    }
}
