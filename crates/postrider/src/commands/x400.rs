//! `postrider x400`: peers, addresses and APDUs; `ping` is in [`ping`].

mod ping;

use super::{asking, load, print};
use crate::cli::{
    ServerArgs, X400AddressArgs, X400Args, X400Command, X400DecodeArgs, X400PeerArgs,
    X400PeersArgs, exit,
};
use channels::{X400, X400Peer};
use config::Config;
use mail::Mailbox;
use mta::commands::{ControlRequest, QueueResume, QueueSuspend};
use mta::control::{ControlResponse, Scope};
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use x400::mixer::{Gateway, Use};
use x400::mts::reader::read_whole;
use x400::mts::{ApduEvent, Limits, ReportContent};
use x400::or_name::OrAddress;

/// APDUs up to this size are decoded.
const APDU_BYTES_MAX: u64 = 64 << 20;

/// `postrider x400 …`.
pub(crate) fn run(args: &X400Args) -> ExitCode {
    match &args.command {
        X400Command::Peers(args) => peers(args),
        X400Command::Ping(args) => ping::ping(args),
        X400Command::Stop(args) => suspend(args),
        X400Command::Start(args) => resume(args),
        X400Command::Address(args) => address(args),
        X400Command::Decode(args) => decode(args),
    }
}

/// A peer, as it is listed.
#[derive(Serialize)]
struct PeerListing<'a> {
    name: &'a str,
    hosts: Vec<String>,
    mode: &'static str,
    their_name: &'a str,
    our_name: &'a str,
    routes: Vec<&'a str>,
}

fn peers(args: &X400PeersArgs) -> ExitCode {
    let config = match load::load(args.file.config.as_deref()) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let peers = config.of::<X400>().into_iter().flat_map(|x400| &x400.peers);
    let listed = peers.map(|peer| PeerListing {
        name: &peer.name,
        hosts: peer.hosts.iter().map(ToString::to_string).collect(),
        mode: peer.mode.word(),
        their_name: &peer.their_name,
        our_name: &peer.our_name,
        routes: channels::routes_to(&config, &peer.name),
    });
    let mut text = String::new();
    for peer in listed {
        if args.json {
            text.push_str(&serde_json::to_string(&peer).unwrap_or_default());
            text.push('\n');
            continue;
        }
        let PeerListing { name, hosts, mode, their_name, our_name, routes } = peer;
        let or_none = |list: String| if list.is_empty() { "none".to_owned() } else { list };
        let (hosts, routes) = (or_none(hosts.join(", ")), or_none(routes.join(", ")));
        // A String takes everything.
        let _ = writeln!(
            text,
            "{name}\n  hosts   {hosts}\n  mode    {mode}\n  names   \"{their_name}\" there, \"{our_name}\" here\n  \
             routes  {routes}"
        );
    }
    print(&text);
    ExitCode::SUCCESS
}

/// The peer of this name in a configuration.
fn peer_named<'c>(config: &'c Config, name: &str) -> Result<&'c Arc<X400Peer>, ExitCode> {
    let mut peers = config.of::<X400>().into_iter().flat_map(|x400| &x400.peers);
    peers.find(|peer| *peer.name == *name).ok_or_else(|| {
        eprintln!("postrider: unknown X.400 peer \"{name}\" in {}", config.file_name());
        ExitCode::from(exit::USAGE)
    })
}

fn suspend(args: &X400PeerArgs) -> ExitCode {
    let reason = format!("x400 stop {}", args.peer);
    for_routes(args, "stopped", |scope| {
        QueueSuspend { scope, reason: reason.clone(), until: None }.into()
    })
}

fn resume(args: &X400PeerArgs) -> ExitCode {
    for_routes(args, "started", |scope| QueueResume { scope }.into())
}

/// Puts a request to the server for each route that leads to a peer.
fn for_routes(
    args: &X400PeerArgs,
    done: &str,
    request: impl Fn(Scope) -> ControlRequest,
) -> ExitCode {
    let ServerArgs { config, .. } = &args.server;
    let config = match load::load(config.as_deref()) {
        Ok(config) => config,
        Err(code) => return code,
    };
    if let Err(code) = peer_named(&config, &args.peer) {
        return code;
    }
    let routes = channels::routes_to(&config, &args.peer);
    if routes.is_empty() {
        eprintln!("postrider: no route to peer \"{}\"", args.peer);
        return ExitCode::from(exit::FAILED);
    }
    for route in routes {
        let scope = Scope { route: Some(route.to_owned()), ..Scope::default() };
        let mut refused = None;
        let asked = asking::ask(&args.server, &request(scope), |response| {
            if let ControlResponse::Error { code, text } = response {
                refused = Some((code, text));
            }
            Ok(())
        });
        if let Err(code) = asked {
            return code;
        }
        if let Some((code, text)) = refused {
            return asking::refused(code, &text);
        }
        print(&format!("{done}: route {route} to peer {}\n", args.peer));
    }
    ExitCode::SUCCESS
}

