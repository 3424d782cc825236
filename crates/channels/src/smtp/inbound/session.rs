//! One SMTP session on its connection: feeds the state machine and answers its requests.

use super::login::SaslExchange;
use super::{Can, Settings, greeting, last_words};
use config::ListenerTls;
use mail::{DeliverBy, Mailbox, Recipient, Refusal, Reply, Wall};
use mta::alarm::Alarm;
use mta::answer::{Answer, Later};
use mta::event::{SessionEnd, SessionEndReason};
use mta::ingress::{
    Connection, Intake, RefusalRecord, Resolved, Sender, Submission, Submitted, Transaction,
};
use mta::seams::{LoginTerms, Net, World};
use mta::steering::Steering;
use mta::stopping::Stopping;
use smtp::server::{CommandCounts, MailCommand, Need, ServerSession};
use smtp::wishes::{ByParameter, DeliveryOptions, Hold};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Never used: the machine has these needs within transactions only.
const NO_TRANSACTION: Refusal = Refusal::permanent((5, 1), "No transaction is open").with_code(503);

/// An SMTP session.
pub(super) struct SmtpSession<W: World> {
    /// The transaction, from MAIL to the final reply.
    pub(super) transaction: Option<Box<Transaction<W>>>,
    pub(super) connection: Connection<W>,
    /// `None` only during the TLS handshake.
    pub(super) stream: Option<<W::Net as Net>::Stream>,
    pub(super) machine: ServerSession,
    pub(super) alarm: Alarm<W::Time>,
    /// The shard's read buffer.
    pub(super) scratch: Rc<RefCell<Box<[u8]>>>,
    pub(super) stopping: Rc<Stopping>,
    /// The session is registered to be woken by a stop.
    pub(super) hears_stop: bool,
    /// Input after a need, kept while the need is answered.
    pub(super) rest: Vec<u8>,
    /// Octets of `rest` that the machine has consumed.
    pub(super) rest_from: usize,
    /// Undecided recipients, at most [`smtp::server::RECIPIENTS_OPEN_MAX`].
    open: Vec<PendingRecipient>,
    /// State of the client's login.
    pub(super) dialogue: SaslExchange,
    pub(super) settings: Rc<Settings>,
}

/// An undecided recipient.
struct PendingRecipient {
    number: u32,
    recipient: Recipient,
    decision: Later<'static, Result<Resolved, Refusal>>,
}

impl<W: World> SmtpSession<W> {
    /// A session with a newly connected client.
    pub(super) fn new(
        settings: Rc<Settings>,
        connection: Connection<W>,
        stream: <W::Net as Net>::Stream,
    ) -> SmtpSession<W> {
        // REQUIRETLS is not offered in clear.
        let can = Can { encrypt: connection.can_encrypt(), require_tls: true };
        let server = settings.server(connection.session().may_relay(), can, connection.wall());
        SmtpSession {
            machine: ServerSession::new(server, connection.now()),
            alarm: connection.alarm(),
            scratch: connection.scratch(),
            stopping: Rc::clone(connection.stopping()),
            hears_stop: false,
            rest: Vec::new(),
            rest_from: 0,
            open: Vec::new(),
            dialogue: SaslExchange::default(),
            settings,
            stream: Some(stream),
            transaction: None,
            connection,
        }
    }

    /// Serves the connection to its end.
    pub(super) async fn run(&mut self) {
        let address = self.connection.session().client().address;
        let mut greeting_delay = self.settings.greeting_delay(address.ip());
        let is_implicit = self.settings.listener.tls == ListenerTls::Implicit;
        let admitted = match self.settings.local {
            Some(_) => Box::pin(self.admit_local_user()).await,
            None => self.admit().await,
        };
        if let Err(refusal) = admitted {
            let reply = greeting(&self.host(), refusal);
            self.connection.turn_away(reply.clone());
            if is_implicit {
                // The client could read a reply only after a handshake, which costs more than the reply.
                return;
            }
            self.turn_away(reply);
            greeting_delay = Duration::ZERO;
        } else if is_implicit {
            if let Err(refusal) = self.connection.may_encrypt() {
                return self.connection.turn_away(greeting(&self.host(), refusal));
            }
            if Box::pin(self.encrypt()).await.is_err() {
                return;
            }
            self.machine = ServerSession::encrypted(self.server(), self.connection.now());
            Box::pin(self.offer_logins()).await;
        }
        // An error here means that the client closed the connection. An open transaction is dropped with the session.
        if !self.connection.is_session_logged() {
            let _ = self.serve(greeting_delay).await;
            return;
        }
        self.machine.count_commands();
        self.connection.log_session(None);
        let served = self.serve(greeting_delay).await;
        self.introduce();
        if served.is_err() {
            self.machine.handle_lost();
        }
        let counts = self.machine.command_counts();
        self.connection.log_session(counts.map(|counts| session_end(counts, served.is_err())));
    }

