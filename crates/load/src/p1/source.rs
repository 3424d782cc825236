//! `p1-source`: sends messages over P1, as fast as they are acknowledged or at a given rate.

use super::address::OrAddress;
use super::association::{Association, Dial, Sent as Transferred};
use super::message::{ID_BYTES, MessageTemplate, Priority, Sender};
use super::options::PeerOptions;
use crate::ledger::{Fate, Sent};
use crate::listener::ReadBuffer;
use crate::random::Random;
use crate::source::{BodyKind, Conduct, PreparedBody, SourceRun, Span, Ticket, sizes};
use crate::stop::{CommandError, Outcome};
use crate::tls::HandshakeCount;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The waits between tries to bind: from the shortest, doubled, to the longest.
const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_millis(500);
/// A peer has so long to answer a release.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// Send messages over P1 and report rates and latencies.
///
/// Each message has a unique identifier. After a broken association the source binds again and continues with
/// new identifiers; `ledger` finds out whether the doubtful message arrived. Messages are made from templates,
/// without Postrider's code for P1.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Latency is measured from the start of a message (with --rate: from its scheduled time) to its \
acknowledgement (AEA). It includes the time to bind if the message needs a new association.

Exit codes (the ledger is complete with each):
  0  all messages were acknowledged
  1  messages were refused, or their result is unknown
  2  the command line is wrong
  3  no association was possible for --reconnect seconds
  4  stopped by SIGTERM or Ctrl-C")]
pub struct P1SourceOptions {
    #[command(flatten)]
    pub peer: PeerOptions,
    /// Number of messages
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub messages: u64,
    /// Size of the text without heading and envelope, or a range to draw it from (0..10k)
    #[arg(long, visible_alias = "size", value_name = "N", default_value = "1000")]
    pub body_bytes: Span,
    /// Number of messages per association, or a range to draw it from; unlimited without this option
    #[arg(long, visible_alias = "per-session", value_name = "M")]
    pub per_association: Option<Span>,
    /// Originator
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "/S=sender/O=Source/PRMD=Lab/ADMD= /C=GB/"
    )]
    pub from: OrAddress,
    // The placeholder is "{n}", which clap would print as a line break.
    /// Recipient; several are used in turn. The message's number, in ten digits, replaces an n in braces
    #[arg(long, value_name = "ADDRESS", default_value = "/S=user{n}/O=Sink/PRMD=Lab/ADMD= /C=GB/")]
    pub recipient: Vec<OrAddress>,
    /// Send each message to all recipients
    #[arg(long)]
    pub together: bool,
    /// Domain of the originating MTA, in identifiers and trace
    #[arg(long, value_name = "ADDRESS", default_value = "/PRMD=Lab/ADMD= /C=GB/")]
    pub domain: OrAddress,
    /// Priority of all messages
    #[arg(long, value_name = "PRIORITY", default_value = "normal")]
    pub priority: Priority,
    /// Send at this rate in messages per second, however fast the peer is (open loop)
    #[arg(long, value_name = "R")]
    pub rate: Option<f64>,
    /// Seed for texts and random choices
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Write the result of each message to this file
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Write one line per minute to this file, and one for the rest, as postal does
    #[arg(long, value_name = "FILE")]
    pub minutes: Option<PathBuf>,
    /// Maximum time without a successful bind
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub reconnect: u64,
    /// Timeout for a bind, and for an activity
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub timeout: u64,
    /// Time for open activities to end after the first signal
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    pub grace: u64,
    /// Read commands from standard input: `pause`, `resume`
    #[arg(long)]
    pub obey: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// A text, and a template for each choice of recipients.
#[derive(Debug)]
struct Size {
    body: PreparedBody,
    templates: Vec<MessageTemplate>,
}

/// What all sessions of a run share.
#[derive(Debug)]
struct Run {
    dial: Dial,
    sizes: Vec<Size>,
    /// What is drawn.
    random: RefCell<Random>,
    /// Unlike that of any other run: an identifier is never sent twice.
    run_id: String,
    per_association: Option<Span>,
    reconnect: Duration,
    timeout: Duration,
    reading: ReadBuffer,
    next_id: Cell<u64>,
    course: SourceRun,
}

