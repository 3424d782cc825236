//! What an attempt comes to, recipient by recipient.

use super::client::submit;
use super::node::{Node, config, play, wait_until};
use super::peer::Peer;
use std::time::Duration;

const HOP: &str = "192.0.2.1:25";
const ROUTE: &str = "[retry]\njitter = 0\n[[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }";

async fn node_and_peer() -> (Node, Peer) {
    let node = Node::start(&config(ROUTE)).await;
    let peer = Peer::at(&node.world, HOP);
    (node, peer)
}

#[test]
fn a_taken_message_is_relayed_and_leaves_the_queue() {
    play(|| async {
        let (node, peer) = node_and_peer().await;
        submit(&node, "me@source.test", &["a@x.test", "b@x.test"]).await;
        node.wait_for("relayed", 2).await;
        let sent = peer.messages();
        assert_eq!(sent.len(), 1, "one transaction for both");
        assert_eq!(sent[0].from, "me@source.test");
        assert_eq!(sent[0].to, ["a@x.test", "b@x.test"]);
        assert!(sent[0].content.ends_with("Subject: one\r\n\r\nbody\r\n"));
        wait_until("the slots are free", || node.shared.queue_slots.used() == 0).await;
        assert_eq!(
            node.events(&["recipient", "status", "attempts"])[1..],
            [
                "relayed recipient=a@x.test status=2.0.0 attempts=1",
                "relayed recipient=b@x.test status=2.0.0 attempts=1",
            ]
        );
    });
}

#[test]
fn each_recipient_has_its_own_outcome() {
    play(|| async {
        let (node, peer) = node_and_peer().await;
        peer.once("RCPT", "250 2.1.5 good")
            .once("RCPT", "450 4.2.1 later")
            .once("RCPT", "550 5.1.1 nobody");
        submit(&node, "me@source.test", &["a@x.test", "b@x.test", "c@x.test"]).await;
        // With the report about c.
        node.wait_for("relayed", 3).await;
        let events = node.events(&["recipient", "status", "attempts"]);
        for line in [
            "relayed recipient=a@x.test status=2.0.0 attempts=1",
            "deferred recipient=b@x.test status=4.2.1 attempts=1",
            "failed recipient=c@x.test status=5.1.1 attempts=1",
            "relayed recipient=b@x.test status=2.0.0 attempts=2",
        ] {
            assert!(events.iter().any(|event| event == line), "no {line}: {events:#?}");
        }
    });
}

#[test]
fn refusals_of_deferred_classes_are_retried() {
    play(|| async {
        let text = ROUTE.replacen("[[route]]", "[[route]]\ndefer_classes = [\"reputation\"]", 1);
        let node = Node::start(&config(&text)).await;
        let peer = Peer::at(&node.world, HOP);
        peer.once("RCPT", "550 5.7.1 Service unavailable; client blocked using zen.spamhaus.org")
            .once("RCPT", "550 5.1.1 User unknown");
        submit(&node, "me@source.test", &["a@x.test", "b@x.test"]).await;
        // The message to a, later, and the report about b.
        node.wait_for("relayed", 2).await;
        let events = node.events(&["recipient", "status", "class", "attempts"]);
        for line in [
            "deferred recipient=a@x.test status=4.7.1 class=reputation attempts=1",
            "failed recipient=b@x.test status=5.1.1 class=unknown_recipient attempts=1",
            "relayed recipient=a@x.test status=2.0.0 attempts=2",
        ] {
            assert!(events.iter().any(|event| event == line), "no {line}: {events:#?}");
        }
    });
}

#[test]
fn the_waits_between_attempts_double_up_to_the_longest() {
    play(|| async {
        let text = ROUTE.replace("jitter = 0", "jitter = 0\nfirst = \"1m\"\nlongest = \"3m\"");
        let node = Node::start(&config(&text)).await;
        let peer = Peer::at(&node.world, HOP);
        for _ in 0..4 {
            peer.once("RCPT", "450 4.2.1 later");
        }
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("relayed", 1).await;
        let waited = node.age().as_secs();
        // 1 + 2 + 3 + 3 minutes.
        assert!((540..545).contains(&waited), "{waited} s");
        assert_eq!(node.count("deferred"), 4);
    });
}

