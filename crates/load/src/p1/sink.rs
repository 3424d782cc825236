//! `p1-sink`: answers associations, takes messages and writes down what came.

mod fault;

pub use fault::{P1Drop, P1Phase, P1Refuse};

use super::apdu::{Apdu, Arrived, apdu, unwrap};
use super::bind::{Mode, Who};
use super::options::Selector;
use super::responder::{Event, Responder, Rules};
use super::tpkt::TPDU_BYTES_PREFERRED_MAX;
use crate::ledger::{ArrivalState, LedgerWriter};
use crate::listener::{ReadBuffer, listen, resolve};
use crate::outcome::{CommandError, Outcome};
use crate::progress::Progress;
use crate::random::Random;
use crate::stats::{rate, value_table};
use crate::stop::Stop;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::LocalSet;

/// Between two looks at the ledger's unwritten lines and at idleness.
const TICK: Duration = Duration::from_millis(20);
/// When all is there, peers have so long to release their associations.
const FAREWELL_MAX: Duration = Duration::from_millis(500);
/// Different reasons for which associations end that are kept apart.
const REASONS_MAX: usize = 100;

/// Answers associations of P1, in whichever mode they come, counts messages and throws them away.
///
/// With --ledger, each message's identifier and the recipients that this end is responsible for are written before
/// it is acknowledged. Faults are drawn from the seed: for each message (or association), each --refuse and --drop
/// in turn. A peer that asks for the turn gets it; none is ever asked for.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Prints `listening on ADDRESS` when it is ready. Ends at --expect, --idle-exit, SIGTERM or Ctrl-C, \
and prints totals.

Exit code: 0 normally; 1 fewer than --expect messages came; 2 the command line is wrong, or the \
address or the ledger can't be used.")]
pub struct P1SinkOptions {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: String,
    /// End after so many messages
    #[arg(long, value_name = "N")]
    pub expect: Option<u64>,
    /// Stay so long after the expected messages came, to see whether more come
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub linger: u64,
    /// End when no message came for so long
    #[arg(long, value_name = "SECONDS")]
    pub idle_exit: Option<u64>,
    /// Write identifier and recipient of each message
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Wait so long before each answer
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub delay: u64,
    /// Take only calls to this transport selector
    #[arg(long, value_name = "SELECTOR")]
    pub t_selector: Option<Selector>,
    /// The name to answer with
    #[arg(long, value_name = "NAME", default_value = "sink")]
    pub name: String,
    /// The password to answer with
    #[arg(long, value_name = "PASSWORD", default_value = "secret")]
    pub password: String,
    /// Take only peers of this name
    #[arg(long, value_name = "NAME")]
    pub their_name: Option<String>,
    /// Take only peers with this password
    #[arg(long, value_name = "PASSWORD")]
    pub their_password: Option<String>,
    /// Answer with checkpoints each so many times 1,024 octets, or fewer if fewer are proposed; 0: as is proposed
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=65_535))]
    pub checkpoint_kib: u32,
    /// Answer with TPDUs of so many octets, or fewer if fewer are proposed
    #[arg(long, value_name = "N", default_value_t = TPDU_BYTES_PREFERRED_MAX, value_parser = clap::value_parser!(u32).range(128..=65_408))]
    pub tpdu: u32,
    /// Refuse so many of a thousand; PHASE: bind (REASON is MTABindError's, 0 busy), checkpoint or end (REASON is an
    /// exception's, 1 temporarily unable)
    #[arg(long, value_name = "PERMILLE:REASON:PHASE")]
    pub refuse: Vec<P1Refuse>,
    /// Break so many of a thousand associations; PHASE: connect, bind, start, content (in the middle of it), checkpoint,
    /// end (instead of its acknowledgement)
    #[arg(long, value_name = "PERMILLE:PHASE")]
    pub drop: Vec<P1Drop>,
    /// For --refuse and --drop
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print the totals as JSON
    #[arg(long)]
    pub json: bool,
}

/// What all sessions share.
#[derive(Debug)]
struct Sink {
    rules: Rules,
    delay: Duration,
    refusals: Vec<P1Refuse>,
    drops: Vec<P1Drop>,
    random: RefCell<Random>,
    ledger: RefCell<LedgerWriter>,
    reading: ReadBuffer,
    expect: u64,
    complete: Notify,
    totals: Totals,
}

