//! One session on its connection: feeds the machine, answers what it needs.

use super::Settings;
use super::farewell::{greeting, last_words};
use super::login::Dialogue;
use config::ListenerTls;
use mail::{Mono, Recipient, Refusal, Reply};
use mta::alarm::Alarm;
use mta::answer::{Answer, Later};
use mta::ingress::{Entrance, Intake, Refused, Resolved, Submitted};
use mta::seams::{Net, Stream, World};
use mta::services::SCRATCH_BYTES;
use mta::stopping::Stopping;
use smtp::server::{ContentSink, MailCommand, Need, Progress, ServerSession, Transaction};
use std::cell::RefCell;
use std::future::{Future as _, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// How long a client that still sends is read before its connection is closed on it: a close with
/// input unread may take away the last reply before the client has seen it.
const LINGER: Duration = Duration::from_secs(1);
/// How much of it is read.
const LINGER_BYTES: usize = 1024 * 1024;

/// How long a client may take for its TLS handshake; less where it would have less for a command.
const HANDSHAKE_MAX: Duration = Duration::from_secs(30);

/// How much of what may be commands is handled before their replies are looked at.
const COMMANDS_BYTES: usize = 4 * 1024;
/// Replies that are due are written before more commands are handled: a client that reads none
/// gets no more memory than this and what the replies to `COMMANDS_BYTES` add.
const REPLIES_BYTES: usize = 16 * 1024;

/// Whether anything is said after what is written.
#[derive(Clone, Copy)]
enum Writing {
    More,
    /// The connection is closed next.
    Last,
}

/// One session.
pub(super) struct Session<W: World> {
    pub(super) entrance: Box<Entrance<W>>,
    /// `None` only while it is being encrypted.
    pub(super) stream: Option<<W::Net as Net>::Stream>,
    pub(super) machine: ServerSession,
    alarm: Alarm<W::Time>,
    /// The shard's read buffer.
    scratch: Rc<RefCell<Box<[u8]>>>,
    stopping: Rc<Stopping>,
    /// Input behind a need, kept while the need is answered.
    rest: Vec<u8>,
    /// How much of `rest` the machine has taken.
    rest_from: usize,
    /// Recipients that are not decided, at most [`smtp::server::RECIPIENTS_OPEN_MAX`].
    open: Vec<Open>,
    /// How the client logs in, as far as it has come.
    pub(super) dialogue: Dialogue,
    pub(super) settings: Rc<Settings>,
}

/// A recipient that is not decided.
struct Open {
    number: u32,
    recipient: Recipient,
    decision: Later<'static, Result<Resolved, Refusal>>,
}

/// Content goes into the intake.
struct Sink<'a, W: World>(&'a mut Intake<W>);

impl<W: World> ContentSink for Sink<'_, W> {
    fn push(&mut self, piece: &[u8]) {
        self.0.push(piece);
    }
}

impl<W: World> Session<W> {
    /// Of a client that has just connected.
    pub(super) fn new(
        settings: Rc<Settings>,
        entrance: Box<Entrance<W>>,
        stream: <W::Net as Net>::Stream,
    ) -> Session<W> {
        let server = Arc::clone(settings.server(entrance.session().may_relay()));
        Session {
            machine: ServerSession::new(server, entrance.now()),
            alarm: entrance.alarm(),
            scratch: entrance.scratch(),
            stopping: Rc::clone(entrance.stopping()),
            rest: Vec::new(),
            rest_from: 0,
            open: Vec::new(),
            dialogue: Dialogue::default(),
            settings,
            stream: Some(stream),
            entrance,
        }
    }