    /// Destination of content while a transaction is open.
    pub(super) fn intake(&mut self) -> Option<&mut Intake<W>> {
        self.transaction.as_deref_mut().map(Transaction::intake)
    }

    /// Called before further input is read: waits for memory, or writes content to disk.
    async fn attend(&mut self) -> Result<(), Refusal> {
        match self.intake() {
            Some(intake) => intake.attend().await,
            None => Ok(()),
        }
    }

    /// Returns an error if the session must not proceed.
    pub(super) async fn admit(&mut self) -> Result<(), Refusal> {
        self.connection.admit().await?;
        self.connection.give_way();
        match &self.settings.submission {
            Some(submission) => self.connection.admit_logins(&submission.logins),
            None => Ok(()),
        }
    }

    /// The same for a client of a Unix socket. Its user is known before the greeting.
    async fn admit_local_user(&mut self) -> Result<(), Refusal> {
        if let Some(stream) = &self.stream {
            self.connection.log_in_by_socket(stream).await?;
        }
        self.admit().await?;
        self.machine = ServerSession::new(self.server(), self.connection.now());
        Ok(())
    }

    /// The reverse-path that counts: users of this machine may not give any.
    fn sender(&self, named: Option<Mailbox>) -> Result<Option<Mailbox>, Refusal> {
        let Some(local) = &self.settings.local else { return Ok(named) };
        let client = self.connection.session().client();
        local.sender(client.login.as_deref().unwrap_or_default(), named)
    }

    /// Sends the client this reply instead of a greeting.
    pub(super) fn turn_away(&mut self, reply: Reply) {
        self.machine = ServerSession::refused(self.server(), reply, self.connection.now());
    }

    async fn serve(&mut self, greeting_delay: Duration) -> io::Result<()> {
        let stopping = Rc::clone(&self.stopping);
        let mut stop = std::pin::pin!(stopping.listen());
        if !greeting_delay.is_zero()
            && self.speaks_within(greeting_delay, &stopping, stop.as_mut()).await?
        {
            self.refuse_early_talker();
        }
        self.offer_xclient();
        // Held from MAIL until the final reply is written, so that a stop waits for it.
        let mut busy = None;
        // A refused session needs no input from the client: its reply is written at once.
        let mut need = self.resume();
        loop {
            need = match need {
                Need::Input | Need::Answers => {
                    let reads = matches!(need, Need::Input);
                    self.flush().await?;
                    if self.machine.in_transaction() != busy.is_some() {
                        busy = busy.is_none().then(|| stopping.guard());
                        self.connection.note_busy(busy.is_some());
                    }
                    if let Err(refusal) = self.attend().await {
                        return self.lose_content(refusal).await;
                    }
                    if reads && !self.rest.is_empty() {
                        need = self.resume();
                        continue;
                    }
                    match self.wait(reads, &stopping, stop.as_mut()).await? {
                        Some(need) if reads => need,
                        Some(_) => self.resume(),
                        None => return self.end().await,
                    }
                }
                // Needs of few sessions have a separate allocation, which other sessions do not pay for.
                Need::Login(said) => Box::pin(self.answer_login(said)).await,
                Need::Xclient(said) => Box::pin(self.answer_xclient(*said)).await,
                Need::Mail(command) => {
                    self.answer_mail(command).await;
                    self.resume()
                }
                Need::Rcpt { number, recipient } => {
                    self.ask_about(number, recipient);
                    self.resume()
                }
                Need::DataRefused => {
                    if self.has_more() {
                        self.machine.end_early_content();
                    }
                    self.resume()
                }
                Need::Data { recipients, waits_for_354 } => {
                    self.answer_data(recipients, waits_for_354).await;
                    self.resume()
                }
                Need::Message(transaction) => {
                    let reply = self.submit(*transaction).await;
                    self.machine.answer_message(self.connection.now(), reply);
                    self.resume()
                }
                Need::Abandon => {
                    self.transaction = None;
                    self.resume()
                }
                Need::StartTls => Box::pin(self.starttls()).await?,
                Need::Close => return self.end().await,
            };
        }
    }

    /// Returns true if unhandled input follows the command that is answered now.
    fn has_more(&self) -> bool {
        self.rest_from < self.rest.len()
    }

