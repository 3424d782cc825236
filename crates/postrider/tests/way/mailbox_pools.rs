//! What strangers send waits for those who deliver it: workers that write mailboxes, connections to a relay. A hundred
//! networks send more than these carry; of a hundred messages of others each has its turn in a round of theirs.

use super::client::Client;
use super::crowds::{healthy, hostile, with};
use super::node::{Node, play};
use super::peer::Peer;
use super::pools::SOON;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;

/// Nothing else keeps strangers from sending as much as they like.
const WITHOUT_LIMITS: &str = "max_sessions_per_address = 1000\nconnections_per_minute = 0\nmessages_per_minute = 0\n\
                              recipients_per_minute = 0";
const CONTENT: &str = "Subject: x\r\n\r\nbody\r\n";

async fn send(client: &mut Client, to: &str) {
    let said = client.send("a@s.test", &[to], CONTENT).await;
    assert!(said.starts_with("250 2.0.0"), "{said}");
}

/// Strangers of a hundred networks, who leave thirty messages each at once, and three each second from then on.
async fn press(node: &Rc<Node>, to: &'static str) {
    let (left, mut leaving) = (Rc::new(()), Vec::new());
    for n in 0..100 {
        let (node, left) = (Rc::clone(node), Rc::clone(&left));
        leaving.push(tokio::task::spawn_local(async move {
            let mut client = Client::connect(&node, hostile(n)).await;
            for _ in 0..30 {
                send(&mut client, to).await;
            }
            drop(left);
            while !node.is_quiet() {
                for _ in 0..3 {
                    send(&mut client, to).await;
                }
                sleep(Duration::from_secs(1)).await;
            }
        }));
    }
    while Rc::strong_count(&left) > 1 {
        sleep(Duration::from_millis(10)).await;
    }
}

/// A hundred healthy clients, of whom twenty send a message each second. How often the pressure was shown.
async fn hundred_in_turn(node: &Rc<Node>, event: &str, bound: Duration) -> usize {
    let mut shown = 0;
    for n in 0..100 {
        let mut client = Client::connect(node, healthy(n)).await;
        send(&mut client, &format!("healthy{n}@ours.test")).await;
        shown += usize::from(node.pressure("mailbox_workers").is_some());
        sleep(Duration::from_millis(50)).await;
    }
    sleep(bound).await;
    let is_healthy = |event: &serde_json::Value| {
        event["recipient"].as_str().is_some_and(|to| to.starts_with("healthy"))
    };
    let delivered = node.of(event);
    let mut delays: Vec<u64> = delivered
        .iter()
        .filter(|event| is_healthy(event))
        .map(|event| event["delay_ms"].as_u64().expect("a number"))
        .collect();
    delays.sort_unstable();
    let soon = u64::try_from(bound.as_millis()).expect("short");
    let in_time = delays.iter().filter(|delay| **delay <= soon).count();
    assert!(in_time >= 95, "{in_time} of 100 in time, in milliseconds: {delays:?}");
    // Strangers are served all the while, and wait: they are more than are carried.
    assert!(delivered.len() > 500, "{}", delivered.len());
    node.be_quiet();
    shown
}

#[test]
fn strangers_of_a_hundred_networks_leave_turns_at_mailboxes_to_others() {
    play(|| async {
        let node = Rc::new(Node::start(&with(WITHOUT_LIMITS)).await);
        let each = Duration::from_secs(1);
        node.world.set_mailbox_delay(each);
        press(&node, "jo@ours.test").await;
        // The first of them have waited.
        sleep(Duration::from_millis(2_500)).await;
        let shown = hundred_in_turn(&node, "delivered", each + SOON).await;
        assert!(shown >= 95, "the pressure was shown {shown} times");
    });
}

#[test]
fn strangers_of_a_hundred_networks_leave_turns_at_a_relay_to_others() {
    play(|| async {
        let text = with(WITHOUT_LIMITS).replace(
            "maildir = { path = \"/mail/{local}\" }",
            "smtp = { hosts = [\"192.0.2.2:25\"], max_connections = 400 }",
        );
        let node = Rc::new(Node::start(&text).await);
        let peer = Peer::at(&node.world, "192.0.2.2:25");
        peer.always(".", "late 250 2.0.0 taken");
        press(&node, "jo@ours.test").await;
        // Each takes two seconds, and all connections are free at the same moment.
        hundred_in_turn(&node, "relayed", Duration::from_secs(4)).await;
    });
}

#[test]
fn what_strangers_sent_before_a_restart_leaves_turns_to_others_as_well() {
    play(|| async {
        let node = Node::start(&with(WITHOUT_LIMITS)).await;
        let each = Duration::from_secs(1);
        node.world.set_mailbox_delay(Duration::from_secs(1_000));
        for n in 0..100 {
            let mut client = Client::connect(&node, hostile(n)).await;
            for _ in 0..30 {
                send(&mut client, "jo@ours.test").await;
            }
        }
        let node = Rc::new(node.restart().await);
        node.world.set_mailbox_delay(each);
        sleep(Duration::from_millis(2_500)).await;
        hundred_in_turn(&node, "delivered", each + SOON).await;
    });
}
