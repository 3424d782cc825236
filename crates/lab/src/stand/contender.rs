//! What a server must tell of itself to be measured.

use super::directory::Lookup;
use super::error::{Error, Result};
use super::place::ServerSetup;
use super::server::Server;
use super::ways::{Protocol, Ways};
use load::proc;
use std::fmt::Debug;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A server must listen within this time of its start.
const START_MAX: Duration = Duration::from_secs(120);

/// What a 250 promises.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Durability {
    /// `sync`, `os`, `memory` or `unknown`.
    pub(crate) word: &'static str,
    /// The same in a sentence.
    pub(crate) sentence: &'static str,
}

/// What goes through on a small machine, roughly: to foretell how long a run takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoughRates {
    /// The smallest messages in a second.
    pub(crate) messages: f64,
    /// Bytes in a second.
    pub(crate) bytes: f64,
}

/// A server that can be measured. A new one is a file in `contenders` and a line in its list.
pub(crate) trait Contender: Debug {
    /// As it is named in `--against`.
    fn name(&self) -> &str;

    /// One line for people.
    fn title(&self) -> String;

    fn durability(&self) -> Durability;

    /// Its version, if it can be measured here. `postrider` is our own program.
    ///
    /// # Errors
    /// Why not, and what would help.
    fn find(&self, postrider: &Path) -> Result<String>;

    /// Starts it, or starts it again on what it left. It needn't listen yet.
    ///
    /// # Errors
    /// When it doesn't start.
    fn start(&self, place: &ServerSetup) -> Result<Box<dyn Server>>;

    fn rough_rates(&self) -> RoughRates {
        RoughRates { messages: 3000.0, bytes: 60e6 }
    }

    /// Whether a killed one may be asked for its mail: only for what it promised to keep.
    fn survives_a_kill(&self) -> bool {
        true
    }

    /// Whether it encrypts what comes in and goes out, if [`ServerSetup::encryption`] says so.
    fn encrypts(&self) -> bool {
        false
    }

    /// Whether [`ServerSetup::egress`] means anything to it.
    fn limits_connections(&self) -> bool {
        true
    }

    /// What it carries mail by where these ways are wanted; none: it can't.
    fn ways(&self, wanted: Ways) -> Option<Ways> {
        wanted.is_mail().then_some(wanted)
    }

    /// Messages that a killed one may deliver again: transactions in flight, and what was delivered
    /// and not yet recorded.
    fn duplicates_per_kill(&self) -> u64 {
        250
    }

    /// Whether it is set up to find next hops by the DNS.
    fn resolves(&self) -> bool {
        false
    }

    /// Whether it knows providers, sources and tenants.
    fn is_shaped(&self) -> bool {
        false
    }

    /// Where it listens and relays to, if it runs already and is not ours to start.
    fn running_at(&self) -> Option<RunningServer<'_>> {
        None
    }

    /// What it looks up users in whose mail it keeps; none: it relays.
    fn lookup(&self) -> Option<Lookup> {
        None
    }

    /// Whether it is Postrider in one form or another.
    fn is_postrider(&self) -> bool {
        false
    }
}

/// Where a server is that runs already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningServer<'a> {
    /// Where it listens.
    pub(crate) address: &'a str,
    /// Where it relays to: the sink listens there.
    pub(crate) sink: &'a str,
}

/// Where it listens.
pub(crate) fn address(contender: &dyn Contender, place: &ServerSetup) -> String {
    contender.running_at().map_or_else(|| place.address(), |running| running.address.to_owned())
}

/// Starts a contender and waits until it listens and is ready for mail.
///
/// # Errors
/// When it doesn't start, doesn't listen or doesn't become ready.
pub(crate) fn put_up(contender: &dyn Contender, place: &ServerSetup) -> Result<Box<dyn Server>> {
    let mut server = contender.start(place)?;
    let address = address(contender, place);
    let listens = wait_until_it_listens(&address, server.pid(), place.ways.inbound);
    listens.map_err(|why| Error::Server(why + &log_tail(&place.directory)))?;
    server.wait_until_ready()?;
    Ok(server)
}

fn wait_until_it_listens(
    address: &str,
    pid: u32,
    protocol: Protocol,
) -> std::result::Result<(), String> {
    let begun = Instant::now();
    let mut last = String::new();
    while begun.elapsed() < START_MAX {
        let answer = match protocol {
            Protocol::Smtp => greeting(address).map(drop),
            // Nothing is said before we say who we are.
            Protocol::P1 => TcpStream::connect(address).map(drop).map_err(|why| why.to_string()),
        };
        match answer {
            Ok(()) => return Ok(()),
            Err(error) => last = error,
        }
        if proc::has_ended(pid) {
            return Err("it ended at once".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("it does not answer at {address}: {last}"))
}

/// What the logs in that directory end with.
fn log_tail(directory: &Path) -> String {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let logs =
        entries.map(|entry| entry.path()).filter(|path| path.extension() == Some("log".as_ref()));
    let texts = logs.filter_map(|path| std::fs::read_to_string(path).ok());
    let lines: Vec<String> =
        texts.filter_map(|text| text.lines().last().map(str::to_owned)).collect();
    if lines.is_empty() {
        String::new()
    } else {
        format!("; its log ends with: {}", lines.join("; "))
    }
}

/// A server may take so long to greet.
const GREETING_MAX: Duration = Duration::from_secs(10);

/// The greeting of a server, which is let go with QUIT.
pub(crate) fn greeting(address: &str) -> std::result::Result<String, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).map_err(text)?;
    stream.set_read_timeout(Some(GREETING_MAX)).map_err(text)?;
    let mut reader = BufReader::new(stream.try_clone().map_err(text)?);
    let mut line = String::new();
    reader.read_line(&mut line).map_err(text)?;
    stream.write_all(b"QUIT\r\n").map_err(text)?;
    let greeting = line.trim().strip_prefix("220").map(|rest| rest.trim().to_owned());
    greeting.ok_or_else(|| format!("it greets with {:?}", line.trim()))
}
