//! Receives mail and writes down what came.

pub(crate) mod fault;
pub(crate) mod message;
mod replies;
mod session;

pub use fault::{Drop, Phase, Refuse};

use crate::dialogue::Offer;
use crate::ledger::LedgerWriter;
use crate::listener::{ReadBuffer, listen, resolve};
use crate::outcome::{CommandError, Outcome};
use crate::progress::Progress;
use crate::random::Random;
use crate::stats::{rate, value_table};
use crate::stop::Stop;
use crate::tls::{HandshakeCount, Handshakes, Server};
use replies::{Replies, Reply};
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::LocalSet;

/// Between two looks at the ledger's unwritten lines and at idleness.
const TICK: Duration = Duration::from_millis(20);

/// Receives messages, counts them and throws them away.
///
/// With --ledger, each accepted message's id and recipients are written before the reply is.
/// Faults are drawn from the seed: for each message (or connection), each --refuse and --drop in
/// turn.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Prints `listening on ADDRESS` when it is ready. Ends at --expect, --idle-exit, SIGTERM or Ctrl-C, \
and prints totals.

Exit code: 0 normally; 1 fewer than --expect messages came; 2 the command line is wrong, or the \
address or the ledger can't be used.")]
pub struct SinkOptions {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: String,
    /// End after so many accepted messages
    #[arg(long, value_name = "N")]
    pub expect: Option<u64>,
    /// Stay so long after the expected messages came, to see whether more come
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub linger: u64,
    /// End when no message came for so long
    #[arg(long, value_name = "SECONDS")]
    pub idle_exit: Option<u64>,
    /// Write id and recipient of each accepted message
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Offer STARTTLS with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// With TLS: whether sessions can be resumed
    #[arg(long, value_name = "HANDSHAKES", default_value = "resumed")]
    pub tls_handshakes: Handshakes,
    /// Don't offer CHUNKING
    #[arg(long)]
    pub no_chunking: bool,
    /// Don't offer PIPELINING
    #[arg(long)]
    pub no_pipelining: bool,
    /// Don't offer DSN
    #[arg(long)]
    pub no_dsn: bool,
    /// Send replies so much later, as if the network were that long
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub latency: u64,
    /// Refuse so many of a thousand with this code; PHASE: ehlo, mail, rcpt, data, dot (default)
    #[arg(long, value_name = "PERMILLE:CODE[:PHASE]")]
    pub refuse: Vec<Refuse>,
    /// Break so many of a thousand connections; PHASE: connect, ehlo, mail, rcpt, data (instead of
    /// its reply), content (in the middle of it), dot (after the last byte, before the reply)
    #[arg(long, value_name = "PERMILLE:PHASE")]
    pub drop: Vec<Drop>,
    /// Refuse in providers' words: lines of STAGE PERMILLE DOMAIN CODE WORDS, STAGE one of connect, ehlo,
    /// mail, rcpt, data, dot; DOMAIN of recipients, *.DOMAIN or * (docs/benchmarks.md)
    #[arg(long, value_name = "FILE")]
    pub replies: Option<PathBuf>,
    /// For --refuse, --drop and --replies
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print the totals as JSON
    #[arg(long)]
    pub json: bool,
}

/// When all is there, clients have so long to say QUIT.
const FAREWELL_MAX: Duration = Duration::from_millis(500);

/// What all sessions share.
#[derive(Debug)]
struct Sink {
    offer: Offer,
    tls: Option<Server>,
    handshakes: HandshakeCount,
    latency: Duration,
    refusals: Vec<Refuse>,
    drops: Vec<Drop>,
    replies: Replies,
    random: RefCell<Random>,
    ledger: RefCell<LedgerWriter>,
    reading: ReadBuffer,
    expect: u64,
    complete: Notify,
    totals: Totals,
}

#[derive(Debug)]
struct Totals {
    connections: Cell<u64>,
    /// Of them, now.
    open: Cell<u64>,
    messages: Cell<u64>,
    recipients: Cell<u64>,
    bytes: Cell<u64>,
    unidentified: Cell<u64>,
    damaged: Cell<u64>,
    refused: Cell<u64>,
    dropped: Cell<u64>,
    first: Cell<Option<Instant>>,
    last: Cell<Instant>,
}

fn add(cell: &Cell<u64>, count: u64) {
    cell.set(cell.get() + count);
}

