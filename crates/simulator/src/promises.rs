//! What DNSSEC and domains promise of TLS in the simulated world, what the node was told of it, and the
//! law that comes of both and of the routes: nothing of a message goes to a host in clear, or under
//! another certificate, where what is in force forbids it, and nothing to a host that is left out.

use super::account::{Account, name_of};
use super::executor::{Executor, TaskGroup};
use super::handshake::Certificate;
use super::plan::{Hop, NOBODYS_KEY, Plan, TlsPlan, TlsaPlan, key_of};
use super::ready_queues::{ReadyQueues, TlsSays, in_order};
use auth::mta_sts::{Mode, Policy};
use auth::tlsa::Tlsa;
use load::random::Random;
use mta::seams::{DnsError, HostSecurity, Mx, Vouched};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Messages whose transaction was being opened when a reload changed their route begin within this time.
const RELOADED_US: u64 = 60_000_000;

/// A page comes within this time, as long as it comes.
const PAGE_US: u64 = 3_000_000;

/// A policy that the node keeps, over the ends of its process too.
#[derive(Clone, Debug)]
struct CachedPolicy {
    /// Of the record that it was fetched for.
    id: String,
    until_us: u64,
    policy: Arc<Policy>,
}

/// What a route says.
#[derive(Debug)]
struct RouteSays {
    /// `tls`.
    word: &'static str,
    hosts: Vec<IpAddr>,
}

/// What a life of the node was told.
#[derive(Debug, Default)]
struct ObservedPolicies {
    since_us: u64,
    /// The policies of a domain, or that it has none.
    policies: BTreeMap<String, Vec<Option<Arc<Policy>>>>,
    /// The MX hosts of a domain, with their preferences.
    hosts: BTreeMap<String, BTreeSet<Vec<(u16, String)>>>,
}

/// Whether a host promises what RFC 8689 asks, once it is encrypted: half of them do.
#[must_use]
pub fn offers_requiretls(host: IpAddr) -> bool {
    key_of(host).is_multiple_of(2)
}

/// Promises, and their judge.
#[derive(Debug)]
pub struct Promises {
    plan: Rc<Plan>,
    /// What each hop's route says, after so many changes of the configuration.
    routes: Vec<Vec<Option<RouteSays>>>,
    executor: Executor,
    account: Rc<Account>,
    queues: Rc<ReadyQueues>,
    random: RefCell<Random>,
    kept: RefCell<BTreeMap<String, CachedPolicy>>,
    told: RefCell<BTreeMap<TaskGroup, ObservedPolicies>>,
    /// From when on the configuration had so many changes.
    configured: RefCell<Vec<(u64, usize)>>,
}

/// What is in force for the mail of one domain at one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    /// In clear as well.
    Anything,
    /// TLS, with whatever certificate.
    Encrypted,
    /// TLS, with a valid certificate of that host.
    Named,
    /// TLS, with the certificate that TLSA records are about.
    Key(u8),
    /// No mail of that domain goes there.
    LeftOut,
}

impl Demand {
    fn is_met(self, shown: Option<&Certificate>, names: &[String]) -> bool {
        match self {
            Demand::Anything => true,
            Demand::Encrypted => shown.is_some(),
            Demand::Named => shown.is_some_and(|c| names.iter().any(|name| c.is_for(name))),
            Demand::Key(key) => shown.is_some_and(|certificate| certificate.key == key),
            Demand::LeftOut => false,
        }
    }
}

/// What came to a host, and how.
#[derive(Clone, Copy, Debug)]
pub struct ObservedDelivery<'a> {
    /// The host.
    pub host: IpAddr,
    /// What it has shown, if the connection is encrypted.
    pub shown: Option<&'a Certificate>,
    /// Who wrote it.
    pub life: TaskGroup,
    /// When.
    pub at_us: u64,
}

