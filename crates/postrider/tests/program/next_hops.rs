//! Next hops that the DNS names: which host gets the mail, by whose settings, within which limits.

use crate::support::client::Client;
use crate::support::name_server::NameServer;
use crate::support::peer::Peer;
use crate::support::server::{CONFIG, Server};
use crate::support::tool::free_port;
use crate::support::{Files, config, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const FEATURES: &str = "250-8BITMIME\r\n250-SIZE 0\r\n250 DSN";

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
    wait_until("the fast mail", || is("v@fast") == 20);
    wait_until("the slow mail", || is("u@slow") == 8);
    // Two a second, of which the first may have been saved up.
    assert!(begun.elapsed() >= Duration::from_millis(2_400), "{:?}", begun.elapsed());
    for event in files.wait_events("relayed", 29) {
        let slow = event["recipient"].as_str().expect("text").ends_with("slow.test");
        assert_eq!(event["route"], if slow { "careful" } else { "rest" }, "{event}");
    }
    server.stop();
}

/// A server with one route, by MX, that tries again after a second.
fn by_mx(files: &Files, names: &NameServer, port: u16, more: &str) -> Server {
    let route = format!(
        "[[route]]\nmx = {{ port = {port}{more} }}\nretry = {{ first = \"1s\", jitter = 0.0 }}\n"
    );
    Server::start(files, &config(&(names.section() + &route)))
}

/// A peer at 127.0.0.`n` with this script.
fn scripted(
    n: u8,
    port: u16,
    script: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
) -> Peer {
    Peer::start_at(&format!("127.0.0.{n}:{port}"), FEATURES, script)
}

fn greets(n: u8, port: u16, greeting: &'static str) -> Peer {
    scripted(n, port, move |line| line.is_empty().then(|| greeting.to_owned()))
}

/// Two hosts for a.test, mx1 at 127.0.0.2 and behind it mx2 at 127.0.0.3.
fn two_hosts() -> NameServer {
    let names = NameServer::start();
    names.host("mx1.test", &["127.0.0.2"]);
    names.host("mx2.test", &["127.0.0.3"]);
    names.mx("a.test", &[(10, "mx1.test"), (20, "mx2.test")]);
    names
}

/// The status with which the only message failed.
fn failed(files: &Files) -> String {
    let events = files.wait_events("failed", 1);
    events[0]["status"].as_str().expect("a status").to_owned()
}

#[test]
fn hosts_that_take_no_mail_at_first_return_none() {
    let no_mail = "521 5.7.504 no mail here";
    for greetings in [[no_mail, "554 5.7.1 no service"], [no_mail, no_mail]] {
        let (files, names, port) = (Files::new(), two_hosts(), free_port());
        let is_over = Arc::new(AtomicBool::new(false));
        let [first, second] = [(2, greetings[0]), (3, greetings[1])].map(|(n, greeting)| {
            let is_over = Arc::clone(&is_over);
            scripted(n, port, move |line| {
                (line.is_empty() && !is_over.load(Ordering::Relaxed)).then(|| greeting.to_owned())
            })
        });
        let server = by_mx(&files, &names, port, "");
        send(&server, "u@a.test", 3);
        let suspended = &files.wait_events("suspended", 1)[0];
        let reply = suspended["reply"].as_str().expect("a reply");
        assert!(greetings.contains(&reply), "{suspended}");
        is_over.store(true, Ordering::Relaxed);
        files.wait_events("relayed", 3);
        assert_eq!(first.taken().len() + second.taken().len(), 3);
        for kind in ["failed", "dsn_queued"] {
            assert!(files.events_of(kind).is_empty(), "{kind}, {greetings:?}");
        }
        server.stop();
    }
}

#[test]
fn a_host_that_takes_no_mail_is_left_out_while_another_does() {
    let (files, names, port) = (Files::new(), two_hosts(), free_port());
    let _first = greets(2, port, "521 5.7.504 no mail here");
    let second = host(3, port);
    let server = by_mx(&files, &names, port, "");
    send(&server, "u@a.test", 3);
    second.wait_taken(3);
    assert!(files.events_of("failed").is_empty());
    server.stop();
}

