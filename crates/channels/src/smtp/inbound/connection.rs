//! Reads input and writes replies of a session, and waits for timeouts and shutdown.

use super::session::SmtpSession;
use crate::smtp::HANDSHAKE_MAX;
use mail::Mono;
use mta::ingress::{Intake, Transaction};
use mta::seams::{Stream, World};
use mta::services::SCRATCH_BYTES;
use mta::stopping::Stopping;
use smtp::server::{ContentSink, InputProgress, Need, ServerSession};
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::futures::Notified;

/// Maximum time for which a client that still sends is read before its connection is closed. Closing with unread input
/// may discard the last reply before the client has received it.
const LINGER: Duration = Duration::from_secs(1);
/// Maximum number of octets read in that time.
const LINGER_BYTES: usize = 1024 * 1024;

/// Maximum number of octets of commands handled before their replies are checked.
const COMMANDS_BYTES: usize = 4 * 1024;
/// Pending replies are written before more commands are handled. A client that reads no replies gets no more memory
/// than this and the replies to `COMMANDS_BYTES`.
const REPLIES_BYTES: usize = 16 * 1024;

/// Indicates the last write before the connection is closed.
#[derive(Clone, Copy)]
enum Writing {
    More,
    /// The connection is closed next.
    Last,
}

/// Passes content to the intake of the transaction. Content arrives within transactions only.
struct IntakeSink<'a, W: World>(Option<&'a mut Intake<W>>);

impl<W: World> ContentSink for IntakeSink<'_, W> {
    fn push(&mut self, piece: &[u8]) {
        if let Some(intake) = &mut self.0 {
            intake.push(piece);
        }
    }
}

impl<W: World> SmtpSession<W> {
    /// Returns true if the client sends anything before it is greeted. A stop ends the wait.
    pub(super) async fn speaks_within<'n>(
        &mut self,
        delay: Duration,
        stopping: &'n Stopping,
        mut stop: Pin<&mut Notified<'n>>,
    ) -> io::Result<bool> {
        let until = self.connection.now() + delay;
        poll_fn(|cx| {
            let Some(stream) = &mut self.stream else { return Poll::Ready(Ok(false)) };
            let mut scratch = self.scratch.borrow_mut();
            match stream.poll_read(cx, &mut scratch[..SCRATCH_BYTES]) {
                Poll::Ready(Ok(0)) => {
                    return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
                }
                Poll::Ready(Ok(n)) => {
                    self.rest.extend_from_slice(&scratch[..n]);
                    return Poll::Ready(Ok(true));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
            drop(scratch);
            let is_woken = stopping.poll_woken(stop.as_mut(), cx).is_ready();
            if is_woken || stopping.until().is_some() {
                return Poll::Ready(Ok(false));
            }
            self.alarm.poll(cx, until).map(|()| Ok(false))
        })
        .await
    }

    /// Continues with the input after the previous need.
    pub(super) fn resume(&mut self) -> Need {
        let now = self.connection.now();
        let input = &self.rest[self.rest_from..];
        let mut sink = IntakeSink(self.transaction.as_deref_mut().map(Transaction::intake));
        let progress = feed(&mut self.machine, &mut sink, now, input);
        self.rest_from += progress.consumed;
        if self.rest_from == self.rest.len() {
            // Idle sessions hold no buffer.
            self.drop_rest();
        }
        progress.need
    }

    /// Waits for input, if it `reads`, and for open recipients to be decided. `None`: the session ends (timeout or
    /// shutdown), and its final reply is in the output.
    pub(super) async fn wait<'n>(
        &mut self,
        reads: bool,
        stopping: &'n Stopping,
        mut stop: Pin<&mut Notified<'n>>,
    ) -> io::Result<Option<Need>> {
        poll_fn(|cx| {
            if self.poll_open(cx) {
                return Poll::Ready(Ok(Some(Need::Input)));
            }
            // Before input: a client that sends without pause would otherwise be read without end.
            if self.is_over() {
                self.machine.handle_shutdown();
                return Poll::Ready(Ok(None));
            }
            if self.connection.poll_revoked(cx).is_ready() {
                self.machine.handle_revoked();
                return Poll::Ready(Ok(None));
            }
            if self.connection.poll_displaced(cx).is_ready() {
                self.machine.handle_displaced();
                return Poll::Ready(Ok(None));
            }
            if reads && let Poll::Ready(done) = self.poll_read(cx) {
                return Poll::Ready(done);
            }
            if self.is_stalled() {
                // The content in memory goes to disk.
                return Poll::Ready(Ok(Some(Need::Input)));
            }
            // One registration for the whole session. It is woken when the stop begins, and when the grace period ends.
            if !self.hears_stop || stopping.until().is_some() {
                let _ = stopping.poll_woken(stop.as_mut(), cx);
                self.hears_stop = true;
            }
            self.poll_end(cx)
        })
        .await
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Need>>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let mut scratch = self.scratch.borrow_mut();
        let n = match stream.poll_read(cx, &mut scratch[..SCRATCH_BYTES]) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Poll::Ready(Ok(n)) => n,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        };
        let now = self.connection.now();
        if let Some(intake) = self.transaction.as_deref_mut().map(Transaction::intake) {
            intake.note_heard(now);
        }
        let mut sink = IntakeSink(self.transaction.as_deref_mut().map(Transaction::intake));
        let progress = feed(&mut self.machine, &mut sink, now, &scratch[..n]);
        if progress.consumed < n {
            self.rest.extend_from_slice(&scratch[progress.consumed..n]);
        }
        Poll::Ready(Ok(Some(progress.need)))
    }

    /// Returns true if the server stops and the session has no transaction to finish, or the grace period is over.
    fn is_over(&self) -> bool {
        self.stopping
            .until()
            .is_some_and(|until| !self.machine.in_transaction() || self.connection.now() >= until)
    }

    /// Returns true if the content in memory should go to disk.
    fn is_stalled(&mut self) -> bool {
        self.intake().is_some_and(|intake| intake.is_stalled())
    }

    /// Ready when the session ends without further input, or its content should go to disk.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Need>>> {
        loop {
            let look = self.intake().map_or(Mono::NEVER, |intake| intake.next_look());
            let deadline = self.machine.deadline().min(look);
            if self.alarm.poll(cx, deadline).is_pending() {
                return Poll::Pending;
            }
            if self.machine.handle_timeout(self.connection.now()) {
                return Poll::Ready(Ok(None));
            }
            if self.is_stalled() {
                return Poll::Ready(Ok(Some(Need::Input)));
            }
        }
    }

    /// Writes the final replies. A client that still sends is read for a while, so that it receives them.
    pub(super) async fn end(&mut self) -> io::Result<()> {
        if !self.machine.was_cut() {
            return self.write_out(Writing::Last).await;
        }
        self.flush().await?;
        let until = self.connection.now() + LINGER;
        let mut left = LINGER_BYTES;
        poll_fn(|cx| {
            while let Some(stream) = &mut self.stream {
                let mut scratch = self.scratch.borrow_mut();
                match stream.poll_read(cx, &mut scratch[..SCRATCH_BYTES]) {
                    Poll::Ready(Ok(n)) if n > 0 && n < left => left -= n,
                    Poll::Ready(_) => break,
                    // No further input: closing loses nothing.
                    Poll::Pending if left == LINGER_BYTES => break,
                    Poll::Pending => return self.alarm.poll(cx, until),
                }
            }
            Poll::Ready(())
        })
        .await;
        Ok(())
    }

    /// Writes pending replies.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        self.write_out(Writing::More).await
    }

    async fn write_out(&mut self, writing: Writing) -> io::Result<()> {
        self.account_refusals();
        let mut from = 0;
        while from < self.machine.output().len() {
            from += poll_fn(|cx| self.poll_write(cx, from, writing)).await?;
        }
        self.machine.output().clear();
        Ok(())
    }

    /// Writes with the same timeout as for input, so that a client that reads no replies is timed out.
    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        from: usize,
        writing: Writing,
    ) -> Poll<io::Result<usize>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let bytes = &self.machine.output()[from..];
        let written = match writing {
            Writing::More => stream.poll_write(cx, &[IoSlice::new(bytes)]),
            Writing::Last => stream.poll_write_last(cx, bytes),
        };
        match written {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Pending if self.alarm.poll(cx, self.machine.deadline()).is_ready() => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            other => other,
        }
    }

    /// Drops unhandled input.
    pub(super) fn drop_rest(&mut self) {
        self.rest = Vec::new();
        self.rest_from = 0;
    }

    pub(super) async fn encrypt(&mut self) -> io::Result<()> {
        // Input in clear after STARTTLS is not part of the encrypted session (RFC 3207 §4.2).
        self.drop_rest();
        let stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
        let until = self.machine.deadline().min(self.connection.now() + HANDSHAKE_MAX);
        self.stream = Some(self.connection.encrypt(stream, &mut self.alarm, until).await?);
        Ok(())
    }
}

