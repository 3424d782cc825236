//! The seams of the message's way, simulated: clock, tasks, names and mailboxes. (The network has
//! a file of its own.)

use super::account::Account;
use super::executor::{self, Executor, TaskGroup, wall_ms};
use super::network::{HostSet, SimNet};
use super::open_files::OpenFiles;
use super::plan::{Mood, Zones};
use super::promises::Promises;
use super::ready_queues::{ReadyQueues, in_order};
use super::tables::SimTables;
use super::trace::Trace;
use super::warming::SimWarmups;
use auth::mta_sts::Policy;
use auth::tlsa::Tlsa;
use bytes::Bytes;
use load::random::Random;
use lookup::Requester;
use mail::{Mono, Wall};
use mta::seams::{
    Dns, DnsError, GreylistLedger, HostSecurity, MailStore, MailboxError, MailboxPlace, Mx,
    NoDomainReports, NoHashing, Policies, PolicyQuestion, Sleep, Spawn, Task, Time, Unfetched,
    Vouched, Warmups, World,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The world of one shard.
#[derive(Clone, Debug)]
pub struct SimWorld(Rc<Seams>);

#[derive(Debug)]
struct Seams {
    net: SimNet,
    dns: SimDns,
    time: SimTime,
    spawn: SimSpawn,
    store: SimStore,
    tables: SimTables,
    greylist: RefCell<GreylistLedger>,
    warmups: Rc<SimWarmups>,
    policies: SimPolicies,
}

impl SimWorld {
    /// Joins the seams.
    #[must_use]
    pub fn new(
        net: SimNet,
        dns: SimDns,
        time: SimTime,
        spawn: SimSpawn,
        store: SimStore,
        tables: SimTables,
        warmups: Rc<SimWarmups>,
    ) -> SimWorld {
        let greylist = RefCell::default();
        let policies = SimPolicies { life: dns.asker.0, promises: Rc::clone(&dns.promises) };
        SimWorld(Rc::new(Seams {
            net,
            dns,
            time,
            spawn,
            store,
            tables,
            greylist,
            warmups,
            policies,
        }))
    }
}

impl World for SimWorld {
    type Net = SimNet;
    type Dns = SimDns;
    type Time = SimTime;
    type Spawn = SimSpawn;
    type Store = SimStore;
    type Tables = SimTables;
    type Hashing = NoHashing;
    type Policies = SimPolicies;
    type DomainReports = NoDomainReports;
    type Greylist = RefCell<GreylistLedger>;

    fn net(&self) -> &SimNet {
        &self.0.net
    }

    fn dns(&self) -> &SimDns {
        &self.0.dns
    }

    fn time(&self) -> &SimTime {
        &self.0.time
    }

    fn spawn(&self) -> &SimSpawn {
        &self.0.spawn
    }

    fn store(&self) -> &SimStore {
        &self.0.store
    }

    fn tables(&self, _: Requester) -> SimTables {
        self.0.tables.clone()
    }

    fn hashing(&self) -> &NoHashing {
        &NoHashing
    }

    fn policies(&self) -> &SimPolicies {
        &self.0.policies
    }

    fn domain_reports(&self) -> &NoDomainReports {
        &NoDomainReports
    }

    fn greylist(&self) -> &RefCell<GreylistLedger> {
        &self.0.greylist
    }

    fn warmups(&self) -> &dyn Warmups {
        &*self.0.warmups
    }
}

/// The clocks of one process.
#[derive(Clone, Debug)]
pub struct SimTime {
    executor: Executor,
    /// When the process started: its monotonic clock counts from there.
    started_us: u64,
    wall_offset_ms: Rc<Cell<i64>>,
    random: Rc<RefCell<Random>>,
}

impl SimTime {
    /// Clocks of a process that starts now.
    #[must_use]
    pub fn new(executor: Executor, seed: u64, wall_offset_ms: Rc<Cell<i64>>) -> SimTime {
        let started_us = executor.now_us();
        SimTime {
            executor,
            started_us,
            wall_offset_ms,
            random: Rc::new(RefCell::new(Random::new(seed))),
        }
    }

    fn global_us(&self, at: Mono) -> u64 {
        at.0.saturating_add(self.started_us)
    }
}

impl Time for SimTime {
    type Sleep = SimSleep;

    fn now(&self) -> Mono {
        Mono(self.executor.now_us() - self.started_us)
    }

    fn wall(&self) -> Wall {
        Wall(wall_ms(&self.executor, &self.wall_offset_ms))
    }

    fn sleep_until(&self, at: Mono) -> SimSleep {
        let sleep = self.executor.sleep_until(self.global_us(at));
        SimSleep { sleep, started_us: self.started_us }
    }

    fn random(&self) -> u64 {
        self.random.borrow_mut().next_u64()
    }
}

/// A timer of a process.
#[derive(Debug)]
pub struct SimSleep {
    sleep: executor::Sleep,
    started_us: u64,
}

impl Future for SimSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.sleep).poll(cx)
    }
}