#[test]
fn a_lost_reply_to_the_content_is_told_as_doubtful_and_tried_again() {
    play(|| async {
        let (node, peer) = node_and_peer().await;
        peer.once(".", "hang up");
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("relayed", 1).await;
        assert_eq!(node.metrics.doubtful.get(), 1);
        let told = node.lines();
        assert!(told.iter().any(|line| line.contains("duplicate may follow")), "{told:#?}");
    });
}

#[test]
fn a_kept_connection_that_died_costs_no_attempt() {
    play(|| async {
        let (node, peer) = node_and_peer().await;
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("relayed", 1).await;
        peer.once("MAIL", "hang up");
        submit(&node, "me@source.test", &["b@x.test"]).await;
        node.wait_for("relayed", 2).await;
        let last = node.of("relayed").pop().expect("two");
        assert_eq!(last["attempts"], 1);
        assert_eq!(node.count("deferred"), 0);
        assert_eq!(node.world.connects(), 2);
    });
}

#[test]
fn a_next_hop_that_is_down_is_suspended_not_each_message_deferred() {
    play(|| async {
        let (node, peer) = node_and_peer().await;
        node.world.unserve(HOP.parse().expect("an address"));
        for n in 0..50 {
            submit(&node, "me@source.test", &[&format!("u{n}@x.test")]).await;
        }
        node.wait_for("suspended", 3).await;
        assert_eq!(node.count("deferred"), 0);
        assert!(node.world.connects() < 40, "{} connects", node.world.connects());
        drop(peer);
        let peer = Peer::at(&node.world, HOP);
        node.wait_for("relayed", 50).await;
        assert_eq!(node.count("resumed"), 1);
        assert_eq!(peer.messages().len(), 50);
    });
}

#[test]
fn what_is_too_old_has_one_more_try_and_is_given_up() {
    play(|| async {
        let text = ROUTE.replace("jitter = 0", "jitter = 0\ngive_up_after = \"1h\"");
        let node = Node::start(&config(&text)).await;
        let peer = Peer::at(&node.world, HOP);
        peer.always("RCPT", "450 4.2.1 later");
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("expired", 1).await;
        assert!(node.age() >= Duration::from_secs(3_600));
        let expired = node.of("expired").pop().expect("one");
        assert_eq!(expired["status"], "4.2.1", "the last failure is named");
    });
}

#[test]
fn a_mailbox_that_can_not_be_written_is_tried_again() {
    play(|| async {
        let text = "[retry]\njitter = 0\n[[route]]\nmaildir = { path = \"/mail/{local}\" }";
        let node = Node::start(&config(text)).await;
        node.world.set_mailbox_failure(Some(std::io::ErrorKind::PermissionDenied));
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("deferred", 1).await;
        let deferred = node.of("deferred").pop().expect("one");
        assert_eq!(deferred["culprit"], "local");
        assert_eq!(deferred["channel"], "maildir");
        node.world.set_mailbox_failure(None);
        node.wait_for("delivered", 1).await;
        assert_eq!(node.world.mailboxes().len(), 1);
    });
}

