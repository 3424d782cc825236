//! Who answers for a message: from 250 until its last recipient is settled, whatever happens to the
//! process or the disk.

use super::client::{Client, FRIEND, submit};
use super::node::{Node, config, play, wait_until};
use super::peer::Peer;
use mta::commands::{ControlRequest, QueueHold, QueueShow};
use mta::control::Select;
use std::time::Duration;

const HOP: &str = "192.0.2.1:25";
const ROUTE: &str = "[retry]\njitter = 0\n[[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }";

#[test]
fn what_was_accepted_survives_a_power_cut() {
    play(|| async {
        let node = Node::start(&config(ROUTE)).await;
        submit(&node, "me@source.test", &["a@x.test"]).await;
        let node = node.restart().await;
        let peer = Peer::at(&node.world, HOP);
        node.wait_for("relayed", 1).await;
        assert!(peer.messages()[0].content.ends_with("Subject: one\r\n\r\nbody\r\n"));
    });
}

#[test]
fn what_was_not_acknowledged_need_not() {
    play(|| async {
        let node = Node::start(&config(ROUTE)).await;
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@source.test>").await;
        client.say("RCPT TO:<a@x.test>").await;
        client.say("DATA").await;
        node.log_stands.set(true);
        client.write("Subject: x\r\n\r\nbody\r\n.\r\n").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let node = node.restart().await;
        Peer::at(&node.world, HOP);
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(node.count("relayed"), 0);
    });
}

#[test]
fn what_is_settled_is_not_sent_again() {
    play(|| async {
        let node = Node::start(&config(ROUTE)).await;
        let peer = Peer::at(&node.world, HOP);
        peer.once("RCPT", "250 good")
            .once("RCPT", "450 4.2.1 later")
            .always("RCPT", "450 4.2.1 no");
        submit(&node, "me@source.test", &["a@x.test", "b@x.test"]).await;
        node.wait_for("relayed", 1).await;
        node.wait_for("deferred", 1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        peer.heal();
        let node = node.restart().await;
        node.wait_for("relayed", 1).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        let to: Vec<Vec<String>> = peer.messages().into_iter().map(|sent| sent.to).collect();
        assert_eq!(to, [["a@x.test"], ["b@x.test"]]);
    });
}

#[test]
fn attempts_and_the_last_failure_survive() {
    play(|| async {
        let text = ROUTE.replace("jitter = 0", "jitter = 0\nfirst = \"1h\"");
        let node = Node::start(&config(&text)).await;
        let peer = Peer::at(&node.world, HOP);
        peer.once("RCPT", "450 4.2.1 the mailbox is busy");
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("deferred", 1).await;
        let id = node.last_id();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let node = node.restart().await;
        let parts = node.ask(ControlRequest::QueueShow(QueueShow { id })).await;
        let recipient = &parts[0].items[0].recipients[0];
        assert_eq!(recipient.attempts, 1);
        let failure = recipient.last_failure.as_deref().unwrap_or("none");
        assert!(failure.contains("the mailbox is busy"), "{failure}");
    });
}

#[test]
fn a_hold_survives_with_its_reason() {
    play(|| async {
        let node = Node::start(&config(ROUTE)).await;
        submit(&node, "me@source.test", &["a@x.test"]).await;
        let id = node.last_id();
        let reason = "kept for the lawyers".to_owned();
        node.ask(ControlRequest::QueueHold(QueueHold { select: Select::All, reason })).await;
        let node = node.restart().await;
        Peer::at(&node.world, HOP);
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(node.count("relayed"), 0);
        let parts = node.ask(ControlRequest::QueueShow(QueueShow { id })).await;
        assert_eq!(parts[0].items[0].held.as_deref(), Some("kept for the lawyers"));
    });
}

#[test]
fn settles_wait_for_a_slow_log_and_egress_pauses_at_the_limit() {
    play(|| async {
        let text = format!("[spool]\nunsettled_max = 10\n{ROUTE}");
        let node = Node::start(&config(&text)).await;
        for n in 0..40 {
            submit(&node, "me@source.test", &[&format!("u{n}@x.test")]).await;
        }
        node.log_stands.set(true);
        let peer = Peer::at(&node.world, HOP);
        wait_until("some are sent", || !peer.messages().is_empty()).await;
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let sent = peer.messages().len();
        // Those in transmission when the limit was reached may end.
        assert!((10..40).contains(&sent), "{sent} sent");
        node.log_stands.set(false);
        node.wait_for("relayed", 40).await;
    });
}

#[test]
fn a_log_that_fails_takes_no_more_and_says_so() {
    play(|| async {
        let node = Node::start(&config(ROUTE)).await;
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.disk.set_failure(0, spool::DiskErrorKind::Failed, true);
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@source.test>").await;
        client.say("RCPT TO:<a@x.test>").await;
        let reply = client.content("body\r\n").await;
        assert!(reply.starts_with("451 4.3.0"), "{reply}");
        let reply = client.say("MAIL FROM:<me@source.test>").await;
        assert!(reply.starts_with("451 4.3.0"), "{reply}");
        node.disk.clear_failure();
        let node = node.restart().await;
        let peer = Peer::at(&node.world, HOP);
        node.wait_for("relayed", 1).await;
        assert_eq!(peer.messages().len(), 1, "what was acknowledged is there, and nothing else");
    });
}

#[test]
fn a_failure_and_its_report_are_one_step() {
    play(|| async {
        let text = "[retry]\njitter = 0\n\
                    [[route]]\ndomains = [\"source.test\"]\nsmtp = { hosts = [\"192.0.2.2:25\"] }\n\
                    [[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }";
        let node = Node::start(&config(text)).await;
        let peer = Peer::at(&node.world, HOP);
        peer.always("RCPT", "550 5.1.1 nobody");
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("dsn_queued", 1).await;
        let node = node.restart().await;
        let back = Peer::at(&node.world, "192.0.2.2:25");
        node.wait_for("relayed", 1).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(back.messages().len(), 1, "neither lost nor made twice");
        assert_eq!(peer.messages().len(), 0);
    });
}
