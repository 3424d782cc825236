//! Fair queues for DNS lookups: mail of one client must not delay lookups for mail of another.
//!
//! Senders choose the servers that answer, and thereby the delay. A lookup that has waited for a while is cancelled if
//! another one needs its permit.

use auth::records::DnsAnswer;
use mail::Mono;
use mta::alarm::Alarm;
use mta::answer::Later;
use mta::clients::network_of;
use mta::line::{FairKey, FairSemaphore, Owner, Permit, SemaphoreLimits, Standings, TrustLevel};
use mta::seams::Time;
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Parameters of a queue.
pub(in super::super) struct LookupQueueSettings {
    pub(in super::super) parts: SemaphoreLimits,
    /// Maximum number of zones with a remembered state.
    pub(in super::super) zones_max: usize,
    /// Time after which an unanswered lookup may be cancelled for a waiting one.
    pub(in super::super) silence: Duration,
    /// Zones with an answer within the last hour take precedence over unknown ones.
    pub(in super::super) prefers_answered: bool,
}

/// A queue for lookups. The clients with the fewest permits are served first.
pub(in super::super) struct Turns {
    line: Arc<FairSemaphore>,
    next: Cell<u32>,
    zones: RefCell<Standings<Owner>>,
    silence: Duration,
    prefers_answered: bool,
}

/// Access to the queue for one check of one message.
pub(in super::super) struct LookupTurn<'t> {
    turns: &'t Turns,
    who: FairKey,
    is_by_zone: bool,
}

/// A permit for a lookup below a zone.
pub(in super::super) struct ZonePermit<'t> {
    turns: &'t Turns,
    permit: Permit,
    zone: Owner,
}

impl Turns {
    pub(in super::super) fn new(terms: LookupQueueSettings) -> Turns {
        let LookupQueueSettings { parts, zones_max, silence, prefers_answered } = terms;
        let (line, zones) = (FairSemaphore::new(parts), RefCell::new(Standings::new(zones_max)));
        Turns { line, next: Cell::new(0), zones, silence, prefers_answered }
    }

    pub(in super::super) fn line(&self) -> &Arc<FairSemaphore> {
        &self.line
    }

    /// A turn for one check of a message of this client. Client networks are served in rotation, and so are the larger
    /// networks that belong to one owner.
    pub(in super::super) fn of(&self, client: IpAddr) -> LookupTurn<'_> {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        let who = FairKey::new(0, number).of(Owner::network(client));
        let who = site_of(client).map_or(who, |site| who.within(site));
        LookupTurn { turns: self, who, is_by_zone: false }
    }

    /// A turn for lookups about a sender. Zones are served in rotation, and client networks within each zone.
    pub(in super::super) fn by_zone(&self, client: IpAddr) -> LookupTurn<'_> {
        // RFC 4632: a customer's network counts as one, whatever its number of addresses.
        let who = FairKey::new(0, 0).of(Owner::network(client));
        LookupTurn { turns: self, who, is_by_zone: true }
    }

    fn standing(&self, zone: Owner, now: Mono) -> TrustLevel {
        match self.zones.borrow().of(zone, now) {
            // Answers for some names below a zone prove nothing about further names, which are unlimited in number.
            TrustLevel::Good if !self.prefers_answered => TrustLevel::Unknown,
            standing => standing,
        }
    }
}

impl<'t> LookupTurn<'t> {
    /// Waits for a permit for a lookup below this zone.
    pub(in super::super) async fn wait(&self, zone: Owner, now: Mono) -> ZonePermit<'t> {
        let who = if self.is_by_zone { self.who.within(zone) } else { self.who };
        let standing = self.turns.standing(zone, now);
        let permit = self.turns.line.join(who, standing, 1).await;
        ZonePermit { turns: self.turns, permit, zone }
    }

    /// The answer to a lookup below this zone, once it has a permit. `None` if it was cancelled for a waiting lookup.
    pub(super) async fn ask<T>(
        &self,
        time: &impl Time,
        zone: Owner,
        mut question: Later<'_, DnsAnswer<T>>,
    ) -> Option<DnsAnswer<T>> {
        let mut place = self.wait(zone, time.now()).await;
        let soon = time.now() + self.turns.silence;
        let mut answer = Alarm::new(time.clone()).within(|_| soon, question.as_mut()).await;
        if answer.is_none() {
            place.note_silence(time.now());
            answer = poll_fn(|cx| match question.as_mut().poll(cx) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending => place.poll_give_way(cx).map(|()| None),
            })
            .await;
        }
        if matches!(answer, Some(Ok(_))) {
            place.note_answer(time.now());
        }
        answer
    }
}

impl ZonePermit<'_> {
    /// The lookup had no answer for a while, and may be cancelled from now on.
    pub(in super::super) fn note_silence(&mut self, now: Mono) {
        self.turns.zones.borrow_mut().note_silence(self.zone, now);
        self.permit.doubt();
        self.permit.idle(now);
    }

    /// Ready when a waiting lookup belongs to a client with fewer permits.
    fn poll_give_way(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.permit.poll_give_way(cx)
    }

    pub(in super::super) fn note_answer(&self, now: Mono) {
        self.turns.zones.borrow_mut().note_answer(self.zone, now);
    }
}

/// The network that belongs to one owner.
fn site_of(client: IpAddr) -> Option<Owner> {
    network_of(client).is_ipv6().then(|| Owner::site(client))
}
