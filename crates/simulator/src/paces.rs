//! The judge of what is shared beyond a next hop: transactions that begin towards a provider from one source, and
//! those of one tenant, over all next hops and shards of the node.

use super::LOWERED_US;
use super::executor::TaskGroup;
use super::plan::{PacePlan, PaceTerms, Plan};
use super::rates::{RateSteps, worst_stretch};
use super::ready_queues::ReadyQueues;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// One transaction that began.
#[derive(Clone, Copy, Debug)]
pub struct StartedTransaction<'a> {
    /// Whose life of the node it is.
    pub life: TaskGroup,
    /// From where and where to.
    pub between: (IpAddr, IpAddr),
    /// What MAIL says.
    pub sender: &'a str,
    /// When the node wrote it.
    pub at_us: u64,
}

/// Of whom a rate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RateOwner {
    /// Mail from this address to the provider.
    Source(IpAddr),
    /// The tenant of this number.
    Tenant(usize),
}

/// When transactions began, by life of the node, and what held then.
#[derive(Debug, Default)]
pub struct Paces {
    begun: RefCell<BTreeMap<(TaskGroup, RateOwner), Vec<u64>>>,
    /// By life of the node: from when on which of the plan's terms hold.
    terms: RefCell<BTreeMap<TaskGroup, Vec<(u64, usize)>>>,
}

impl Paces {
    /// These terms of the plan hold for this life of the node from now on.
    pub fn change(&self, life: TaskGroup, at_us: u64, terms: usize) {
        self.terms.borrow_mut().entry(life).or_default().push((at_us, terms));
    }

    /// The node began a transaction.
    pub fn note(&self, plan: &Plan, begun: StartedTransaction<'_>) {
        let StartedTransaction { life, between: (from, to), sender, at_us } = begun;
        let mut noted = self.begun.borrow_mut();
        if plan.provider_hosts().iter().any(|host| host.ip() == to) {
            noted.entry((life, RateOwner::Source(from))).or_default().push(at_us);
        }
        if let Some(tenant) = number_of(sender).and_then(|number| plan.tenant_of(number)) {
            noted.entry((life, RateOwner::Tenant(tenant))).or_default().push(at_us);
        }
    }

    /// What is wrong with them, for people.
    #[must_use]
    pub fn exceeded(&self, plan: &Plan, queues: &ReadyQueues) -> Vec<String> {
        let Some(pace) = &plan.pace else { return Vec::new() };
        let mut wrong = Vec::new();
        for ((life, of), times_us) in &*self.begun.borrow() {
            let mut times_us = times_us.clone();
            times_us.sort_unstable();
            let limit = self.limit(plan, pace, (*life, *of), queues);
            let extra_at = |_| limit.extra;
            if let Some((count, from_us, to_us)) =
                worst_stretch(&times_us, |at_us| limit.rate.allowed_at(at_us), extra_at)
            {
                let whose = match of {
                    RateOwner::Source(from) => format!("to the provider from {from}"),
                    RateOwner::Tenant(number) => format!("of tenant t{number}"),
                };
                wrong.push(format!(
                    "{count} transactions {whose} by {life:?} from {from_us} to {to_us} us, at {:?} \
                     per second and {} beyond",
                    limit.rate, limit.extra
                ));
            }
        }
        wrong
    }

    /// What holds for one life of the node.
    fn limit(
        &self,
        plan: &Plan,
        pace: &PacePlan,
        (life, of): (TaskGroup, RateOwner),
        queues: &ReadyQueues,
    ) -> Limit {
        let terms = self.terms.borrow();
        let changes: &[(u64, usize)] = terms.get(&life).map_or(&[(0, 0)], Vec::as_slice);
        let per_second = |terms: &PaceTerms| match of {
            RateOwner::Source(_) => terms.per_second,
            RateOwner::Tenant(number) => terms.tenants[number],
        };
        let in_force: Vec<&PaceTerms> =
            changes.iter().map(|&(_, number)| pace.terms_after(number)).collect();
        // What was found before a reload is gone by for a while.
        let ends = changes.iter().skip(1).map(|&(at_us, _)| at_us.saturating_add(LOWERED_US));
        let spans = changes.iter().zip(ends.chain([u64::MAX]));
        let periods: Vec<(u64, u64, f64)> = spans
            .zip(&in_force)
            .map(|((&(from_us, _), until_us), terms)| {
                (from_us, until_us, f64::from(per_second(terms)))
            })
            .collect();
        let most = in_force.iter().map(|terms| per_second(terms)).max().unwrap_or(0);
        let extra = match of {
            RateOwner::Source(_) => {
                let connections = in_force.iter().map(|terms| terms.connections_max).max();
                let (_, lead_there) = named(plan, queues, life);
                of_source(plan, most, (1, lead_there), connections.unwrap_or(0))
            }
            RateOwner::Tenant(_) => of_tenant(plan, most),
        };
        // Each change lets a burst go that was not used.
        let bursts = (changes.len() as u32 - 1) * burst(most);
        Limit { rate: RateSteps::of_highest(&periods), extra: extra + f64::from(bursts) }
    }
}