impl Sleep for SimSleep {
    fn reset(&mut self, at: Mono) {
        self.sleep.reset(at.0.saturating_add(self.started_us));
    }
}

/// Starts tasks of one process.
#[derive(Clone, Debug)]
pub struct SimSpawn {
    executor: Executor,
    group: TaskGroup,
}

impl SimSpawn {
    /// For tasks of this group.
    #[must_use]
    pub fn new(executor: Executor, group: TaskGroup) -> SimSpawn {
        SimSpawn { executor, group }
    }
}

impl Spawn for SimSpawn {
    fn spawn(&self, task: Task) {
        self.executor.spawn(self.group, task);
    }
}

/// What the resolver says, and how badly.
#[derive(Debug, Default)]
pub struct DnsFaults {
    /// How it feels now.
    pub mood: Cell<Mood>,
    /// Questions that are under way, and the most that were at once.
    asked: Cell<u32>,
    most: Cell<u32>,
    /// What is true now.
    pub zones: RefCell<Zones>,
    /// So many of a thousand questions get SERVFAIL.
    pub failing_permille: Cell<u16>,
    /// So many of a thousand questions are answered late, half of them too late.
    pub late_permille: Cell<u16>,
}

impl DnsFaults {
    /// A resolver that is well.
    #[must_use]
    pub fn new(zones: Zones) -> Rc<DnsFaults> {
        Rc::new(DnsFaults { zones: RefCell::new(zones), ..DnsFaults::default() })
    }

    /// The most questions that were under way at once.
    #[must_use]
    pub fn most_asked(&self) -> u32 {
        self.most.get()
    }
}

/// A question that is under way.
struct DnsQueryGuard(Rc<DnsFaults>);

impl DnsQueryGuard {
    fn new(faults: &Rc<DnsFaults>) -> DnsQueryGuard {
        faults.asked.set(faults.asked.get() + 1);
        faults.most.set(faults.most.get().max(faults.asked.get()));
        DnsQueryGuard(Rc::clone(faults))
    }
}

impl Drop for DnsQueryGuard {
    fn drop(&mut self) {
        self.0.asked.set(self.0.asked.get() - 1);
    }
}

/// A question to which no answer comes takes so long.
const SILENT_US: u64 = 15_000_000;

/// The resolver.
#[derive(Clone, Debug)]
pub struct SimDns {
    executor: Executor,
    faults: Rc<DnsFaults>,
    random: Rc<RefCell<Random>>,
    /// Who asks, and who is told what was answered.
    asker: (TaskGroup, Rc<ReadyQueues>),
    /// Each question takes one.
    files: Arc<OpenFiles>,
    /// What DNSSEC vouches for.
    promises: Rc<Promises>,
}

impl SimDns {
    /// Answers from the zones, with faults.
    #[must_use]
    pub fn new(
        executor: Executor,
        faults: Rc<DnsFaults>,
        seed: u64,
        asker: (TaskGroup, Rc<ReadyQueues>),
        files: Arc<OpenFiles>,
        promises: Rc<Promises>,
    ) -> SimDns {
        let random = Rc::new(RefCell::new(Random::new(seed)));
        SimDns { executor, faults, random, asker, files, promises }
    }