    async fn answer_data(&mut self, recipients: usize, waits_for_354: bool) {
        if waits_for_354 && self.has_more() {
            return self.machine.refuse_early_content(self.connection.now());
        }
        let answer = match &mut self.transaction {
            Some(transaction) => {
                transaction.note_repeated(self.machine.repeated());
                transaction.reserve(recipients).await
            }
            None => Err(NO_TRANSACTION),
        };
        self.machine.answer_data(self.connection.now(), answer.map_err(Reply::from));
    }

    async fn answer_mail(&mut self, command: MailCommand) {
        if self.connection.is_outdated()
            && let Err(refusal) = Box::pin(self.renew()).await
        {
            return self.machine.answer_mail(self.connection.now(), Err(refusal.into()));
        }
        self.introduce();
        let MailCommand { reverse_path: path, size, require_tls: requires_tls, .. } = command;
        let path = match self.sender(path) {
            Ok(path) => path,
            Err(refusal) => {
                return self.machine.answer_mail(self.connection.now(), Err(refusal.into()));
            }
        };
        let begun = self.connection.begin(Sender { path, size, requires_tls }).await;
        let answer = begun.map(|transaction| self.transaction = Some(transaction));
        self.machine.answer_mail(self.connection.now(), answer.map_err(Reply::from));
    }

    /// Answers for a recipient, at once or when the decision arrives. Further recipients are looked up in parallel.
    fn ask_about(&mut self, number: u32, recipient: Recipient) {
        let decision = match &self.transaction {
            Some(transaction) => transaction.recipient(&recipient),
            None => Answer::Now(Err(NO_TRANSACTION)),
        };
        match decision {
            Answer::Now(decided) => self.answer_rcpt(number, &recipient, decided),
            Answer::Later(decision) => {
                self.open.push(PendingRecipient { number, recipient, decision })
            }
        }
    }

    fn answer_rcpt(
        &mut self,
        number: u32,
        recipient: &Recipient,
        decided: Result<Resolved, Refusal>,
    ) {
        let kept = decided.and_then(|resolved| match &mut self.transaction {
            Some(transaction) => transaction.keep(recipient, resolved),
            None => Err(NO_TRANSACTION),
        });
        // Aliases are expanded by the core, for all protocols.
        self.machine.answer_rcpt(self.connection.now(), number, kept.map_err(Reply::from));
    }

    /// Answers decided recipients. Returns true if there was any.
    pub(super) fn poll_open(&mut self, cx: &mut Context<'_>) -> bool {
        let (mut at, before) = (0, self.open.len());
        while let Some(open) = self.open.get_mut(at) {
            match open.decision.as_mut().poll(cx) {
                Poll::Pending => at += 1,
                Poll::Ready(decided) => {
                    let PendingRecipient { number, recipient, .. } = self.open.remove(at);
                    self.answer_rcpt(number, &recipient, decided);
                }
            }
        }
        self.open.len() < before
    }

    /// Makes the message durable. The reply reports success or failure.
    async fn submit(&mut self, complete: smtp::server::Transaction) -> Reply {
        let smtp::server::Transaction {
            mut envelope,
            facts,
            require_tls: requires_tls,
            wishes,
            // Known from the session.
            protocol: _,
            helo: _,
        } = complete;
        envelope.reverse_path = match self.sender(envelope.reverse_path.take()) {
            Ok(path) => path,
            Err(refusal) => return Reply::from(refusal),
        };
        let steering = steering_of(wishes, self.connection.wall());
        let Some(transaction) = &mut self.transaction else { return Reply::from(NO_TRANSACTION) };
        let submission = Submission { requires_tls, steering, ..Submission::new(envelope, facts) };
        let submitted = transaction.submit(submission).await;
        self.transaction = None;
        match submitted {
            Ok(Submitted::Queued(id)) => {
                let mut text = "Ok: queued as ".to_owned();
                id.push_to(&mut text);
                Reply::new(250, (2, 0, 0), text)
            }
            Ok(Submitted::Discarded) => Reply::new(250, (2, 0, 0), "Ok: discarded"),
            Err(refusal) => Reply::from(refusal),
        }
    }

    /// The content received so far can't be stored.
    async fn lose_content(&mut self, refusal: Refusal) -> io::Result<()> {
        // 421 is permitted at any time (RFC 5321 §3.8), and better than no reply.
        let reply = last_words(&self.host(), refusal);
        reply.write_to(self.machine.output());
        self.account(RefusalRecord {
            step: "content",
            sender: None,
            recipient: None,
            login: None,
            mechanism: None,
            reply,
        });
        self.end().await
    }