/// What may be begun.
struct Limit {
    rate: RateSteps,
    /// Beyond that in any stretch of time.
    extra: f64,
}

/// The number in a sender's address, `m17@back.test`; reports have none.
pub(super) fn number_of(sender: &str) -> Option<u64> {
    sender.split('@').next()?.strip_prefix('m')?.parse().ok()
}

/// Sets of the provider's hosts that the DNS has named to a life of the node, and ready queues of each shard that
/// lead there, of one source.
pub(super) fn named(plan: &Plan, queues: &ReadyQueues, life: TaskGroup) -> (u32, u32) {
    let hosts = plan.provider_hosts().iter().map(|host| host.ip()).collect();
    let sets = queues.sets(life, &hosts);
    let sources = plan.pace.as_ref().map_or(1, |pace| pace.sources.len() as u32);
    let lead_there: u32 = sets.iter().map(|set| set.queues).sum();
    (sets.len() as u32 / sources, lead_there / sources)
}

/// Beyond the rate of a source towards the provider. Each ready queue of each shard may hold what it was lent at once,
/// and twice that where it asks again while the first grant is on its way; each connection one message that it has
/// taken and not begun. So many `limits` have a burst each.
pub(super) fn of_source(
    plan: &Plan,
    per_second: u32,
    (limits, queues): (u32, u32),
    connections_max: u32,
) -> f64 {
    let bursts = limits.saturating_sub(1) * burst(per_second);
    extra(per_second, u32::from(plan.shards) * queues, connections_max) + f64::from(bursts)
}

/// The same of a tenant, who borrows once for each shard; any connection may have a message of its own.
fn of_tenant(plan: &Plan, per_second: u32) -> f64 {
    let shards = u32::from(plan.shards);
    let connections = plan.widest_hops().iter().map(|hop| hop.connections_max).sum();
    extra(per_second, shards, connections)
}

fn burst(per_second: u32) -> u32 {
    (per_second / 4).max(1)
}

fn extra(per_second: u32, borrowers: u32, connections: u32) -> f64 {
    let batch = (per_second / 10).max(1);
    f64::from(burst(per_second) + 2 * batch * borrowers + connections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_have_numbers_and_reports_have_none() {
        assert_eq!(number_of("m17@back.test"), Some(17));
        for none in ["", "postmaster@node.test", "m@back.test", "m1x@back.test"] {
            assert_eq!(number_of(none), None, "{none}");
        }
    }

    #[test]
    fn what_a_tenant_sends_too_fast_is_found_whatever_its_next_hops() {
        let plan = (0..).map(Plan::new).find(|plan| plan.pace.is_some()).expect("one of four");
        let pace = plan.pace.clone().expect("it has one");
        let host = |n: usize| plan.hops[n % 4].hosts[0].ip();
        let paces = |per_second: u64| {
            let paces = Paces::default();
            for n in 0..60 * per_second {
                let sender = format!("m{}@back.test", n * pace.terms[0].tenants.len() as u64);
                let at_us = n * 1_000_000 / per_second;
                let between = (IpAddr::from([10, 0, 0, 1]), host(n as usize));
                paces.note(
                    &plan,
                    StartedTransaction { life: TaskGroup(1), between, sender: &sender, at_us },
                );
            }
            let executor = crate::executor::Executor::default();
            let trace = crate::trace::Trace::new(executor.clone(), false);
            let network = crate::network::Network::new(executor.clone(), trace, 1);
            let queues = ReadyQueues::new(executor, network, pace.sources.len() as u32);
            let wrong = paces.exceeded(&plan, &queues);
            wrong.into_iter().filter(|text| text.contains("of tenant t0")).count()
        };
        let rate = u64::from(pace.terms[0].tenants[0]);
        assert_eq!(paces(rate), 0);
        assert_eq!(paces(3 * rate), 1);
    }
}