impl Promises {
    /// Those of a world.
    #[must_use]
    pub fn new(
        plan: &Rc<Plan>,
        executor: &Executor,
        account: &Rc<Account>,
        queues: &Rc<ReadyQueues>,
    ) -> Rc<Promises> {
        let route = |hop: Hop| {
            let hosts = hop.hosts.iter().map(|host| host.ip()).collect();
            hop.tls.map(|tls| RouteSays { word: tls.word, hosts })
        };
        let routes = |changes| plan.hops_after(changes).into_iter().map(route).collect();
        Rc::new(Promises {
            routes: (0..=plan.changes.len()).map(routes).collect(),
            plan: Rc::clone(plan),
            executor: executor.clone(),
            account: Rc::clone(account),
            queues: Rc::clone(queues),
            random: RefCell::new(Random::new(plan.seed ^ 0x7470_726F)),
            kept: RefCell::default(),
            told: RefCell::default(),
            configured: RefCell::new(vec![(0, 0)]),
        })
    }

    /// A life of the node begins.
    pub fn begin(&self, life: TaskGroup) {
        let told =
            ObservedPolicies { since_us: self.executor.now_us(), ..ObservedPolicies::default() };
        self.told.borrow_mut().insert(life, told);
    }

    /// The configuration has so many changes now.
    pub fn configure(&self, changes: usize) {
        self.configured.borrow_mut().push((self.executor.now_us(), changes));
    }

    /// The hop of a domain with TLS, and which of its domains that is.
    fn hop_of(&self, domain: &str) -> Option<(usize, usize)> {
        let hops = self.plan.hops.iter().enumerate().filter(|(_, hop)| hop.tls.is_some());
        let mut found = hops.filter_map(|(number, hop)| {
            Some((number, hop.domains.iter().position(|own| own == domain)?))
        });
        found.next()
    }

    fn tls_of(&self, domain: &str) -> Option<(&TlsPlan, usize)> {
        let (hop, which) = self.hop_of(domain)?;
        Some((self.plan.hops[hop].tls.as_ref()?, which))
    }

    /// The hop of the host that MX records call so, and its number there.
    fn host_named(&self, name: &str) -> Option<(usize, usize)> {
        let hops = self.plan.hops.iter().enumerate().filter(|(_, hop)| hop.tls.is_some());
        let mut found = hops.flat_map(|(at, hop)| (0..hop.hosts.len()).map(move |n| (at, n)));
        found.find(|&(at, n)| self.plan.hops[at].names_of(n).iter().any(|own| own == name))
    }

    /// TLSA records of a host at that time.
    fn tlsa_plan(&self, (hop, number): (usize, usize), at_us: u64) -> TlsaPlan {
        let tls = self.plan.hops[hop].tls.as_ref();
        let planned = tls.map_or(TlsaPlan::None, |tls| tls.hosts[number].tlsa);
        match planned {
            TlsaPlan::Wrong | TlsaPlan::Bogus if at_us >= self.plan.heal_us => TlsaPlan::Right,
            planned => planned,
        }
    }
}

/// What the DNS says of it.
impl Promises {
    /// The MX records of a domain, of which it is noted that they were told.
    #[must_use]
    pub fn vouch(&self, life: TaskGroup, domain: &str, records: Vec<Mx>) -> Vouched<Vec<Mx>> {
        if let Some(told) = self.told.borrow_mut().get_mut(&life) {
            let names = records.iter().map(|mx| (mx.preference, mx.host.clone())).collect();
            told.hosts.entry(domain.to_owned()).or_default().insert(names);
        }
        let is_secure = self.tls_of(domain).is_some_and(|(tls, which)| tls.secure[which]);
        Vouched { answer: records, is_secure }
    }

    /// What is said of TLS to the hosts of a domain at this moment, whose policy is enforced or is not.
    #[must_use]
    pub fn says(&self, domain: &str, is_enforced: bool) -> Option<TlsSays> {
        let (hop, which) = self.hop_of(domain)?;
        let changes = self.configured.borrow().last().map_or(0, |&(_, changes)| changes);
        let word = self.routes[changes][hop].as_ref()?.word;
        let is_secure = self.plan.hops[hop].tls.as_ref()?.secure[which];
        Some(TlsSays { word, is_secure, is_enforced })
    }

    /// Whether DNSSEC vouches for a host's addresses.
    #[must_use]
    pub fn host_security(&self, host: &str) -> HostSecurity {
        let found = self.host_named(host);
        let has_records = |at| self.tlsa_plan(at, self.executor.now_us()) != TlsaPlan::None;
        let is_secure = found.is_some_and(has_records);
        HostSecurity { alias: None, is_secure, is_alias_secure: false }
    }

