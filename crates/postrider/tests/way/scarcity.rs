//! What is scarce, and strangers who take what they can get: others are served all the same.

use super::client::submit;
use super::node::{Node, config, play};
use super::peer::Peer;
use super::world::TestWorld;
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
    let mut longest = Duration::ZERO;
    for n in 0..count {
        let domain = format!("good{n}.test");
        node.world.set_mx(&domain, Ok(vec![Mx { preference: 0, host: format!("mx.{domain}") }]));
        node.world.set_addresses(&format!("mx.{domain}"), Ok(vec![[192, 0, 2, 7].into()]));
        let began = node.age();
        submit(node, "me@source.test", &[&format!("b@{domain}")]).await;
        node.wait_for("relayed", n + 1).await;
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
