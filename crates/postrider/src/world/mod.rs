//! The real seams: sockets, clocks, resolver, mailbox files.

pub(crate) mod clock;
mod egress;
mod encrypted;
pub(crate) mod hashing;
pub(crate) mod listening_socket;
pub(crate) mod long_work;
pub(crate) mod mailbox_files;
pub(crate) mod programs;
pub(crate) mod resolver;
pub(crate) mod sockets;

use crate::advisers::PersistentState;
use crate::dmarc_reports::DmarcReporting;
use crate::greylist::Greylisting;
use crate::mta_sts::MtaSts;
use crate::named_keys::NamedKeys;
use crate::tables::ShardTables;
use crate::tls_reports::TlsReporting;
use clock::Clock;
use hashing::HashingThreads;
use long_work::LongWork;
use lookup::Requester;
use mailbox_files::MailboxFiles;
use mta::seams::{Authenticators, KeyFiles, Programs, Task, TlsReports, Warmups, World};
use programs::ProgramRunner;
use resolver::Resolver;
use sockets::Sockets;
use std::future::Future;
use std::rc::Rc;

/// The world of one shard.
#[derive(Clone)]
pub(crate) struct Real(Rc<PlatformParts>);

/// The parts of a shard's platform.
pub(crate) struct PlatformParts {
    pub(crate) net: Sockets,
    pub(crate) dns: Resolver,
    pub(crate) time: Clock,
    pub(crate) store: MailboxFiles,
    pub(crate) tables: ShardTables,
    pub(crate) hashing: HashingThreads,
    pub(crate) spawn: LocalSpawn,
    pub(crate) policies: MtaSts,
    pub(crate) domain_reports: DmarcReporting,
    pub(crate) tls_reports: TlsReporting,
    pub(crate) books: PersistentState,
    pub(crate) named_keys: NamedKeys,
    pub(crate) programs: ProgramRunner,
}

impl Real {
    /// To be made on the shard's own thread.
    pub(crate) fn new(parts: PlatformParts) -> Real {
        Real(Rc::new(parts))
    }
}

impl World for Real {
    type Net = Sockets;
    type Dns = Resolver;
    type Time = Clock;
    type Spawn = LocalSpawn;
    type Store = MailboxFiles;
    type Tables = ShardTables;
    type Hashing = HashingThreads;
    type Policies = MtaSts;
    type DomainReports = DmarcReporting;
    type Greylist = Greylisting;

    fn net(&self) -> &Sockets {
        &self.0.net
    }

    fn dns(&self) -> &Resolver {
        &self.0.dns
    }

    fn time(&self) -> &Clock {
        &self.0.time
    }

    fn spawn(&self) -> &LocalSpawn {
        &self.0.spawn
    }

    fn store(&self) -> &MailboxFiles {
        &self.0.store
    }

    fn tables(&self, requester: Requester) -> ShardTables {
        self.0.tables.asked_for(requester)
    }

    fn hashing(&self) -> &HashingThreads {
        &self.0.hashing
    }

    fn policies(&self) -> &MtaSts {
        &self.0.policies
    }

    fn domain_reports(&self) -> &DmarcReporting {
        &self.0.domain_reports
    }

    fn tls_reports(&self) -> &dyn TlsReports {
        &self.0.tls_reports
    }

    fn greylist(&self) -> &Greylisting {
        &self.0.books.greylist
    }

    fn warmups(&self) -> &dyn Warmups {
        &self.0.books.warmups
    }

    fn key_files(&self) -> &dyn KeyFiles {
        &self.0.named_keys
    }

    fn programs(&self) -> &dyn Programs {
        &self.0.programs
    }

    fn authenticators(&self) -> &dyn Authenticators {
        &self.0.tables
    }
}

/// Spawns tasks on the current thread's `LocalSet`, and long work on other threads.
#[derive(Clone)]
pub(crate) struct LocalSpawn(pub(crate) LongWork);

impl mta::seams::Spawn for LocalSpawn {
    fn spawn(&self, task: Task) {
        tokio::task::spawn_local(task);
    }

    fn elsewhere<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> impl Future<Output = Option<T>> + 'static {
        self.0.run(work)
    }
}
