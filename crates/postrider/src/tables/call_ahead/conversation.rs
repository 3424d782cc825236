//! Recipient verification with a host: the SMTP client session that also sends mail, on a connection of the tables'
//! thread.

use crate::tables::connections;
use crate::tables::server::{TableStream, has_news};
use crate::tables::text::words;
use crate::world::clock::Start;
use lookup::{LookupError, LookupErrorKind};
use mail::{Failure, Mailbox, Mono, Step};
use smtp::client::{ClientConfig, ClientEvent, ClientSession, Output};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _};

/// Number of rejected recipients after which a connection is closed. A server has little patience with a client that
/// seems to guess: Postfix delays it from its tenth error on, and disconnects at the twentieth
/// (`smtpd_soft_error_limit`, `smtpd_hard_error_limit`).
const REFUSED_MAX: usize = 8;

/// Timeout for the reply to RSET; the answer is known already.
const RESET_MAX: Duration = Duration::from_secs(1);

/// An open connection, and the session on it.
pub(super) struct Conversation {
    /// `None`: it is over.
    wire: Option<Box<dyn TableStream>>,
    session: ClientSession,
    started: Start,
    /// Recipients that were refused on it.
    refused_count: usize,
}

/// The result of opening a session.
pub(super) enum Opening {
    /// Recipients can be verified.
    Ready(Conversation),
    /// The connection needs a TLS handshake now.
    StartTls(Conversation),
}

impl Conversation {
    /// A session before the greeting.
    pub(super) fn new(wire: Box<dyn TableStream>, config: ClientConfig) -> Conversation {
        let started = Start::now();
        let session = ClientSession::new(Arc::new(config), started.elapsed());
        Conversation { wire: Some(wire), session, started, refused_count: 0 }
    }

    /// Proceeds until recipients can be verified, or a TLS handshake is due.
    ///
    /// # Errors
    /// Returns an error if the host refuses us, or is no SMTP server.
    pub(super) async fn open(mut self) -> Result<Opening, Failure> {
        loop {
            match self.next_event().await {
                ClientEvent::Ready => return Ok(Opening::Ready(self)),
                ClientEvent::StartTls => return Ok(Opening::StartTls(self)),
                ClientEvent::Closed(failure) => return Err(failure.unwrap_or_else(over)),
                // No transaction was begun, and these hosts need no login.
                ClientEvent::Done { .. }
                | ClientEvent::Login
                | ClientEvent::Challenge(_)
                | ClientEvent::LoggedIn => {}
            }
        }
    }

    /// Performs the TLS handshake, and continues.
    ///
    /// # Errors
    /// Returns the handshake's error.
    pub(super) async fn encrypt<F>(
        mut self,
        encrypt: impl FnOnce(Box<dyn TableStream>) -> F,
    ) -> io::Result<Conversation>
    where
        F: Future<Output = io::Result<Box<dyn TableStream>>>,
    {
        let Some(wire) = self.wire.take() else { return Err(io::ErrorKind::NotConnected.into()) };
        self.wire = Some(encrypt(wire).await?);
        self.session.handle_tls_started(self.now());
        Ok(self)
    }

    /// Returns true if the host accepts this recipient.
    ///
    /// # Errors
    /// Returns an error if the replies do not decide that.
    pub(super) async fn ask(
        &mut self,
        sender: Option<Mailbox>,
        recipient: Mailbox,
    ) -> Result<bool, connections::RequestError> {
        if self.is_gone().await {
            let text = "closed the connection, or sent unsolicited data";
            return Err(connections::RequestError::Gone(LookupError::new(
                LookupErrorKind::Unreachable,
                text,
            )));
        }
        self.session.probe(self.now(), sender, recipient);
        let (outcome, is_answered) = self.outcome().await;
        let is_over = !self.is_ready_again().await;
        match outcome {
            Ok(()) => Ok(true),
            Err(failure) if is_of_recipient(&failure) => {
                self.refused_count += 1;
                if self.refused_count == REFUSED_MAX {
                    self.hang_up();
                }
                Ok(false)
            }
            Err(failure) => {
                let trouble = trouble_of(&failure);
                Err(match is_over {
                    true if !is_answered => connections::RequestError::Gone(trouble),
                    true => connections::RequestError::Broken(trouble),
                    false => connections::RequestError::Answered(trouble),
                })
            }
        }
    }

    /// Returns true if the session is over.
    async fn is_gone(&mut self) -> bool {
        match &mut self.wire {
            Some(wire) => has_news(wire).await,
            None => true,
        }
    }