/// What was counted.
#[derive(Debug)]
struct Totals {
    connections: Cell<u64>,
    /// Of them, now.
    open: Cell<u64>,
    /// Binds that were accepted, by mode.
    binds: RefCell<BTreeMap<Mode, u64>>,
    messages: Cell<u64>,
    recipients: Cell<u64>,
    bytes: Cell<u64>,
    checkpoints: Cell<u64>,
    reports: Cell<u64>,
    probes: Cell<u64>,
    unreadable: Cell<u64>,
    unidentified: Cell<u64>,
    damaged: Cell<u64>,
    refused: Cell<u64>,
    dropped: Cell<u64>,
    /// Why associations ended that were not released.
    ended: RefCell<BTreeMap<String, u64>>,
    first: Cell<Option<Instant>>,
    last: Cell<Instant>,
}

fn add(cell: &Cell<u64>, count: u64) {
    cell.set(cell.get() + count);
}

impl Totals {
    fn new() -> Totals {
        Totals {
            connections: Cell::new(0),
            open: Cell::new(0),
            binds: RefCell::default(),
            messages: Cell::new(0),
            recipients: Cell::new(0),
            bytes: Cell::new(0),
            checkpoints: Cell::new(0),
            reports: Cell::new(0),
            probes: Cell::new(0),
            unreadable: Cell::new(0),
            unidentified: Cell::new(0),
            damaged: Cell::new(0),
            refused: Cell::new(0),
            dropped: Cell::new(0),
            ended: RefCell::default(),
            first: Cell::new(None),
            last: Cell::new(Instant::now()),
        }
    }

    fn rows(&self) -> Vec<(&'static str, u64)> {
        [
            ("messages", &self.messages),
            ("recipients", &self.recipients),
            ("content_bytes", &self.bytes),
            ("connections", &self.connections),
            ("checkpoints", &self.checkpoints),
            ("reports", &self.reports),
            ("probes", &self.probes),
            ("unreadable", &self.unreadable),
            ("unidentified", &self.unidentified),
            ("damaged", &self.damaged),
            ("refused", &self.refused),
            ("dropped", &self.dropped),
        ]
        .map(|(name, cell)| (name, cell.get()))
        .to_vec()
    }

    fn note_end(&self, why: String) {
        let mut ended = self.ended.borrow_mut();
        if ended.len() < REASONS_MAX || ended.contains_key(&why) {
            *ended.entry(why).or_default() += 1;
        }
    }
}

impl Sink {
    fn new(options: &P1SinkOptions) -> std::io::Result<Sink> {
        Ok(Sink {
            rules: Rules {
                t_selector: options.t_selector.as_ref().map(|selector| selector.0.clone()),
                who: Who { name: options.name.clone(), password: options.password.clone() },
                their_name: options.their_name.clone(),
                their_password: options.their_password.clone(),
                checkpoint_kib: options.checkpoint_kib,
                tpdu_bytes: options.tpdu,
            },
            delay: Duration::from_millis(options.delay),
            refusals: options.refuse.clone(),
            drops: options.drop.clone(),
            random: RefCell::new(Random::new(options.seed)),
            ledger: RefCell::new(LedgerWriter::create(options.ledger.as_deref())?),
            reading: ReadBuffer::default(),
            expect: options.expect.unwrap_or(u64::MAX),
            complete: Notify::new(),
            totals: Totals::new(),
        })
    }

    /// The reason to refuse with at `phase`, if it is to be refused.
    fn refusal(&self, phase: P1Phase) -> Option<u8> {
        let mut random = self.random.borrow_mut();
        let mut of_phase = self.refusals.iter().filter(|refuse| refuse.phase == phase);
        let found = of_phase.find(|refuse| random.permille(refuse.permille))?;
        add(&self.totals.refused, 1);
        Some(found.reason)
    }

