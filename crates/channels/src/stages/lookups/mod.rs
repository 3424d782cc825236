//! DNS lookups of sender checks, with limits on number and time.

mod turns;

use auth::records::{DnsAnswer, Family, Records, Unanswered};
use mail::Mono;
use mta::alarm::Alarm;
use mta::answer::Later;
use mta::line::Owner;
use mta::seams::{AsRecords, Time, World};
use std::cell::Cell;
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::Semaphore;
#[cfg(test)]
pub(super) use turns::ZonePermit;
pub(super) use turns::{LookupQueueSettings, LookupTurn, Turns};

/// Time limit for all checks of one message; later answers are ignored. Clients wait ten minutes for the reply (RFC
/// 5321 §4.5.3.2.6), and later stages need time as well.
pub(super) const CHECKS_TIME_MAX: Duration = Duration::from_secs(20);

/// Maximum number of SPF lookups for one message. RFC 7208 §4.6.4 permits ten terms with ten hosts each, far more than
/// policies in use need. The other checks have as many lookups as they can need.
pub(super) const LOOKUPS_MAX: u32 = 100;

/// Limits of one check.
#[derive(Clone, Copy)]
pub(super) struct CheckLimits {
    pub(super) time_max: Duration,
    pub(super) lookups_max: u32,
    /// Maximum number of concurrent lookups.
    pub(super) at_once_max: usize,
}

/// DNS access of one check.
pub(super) struct Lookups<'a, W: World> {
    world: &'a W,
    turn: LookupTurn<'a>,
    until: Mono,
    left: Cell<u32>,
    at_once: Semaphore,
    was_cut: Cell<bool>,
}

impl<'a, W: World> Lookups<'a, W> {
    /// For one check with separate limits.
    pub(super) fn within(
        world: &'a W,
        turn: LookupTurn<'a>,
        limits: CheckLimits,
    ) -> Lookups<'a, W> {
        let CheckLimits { time_max, lookups_max, at_once_max } = limits;
        let until = world.time().now() + time_max;
        let (left, at_once) = (Cell::new(lookups_max), Semaphore::new(at_once_max));
        Lookups { world, turn, until, left, at_once, was_cut: Cell::new(false) }
    }

    /// Returns true if a local limit prevented an answer. The result must not be cached for later messages.
    pub(super) fn was_cut(&self) -> bool {
        self.was_cut.get()
    }

    /// The answer to a lookup below a zone, within the limits on number and time.
    async fn ask<T>(
        &self,
        zone: Owner,
        at_hand: Option<DnsAnswer<T>>,
        question: Later<'_, DnsAnswer<T>>,
    ) -> DnsAnswer<T> {
        // A cached answer needs no permit and is not counted.
        if let Some(answer) = at_hand {
            return answer;
        }
        let answer = self.ask_in_time(zone, question).await;
        let answer = answer.unwrap_or_else(|cut| Err(Unanswered::OurLimit(cut.into())));
        if answer.as_ref().is_err_and(Unanswered::is_our_limit) {
            self.was_cut.set(true);
        }
        answer
    }

    /// The answer, or the local limit that prevented it.
    async fn ask_in_time<T>(
        &self,
        zone: Owner,
        question: Later<'_, DnsAnswer<T>>,
    ) -> Result<DnsAnswer<T>, &'static str> {
        let left = self.left.get().checked_sub(1).ok_or("too many DNS lookups for one message")?;
        self.left.set(left);
        let in_turn = async {
            let _one_of_few = self.at_once.acquire().await;
            self.turn.ask(self.world.time(), zone, question).await
        };
        let mut alarm = Alarm::new(self.world.time().clone());
        let answer = alarm.within(|_| self.until, in_turn).await;
        answer
            .ok_or("the checks timed out")?
            .ok_or("its name servers are slow while other lookups wait")
    }

    fn dns(&self) -> AsRecords<'_, W::Dns> {
        AsRecords(self.world.dns())
    }
}

/// Allocates a lookup on the heap. Its future may be large, and lies deep in the stack of nested policies.
#[inline(never)]
fn boxed<'q, Q: Future + 'q>(ask: impl FnOnce() -> Q) -> Later<'q, Q::Output> {
    Box::pin(ask())
}

impl<W: World> Records for Lookups<'_, W> {
    async fn txt(&self, name: &str) -> DnsAnswer<Vec<u8>> {
        let dns = self.dns();
        self.ask(Owner::zone(name), dns.txt_at_hand(name), boxed(|| dns.txt(name))).await
    }

    async fn addresses(&self, host: &str, family: Family) -> DnsAnswer<IpAddr> {
        let dns = self.dns();
        let at_hand = dns.addresses_at_hand(host, family);
        self.ask(Owner::zone(host), at_hand, boxed(|| dns.addresses(host, family))).await
    }

    async fn mail_hosts(&self, domain: &str) -> DnsAnswer<String> {
        let dns = self.dns();
        self.ask(
            Owner::zone(domain),
            dns.mail_hosts_at_hand(domain),
            boxed(|| dns.mail_hosts(domain)),
        )
        .await
    }

    async fn names(&self, address: IpAddr) -> DnsAnswer<String> {
        let dns = self.dns();
        self.ask(Owner::network(address), dns.names_at_hand(address), boxed(|| dns.names(address)))
            .await
    }
}