impl P1SourceOptions {
    fn prepare(&self) -> Result<Run, String> {
        if self.body_bytes == Span::of(1) {
            return Err("--body-bytes must not be 1: a body ends with CRLF".to_owned());
        }
        if self.per_association.is_some_and(|span| span.min == 0) {
            return Err("--per-association must be at least 1".to_owned());
        }
        if self.rate.is_some_and(|rate| !rate.is_finite() || rate < 0.001) {
            return Err("--rate must be at least 0.001".to_owned());
        }
        let dial = self.peer.dial()?;
        let sender = Sender {
            mode: self.peer.mode,
            originator: self.from.clone(),
            domain: self.domain.clone(),
            priority: self.priority,
            time: dial.time.clone(),
        };
        let choices: Vec<&[OrAddress]> = match self.together {
            true => vec![self.recipient.as_slice()],
            false => self.recipient.chunks(1).collect(),
        };
        let size = |(bytes, seed)| {
            let body = PreparedBody::generate(BodyKind::Plain, bytes, seed);
            let template =
                |recipients: &&[OrAddress]| MessageTemplate::new(&sender, recipients, &body);
            let templates = choices.iter().map(template).collect();
            Size { body, templates }
        };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Run {
            dial,
            sizes: sizes(self.body_bytes, self.seed).into_iter().map(size).collect(),
            random: RefCell::new(Random::new(self.seed)),
            // The moment and the process, not the seed: see the source of mail.
            run_id: format!("{:x}.{:x}-", since_1970.as_micros(), std::process::id()),
            per_association: self.per_association,
            reconnect: Duration::from_secs(self.reconnect),
            timeout: Duration::from_secs(self.timeout),
            reading: ReadBuffer::default(),
            next_id: Cell::new(0),
            course: SourceRun::new(self.messages, self.rate, self.ledger.as_deref())?,
        })
    }
}

/// The command.
pub fn run(options: &P1SourceOptions) -> Outcome {
    let run = Rc::new(options.prepare().map_err(CommandError::new)?);
    let conduct = Conduct {
        sessions: options.peer.associations,
        grace: Duration::from_secs(options.grace),
        obeys: options.obey,
        minutes: options.minutes.clone(),
    };
    let course = run.course.clone();
    let stopped = course.run(&conduct, || P1SourceSession::new(Rc::clone(&run)).run())?;
    let tally = course.tally.borrow();
    if options.json {
        let size = options.body_bytes.to_string();
        println!("{}", tally.to_json(&run.run_id, &size, &HandshakeCount::default()));
    } else {
        println!("{}", tally.to_table(["connect to the bind's answer", "last octet to AEA"]));
    }
    Ok(course.exit_code(stopped))
}

/// A message between the choice of its identifier and the record of its fate. However the session ends, also by
/// being dropped, the fate is recorded.
struct P1Message<'a> {
    run: &'a Run,
    ticket: Ticket,
    number: u64,
    id: String,
    size: &'a Size,
    template: &'a MessageTemplate,
    /// Content may have gone out.
    begun: bool,
    settled: bool,
}

impl<'a> P1Message<'a> {
    /// `None` without a template.
    fn new(run: &'a Run, ticket: Ticket) -> Option<P1Message<'a>> {
        let number = run.next_id.get();
        run.next_id.set(number + 1);
        let width = ID_BYTES.saturating_sub(run.run_id.len());
        let size = match run.sizes.as_slice() {
            [one] => one,
            several => {
                let drawn = run.random.borrow_mut().below(several.len() as u64);
                several.get(drawn as usize)?
            }
        };
        let template = size.templates.get((number % size.templates.len() as u64) as usize)?;
        let id = format!("{}{number:0width$}", run.run_id);
        Some(P1Message { run, ticket, number, id, size, template, begun: false, settled: false })
    }

    /// Records the fate.
    fn settle(&mut self, fate: Fate) {
        self.settled = true;
        let recipients = match fate {
            Fate::Acked | Fate::Unknown => self.template.recipients(self.number),
            Fate::Refused(_) | Fate::Unsent => String::new(),
        };
        let sent = Sent { id: &self.id, fate, recipients: &recipients };
        let course = &self.run.course;
        course.ledger.borrow_mut().sent(sent);
        let (count, bytes) = (self.template.recipient_count(), self.size.body.raw.len());
        course.tally.borrow_mut().settle(fate, "transfer", count, bytes, self.ticket.intended);
    }
}

impl Drop for P1Message<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.settle(if self.begun { Fate::Unknown } else { Fate::Unsent });
        }
    }
}

