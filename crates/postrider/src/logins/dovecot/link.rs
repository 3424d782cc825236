//! The connection to an authentication server, and the logins that wait on it.

use super::{Offer, process};
use crate::tables::{TableServer, TableStream, within};
use auth::dovecot::{self, Answer, Answers, DovecotEvent};
use lookup::{LookupError, LookupErrorKind};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

/// Timeout for a connection and its handshake.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Size of the read buffer.
const READ_BYTES: usize = 4 << 10;

/// The reply to a step of a login.
pub(super) type DovecotReply = Result<Answer, LookupError>;

/// Commands from logins to the driver.
#[derive(Debug)]
pub(super) enum DovecotCommand {
    /// A connection is wanted.
    Connect,
    /// A step of a login.
    Say { id: u32, line: String, is_first: bool, answer: oneshot::Sender<DovecotReply> },
    /// The login is abandoned.
    Cancel(u32),
    /// The login is abandoned after a timeout.
    Silent { id: u32, waited: Duration },
}

impl DovecotCommand {
    fn refuse(self, trouble: &LookupError) {
        if let DovecotCommand::Say { answer, .. } = self {
            // The login may have been abandoned.
            let _ = answer.send(Err(trouble.clone()));
        }
    }
}

/// Keeps the connection.
pub(super) struct DovecotDriver {
    server: TableServer,
    notes: mpsc::UnboundedReceiver<DovecotCommand>,
    offer: watch::Sender<Offer>,
}

impl DovecotDriver {
    pub(super) fn new(
        server: TableServer,
        notes: mpsc::UnboundedReceiver<DovecotCommand>,
        offer: watch::Sender<Offer>,
    ) -> DovecotDriver {
        DovecotDriver { server, notes, offer }
    }

    /// Runs until every handle is dropped.
    pub(super) async fn run(mut self) {
        while let Some(note) = self.notes.recv().await {
            // A lost connection has no logins to cancel.
            if matches!(note, DovecotCommand::Cancel(_) | DovecotCommand::Silent { .. }) {
                continue;
            }
            let opened = within(&self.server, CONNECT_MAX, self.open()).await;
            match opened {
                Ok((wire, answers, offered)) => {
                    self.offer.send_replace(Offer::Known(offered.into()));
                    self.serve(wire, answers, note).await;
                }
                Err(trouble) => {
                    note.refuse(&trouble);
                    // They have waited for the same.
                    while let Ok(note) = self.notes.try_recv() {
                        note.refuse(&trouble);
                    }
                    self.offer.send_if_modified(|offer| {
                        let is_unknown = matches!(offer, Offer::Unknown);
                        if is_unknown {
                            *offer = Offer::Unreachable;
                        }
                        is_unknown
                    });
                }
            }
        }
    }

    /// A connection after its handshake, with the mechanisms offered.
    async fn open(&self) -> Result<(Box<dyn TableStream>, Answers, Vec<Box<str>>), String> {
        let mut wire = self.server.open().await.map_err(|error| error.to_string())?;
        let hello = dovecot::hello(process());
        wire.write_all(hello.as_bytes()).await.map_err(|error| error.to_string())?;
        let (mut answers, mut input) = (Answers::default(), Vec::with_capacity(READ_BYTES));
        loop {
            if let Some(event) = answers.poll_event() {
                return match event {
                    DovecotEvent::Ready(offered) => Ok((wire, answers, offered)),
                    DovecotEvent::Answer(..) => Err("unsolicited reply".to_owned()),
                };
            }
            input.clear();
            let read = wire.read_buf(&mut input).await.map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("closed the connection during the handshake".to_owned());
            }
            answers.handle_input(&input).map_err(|why| why.0.to_owned())?;
        }
    }

    /// Runs until the connection is lost, or every handle is dropped.
    async fn serve(
        &mut self,
        wire: Box<dyn TableStream>,
        mut answers: Answers,
        first: DovecotCommand,
    ) {
        let (mut reader, mut writer) = tokio::io::split(wire);
        let mut link = DovecotConnection::default();
        let mut input = Vec::with_capacity(READ_BYTES);
        let mut taken = link.take(first);
        let lost = loop {
            if let Err(trouble) = taken {
                break trouble;
            }
            taken = tokio::select! {
                biased;
                read = reader.read_buf(&mut input) => {
                    let heard = match read {
                        Ok(0) => Err(lost("it closed the connection")),
                        Ok(_) => link.handle(&mut answers, &input),
                        Err(error) => Err(lost(&error.to_string())),
                    };
                    input.clear();
                    heard
                }
                written = writer.write(&link.out), if !link.out.is_empty() => match written {
                    Ok(0) => Err(lost("it does not read")),
                    Ok(count) => { link.out.drain(..count); Ok(()) }
                    Err(error) => Err(lost(&error.to_string())),
                },
                note = self.notes.recv() => match note {
                    Some(note) => link.take(note),
                    None => return,
                },
            };
        };
        link.close(&lost);
    }
}

