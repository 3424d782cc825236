//! One session on its connection: feeds the machine, answers what it needs.

use super::Ingress;
use super::accept::{self, Accepted};
use super::intake::{Attention, Intake};
use super::policy::{self, ClientCount};
use super::refusals;
use super::rules::ListenerRules;
use crate::alarm::Alarm;
use crate::budget::Share;
use crate::clients::Rate;
use crate::event::Client;
use crate::seams::{Net, Stream, Time, World};
use crate::services::SCRATCH_BYTES;
use bytes::Bytes;
use mail::{Envelope, MessageId, Mono, Recipient, Refusal, Reply};
use smtp::server::{Need, Progress, Refused, ServerSession, Transaction};
use spool::{BlobId, Completion};
use std::future::{Future as _, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// How long content waits for body memory before it goes to disk.
const BUDGET_WAIT: Duration = Duration::from_secs(1);
/// How often it looks meanwhile.
const BUDGET_LOOK: Duration = Duration::from_millis(20);

/// Recipients draw on the budget of bodies in steps of this; the first step is free, like a small
/// body.
const ENVELOPE_STEP_BYTES: u64 = 16 * 1024;
/// Content that holds memory others want goes to disk when nothing more of it came for this long.
const HOLDER_IDLE_MAX: Duration = Duration::from_secs(5);
/// How long a client that still sends is read before its connection is closed on it: a close with
/// input unread may take away the last reply before the client has seen it.
const LINGER: Duration = Duration::from_secs(1);
/// How much of it is read.
const LINGER_BYTES: usize = 1024 * 1024;

/// How much of what may be commands is handled before their replies are looked at.
const COMMANDS_BYTES: usize = 4 * 1024;
/// Replies that are due are written before more commands are handled: a client that reads none
/// gets no more memory than this and what the replies to `COMMANDS_BYTES` add.
const REPLIES_BYTES: usize = 16 * 1024;

/// Serves one connection to its end.
pub(super) async fn run<W: World>(
    ingress: Rc<Ingress<W>>,
    stream: <W::Net as Net>::Stream,
    peer: SocketAddr,
    listener: usize,
    rules: Rc<ListenerRules>,
) {
    let now = ingress.services.now();
    let mut count = ClientCount::enter(&ingress, &rules, listener, peer.ip());
    let server = Arc::clone(rules.server(peer.ip()));
    let mut greeting_delay = rules.greeting_delay(peer.ip());
    let machine = match policy::admit(&ingress, &rules, &count) {
        Ok(()) => ServerSession::new(server, now),
        Err(refusal) => {
            count.turn_away();
            let reply = last_words(&server.hostname, refusal);
            ingress.services.metrics.sessions_refused.inc();
            let client = || Arc::new(client_of(peer, &rules, "", ""));
            policy::account(&ingress, client, at_connect(reply.clone()));
            greeting_delay = Duration::ZERO;
            ServerSession::refused(server, reply, now)
        }
    };
    let session = Session {
        alarm: Alarm::new(ingress.services.world.time().clone()),
        intake: Intake::new(
            &ingress.services.shared.body_memory,
            ingress.router.active().config.spool.blob_bytes,
        ),
        slots: Share::none(&ingress.services.shared.queue_slots),
        envelope: Share::none(&ingress.services.shared.body_memory),
        envelope_bytes: 0,
        heard_at: now,
        blob_owner: None,
        rest: Vec::new(),
        rest_from: 0,
        peer,
        count,
        rules,
        machine,
        stream: Some(stream),
        ingress: Rc::clone(&ingress),
    };
    ingress.services.metrics.sessions.inc();
    ingress.services.metrics.sessions_open.inc();
    // An error here is the client's going away; what it had begun is dropped with the session.
    let _ = session.serve(greeting_delay).await;
    ingress.services.metrics.sessions_open.dec();
    ingress.count_end();
}

fn at_connect(reply: Reply) -> Refused {
    Refused { step: "connect", sender: None, recipient: None, reply }
}

/// The reply that ends a session. RFC 5321 §4.2.2: the text of 421 begins with the host's name.
fn last_words(host: &str, refusal: Refusal) -> Reply {
    let reply = Reply::from(refusal.closing());
    Reply { text: format!("{host} {}", reply.text).into(), ..reply }
}

/// The client as events name it.
pub(super) fn client_of(
    peer: SocketAddr,
    rules: &ListenerRules,
    helo: &str,
    protocol: &'static str,
) -> Client {
    Client { address: peer, helo: Arc::from(helo), listener: Arc::clone(&rules.name), protocol }
}

struct Session<W: World> {
    ingress: Rc<Ingress<W>>,
    /// `None` only while it is being encrypted.
    stream: Option<<W::Net as Net>::Stream>,
    machine: ServerSession,
    alarm: Alarm<W::Time>,
    intake: Intake,
    /// Queue slots reserved for the transaction's recipients.
    slots: Share,
    /// What the recipients draw of body memory.
    envelope: Share,
    /// About what they take.
    envelope_bytes: u64,
    /// When the last input came.
    heard_at: Mono,
    /// The id that the message under way will have, once a blob was begun for it.
    blob_owner: Option<MessageId>,
    /// Input behind a need, kept while the need is answered.
    rest: Vec<u8>,
    /// How much of `rest` the machine has taken.
    rest_from: usize,
    peer: SocketAddr,
    count: ClientCount<W>,
    rules: Rc<ListenerRules>,
}

impl<W: World> Session<W> {
    async fn serve(mut self, greeting_delay: Duration) -> io::Result<()> {
        let ingress = Rc::clone(&self.ingress);
        let notify = &ingress.services.stopping.notify;
        let mut stop = std::pin::pin!(notify.notified());
        if !greeting_delay.is_zero() && self.speaks_within(greeting_delay, stop.as_mut()).await? {
            self.refuse_early_talker();
        }
        // Held from MAIL to the final reply is written: a stop waits for that.
        let mut busy = None;
        // A session that was turned away needs nothing of the client: it says so at once.
        let mut need = self.resume();
        loop {
            need = match need {
                Need::Input => {
                    self.flush().await?;
                    if self.machine.in_transaction() != busy.is_some() {
                        busy = busy.is_none().then(|| ingress.services.stopping.guard());
                    }
                    if self.attend().await.is_err() {
                        // 421 may come at any time (RFC 5321 §3.8): better than silence.
                        let host = &self.ingress.router.active().config.hostname;
                        let reply = last_words(host.as_str(), self.no_place());
                        reply.write_to(self.machine.output());
                        self.account(Refused {
                            step: "content",
                            sender: None,
                            recipient: None,
                            reply,
                        });
                        return self.end().await;
                    }
                    if !self.rest.is_empty() {
                        need = self.resume();
                        continue;
                    }
                    match self.read(notify, stop.as_mut()).await? {
                        Some(need) => need,
                        None => return self.end().await,
                    }
                }
                Need::Mail(_) => {
                    let answer = policy::decide_mail(&self.ingress, &self.rules, &self.count);
                    let answer = answer.map_err(Reply::from);
                    self.machine.answer_mail(self.ingress.services.now(), answer);
                    self.resume()
                }
                Need::Rcpt { number, recipient } => {
                    let answer =
                        policy::decide_rcpt(&self.ingress, &self.rules, &self.count, &recipient)
                            .and_then(|()| self.hold_recipient(&recipient))
                            .map(|()| smtp::server::Accepted::AsGiven)
                            .map_err(Reply::from);
                    self.machine.answer_rcpt(self.ingress.services.now(), number, answer);
                    self.resume()
                }
                Need::Data { waits_for_354: true, .. } if self.rest_from < self.rest.len() => {
                    self.machine.refuse_early_content(self.ingress.services.now());
                    self.resume()
                }
                Need::Data { recipients, .. } => {
                    let answer = self.reserve(recipients).map_err(Reply::from);
                    self.machine.answer_data(self.ingress.services.now(), answer);
                    self.resume()
                }
                Need::Message(transaction) => {
                    let reply = self.accept(*transaction).await;
                    self.machine.answer_message(self.ingress.services.now(), reply);
                    self.resume()
                }
                Need::Abandon => {
                    self.abandon();
                    self.resume()
                }
                Need::StartTls => {
                    self.flush().await?;
                    self.encrypt().await?;
                    Need::Input
                }
                // Each recipient is answered at once: none is open.
                Need::Close | Need::Answers => return self.end().await,
            };
        }
    }

    /// Whether the client says anything before it is greeted. A stop ends the wait.
    async fn speaks_within(
        &mut self,
        delay: Duration,
        mut stop: Pin<&mut Notified<'_>>,
    ) -> io::Result<bool> {
        let until = self.ingress.services.now() + delay;
        poll_fn(|cx| {
            let Some(stream) = &mut self.stream else { return Poll::Ready(Ok(false)) };
            let mut scratch = self.ingress.services.scratch.borrow_mut();
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
            if self.ingress.services.stopping.until().is_some() || stop.as_mut().poll(cx).is_ready()
            {
                return Poll::Ready(Ok(false));
            }
            self.alarm.poll(cx, until).map(|()| Ok(false))
        })
        .await
    }

    /// RFC 5321 §3.1: no mail from whoever does not wait for the greeting.
    fn refuse_early_talker(&mut self) {
        let host = &self.ingress.router.active().config.hostname;
        let text = format!("{host} You spoke before you were greeted");
        let reply = Reply::new(554, (5, 5, 1), text);
        self.account(at_connect(reply.clone()));
        let server = Arc::clone(self.rules.server(self.peer.ip()));
        self.machine = ServerSession::refused(server, reply, self.ingress.services.now());
    }

    /// Goes on with the input that was behind the last need.
    fn resume(&mut self) -> Need {
        let now = self.ingress.services.now();
        let input = &self.rest[self.rest_from..];
        let progress = feed(&mut self.machine, &mut self.intake, now, input);
        self.rest_from += progress.consumed;
        if self.rest_from == self.rest.len() {
            // Idle sessions hold no buffer.
            self.rest = Vec::new();
            self.rest_from = 0;
        }
        progress.need
    }

    /// Waits for input. `None`: the session ends (timeout or shutdown), its last words are in the
    /// output.
    async fn read<'n>(
        &mut self,
        notify: &'n Notify,
        mut stop: Pin<&mut Notified<'n>>,
    ) -> io::Result<Option<Need>> {
        poll_fn(|cx| {
            // First: a client that never pauses would be read for ever.
            if self.is_over() {
                self.machine.handle_shutdown();
                return Poll::Ready(Ok(None));
            }
            if let Poll::Ready(done) = self.poll_read(cx) {
                return Poll::Ready(done);
            }
            if self.is_stalled_holder() {
                // What it holds goes to disk.
                return Poll::Ready(Ok(Some(Need::Input)));
            }
            // One registration serves the whole session; it wakes when the stop begins, and once
            // more when the grace is over.
            if stop.as_mut().poll(cx).is_ready() {
                stop.set(notify.notified());
                let _ = stop.as_mut().poll(cx);
            }
            self.poll_end(cx)
        })
        .await
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Need>>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let mut scratch = self.ingress.services.scratch.borrow_mut();
        let n = match stream.poll_read(cx, &mut scratch[..SCRATCH_BYTES]) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Poll::Ready(Ok(n)) => n,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        };
        let now = self.ingress.services.now();
        self.heard_at = now;
        let progress = feed(&mut self.machine, &mut self.intake, now, &scratch[..n]);
        if progress.consumed < n {
            self.rest.extend_from_slice(&scratch[progress.consumed..n]);
        }
        Poll::Ready(Ok(Some(progress.need)))
    }

    /// Whether the server stops, and nothing here must be finished first, or no more time is left.
    fn is_over(&self) -> bool {
        self.ingress.services.stopping.until().is_some_and(|until| {
            !self.machine.in_transaction() || self.ingress.services.now() >= until
        })
    }

    /// Whether the session ends without further input.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Need>>> {
        loop {
            let mut deadline = self.machine.deadline();
            if self.intake.holds_budget() {
                deadline = deadline.min(self.look_at_stall());
            }
            if self.alarm.poll(cx, deadline).is_pending() {
                return Poll::Pending;
            }
            if self.machine.handle_timeout(self.ingress.services.now()) {
                return Poll::Ready(Ok(None));
            }
            if self.is_stalled_holder() {
                return Poll::Ready(Ok(Some(Need::Input)));
            }
        }
    }

    /// Whether content that came holds memory, nothing more of it comes, and memory is short.
    fn is_stalled_holder(&self) -> bool {
        let memory = &self.ingress.services.shared.body_memory;
        self.intake.holds_budget()
            && self.ingress.services.now() >= self.heard_at + HOLDER_IDLE_MAX
            && memory.used() > memory.max() / 2
    }

    /// When that is worth another look.
    fn look_at_stall(&self) -> Mono {
        let first = self.heard_at + HOLDER_IDLE_MAX;
        let now = self.ingress.services.now();
        if now < first { first } else { now + HOLDER_IDLE_MAX }
    }

    /// Puts what the machine refused into the account.
    fn account_refusals(&mut self) {
        for refused in self.machine.take_refusals() {
            self.account(refused);
        }
    }

    fn account(&self, refused: Refused) {
        let (helo, protocol) = (self.machine.helo(), self.machine.protocol());
        let client = || Arc::new(client_of(self.peer, &self.rules, helo, protocol));
        policy::account(&self.ingress, client, refused);
        // Beyond the limit there is nothing more to count: it is looked at where it is too late.
        let _ = self.count.charge(&self.rules, Rate::Refusals);
    }

    /// Says the last words; to a client that still sends so that it hears them.
    async fn end(&mut self) -> io::Result<()> {
        self.flush().await?;
        if !self.machine.was_cut() {
            return Ok(());
        }
        let until = self.ingress.services.now() + LINGER;
        let mut left = LINGER_BYTES;
        poll_fn(|cx| {
            while let Some(stream) = &mut self.stream {
                let mut scratch = self.ingress.services.scratch.borrow_mut();
                match stream.poll_read(cx, &mut scratch[..SCRATCH_BYTES]) {
                    Poll::Ready(Ok(n)) if n > 0 && n < left => left -= n,
                    Poll::Ready(_) => break,
                    // Nothing came so far: nothing is lost by closing.
                    Poll::Pending if left == LINGER_BYTES => break,
                    Poll::Pending => return self.alarm.poll(cx, until),
                }
            }
            Poll::Ready(())
        })
        .await;
        Ok(())
    }

    /// Writes the replies that piled up.
    async fn flush(&mut self) -> io::Result<()> {
        self.account_refusals();
        let mut from = 0;
        while from < self.machine.output().len() {
            from += poll_fn(|cx| self.poll_write(cx, from)).await?;
        }
        self.machine.output().clear();
        Ok(())
    }

    /// A client that reads no replies is timed out like one that sends nothing.
    fn poll_write(&mut self, cx: &mut Context<'_>, from: usize) -> Poll<io::Result<usize>> {
        let Some(stream) = &mut self.stream else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        let written = stream.poll_write(cx, &[IoSlice::new(&self.machine.output()[from..])]);
        match written {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Pending if self.alarm.poll(cx, self.machine.deadline()).is_ready() => {
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            other => other,
        }
    }

    async fn encrypt(&mut self) -> io::Result<()> {
        // What came in clear behind STARTTLS is not part of the encrypted session.
        self.rest = Vec::new();
        self.rest_from = 0;
        let stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
        self.stream = Some(stream.upgrade_server().await?);
        self.machine.handle_tls_started(self.ingress.services.now());
        Ok(())
    }

    /// Makes room in the queue before content is asked for, so that what is committed always fits.
    fn reserve(&mut self, recipients: usize) -> Result<(), Refusal> {
        if self.ingress.custody.is_poisoned() {
            return Err(refusals::CANNOT_WRITE);
        }
        if self.slots.try_grow(recipients as u64) {
            return Ok(());
        }
        self.ingress.services.metrics.queue_full.inc();
        Err(refusals::QUEUE_FULL)
    }

    /// Takes memory for a recipient.
    fn hold_recipient(&mut self, recipient: &Recipient) -> Result<(), Refusal> {
        let text =
            recipient.mailbox.as_str().len() + recipient.orcpt.as_ref().map_or(0, |o| o.len());
        // The record, its texts, and its entry in the index.
        self.envelope_bytes += (size_of::<Recipient>() + text + 64) as u64;
        if self.envelope_bytes <= self.envelope.amount() + ENVELOPE_STEP_BYTES
            || self.envelope.try_grow(ENVELOPE_STEP_BYTES)
        {
            return Ok(());
        }
        Err(refusals::NO_MEMORY)
    }

    /// Before more is read: covers what the content holds, or sends it to disk.
    async fn attend(&mut self) -> io::Result<()> {
        if self.is_stalled_holder() {
            self.ingress.services.metrics.spilled.inc();
            self.spill(true).await?;
        }
        loop {
            match self.intake.attention() {
                Attention::None => return Ok(()),
                Attention::Spill => self.spill(false).await?,
                Attention::Budget if self.intake.draw() => {}
                Attention::Budget => {
                    self.ingress.services.metrics.content_waits.inc();
                    let until = self.ingress.services.now() + BUDGET_WAIT;
                    while !self.intake.draw() {
                        if self.ingress.services.now() >= until {
                            self.ingress.services.metrics.spilled.inc();
                            self.spill(false).await?;
                            break;
                        }
                        self.alarm_wait(BUDGET_LOOK).await;
                    }
                }
            }
        }
    }

    async fn alarm_wait(&mut self, time: Duration) {
        let at = self.ingress.services.now() + time;
        self.ingress.services.world.time().sleep_until(at).await;
    }

    /// Writes what has gathered to the blob; at the end (`all`) also the last piece.
    async fn spill(&mut self, all: bool) -> io::Result<()> {
        let owner = self.blob_owner.or_else(|| self.ingress.custody.allocate_id());
        let Some(id) = owner else { return Err(io::Error::other("no message ids are left")) };
        self.blob_owner = Some(id);
        let blob = match self.intake.blob() {
            Some(blob) => blob,
            None => {
                let blob = self.ingress.custody.allocate_blob(id);
                self.intake.start_blob(blob);
                blob
            }
        };
        for data in self.intake.take_pieces(all) {
            self.append(id, blob, data).await?;
        }
        self.intake.handle_spilled();
        Ok(())
    }

    async fn append(&self, id: MessageId, blob: BlobId, data: Bytes) -> io::Result<()> {
        match self.ingress.custody.append_blob(id, blob, data).await {
            Completion::BlobDone => Ok(()),
            other => Err(io::Error::other(format!("cannot write a blob: {other:?}"))),
        }
    }

    /// Counts content that cannot be written to disk; what is said of it.
    fn no_place(&self) -> Refusal {
        self.ingress.services.metrics.commit_refused.inc();
        refusals::no_place(self.ingress.custody.is_poisoned())
    }

    /// Ends the transaction with a refusal of its content.
    fn refuse_content(&mut self, envelope: &Envelope, refusal: Refusal) -> Reply {
        self.abandon();
        let reply = Reply::from(refusal);
        self.account(policy::content_refused(envelope, reply.clone()));
        reply
    }

    /// Makes the message durable; the reply says whether it is.
    async fn accept(&mut self, transaction: Transaction) -> Reply {
        let ingress = Rc::clone(&self.ingress);
        // All of it may have come in one read, which no guard was held for.
        let _busy = ingress.services.stopping.guard();
        let client =
            Arc::new(client_of(self.peer, &self.rules, &transaction.helo, transaction.protocol));
        if self.intake.hops() > self.rules.hops_max {
            return self.refuse_content(&transaction.envelope, refusals::LOOP);
        }
        if self.intake.blob().is_some() && self.spill(true).await.is_err() {
            let refusal = self.no_place();
            return self.refuse_content(&transaction.envelope, refusal);
        }
        let Some(id) = self.blob_owner.take().or_else(|| ingress.custody.allocate_id()) else {
            let refusal = self.no_place();
            return self.refuse_content(&transaction.envelope, refusal);
        };
        let message = Accepted {
            id,
            blob: self.intake.take_blob(),
            body: self.intake.take_body(),
            transaction,
            client,
            stranger: !self.count.may_relay,
        };
        let slots =
            std::mem::replace(&mut self.slots, Share::none(&ingress.services.shared.queue_slots));
        let reply = accept::commit(&ingress, message, slots).await;
        let _ = self.intake.reset();
        self.let_envelope_go();
        reply
    }

    fn let_envelope_go(&mut self) {
        self.envelope_bytes = 0;
        self.envelope.clear();
    }

    /// The transaction ended without a message.
    fn abandon(&mut self) {
        self.slots.clear();
        self.let_envelope_go();
        if let (Some(blob), Some(id)) = (self.intake.reset(), self.blob_owner.take()) {
            self.ingress.custody.drop_blob(id, blob);
        }
    }
}