/// An association, and how much was sent over it.
struct OpenAssociation {
    association: Association,
    sent: u64,
    sent_max: u64,
}

/// A session: one association after the other.
struct P1SourceSession {
    run: Rc<Run>,
    open: Option<OpenAssociation>,
    head: Vec<u8>,
    /// Since when nothing has succeeded.
    failing_since: Option<Instant>,
    backoff: Duration,
}

impl P1SourceSession {
    fn new(run: Rc<Run>) -> P1SourceSession {
        P1SourceSession {
            run,
            open: None,
            head: Vec::new(),
            failing_since: None,
            backoff: Duration::ZERO,
        }
    }

    /// Sends until there are no tickets left, or no association can be had.
    async fn run(mut self) {
        let run = Rc::clone(&self.run);
        while let Some(ticket) = run.course.pace.next().await {
            if !self.send(&run, ticket).await {
                break;
            }
        }
        self.release(&run).await;
    }

    /// Sends one message. `false`: gave up.
    async fn send(&mut self, run: &Run, ticket: Ticket) -> bool {
        let Some(mut open) = self.connect(run).await else { return false };
        let Some(mut message) = P1Message::new(run, ticket) else { return false };
        open.sent += 1;
        let body = &message.size.body.raw;
        message.template.fill(&message.id, message.number, body, &mut self.head);
        message.begun = true;
        let mut written = None;
        let sending = open.association.send([&self.head, body], &run.reading, &mut written);
        let result = tokio::time::timeout(run.timeout, sending).await;
        match result {
            Ok(Ok(Transferred::Acked)) => {
                let time = written.map_or(Duration::ZERO, |written| written.elapsed());
                run.course.tally.borrow_mut().acceptance.record(time);
                message.settle(Fate::Acked);
                self.open = Some(open);
            }
            Ok(Ok(Transferred::Refused(reason))) => {
                message.settle(Fate::Refused(reason.into()));
                self.open = Some(open);
            }
            Ok(Err(why)) => run.course.tally.borrow_mut().broken(&why),
            Err(_elapsed) => run.course.tally.borrow_mut().broken("timed out"),
        }
        (self.failing_since, self.backoff) = (None, Duration::ZERO);
        if self.open.as_ref().is_some_and(|open| open.sent >= open.sent_max) {
            self.release(run).await;
        }
        true
    }

    /// The open association, or a new one.
    async fn connect(&mut self, run: &Run) -> Option<OpenAssociation> {
        if let Some(open) = self.open.take() {
            return Some(open);
        }
        loop {
            let begun = Instant::now();
            let opening = Association::open(&run.dial, &run.reading);
            let result = tokio::time::timeout(run.timeout, opening).await;
            match result.unwrap_or_else(|_| Err("timed out".to_owned())) {
                Ok(association) => {
                    run.course.tally.borrow_mut().connected(begun.elapsed());
                    let drawn =
                        run.per_association.map(|span| span.draw(&mut run.random.borrow_mut()));
                    return Some(OpenAssociation {
                        association,
                        sent: 0,
                        sent_max: drawn.unwrap_or(u64::MAX),
                    });
                }
                Err(error) => run.course.tally.borrow_mut().connect_failed(error),
            }
            if run.course.pace.stopped() || !self.wait(run).await {
                return None;
            }
        }
    }

    /// Waits before another try; `false` when the time for trying is over.
    async fn wait(&mut self, run: &Run) -> bool {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if since.elapsed() + self.backoff > run.reconnect {
            run.course.tally.borrow_mut().gave_up += 1;
            return false;
        }
        tokio::time::sleep(self.backoff).await;
        self.backoff = (self.backoff * 2).clamp(BACKOFF_MIN, BACKOFF_MAX);
        true
    }

    async fn release(&mut self, run: &Run) {
        if let Some(open) = self.open.take() {
            open.association.release(&run.reading, RELEASE_MAX).await;
        }
    }
}
