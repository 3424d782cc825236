//! A connection to a directory server, with many concurrent searches.

use super::opening::Stream;
use ldap::{Entry, Op, Outcome, Response, Search};
use lookup::{LookupError, LookupErrorKind};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, timeout};

/// One message of a server has not more bytes: a group of 100,000 members fits.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// All entries of one search have not more bytes.
const FOUND_BYTES_MAX: usize = 16 << 20;
/// Size of the read buffer.
const READ_BYTES: usize = 16 << 10;
/// A farewell that the server doesn't take within this time is left unsaid.
const FAREWELL: Duration = Duration::from_secs(1);

/// The result of a search.
#[derive(Debug)]
pub(super) struct SearchResult {
    pub(super) entries: Vec<Entry>,
    pub(super) outcome: Outcome,
}

/// The reason for a failed search.
#[derive(Debug)]
pub(super) enum SearchError {
    /// The connection is gone: another one may know.
    Lost(LookupError),
    /// There are more entries than may be.
    TooMany,
}

/// A connection with concurrent searches.
#[derive(Debug)]
pub(super) struct LdapConnection {
    /// The server, by its index in the settings.
    pub(super) server: usize,
    shared: Rc<LdapConnectionShared>,
    reader: JoinHandle<()>,
}

#[derive(Debug)]
struct LdapConnectionShared {
    state: RefCell<State>,
    /// There is something to send.
    wake: Notify,
    /// Time of the server's last output.
    heard: Cell<Instant>,
    /// Searches that it has ended.
    ended: Cell<u64>,
}

#[derive(Debug)]
struct State {
    waiting: BTreeMap<i32, PendingSearch>,
    out: Vec<u8>,
    last_id: i32,
    /// The reason why the connection is unusable.
    gone: Option<LookupError>,
    /// No handle is left.
    is_left: bool,
}

/// A search that has no end yet.
#[derive(Debug)]
struct PendingSearch {
    entries: Vec<Entry>,
    entries_max: usize,
    bytes: usize,
    answer: oneshot::Sender<Result<SearchResult, SearchError>>,
}

impl LdapConnection {
    /// Takes an open connection.
    pub(super) fn new(server: usize, stream: Box<dyn Stream>) -> LdapConnection {
        let state = State {
            waiting: BTreeMap::new(),
            out: Vec::new(),
            // Lower ids were used to open it.
            last_id: 2,
            gone: None,
            is_left: false,
        };
        let shared = Rc::new(LdapConnectionShared {
            state: RefCell::new(state),
            wake: Notify::new(),
            heard: Cell::new(Instant::now()),
            ended: Cell::new(0),
        });
        let (read_half, write_half) = tokio::io::split(stream);
        spawn_local(write(Rc::clone(&shared), write_half));
        let reader = spawn_local(read(Rc::clone(&shared), read_half));
        LdapConnection { server, shared, reader }
    }

    /// Number of searches in progress.
    pub(super) fn load(&self) -> usize {
        self.shared.state.borrow().waiting.len()
    }

    /// Returns true if searches are possible.
    pub(super) fn is_open(&self) -> bool {
        self.shared.state.borrow().gone.is_none()
    }

    /// It has ended a search.
    pub(super) fn has_proved(&self) -> bool {
        self.shared.ended.get() > 0
    }

    /// Time of the server's last output.
    pub(super) fn heard(&self) -> Instant {
        self.shared.heard.get()
    }

    /// Closes the connection; its searches fail.
    pub(super) fn close(&self, trouble: LookupError) {
        self.shared.close(trouble);
    }

    /// Runs a search. Dropping the future sends an abandon request.
    pub(super) async fn search(
        &self,
        search: &Search<'_>,
        entries_max: usize,
    ) -> Result<SearchResult, SearchError> {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut state = self.shared.state.borrow_mut();
            if let Some(trouble) = &state.gone {
                return Err(SearchError::Lost(trouble.clone()));
            }
            let id = state.next_id();
            state.out.extend_from_slice(&search.request(id, None));
            let waiting = PendingSearch { entries: Vec::new(), entries_max, bytes: 0, answer };
            state.waiting.insert(id, waiting);
            id
        };
        self.shared.wake.notify_one();
        let _abandon = SearchGuard { shared: &self.shared, id };
        answered.await.unwrap_or_else(|_| {
            let text = "the connection was abandoned";
            Err(SearchError::Lost(LookupError::new(LookupErrorKind::Unreachable, text)))
        })
    }
}

impl Drop for LdapConnection {
    fn drop(&mut self) {
        self.reader.abort();
        let mut state = self.shared.state.borrow_mut();
        let id = state.next_id();
        state.out.extend_from_slice(&ldap::unbind(id));
        state.is_left = true;
        self.shared.wake.notify_one();
    }
}

/// Sends an abandon request for a search when dropped, unless its answer is complete.
struct SearchGuard<'a> {
    shared: &'a LdapConnectionShared,
    id: i32,
}

