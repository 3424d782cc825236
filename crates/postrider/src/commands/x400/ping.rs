//! `postrider x400 ping`: binds to a peer, and releases.

use super::peer_named;
use crate::cli::{X400PingArgs, exit};
use crate::commands::{load, print};
use crate::secrets;
use bytes::Bytes;
use channels::X400Peer;
use config::{Host, HostPort};
use mail::Mono;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use x400::association::{AssociationEnd, Binding, Event, Initiator};

/// Interval of deadline checks while no data arrives.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) fn ping(args: &X400PingArgs) -> ExitCode {
    let config = match load::load(args.file.config.as_deref()) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let unread = secrets::read_peers(&config, &|_| ());
    if !unread.is_empty() {
        eprint!("{}", config.errors(unread).render(false));
        return ExitCode::from(exit::FAILED);
    }
    let peer = match peer_named(&config, &args.peer) {
        Ok(peer) => peer,
        Err(code) => return code,
    };
    if peer.hosts.is_empty() {
        eprintln!("postrider: peer \"{}\" has no `hosts`", peer.name);
        return ExitCode::from(exit::USAGE);
    }
    let mut is_answered = false;
    for host in &peer.hosts {
        match ping_host(host, peer) {
            Ok(text) => {
                print(&format!("{}: {host}: {text}\n", peer.name));
                is_answered = true;
                break;
            }
            Err(why) => eprintln!("postrider: {}: {host}: {why}", peer.name),
        }
    }
    ExitCode::from(if is_answered { 0 } else { exit::FAILED })
}

fn ping_host(host: &HostPort, peer: &X400Peer) -> Result<String, String> {
    let mut last = "the host has no address".to_owned();
    for address in addresses(host)? {
        match TcpStream::connect_timeout(&address, peer.connect_timeout) {
            Ok(stream) => return bind(stream, peer),
            Err(error) => last = format!("cannot connect to {address}: {error}"),
        }
    }
    Err(last)
}

fn addresses(host: &HostPort) -> Result<Vec<SocketAddr>, String> {
    let of = |ip: IpAddr| SocketAddr::new(ip, host.port);
    match &host.host {
        Host::Address(ip) => Ok(vec![of(*ip)]),
        Host::Name(name) => {
            let found = (name.as_str(), host.port).to_socket_addrs();
            found.map(Iterator::collect).map_err(|error| error.to_string())
        }
        Host::Socket(_) => Err("X.400 is not supported over Unix sockets".to_owned()),
    }
}

/// Binds and releases. Returns the peer's response.
fn bind(mut stream: TcpStream, peer: &X400Peer) -> Result<String, String> {
    let began = Instant::now();
    let now = || Mono(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
    let broken = |error: std::io::Error| error.to_string();
    stream.set_nodelay(true).map_err(broken)?;
    stream.set_read_timeout(Some(LOOK_EVERY)).map_err(broken)?;
    let settings = channels::initiator_settings(peer, crate::world::clock::wall_now());
    let mut machine = Initiator::new(settings, now());
    let (mut answered, mut buffer) = (None, vec![0; 64 * 1024]);
    loop {
        while let Some(event) = machine.poll_event() {
            match event {
                Event::Bound(binding) => {
                    answered = Some(accepted(*binding, peer, began.elapsed())?);
                    machine.release(now());
                }
                Event::Ended(AssociationEnd::Released) => {
                    return answered.ok_or_else(|| "it released the association".to_owned());
                }
                Event::Ended(end) => return Err(channels::association_failure(&end, peer)),
                Event::Bind(_)
                | Event::ActivityStarted
                | Event::Content(_)
                | Event::ApduComplete
                | Event::ActivityDropped
                | Event::Acknowledged
                | Event::NotTaken(_)
                | Event::TurnTaken
                | Event::TurnGiven => {}
            }
        }
        for piece in machine.take_output() {
            stream.write_all(&piece).map_err(broken)?;
        }
        if machine.is_closed() {
            return answered.ok_or_else(|| "the connection is closed".to_owned());
        }
        match stream.read(&mut buffer) {
            Ok(0) => machine.handle_eof(),
            Ok(count) => {
                let octets = Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default());
                machine.handle_input(octets, now());
            }
            Err(error) if is_nothing(&error) => {
                machine.handle_deadline(now());
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// The parameters that the peer accepted, `took` after the request.
///
/// # Errors
/// Returns an error if the responder is a different peer.
fn accepted(binding: Binding, peer: &X400Peer, took: Duration) -> Result<String, String> {
    if !channels::is_peer(&binding, peer) {
        let shown = binding.identity.name.unwrap_or_default();
        return Err(format!(
            "the peer identifies as \"{}\" or with another password, not as \"{}\"",
            shown.escape_debug(),
            peer.their_name
        ));
    }
    let took = took.as_millis();
    Ok(format!(
        "it accepted the association as \"{}\" after {took} ms: TPDUs of {} octets, {}",
        peer.their_name,
        binding.tpdu_bytes,
        match binding.checkpoint_kib {
            0 => "no checkpoints".to_owned(),
            kib => format!("checkpoints every {kib} KiB"),
        }
    ))
}

fn is_nothing(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
