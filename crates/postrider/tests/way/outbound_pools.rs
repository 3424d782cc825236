//! Pools that mail on its way out needs: next hops of strangers, with a hundred zones and networks, take what they can
//! get and are silent, and more mail for them comes all the time. Of a hundred domains that nobody has written to yet
//! none is kept waiting.

use super::client::{Client, FRIEND, submit};
use super::node::{Node, config, play};
use super::peer::Peer;
use super::pools::{SOON, hundred};
use mta::line::SemaphoreLimits;
use mta::seams::Mx;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

const MX: &str = "[retry]\njitter = 0\n[[route]]\nmx = {}";

/// One /64 of a hundred.
pub(crate) fn network(n: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 9, n, 0, 0, 0, 25).into()
}

/// A domain has one host, at this address.
pub(crate) fn set_host(node: &Node, domain: &str, at: IpAddr) {
    let host = format!("mx.{domain}");
    node.world.set_mx(domain, Ok(vec![Mx { preference: 0, host: host.clone() }]));
    node.world.set_addresses(&host, Ok(vec![at]));
}

/// A hundred peers of strangers, each in a network of its own.
fn set_peers(node: &Node, step: &'static str, reply: &str) {
    for n in 0..100 {
        let peer = Peer::at(&node.world, &format!("[{}]:25", network(n)));
        peer.always(step, reply);
    }
}

/// Mail for new domains of a hundred zones, again and again.
fn flood(node: &Rc<Node>) {
    let node = Rc::clone(node);
    tokio::task::spawn_local(async move {
        for round in 0.. {
            let domains: Vec<String> = (0..100).map(|n| format!("d{round}.evil{n}.test")).collect();
            for (n, domain) in domains.iter().enumerate() {
                set_host(&node, domain, network(n as u16));
            }
            let to: Vec<String> = domains.iter().map(|domain| format!("a@{domain}")).collect();
            submit(&node, "stranger@source.test", &to.iter().map(|to| &**to).collect::<Vec<_>>())
                .await;
            sleep(Duration::from_millis(500)).await;
            if node.is_quiet() {
                return;
            }
        }
    });
}

/// Mail to a hundred domains that nobody has written to.
async fn hundred_new(node: &Node, pool: &str) {
    let before = node.count("relayed");
    hundred(node, pool, SOON, async |n| {
        let domain = format!("good{n}.test");
        set_host(node, &domain, [192, 0, 2, 7].into());
        submit(node, "me@source.test", &[&format!("b@{domain}")]).await;
        node.wait_for("relayed", before + usize::from(n) + 1).await;
    })
    .await;
}

/// Divided as the program divides what it has.
fn connections(node: &Node, max: u64) {
    let (unproven_max, doubtful_max) = (max / 4, max / 8);
    node.shared.connections.set_parts(SemaphoreLimits {
        max,
        owner_max: doubtful_max,
        good_owner_max: max,
        unproven_max,
        doubtful_max,
    });
}

#[test]
fn domains_that_nobody_knows_find_connections_beside_a_hundred_zones_of_silent_hosts() {
    let silent = ["RCPT", "CONNECT", "MAIL", "."].map(|step| (step, "silence"));
    for (step, reply) in silent.into_iter().chain([("CONNECT", "drip 220"), ("MAIL", "drip 250")]) {
        play(|| async {
            let node = Rc::new(Node::start(&config(MX)).await);
            connections(&node, 200);
            let _peer = Peer::at(&node.world, "192.0.2.7:25");
            set_peers(&node, step, reply);
            flood(&node);
            // Each zone was silent once by then.
            sleep(Duration::from_secs(20)).await;
            println!("{step} {reply}");
            hundred_new(&node, "connections").await;
            node.be_quiet();
        });
    }
}

#[test]
fn a_slow_host_that_nobody_knows_has_a_second_turn_at_once_and_it_counts_as_no_attempt() {
    play(|| async {
        let node = Rc::new(Node::start(&config(MX)).await);
        connections(&node, 200);
        set_peers(&node, "CONNECT", "silence");
        flood(&node);
        sleep(Duration::from_secs(5)).await;
        // It greets after two seconds, as many do who look up their clients first.
        let slow = Peer::at(&node.world, "192.0.2.9:25");
        slow.always("CONNECT", "late 220 slow.test ESMTP");
        set_host(&node, "slow.test", [192, 0, 2, 9].into());
        let before = node.age();
        submit(&node, "me@source.test", &["b@slow.test"]).await;
        node.wait_for("relayed", 1).await;
        // One round of a hundred zones that are doubtful, of which each has five seconds.
        let took = node.age() - before;
        assert!(took < Duration::from_secs(40), "{took:?}");
        assert!(node.of("suspended").iter().all(|event| !event.to_string().contains("slow.test")));
        assert!(node.of("deferred").iter().all(|event| event["recipient"] != "b@slow.test"));
        node.be_quiet();
    });
}

/// Sixteen megabytes for bodies, a quarter of them for what is read back; a hundred next hops of strangers and one other.
fn reading() -> String {
    let mut text = String::from("[spool]\nbody_memory_bytes = \"16MiB\"\n[retry]\njitter = 0\n");
    for n in 0..100 {
        let host = format!("[{}]:25", network(n));
        text += &format!(
            "[[route]]\ndomains = [\"evil{n}.test\"]\nsmtp = {{ hosts = [\"{host}\"] }}\n"
        );
    }
    text + "[[route]]\nsmtp = { hosts = [\"192.0.2.7:25\"] }"
}

#[test]
fn a_hundred_next_hops_that_read_nothing_leave_memory_for_what_others_have_read_back() {
    play(|| async {
        let node = Node::start(&config(&reading())).await;
        let large = format!("{}\r\n", "x".repeat(76)).repeat(10_000);
        let mut client = Client::connect(&node, FRIEND).await;
        for n in 0..100 {
            for (to, body) in
                [(format!("a@evil{n}.test"), &*large), (format!("{n}@good.test"), "small\r\n")]
            {
                let reply = client.send("me@source.test", &[&to], body).await;
                assert!(reply.starts_with("250 "), "{reply}");
            }
        }
        drop(client);
        let node = node.restart().await;
        set_peers(&node, "content", "silence");
        let _good = Peer::at(&node.world, "192.0.2.7:25");
        let began = node.age();
        node.wait_for("relayed", 100).await;
        let took = node.age() - began;
        assert!(took < Duration::from_secs(15), "{took:?}");
        assert!(node.metrics.messages_read_back.get() >= 100);
    });
}

#[test]
fn effects_that_a_hundred_zones_bring_about_keep_no_other_domain_waiting() {
    play(|| async {
        let rule = "[[default.rule]]\nname = \"slow\"\nmatch = \"slow down\"\naction = \"suspend\"\nlasts = \"1h\"\n";
        let text = format!("shaping = ['''{rule}''']\n{}", config(MX));
        let node = Rc::new(Node::start(&text).await);
        let _peer = Peer::at(&node.world, "192.0.2.7:25");
        set_peers(&node, "MAIL", "451 4.7.0 slow down please");
        flood(&node);
        // Half of the effects are for next hops alone: more are brought about.
        sleep(Duration::from_secs(20)).await;
        hundred_new(&node, "shaping_effects").await;
        node.be_quiet();
    });
}