impl Sink {
    fn new(options: &SinkOptions) -> std::io::Result<Sink> {
        let files = options.tls_certificate.as_deref().zip(options.tls_key.as_deref());
        let tls = files
            .map(|(certificate, key)| Server::from_files(certificate, key, options.tls_handshakes));
        let tls = tls.transpose()?;
        let replies = options.replies.as_deref().map(Replies::read).transpose();
        Ok(Sink {
            offer: Offer {
                chunking: !options.no_chunking,
                pipelining: !options.no_pipelining,
                dsn: !options.no_dsn,
                discards: true,
                starttls: tls.is_some(),
                requiretls: false,
            },
            tls,
            handshakes: HandshakeCount::default(),
            latency: Duration::from_millis(options.latency),
            refusals: options.refuse.clone(),
            drops: options.drop.clone(),
            replies: replies.map_err(std::io::Error::other)?.unwrap_or_default(),
            random: RefCell::new(Random::new(options.seed)),
            ledger: RefCell::new(LedgerWriter::create(options.ledger.as_deref())?),
            reading: ReadBuffer::default(),
            expect: options.expect.unwrap_or(u64::MAX),
            complete: Notify::new(),
            totals: Totals {
                connections: Cell::new(0),
                open: Cell::new(0),
                messages: Cell::new(0),
                recipients: Cell::new(0),
                bytes: Cell::new(0),
                unidentified: Cell::new(0),
                damaged: Cell::new(0),
                refused: Cell::new(0),
                dropped: Cell::new(0),
                first: Cell::new(None),
                last: Cell::new(Instant::now()),
            },
        })
    }

    /// The code to refuse with at `phase`, if it is to be refused.
    fn refusal(&self, phase: Phase) -> Option<u16> {
        let mut random = self.random.borrow_mut();
        let mut of_phase = self.refusals.iter().filter(|refuse| refuse.phase == phase);
        let found = of_phase.find(|refuse| random.permille(refuse.permille))?;
        add(&self.totals.refused, 1);
        Some(found.code)
    }

    /// The words to refuse a recipient of this domain with at `phase`, if it is to be refused.
    fn reply(&self, phase: Phase, domain: &str) -> Option<&Reply> {
        let found = self.replies.draw(phase, domain, &mut self.random.borrow_mut())?;
        add(&self.totals.refused, 1);
        Some(found)
    }

    /// Whether to break the connection at `phase`.
    fn drops(&self, phase: Phase) -> bool {
        let mut random = self.random.borrow_mut();
        let mut of_phase = self.drops.iter().filter(|drop| drop.phase == phase);
        let found = of_phase.any(|drop| random.permille(drop.permille));
        add(&self.totals.dropped, u64::from(found));
        found
    }

    fn is_complete(&self) -> bool {
        self.totals.messages.get() >= self.expect
    }

    fn rows(&self) -> Vec<(&'static str, u64)> {
        let totals = &self.totals;
        [
            ("messages", &totals.messages),
            ("recipients", &totals.recipients),
            ("content_bytes", &totals.bytes),
            ("connections", &totals.connections),
            ("unidentified", &totals.unidentified),
            ("damaged", &totals.damaged),
            ("refused", &totals.refused),
            ("dropped", &totals.dropped),
            ("handshakes", &self.handshakes.all),
            ("handshakes_resumed", &self.handshakes.resumed),
        ]
        .map(|(name, cell)| (name, cell.get()))
        .to_vec()
    }

    fn print(&self, json: bool) {
        let first = self.totals.first.get();
        let time = first.map_or(Duration::ZERO, |first| self.totals.last.get() - first);
        // From the first message to the last: one less than all came in that time.
        let per_second = rate(self.totals.messages.get().saturating_sub(1), time);
        if json {
            let mut value = json!({
                "seconds": time.as_secs_f64(), "messages_per_second": per_second,
            });
            for (name, count) in self.rows() {
                value[name] = count.into();
            }
            println!("{value}");
            return;
        }
        let mut rows = vec![
            ("messages/s".to_owned(), format!("{per_second:.0}")),
            ("seconds".to_owned(), format!("{:.2}", time.as_secs_f64())),
        ];
        let counts = self.rows();
        rows.extend(counts.iter().map(|(name, n)| (name.replace('_', " "), n.to_string())));
        println!("{}", value_table(&rows));
    }
}

/// The command.
pub fn run(options: &SinkOptions) -> Outcome {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| CommandError::new(format!("{what}: {error}"))
    };
    let sink = Rc::new(Sink::new(options).map_err(failed("ledger, certificate or replies"))?);
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
async fn serve(sink: Rc<Sink>, options: &SinkOptions) -> std::io::Result<()> {
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
                if !sink.drops(Phase::Connect) {
                    let sink = Rc::clone(&sink);
                    tokio::task::spawn_local(async move {
                        let open = &sink.totals.open;
                        open.set(open.get() + 1);
                        session::serve(stream, &sink).await;
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
