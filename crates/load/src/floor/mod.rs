//! A relay that does nothing but relay: the limit that real ones are held against.
//!
//! It reads a message, says 250, and writes it to the next hop over a connection that it keeps. No
//! spool, no queue, no policy, no Received field: what it costs is what the kernel's TCP and SMTP
//! itself cost. With a log behind it, it costs in addition what durability must cost.

mod cost;
mod egress;
mod ingress;
mod log;

use crate::dialogue::Offer;
use crate::listener::{ReadBuffer, resolve};
use crate::stop::Outcome;
use crate::tool::{Passage, failed};
use cost::KnownCost;
use log::Log;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

/// Relays in memory: a lower bound for the cost of any relay.
///
/// It loses what it holds when it ends, bounces nothing and has no limits. One thread.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Prints `listening on ADDRESS` when it is ready, and counts as JSON when SIGTERM or Ctrl-C ends it.

Exit code: 0 when ended by a signal; 2 an address or the log can't be used, or the log failed.")]
pub struct FloorOptions {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: String,
    /// The next hop
    #[arg(long, value_name = "HOST:PORT")]
    pub to: String,
    /// Connections to the next hop, opened as they are needed
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub connections: usize,
    /// Write each message to this file and fdatasync before its 250, one sync for all that wait;
    /// the file is written full of zeros first, then over and over
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Size of the log
    #[arg(long, value_name = "N", default_value_t = 256 << 20)]
    pub log_bytes: u64,
    /// Burn so many microseconds of processor time for each message, to prove a meter
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub burn_us: u64,
    /// Write to this file, over and over, and fdatasync for each message, to prove a meter
    #[arg(long, value_name = "FILE", requires = "ballast_bytes")]
    pub ballast: Option<PathBuf>,
    /// So many bytes of it for each message
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub ballast_bytes: usize,
    /// Send BDAT behind RCPT without waiting for its reply, which RFC 3030 forbids: what does so saves
    /// a write and a read for each message
    #[arg(long)]
    pub unasked_content: bool,
    /// Don't offer CHUNKING
    #[arg(long)]
    pub no_chunking: bool,
}

/// A message between its two connections.
#[derive(Debug, Default)]
struct RelayedMessage {
    reverse_path: Vec<u8>,
    /// One space between two.
    recipients: Vec<u8>,
    /// As the message has it, without stuffed dots.
    content: Vec<u8>,
}

#[derive(Debug)]
struct Floor {
    offer: Offer,
    /// Content is sent unasked.
    is_hasty: bool,
    to: SocketAddr,
    reading: ReadBuffer,
    passage: Passage<RelayedMessage>,
    log: Option<Log>,
    cost: KnownCost,
}

impl Floor {
    /// Whether a 250 must wait for something.
    fn waits_for_disk(&self) -> bool {
        self.log.is_some() || self.cost.is_any()
    }
}

/// The command.
pub fn run(options: &FloorOptions) -> Outcome {
    let log = options.log.as_deref().map(|path| Log::create(path, options.log_bytes)).transpose();
    let floor = Rc::new(Floor {
        offer: Offer {
            chunking: !options.no_chunking,
            pipelining: true,
            dsn: true,
            discards: true,
            starttls: false,
            requiretls: false,
        },
        is_hasty: options.unasked_content,
        to: resolve(&options.to).map_err(failed(&options.to))?,
        reading: ReadBuffer::default(),
        passage: Passage::default(),
        log: log.map_err(failed("log"))?,
        cost: KnownCost::new(options.burn_us, options.ballast.as_deref(), options.ballast_bytes)
            .map_err(failed("ballast"))?,
    });
    let beside = async {
        for _ in 0..options.connections {
            tokio::task::spawn_local(egress::relay(Rc::clone(&floor)));
        }
        match &floor.log {
            Some(log) => log.follow().await,
            None => std::future::pending().await,
        }
    };
    let serve = |stream| ingress::serve(stream, Rc::clone(&floor));
    floor.passage.run(&options.listen, serve, beside)?;
    floor.passage.print("log_syncs", floor.log.as_ref().map(Log::syncs));
    Ok(ExitCode::SUCCESS)
}
