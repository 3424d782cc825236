//! The services that read the files which a configuration names. A start and a reload have them prepare, and so does
//! `postrider check`: what keeps a server from starting is found before.

use super::places::StartupResources;
use super::{Adoption, CandidateConfig, Service, ServiceRuntime, Services, nothing_to_adopt};
use crate::account::Account;
use crate::acme::AcmeFiles;
use crate::certificates::Certificates;
use crate::console::ConsoleLog;
use crate::file_watch::FileWatch;
use crate::mutex::lock;
use crate::privileges::Confinement;
use crate::reply_classes;
use crate::signing_keys::SigningKeys;
use crate::tables::Registry;
use crate::world::clock::Start;
use crate::world::mailbox_files::check_owners;
use crate::world::programs::{ProgramRunner, ProgramStart};
use ::classes::Classes;
use config::Problem;
use mta::shaping::Rules;
use mta::shared::SharedState;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// Those services, for whoever else needs them.
pub(crate) struct FileServices {
    pub(crate) replies: Arc<ReplyRules>,
    pub(crate) tables: Arc<Registry>,
    pub(crate) signing_keys: Arc<SigningKeys>,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) acme: Arc<AcmeFiles>,
    /// For their tasks, and those of other services.
    pub(crate) runtime: ServiceRuntime,
    pub(crate) programs: ProgramRunner,
    accounts: Arc<Accounts>,
    places: Arc<StartupResources>,
}

impl FileServices {
    /// Without a configuration yet.
    pub(crate) fn new(started: Start, console: &Arc<ConsoleLog>) -> FileServices {
        FileServices::with_rights(started, console, RightsAtStart::default())
    }

    /// The same for a process that may have dropped rights.
    pub(crate) fn with_rights(
        started: Start,
        console: &Arc<ConsoleLog>,
        rights: RightsAtStart,
    ) -> FileServices {
        let runtime = ServiceRuntime::default();
        FileServices {
            replies: Arc::default(),
            tables: Registry::new(started, &runtime, console),
            signing_keys: SigningKeys::new(console),
            certificates: Certificates::new(console),
            acme: Arc::default(),
            runtime,
            programs: ProgramRunner::started_by(rights.programs),
            accounts: Arc::new(Accounts(rights.confinement)),
            places: Arc::default(),
        }
    }

    /// As a list, in the order in which they adopt a configuration.
    pub(crate) fn services(&self) -> Services {
        Services::default()
            .with(Arc::clone(&self.accounts))
            .with(Arc::clone(&self.places))
            .with(MailboxOwners)
            .with(ProgramUsers(self.programs.clone()))
            .with(Arc::clone(&self.replies))
            .with(Arc::clone(&self.tables))
            .with(Arc::clone(&self.signing_keys))
            .with(Arc::clone(&self.certificates))
            .with(Arc::clone(&self.acme))
    }

    /// Looks at their files from now on, and reads those that change.
    pub(crate) fn watch(&self, watch: &Arc<FileWatch>) {
        self.tables.watch(watch);
        self.signing_keys.watch(watch);
        self.certificates.watch(watch);
    }
}

/// The rights that a start has left.
#[derive(Debug, Default)]
pub(crate) struct RightsAtStart {
    pub(crate) programs: ProgramStart,
    /// `None` if the whole file system is in reach.
    pub(crate) confinement: Option<Confinement>,
}

/// `user` and `group`, and the part of the file system that the server reaches.
struct Accounts(Option<Confinement>);

impl Service for Arc<Accounts> {
    fn name(&self) -> &'static str {
        "the server's user"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let mut mistakes: Vec<Problem> = Account::of(next.config).err().into_iter().collect();
        for (key, path) in self.0.iter().flat_map(|all| all.out_of_reach(next.config)) {
            let why = format!(
                "{} is in a directory out of the server's reach: restart it, or use another directory",
                path.display()
            );
            mistakes.push(next.config.mistake_at(&key, why));
        }
        if mistakes.is_empty() { Ok(nothing_to_adopt()) } else { Err(mistakes) }
    }
}

/// Users and groups that mailboxes belong to.
struct MailboxOwners;

impl Service for MailboxOwners {
    fn name(&self) -> &'static str {
        "owners of mailboxes"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        match check_owners(next.config) {
            mistakes if mistakes.is_empty() => Ok(nothing_to_adopt()),
            mistakes => Err(mistakes),
        }
    }
}

/// Users and groups that programs run as.
struct ProgramUsers(ProgramRunner);

impl Service for ProgramUsers {
    fn name(&self) -> &'static str {
        "users of programs"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        match self.0.check(next.config) {
            mistakes if mistakes.is_empty() => Ok(nothing_to_adopt()),
            mistakes => Err(mistakes),
        }
    }
}

/// What refusals mean, and the rules that shape traffic by them.
#[derive(Default)]
pub(crate) struct ReplyRules {
    /// What holds for the shards, once there are any.
    shared: OnceLock<Weak<SharedState>>,
    /// Read before.
    read: Mutex<Option<(Arc<Classes>, Rules)>>,
}

impl ReplyRules {
    /// Hands what was read to the shards, now and after each reload.
    pub(crate) fn hand_to(&self, shared: &Arc<SharedState>) {
        let _ = self.shared.set(Arc::downgrade(shared));
        if let Some(read) = lock(&self.read).take() {
            put(shared, read);
        }
    }
}

/// Shards take them up with the next configuration.
fn put(shared: &SharedState, (classes, rules): (Arc<Classes>, Rules)) {
    shared.set_classes(classes);
    shared.rules.set_rules(rules);
}

impl Service for Arc<ReplyRules> {
    fn name(&self) -> &'static str {
        "files of classes and shaping"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let read = reply_classes::read_with_rules(next.config, next.is_shaped)?;
        let this = Arc::clone(self);
        Ok(Box::new(move || match this.shared.get().map(Weak::upgrade) {
            Some(Some(shared)) => put(&shared, read),
            Some(None) => {}
            None => *lock(&this.read) = Some(read),
        }))
    }
}
