//! Signals: an orderly end, and another configuration while it runs.

use crate::support::client::{Client, queued_id};
use crate::support::peer::Peer;
use crate::support::server::{CONFIG, Server, control};
use crate::support::tool::free_port;
use crate::support::{Files, config, wait_until};
use rustix::process::Signal;
use std::time::{Duration, Instant};

fn smtp_to(hop: &str) -> String {
    config(&format!(
        "[[route]]\nsmtp = {{ hosts = [\"{hop}\"] }}\n[retry]\nfirst = \"1s\"\nlongest = \"1s\"\n"
    ))
}

#[test]
fn what_runs_may_finish_and_the_queue_stays() {
    let files = Files::new();
    let hop = format!("127.0.0.1:{}", free_port());
    let mut server = Server::start(&files, &smtp_to(&hop));
    let mut idle = Client::connect(server.address());
    let mut slow = Client::connect(server.address());
    idle.mail("a@source.test", &["queued@far.test"], "Subject: queued\r\n\r\n");
    slow.say("MAIL FROM:<a@source.test>", "250");
    slow.say("RCPT TO:<slow@far.test>", "250");
    slow.say("DATA", "354");
    slow.send("Subject: slow\r\n\r\nBegun before,\r\n");
    let address = server.address();
    let begun = Instant::now();
    server.signal(Signal::TERM);
    idle.expect("421 4.3.2");
    assert_eq!(idle.rest(), "");
    assert!(begun.elapsed() < Duration::from_secs(2), "at once: {:?}", begun.elapsed());
    // New clients are not let in.
    wait_until("the listener is closed", || {
        std::net::TcpStream::connect(address).is_err()
            || !Client::raw(address).reply().starts_with("220")
    });
    std::thread::sleep(Duration::from_secs(1));
    slow.send("ended after.\r\n.\r\n");
    queued_id(&slow.expect("250"));
    assert!(slow.rest().starts_with("421"));
    let status = server.wait();
    assert!(status.success(), "{status}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());

    let peer = Peer::start_at(&hop, "250 HELP", |_| None);
    let server = Server::start_again(&files);
    let taken = peer.wait_taken(2);
    let mut rcpt: Vec<_> = taken.iter().flat_map(|taken| taken.rcpt.clone()).collect();
    rcpt.sort();
    assert_eq!(rcpt, ["RCPT TO:<queued@far.test>", "RCPT TO:<slow@far.test>"]);
    let slow = taken.iter().find(|taken| taken.rcpt[0].contains("slow")).expect("it was taken");
    assert!(slow.content.ends_with(b"Begun before,\r\nended after.\r\n"));
    wait_until("an empty queue", || server.queue().is_empty());
    server.stop();
}

#[test]
fn who_does_not_finish_is_cut_off_after_five_seconds() {
    let files = Files::new();
    let peer = Peer::start(|_| None);
    let mut server = Server::start(&files, &smtp_to(&peer.address));
    let mut stuck = Client::connect(server.address());
    stuck.say("MAIL FROM:<a@source.test>", "250");
    stuck.say("RCPT TO:<b@far.test>", "250");
    stuck.say("DATA", "354");
    stuck.send("Subject: never ended\r\n\r\n");
    let begun = Instant::now();
    server.signal(Signal::TERM);
    stuck.expect("421");
    assert!(server.wait().success());
    let took = begun.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(8)).contains(&took), "{took:?}");
    let server = Server::start_again(&files);
    assert!(server.queue().is_empty());
    server.stop();
    assert_eq!(peer.taken(), []);
}

#[test]
fn another_configuration_reaches_queued_mail() {
    let files = Files::new();
    let dead = format!("127.0.0.1:{}", free_port());
    let server = Server::start(&files, &smtp_to(&dead));
    let mut client = Client::connect(server.address());
    let id = client.mail("a@source.test", &["b@far.test"], "Subject: rerouted\r\n\r\n");
    wait_until("the hop's failure is known", || {
        server.json(&["queue", "why", &id])[0]["recipients"][0]["blocker"]["kind"] == "backoff"
    });
    // A mistake: the old one stays, and the console says where the mistake is.
    let good = std::fs::read_to_string(files.path(CONFIG)).expect("a configuration");
    files.write(CONFIG, &good.replace("smtp = {", "smpt = {"));
    let line = 1 + good.lines().position(|line| line.starts_with("smtp")).expect("a line");
    server.signal(Signal::HUP);
    server.wait_console("what is wrong and where", |said| {
        said.contains(&format!("{CONFIG}:{line}:1"))
    });
    let answer = control(files.dir(), &["reload"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.err.contains(&format!("{CONFIG}:{line}:1")), "{answer:?}");
    assert_eq!(server.queue().len(), 1, "it works as before");
    // The right one: everything goes to a peer that is there.
    let peer = Peer::start(|_| None);
    files.write(CONFIG, &good.replace(&dead, &peer.address));
    server.signal(Signal::HUP);
    server.wait_console("the reload", |said| said.contains("configuration reloaded"));
    assert_eq!(peer.wait_taken(1)[0].rcpt, ["RCPT TO:<b@far.test>"]);
    // Sessions that were open go on, under the new one.
    client.mail("a@source.test", &["c@far.test"], "Subject: again\r\n\r\n");
    peer.wait_taken(2);
    server.stop();
}