    /// Whether to break the connection at `phase`.
    fn drops(&self, phase: P1Phase) -> bool {
        let mut random = self.random.borrow_mut();
        let mut of_phase = self.drops.iter().filter(|drop| drop.phase == phase);
        let found = of_phase.any(|drop| random.permille(drop.permille));
        add(&self.totals.dropped, u64::from(found));
        found
    }

    fn is_complete(&self) -> bool {
        self.totals.messages.get() >= self.expect
    }

    /// Counts what came and writes it down. It is acknowledged only after this.
    fn record(&self, stream: &[u8], mode: Mode) {
        let (now, totals) = (Instant::now(), &self.totals);
        let arrived = match unwrap(stream, mode).and_then(apdu) {
            Ok(Apdu::Message(arrived)) => arrived,
            Ok(Apdu::Report) => return add(&totals.reports, 1),
            Ok(Apdu::Probe) => return add(&totals.probes, 1),
            Err(why) => {
                eprintln!("postrider-lab: {why}");
                return add(&totals.unreadable, 1);
            }
        };
        totals.last.set(now);
        if totals.first.get().is_none() {
            totals.first.set(Some(now));
        }
        let Arrived { id, recipients, content_bytes, state } = arrived;
        add(&totals.messages, 1);
        add(&totals.bytes, content_bytes as u64);
        add(&totals.recipients, recipients.len() as u64);
        add(&totals.unidentified, u64::from(id.is_none()));
        add(&totals.damaged, u64::from(state == ArrivalState::Damaged));
        let mut ledger = self.ledger.borrow_mut();
        for recipient in recipients {
            ledger.arrived(id.as_deref().unwrap_or("-").as_bytes(), recipient.as_bytes(), state);
        }
    }

    fn print(&self, json: bool) {
        let totals = &self.totals;
        let first = totals.first.get();
        let time = first.map_or(Duration::ZERO, |first| totals.last.get() - first);
        // From the first message to the last: one less than all came in that time.
        let per_second = rate(totals.messages.get().saturating_sub(1), time);
        let (binds, ended) = (totals.binds.borrow(), totals.ended.borrow());
        if json {
            let binds: BTreeMap<&str, u64> =
                binds.iter().map(|(mode, count)| (mode.name(), *count)).collect();
            let mut value = json!({
                "seconds": time.as_secs_f64(), "messages_per_second": per_second,
                "binds": binds, "associations_ended": *ended,
            });
            for (name, count) in totals.rows() {
                value[name] = count.into();
            }
            println!("{value}");
            return;
        }
        let mut rows = vec![
            ("messages/s".to_owned(), format!("{per_second:.0}")),
            ("seconds".to_owned(), format!("{:.2}", time.as_secs_f64())),
        ];
        let counts = totals.rows();
        rows.extend(counts.iter().map(|(name, n)| (name.replace('_', " "), n.to_string())));
        rows.extend(
            binds.iter().map(|(mode, n)| (format!("binds, {}", mode.name()), n.to_string())),
        );
        rows.extend(ended.iter().map(|(why, n)| (format!("ended: {why}"), n.to_string())));
        println!("{}", value_table(&rows));
    }
}

