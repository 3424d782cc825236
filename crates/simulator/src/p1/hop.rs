//! MTAs that the node transfers to: they are silent, refuse, cut, abort and dawdle until all heals, then take
//! everything.

use super::wire::{TIMEOUTS, Wire};
use super::{P1World, SILENCE_US, identity, node_to};
use crate::account::{Arrival, NEVER_REPLIED};
use crate::executor::OUTSIDE;
use crate::network::SimStream;
use crate::plan::{P1Peer, P1PeerFaults};
use mta::seams::{Listener as _, Net as _};
use std::future::poll_fn;
use std::rc::Rc;
use x400::association::{
    AbortReason, BindError, BindRequest, Event, ExceptionReason, Responder, ResponderSettings,
};
use x400::mts::reader::read_whole;
use x400::mts::{ApduEvent, Limits, ReportContent};

/// Starts the one of this number.
pub(super) fn start(world: &Rc<P1World>, number: usize) {
    let task = Rc::clone(world);
    world.executor().spawn(OUTSIDE, async move {
        let (down_us, up_us) = task.plan.peers[number].down_us;
        listen(&task, number, down_us).await;
        task.executor().sleep_until(up_us).await;
        listen(&task, number, u64::MAX).await;
    });
}

async fn listen(world: &Rc<P1World>, number: usize, until_us: u64) {
    let host = world.plan.peers[number].host;
    let net = world.network().attach(OUTSIDE, host.ip());
    let Ok(mut listener) = net.listen(host) else { return };
    loop {
        let accepted = tokio::select! {
            biased;
            () = world.executor().sleep_until(until_us) => return,
            accepted = poll_fn(|cx| listener.poll_accept(cx)) => accepted,
        };
        let Ok(stream) = accepted.and_then(|(accepted, _)| net.adopt(accepted)) else { continue };
        let task = Rc::clone(world);
        world.executor().spawn(OUTSIDE, async move { serve(&task, number, stream).await });
    }
}

/// What goes wrong with one APDU, at its beginning, in its middle or at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The connection is cut, and the APDU is not taken.
    Cut,
    /// It is taken, and the acknowledgement is lost.
    Lose,
    /// It is not taken for now.
    Unable,
    /// The association is aborted.
    Abort,
    /// Nothing is read for a while.
    Silent,
}

/// What becomes of the association.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AssociationFate {
    GoOn,
    Cut,
}

struct ResponderSession {
    world: Rc<P1World>,
    peer: P1Peer,
    wire: Wire<Responder>,
    /// Of the APDU that comes.
    octets: Vec<u8>,
    /// What goes wrong with it, once so many octets are there.
    fault: Option<(Fault, usize)>,
    /// Where in what the node writes it begins.
    start: u64,
}

async fn serve(world: &Rc<P1World>, number: usize, stream: SimStream) {
    let (faults, peer) = (world.plan.peer_faults, world.plan.peers[number].clone());
    if world.draws(faults.mute) {
        return world.pause(SILENCE_US).await;
    }
    let settings = ResponderSettings {
        tpdu_bytes: peer.tpdu_bytes,
        checkpoint_kib: peer.own_checkpoint_kib,
        timeouts: TIMEOUTS,
        ..ResponderSettings::default()
    };
    let machine = Responder::new(settings, mail::Mono(world.executor().now_us()));
    let mut wire = Wire::new(world, stream, machine);
    wire.is_slow = world.draws(faults.slow);
    let world = Rc::clone(world);
    let mut session =
        ResponderSession { world, peer, wire, octets: Vec::new(), fault: None, start: 0 };
    loop {
        // The node says nothing between what it has said before and an APDU.
        let start = session.wire.read_bytes();
        let then = match session.wire.next_event().await {
            Event::Bind(request) => session.bind(&request),
            Event::ActivityStarted => {
                session.octets.clear();
                session.start = start;
                session.fault = session.draw_fault();
                session.suffer(false).await
            }
            Event::Content(octets) => {
                session.octets.extend_from_slice(&octets);
                session.suffer(false).await
            }
            Event::ApduComplete => session.complete().await,
            Event::TurnTaken => {
                let now = session.wire.now();
                session.wire.machine.give_turn(now);
                AssociationFate::GoOn
            }
            Event::Ended(_) => return session.wire.close().await,
            Event::ActivityDropped
            | Event::TurnGiven
            | Event::Bound(_)
            | Event::Acknowledged
            | Event::NotTaken(_) => AssociationFate::GoOn,
        };
        if then == AssociationFate::Cut {
            return session.wire.cut();
        }
    }
}

