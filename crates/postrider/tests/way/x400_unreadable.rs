//! What peers of X.400 send that can't be read, or is broken where nobody here looks: it is held, as much of it as one
//! peer and all may have, and for as long as what checks hold.

use super::node::{Node, play, wait_until};
use super::x400::{Answer, CONFIG, Caller, Hub, MESSAGE};
use mta::commands::{ControlRequest, QueueRemove};
use mta::control::Select;
use std::time::Duration;
use x400::association::{Event, ExceptionReason};

const DAY: Duration = Duration::from_secs(86_400);

/// Peers beside `hub`, and so many recipients in the queue.
fn config(others: &[&str], queued_max: u32) -> String {
    let mut text = CONFIG.to_owned();
    for name in others {
        text.push_str(&format!(
            "[[x400.peer]]\nname = \"{name}\"\nhosts = [\"198.51.100.9:102\"]\n\
             their_name = \"mta.{name}\"\ntheir_password = \"theirs\"\n"
        ));
    }
    text + &format!("[spool]\nqueue_recipients_max = {queued_max}\nhold_for = \"2d\"\n")
}

/// No two are the same.
fn garbage(number: usize) -> Vec<u8> {
    format!("garbage {number}").into_bytes()
}

async fn is_taken(caller: &mut Caller, apdu: &[u8]) -> bool {
    caller.offer(apdu).await;
    match caller.event().await {
        Event::Acknowledged => true,
        Event::NotTaken(ExceptionReason::TemporarilyUnable) => false,
        event => panic!("{event:?}"),
    }
}

/// Messages that are held, by peer.
fn held(node: &Node) -> Vec<(String, u64)> {
    let peers = node.shared.holdings.of_peers();
    peers.into_iter().map(|(peer, amount)| (peer.to_string(), amount.recipients)).collect()
}

fn of(peers: &[(&str, u64)]) -> Vec<(String, u64)> {
    peers.iter().map(|(peer, count)| ((*peer).to_owned(), *count)).collect()
}

#[test]
fn a_peer_may_have_a_hundredth_held_and_it_ends_with_hold_for() {
    play(|| async {
        let node = Node::start(&config(&["far"], 500)).await;
        let begun = node.age();
        let _hub = Hub::at(&node, |_| Answer::Take);
        let mut caller = Caller::bound(&node).await;
        for number in 0..5 {
            assert!(is_taken(&mut caller, &garbage(number)).await, "{number}");
        }
        assert!(!is_taken(&mut caller, &garbage(5)).await, "a hundredth of 500 is held");
        assert!(is_taken(&mut Caller::bound_as(&node, "far").await, &garbage(6)).await);
        // What can be read goes on.
        caller.transfer(MESSAGE).await;
        node.wait_for("relayed", 1).await;
        assert_eq!((node.count("held"), held(&node)), (6, of(&[("far", 1), ("hub", 5)])));
        let lines = node.lines().iter().filter(|l| l.contains("held for an operator")).count();
        assert!(lines >= 6, "{:?}", node.lines());
        // The same after a restart.
        let node = node.restart().await;
        assert_eq!(held(&node), of(&[("far", 1), ("hub", 5)]));
        let mut caller = Caller::bound(&node).await;
        assert!(!is_taken(&mut caller, &garbage(7)).await);
        tokio::time::sleep(DAY * 2 - Duration::from_secs(60) - (node.age() - begun)).await;
        assert_eq!(held(&node).len(), 2, "not yet");
        wait_until("the holds end", || held(&node).is_empty()).await;
        node.wait_for("removed", 6).await;
        // There is nobody to whom it could be returned.
        assert_eq!((node.count("failed"), node.count("dsn_queued")), (0, 0));
        assert!(is_taken(&mut Caller::bound(&node).await, &garbage(8)).await);
    });
}

#[test]
fn all_peers_have_a_tenth_held_and_an_operator_makes_room() {
    play(|| async {
        let node = Node::start(&config(&["b", "c"], 20)).await;
        for (number, peer) in ["hub", "b"].into_iter().enumerate() {
            assert!(is_taken(&mut Caller::bound_as(&node, peer).await, &garbage(number)).await);
        }
        let mut third = Caller::bound_as(&node, "c").await;
        assert!(!is_taken(&mut third, &garbage(2)).await, "a tenth of 20 is held");
        let lines = node.lines();
        assert!(lines.iter().any(|l| l.contains("Review quarantine full")), "{lines:?}");
        node.ask(ControlRequest::QueueRemove(QueueRemove { select: Select::Id(node.last_id()) }))
            .await;
        wait_until("one is removed", || held(&node).len() == 1).await;
        assert!(is_taken(&mut third, &garbage(3)).await);
    });
}