#[test]
fn a_disk_of_mailboxes_that_is_full_is_suspended_not_each_message_deferred() {
    play(|| async {
        let text = "[retry]\njitter = 0\n[[route]]\nname = \"here\"\nmaildir = { path = \"/mail/{local}\" }";
        let node = Node::start(&config(text)).await;
        // Once a disk is known to be full, recipients are refused.
        node.suspend(&[r#"{"route":"here"}"#]);
        for n in 0..300 {
            submit(&node, "me@source.test", &[&format!("u{n}@x.test")]).await;
        }
        node.world.set_mailbox_failure(Some(std::io::ErrorKind::StorageFull));
        node.suspend(&[]);
        node.wait_for("suspended", 2).await;
        assert_eq!(node.of("suspended")[0]["status"], "4.3.1");
        let deferred = node.count("deferred");
        assert!(deferred < 100, "{deferred} deferred");
        let told = node.lines();
        assert!(told.iter().any(|line| line.contains("suspended next_hop=maildir")), "{told:#?}");
        node.world.set_mailbox_failure(None);
        node.wait_for("delivered", 300).await;
        assert_eq!(node.count("resumed"), 1);
    });
}

#[test]
fn mailboxes_that_can_not_be_written_one_after_the_other_are_told_of_too() {
    play(|| async {
        let text = "[retry]\njitter = 0\n[[route]]\nmaildir = { path = \"/mail/{local}\" }";
        let node = Node::start(&config(text)).await;
        node.world.set_mailbox_failure(Some(std::io::ErrorKind::PermissionDenied));
        for n in 0..300 {
            submit(&node, "me@source.test", &[&format!("u{n}@x.test")]).await;
        }
        node.wait_for("suspended", 1).await;
        assert_eq!(node.of("suspended")[0]["status"], "4.2.0");
        node.world.set_mailbox_failure(None);
        node.wait_for("delivered", 300).await;
    });
}

#[test]
fn a_body_on_disk_is_sent_as_one_in_memory() {
    play(|| async {
        let text = format!("[spool]\nblob_bytes = \"64KiB\"\n{ROUTE}");
        let node = Node::start(&config(&text)).await;
        let peer = Peer::at(&node.world, HOP);
        let body = ".a line with a dot before it\r\n".repeat(10_000);
        let mut client = super::client::Client::connect(&node, super::client::FRIEND).await;
        client.say("MAIL FROM:<me@source.test>").await;
        client.say("RCPT TO:<a@x.test>").await;
        let stuffed = body.replace("\r\n.", "\r\n..");
        let reply = client.content(&format!("Subject: long\r\n\r\n.{stuffed}")).await;
        assert!(reply.starts_with("250"), "{reply}");
        node.wait_for("relayed", 1).await;
        let sent = peer.messages();
        assert!(sent[0].content.ends_with(&format!("Subject: long\r\n\r\n{body}")));
    });
}

#[test]
fn content_that_can_not_go_to_disk_is_read_to_its_end_and_then_put_off() {
    play(|| async {
        let text = format!("[spool]\nblob_bytes = \"64KiB\"\n{ROUTE}");
        let node = Node::start(&config(&text)).await;
        let _peer = Peer::at(&node.world, HOP);
        let body = "a line of a long body\r\n".repeat(20_000);
        let mut client = super::client::Client::connect(&node, super::client::FRIEND).await;
        for is_full in [true, false] {
            client.say("MAIL FROM:<me@source.test>").await;
            client.say("RCPT TO:<a@x.test>").await;
            if is_full {
                node.disk.set_failure(0, spool::DiskErrorKind::Full, true);
            }
            let reply = client.content(&format!("Subject: long\r\n\r\n{body}")).await;
            node.disk.clear_failure();
            // The log looks for room again.
            tokio::time::sleep(Duration::from_secs(5)).await;
            let expected = if is_full { "452 4.3.1" } else { "250" };
            assert!(reply.starts_with(expected), "{reply}");
            assert!(!is_full || node.shared.body_memory.used() == 0);
        }
        node.wait_for("relayed", 1).await;
        assert_eq!(node.count("received"), 1);
    });
}

#[test]
fn what_we_lack_for_a_handshake_sends_no_mail_in_clear() {
    play(|| async {
        let (node, peer) = node_and_peer().await;
        node.world.set_handshake_error(Some(std::io::ErrorKind::OutOfMemory));
        peer.always("EHLO", "250-peer.test\r\n250 STARTTLS").always("STARTTLS", "220 go on");
        submit(&node, "me@source.test", &["a@x.test"]).await;
        tokio::time::sleep(Duration::from_secs(7_200)).await;
        assert!(peer.messages().is_empty());
        // Where the host is to blame it is without.
        node.world.set_handshake_error(None);
        node.wait_for("relayed", 1).await;
    });
}
