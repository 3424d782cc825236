//! `p1-sink`: answers associations, takes messages and writes down what came.

mod fault;

pub use fault::{P1Drop, P1Phase, P1Refuse};

use super::apdu::{Apdu, Arrived, apdu, unwrap};
use super::bind::{Mode, MtaCredentials};
use super::options::Selector;
use super::responder::{Responder, ResponderEvent, ResponderPolicy};
use super::tpkt::TPDU_BYTES_PREFERRED_MAX;
use crate::listener::ReadBuffer;
use crate::random::Random;
use crate::stop::Outcome;
use crate::tool::{Arrivals, EndCondition, add, failed, receive};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// Different reasons for which associations end that are kept apart.
const REASONS_MAX: usize = 100;

/// Receive messages over P1 in any mode, count and discard them.
///
/// With --ledger, a message's identifier and the recipients under this MTA's responsibility are written before the
/// acknowledgement. Faults are drawn from the seed: for each message or association, every --refuse and --drop in
/// turn. The sink grants the turn to a peer that requests it, and never requests it itself.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Prints `listening on ADDRESS` when it is ready. Exits at --expect, --idle-exit, SIGTERM or Ctrl-C, \
and prints totals.

Exit codes:
  0  done
  1  fewer than --expect messages arrived
  2  the command line is wrong, or the address or the ledger cannot be used")]
pub struct P1SinkOptions {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: String,
    /// Exit after this number of messages
    #[arg(long, value_name = "N")]
    pub expect: Option<u64>,
    /// Time to wait for more messages after the expected ones
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub linger: u64,
    /// Exit after this time without a message
    #[arg(long, value_name = "SECONDS")]
    pub idle_exit: Option<u64>,
    /// Write identifier and recipient of each message to this file
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Delay of each answer
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub delay: u64,
    /// Accept only calls to this transport selector
    #[arg(long, value_name = "SELECTOR")]
    pub t_selector: Option<Selector>,
    /// MTA name in the answer to a bind
    #[arg(long, value_name = "NAME", default_value = "sink")]
    pub name: String,
    /// Password in the answer to a bind
    #[arg(long, value_name = "PASSWORD", default_value = "secret")]
    pub password: String,
    /// Accept only peers with this name
    #[arg(long, value_name = "NAME")]
    pub their_name: Option<String>,
    /// Accept only peers with this password
    #[arg(long, value_name = "PASSWORD")]
    pub their_password: Option<String>,
    /// Maximum checkpoint size in units of 1,024 octets; 0: as the peer proposes
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=65_535))]
    pub checkpoint_kib: u32,
    /// Maximum TPDU size in octets; the answer is the smaller of this and the proposal
    #[arg(long, value_name = "N", default_value_t = TPDU_BYTES_PREFERRED_MAX, value_parser = clap::value_parser!(u32).range(128..=65_408))]
    pub tpdu: u32,
    /// Refuse this number per thousand. PHASE: bind (REASON from MTABindError, 0 busy), checkpoint or end (REASON
    /// from an exception, 1 temporarily unable)
    #[arg(long, value_name = "PERMILLE:REASON:PHASE")]
    pub refuse: Vec<P1Refuse>,
    /// Break this number of associations per thousand. PHASE: connect, bind, start, content (in the middle),
    /// checkpoint, end (instead of the acknowledgement)
    #[arg(long, value_name = "PERMILLE:PHASE")]
    pub drop: Vec<P1Drop>,
    /// Seed for --refuse and --drop
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print the totals as JSON
    #[arg(long)]
    pub json: bool,
}

/// What all sessions share.
#[derive(Debug)]
struct P1Sink {
    rules: ResponderPolicy,
    delay: Duration,
    refusals: Vec<P1Refuse>,
    drops: Vec<P1Drop>,
    random: RefCell<Random>,
    reading: ReadBuffer,
    arrivals: Arrivals,
    /// Binds that were accepted, by mode.
    binds: RefCell<BTreeMap<Mode, u64>>,
    checkpoints: Cell<u64>,
    reports: Cell<u64>,
    probes: Cell<u64>,
    unreadable: Cell<u64>,
    /// Why associations ended that were not released.
    ended: RefCell<BTreeMap<String, u64>>,
    is_json: bool,
}

impl P1Sink {
    fn new(options: &P1SinkOptions) -> std::io::Result<P1Sink> {
        let P1SinkOptions { expect, linger, idle_exit, .. } = *options;
        let end = EndCondition { expect, linger, idle_exit };
        Ok(P1Sink {
            rules: ResponderPolicy {
                t_selector: options.t_selector.as_ref().map(|selector| selector.0.clone()),
                who: MtaCredentials {
                    name: options.name.clone(),
                    password: options.password.clone(),
                },
                their_name: options.their_name.clone(),
                their_password: options.their_password.clone(),
                checkpoint_kib: options.checkpoint_kib,
                tpdu_bytes: options.tpdu,
            },
            delay: Duration::from_millis(options.delay),
            refusals: options.refuse.clone(),
            drops: options.drop.clone(),
            random: RefCell::new(Random::new(options.seed)),
            reading: ReadBuffer::default(),
            arrivals: Arrivals::new(options.ledger.as_deref(), end)?,
            binds: RefCell::default(),
            checkpoints: Cell::new(0),
            reports: Cell::new(0),
            probes: Cell::new(0),
            unreadable: Cell::new(0),
            ended: RefCell::default(),
            is_json: options.json,
        })
    }