    /// The addresses of these hosts, in the order in which they are tried.
    fn order(&self, records: &[Mx]) -> Vec<HostSet> {
        let zones = self.faults.zones.borrow();
        let addresses = records.iter().flat_map(|mx| {
            let of_host = zones.addresses.get(&mx.host).into_iter().flatten();
            of_host.map(|&address| (mx.preference, address))
        });
        in_order(addresses)
    }

    async fn ask<T>(
        &self,
        name: &str,
        answer: impl Fn(&Zones) -> Option<Vec<T>>,
    ) -> Result<Vec<T>, DnsError> {
        let Ok(_file) = self.files.open() else { return Err(DnsError::Lack) };
        let _asked = DnsQueryGuard::new(&self.faults);
        if self.is_below(name, |zones| zones.spared) {
            self.executor.sleep(300).await;
            return answer(&self.faults.zones.borrow()).ok_or(DnsError::NoSuchDomain);
        }
        if self.is_below(name, |zones| zones.hanging) {
            self.executor.sleep(SILENT_US).await;
            return Err(DnsError::Transient("request timed out".to_owned()));
        }
        self.be_moody().await?;
        self.be_late().await?;
        let failing_permille = self.faults.failing_permille.get();
        let (after_us, fails) = {
            let mut random = self.random.borrow_mut();
            let slow = random.permille(failing_permille);
            let after_us = if slow { 5_000_000 } else { 300 + random.below(40_000) };
            (after_us, slow || random.permille(failing_permille))
        };
        self.executor.sleep(after_us).await;
        if fails {
            return Err(DnsError::Transient("SERVFAIL".to_owned()));
        }
        let zones = self.faults.zones.borrow();
        if zones.looped.contains(name) {
            // The resolver follows a chain of CNAMEs so far and no further, and then says that
            // there are no records.
            return Err(DnsError::NoRecords);
        }
        answer(&zones).ok_or(DnsError::NoSuchDomain)
    }

    /// Whether a name lies below a zone.
    fn is_below(&self, name: &str, zone: impl Fn(&Zones) -> Option<&'static str>) -> bool {
        zone(&self.faults.zones.borrow()).is_some_and(|zone| name.ends_with(zone))
    }

    async fn be_moody(&self) -> Result<(), DnsError> {
        let transient = |text: &str| Err(DnsError::Transient(text.to_owned()));
        let some_us = |most_us| self.random.borrow_mut().below(most_us);
        match self.faults.mood.get() {
            Mood::Well => Ok(()),
            Mood::Lacking => Err(DnsError::Lack),
            Mood::Slow => {
                self.executor.sleep(1_000_000 + some_us(7_000_000)).await;
                Ok(())
            }
            Mood::Silent => {
                self.executor.sleep(SILENT_US).await;
                transient("request timed out")
            }
            Mood::Failing => {
                self.executor.sleep(300 + some_us(40_000)).await;
                transient("SERVFAIL")
            }
        }
    }

    /// Takes long to answer, now and then longer than anybody waits.
    async fn be_late(&self) -> Result<(), DnsError> {
        let permille = self.faults.late_permille.get();
        if !self.random.borrow_mut().permille(permille) {
            return Ok(());
        }
        let (after_us, never) = {
            let mut random = self.random.borrow_mut();
            (random.below(15_000_000), random.below(2) == 0)
        };
        self.executor.sleep(after_us).await;
        if never { Err(DnsError::Transient("request timed out".to_owned())) } else { Ok(()) }
    }
}

impl Dns for SimDns {
    /// Whoever is never left waiting is asked all the time.
    fn mx_lasts(&self, domain: &str) -> Duration {
        let is_spared = self.is_below(domain, |zones| zones.spared);
        Duration::from_secs(if is_spared { 0 } else { 300 })
    }

    async fn mx(&self, domain: &str) -> Result<Vec<Mx>, DnsError> {
        let records = self.ask(domain, |zones| zones.mx.get(domain).cloned()).await?;
        let (group, queues) = &self.asker;
        queues.name(*group, self.order(&records), self.promises.says(domain, false));
        Ok(self.promises.vouch(*group, domain, records).answer)
    }

    async fn vouched_mx(&self, domain: &str) -> Result<Vouched<Vec<Mx>>, DnsError> {
        let records = self.mx(domain).await?;
        Ok(self.promises.vouch(self.asker.0, domain, records))
    }

