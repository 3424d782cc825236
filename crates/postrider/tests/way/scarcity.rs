//! What is scarce, and strangers who take what they can get: others are served all the same.

use super::client::{Client, FRIEND, submit};
use super::node::{Node, config, play, wait_until};
use super::peer::Peer;
use super::world::TestWorld;
use mta::line::SemaphoreLimits;
use mta::seams::Mx;
use std::time::Duration;

/// Sixteen lookups at once.
const MX: &str = "[dns]\nmax_lookups = 16\n[retry]\njitter = 0\n[[route]]\nmx = {}";

/// `domain` has so many hosts below `zone`.
fn set_hosts(world: &TestWorld, domain: &str, zone: &str, count: u16) {
    let label = domain.split('.').next().unwrap_or(domain);
    let host = |n| Mx { preference: n, host: format!("h{n}.{label}.{zone}") };
    world.set_mx(domain, Ok((0..count).map(host).collect()));
}

/// Mail for so many domains, a hundred of a message.
async fn flood(node: &Node, domain: impl Fn(usize) -> String, count: usize) {
    let all: Vec<String> = (0..count).map(|n| format!("a@{}", domain(n))).collect();
    for some in all.chunks(100) {
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        submit(node, "stranger@source.test", &some).await;
    }
}

/// Healthy domains, one after the other: how long mail to each of them took at most.
async fn served(node: &Node, count: usize) -> Duration {
    let (mut longest, before) = (Duration::ZERO, node.count("relayed"));
    for n in 0..count {
        let domain = format!("good{n}.test");
        node.world.set_mx(&domain, Ok(vec![Mx { preference: 0, host: format!("mx.{domain}") }]));
        node.world.set_addresses(&format!("mx.{domain}"), Ok(vec![[192, 0, 2, 7].into()]));
        let began = node.age();
        submit(node, "me@source.test", &[&format!("b@{domain}")]).await;
        node.wait_for("relayed", before + n + 1).await;
        longest = longest.max(node.age() - began);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    longest
}

#[test]
fn domains_whose_hosts_are_never_answered_for_keep_no_others_from_being_found() {
    play(|| async {
        let node = Node::start(&config(MX)).await;
        let _peer = Peer::at(&node.world, "192.0.2.7:25");
        node.world.set_unanswered("silent.test");
        for n in 0..400 {
            set_hosts(&node.world, &format!("d{n}.wild.test"), "silent.test", 16);
        }
        flood(&node, |n| format!("d{n}.wild.test"), 400).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let longest = served(&node, 60).await;
        assert!(longest < Duration::from_secs(2), "{longest:?}");
    });
}

#[test]
fn domains_that_are_never_answered_for_keep_no_others_from_being_found() {
    play(|| async {
        let node = Node::start(&config(MX)).await;
        let _peer = Peer::at(&node.world, "192.0.2.7:25");
        node.world.set_unanswered("wild.test");
        flood(&node, |n| format!("d{n}.wild.test"), 1_000).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let longest = served(&node, 60).await;
        assert!(longest < Duration::from_secs(2), "{longest:?}");
    });
}

/// A hundred zones of a stranger, each with a name server that says nothing.
#[test]
fn a_hundred_dead_zones_keep_no_others_from_being_found_for_long() {
    play(|| async {
        let node = Node::start(&config(MX)).await;
        let _peer = Peer::at(&node.world, "192.0.2.7:25");
        for zone in 0..100 {
            node.world.set_unanswered(&format!("dead{zone}.test"));
        }
        flood(&node, |n| format!("d{n}.dead{}.test", n % 100), 1_000).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(node.pressure("dns_lookups").is_some_and(|text| text.contains("dead")));
        // Each was silent once by then, and all of them are doubtful.
        tokio::time::sleep(Duration::from_secs(120)).await;
        let longest = served(&node, 60).await;
        assert!(longest < Duration::from_secs(2), "{longest:?}");
    });
}

#[test]
fn what_is_at_hand_needs_no_turn() {
    play(|| async {
        let node = Node::start(&config("[dns]\nmax_lookups = 1\n[[route]]\nmx = {}")).await;
        let _peer = Peer::at(&node.world, "192.0.2.7:25");
        node.world.set_unanswered("wild.test");
        flood(&node, |n| format!("d{n}.wild.test"), 10).await;
        node.world.keep_at_hand();
        let longest = served(&node, 10).await;
        assert_eq!(longest.as_secs(), 0, "{longest:?}");
    });
}

#[test]
fn a_name_that_got_no_answer_is_not_asked_for_again_at_once() {
    play(|| async {
        let node = Node::start(&config(MX)).await;
        node.world.set_unanswered("wild.test");
        submit(&node, "me@source.test", &["a@d.wild.test"]).await;
        node.wait_for("suspended", 1).await;
        // Another tenant of the queue, so to say: mail that asks for other TLS is resolved for itself.
        let asked = || node.world.asked().iter().filter(|name| *name == "d.wild.test").count();
        let before = asked();
        submit(&node, "me@source.test", &["b@d.wild.test"]).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(asked(), before);
    });
}

/// Sixteen megabytes for bodies, a quarter of them for what is read back; and two next hops.
const READS: &str = "[spool]\nbody_memory_bytes = \"16MiB\"\n[retry]\njitter = 0\n\
                     [[route]]\ndomains = [\"evil.test\"]\nsmtp = { hosts = [\"192.0.2.66:25\"] }\n\
                     [[route]]\nsmtp = { hosts = [\"192.0.2.7:25\"] }";

/// Messages of 1.9 MB wait for a peer that is silent at `step`, small ones for a healthy one, and all
/// must be read back. How long the healthy one's take.
async fn read_back(step: &'static str) -> Duration {
    let node = Node::start(&config(READS)).await;
    let large = format!("{}\r\n", "x".repeat(76)).repeat(24_000);
    let mut client = Client::connect(&node, FRIEND).await;
    for n in 0..20 {
        for (to, body) in [("evil.test", &*large), ("good.test", "small\r\n")] {
            let to = format!("{n}@{to}");
            let reply = client.send("me@source.test", &[&to], body).await;
            assert!(reply.starts_with("250 "), "{reply}");
        }
    }
    drop(client);
    let node = node.restart().await;
    let evil = Peer::at(&node.world, "192.0.2.66:25");
    evil.always(step, "silence");
    let _good = Peer::at(&node.world, "192.0.2.7:25");
    let began = node.age();
    node.wait_for("relayed", 20).await;
    assert!(node.of("relayed").iter().all(|event| event["recipient"] != "0@evil.test"));
    node.age() - began
}

#[test]
fn peers_that_are_silent_hold_no_memory_that_others_need() {
    for step in ["CONNECT", "EHLO", "MAIL", "RCPT", "DATA", "content", "."] {
        play(|| async {
            let took = read_back(step).await;
            assert!(took < Duration::from_secs(30), "{step}: {took:?}");
        });
    }
}

/// Where all memory is less than the largest message may take, small ones are read beside large ones.
#[test]
fn small_messages_find_memory_beside_large_ones_however_little_there_is() {
    play(|| async {
        let node = Node::start(&config(&READS.replace("16MiB", "4MiB"))).await;
        let large = format!("{}\r\n", "x".repeat(76)).repeat(5_000);
        let mut client = Client::connect(&node, FRIEND).await;
        for n in 0..40 {
            for (to, body) in [("evil.test", &*large), ("good.test", "small\r\n")] {
                let to = format!("{n}@{to}");
                assert!(client.send("me@source.test", &[&to], body).await.starts_with("250 "));
            }
        }
        drop(client);
        let node = node.restart().await;
        // No content goes out unread.
        node.world.set_pipe_bytes(1_024);
        let evil = Peer::at(&node.world, "192.0.2.66:25");
        evil.always("content", "slow");
        let good = Peer::at(&node.world, "192.0.2.7:25");
        let began = node.age();
        wait_until("small ones are taken", || good.contents() == 40).await;
        let took = node.age() - began;
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
}

#[test]
fn a_content_that_is_written_holds_no_memory_while_its_reply_is_waited_for() {
    play(|| async {
        for bytes in [70_000, 1_900_000] {
            let node = Node::start(&config(READS)).await;
            let large = format!("{}\r\n", "x".repeat(76)).repeat(bytes / 78);
            let mut client = Client::connect(&node, FRIEND).await;
            for n in 0..6 {
                let to = format!("{n}@evil.test");
                let reply = client.send("me@source.test", &[&to], &large).await;
                assert!(reply.starts_with("250 "), "{reply}");
            }
            drop(client);
            let node = node.restart().await;
            let evil = Peer::at(&node.world, "192.0.2.66:25");
            evil.always(".", "silence");
            wait_until("all are written", || evil.contents() == 6).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(node.metrics.messages_read_back.get() >= 6);
            assert_eq!(node.shared.reads.used(), 0, "{bytes}");
        }
    });
}

#[test]
fn a_peer_that_reads_slowly_gets_all_of_a_content_that_was_let_go_meanwhile() {
    play(|| async {
        // Room for one of them.
        let node = Node::start(&config(&READS.replace("16MiB", "8MiB"))).await;
        let mut client = Client::connect(&node, FRIEND).await;
        let line = |n: usize| format!("{n:06} {}\r\n", "x".repeat(68));
        for n in 0..6 {
            let large: String = (0..24_000).map(|k| line(k + n)).collect();
            let to = [&*format!("{n}@evil.test")];
            assert!(client.send("me@source.test", &to, &large).await.starts_with("250 "));
            let to = [&*format!("{n}@good.test")];
            assert!(client.send("me@source.test", &to, &large).await.starts_with("250 "));
        }
        drop(client);
        let node = node.restart().await;
        let peer = Peer::at(&node.world, "192.0.2.66:25");
        peer.always("content", "slow");
        let _good = Peer::at(&node.world, "192.0.2.7:25");
        node.wait_for("relayed", 12).await;
        let sent = peer.messages();
        assert!(node.metrics.messages_read_back.get() > 12, "some were let go");
        for message in sent {
            let n: usize = message.to[0].split('@').next().and_then(|n| n.parse().ok()).unwrap();
            let body = message.content.split_once("\r\n\r\n").map(|(_, body)| body).unwrap();
            let expected: String = (0..24_000).map(|k| line(k + n)).collect();
            assert!(body == expected, "{n}: what was read twice fits together");
        }
    });
}

/// Sixteen connections, divided as the program divides them.
fn few_connections(node: &Node) {
    node.shared.connections.set_parts(SemaphoreLimits {
        max: 16,
        owner_max: 2,
        good_owner_max: 16,
        unproven_max: 4,
        doubtful_max: 2,
    });
}

/// Sixty domains of one zone have a host each, all of which greet and are silent at `step`; healthy domains
/// come after them.
async fn beside_tarpits(step: &'static str) -> Duration {
    let node = Node::start(&config("[retry]\njitter = 0\n[[route]]\nmx = {}")).await;
    few_connections(&node);
    let _peer = Peer::at(&node.world, "192.0.2.7:25");
    let tarpit = Peer::at(&node.world, "192.0.2.66:25");
    tarpit.always(step, "silence");
    for n in 0..60 {
        set_hosts(&node.world, &format!("d{n}.wild.test"), "wild.test", 1);
        let host = format!("h0.d{n}.wild.test");
        node.world.set_addresses(&host, Ok(vec![[192, 0, 2, 66].into()]));
    }
    flood(&node, |n| format!("d{n}.wild.test"), 60).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let longest = served(&node, 20).await;
    assert!(node.pressure("connections").is_some(), "{step}");
    longest
}

#[test]
fn hosts_that_greet_and_fall_silent_leave_connections_for_others() {
    for step in ["CONNECT", "EHLO", "MAIL", "RCPT", "DATA", "content", "."] {
        play(|| async {
            let longest = beside_tarpits(step).await;
            assert!(longest < Duration::from_secs(2), "{step}: {longest:?}");
        });
    }
}

#[test]
fn a_host_that_accepted_mail_and_is_silent_now_is_no_longer_well() {
    play(|| async {
        let node = Node::start(&config("[retry]\njitter = 0\n[[route]]\nmx = {}")).await;
        few_connections(&node);
        let peer = Peer::at(&node.world, "192.0.2.66:25");
        let healthy = Peer::at(&node.world, "192.0.2.7:25");
        let domain = |n: usize| format!("d{n}.wild{n}.test");
        for n in 0..40 {
            let (domain, host) = (domain(n), format!("mx.d{n}.wild{n}.test"));
            node.world.set_mx(&domain, Ok(vec![Mx { preference: 0, host: host.clone() }]));
            node.world.set_addresses(&host, Ok(vec![[192, 0, 2, 66].into()]));
        }
        // All of them have accepted something.
        flood(&node, domain, 40).await;
        node.wait_for("relayed", 40).await;
        peer.always("MAIL", "silence");
        flood(&node, domain, 40).await;
        // Half of them wait for their turn for as long as the others count as well.
        tokio::time::sleep(Duration::from_secs(100)).await;
        let longest = served(&node, 10).await;
        assert!(longest < Duration::from_secs(10), "{longest:?}");
        assert_eq!(healthy.messages().len(), 10);
    });
}