    /// TLSA records of a name, port and protocol before that of the host.
    ///
    /// # Errors
    /// There are none, or they are false.
    pub fn tlsa(&self, name: &str) -> Result<Vouched<Vec<Tlsa>>, DnsError> {
        let host = name.strip_prefix("_25._tcp.").unwrap_or(name);
        let at = self.host_named(host).ok_or(DnsError::NoSuchDomain)?;
        let own = key_of(self.plan.hops[at.0].hosts[at.1].ip());
        let (usage, key) = match self.tlsa_plan(at, self.executor.now_us()) {
            TlsaPlan::None => return Err(DnsError::NoRecords),
            TlsaPlan::Right => (3, own),
            TlsaPlan::Wrong => (3, NOBODYS_KEY),
            TlsaPlan::Unusable => (1, own),
            TlsaPlan::Bogus => return Err(DnsError::Transient("bogus".to_owned())),
        };
        let record = Tlsa { usage, selector: 1, matching: 1, data: [key; 32].into() };
        Ok(Vouched { answer: vec![record], is_secure: true })
    }

    /// TXT records of a name.
    #[must_use]
    pub fn txt(&self, name: &str) -> Option<Vec<Vec<u8>>> {
        let (tls, which) = self.tls_of(name.strip_prefix("_mta-sts.")?)?;
        let (number, _) = tls.promise(which, self.executor.now_us())?;
        Some(vec![format!("v=STSv1; id=p{number}").into_bytes()])
    }
}

/// The policies that the node fetches and keeps. (The program's own cache is tested elsewhere.)
impl Promises {
    /// What the node is told of a domain's policy.
    pub async fn policy(
        &self,
        life: TaskGroup,
        domain: &str,
        id: Option<&str>,
    ) -> Option<Arc<Policy>> {
        let kept = self.kept_policy(domain);
        let policy = match (id, kept) {
            (Some(id), kept) if kept.as_ref().is_none_or(|kept| kept.id != id) => {
                let fetched = self.fetch(domain, id).await;
                fetched.or_else(|| self.kept_policy(domain)).map(|kept| kept.policy)
            }
            (_, kept) => kept.map(|kept| kept.policy),
        };
        self.note_policy(life, domain, policy.clone());
        policy
    }

    fn kept_policy(&self, domain: &str) -> Option<CachedPolicy> {
        let now_us = self.executor.now_us();
        self.kept.borrow().get(domain).filter(|kept| now_us < kept.until_us).cloned()
    }

    async fn fetch(&self, domain: &str, id: &str) -> Option<CachedPolicy> {
        let after_us = self.random.borrow_mut().below(PAGE_US);
        self.executor.sleep(after_us).await;
        let now_us = self.executor.now_us();
        let (tls, which) = self.tls_of(domain)?;
        let (from_us, until_us) = tls.away_us;
        if (from_us..until_us).contains(&now_us) {
            return None;
        }
        let (_, promise) = tls.promise(which, now_us)?;
        let policy = Arc::new(Policy::parse(promise.text().as_bytes()).ok()?);
        let until_us = now_us + promise.seconds * 1_000_000;
        let kept = CachedPolicy { id: id.to_owned(), until_us, policy };
        self.kept.borrow_mut().insert(domain.to_owned(), kept.clone());
        Some(kept)
    }

    /// What is left of the domain's hosts is a set of its own.
    fn note_policy(&self, life: TaskGroup, domain: &str, policy: Option<Arc<Policy>>) {
        let mut told = self.told.borrow_mut();
        let Some(told) = told.get_mut(&life) else { return };
        if let Some(policy) = policy.as_ref().filter(|policy| policy.mode != Mode::None) {
            for hosts in told.hosts.get(domain).into_iter().flatten() {
                let left = hosts.iter().filter(|(_, host)| policy.has_host(host));
                let address = |(preference, host): &(u16, String)| {
                    let (hop, number) = self.host_named(host)?;
                    Some((*preference, self.plan.hops[hop].hosts[number].ip()))
                };
                let says = self.says(domain, policy.mode == Mode::Enforce);
                self.queues.name(life, in_order(left.filter_map(address)), says);
            }
        }
        let policies = told.policies.entry(domain.to_owned()).or_default();
        if policies.last() != Some(&policy) {
            policies.push(policy);
        }
    }
}