    /// Serves the connection to its end.
    pub(super) async fn run(&mut self) {
        let address = self.entrance.session().client().address;
        let mut greeting_delay = self.settings.greeting_delay(address.ip());
        let is_implicit = self.settings.listener.tls == ListenerTls::Implicit;
        if let Err(refusal) = self.admit().await {
            let reply = greeting(&self.host(), refusal);
            self.entrance.turn_away(reply.clone());
            if is_implicit {
                // It would understand a reply only after a handshake, which costs more than it.
                return;
            }
            self.turn_away(reply);
            greeting_delay = Duration::ZERO;
        } else if is_implicit {
            if let Err(refusal) = self.entrance.may_encrypt() {
                return self.entrance.turn_away(greeting(&self.host(), refusal));
            }
            if self.encrypt().await.is_err() {
                return;
            }
            self.machine = ServerSession::encrypted(self.server(), self.entrance.now());
            self.offer_logins().await;
        }
        // An error here is the client's going away; what it had begun is dropped with the session.
        let _ = self.serve(greeting_delay).await;
    }

    /// Whether the session may proceed.
    async fn admit(&mut self) -> Result<(), Refusal> {
        self.entrance.admit().await?;
        match &self.settings.submission {
            Some(submission) => self.entrance.admit_logins(&submission.logins),
            None => Ok(()),
        }
    }

    /// The client hears this instead of a greeting.
    fn turn_away(&mut self, reply: Reply) {
        self.machine = ServerSession::refused(self.server(), reply, self.entrance.now());
    }

