//! Questions to the DNS about senders: whose servers answer them, and how late, strangers decide.
//!
//! Those of one zone and of one client network take turns with others. Who has been silent for a moment
//! makes way for whoever waits: that zone's sender is then not known, and nobody else's is late for it.
//! What is at hand needs no place.

use super::super::checks::{CHECKS_TIME_MAX, LOOKUPS_MAX, boxed};
use auth::records::{Answer, Family, Records, Unanswered};
use mail::Mono;
use mta::alarm::Alarm;
use mta::answer::Later;
use mta::line::{Line, Owner, Parts, Standing, Standings, Who};
use mta::seams::{AsRecords, Time, World};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Questions about senders under way at once on one shard.
pub(super) const PLACES: u64 = 100;
/// Of them, for one zone; and left for zones that were answered within the hour.
const PART: u64 = 4;
/// A question may be under way for so long before it has to make way for others.
const SOON: Duration = Duration::from_millis(250);
/// Zones of which it is remembered whether they answer.
const ZONES_MAX: usize = 16_384;

/// The line of a shard.
pub(super) struct OfSenders {
    line: Arc<Line>,
    zones: RefCell<Standings<Owner>>,
}

impl OfSenders {
    pub(super) fn new() -> OfSenders {
        let part = PLACES / PART;
        let parts = Parts {
            owner_max: part,
            unproven_max: PLACES - part,
            doubtful_max: part,
            ..Parts::equal(PLACES)
        };
        OfSenders { line: Line::new(parts), zones: RefCell::new(Standings::new(ZONES_MAX)) }
    }

    pub(super) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// Questions about the sender of one message.
    pub(super) fn of<'a, W: World>(&'a self, world: &'a W, client: IpAddr) -> Questions<'a, W> {
        let until = world.time().now() + CHECKS_TIME_MAX;
        let (left, was_cut) = (Cell::new(LOOKUPS_MAX), Cell::new(false));
        Questions { world, of_senders: self, client, until, left, was_cut }
    }

    fn standing(&self, zone: Owner, now: Mono) -> Standing {
        self.zones.borrow().of(zone, now)
    }
}

/// The DNS for what is asked about one sender.
pub(super) struct Questions<'a, W: World> {
    world: &'a W,
    of_senders: &'a OfSenders,
    client: IpAddr,
    until: Mono,
    left: Cell<u32>,
    was_cut: Cell<bool>,
}

impl<W: World> Questions<'_, W> {
    /// Whether a limit of ours has kept an answer away: what comes of it holds for nobody else.
    pub(super) fn was_cut(&self) -> bool {
        self.was_cut.get()
    }
}

impl<W: World> Questions<'_, W> {
    /// The answer to a question about `name`, if it comes in time.
    async fn ask<T>(
        &self,
        name: &str,
        at_hand: Option<Answer<T>>,
        question: Later<'_, Answer<T>>,
    ) -> Answer<T> {
        if let Some(answer) = at_hand {
            return answer;
        }
        let over = |why: &str| Err(Unanswered::OurLimit(why.into()));
        let answer = match self.left.get().checked_sub(1) {
            None => over("too many lookups for one message"),
            Some(left) => {
                self.left.set(left);
                let mut alarm = Alarm::new(self.world.time().clone());
                let in_turn = self.in_turn(Owner::zone(name), question);
                match alarm.within(|_| self.until, in_turn).await {
                    Some(Some(said)) => said,
                    Some(None) => over("others wait, and its name servers are slow"),
                    None => over("the checks take too long"),
                }
            }
        };
        if answer.as_ref().is_err_and(Unanswered::is_our_limit) {
            self.was_cut.set(true);
        }
        answer
    }

    /// `None`: it had to make way.
    async fn in_turn<T>(
        &self,
        zone: Owner,
        mut question: Later<'_, Answer<T>>,
    ) -> Option<Answer<T>> {
        let (time, of_senders) = (self.world.time(), self.of_senders);
        // RFC 4632: what is one customer's is one name, whatever the number of its addresses.
        let network = Owner::network(self.client);
        let who = Who::new(0, 0).of(network).within(zone);
        let standing = of_senders.standing(zone, time.now());
        let mut place = of_senders.line.join(who, standing, 1).await;
        let soon = time.now() + SOON;
        let mut alarm = Alarm::new(time.clone());
        let mut answer = alarm.within(|_| soon, question.as_mut()).await;
        if answer.is_none() {
            of_senders.zones.borrow_mut().note_silence(zone, time.now());
            place.doubt();
            place.idle(time.now());
            answer = poll_fn(|cx| match question.as_mut().poll(cx) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending => place.poll_give_way(cx).map(|()| None),
            })
            .await;
        }
        if matches!(answer, Some(Ok(_))) {
            of_senders.zones.borrow_mut().note_answer(zone, time.now());
        }
        answer
    }

    fn dns(&self) -> AsRecords<'_, W::Dns> {
        AsRecords(self.world.dns())
    }
}

impl<W: World> Records for Questions<'_, W> {
    async fn txt(&self, name: &str) -> Answer<Vec<u8>> {
        let dns = self.dns();
        self.ask(name, dns.txt_at_hand(name), boxed(|| dns.txt(name))).await
    }

    async fn addresses(&self, host: &str, family: Family) -> Answer<IpAddr> {
        let dns = self.dns();
        let at_hand = dns.addresses_at_hand(host, family);
        self.ask(host, at_hand, boxed(|| dns.addresses(host, family))).await
    }

    async fn mail_hosts(&self, domain: &str) -> Answer<String> {
        let dns = self.dns();
        self.ask(domain, dns.mail_hosts_at_hand(domain), boxed(|| dns.mail_hosts(domain))).await
    }

    async fn names(&self, address: IpAddr) -> Answer<String> {
        let dns = self.dns();
        let at_hand = dns.names_at_hand(address);
        self.ask(&address.to_string(), at_hand, boxed(|| dns.names(address))).await
    }
}