/// The law.
impl Promises {
    /// RCPT for this recipient has come to a host.
    pub fn check_recipient(&self, recipient: &str, sight: ObservedDelivery<'_>) {
        self.check_required(recipient, sight);
        if let Some(demands) = self.broken(recipient, sight) {
            let how = how(sight.shown);
            let what = format!("went to {} {how}, where {demands:?} was in force", sight.host);
            self.account.violate_about(recipient, &what);
        }
    }

    /// MAIL from this sender has come to a host: it is about a recipient of the sender's message whom the
    /// host may have.
    pub fn check_sender(&self, sender: &str, sight: ObservedDelivery<'_>) {
        if let Some(recipient) = self.account.recipients_of(name_of(sender)).first() {
            self.check_required(recipient, sight);
        }
        let recipients = self.account.recipients_of(name_of(sender));
        let is_here = |to: &&String| self.demands(to, sight).is_some();
        let mut here = recipients.iter().filter(is_here).peekable();
        if here.peek().is_some() && here.all(|to| self.broken(to, sight).is_some()) {
            let what =
                format!("was named to {} {}, for no recipient", sight.host, how(sight.shown));
            self.account.violate_about(sender, &what);
        }
    }

    /// What asks for TLS all the way goes to hosts that are who they should be by a certificate, or by their TLSA
    /// records, and that promise the same (RFC 8689 §4.2.1).
    fn check_required(&self, recipient: &str, sight: ObservedDelivery<'_>) {
        if self.account.is_tls_required(recipient) && !self.may_require(sight) {
            let how = how(sight.shown);
            let what =
                format!("requires TLS to the end (REQUIRETLS) and arrived at {} {how}", sight.host);
            self.account.violate_about(recipient, &what);
        }
    }

    fn may_require(&self, sight: ObservedDelivery<'_>) -> bool {
        let Some(shown) = sight.shown.filter(|_| offers_requiretls(sight.host)) else {
            return false;
        };
        let hops = self.plan.hops.iter().enumerate();
        let mut places = hops.filter_map(|(number, hop)| {
            let at = hop.hosts.iter().position(|host| host.ip() == sight.host)?;
            Some((number, at))
        });
        let told = self.told.borrow();
        let since_us = told.get(&sight.life).map_or(0, |told| told.since_us);
        places.any(|at| {
            let names = self.plan.hops[at.0].names_of(at.1);
            let by_records = self.dane(at, true, (since_us, sight.at_us));
            Demand::Named.is_met(Some(shown), &names)
                || by_records.into_iter().flatten().any(|demand| match demand {
                    Demand::Key(_) => demand.is_met(Some(shown), &names),
                    _ => false,
                })
        })
    }

    /// All that was in force for a recipient, if none of it allows what was seen.
    fn broken(&self, recipient: &str, sight: ObservedDelivery<'_>) -> Option<Vec<Demand>> {
        let (demands, names) = self.demands(recipient, sight)?;
        let is_allowed = demands.iter().any(|demand| demand.is_met(sight.shown, &names));
        (!is_allowed).then_some(demands)
    }

