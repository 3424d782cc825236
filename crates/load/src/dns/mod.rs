//! A small authoritative name server, for `mx` routes and for what asks about senders.

mod answer;
mod zone;

pub use answer::answer;
pub use zone::Zones;

use crate::listener::resolve;
use crate::stop::{CommandError, Outcome, Stop};
use std::cell::Cell;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::LocalSet;

/// A question over TCP comes within this time, or the connection is closed.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Connections at once.
const CONNECTIONS_MAX: usize = 1_000;
/// Tries to find a port that is free for UDP and TCP.
const PORT_TRIES: usize = 100;

/// Answer DNS queries from zone files, over UDP and TCP.
///
/// A zone file is a master file (RFC 1035): $ORIGIN begins a zone, $TTL applies to the records after it.
/// Types: A, AAAA, CNAME, MX, NS, PTR, SOA, TLSA and TXT, with wildcards. A zone without an SOA gets one.
/// Queries for other zones are answered REFUSED.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Prints `listening on ADDRESS` when it is ready. Exits at SIGTERM or Ctrl-C.

Exit codes:
  0  done
  2  the command line or a zone is wrong, or the address cannot be used")]
pub struct DnsOptions {
    /// Zone file; may be repeated
    #[arg(long, value_name = "FILE", required = true)]
    pub zone: Vec<PathBuf>,
    /// Address to listen on, over UDP and TCP; port 0 selects a free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub listen: String,
    /// Delay of each answer, to simulate a long network path
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub latency: u64,
}

/// What all tasks share.
struct DnsServer {
    zones: Zones,
    latency: Duration,
    connections: Cell<usize>,
}

/// The command.
pub fn run(options: &DnsOptions) -> Outcome {
    let zones = read(&options.zone).map_err(CommandError::new)?;
    let latency = Duration::from_millis(options.latency);
    let server = Rc::new(DnsServer { zones, latency, connections: Cell::new(0) });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::new(format!("runtime: {error}")))?;
    let tasks = LocalSet::new();
    let served = tasks.block_on(&runtime, serve(server, &options.listen));
    drop(tasks);
    served.map_err(|error| CommandError::new(format!("{}: {error}", options.listen)))?;
    Ok(ExitCode::SUCCESS)
}

/// The zones of all files.
fn read(files: &[PathBuf]) -> Result<Zones, String> {
    let mut all = Vec::new();
    for path in files {
        let text = crate::file::read(path).map_err(|error| error.to_string())?;
        all.push((path.as_path(), text));
    }
    Zones::read_all(all.iter().map(|(path, text)| (*path, text.as_str())))
        .map_err(|mistake| mistake.to_string())
}

async fn serve(server: Rc<DnsServer>, listen: &str) -> std::io::Result<()> {
    let mut stop = Stop::listen()?;
    let (udp, tcp) = bind(resolve(listen)?).await?;
    println!("listening on {}", tcp.local_addr()?);
    // A test may wait for this line through a pipe.
    std::io::stdout().flush()?;
    tokio::task::spawn_local(over_tcp(Rc::clone(&server), tcp));
    tokio::task::spawn_local(over_udp(server, Rc::new(udp)));
    stop.wait().await;
    Ok(())
}

/// One port for both.
async fn bind(address: SocketAddr) -> std::io::Result<(UdpSocket, TcpListener)> {
    let mut tries = 0;
    loop {
        let tcp = TcpListener::bind(address).await?;
        tries += 1;
        match UdpSocket::bind(tcp.local_addr()?).await {
            Ok(udp) => return Ok((udp, tcp)),
            Err(error) if address.port() != 0 || tries == PORT_TRIES => return Err(error),
            Err(_) => {}
        }
    }
}

async fn over_udp(server: Rc<DnsServer>, socket: Rc<UdpSocket>) {
    let mut buffer = vec![0; 4_096];
    loop {
        // An error is about a packet of before, which its asker did not wait for.
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        let Some(wire) = answer(&server.zones, &buffer[..length], false) else { continue };
        if server.latency.is_zero() {
            let _ = socket.send_to(&wire, from).await;
        } else {
            let (socket, latency) = (Rc::clone(&socket), server.latency);
            tokio::task::spawn_local(async move {
                tokio::time::sleep(latency).await;
                let _ = socket.send_to(&wire, from).await;
            });
        }
    }
}

async fn over_tcp(server: Rc<DnsServer>, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files, most likely: some will be closed.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        if server.connections.get() < CONNECTIONS_MAX {
            server.connections.set(server.connections.get() + 1);
            let server = Rc::clone(&server);
            tokio::task::spawn_local(async move {
                // Whatever ends it, the asker sees it end.
                let _ = converse(&server, stream).await;
                server.connections.set(server.connections.get() - 1);
            });
        }
    }
}

/// RFC 1035 §4.2.2: each message has its length in front.
async fn converse(server: &DnsServer, mut stream: TcpStream) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let length = tokio::time::timeout(IDLE_MAX, stream.read_u16()).await??;
        buffer.resize(usize::from(length), 0);
        tokio::time::timeout(IDLE_MAX, stream.read_exact(&mut buffer)).await??;
        let Some(wire) = answer(&server.zones, &buffer, true) else { return Ok(()) };
        tokio::time::sleep(server.latency).await;
        let Ok(length) = u16::try_from(wire.len()) else { return Ok(()) };
        stream.write_all(&[&length.to_be_bytes()[..], &wire].concat()).await?;
    }
}
