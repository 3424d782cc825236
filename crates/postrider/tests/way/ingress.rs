//! What clients are answered, and what is told of it.

use super::client::{Client, FRIEND, STRANGER, submit};
use super::node::{Node, config, play};
use mta::metrics::RefusalReason;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const DISCARD: &str = "[[route]]\ndomains = [\"ours.test\"]\ndiscard = {}\n\
                       [[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }";

#[test]
fn a_message_is_accepted_when_the_log_has_it_and_not_before() {
    play(|| async {
        let node = Node::start(&config(DISCARD)).await;
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@source.test>").await;
        client.say("RCPT TO:<you@ours.test>").await;
        node.log_stands.set(true);
        client.say("DATA").await;
        client.write("Subject: x\r\n\r\nbody\r\n.\r\n").await;
        let early = tokio::time::timeout(Duration::from_secs(60), client.reply()).await;
        assert!(early.is_err(), "answered while the log stood: {early:?}");
        assert_eq!(node.count("received"), 0);
        node.log_stands.set(false);
        let reply = client.reply().await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
        node.wait_for("delivered", 1).await;
    });
}

#[test]
fn strangers_reach_named_domains_only() {
    play(|| async {
        let node = Node::start(&config(DISCARD)).await;
        let mut client = Client::connect(&node, STRANGER).await;
        client.say("MAIL FROM:<me@source.test>").await;
        let reply = client.say("RCPT TO:<you@elsewhere.test>").await;
        assert!(reply.starts_with("550 5.7.1"), "{reply}");
        let reply = client.say("RCPT TO:<you@ours.test>").await;
        assert!(reply.starts_with("250 "), "{reply}");
        let refused = node.events(&["step", "recipient", "status", "client"]);
        assert_eq!(
            refused,
            ["refused step=RCPT recipient=you@elsewhere.test status=5.7.1 client=203.0.113.9"]
        );
        assert_eq!(node.metrics.refused[RefusalReason::Policy].get(), 1);
    });
}

#[test]
fn strangers_wait_for_their_greeting_and_who_does_not_is_turned_away() {
    play(|| async {
        let node = Node::start(&config(DISCARD)).await;
        let mut patient = Client::open(&node, STRANGER);
        let before = node.age();
        let greeting = patient.reply().await;
        assert!(greeting.starts_with("220 relay.test"), "{greeting}");
        assert!(node.age() - before >= Duration::from_millis(100));
        let mut hasty = Client::open(&node, IpAddr::V4(Ipv4Addr::new(203, 0, 113, 10)));
        hasty.write("EHLO hasty.test\r\n").await;
        let greeting = hasty.reply().await;
        assert!(greeting.starts_with("554 "), "{greeting}");
    });
}

#[test]
fn recipients_beyond_the_queue_are_put_off() {
    play(|| async {
        let text = config(
            "[spool]\nqueue_recipients_max = 2\n[[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }",
        );
        let node = Node::start(&text).await;
        submit(&node, "me@source.test", &["a@x.test", "b@x.test"]).await;
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@source.test>").await;
        client.say("RCPT TO:<c@x.test>").await;
        let reply = client.say("DATA").await;
        let reply = if reply.starts_with("354") { client.say(".").await } else { reply };
        assert!(reply.starts_with("452 4.3.1"), "{reply}");
        assert_eq!(node.count("received"), 1);
    });
}

#[test]
fn a_full_disk_puts_mail_off_and_poisons_nothing() {
    play(|| async {
        let node = Node::start(&config(DISCARD)).await;
        node.disk.set_capacity_bytes(node.disk.written_bytes() / 2);
        tokio::time::sleep(Duration::from_secs(2)).await;
        let mut client = Client::connect(&node, FRIEND).await;
        let mut last = String::new();
        for _ in 0..5 {
            last = client.say("MAIL FROM:<me@source.test>").await;
            if last.starts_with("250") {
                client.say("RCPT TO:<you@ours.test>").await;
                last = client.content(&"x\r\n".repeat(300_000)).await;
            }
            if last.starts_with('4') {
                break;
            }
        }
        assert!(last.starts_with("452 4.3.1"), "{last}");
        node.disk.set_capacity_bytes(1 << 30);
        tokio::time::sleep(Duration::from_secs(5)).await;
        submit(&node, "me@source.test", &["you@ours.test"]).await;
    });
}

#[test]
fn received_says_who_when_and_for_whom() {
    play(|| async {
        let text = config("[[route]]\nmaildir = { path = \"/mail/{local}\" }");
        let node = Node::start(&text).await;
        submit(&node, "me@source.test", &["you@ours.test"]).await;
        node.wait_for("delivered", 1).await;
        let mailboxes = node.world.mailboxes();
        let content = &mailboxes[std::path::Path::new("/mail/you")][0];
        let id = node.last_id();
        assert!(content.starts_with("Return-Path: <me@source.test>\r\n"), "{content}");
        assert!(content.contains("Received: from client.test ([198.51.100.7])"), "{content}");
        assert!(content.contains(&format!("with ESMTP id {id}")), "{content}");
        assert!(content.ends_with("Subject: one\r\n\r\nbody\r\n"), "{content}");
    });
}

#[test]
fn a_stop_lets_a_transaction_finish_and_says_421_to_the_idle() {
    play(|| async {
        let node = Node::start(&config(DISCARD)).await;
        let mut idle = Client::connect(&node, FRIEND).await;
        let mut busy = Client::connect(&node, FRIEND).await;
        busy.say("MAIL FROM:<me@source.test>").await;
        busy.say("RCPT TO:<you@ours.test>").await;
        busy.say("DATA").await;
        let finish = async {
            let reply = idle.reply().await;
            assert!(reply.starts_with("421 4.3.2"), "{reply}");
            busy.write("Subject: x\r\n\r\nbody\r\n").await;
            let reply = busy.say(".").await;
            assert!(reply.starts_with("250 2.0.0"), "{reply}");
        };
        tokio::join!(node.stop(Duration::from_secs(10)), finish);
        assert_eq!(node.count("received"), 1);
    });
}

#[test]
fn a_message_that_loops_is_refused() {
    play(|| async {
        let node = Node::start(&config(DISCARD)).await;
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@source.test>").await;
        client.say("RCPT TO:<you@ours.test>").await;
        let content = "Received: by x.test\r\n".repeat(101) + "\r\nbody\r\n";
        let reply = client.content(&content).await;
        assert!(reply.starts_with("554 5.4.6"), "{reply}");
        let refused = node.of("refused");
        assert_eq!(refused[0]["step"], "content");
        assert_eq!(refused[0]["sender"], "me@source.test");
    });
}

#[test]
fn listeners_limits_are_kept_at_their_edges() {
    play(|| async {
        let text = config(DISCARD)
            .replace("relay_from", "max_recipients = 100\nmax_messages = 1\nrelay_from");
        let node = Node::start(&text).await;
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@source.test>").await;
        for n in 0..100 {
            let reply = client.say(&format!("RCPT TO:<u{n}@ours.test>")).await;
            assert!(reply.starts_with("250"), "{n}: {reply}");
        }
        let reply = client.say("RCPT TO:<u100@ours.test>").await;
        assert!(reply.starts_with("452 4.5.3"), "{reply}");
        let reply = client.content("body\r\n").await;
        assert!(reply.starts_with("250"), "{reply}");
        let reply = client.say("MAIL FROM:<me@source.test>").await;
        assert!(reply.starts_with("421 4.7.0"), "{reply}");
        node.wait_for("delivered", 100).await;
    });
}