    async fn host_security(&self, host: &str) -> Result<HostSecurity, DnsError> {
        self.addresses(host).await?;
        Ok(self.promises.host_security(host))
    }

    async fn tlsa(&self, name: &str) -> Result<Vouched<Vec<Tlsa>>, DnsError> {
        self.ask(name, |_| Some(vec![()])).await?;
        self.promises.tlsa(name)
    }

    async fn txt(&self, name: &str) -> Result<Vec<Vec<u8>>, DnsError> {
        self.ask(name, |_| self.promises.txt(name)).await
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        self.ask(host, |zones| zones.addresses.get(host).cloned()).await
    }
}

/// Policies as they are kept and fetched.
#[derive(Clone, Debug)]
pub struct SimPolicies {
    life: TaskGroup,
    promises: Rc<Promises>,
}

impl Policies for SimPolicies {
    async fn mta_sts(
        &self,
        question: PolicyQuestion<'_>,
    ) -> Result<Option<Arc<Policy>>, Unfetched> {
        Ok(self.promises.policy(self.life, question.domain, question.id).await)
    }
}

/// Maildirs: directory and name say which file; the same name again replaces it.
#[derive(Clone, Debug)]
pub struct SimStore {
    executor: Executor,
    account: Rc<Account>,
    trace: Rc<Trace>,
    random: Rc<RefCell<Random>>,
    /// So many of a thousand files can't be written.
    failing_permille: Rc<Cell<u16>>,
    open: Rc<RefCell<BTreeMap<u64, Unfinished>>>,
    next: Rc<Cell<u64>>,
}

/// A file in tmp.
#[derive(Debug)]
struct Unfinished {
    directory: PathBuf,
    name: String,
    content: Vec<u8>,
}

impl SimStore {
    /// A store whose files `account` gets to see.
    #[must_use]
    pub fn new(
        executor: Executor,
        account: Rc<Account>,
        trace: Rc<Trace>,
        seed: u64,
        failing_permille: Rc<Cell<u16>>,
    ) -> SimStore {
        SimStore {
            executor,
            account,
            trace,
            random: Rc::new(RefCell::new(Random::new(seed))),
            failing_permille,
            open: Rc::default(),
            next: Rc::default(),
        }
    }

    async fn work(&self) -> io::Result<()> {
        let (after_us, fails) = {
            let mut random = self.random.borrow_mut();
            (50 + random.below(4_000), random.permille(self.failing_permille.get()))
        };
        self.executor.sleep(after_us).await;
        if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    async fn publish(&self, file: Unfinished) -> io::Result<()> {
        self.work().await?;
        let Unfinished { directory, name, content } = file;
        self.trace.note("mailbox", &[content.len() as u64], || {
            format!("{} {name} {}", directory.display(), content.len())
        });
        self.account.handle_mailbox(&directory, &name, &content);
        // Between the file and the news of it a crash may come, too.
        self.work().await.or(Ok(()))
    }
}

impl MailStore for SimStore {
    async fn deliver(
        &self,
        place: MailboxPlace,
        name: String,
        pieces: Vec<Bytes>,
    ) -> Result<(), MailboxError> {
        let directory = place.path();
        Ok(self.publish(Unfinished { directory, name, content: pieces.concat() }).await?)
    }

    async fn begin(&self, place: MailboxPlace, name: String) -> Result<u64, MailboxError> {
        self.work().await?;
        let number = self.next.get();
        self.next.set(number + 1);
        let file = Unfinished { directory: place.path(), name, content: Vec::new() };
        self.open.borrow_mut().insert(number, file);
        Ok(number)
    }

    async fn append(&self, file: u64, piece: Bytes) -> Result<(), MailboxError> {
        self.work().await?;
        let mut open = self.open.borrow_mut();
        let file = open.get_mut(&file).ok_or(io::ErrorKind::NotFound)?;
        file.content.extend_from_slice(&piece);
        Ok(())
    }

    async fn finish(&self, file: u64, keep: bool) -> Result<(), MailboxError> {
        let file = self.open.borrow_mut().remove(&file).ok_or(io::ErrorKind::NotFound)?;
        Ok(if keep { self.publish(file).await } else { self.work().await }?)
    }
}
