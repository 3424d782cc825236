//! Thousands of domains and few descriptors: what is scarce is waited for in line, healthy
//! domains are served whatever the others do, and nothing of ours is taken for a failure of a
//! peer. By hand with more: `SCARCITY_DOMAINS=4000`.

use crate::support::client::Client;
use crate::support::name_server::NameServer;
use crate::support::peer::Peer;
use crate::support::server::{CONFIG, POSTRIDER, Server};
use crate::support::{Files, config};
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

fn domains(usually: usize) -> usize {
    let asked = std::env::var("SCARCITY_DOMAINS").ok();
    asked.map_or(usually, |text| text.parse().expect("a number"))
}

/// A server that may have 1,024 files open.
fn start(files: &Files, names: &NameServer, port: &str, more: &str) -> Server {
    let text = config(&format!(
        "[dns]\nservers = [\"{}\"]\ntimeout = \"2s\"\nattempts = 1\n\
         [[route]]\nmx = {{ port = {port} }}\n\
         [retry]\nfirst = \"1s\"\nlongest = \"5s\"\ngive_up_after = \"1h\"\nwarn_after = \"0s\"\n\
         {more}",
        names.address
    ));
    files.write(CONFIG, &text);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 1024; exec \"$0\" serve --config \"$1\"", POSTRIDER, CONFIG]);
    Server::spawn(command, files.dir())
}

/// Hands in one message for each hundred of the addresses.
fn hand_in(server: &Server, recipients: &[String]) {
    for hundred in recipients.chunks(100) {
        let to: Vec<&str> = hundred.iter().map(String::as_str).collect();
        Client::connect(server.address()).mail("me@source.test", &to, "Subject: x\r\n\r\n");
    }
}

fn one_each(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("you@d{n}.test")).collect()
}

/// Waits until `count` recipients were relayed.
fn wait_relayed(files: &Files, count: usize) {
    let begun = Instant::now();
    loop {
        let relayed = files.events_of("relayed").len();
        if relayed >= count {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{relayed} of {count} relayed");
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn port_of(address: &str) -> &str {
    address.rsplit(':').next().expect("a port")
}

#[test]
fn a_silent_name_server_costs_no_mail_and_no_restart() {
    let files = Files::new();
    let peer = Peer::start(|_| None);
    let names = NameServer::of_any(|_| [127, 0, 0, 1]);
    names.set_answering(false);
    let server = start(&files, &names, port_of(&peer.address), "");
    let count = domains(600);
    let begun = Instant::now();
    hand_in(&server, &one_each(count));
    println!("{count} recipients were taken after {:?}", begun.elapsed());
    let waiting = server.json(&["queue", "list"]);
    let kinds = waiting.iter().flat_map(|item| item["recipients"].as_array().expect("a list"));
    assert!(kinds.clone().any(|one| one["blocker"]["kind"] == "lookup"), "{waiting:?}");
    server.wait_console("who is to blame", |line| {
        line.contains("warn  name_servers: lookups fail count=8")
    });
    let status = server.command(&["status"]).out;
    assert!(status.contains("name servers do not respond"), "{status}");
    std::thread::sleep(Duration::from_secs(5));
    // Mail is taken all the while.
    hand_in(&server, &[format!("me@d{count}.test")]);
    names.set_answering(true);
    let begun = Instant::now();
    wait_relayed(&files, count + 1);
    println!("all relayed {:?} after the name server came back", begun.elapsed());
    server.wait_console("their return", |line| {
        line.contains("warn  name_servers: DNS resolver recovered")
    });
    let deferred = files.events_of("deferred");
    assert!(deferred.is_empty(), "lack of ours is no failure: {deferred:?}");
    let complaints: Vec<_> =
        server.console().into_iter().filter(|line| line.contains("Too many open files")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    server.stop();
}

#[test]
fn many_healthy_domains_take_turns_with_few_descriptors() {
    let files = Files::new();
    let peer = Peer::start(|_| None);
    let names = NameServer::of_any(|_| [127, 0, 0, 1]);
    let server = start(&files, &names, port_of(&peer.address), "");
    let count = domains(600);
    let begun = Instant::now();
    hand_in(&server, &one_each(count));
    wait_relayed(&files, count);
    println!("{count} healthy domains: all relayed after {:?}", begun.elapsed());
    assert_eq!(files.events_of("deferred").len(), 0);
    assert_eq!(files.events_of("suspended").len(), 0, "nobody is to blame");
    server.stop();
}

#[test]
fn tarpits_leave_room_for_who_greets() {
    let files = Files::new();
    // Tarpits complete the connection in the kernel and never say a word. A port that is free for the
    // peer may be somebody else's at their address.
    let both = || {
        let peer = Peer::start(|_| None);
        let tarpit = TcpListener::bind(format!("127.0.0.2:{}", port_of(&peer.address))).ok()?;
        Some((peer, tarpit))
    };
    let (peer, _tarpit) = (0..10).find_map(|_| both()).expect("free on both addresses");
    let port = port_of(&peer.address).to_owned();
    let names = NameServer::of_any(|name| [127, 0, 0, if name.contains("tarpit") { 2 } else { 1 }]);
    let server = start(&files, &names, &port, "");
    let tarpits: Vec<_> =
        (0..30).flat_map(|n| (0..20).map(move |m| format!("u{m}@tarpit{n}.test"))).collect();
    for m in 0..20 {
        let each: Vec<_> =
            tarpits.iter().filter(|to| to.starts_with(&format!("u{m}@"))).cloned().collect();
        hand_in(&server, &each);
    }
    std::thread::sleep(Duration::from_secs(2));
    let begun = Instant::now();
    for n in 0..50 {
        hand_in(&server, &[format!("u{n}@healthy.test")]);
    }
    wait_relayed(&files, 50);
    println!("50 messages passed 30 tarpits in {:?}", begun.elapsed());
    server.stop();
}
