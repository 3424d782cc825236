//! Follows a directory that tells of its changes (RFC 4533): all entries once, then what becomes of them.

use super::item::{Id, Item, SnapshotQuery};
use super::keeper::SnapshotRefresher;
use super::reading::refused;
use super::shared::Mode;
use super::store::{BatchWriter, RefreshOutcome, SnapshotStore};
use super::talk::SyncConnection;
use super::view::View;
use ldap::{
    EntryState, Filter, Key, Op, RequestControl, Response, ResponseControl, SYNC_OID, Scope,
    Search, SyncInfo, SyncNews, code,
};
use lookup::{LookupError, LookupErrorKind};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Between two questions whether the server is there: as long as none is answered the copy is as old as
/// the last answer.
const PULSE: Duration = Duration::from_secs(5);
/// More changes at once than this are read as a whole directory.
pub(in crate::tables::ldap) const CHANGES_MAX: usize = 100_000;
/// With so many entries changed the file is written anew.
pub(in crate::tables::ldap) const OVERLAY_MAX: usize = 10_000;

/// Why following ended.
pub(super) enum SyncEnd {
    /// The server doesn't do it.
    Unable,
    /// It can't go on from where we are: all is to be read.
    Lost,
    Failed(LookupError),
}

impl From<LookupError> for SyncEnd {
    fn from(trouble: LookupError) -> SyncEnd {
        SyncEnd::Failed(trouble)
    }
}

/// What is heard until the server says that this was all.
#[derive(Default)]
struct RefreshChanges {
    /// `None`: it is gone.
    items: BTreeMap<Id, Option<Item>>,
    /// Entries that are there, changed or not.
    met: HashSet<Id>,
}

impl RefreshChanges {
    /// These, and the entries of the view that are gone: they were not met.
    ///
    /// # Errors
    /// The file is damaged.
    fn with_those_gone(mut self, view: &View) -> Result<RefreshChanges, LookupError> {
        for id in view.ids()? {
            if !self.met.contains(&id) {
                self.items.insert(id, None);
            }
        }
        Ok(self)
    }
}

/// What one message says.
struct SyncMessage {
    /// What became of entries.
    changes: Vec<(Id, Option<Item>)>,
    /// Entries that are as we know them.
    met: Vec<Id>,
    /// How far we are then.
    cookie: Option<Vec<u8>>,
    /// A phase is over: whether what was not named in it is gone, and whether it was the last.
    phase: Option<(bool, bool)>,
}

impl SyncConnection {
    /// Whether the server says that it can tell of changes.
    ///
    /// # Errors
    /// It doesn't answer.
    pub(super) async fn tells_of_changes(&mut self) -> Result<bool, LookupError> {
        let wanted = ["supportedControl".into()];
        let id = self.ask_root(&wanted).await?;
        let mut tells = false;
        loop {
            let response = self.next().await?;
            match response.op {
                _ if response.id != id => {}
                Op::Entry(entry) => {
                    let controls = entry.values("supportedControl");
                    tells = controls.iter().any(|oid| oid == SYNC_OID.as_bytes());
                }
                // Who doesn't show its root is asked page by page.
                Op::Done(_) => return Ok(tells),
                _ => {}
            }
        }
    }

    /// Asks for these attributes of the server's root (RFC 4512 §5.1).
    async fn ask_root(&mut self, wanted: &[Box<str>]) -> Result<i32, LookupError> {
        let filter = Filter::any();
        let search = Search {
            base: "",
            scope: Scope::Base,
            filter: &filter,
            key: Key::new(""),
            attributes: wanted,
            entries_max: 0,
            seconds_max: 0,
        };
        self.send(&search, None).await
    }
}