    /// This server's name.
    pub(super) fn host(&self) -> String {
        self.settings.server.hostname().to_owned()
    }

    /// Passes the client's current HELO name and protocol to the core.
    fn introduce(&mut self) {
        self.connection.introduce(self.machine.helo(), self.machine.protocol());
    }

    /// RFC 5321 §3.1: clients that do not wait for the greeting may not send mail.
    fn refuse_early_talker(&mut self) {
        let early = Refusal::permanent((5, 1), "Protocol error: command before greeting");
        let reply = greeting(&self.host(), early);
        let told = reply.clone();
        self.account(RefusalRecord {
            step: "connect",
            sender: None,
            recipient: None,
            login: None,
            mechanism: None,
            reply: told,
        });
        self.connection.note_early_talker();
        self.turn_away(reply);
    }

    /// Reports the machine's refusals to the core.
    pub(super) fn account_refusals(&mut self) {
        if !self.machine.has_refusals() {
            return;
        }
        for refused in self.machine.take_refusals() {
            let smtp::server::Refused { step, sender, recipient, reply } = refused;
            let login = self.dialogue.take_user();
            let mechanism = self.dialogue.mechanism().filter(|_| step == "AUTH");
            self.account(RefusalRecord { step, sender, recipient, login, mechanism, reply });
        }
    }

    fn account(&mut self, refused: RefusalRecord) {
        self.introduce();
        self.connection.account(refused);
    }

    /// RFC 3207 §4.
    async fn starttls(&mut self) -> io::Result<Need> {
        if let Err(refusal) = self.connection.may_encrypt() {
            // Input after STARTTLS was meant for an encrypted session, or inserted by an attacker (RFC 3207 §6). This
            // session must not handle it either.
            self.drop_rest();
            let refusal = Refusal { chosen_code: Some(454), ..refusal };
            self.machine.answer_starttls(self.connection.now(), Err(refusal.into()));
            return Ok(Need::Input);
        }
        self.machine.answer_starttls(self.connection.now(), Ok(()));
        self.flush().await?;
        self.encrypt().await?;
        self.machine.handle_tls_started(self.connection.now());
        // A certificate may have identified the client.
        self.machine.obey(self.server());
        self.offer_logins().await;
        Ok(Need::Input)
    }
}

/// Converts delivery options of MAIL to times of day.
fn steering_of(wishes: DeliveryOptions, now: Wall) -> Steering {
    let hold = wishes.hold.map(|hold| match hold {
        Hold::For(time) => now.after(time),
        Hold::Until(at) => at,
    });
    let deliver_by = wishes.deliver_by.map(|ByParameter { seconds, mode, is_traced }| {
        let at = Wall(now.0.saturating_add_signed(seconds.saturating_mul(1_000)));
        DeliverBy { at, mode, is_traced }
    });
    Steering {
        priority: wishes.priority,
        not_before: hold.filter(|at| *at > now),
        deliver_by,
        ..Steering::default()
    }
}

impl<W: World> SmtpSession<W> {
    /// Continues with the settings in force for this listener and client.
    ///
    /// # Errors
    /// The client is no longer admitted.
    pub(super) async fn renew(&mut self) -> Result<(), Refusal> {
        // A listener with another protocol now counts as another listener.
        if let Ok(settings) = self.connection.follow()?.into_any().downcast::<Settings>() {
            self.settings = settings;
        }
        let submission = self.settings.submission.clone();
        let terms = match &submission {
            Some(submission) => self.terms(submission),
            None => LoginTerms {
                remote: self.connection.session().client().address,
                local: None,
                patience: Duration::ZERO,
                is_known: true,
            },
        };
        let logins = submission.as_ref().map(|submission| &submission.logins);
        self.connection.renew(self.stream.as_ref(), logins, terms).await?;
        self.machine.obey(self.server());
        if !self.is_believed() {
            self.machine.doubt();
        }
        Ok(())
    }
}

/// The end of a session, for logs. `is_lost`: the client closed the connection.
fn session_end(counts: &CommandCounts, is_lost: bool) -> SessionEnd {
    let why = match counts {
        counts if counts.has_timed_out() => SessionEndReason::Timeout,
        counts if counts.had_too_many_errors() => SessionEndReason::TooManyErrors,
        counts if is_lost && !counts.has_quit() => SessionEndReason::Lost,
        _ => SessionEndReason::Closed,
    };
    SessionEnd { why, after: counts.last(), commands: counts.to_string().into() }
}