#[test]
fn hosts_that_do_not_exist_are_final_and_so_are_addresses_in_their_place() {
    for records in [&[(10, "gone1.test"), (20, "gone2.test")][..], &[(10, "127.0.0.2")]] {
        let (files, names, port) = (Files::new(), NameServer::start(), free_port());
        let peer = host(2, port);
        names.mx("a.test", records);
        let server = by_mx(&files, &names, port, "");
        send(&server, "u@a.test", 1);
        assert_eq!(failed(&files), "5.4.4", "{records:?}");
        assert!(peer.taken().is_empty());
        server.stop();
    }
}

#[test]
fn private_addresses_are_refused_where_the_route_says_so() {
    let (files, names, port) = (Files::new(), two_hosts(), free_port());
    let first = host(2, port);
    let server = by_mx(&files, &names, port, ", refuse_private = true");
    send(&server, "u@a.test", 1);
    assert_eq!(failed(&files), "5.4.4");
    assert!(first.taken().is_empty());
    server.stop();
}

#[test]
fn where_one_host_puts_a_transaction_off_the_next_takes_it_at_once() {
    for step in ["MAIL", "DATA", "."] {
        let (files, names, port) = (Files::new(), two_hosts(), free_port());
        let _first = scripted(2, port, move |line| {
            line.starts_with(step).then(|| "451 4.3.0 the disk is full".to_owned())
        });
        let second = host(3, port);
        let server = by_mx(&files, &names, port, "");
        send(&server, "u@a.test", 1);
        second.wait_taken(1);
        assert_eq!(files.events_of("deferred").len(), 0, "{step}");
        server.stop();
    }
}

#[test]
fn where_all_hosts_put_a_transaction_off_each_is_asked_once() {
    let (files, names, port) = (Files::new(), two_hosts(), free_port());
    let asked = Arc::new(AtomicU32::new(0));
    let puts_off = |last| {
        let asked = Arc::clone(&asked);
        scripted(last, port, move |line| {
            line.starts_with("MAIL").then(|| {
                asked.fetch_add(1, Ordering::Relaxed);
                "451 4.3.0 the disk is full".to_owned()
            })
        })
    };
    let (_first, _second) = (puts_off(2), puts_off(3));
    let route = format!("[[route]]\nmx = {{ port = {port} }}\nretry = {{ first = \"1h\" }}\n");
    let server = Server::start(&files, &config(&(names.section() + &route)));
    send(&server, "u@a.test", 1);
    files.wait_events("deferred", 1);
    server.stop();
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_eq!(files.events_of("deferred").len(), 1);
}

#[test]
fn a_host_that_puts_a_transaction_off_is_asked_once_though_the_next_can_t_be_had() {
    // Without an address; with one that the route refuses; and dead.
    for (addresses, more) in
        [(&[][..], ""), (&["127.0.0.3"], ""), (&["10.0.0.1"], ", connect_timeout = \"1s\"")]
    {
        let (files, names, port) = (Files::new(), NameServer::start(), free_port());
        names.host("mx1.test", &["127.0.0.2"]);
        names.host("mx2.test", addresses);
        names.mx("a.test", &[(10, "mx1.test"), (20, "mx2.test")]);
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let _first = scripted(2, port, move |line| {
            line.starts_with("MAIL").then(|| {
                count.fetch_add(1, Ordering::Relaxed);
                "451 4.3.0 the disk is full".to_owned()
            })
        });
        let route =
            format!("[[route]]\nmx = {{ port = {port}{more} }}\nretry = {{ first = \"1h\" }}\n");
        let server = Server::start(&files, &config(&(names.section() + &route)));
        send(&server, "u@a.test", 1);
        files.wait_events("deferred", 1);
        server.stop();
        // Once more where the second host was looked for only behind the first.
        assert!(asked.load(Ordering::Relaxed) <= 2, "{addresses:?}: {asked:?}");
        assert_eq!(files.events_of("deferred").len(), 1);
    }
}

