//! What becomes of mail for mailboxes on this machine.

use super::client::{Client, STRANGER, submit};
use super::node::{Node, config, play};
use std::path::Path;
use std::time::Duration;

const MAILDIR: &str = "[retry]\njitter = 0\n[[route]]\nmaildir = { path = \"/mail/{local}\"";

/// A route to Maildirs with more keys.
fn with(keys: &str) -> String {
    config(&format!("{MAILDIR}{keys} }}"))
}

#[test]
fn a_full_mailbox_is_tried_until_its_grace_is_over_and_then_returns_mail() {
    play(|| async {
        let node = Node::start(&with(", quota = 10, quota_grace = \"3h\"")).await;
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("deferred", 1).await;
        let deferred = node.of("deferred").remove(0);
        assert_eq!((&deferred["status"], &deferred["culprit"]), (&"4.2.2".into(), &"local".into()));
        node.wait_for("failed", 1).await;
        assert!(node.age() >= Duration::from_secs(3 * 3_600));
        assert_eq!(node.of("failed")[0]["status"], "5.2.2");
        // Others' mailboxes work: the route goes on.
        assert_eq!(node.count("suspended"), 0);
    });
}

#[test]
fn without_grace_a_full_mailbox_returns_mail_at_once() {
    play(|| async {
        let node = Node::start(&with(", quota = 10, quota_grace = \"0\"")).await;
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("failed", 1).await;
        assert_eq!(node.count("deferred"), 0);
        assert_eq!(node.of("failed")[0]["status"], "5.2.2");
    });
}

#[test]
fn a_tag_names_a_folder() {
    play(|| async {
        let node = Node::start(&with(", folders = \"tag\"")).await;
        submit(&node, "me@source.test", &["User+Lists@x.test", "user@x.test"]).await;
        node.wait_for("delivered", 2).await;
        let mailboxes = node.world.mailboxes();
        let [inbox] = &mailboxes[Path::new("/mail/user")][..] else { panic!("{mailboxes:?}") };
        assert!(inbox.contains("Delivered-To: user@x.test\r\n"), "{inbox}");
        let [list] = &mailboxes[Path::new("/mail/user/.Lists")][..] else {
            panic!("{mailboxes:?}")
        };
        assert!(list.contains("Delivered-To: User+Lists@x.test\r\n"), "{list}");
    });
}

#[test]
fn mail_that_comes_back_to_a_mailbox_is_returned() {
    play(|| async {
        use super::client::{Client, FRIEND, STRANGER};
        // A stranger could have a report sent to anybody, who had only to be named as the sender.
        for (from, reports) in [(FRIEND, 1), (STRANGER, 0)] {
            let node = Node::start(&with("")).await;
            let mut client = Client::connect(&node, from).await;
            client.say("MAIL FROM:<me@source.test>").await;
            client.say("RCPT TO:<a@x.test>").await;
            client.say("RCPT TO:<b@x.test>").await;
            client.content("Delivered-To: A@x.test\r\nSubject: x\r\n\r\nbody\r\n").await;
            node.wait_for("failed", 1).await;
            node.wait_for("delivered", 1).await;
            let failed = node.of("failed").remove(0);
            assert_eq!(
                (&failed["recipient"], &failed["status"]),
                (&"a@x.test".into(), &"5.4.6".into())
            );
            assert_eq!(node.of("delivered")[0]["recipient"], "b@x.test");
            assert_eq!(node.count("suspended"), 0);
            tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            assert_eq!(node.count("dsn_queued"), reports, "{from}");
        }
    });
}

/// The reply to RCPT for each, in a transaction of a client that may not relay.
async fn replies(node: &Node, mail: &str, to: &[&str]) -> Vec<String> {
    let mut client = Client::connect(node, STRANGER).await;
    client.say(&format!("MAIL FROM:<me@source.test>{mail}")).await;
    let mut replies = Vec::new();
    for to in to {
        let said = client.say(&format!("RCPT TO:<{to}>")).await;
        replies.push(said.split(' ').take(2).collect::<Vec<_>>().join(" "));
    }
    replies
}

#[test]
fn rcpt_for_a_full_mailbox_is_refused() {
    play(|| async {
        for (grace, reply) in [
            ("", "452 4.2.2"),
            (", quota_grace = \"1h\"", "452 4.2.2"),
            (", quota_grace = \"0\"", "552 5.2.2"),
        ] {
            let node = Node::start(&with(&format!(", quota = 500{grace}"))).await;
            for n in 1.. {
                if replies(&node, "", &["a@x.test"]).await == [reply] {
                    assert!(n > 1, "it was empty");
                    break;
                }
                submit(&node, "me@source.test", &["a@x.test"]).await;
                node.wait_for("delivered", n).await;
            }
            // Other mailboxes have room, but not for what is announced.
            assert_eq!(replies(&node, "", &["b@x.test"]).await, ["250 2.1.5"]);
            assert_eq!(replies(&node, " SIZE=500", &["b@x.test"]).await, ["250 2.1.5"]);
            assert_eq!(replies(&node, " SIZE=501", &["b@x.test"]).await, ["552 5.2.2"]);
            assert_eq!(node.count("deferred") + node.count("failed"), 0);
        }
    });
}