/// Handles input up to a need, to its end, or until there are replies enough to be written.
fn feed(machine: &mut ServerSession, intake: &mut Intake, now: Mono, input: &[u8]) -> Progress {
    let mut consumed = 0;
    loop {
        let rest = &input[consumed..];
        let whole = machine.reads_content();
        let piece = &rest[..if whole { rest.len() } else { rest.len().min(COMMANDS_BYTES) }];
        let mut progress = machine.handle_input(now, piece, intake);
        consumed += progress.consumed;
        progress.consumed = consumed;
        let is_input = matches!(progress.need, Need::Input);
        if !is_input || consumed == input.len() || machine.output().len() >= REPLIES_BYTES {
            return progress;
        }
    }
}

impl<W: World> Drop for Session<W> {
    fn drop(&mut self) {
        self.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use smtp::server::ServerConfig;

    #[test]
    fn a_client_that_reads_nothing_has_no_more_commands_handled() {
        let mut machine = ServerSession::new(Arc::new(ServerConfig::default()), Mono(0));
        let mut intake = Intake::new(&Budget::new(0), 1);
        for (command, reply_max) in [("NOOP\r\n", 40), ("EHLO a\r\n", 400)] {
            machine.output().clear();
            let sent = command.repeat(SCRATCH_BYTES / command.len());
            let (mut rest, mut answered, mut rounds) = (sent.as_bytes(), 0, 0);
            while !rest.is_empty() {
                let progress = feed(&mut machine, &mut intake, Mono(0), rest);
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
