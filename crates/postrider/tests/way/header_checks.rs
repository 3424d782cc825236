//! Header and body checks by tables. Tables are scripted: the key is the whole field, or line.

use super::client::{Client, STRANGER};
use super::node::{Node, config, play};
use lookup::{LookupError, LookupErrorKind};
use std::path::Path;
use std::time::Duration;

const ROUTE: &str = "[[route]]\nmaildir = { path = \"/mail/{local}\" }";

fn with(checks: &str) -> String {
    config(&format!(
        "[[table]]\nname = \"lines\"\nregexp = {{ path = \"lines\" }}\n\
         [[table]]\nname = \"more\"\npcre = {{ path = \"more\" }}\n{checks}\n{ROUTE}"
    ))
}

const HEADER: &str = "[[header_check]]\ntable = \"lines\"\n[[header_check]]\ntable = \"more\"";
const BODY: &str = "[[header_check]]\ntable = \"lines\"\nin = \"body\"";

/// Sends a message; the reply to its end.
async fn send(node: &Node, content: &str) -> String {
    let mut client = Client::connect(node, STRANGER).await;
    client.send("me@source.test", &["you@x.test"], content).await
}

/// The last message in a mailbox, without what this server adds.
fn last(node: &Node, local: &str) -> String {
    let mailboxes = node.world.mailboxes();
    let text = mailboxes[Path::new("/mail").join(local).as_path()].last().expect("mail").clone();
    let added = ["Return-Path:", "Delivered-To:", "Received:"];
    let is_added = |field: &mail::header::Field<'_>| {
        added.iter().any(|name| field.is(&name[..name.len() - 1]))
    };
    let end = mail::header::fields(text.as_bytes()).take_while(is_added).last();
    text[end.map_or(0, |field| field.range.end)..].to_owned()
}

#[test]
fn lines_are_removed_replaced_and_added() {
    play(|| async {
        let node = Node::start(&with(HEADER)).await;
        for (key, action) in [
            ("X-A: 1\n 2", "IGNORE"),
            ("X-B: b", "REPLACE X-C: \u{e9}"),
            ("X-D: d", "PREPEND X-E: e"),
            ("X-F: f", "STRIP"),
        ] {
            node.world.set_entry("lines", key, Ok(action));
        }
        let reply =
            send(&node, "X-A: 1\r\n 2\r\nX-B: b\r\nX-D: d\r\nX-F: f\r\nTo: x\r\n\r\nX-F: f\r\n")
                .await;
        assert!(reply.starts_with("250 "), "{reply}");
        node.wait_for("delivered", 1).await;
        assert_eq!(
            last(&node, "you"),
            "X-C: \u{e9}\r\nX-D: d\r\nTo: x\r\n\r\nX-F: f\r\n".replacen("X-D", "X-E: e\r\nX-D", 1)
        );
        assert!(
            node.lines().iter().any(|line| line.contains("removed \"X-F: f\"")),
            "{:?}",
            node.lines()
        );
        // Removed fields only: the stored content stays.
        send(&node, "X-A: 1\r\n 2\r\nTo: x\r\n\r\nbody\r\n").await;
        node.wait_for("delivered", 2).await;
        assert_eq!(last(&node, "you"), "To: x\r\n\r\nbody\r\n");
    });
}

#[test]
fn the_first_table_with_a_line_decides() {
    play(|| async {
        let node = Node::start(&with(HEADER)).await;
        node.world.set_entry("lines", "X-A: 1", Ok("DUNNO"));
        node.world.set_entry("more", "X-A: 1", Ok("REJECT"));
        node.world.set_entry("more", "X-B: 1", Ok("REJECT 5.6.0 Not that"));
        assert!(send(&node, "X-A: 1\r\n\r\n").await.starts_with("250 "));
        assert_eq!(send(&node, "X-B: 1\r\n\r\n").await, "550 5.6.0 Not that");
        let busy = LookupError::new(LookupErrorKind::Unreachable, "not open");
        node.world.set_entry("more", "X-C: 1", Err(busy));
        assert!(send(&node, "X-C: 1\r\n\r\n").await.starts_with("451 4.4.3"));
        let key = LookupError::new(LookupErrorKind::Key, "a split character");
        node.world.set_entry("more", "X-D: 1", Err(key));
        assert!(send(&node, "X-D: 1\r\n\r\n").await.starts_with("250 "));
    });
}