    /// The result of the transaction, and true if the host replied.
    async fn outcome(&mut self) -> (Result<(), Failure>, bool) {
        loop {
            match self.next_event().await {
                ClientEvent::Done { mut outcomes, answered, .. } => {
                    let outcome = outcomes.pop().unwrap_or_else(|| Err(over()));
                    return (outcome.map(drop), answered);
                }
                ClientEvent::Closed(failure) => {
                    return (Err(failure.unwrap_or_else(over)), false);
                }
                ClientEvent::Ready
                | ClientEvent::StartTls
                | ClientEvent::Login
                | ClientEvent::Challenge(_)
                | ClientEvent::LoggedIn => {}
            }
        }
    }

    /// Waits until the next recipient can be verified; closes the connection after a timeout.
    async fn is_ready_again(&mut self) -> bool {
        let event = tokio::time::timeout(RESET_MAX, self.next_event()).await;
        let is_ready = matches!(event, Ok(ClientEvent::Ready));
        if !is_ready {
            self.hang_up();
        }
        is_ready
    }

    /// Writes and reads until the session has an event.
    async fn next_event(&mut self) -> ClientEvent {
        loop {
            if let Some(event) = self.session.poll_event() {
                return event;
            }
            let patience = self.session.deadline().since(self.now());
            match tokio::time::timeout(patience, self.exchange()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => self.session.handle_broken(self.now(), &error.to_string()),
                Err(_) => self.session.handle_timeout(self.now()),
            }
        }
    }

    /// Writes pending commands, or reads the host's replies.
    async fn exchange(&mut self) -> io::Result<()> {
        let commands = self.commands();
        let Some(wire) = &mut self.wire else { return Err(io::ErrorKind::NotConnected.into()) };
        if !commands.is_empty() {
            wire.write_all(&commands).await?;
            wire.flush().await?;
            self.session.handle_written(self.now());
            return Ok(());
        }
        let mut bytes = [0; 2048];
        let count = wire.read(&mut bytes).await?;
        let now = self.now();
        match bytes.get(..count) {
            Some(said) if count > 0 => self.session.handle_input(now, said),
            _ => self.session.handle_broken(now, "the peer closed the connection"),
        }
        Ok(())
    }

    /// Pending output.
    fn commands(&mut self) -> Vec<u8> {
        let mut plan = Vec::new();
        self.session.poll_output(&mut plan);
        let buffer = self.session.buffer();
        let bytes = |piece: &Output| match *piece {
            Output::Bytes { start, end } => buffer.get(start..end).unwrap_or_default(),
            // No question has any.
            Output::Content | Output::ContentStuffed => &[],
        };
        plan.iter().flat_map(bytes).copied().collect()
    }

    /// Sends QUIT if allowed (RFC 5321 §4.1.1.10), and closes the connection without waiting. Output that the socket
    /// does not accept at once is lost.
    fn hang_up(&mut self) {
        self.session.quit(self.now());
        let commands = self.commands();
        let Some(mut wire) = self.wire.take() else { return };
        let mut cx = Context::from_waker(Waker::noop());
        if !commands.is_empty() && Pin::new(&mut wire).poll_write(&mut cx, &commands).is_ready() {
            let _ = Pin::new(&mut wire).poll_flush(&mut cx);
        }
        let _ = Pin::new(&mut wire).poll_shutdown(&mut cx);
    }

    fn now(&self) -> Mono {
        self.started.elapsed()
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.hang_up();
    }
}

/// Returns true if a failure rejects this recipient permanently. RFC 5321 §4.2.1: x5z is about the mail system; other
/// codes are about syntax, connections and so on, unless the enhanced status is about the address (RFC 3463 §3.2,
/// §3.3).
fn is_of_recipient(failure: &Failure) -> bool {
    failure.step == Some(Step::RcptTo)
        && failure.reply.as_ref().is_some_and(|reply| {
            let is_of_address = reply.enhanced.is_some_and(|e| matches!(e.subject, 1 | 2));
            reply.code / 100 == 5 && (reply.code / 10 == 55 || is_of_address)
        })
}

/// The kind of a failure that does not decide, which determines its effect on other lookups.
fn trouble_of(failure: &Failure) -> LookupError {
    let code = failure.reply.as_ref().map(|reply| reply.code);
    let kind = match (failure.step, code) {
        // The host may answer for other recipients.
        (Some(Step::RcptTo), Some(code)) if code != 421 => LookupErrorKind::Key,
        // RFC 6531 §3.6: it has no name that this host understands.
        _ if failure.status.subject == 6 => LookupErrorKind::Key,
        // RFC 3463 §3.5: the connection.
        (_, None) if failure.status.subject == 4 => LookupErrorKind::Unreachable,
        _ => LookupErrorKind::Wrong,
    };
    LookupError::new(kind, words(failure.to_string().as_bytes()))
}

/// A session that ended without a reason.
fn over() -> Failure {
    let status = mail::EnhancedStatus::new(4, 4, 2);
    Failure::local(mail::Class::Transient, status, "the session is over")
}