#[test]
fn a_greylisted_recipient_is_tried_again_at_the_same_host() {
    let (files, names, port) = (Files::new(), two_hosts(), free_port());
    let seen = AtomicU32::new(0);
    let first = scripted(2, port, move |line| {
        let rcpt = line.starts_with("RCPT");
        let again = rcpt && seen.fetch_add(1, Ordering::Relaxed) > 0;
        (rcpt && !again).then(|| "450 4.2.0 greylisted".to_owned())
    });
    let second = host(3, port);
    let server = by_mx(&files, &names, port, "");
    send(&server, "u@a.test", 1);
    first.wait_taken(1);
    assert!(second.taken().is_empty());
    server.stop();
}

#[test]
fn a_peer_that_is_called_as_we_are_is_ourselves() {
    let (files, names, port) = (Files::new(), two_hosts(), free_port());
    let first = scripted(2, port, |line| {
        line.starts_with("EHLO").then(|| "250-Relay.Test\r\n250 DSN".to_owned())
    });
    // RFC 5321 §5.1: what is less preferred than we are is not tried.
    let second = host(3, port);
    let server = by_mx(&files, &names, port, "");
    send(&server, "u@a.test", 1);
    assert_eq!(failed(&files), "5.4.6");
    assert!(first.taken().is_empty() && second.taken().is_empty());
    server.stop();
}

#[test]
fn eight_addresses_that_no_way_leads_to_do_not_hide_the_one_that_works() {
    let (files, names, port) = (Files::new(), NameServer::start(), free_port());
    let peer = host(2, port);
    // RFC 6666: the discard prefix.
    let dead: Vec<String> = (1..=8).map(|n| format!("100::{n}")).collect();
    let mut addresses: Vec<&str> = dead.iter().map(String::as_str).collect();
    addresses.push("127.0.0.2");
    names.host("mx1.test", &addresses);
    names.mx("a.test", &[(10, "mx1.test")]);
    let server = by_mx(&files, &names, port, ", connect_timeout = \"1s\"");
    send(&server, "u@a.test", 1);
    peer.wait_taken(1);
    server.stop();
}

#[test]
fn a_connection_from_before_a_reload_that_changed_its_route_carries_no_more() {
    let (files, names, port) = (Files::new(), two_hosts(), free_port());
    let greeted = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let kept = std::sync::Arc::clone(&greeted);
    let first = scripted(2, port, move |line| {
        if line.starts_with("EHLO") {
            kept.lock().expect("no panic").push(line.to_owned());
        }
        None
    });
    let server = by_mx(&files, &names, port, ", idle_timeout = \"60s\"");
    send(&server, "u@a.test", 1);
    first.wait_taken(1);
    let path = files.path(CONFIG);
    let text = std::fs::read_to_string(&path).expect("the configuration");
    std::fs::write(&path, text.replace("relay.test", "other.test")).expect("written");
    assert_eq!(server.command(&["reload"]).code, 0);
    send(&server, "u@a.test", 1);
    first.wait_taken(2);
    assert_eq!(*greeted.lock().expect("no panic"), ["EHLO relay.test", "EHLO other.test"]);
    server.stop();
}

#[test]
fn a_route_to_a_listener_of_ours_fails_at_once() {
    let (files, port) = (Files::new(), free_port());
    let route = format!(
        "[[route]]\ndomains = [\"far.test\"]\nsmtp = {{ hosts = [\"127.0.0.1:{port}\"] }}\n\
         [[route]]\ndiscard = {{}}\n"
    );
    let text = config(&route).replace("127.0.0.1:0", &format!("127.0.0.1:{port}"));
    let server = Server::start(&files, &text);
    send(&server, "u@far.test", 1);
    assert_eq!(failed(&files), "5.4.6");
    // It has not come back to us a single time.
    let received = files.events_of("received");
    assert_eq!(received.len(), 1, "{received:?}");
    server.stop();
}