/// State of a connection.
#[derive(Debug)]
struct DovecotConnection {
    /// To be sent.
    out: Vec<u8>,
    waiting: BTreeMap<u32, oneshot::Sender<DovecotReply>>,
    /// Logins that wait for a client's response.
    open: BTreeSet<u32>,
    /// The numbers that were used.
    said: Option<RangeInclusive<u32>>,
    /// Time of the server's last output.
    heard: Instant,
}

impl Default for DovecotConnection {
    fn default() -> DovecotConnection {
        DovecotConnection {
            out: Vec::new(),
            waiting: BTreeMap::new(),
            open: BTreeSet::new(),
            said: None,
            heard: Instant::now(),
        }
    }
}

impl DovecotConnection {
    /// # Errors
    /// Returns an error if the server is silent: the connection is useless.
    fn take(&mut self, note: DovecotCommand) -> Result<(), LookupError> {
        match note {
            DovecotCommand::Connect => {}
            DovecotCommand::Say { id, line, is_first, answer } => {
                if !is_first && !self.open.remove(&id) {
                    let _ = answer.send(Err(lost("the connection was lost during the exchange")));
                    return Ok(());
                }
                let first = self.said.as_ref().map_or(id, |said| *said.start());
                self.said = Some(first.min(id)..=self.last_said().max(id));
                self.out.extend_from_slice(line.as_bytes());
                self.waiting.insert(id, answer);
            }
            DovecotCommand::Cancel(id) => self.give_up(id),
            DovecotCommand::Silent { id, waited } => {
                if self.heard.elapsed() >= waited {
                    let text = format!("no data for {waited:?}");
                    return Err(LookupError::new(LookupErrorKind::Timeout, text));
                }
                self.give_up(id);
            }
        }
        Ok(())
    }

    fn give_up(&mut self, id: u32) {
        if self.waiting.remove(&id).is_some() || self.open.remove(&id) {
            self.out.extend_from_slice(dovecot::cancel(id).as_bytes());
        }
    }

    fn last_said(&self) -> u32 {
        self.said.as_ref().map_or(0, |said| *said.end())
    }

    /// # Errors
    /// Returns an error for an invalid answer.
    fn handle(&mut self, answers: &mut Answers, input: &[u8]) -> Result<(), LookupError> {
        self.heard = Instant::now();
        let wrong = |text: &str| LookupError::new(LookupErrorKind::Wrong, text);
        answers.handle_input(input).map_err(|why| wrong(why.0))?;
        while let Some(event) = answers.poll_event() {
            let DovecotEvent::Answer(id, answer) = event else { continue };
            let Some(waiter) = self.waiting.remove(&id) else {
                // The request was abandoned, or never sent.
                let was_said = self.said.as_ref().is_some_and(|said| said.contains(&id));
                match was_said && !self.open.contains(&id) {
                    true => continue,
                    false => return Err(wrong("unsolicited reply")),
                }
            };
            if matches!(answer, Answer::Continue(_)) {
                self.open.insert(id);
            }
            // An abandoned login sends its own cancellation.
            let _ = waiter.send(Ok(answer));
        }
        Ok(())
    }

    /// Fails all waiting logins.
    fn close(self, trouble: &LookupError) {
        for waiter in self.waiting.into_values() {
            let _ = waiter.send(Err(trouble.clone()));
        }
    }
}

fn lost(text: &str) -> LookupError {
    LookupError::new(LookupErrorKind::Unreachable, text)
}
