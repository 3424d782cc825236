//! Rehearses RCPT with the code of the server.

use super::world::{RehearsalParts, RehearsalWorld};
use crate::tables::TracedTables;
use crate::terminal::clean;
use crate::world::LocalSpawn;
use crate::world::clock::{Clock, Start, seed_of};
use crate::world::long_work::LongWork;
use crate::world::mailbox_files::MailboxThreads;
use crate::world::resolver::Resolver;
use config::{Config, RefusalOrigin};
use mail::{Mailbox, Refusal};
use mta::console::{Console, Level};
use mta::event::NoEvents;
use mta::ingress::{
    ExpandedRecipient, RefusingStage, RehearsedMail, RehearsedRefusal, Resolved, recording,
};
use mta::metrics::Metrics;
use mta::shard::{Shard, ShardParts};
use mta::shared::SharedState;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of open mailbox files: one mailbox is looked at.
const FILES_MAX: usize = 4;
/// Maximum number of lines for the log.
const LINES_MAX: usize = 20;

/// The result of a rehearsal.
pub(super) struct Rehearsal {
    pub(super) end: Result<Resolved, RehearsedRefusal>,
    /// The stage that refused.
    pub(super) refusing: Option<&'static str>,
    /// Lines that a server would log, errors and warnings only.
    pub(super) log: Vec<String>,
}

impl Rehearsal {
    /// The recipients that replace the given one, with the owners of their lists.
    pub(super) fn members(&self) -> Vec<(Mailbox, Option<Mailbox>)> {
        let Ok(Resolved::Replaced(others)) = &self.end else { return Vec::new() };
        let member = |other: &ExpandedRecipient| {
            let owner = other.owner.as_ref().map(|owner| owner.address.clone());
            (other.recipient.mailbox.clone(), owner)
        };
        others.iter().map(member).collect()
    }

    /// The reason for which the mail is accepted and discarded.
    pub(super) fn discarded(&self) -> Option<String> {
        match &self.end {
            Ok(Resolved::Dropped(reason)) => Some(reason.to_string()),
            _ => None,
        }
    }

    pub(super) fn refusal_origin(&self) -> Option<RefusalOrigin> {
        let end = self.end.as_ref().err()?;
        Some(RefusalOrigin { step: end.step, stage: self.refusing })
    }

    pub(super) fn refusal(&self) -> Option<&Refusal> {
        self.end.as_ref().err().map(|end| &end.refusal)
    }
}

/// Rehearses a session, inside a [`tokio::task::LocalSet`]. `is_whole`: with the checks of the client, not only those
/// of routes, tables and mailboxes.
pub(super) async fn rehearse(
    tables: &TracedTables,
    config: &Arc<Config>,
    mail: RehearsedMail<'_>,
    is_whole: bool,
) -> Rehearsal {
    let lines = Rc::new(LogLines::default());
    let world = RehearsalWorld::new(RehearsalParts {
        dns: Resolver::new(&config.dns),
        time: Clock::new(Start::now(), seed_of(0)),
        store: MailboxThreads::start(&Arc::default(), FILES_MAX),
        tables: tables.clone(),
        spawn: LocalSpawn(LongWork::new()),
    });
    let refusing = RefusingStage::default();
    let stages = if is_whole { channels::rehearsed_stages() } else { Vec::new() };
    let shard = Shard::new(ShardParts {
        number: 0,
        world,
        config: Arc::clone(config),
        ports: Vec::new(),
        shared: Arc::new(SharedState::new(config, 1)),
        shards: Vec::new(),
        events: Rc::new(NoEvents),
        console: Rc::clone(&lines) as Rc<dyn Console>,
        metrics: Arc::new(Metrics::default()),
        suspensions: Arc::default(),
        channels: channels::channels(),
        protocols: channels::protocols(),
        stages: recording(stages, &refusing),
    });
    let end = shard.rehearse(mail).await;
    Rehearsal { end, refusing: refusing.get(), log: lines.0.take() }
}

/// Keeps the lines that a server would log.
#[derive(Default)]
struct LogLines(RefCell<Vec<String>>);

impl Console for LogLines {
    fn shows(&self, level: Level) -> bool {
        level <= Level::Warn
    }

    fn line(&self, level: Level, kind: &'static str, text: fmt::Arguments<'_>) {
        let mut lines = self.0.borrow_mut();
        if self.shows(level) && lines.len() < LINES_MAX {
            lines.push(clean(&format!("{kind}: {text}")));
        }
    }
}
