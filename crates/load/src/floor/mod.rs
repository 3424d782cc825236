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

/// Relay in memory: a lower bound for the cost of any relay.
///
/// Queued messages are lost at exit. It sends no bounces, has no limits, and runs on one thread.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Prints `listening on ADDRESS` when it is ready. Exits at SIGTERM or Ctrl-C, and prints counts as JSON.

Exit codes:
  0  ended by a signal
  2  the command line is wrong, an address or the log cannot be used, or the log failed")]
pub struct FloorOptions {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: String,
    /// Address of the next hop
    #[arg(long, value_name = "HOST:PORT")]
    pub to: String,
    /// Maximum number of connections to the next hop, opened on demand
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub connections: usize,
    /// Write and fdatasync each message to this file before its 250, with one sync for all that wait.
    /// The file is filled with zeros first, and then overwritten repeatedly
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Size of the log in bytes
    #[arg(long, value_name = "N", default_value_t = 256 << 20)]
    pub log_bytes: u64,
    /// Processor time to use per message, in microseconds, to test a meter
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub burn_us: u64,
    /// Overwrite this file repeatedly, with an fdatasync for each message, to test a meter
    #[arg(long, value_name = "FILE", requires = "ballast_bytes")]
    pub ballast: Option<PathBuf>,
    /// Bytes written to the ballast file per message
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub ballast_bytes: usize,
    /// Send BDAT without waiting for the reply to RCPT. RFC 3030 forbids it; it saves a write and a read
    /// per message
    #[arg(long)]
    pub unasked_content: bool,
    /// Do not offer CHUNKING
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