impl ResponderSession {
    fn faults(&self) -> P1PeerFaults {
        self.world.plan.peer_faults
    }

    fn bind(&mut self, request: &BindRequest) -> AssociationFate {
        if request.identity != node_to(&self.peer) {
            let text = format!("the node binds to {} as {:?}", self.peer.name, request.identity);
            self.world.account().violate(None, text);
        }
        let now = self.wire.now();
        let password = match self.world.draws(self.faults().stranger) {
            true => "another".to_owned(),
            false => self.peer.password(),
        };
        match self.world.draws(self.faults().busy) {
            true => self.wire.machine.refuse(BindError::Busy, now),
            false => self.wire.machine.accept(&identity(&self.peer.mta(), &password), now),
        }
        AssociationFate::GoOn
    }

    fn draw_fault(&self) -> Option<(Fault, usize)> {
        let P1PeerFaults { cut, lose, unable, abort, silent, .. } = self.faults();
        let all = [
            (Fault::Cut, cut),
            (Fault::Lose, lose),
            (Fault::Unable, unable),
            (Fault::Abort, abort),
            (Fault::Silent, silent),
        ];
        let (fault, _) = all.into_iter().find(|(_, permille)| self.world.draws(*permille))?;
        let after = match self.world.below(3) {
            0 => 0,
            1 => self.world.below(2_000) as usize,
            _ => usize::MAX,
        };
        // Only what is there can be taken.
        Some((fault, if fault == Fault::Lose { usize::MAX } else { after }))
    }

    /// What goes wrong comes to pass once it is time.
    async fn suffer(&mut self, is_complete: bool) -> AssociationFate {
        let is_due = |(_, after): &mut (Fault, usize)| is_complete || self.octets.len() >= *after;
        let Some((fault, _)) = self.fault.take_if(is_due) else { return AssociationFate::GoOn };
        let (now, count) = (self.wire.now(), self.octets.len());
        let text = format!("{fault:?} behind {count} octets of the node's");
        self.world.account().handle_fault(&self.peer, &text);
        match fault {
            Fault::Cut | Fault::Lose => return AssociationFate::Cut,
            Fault::Unable => {
                self.wire.machine.refuse_apdu(ExceptionReason::TemporarilyUnable, now);
            }
            Fault::Abort => self.wire.machine.abort(AbortReason::UserError, now),
            Fault::Silent => self.world.pause(SILENCE_US).await,
        }
        AssociationFate::GoOn
    }

    /// The whole APDU is there.
    async fn complete(&mut self) -> AssociationFate {
        let fault = self.fault.map(|(fault, _)| fault);
        match fault {
            None | Some(Fault::Lose) => {}
            // It takes it all the same, whoever waits for that.
            Some(Fault::Silent) => _ = self.suffer(true).await,
            Some(Fault::Cut | Fault::Unable | Fault::Abort) => return self.suffer(true).await,
        }
        let now = self.wire.now();
        self.wire.machine.acknowledge(now);
        let reply_end = match fault {
            Some(Fault::Lose) => NEVER_REPLIED,
            _ => self.wire.end_of_output(),
        };
        self.take(reply_end);
        self.suffer(true).await
    }

    fn take(&mut self, reply_end: u64) {
        let octets = std::mem::take(&mut self.octets);
        let (account, connection) = (self.world.account(), self.wire.connection());
        let Some(life) = self.world.network().client_of(connection) else { return };
        let apdu_start = self.start;
        let arrival = Arrival { at: &self.peer, life, connection, reply_end, apdu_start };
        let limits = Limits::default();
        let wrong = match read_whole(&octets, limits) {
            Ok((ApduEvent::Envelope { envelope: Ok(envelope), .. }, content)) => {
                return account.handle_transfer(&envelope, &content, arrival);
            }
            Ok((ApduEvent::Report { envelope: Ok(envelope), .. }, content)) => {
                match ReportContent::read(&content, &limits) {
                    Ok(content) => {
                        return account.handle_transfer_report(&envelope, &content, arrival);
                    }
                    Err(error) => error.to_string(),
                }
            }
            Ok((event, _)) => format!("{event:?}"),
            Err(error) => error.to_string(),
        };
        account.violate(None, format!("{} got unreadable data: {wrong}", self.peer.name));
    }
}
