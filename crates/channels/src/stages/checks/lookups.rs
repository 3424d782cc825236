//! What checks ask of the DNS: so much, and for so long.

use super::turns::{Place, Turn};
use auth::records::{Answer, Family, Records, Unanswered};
use mail::Mono;
use mta::alarm::Alarm;
use mta::answer::Later;
use mta::line::Owner;
use mta::seams::{AsRecords, Time, World};
use std::cell::Cell;
use std::future::poll_fn;
use std::net::IpAddr;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::Semaphore;

/// So long all checks of one message may take; what has no answer then gets none. Clients wait ten
/// minutes for the reply (RFC 5321 §4.5.3.2.6), other stages want their part.
pub(in super::super) const CHECKS_TIME_MAX: Duration = Duration::from_secs(20);

/// Questions of SPF about one message. Ten terms are allowed, each of which may lead to ten hosts (RFC 7208 §4.6.4);
/// no policy in use comes near to that. The other checks have as many as they can need.
pub(in super::super) const LOOKUPS_MAX: u32 = 100;

/// Questions under way at once about one message, of one check: what one message asks for must not hold up what is
/// asked about others of the same client.
const AT_ONCE_MAX: usize = 4;

/// The servers of a zone that have not answered for as long are taken for silent until they answer.
const SILENCE: Duration = Duration::from_secs(1);

/// The DNS for one check of a message.
pub(super) struct Lookups<'a, W: World> {
    world: &'a W,
    turn: Turn<'a>,
    until: Mono,
    left: Cell<u32>,
    at_once: Semaphore,
}

impl<'a, W: World> Lookups<'a, W> {
    /// For one check with limits of its own.
    pub(super) fn within(
        world: &'a W,
        turn: Turn<'a>,
        time_max: Duration,
        lookups_max: u32,
    ) -> Lookups<'a, W> {
        let until = world.time().now() + time_max;
        let (left, at_once) = (Cell::new(lookups_max), Semaphore::new(AT_ONCE_MAX));
        Lookups { world, turn, until, left, at_once }
    }

    /// The answer to a question, if there may be one more and it comes in time.
    async fn ask<T>(
        &self,
        zone: Owner,
        at_hand: Option<Answer<T>>,
        question: Later<'_, Answer<T>>,
    ) -> Answer<T> {
        // What is remembered is no question: it needs no place, and is not counted.
        if let Some(answer) = at_hand {
            return answer;
        }
        let over = |why: &str| Err(Unanswered::OurLimit(why.into()));
        let Some(left) = self.left.get().checked_sub(1) else {
            return over("too many lookups for one message");
        };
        self.left.set(left);
        let in_turn = async {
            let _one_of_few = self.at_once.acquire().await;
            let place = self.turn.wait(zone, self.world.time().now()).await;
            self.ask_in(place, question).await
        };
        let mut alarm = Alarm::new(self.world.time().clone());
        match alarm.within(|_| self.until, in_turn).await {
            Some(Some(said)) => said,
            Some(None) => over("others wait, and its name servers are slow"),
            None => over("the checks take too long"),
        }
    }
}

impl<W: World> Lookups<'_, W> {
    /// The answer to a question that has a place. `None`: it had to make way for others.
    async fn ask_in<T>(
        &self,
        mut place: Place<'_>,
        mut question: Later<'_, Answer<T>>,
    ) -> Option<Answer<T>> {
        let time = self.world.time();
        let soon = time.now() + SILENCE;
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

/// A question to the DNS may be large, and waits at the end of policies that include each other: it goes to
/// the heap from here, not by way of the stacks of all who wait for it.
#[inline(never)]
pub(in super::super) fn boxed<'q, Q: Future + 'q>(ask: impl FnOnce() -> Q) -> Later<'q, Q::Output> {
    Box::pin(ask())
}

impl<W: World> Lookups<'_, W> {
    fn dns(&self) -> AsRecords<'_, W::Dns> {
        AsRecords(self.world.dns())
    }
}

impl<W: World> Records for Lookups<'_, W> {
    async fn txt(&self, name: &str) -> Answer<Vec<u8>> {
        let dns = self.dns();
        self.ask(Owner::zone(name), dns.txt_at_hand(name), boxed(|| dns.txt(name))).await
    }

    async fn addresses(&self, host: &str, family: Family) -> Answer<IpAddr> {
        let dns = self.dns();
        let at_hand = dns.addresses_at_hand(host, family);
        self.ask(Owner::zone(host), at_hand, boxed(|| dns.addresses(host, family))).await
    }

    async fn mail_hosts(&self, domain: &str) -> Answer<String> {
        let dns = self.dns();
        self.ask(
            Owner::zone(domain),
            dns.mail_hosts_at_hand(domain),
            boxed(|| dns.mail_hosts(domain)),
        )
        .await
    }

    async fn names(&self, address: IpAddr) -> Answer<String> {
        let dns = self.dns();
        self.ask(Owner::network(address), dns.names_at_hand(address), boxed(|| dns.names(address)))
            .await
    }
}