#[test]
fn messages_are_held_discarded_redirected_and_copied() {
    play(|| async {
        let node = Node::start(&with(HEADER)).await;
        for (key, action) in [
            ("X: hold", "HOLD look at it"),
            ("X: discard", "DISCARD unwanted"),
            ("X: other", "REDIRECT other@x.test"),
            ("X: copy", "BCC copy@x.test"),
        ] {
            node.world.set_entry("lines", key, Ok(action));
        }
        for content in
            ["X: hold\r\n\r\n", "X: discard\r\n\r\n", "X: other\r\n\r\n", "X: copy\r\n\r\n"]
        {
            assert!(send(&node, content).await.starts_with("250 "), "{content}");
        }
        node.wait_for("delivered", 3).await;
        assert_eq!(node.of("held")[0]["reason"], "look at it");
        assert_eq!(node.of("discarded")[0]["reason"], "unwanted");
        let mut boxes: Vec<_> = node.world.mailboxes().into_keys().collect();
        boxes.sort();
        let expected = ["copy", "other", "you"].map(|local| Path::new("/mail").join(local));
        assert_eq!(boxes, expected);
        assert_eq!(node.shared.queue_slots.used(), 1, "the held message");
    });
}

#[test]
fn a_body_is_compared_up_to_the_limit() {
    play(|| async {
        let node = Node::start(&with(BODY)).await;
        node.world.set_entry("lines", "bad", Ok("REJECT"));
        node.world.set_entry("lines", "gone", Ok("IGNORE"));
        let lines = |bytes: usize| format!("{}\r\n", "x".repeat(1_023)).repeat(bytes / 1_023);
        // 1 for the empty line, and 1 for each line end: 50,177.
        let filled = lines(50_127);
        for (filler, is_seen) in [("y".repeat(1_021), true), ("y".repeat(1_022), false)] {
            let content = format!("To: x\r\n\r\n{filled}{filler}\r\nbad\r\n");
            let reply = send(&node, &content).await;
            assert_eq!(reply.starts_with("550 5.7.1"), is_seen, "{reply}");
        }
        node.wait_for("delivered", 1).await;
        send(&node, "bad: header\r\n\r\none\r\ngone\r\ntwo\r\n").await;
        node.wait_for("delivered", 2).await;
        assert_eq!(last(&node, "you"), "bad: header\r\n\r\none\r\ntwo\r\n");
    });
}

#[test]
fn checks_that_match_every_line_have_a_limit() {
    play(|| async {
        let node = Node::start(&with(BODY)).await;
        let text = "z".repeat(30);
        node.world.set_entry("lines", "x", Ok(&format!("PREPEND {text}")));
        node.world.set_entry("lines", "y", Ok("WARN much"));
        // Octets added: 32 for each line; each part has its own 50 KiB.
        let part = |count: usize| format!("--b\r\n\r\n{}", "x\r\n".repeat(count));
        let head = "Content-Type: multipart/mixed; boundary=b\r\n\r\n";
        let most = (1 << 20) / 32;
        for (count, is_taken) in [(most, true), (most + 1, false)] {
            let parts = [20_000, count - 20_000].map(part).concat();
            let reply = send(&node, &format!("{head}{parts}")).await;
            assert_eq!(reply.starts_with("250 "), is_taken, "{count}: {reply}");
            assert!(is_taken || reply.starts_with("552 5.3.4"), "{reply}");
        }
        send(&node, &format!("To: x\r\n\r\n{}", "y\r\n".repeat(100))).await;
        let said = node.lines().iter().filter(|line| line.contains("much")).count();
        assert_eq!(said, 10);
        // 40 parts of 50 KiB are compared, and no more.
        node.world.set_entry("lines", "z", Ok("REJECT"));
        let parts = |count: usize| {
            let lines = format!("{}\r\n", "w".repeat(1_023)).repeat(50);
            format!("{head}{}--b\r\n\r\nz\r\n", format!("--b\r\n\r\n{lines}").repeat(count))
        };
        for (count, is_seen) in [(39, true), (42, false)] {
            let reply = send(&node, &parts(count)).await;
            assert_eq!(reply.starts_with("550 "), is_seen, "{count}: {reply}");
        }
    });
}

#[test]
fn checks_wait_for_tables_without_blocking() {
    play(|| async {
        let text =
            with("[[header_check]]\ntable = \"lines\"\nlisteners = [\"in\"]\n[retry]\njitter = 0");
        let node = Node::start(&text).await;
        node.world.set_entry("lines", "Auto-Submitted: auto-replied", Ok("REJECT"));
        node.world.set_entry("lines", "To: x", Ok("REPLACE To: y"));
        send(&node, "To: x\r\n\r\n").await;
        node.wait_for("delivered", 1).await;
        assert_eq!(last(&node, "you"), "To: y\r\n\r\n");
        // A table that is asked takes its time; other sessions go on.
        node.world.set_table_delay(Some(Duration::from_millis(10)));
        let before = node.age();
        send(&node, "To: x\r\nA: b\r\n\r\n").await;
        assert!(node.age() - before >= Duration::from_millis(20));
    });
}