    /// All that was in force for a recipient at a host when something was written there, or shortly before, and
    /// what the host is called; `None`: the recipient's domain has no business there, or promises nothing.
    fn demands(
        &self,
        recipient: &str,
        sight: ObservedDelivery<'_>,
    ) -> Option<(Vec<Demand>, Vec<String>)> {
        let domain = recipient.rsplit_once('@')?.1;
        let (number, which) = self.hop_of(domain)?;
        let told = self.told.borrow();
        let told = told.get(&sight.life)?;
        let hop = &self.plan.hops[number];
        let at = hop.hosts.iter().position(|host| host.ip() == sight.host);
        let mut demands = Vec::new();
        for changes in self.configurations(told.since_us, sight.at_us) {
            let route = self.routes[changes][number].as_ref()?;
            if !route.hosts.contains(&sight.host) {
                continue;
            }
            match (route.word, at) {
                ("off" | "opportunistic", _) => demands.push(Demand::Anything),
                ("required", _) => demands.push(Demand::Encrypted),
                ("verified", _) => demands.push(Demand::Named),
                (word, Some(at)) => {
                    let is_secure = hop.tls.as_ref()?.secure[which] || !hop.by_mx;
                    let dane = self.dane((number, at), is_secure, (told.since_us, sight.at_us));
                    let name = hop.names_of(at).pop()?;
                    let policies = match word {
                        "mta-sts" => told.policies.get(domain).map_or(&[][..], Vec::as_slice),
                        _ => &[None],
                    };
                    for policy in policies {
                        let policy = policy.as_ref().filter(|p| p.mode == Mode::Enforce);
                        demands.extend(dane.iter().map(|dane| match (policy, dane) {
                            (Some(policy), _) if !policy.has_host(&name) => Demand::LeftOut,
                            (_, Some(dane)) => *dane,
                            (Some(_), None) => Demand::Named,
                            (None, None) => Demand::Anything,
                        }));
                    }
                }
                // Hosts of another.
                (_, None) => return None,
            }
        }
        if demands.is_empty() && at.is_none() {
            return None;
        }
        demands.dedup();
        let names = at.map_or_else(|| vec![sight.host.to_string()], |at| hop.names_of(at));
        Some((demands, names))
    }

    /// How many changes the configurations had that held then, or a moment before.
    fn configurations(&self, since_us: u64, at_us: u64) -> BTreeSet<usize> {
        let from_us = since_us.max(at_us.saturating_sub(RELOADED_US));
        let configured = self.configured.borrow();
        let before = configured.iter().rfind(|(at, _)| *at <= from_us);
        let since = configured.iter().filter(|(at, _)| (from_us..=at_us).contains(at));
        before.into_iter().chain(since).map(|(_, changes)| *changes).collect()
    }

    /// What TLSA records of a host asked in this time; `None`: nothing.
    fn dane(
        &self,
        at: (usize, usize),
        is_secure: bool,
        (from_us, until_us): (u64, u64),
    ) -> Vec<Option<Demand>> {
        let own = key_of(self.plan.hops[at.0].hosts[at.1].ip());
        let demand = |at_us| match self.tlsa_plan(at, at_us) {
            _ if !is_secure => None,
            TlsaPlan::None => None,
            TlsaPlan::Right => Some(Demand::Key(own)),
            TlsaPlan::Wrong => Some(Demand::Key(NOBODYS_KEY)),
            TlsaPlan::Unusable => Some(Demand::Encrypted),
            TlsaPlan::Bogus => Some(Demand::LeftOut),
        };
        let mut demands = vec![demand(from_us), demand(until_us)];
        demands.dedup();
        demands
    }
}

fn how(shown: Option<&Certificate>) -> String {
    match shown {
        None => "in clear".to_owned(),
        Some(Certificate { names, key, is_valid }) => {
            let valid = if *is_valid { "valid" } else { "expired" };
            format!("under a {valid} certificate of {} ({key})", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_demanded_is_met_by_what_is_shown() {
        let names = ["10.1.3.1".to_owned(), "mx0.d4.test".to_owned()];
        let shown = |name: &str, key, is_valid| {
            Some(Certificate { names: vec![name.to_owned()], key, is_valid })
        };
        let (own, others) = (shown("mx0.d4.test", 7, true), shown("other.test", 8, true));
        let expired = shown("mx0.d4.test", 7, false);
        for (demand, clear, own_met, others_met, expired_met) in [
            (Demand::Anything, true, true, true, true),
            (Demand::Encrypted, false, true, true, true),
            (Demand::Named, false, true, false, false),
            (Demand::Key(7), false, true, false, true),
            (Demand::LeftOut, false, false, false, false),
        ] {
            let met = |shown: &Option<Certificate>| demand.is_met(shown.as_ref(), &names);
            let found = (met(&None), met(&own), met(&others), met(&expired));
            assert_eq!(found, (clear, own_met, others_met, expired_met), "{demand:?}");
        }
    }
}