fn address(args: &X400AddressArgs) -> ExitCode {
    let wrong = |why: &dyn std::fmt::Display| {
        eprintln!("postrider: \"{}\" is not an address: {why}", args.text);
        ExitCode::from(exit::USAGE)
    };
    let config = match load::load(args.file.config.as_deref()) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let gateway = gateway_of(&config);
    let given = match Mailbox::parse_any(&args.text) {
        Ok(given) => given,
        Err(error) => return wrong(&error),
    };
    let mailbox = match given.is_or_address() {
        true => given,
        false => {
            let mapped = gateway.to_or_address(given.as_str(), Use::Other);
            let mapped = mapped.and_then(|it| Mailbox::parse_any(&it.to_string()).ok());
            let Some(mapped) = mapped else { return wrong(&"no O/R address can hold it") };
            mapped
        }
    };
    let mail = OrAddress::parse(mailbox.as_str()).ok().and_then(|it| gateway.to_mail(&it));
    let address = mailbox.or_address().unwrap_or_default();
    let pairs = address.attributes().iter();
    let pairs: Vec<String> = pairs.map(|one| format!("{}={}", one.key(), one.value())).collect();
    let as_mail = channels::x400_as_mail(&config, &mailbox);
    let route = config.route_of(as_mail.as_ref().unwrap_or(&mailbox), None);
    let mut route = route.map_or("none matches".to_owned(), |(_, route)| route.name.to_string());
    if let Some(as_mail) = as_mail {
        route.push_str(&format!(", as internet mail for {as_mail}"));
    }
    print(&format!(
        "RFC 2156   {mailbox}\nX.402      {}\nas mail    {}\nrouted by  {}\nroute      {route}\n",
        pairs.join("; "),
        mail.as_deref().unwrap_or("no mapping"),
        mailbox.domain()
    ));
    ExitCode::SUCCESS
}

/// The configured gateway with its tables; otherwise one without tables, between our management domain and our host
/// name (RFC 2156 §4.3).
fn gateway_of(config: &Config) -> Gateway {
    if let Some(gateway) = channels::x400_gateway(config) {
        return gateway.clone();
    }
    let domain = config.of::<X400>().map(|x400| x400.domain.to_string()).unwrap_or_default();
    Gateway {
        address: OrAddress::parse(&domain).unwrap_or_default(),
        domain: config.hostname.as_str().into(),
        ..Gateway::default()
    }
}

fn decode(args: &X400DecodeArgs) -> ExitCode {
    let failed = |why: String| {
        eprintln!("postrider: {}: {why}", args.file.display());
        ExitCode::from(exit::FAILED)
    };
    let octets = match std::fs::metadata(&args.file).map(|found| found.len()) {
        Ok(length) if length > APDU_BYTES_MAX => {
            return failed(format!("it is longer than {APDU_BYTES_MAX} bytes"));
        }
        _ => std::fs::read(&args.file),
    };
    let octets = match octets {
        Ok(octets) => octets,
        Err(error) => return failed(error.to_string()),
    };
    let (event, content) = match read_whole(&octets, Limits::default()) {
        Ok(read) => read,
        Err(error) => return failed(error.to_string()),
    };
    match event {
        ApduEvent::Envelope { envelope: Ok(envelope), .. } => {
            print(&format!("{envelope:#?}\ncontent: {} octets\n", content.len()));
        }
        ApduEvent::Report { envelope: Ok(envelope), .. } => {
            match ReportContent::read(&content, &Limits::default()) {
                Ok(report) => print(&format!("{envelope:#?}\n{report:#?}\n")),
                Err(error) => return failed(error.to_string()),
            }
        }
        ApduEvent::Envelope { envelope: Err(broken), .. } => return failed(broken.to_string()),
        ApduEvent::Report { envelope: Err(error), .. } => return failed(error.to_string()),
        ApduEvent::Content(_) => return failed("it begins with content".to_owned()),
    }
    ExitCode::SUCCESS
}