/// Handles input up to the next need, to its end, or until the replies should be written.
fn feed(
    machine: &mut ServerSession,
    sink: &mut dyn ContentSink,
    now: Mono,
    input: &[u8],
) -> InputProgress {
    let mut consumed = 0;
    loop {
        let rest = &input[consumed..];
        let whole = machine.reads_content();
        let piece = &rest[..if whole { rest.len() } else { rest.len().min(COMMANDS_BYTES) }];
        let mut progress = machine.handle_input(now, piece, sink);
        consumed += progress.consumed;
        progress.consumed = consumed;
        let is_input = matches!(progress.need, Need::Input);
        if !is_input || consumed == input.len() || machine.output().len() >= REPLIES_BYTES {
            return progress;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smtp::server::ServerConfig;
    use std::sync::Arc;

    struct Nowhere;

    impl ContentSink for Nowhere {
        fn push(&mut self, _piece: &[u8]) {}
    }

    #[test]
    fn a_client_that_reads_nothing_has_no_more_commands_handled() {
        let mut machine = ServerSession::new(Arc::new(ServerConfig::default()), Mono(0));
        for (command, reply_max) in [("NOOP\r\n", 40), ("EHLO a\r\n", 400)] {
            machine.output().clear();
            let sent = command.repeat(SCRATCH_BYTES / command.len());
            let (mut rest, mut answered, mut rounds) = (sent.as_bytes(), 0, 0);
            while !rest.is_empty() {
                let progress = feed(&mut machine, &mut Nowhere, Mono(0), rest);
                rest = &rest[progress.consumed..];
                let written = machine.output().len();
                assert!(written >= REPLIES_BYTES || rest.is_empty(), "{written}");
                let most = REPLIES_BYTES + COMMANDS_BYTES / command.len() * reply_max;
                assert!(written < most, "{written} bytes of replies wait");
                // As if the client had read them.
                let text = String::from_utf8_lossy(machine.output());
                answered += text.lines().filter(|line| line.starts_with("250 ")).count();
                machine.output().clear();
                rounds += 1;
            }
            assert_eq!(answered, sent.len() / command.len());
            assert!(rounds > 4, "{command:?}: {rounds}");
        }
    }
}