/// The command.
pub fn run(options: &P1SinkOptions) -> Outcome {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| CommandError::new(format!("{what}: {error}"))
    };
    let sink = Rc::new(Sink::new(options).map_err(failed("ledger"))?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed("runtime"))?;
    let tasks = LocalSet::new();
    let served = tasks.block_on(&runtime, serve(Rc::clone(&sink), options));
    drop(tasks);
    served.map_err(failed(&options.listen))?;
    sink.ledger.borrow_mut().flush().map_err(failed("ledger"))?;
    sink.print(options.json);
    let short = options.expect.is_some_and(|expect| sink.totals.messages.get() < expect);
    Ok(if short { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Accepts and receives until it is time to end.
async fn serve(sink: Rc<Sink>, options: &P1SinkOptions) -> std::io::Result<()> {
    let mut stop = Stop::listen()?;
    let listener = listen(resolve(&options.listen)?)?;
    println!("listening on {}", listener.local_addr()?);
    // A test may wait for this line through a pipe.
    std::io::stdout().flush()?;
    let followed = Rc::clone(&sink);
    let progress = Progress::new("received", options.expect);
    tokio::task::spawn_local(progress.follow(move || followed.totals.messages.get()));
    tokio::task::spawn_local(accept(listener, Rc::clone(&sink)));
    let complete = async {
        sink.complete.notified().await;
        tokio::time::sleep(Duration::from_secs(options.linger)).await;
        let begun = Instant::now();
        while sink.totals.open.get() > 0 && begun.elapsed() < FAREWELL_MAX {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let idle = options.idle_exit.map(Duration::from_secs);
    tokio::select! {
        biased;
        () = stop.wait() => Ok(()),
        () = complete => Ok(()),
        result = watch(&sink, idle) => result,
    }
}

/// Writes the ledger's lines now and then; ends after `idle` without a message.
async fn watch(sink: &Sink, idle: Option<Duration>) -> std::io::Result<()> {
    loop {
        tokio::time::sleep(TICK).await;
        sink.ledger.borrow_mut().flush()?;
        if idle.is_some_and(|idle| sink.totals.last.get().elapsed() >= idle) {
            return Ok(());
        }
    }
}

async fn accept(listener: TcpListener, sink: Rc<Sink>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                add(&sink.totals.connections, 1);
                if !sink.drops(P1Phase::Connect) {
                    let sink = Rc::clone(&sink);
                    tokio::task::spawn_local(async move {
                        let open = &sink.totals.open;
                        open.set(open.get() + 1);
                        serve_one(stream, &sink).await;
                        open.set(open.get() - 1);
                    });
                }
            }
            Err(error) => {
                // Too many open files, most likely: some will be closed.
                eprintln!("postrider-lab: accept: {error}");
                tokio::time::sleep(TICK).await;
            }
        }
    }
}

/// What to do after input was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Read,
    /// Write the answers, then close.
    Close,
    /// Close at once.
    Break,
}

/// Serves one association to its end. An error of the network ends it like the peer's closing does.
async fn serve_one(mut stream: TcpStream, sink: &Sink) {
    let mut responder = Responder::new();
    let mut next = Next::Read;
    while next != Next::Break {
        let output = responder.output();
        if !output.is_empty() {
            if !sink.delay.is_zero() {
                tokio::time::sleep(sink.delay).await;
            }
            if stream.write_all(output).await.is_err() {
                return;
            }
            output.clear();
            // Only now: the last acknowledgement must be out before the sink ends.
            if sink.is_complete() {
                sink.complete.notify_one();
            }
        }
        if next == Next::Close {
            return;
        }
        match sink.reading.read(&mut stream, |input| take(sink, &mut responder, input)).await {
            Ok(after) => next = after,
            Err(error) => return sink.totals.note_end(error.to_string()),
        }
    }
    // A break is a reset, not a polite end.
    let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
}

/// Takes all of the input.
fn take(sink: &Sink, responder: &mut Responder, mut input: &[u8]) -> Next {
    if input.is_empty() {
        return Next::Close;
    }
    loop {
        let (used, event) = responder.advance(&sink.rules, input);
        input = input.get(used..).unwrap_or_default();
        let phase = match event {
            Event::Input => return Next::Read,
            Event::Close(why) => {
                why.into_iter().for_each(|why| sink.totals.note_end(why));
                return Next::Close;
            }
            Event::Release | Event::Discard => continue,
            Event::Bind => P1Phase::Bind,
            Event::Start => P1Phase::Start,
            Event::Content => P1Phase::Content,
            Event::Checkpoint => P1Phase::Checkpoint,
            Event::End => P1Phase::End,
        };
        if sink.drops(phase) {
            return Next::Break;
        }
        if let Some(reason) = sink.refusal(phase) {
            responder.refuse(reason);
            if phase == P1Phase::Bind {
                return Next::Close;
            }
            continue;
        }
        let mode = responder.mode().unwrap_or_default();
        match phase {
            P1Phase::Bind => *sink.totals.binds.borrow_mut().entry(mode).or_default() += 1,
            P1Phase::Checkpoint => add(&sink.totals.checkpoints, 1),
            P1Phase::End => sink.record(responder.stream(), mode),
            P1Phase::Connect | P1Phase::Start | P1Phase::Content => {}
        }
        responder.accept(&sink.rules);
    }
}