impl Drop for SearchGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.state.borrow_mut();
        if state.waiting.remove(&self.id).is_some() {
            state.abandon(self.id);
            self.shared.wake.notify_one();
        }
    }
}

impl State {
    fn next_id(&mut self) -> i32 {
        loop {
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            if !self.waiting.contains_key(&self.last_id) {
                return self.last_id;
            }
        }
    }

    fn abandon(&mut self, target: i32) {
        let id = self.next_id();
        self.out.extend_from_slice(&ldap::abandon(id, target));
    }
}

impl LdapConnectionShared {
    /// All searches are lost, and no new ones are taken.
    fn close(&self, trouble: LookupError) {
        let waiting = {
            let mut state = self.state.borrow_mut();
            state.gone.get_or_insert_with(|| trouble.clone());
            std::mem::take(&mut state.waiting)
        };
        for waiting in waiting.into_values() {
            let _ = waiting.answer.send(Err(SearchError::Lost(trouble.clone())));
        }
        self.wake.notify_one();
    }

    /// Handles one message of the server, of `bytes` octets.
    fn handle(&self, response: Response, bytes: usize) -> Result<(), LookupError> {
        let Response { id, op, .. } = response;
        let mut state = self.state.borrow_mut();
        match op {
            // Notice of disconnection (RFC 4511 §4.4.1).
            Op::Extended(outcome) if id == 0 => {
                let text = format!("the server ended the connection: {outcome}");
                return Err(LookupError::new(LookupErrorKind::Unreachable, text));
            }
            Op::Entry(entry) => {
                // Of a search that was abandoned, there may be more.
                let Some(waiting) = state.waiting.get_mut(&id) else { return Ok(()) };
                waiting.bytes = waiting.bytes.saturating_add(bytes);
                let is_room =
                    waiting.entries.len() < waiting.entries_max && waiting.bytes <= FOUND_BYTES_MAX;
                if is_room {
                    waiting.entries.push(entry);
                } else if let Some(waiting) = state.waiting.remove(&id) {
                    let _ = waiting.answer.send(Err(SearchError::TooMany));
                    state.abandon(id);
                    self.wake.notify_one();
                }
            }
            Op::Done(outcome) => {
                if let Some(waiting) = state.waiting.remove(&id) {
                    self.ended.set(self.ended.get() + 1);
                    let _ =
                        waiting.answer.send(Ok(SearchResult { entries: waiting.entries, outcome }));
                }
            }
            // Referrals are not followed, and any other message was not requested.
            Op::Reference | Op::Bind(_) | Op::Extended(_) | Op::News(_) | Op::Other(_) => {}
        }
        Ok(())
    }
}

/// Reads until the connection ends.
async fn read(shared: Rc<LdapConnectionShared>, mut stream: ReadHalf<Box<dyn Stream>>) {
    let mut bytes = Vec::new();
    let trouble = loop {
        if let Err(trouble) = take_messages(&shared, &mut bytes) {
            break trouble;
        }
        bytes.reserve(READ_BYTES);
        match stream.read_buf(&mut bytes).await {
            Ok(0) => break lost("the server closed the connection"),
            Ok(_) => shared.heard.set(Instant::now()),
            Err(error) => break lost(&error.to_string()),
        }
    };
    shared.close(trouble);
}

/// Takes the whole messages from `bytes`.
fn take_messages(shared: &LdapConnectionShared, bytes: &mut Vec<u8>) -> Result<(), LookupError> {
    let wrong = |error: ldap::Malformed| LookupError::new(LookupErrorKind::Wrong, error.0);
    let mut taken = 0;
    loop {
        let rest = bytes.get(taken..).unwrap_or_default();
        let Some(frame) = ldap::frame(rest, MESSAGE_BYTES_MAX).map_err(wrong)? else { break };
        let Some(message) = rest.get(..frame) else { break };
        shared.handle(Response::read(message).map_err(wrong)?, frame)?;
        taken += frame;
    }
    bytes.drain(..taken);
    Ok(())
}

/// Sends pending output until the connection ends.
async fn write(shared: Rc<LdapConnectionShared>, mut stream: WriteHalf<Box<dyn Stream>>) {
    loop {
        shared.wake.notified().await;
        loop {
            let (out, is_left) = {
                let mut state = shared.state.borrow_mut();
                if state.gone.is_some() {
                    return;
                }
                (std::mem::take(&mut state.out), state.is_left)
            };
            if is_left {
                let farewell = async {
                    stream.write_all(&out).await?;
                    stream.shutdown().await
                };
                let _ = timeout(FAREWELL, farewell).await;
                return;
            }
            if out.is_empty() {
                break;
            }
            let written = async {
                stream.write_all(&out).await?;
                stream.flush().await
            };
            if let Err(error) = written.await {
                shared.close(lost(&error.to_string()));
                return;
            }
        }
    }
}

fn lost(text: &str) -> LookupError {
    LookupError::new(LookupErrorKind::Unreachable, text)
}