impl SnapshotRefresher {
    /// Follows a server from where we are, until that ends.
    ///
    /// # Errors
    /// Always, but for a reading that is not believed.
    pub(super) async fn follow(
        &mut self,
        talk: &mut SyncConnection,
    ) -> Result<RefreshOutcome, SyncEnd> {
        let known = self.shared.view().filter(|view| view.is_of(talk.server()));
        let cookie = known.as_ref().and_then(|view| view.cookie());
        let ask = RequestControl::Sync { cookie: cookie.as_deref() };
        let id = talk.send(&self.shared.question.search(), Some(&ask)).await?;
        let begun = std::time::Instant::now();
        let outcome = match known.filter(|_| cookie.is_some()) {
            Some(view) => self.catch_up(talk, id, view).await?,
            None => self.take_all(talk, id).await?,
        };
        let is_doubted = matches!(outcome, RefreshOutcome::Doubted(_));
        self.tell(talk.server(), Mode::Synchronised, begun.elapsed(), &outcome);
        if is_doubted { Ok(outcome) } else { Err(self.go_on(talk, id).await) }
    }

    /// Reads all entries into a new file.
    async fn take_all(
        &mut self,
        talk: &mut SyncConnection,
        id: i32,
    ) -> Result<RefreshOutcome, SyncEnd> {
        let mut file = self.create(true).await?;
        let read = self.read_all(talk, id, &mut file).await;
        let (builder, cookie) = file.finish(read).await?;
        self.shared.metrics().reads.inc();
        let cookie = Some((talk.server().to_owned(), cookie));
        Ok(self.aside(move |store| store.adopt(builder, cookie)).await?)
    }

    /// Reads all entries and returns the cookie.
    async fn read_all(
        &self,
        talk: &mut SyncConnection,
        id: i32,
        file: &mut BatchWriter,
    ) -> Result<Vec<u8>, SyncEnd> {
        let mut cookie = None;
        loop {
            let response = talk.next().await?;
            let Some(heard) = heard(talk, &self.shared.question, id, response)? else { continue };
            cookie = heard.cookie.or(cookie);
            for item in heard.changes.into_iter().filter_map(|(_, item)| item) {
                file.push(item).await?;
            }
            if let Some((_, true)) = heard.phase {
                return Ok(cookie.unwrap_or_default());
            }
        }
    }

    /// Takes what has become of entries while we were away.
    async fn catch_up(
        &mut self,
        talk: &mut SyncConnection,
        id: i32,
        view: Arc<View>,
    ) -> Result<RefreshOutcome, SyncEnd> {
        let (mut changes, mut cookie) = (RefreshChanges::default(), None);
        loop {
            let response = talk.next().await?;
            let Some(heard) = heard(talk, &self.shared.question, id, response)? else { continue };
            cookie = heard.cookie.or(cookie);
            changes.met.extend(heard.met);
            for (id, item) in heard.changes {
                if item.is_some() {
                    changes.met.insert(id);
                }
                changes.items.insert(id, item);
            }
            if changes.items.len() > CHANGES_MAX {
                return Err(SyncEnd::Lost);
            }
            let Some((was_present, is_last)) = heard.phase else { continue };
            if was_present {
                let known = Arc::clone(&view);
                let added = self.aside(move |_| changes.with_those_gone(&known)).await;
                changes = added.map_err(|_| SyncEnd::Lost)?;
            }
            if is_last {
                let take =
                    move |store: &SnapshotStore| store.take_changes(&view, changes.items, cookie);
                return Ok(self.aside(take).await);
            }
        }
    }

    /// Takes changes as they happen.
    async fn go_on(&mut self, talk: &mut SyncConnection, id: i32) -> SyncEnd {
        let mut pulse: Option<(i32, Instant)> = None;
        let mut next_pulse = Instant::now();
        let mut next_fold = Instant::now() + self.refresh;
        loop {
            let deadline = pulse.map_or(next_pulse, |(_, until)| until).min(next_fold);
            match timeout_at(deadline, talk.wait_next()).await {
                Ok(Ok(response)) => {
                    if pulse.is_some_and(|(of, _)| of == response.id) {
                        if matches!(response.op, Op::Done(_)) {
                            pulse = None;
                            self.aside(SnapshotStore::confirm).await;
                        }
                        continue;
                    }
                    if let Err(end) = self.take_news(talk, id, response).await {
                        return end;
                    }
                }
                Ok(Err(trouble)) => return SyncEnd::Failed(trouble),
                Err(_) => {}
            }
            let now = Instant::now();
            if pulse.is_some_and(|(_, until)| until <= now) {
                return SyncEnd::Failed(talk.trouble(LookupErrorKind::Timeout, "no reply"));
            }
            if pulse.is_none() && next_pulse <= now {
                match talk.ask_root(&["1.1".into()]).await {
                    Ok(id) => pulse = Some((id, now + talk.patience())),
                    Err(trouble) => return SyncEnd::Failed(trouble),
                }
                next_pulse = now + PULSE;
            }
            if let Err(end) = self.fold(next_fold <= now).await {
                return end;
            }
            if next_fold <= now {
                next_fold = now + self.refresh;
            }
        }
    }