#[test]
fn an_announced_size_counts_for_the_room_that_is_left() {
    play(|| async {
        let node = Node::start(&with(", quota = 500")).await;
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("delivered", 1).await;
        let used = node.world.mailboxes()[Path::new("/mail/a")][0].len();
        for (size, reply) in [(500 - used, "250 2.1.5"), (501 - used, "452 4.2.2")] {
            let mail = format!(" SIZE={size}");
            assert_eq!(replies(&node, &mail, &["a@x.test"]).await, [reply], "{size}");
        }
    });
}

#[test]
fn rcpt_is_refused_while_the_disk_is_full() {
    play(|| async {
        let node = Node::start(&with("")).await;
        assert_eq!(replies(&node, "", &["a@x.test"]).await, ["250 2.1.5"]);
        node.world.set_mailbox_failure(Some(std::io::ErrorKind::StorageFull));
        assert_eq!(replies(&node, "", &["a@x.test", "b@x.test"]).await, ["452 4.3.1"; 2]);
        node.world.set_mailbox_failure(None);
        assert_eq!(replies(&node, "", &["a@x.test"]).await, ["250 2.1.5"]);
        // An unknown state is no reason to refuse.
        let node = Node::start(&with(", quota = 500")).await;
        node.world.set_mailbox_failure(Some(std::io::ErrorKind::PermissionDenied));
        assert_eq!(replies(&node, "", &["a@x.test"]).await, ["250 2.1.5"]);
    });
}

#[test]
fn an_entry_closes_a_mailbox() {
    play(|| async {
        let text = config(
            "[[table]]\nname = \"users\"\nscripted = { fields = [\"box\", \"disabled\"] }\n\
             [[table]]\nname = \"aliases\"\ninline = {}\n\
             [[route]]\ndomains = [\"ours.test\"]\nrecipients = { table = \"users\" }\n\
             aliases = { table = \"aliases\" }\nmaildir = { path = \"/mail/{local}\", quota = 500 }",
        );
        let node = Node::start(&text).await;
        for (local, disabled) in [
            ("open", &["0"][..]),
            ("no", &["false"]),
            ("none", &[]),
            ("shut", &["1"]),
            ("gone", &["TRUE"]),
        ] {
            let values: &[(&str, &[&str])] = &[("box", &["x"]), ("disabled", disabled)];
            node.world.set_values("users", &format!("{local}@ours.test"), values);
        }
        for (alias, members) in [
            ("team", "open@ours.test, shut@ours.test"),
            ("ex", "shut@ours.test"),
            ("one", "open@ours.test"),
        ] {
            node.world.set_entry("aliases", &format!("{alias}@ours.test"), Ok(members));
        }
        let to = ["open", "no", "none", "shut", "gone", "team", "ex", "one"]
            .map(|to| format!("{to}@ours.test"));
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        let expected = [
            "250 2.1.5",
            "250 2.1.5",
            "250 2.1.5",
            "550 5.2.1",
            "550 5.2.1",
            "250 2.1.5",
            "550 5.1.1",
            "250 2.1.5",
        ];
        assert_eq!(replies(&node, "", &to).await, expected);
        // Behind an alias with one member is its mailbox; a list is accepted.
        assert_eq!(replies(&node, " SIZE=501", &["one@ours.test"]).await, ["552 5.2.2"]);
    });
}

#[test]
fn marked_mail_goes_to_the_junk_folder() {
    play(|| async {
        let node = Node::start(&with(
            ", folders = \"tag\", junk = { header = \"X-Spam\", value = \"Yes\" }",
        ))
        .await;
        let long = format!("X-Spam: yes\r\n\r\n{}", "0123456789 abcdef\r\n".repeat(200_000));
        for (n, (to, content, path)) in [
            ("a@x.test", "X-Spam: yes, score=9\r\n\r\n", "/mail/a/.Junk"),
            ("a+Lists@x.test", "Subject: x\r\nX-Spam: Yes\r\n\r\n", "/mail/a/.Junk"),
            ("a@x.test", "X-Spam: no\r\n\r\nX-Spam: yes\r\n", "/mail/a"),
            ("a+Lists@x.test", "X-Spam: no\r\n\r\n", "/mail/a/.Lists"),
            ("b@x.test", &*long, "/mail/b/.Junk"),
        ]
        .into_iter()
        .enumerate()
        {
            let mut client = Client::connect(&node, STRANGER).await;
            let reply = client.send("me@source.test", &[to], content).await;
            assert!(reply.starts_with("250 "), "{reply}");
            node.wait_for("delivered", n + 1).await;
            let mailboxes = node.world.mailboxes();
            let last = mailboxes.get(Path::new(path)).and_then(|messages| messages.last());
            assert!(
                last.is_some_and(|text| text.ends_with(content)),
                "{n}: {:?}",
                mailboxes.keys()
            );
        }
        assert_eq!(node.world.mailboxes()[Path::new("/mail/a/.Junk")].len(), 2);
    });
}
