//! What an operator sees and does.

use super::client::submit;
use super::node::{Node, config, play};
use super::peer::Peer;
use mta::commands::{
    ControlRequest, QueueFail, QueueHold, QueueList, QueueRelease, QueueRemove, QueueRetry,
    QueueShow, QueueWhy, ShardState,
};
use mta::control::{BlockerKind, Filter, QueueItem, Select, Tally};
use std::time::Duration;

const HOP: &str = "192.0.2.1:25";
const ROUTE: &str = "[retry]\njitter = 0\n[[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }";

async fn with_messages(count: usize) -> Node {
    let node = Node::start(&config(ROUTE)).await;
    for n in 0..count {
        submit(&node, "me@source.test", &[&format!("u{n}@x.test")]).await;
    }
    node.wait_for("suspended", 1).await;
    node
}

async fn items(node: &Node, request: ControlRequest) -> Vec<QueueItem> {
    node.ask(request).await.into_iter().flat_map(|part| part.items).collect()
}

async fn tally(node: &Node, request: ControlRequest) -> Tally {
    let parts = node.ask(request).await;
    let last = parts.last().expect("an answer");
    assert_eq!(last.error, None);
    last.tally
}

#[test]
fn a_list_is_oldest_first_and_as_long_as_asked_for() {
    play(|| async {
        let node = with_messages(5).await;
        let filter = Filter::default();
        let listed = items(&node, ControlRequest::QueueList(QueueList { filter, limit: 3 })).await;
        let to: Vec<&str> = listed.iter().map(|item| &*item.recipients[0].address).collect();
        assert_eq!(to, ["u0@x.test", "u1@x.test", "u2@x.test"]);
        assert!(
            listed.iter().all(|item| item.client.as_deref() == Some("198.51.100.7 client.test"))
        );
    });
}

#[test]
fn a_filter_leaves_out_what_it_does_not_name() {
    play(|| async {
        let node = with_messages(5).await;
        let filter = Filter { recipient: Some("U3@X.test".to_owned()), ..Filter::default() };
        let listed = items(&node, ControlRequest::QueueList(QueueList { filter, limit: 10 })).await;
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0].recipients[0].address, "u3@x.test");
        let filter = Filter { older_than_ms: Some(86_400_000), ..Filter::default() };
        let listed = items(&node, ControlRequest::QueueList(QueueList { filter, limit: 10 })).await;
        assert!(listed.is_empty());
    });
}

#[test]
fn why_names_the_one_thing_that_is_waited_for() {
    play(|| async {
        let node = with_messages(1).await;
        let id = node.last_id();
        let why = items(&node, ControlRequest::QueueWhy(QueueWhy { id })).await;
        let blocker = &why[0].recipients[0].blocker;
        assert_eq!(blocker.kind, BlockerKind::Backoff);
        assert!(blocker.text.contains("192.0.2.1:25"), "{}", blocker.text);
        assert!(blocker.until.is_some());
    });
}

#[test]
fn what_is_held_is_not_sent_until_it_is_released() {
    play(|| async {
        let node = with_messages(2).await;
        let reason = "looking into it".to_owned();
        let held =
            tally(&node, ControlRequest::QueueHold(QueueHold { select: Select::All, reason }))
                .await;
        assert_eq!(held.messages, 2);
        Peer::at(&node.world, HOP);
        tokio::time::sleep(Duration::from_secs(10 * 86_400)).await;
        assert_eq!((node.count("relayed"), node.count("expired")), (0, 0), "a hold has no expiry");
        let id = node.last_id();
        let shown = items(&node, ControlRequest::QueueShow(QueueShow { id })).await;
        assert_eq!(shown[0].held.as_deref(), Some("looking into it"));
        let released =
            tally(&node, ControlRequest::QueueRelease(QueueRelease { select: Select::All })).await;
        assert_eq!(released.messages, 2);
        node.wait_for("relayed", 2).await;
    });
}

#[test]
fn what_is_removed_is_gone_and_nobody_is_told() {
    play(|| async {
        let node = with_messages(2).await;
        let id = node.last_id();
        let removed =
            tally(&node, ControlRequest::QueueRemove(QueueRemove { select: Select::Id(id) })).await;
        assert_eq!(removed.recipients, 1);
        let peer = Peer::at(&node.world, HOP);
        node.wait_for("relayed", 1).await;
        assert_eq!(peer.messages()[0].to, ["u0@x.test"]);
        assert_eq!((node.count("removed"), node.count("dsn_queued")), (1, 0));
    });
}

#[test]
fn a_retry_does_not_wait_for_its_time() {
    play(|| async {
        let text = ROUTE.replace("jitter = 0", "jitter = 0\nfirst = \"1h\"");
        let node = Node::start(&config(&text)).await;
        let peer = Peer::at(&node.world, HOP);
        peer.once("RCPT", "450 4.2.1 later");
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("deferred", 1).await;
        let before = node.age();
        tally(&node, ControlRequest::QueueRetry(QueueRetry { select: Select::All })).await;
        node.wait_for("relayed", 1).await;
        assert!(node.age() - before < Duration::from_secs(60));
    });
}

#[test]
fn what_is_failed_by_hand_is_reported_with_the_words_given() {
    play(|| async {
        let node = with_messages(1).await;
        let reason = "closed for good".to_owned();
        let request = ControlRequest::QueueFail(QueueFail {
            select: Select::All,
            status: Some("5.7.1".to_owned()),
            reason,
            silent: false,
        });
        assert_eq!(tally(&node, request).await.recipients, 1);
        node.wait_for("dsn_queued", 1).await;
        let failed = node.of("failed").pop().expect("one");
        assert_eq!(failed["status"], "5.7.1");
        assert!(failed["reason"].as_str().is_some_and(|text| text.contains("closed for good")));
    });
}

#[test]
fn an_unknown_id_changes_nothing() {
    play(|| async {
        let node = with_messages(1).await;
        let id = mail::MessageId(4_711);
        assert_eq!(
            tally(&node, ControlRequest::QueueRemove(QueueRemove { select: Select::Id(id) }))
                .await
                .messages,
            0
        );
        assert!(items(&node, ControlRequest::QueueShow(QueueShow { id })).await.is_empty());
        assert_eq!(node.count("removed"), 0);
    });
}

#[test]
fn status_counts_what_there_is() {
    play(|| async {
        let node = with_messages(3).await;
        let parts = node.ask(ShardState {}.into()).await;
        let status = parts.into_iter().find_map(|part| part.status).expect("a status");
        assert_eq!((status.recipients, status.held, status.in_flight), (3, 0, 0));
    });
}