    /// Takes one message of those that tell of changes.
    async fn take_news(
        &mut self,
        talk: &SyncConnection,
        id: i32,
        response: Response,
    ) -> Result<(), SyncEnd> {
        let dn = match &response.op {
            Op::Entry(entry) => entry.dn.clone(),
            // Only their UUIDs are named.
            _ => "an entry".to_owned(),
        };
        let Some(heard) = heard(talk, &self.shared.question, id, response)? else { return Ok(()) };
        let Some(view) = self.shared.view() else { return Ok(()) };
        if !heard.changes.is_empty() {
            let (taken, changes) = (Arc::clone(&view), heard.changes);
            self.aside(move |store| store.take_news(&taken, &dn, changes)).await;
        }
        view.set_cookie(heard.cookie);
        Ok(())
    }

    /// Writes a file with the changes since the last one, if there are enough changes or it is time.
    async fn fold(&mut self, is_time: bool) -> Result<(), SyncEnd> {
        let Some(view) = self.shared.view() else { return Ok(()) };
        if is_time && self.shared.is_damaged() {
            return Err(SyncEnd::Lost);
        }
        let count = view.changes();
        if count == 0 || (count < OVERLAY_MAX && !is_time) {
            return Ok(());
        }
        let folded = self.aside(move |store| store.fold(&view)).await;
        folded?.ok_or(SyncEnd::Lost)
    }
}

/// What a message says of our search; `None`: nothing.
fn heard(
    talk: &SyncConnection,
    question: &SnapshotQuery,
    id: i32,
    response: Response,
) -> Result<Option<SyncMessage>, SyncEnd> {
    let nothing = SyncMessage { changes: Vec::new(), met: Vec::new(), cookie: None, phase: None };
    match (response.op, response.beside) {
        // Notice of disconnection (RFC 4511 §4.4.1).
        (Op::Extended(outcome), _) if response.id == 0 => Err(refused(talk, &outcome).into()),
        _ if response.id != id => Ok(None),
        (Op::Entry(entry), Some(ResponseControl::State { uuid, state, cookie })) => {
            let mut heard = SyncMessage { cookie, ..nothing };
            match state {
                EntryState::Present => heard.met.push(uuid),
                EntryState::Deleted => heard.changes.push((uuid, None)),
                EntryState::Added | EntryState::Modified => {
                    // One that can't be an answer is there nevertheless.
                    heard.met.push(uuid);
                    heard.changes.push((uuid, question.item(uuid, &entry)));
                }
            }
            Ok(Some(heard))
        }
        (Op::Entry(_), _) => {
            Err(talk.trouble(LookupErrorKind::Wrong, "an entry without its state").into())
        }
        (Op::News(info), _) => Ok(Some(of_info(info, nothing))),
        (Op::Done(outcome), _) => match outcome.code {
            code::SYNC_REFRESH_REQUIRED => Err(SyncEnd::Lost),
            code::UNAVAILABLE_CRITICAL_EXTENSION => Err(SyncEnd::Unable),
            _ => Err(refused(talk, &outcome).into()),
        },
        _ => Ok(None),
    }
}

fn of_info(info: SyncInfo, nothing: SyncMessage) -> SyncMessage {
    let mut heard = SyncMessage { cookie: info.cookie, ..nothing };
    match info.news {
        SyncNews::Cookie => {}
        SyncNews::PhaseDone { was_present, is_last } => heard.phase = Some((was_present, is_last)),
        SyncNews::Entries { are_deleted: true, uuids } => {
            heard.changes = uuids.into_iter().map(|uuid| (uuid, None)).collect();
        }
        SyncNews::Entries { are_deleted: false, uuids } => heard.met = uuids,
    }
    heard
}
