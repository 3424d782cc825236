//! What becomes of mail for mailboxes on this machine.

use super::client::submit;
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
