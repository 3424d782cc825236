//! Next hops that the DNS names: which host gets the mail, by whose settings, within which limits.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod support;
use std::net::TcpListener;
use std::time::{Duration, Instant};
use support::client::Client;
use support::name_server::NameServer;
use support::peer::Peer;
use support::server::Server;
use support::{Files, config};

const FEATURES: &str = "250-8BITMIME\r\n250-SIZE 0\r\n250 DSN";

/// A port that is free on all of 127.0.0.0/8, as far as one can know.
fn free_port() -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}

/// A peer that takes everything, at 127.0.0.`n`.
fn host(n: u8, port: u16) -> Peer {
    Peer::start_at(&format!("127.0.0.{n}:{port}"), FEATURES, |_| None)
}

fn send(server: &Server, to: &str, count: usize) {
    let mut client = Client::connect(server.address());
    for n in 0..count {
        client.mail("me@source.test", &[to], &format!("Subject: {n}\r\n\r\nHello.\r\n"));
    }
}

#[test]
fn domains_with_the_same_hosts_keep_their_own_order() {
    let (files, names, port) = (Files::new(), NameServer::start(), free_port());
    let (first, second) = (host(2, port), host(3, port));
    names.host("mx1.test", &["127.0.0.2"]);
    names.host("mx2.test", &["127.0.0.3"]);
    names.mx("a.test", &[(10, "mx1.test"), (20, "mx2.test")]);
    names.mx("b.test", &[(10, "mx2.test"), (20, "mx1.test")]);
    let route = format!("[[route]]\nmx = {{ port = {port} }}\n");
    let server = Server::start(&files, &config(&(names.section() + &route)));
    send(&server, "u@a.test", 1);
    first.wait_taken(1);
    // Whoever is looked up last, and by whatever preference its domain has the same hosts.
    send(&server, "u@b.test", 1);
    second.wait_taken(1);
    send(&server, "u@a.test", 5);
    first.wait_taken(6);
    assert_eq!(second.taken().len(), 1, "the backup of a.test was not needed");
    let listed: Vec<String> = files
        .wait_events("relayed", 7)
        .iter()
        .map(|event| event["next_hop"].as_str().expect("text").to_owned())
        .collect();
    assert!(listed.iter().any(|hop| hop.starts_with("mx2.test[127.0.0.3]")), "{listed:?}");
    server.stop();
}

#[test]
fn another_route_with_the_same_hosts_changes_neither_settings_nor_rate_nor_events() {
    let (files, names, port) = (Files::new(), NameServer::start(), free_port());
    let features = "250-PIPELINING\r\n250-CHUNKING\r\n250 8BITMIME";
    let peer = Peer::start_at(&format!("127.0.0.2:{port}"), features, |_| None);
    names.host("m.test", &["127.0.0.2"]);
    names.mx("slow.test", &[(10, "m.test")]);
    names.mx("fast.test", &[(10, "m.test")]);
    let routes = format!(
        "[[route]]\nname = \"careful\"\ndomains = [\"slow.test\"]\n\
         mx = {{ port = {port}, chunking = false, messages_per_second = 2, max_connections = 1 }}\n\
         [[route]]\nname = \"rest\"\nmx = {{ port = {port}, chunking = false }}\n"
    );
    let server = Server::start(&files, &config(&(names.section() + &routes)));
    send(&server, "u@slow.test", 1);
    peer.wait_taken(1);
    send(&server, "u@fast.test", 1);
    peer.wait_taken(2);
    let begun = Instant::now();
    send(&server, "u@slow.test", 7);
    // The rate of one does not hold up the other.
    send(&server, "v@fast.test", 20);
    let is = |what: &str| {
        let taken = peer.taken();
        taken.iter().filter(|taken| taken.rcpt[0].contains(what)).count()
    };
    support::wait_until("the fast mail", || is("v@fast") == 20);
    support::wait_until("the slow mail", || is("u@slow") == 8);
    // Two a second, of which the first may have been saved up.
    assert!(begun.elapsed() >= Duration::from_millis(2_400), "{:?}", begun.elapsed());
    for event in files.wait_events("relayed", 29) {
        let slow = event["recipient"].as_str().expect("text").ends_with("slow.test");
        assert_eq!(event["route"], if slow { "careful" } else { "rest" }, "{event}");
    }
    server.stop();
}