    async fn serve(&mut self, greeting_delay: Duration) -> io::Result<()> {
        let stopping = Rc::clone(&self.stopping);
        let notify = &stopping.notify;
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
                Need::Input | Need::Answers => {
                    let reads = matches!(need, Need::Input);
                    self.flush().await?;
                    if self.machine.in_transaction() != busy.is_some() {
                        busy = busy.is_none().then(|| stopping.guard());
                    }
                    if let Err(refusal) = self.entrance.intake().attend().await {
                        return self.lose_content(refusal).await;
                    }
                    if reads && !self.rest.is_empty() {
                        need = self.resume();
                        continue;
                    }
                    match self.wait(reads, notify, stop.as_mut()).await? {
                        Some(need) if reads => need,
                        Some(_) => self.resume(),
                        None => return self.end().await,
                    }
                }
                Need::Login(said) => self.answer_login(said).await,
                Need::Mail(command) => {
                    self.answer_mail(command).await;
                    self.resume()
                }
                Need::Rcpt { number, recipient } => {
                    self.ask_about(number, recipient);
                    self.resume()
                }
                Need::Data { waits_for_354: true, .. } if self.rest_from < self.rest.len() => {
                    self.machine.refuse_early_content(self.entrance.now());
                    self.resume()
                }
                Need::Data { recipients, .. } => {
                    let answer = self.entrance.reserve(recipients).map_err(Reply::from);
                    self.machine.answer_data(self.entrance.now(), answer);
                    self.resume()
                }
                Need::Message(transaction) => {
                    let reply = self.submit(*transaction).await;
                    self.machine.answer_message(self.entrance.now(), reply);
                    self.resume()
                }
                Need::Abandon => {
                    self.entrance.abandon();
                    self.resume()
                }
                Need::StartTls => self.starttls().await?,
                Need::Close => return self.end().await,
            };
        }
    }

    async fn answer_mail(&mut self, command: MailCommand) {
        self.introduce();
        let answer = self.entrance.sender(command.reverse_path, command.size).await;
        self.machine.answer_mail(self.entrance.now(), answer.map_err(Reply::from));
    }

    /// Answers for a recipient, at once or when it is decided: others are asked about meanwhile.
    fn ask_about(&mut self, number: u32, recipient: Recipient) {
        match self.entrance.recipient(&recipient) {
            Answer::Now(decided) => self.answer_rcpt(number, &recipient, decided),
            Answer::Later(decision) => self.open.push(Open { number, recipient, decision }),
        }
    }

    fn answer_rcpt(
        &mut self,
        number: u32,
        recipient: &Recipient,
        decided: Result<Resolved, Refusal>,
    ) {
        let kept = decided.and_then(|resolved| self.entrance.keep(recipient, resolved));
        // What stands for it is the core's to know, for all protocols.
        self.machine.answer_rcpt(self.entrance.now(), number, kept.map_err(Reply::from));
    }

    /// Answers for the recipients that are decided; whether there was one.
    fn poll_open(&mut self, cx: &mut Context<'_>) -> bool {
        let (mut at, before) = (0, self.open.len());
        while let Some(open) = self.open.get_mut(at) {
            match open.decision.as_mut().poll(cx) {
                Poll::Pending => at += 1,
                Poll::Ready(decided) => {
                    let Open { number, recipient, .. } = self.open.remove(at);
                    self.answer_rcpt(number, &recipient, decided);
                }
            }
        }
        self.open.len() < before
    }

    /// Makes the message durable; the reply says whether it is.
    async fn submit(&mut self, transaction: Transaction) -> Reply {
        match self.entrance.submit(transaction.envelope, transaction.facts).await {
            Ok(Submitted::Queued(id)) => {
                let mut text = "Ok: queued as ".to_owned();
                id.push_to(&mut text);
                Reply::new(250, (2, 0, 0), text)
            }
            Ok(Submitted::Discarded) => Reply::new(250, (2, 0, 0), "Ok: discarded"),
            Err(refusal) => Reply::from(refusal),
        }
    }

    /// The content that came so far could not be kept.
    async fn lose_content(&mut self, refusal: Refusal) -> io::Result<()> {
        // 421 may come at any time (RFC 5321 §3.8): better than silence.
        let reply = last_words(&self.host(), refusal);
        reply.write_to(self.machine.output());
        self.account(Refused {
            step: "content",
            sender: None,
            recipient: None,
            login: None,
            reply,
        });
        self.end().await
    }

    /// This server's name.
    fn host(&self) -> String {
        self.settings.server.hostname.clone()
    }

    /// Tells the core what the client calls itself now.
    fn introduce(&mut self) {
        self.entrance.introduce(self.machine.helo(), self.machine.protocol());
    }

    /// Whether the client says anything before it is greeted. A stop ends the wait.
    async fn speaks_within(
        &mut self,
        delay: Duration,
        mut stop: Pin<&mut Notified<'_>>,
    ) -> io::Result<bool> {
        let until = self.entrance.now() + delay;
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
            if self.stopping.until().is_some() || stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(false));
            }
            self.alarm.poll(cx, until).map(|()| Ok(false))
        })
        .await
    }

    /// RFC 5321 §3.1: no mail from whoever does not wait for the greeting.
    fn refuse_early_talker(&mut self) {
        let early = Refusal::permanent((5, 1), "You spoke before you were greeted");
        let reply = greeting(&self.host(), early);
        let told = reply.clone();
        self.account(Refused {
            step: "connect",
            sender: None,
            recipient: None,
            login: None,
            reply: told,
        });
        self.turn_away(reply);
    }

    /// Goes on with the input that was behind the last need.
    pub(super) fn resume(&mut self) -> Need {
        let now = self.entrance.now();
        let input = &self.rest[self.rest_from..];
        let mut sink = Sink(self.entrance.intake());
        let progress = feed(&mut self.machine, &mut sink, now, input);
        self.rest_from += progress.consumed;
        if self.rest_from == self.rest.len() {
            // Idle sessions hold no buffer.
            self.rest = Vec::new();
            self.rest_from = 0;
        }
        progress.need
    }

    /// Waits for input, if it `reads`, and for open recipients to be decided. `None`: the session
    /// ends (timeout or shutdown), its last words are in the output.
    async fn wait<'n>(
        &mut self,
        reads: bool,
        notify: &'n Notify,
        mut stop: Pin<&mut Notified<'n>>,
    ) -> io::Result<Option<Need>> {
        poll_fn(|cx| {
            if self.poll_open(cx) {
                return Poll::Ready(Ok(Some(Need::Input)));
            }
            // Before input: a client that never pauses would be read for ever.
            if self.is_over() {
                self.machine.handle_shutdown();
                return Poll::Ready(Ok(None));
            }
            if reads && let Poll::Ready(done) = self.poll_read(cx) {
                return Poll::Ready(done);
            }
            if self.entrance.intake().is_stalled() {
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
        let mut scratch = self.scratch.borrow_mut();
        let n = match stream.poll_read(cx, &mut scratch[..SCRATCH_BYTES]) {
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Poll::Ready(Ok(n)) => n,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => return Poll::Pending,
        };
        let now = self.entrance.now();
        self.entrance.intake().note_heard(now);
        let mut sink = Sink(self.entrance.intake());
        let progress = feed(&mut self.machine, &mut sink, now, &scratch[..n]);
        if progress.consumed < n {
            self.rest.extend_from_slice(&scratch[progress.consumed..n]);
        }
        Poll::Ready(Ok(Some(progress.need)))
    }

    /// Whether the server stops, and nothing here must be finished first, or no more time is left.
    fn is_over(&self) -> bool {
        self.stopping
            .until()
            .is_some_and(|until| !self.machine.in_transaction() || self.entrance.now() >= until)
    }

    /// Whether the session ends without further input.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Need>>> {
        loop {
            let deadline = self.machine.deadline().min(self.entrance.intake().next_look());
            if self.alarm.poll(cx, deadline).is_pending() {
                return Poll::Pending;
            }
            if self.machine.handle_timeout(self.entrance.now()) {
                return Poll::Ready(Ok(None));
            }
            if self.entrance.intake().is_stalled() {
                return Poll::Ready(Ok(Some(Need::Input)));
            }
        }
    }

    /// Puts what the machine refused into the account.
    pub(super) fn account_refusals(&mut self) {
        for refused in self.machine.take_refusals() {
            let smtp::server::Refused { step, sender, recipient, reply } = refused;
            let login = self.dialogue.take_user();
            self.account(Refused { step, sender, recipient, login, reply });
        }
    }

    fn account(&mut self, refused: Refused) {
        self.introduce();
        self.entrance.account(refused);
    }

    /// Says the last words; to a client that still sends so that it hears them.
    async fn end(&mut self) -> io::Result<()> {
        if !self.machine.was_cut() {
            return self.write_out(Writing::Last).await;
        }
        self.flush().await?;
        let until = self.entrance.now() + LINGER;
        let mut left = LINGER_BYTES;
        poll_fn(|cx| {
            while let Some(stream) = &mut self.stream {
                let mut scratch = self.scratch.borrow_mut();
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

    /// A client that reads no replies is timed out like one that sends nothing.
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

    /// RFC 3207 §4.
    async fn starttls(&mut self) -> io::Result<Need> {
        if let Err(refusal) = self.entrance.may_encrypt() {
            let refusal = Refusal { chosen_code: Some(454), ..refusal };
            self.machine.answer_starttls(self.entrance.now(), Err(refusal.into()));
            return Ok(Need::Input);
        }
        self.machine.answer_starttls(self.entrance.now(), Ok(()));
        self.flush().await?;
        self.encrypt().await?;
        self.machine.handle_tls_started(self.entrance.now());
        // A certificate may have told who the client is.
        self.machine.obey(self.server());
        self.offer_logins().await;
        Ok(Need::Input)
    }

    async fn encrypt(&mut self) -> io::Result<()> {
        // What came in clear behind STARTTLS is not part of the encrypted session (RFC 3207 §4.2).
        self.rest = Vec::new();
        self.rest_from = 0;
        let stream = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
        let until = self.machine.deadline().min(self.entrance.now() + HANDSHAKE_MAX);
        self.stream = Some(self.entrance.encrypt(stream, &mut self.alarm, until).await?);
        Ok(())
    }
}

/// Handles input up to a need, to its end, or until there are replies enough to be written.
fn feed(
    machine: &mut ServerSession,
    sink: &mut dyn ContentSink,
    now: Mono,
    input: &[u8],
) -> Progress {
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
