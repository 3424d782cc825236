//! Receives mail and writes down what came.

pub(crate) mod fault;
pub(crate) mod message;
mod replies;
mod session;

pub use fault::{Drop, Phase, Refuse};

use crate::dialogue::Offer;
use crate::listener::ReadBuffer;
use crate::random::Random;
use crate::stop::Outcome;
use crate::tls::{HandshakeCount, Handshakes, TlsServer};
use crate::tool::{Arrivals, EndCondition, add, failed, receive};
use replies::{Replies, Reply};
use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::TcpStream;

/// Receive messages, count and discard them.
///
/// With --ledger, id and recipients of an accepted message are written before its final reply.
/// Faults are drawn from the seed: for each message or connection, every --refuse and --drop in
/// turn.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Prints `listening on ADDRESS` when it is ready. Exits at --expect, --idle-exit, SIGTERM or Ctrl-C, \
and prints totals.

Exit codes:
  0  done
  1  fewer than --expect messages arrived
  2  the command line is wrong, or the address or a file cannot be used")]
pub struct SinkOptions {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: String,
    /// Exit after this number of accepted messages
    #[arg(long, value_name = "N")]
    pub expect: Option<u64>,
    /// Time to wait for more messages after the expected ones
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub linger: u64,
    /// Exit after this time without a message
    #[arg(long, value_name = "SECONDS")]
    pub idle_exit: Option<u64>,
    /// Write id and recipient of each accepted message to this file
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Offer STARTTLS with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// With TLS: kind of handshakes
    #[arg(long, value_name = "HANDSHAKES", default_value = "resumed")]
    pub tls_handshakes: Handshakes,
    /// Do not offer CHUNKING
    #[arg(long)]
    pub no_chunking: bool,
    /// Do not offer PIPELINING
    #[arg(long)]
    pub no_pipelining: bool,
    /// Do not offer DSN
    #[arg(long)]
    pub no_dsn: bool,
    /// Delay of each reply, to simulate a long network path
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub latency: u64,
    /// Refuse this number per thousand with this code. PHASE: ehlo, mail, rcpt, data, dot (default)
    #[arg(long, value_name = "PERMILLE:CODE[:PHASE]")]
    pub refuse: Vec<Refuse>,
    /// Break this number of connections per thousand. PHASE: connect, ehlo, mail, rcpt, data (instead
    /// of the reply), content (in the middle), dot (after the last byte, before the reply)
    #[arg(long, value_name = "PERMILLE:PHASE")]
    pub drop: Vec<Drop>,
    /// Refuse with providers' texts from a file (docs/benchmarks.md). Lines: STAGE PERMILLE DOMAIN CODE
    /// TEXT. STAGE: connect, ehlo, mail, rcpt, data, dot. DOMAIN: the recipients' domain, *.DOMAIN or *
    #[arg(long, value_name = "FILE")]
    pub replies: Option<PathBuf>,
    /// Seed for --refuse, --drop and --replies
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print the totals as JSON
    #[arg(long)]
    pub json: bool,
}

/// What all sessions share.
#[derive(Debug)]
struct Sink {
    offer: Offer,
    tls: Option<TlsServer>,
    handshakes: HandshakeCount,
    latency: Duration,
    refusals: Vec<Refuse>,
    drops: Vec<Drop>,
    replies: Replies,
    random: RefCell<Random>,
    reading: ReadBuffer,
    arrivals: Arrivals,
    is_json: bool,
}

impl Sink {
    fn new(options: &SinkOptions) -> std::io::Result<Sink> {
        let files = options.tls_certificate.as_deref().zip(options.tls_key.as_deref());
        let tls = files.map(|(certificate, key)| {
            TlsServer::from_files(certificate, key, options.tls_handshakes)
        });
        let tls = tls.transpose()?;
        let replies = options.replies.as_deref().map(Replies::read).transpose();
        let SinkOptions { expect, linger, idle_exit, .. } = *options;
        let end = EndCondition { expect, linger, idle_exit };
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
            reading: ReadBuffer::default(),
            arrivals: Arrivals::new(options.ledger.as_deref(), end)?,
            is_json: options.json,
        })
    }

    /// The code to refuse with at `phase`, if it is to be refused.
    fn refusal(&self, phase: Phase) -> Option<u16> {
        let mut random = self.random.borrow_mut();
        let mut of_phase = self.refusals.iter().filter(|refuse| refuse.phase == phase);
        let found = of_phase.find(|refuse| random.permille(refuse.permille))?;
        add(&self.arrivals.refused, 1);
        Some(found.code)
    }

    /// The words to refuse a recipient of this domain with at `phase`, if it is to be refused.
    fn reply(&self, phase: Phase, domain: &str) -> Option<&Reply> {
        let found = self.replies.draw(phase, domain, &mut self.random.borrow_mut())?;
        add(&self.arrivals.refused, 1);
        Some(found)
    }

    /// Whether to break the connection at `phase`.
    fn drops(&self, phase: Phase) -> bool {
        let mut random = self.random.borrow_mut();
        let mut of_phase = self.drops.iter().filter(|drop| drop.phase == phase);
        let found = of_phase.any(|drop| random.permille(drop.permille));
        add(&self.arrivals.dropped, u64::from(found));
        found
    }
}

impl crate::tool::SinkTool for Sink {
    fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    fn drops_connection(&self) -> bool {
        self.drops(Phase::Connect)
    }

    async fn serve(&self, stream: TcpStream) {
        session::serve(stream, self).await;
    }

    fn print(&self) {
        let arrivals = &self.arrivals;
        let counts = [
            ("messages", &arrivals.messages),
            ("recipients", &arrivals.recipients),
            ("content_bytes", &arrivals.bytes),
            ("connections", &arrivals.connections),
            ("unidentified", &arrivals.unidentified),
            ("damaged", &arrivals.damaged),
            ("refused", &arrivals.refused),
            ("dropped", &arrivals.dropped),
            ("handshakes", &self.handshakes.all),
            ("handshakes_resumed", &self.handshakes.resumed),
        ];
        arrivals.print(self.is_json, &counts, &[]);
    }
}

/// The command.
pub fn run(options: &SinkOptions) -> Outcome {
    let sink = Sink::new(options).map_err(failed("ledger, certificate or replies"))?;
    receive(sink, &options.listen)
}