    /// The reason to refuse with at `phase`, if it is to be refused.
    fn refusal(&self, phase: P1Phase) -> Option<u8> {
        let mut random = self.random.borrow_mut();
        let mut of_phase = self.refusals.iter().filter(|refuse| refuse.phase == phase);
        let found = of_phase.find(|refuse| random.permille(refuse.permille))?;
        add(&self.arrivals.refused, 1);
        Some(found.reason)
    }

    /// Whether to break the connection at `phase`.
    fn drops(&self, phase: P1Phase) -> bool {
        let mut random = self.random.borrow_mut();
        let mut of_phase = self.drops.iter().filter(|drop| drop.phase == phase);
        let found = of_phase.any(|drop| random.permille(drop.permille));
        add(&self.arrivals.dropped, u64::from(found));
        found
    }

    /// Counts what came and writes it down. It is acknowledged only after this.
    fn record(&self, stream: &[u8], mode: Mode) {
        let arrived = match unwrap(stream, mode).and_then(apdu) {
            Ok(Apdu::Message(arrived)) => arrived,
            Ok(Apdu::Report) => return add(&self.reports, 1),
            Ok(Apdu::Probe) => return add(&self.probes, 1),
            Err(why) => {
                eprintln!("postrider-lab: {why}");
                return add(&self.unreadable, 1);
            }
        };
        let Arrived { id, recipients, content_bytes, state } = arrived;
        let id = id.as_deref().map(str::as_bytes);
        self.arrivals.record(id, recipients.iter(), (content_bytes as u64, state));
    }

    fn note_end(&self, why: String) {
        let mut ended = self.ended.borrow_mut();
        if ended.len() < REASONS_MAX || ended.contains_key(&why) {
            *ended.entry(why).or_default() += 1;
        }
    }
}

impl crate::tool::SinkTool for P1Sink {
    fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    fn drops_connection(&self) -> bool {
        self.drops(P1Phase::Connect)
    }

    async fn serve(&self, stream: TcpStream) {
        serve_one(stream, self).await;
    }

    fn print(&self) {
        let arrivals = &self.arrivals;
        let counts = [
            ("messages", &arrivals.messages),
            ("recipients", &arrivals.recipients),
            ("content_bytes", &arrivals.bytes),
            ("connections", &arrivals.connections),
            ("checkpoints", &self.checkpoints),
            ("reports", &self.reports),
            ("probes", &self.probes),
            ("unreadable", &self.unreadable),
            ("unidentified", &arrivals.unidentified),
            ("damaged", &arrivals.damaged),
            ("refused", &arrivals.refused),
            ("dropped", &arrivals.dropped),
        ];
        let (binds, ended) = (self.binds.borrow(), self.ended.borrow());
        let binds = binds.iter().map(|(mode, count)| (mode.name(), *count)).collect();
        let ended = ended.iter().map(|(why, count)| (why.as_str(), *count)).collect();
        let groups = [("binds", "binds, ", binds), ("associations_ended", "ended: ", ended)];
        arrivals.print(self.is_json, &counts, &groups);
    }
}

/// The command.
pub fn run(options: &P1SinkOptions) -> Outcome {
    receive(P1Sink::new(options).map_err(failed("ledger"))?, &options.listen)
}

/// What to do after input was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ResponderAction {
    Read,
    /// Write the answers, then close.
    Close,
    /// Close at once.
    Break,
}

/// Serves one association to its end. An error of the network ends it like the peer's closing does.
async fn serve_one(mut stream: TcpStream, sink: &P1Sink) {
    let mut responder = Responder::new();
    let mut next = ResponderAction::Read;
    while next != ResponderAction::Break {
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
            sink.arrivals.end_if_complete();
        }
        if next == ResponderAction::Close {
            return;
        }
        match sink.reading.read(&mut stream, |input| take(sink, &mut responder, input)).await {
            Ok(after) => next = after,
            Err(error) => return sink.note_end(error.to_string()),
        }
    }
    // A break is a reset, not a polite end.
    let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
}

/// Takes all of the input.
fn take(sink: &P1Sink, responder: &mut Responder, mut input: &[u8]) -> ResponderAction {
    if input.is_empty() {
        return ResponderAction::Close;
    }
    loop {
        let (used, event) = responder.advance(&sink.rules, input);
        input = input.get(used..).unwrap_or_default();
        let phase = match event {
            ResponderEvent::Input => return ResponderAction::Read,
            ResponderEvent::Close(why) => {
                why.into_iter().for_each(|why| sink.note_end(why));
                return ResponderAction::Close;
            }
            ResponderEvent::Release | ResponderEvent::Discard => continue,
            ResponderEvent::Bind => P1Phase::Bind,
            ResponderEvent::Start => P1Phase::Start,
            ResponderEvent::Content => P1Phase::Content,
            ResponderEvent::Checkpoint => P1Phase::Checkpoint,
            ResponderEvent::End => P1Phase::End,
        };
        if sink.drops(phase) {
            return ResponderAction::Break;
        }
        if let Some(reason) = sink.refusal(phase) {
            responder.refuse(reason);
            if phase == P1Phase::Bind {
                return ResponderAction::Close;
            }
            continue;
        }
        let mode = responder.mode().unwrap_or_default();
        match phase {
            P1Phase::Bind => *sink.binds.borrow_mut().entry(mode).or_default() += 1,
            P1Phase::Checkpoint => add(&sink.checkpoints, 1),
            P1Phase::End => sink.record(responder.stream(), mode),
            P1Phase::Connect | P1Phase::Start | P1Phase::Content => {}
        }
        responder.accept(&sink.rules);
    }
}
