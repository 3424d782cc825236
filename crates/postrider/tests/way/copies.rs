//! Copies by rule.

use super::client::{Client, FRIEND, STRANGER, submit};
use super::node::{Node, config, play};
use super::world::TestWorld;
use lookup::{LookupError, LookupErrorKind};
use spool::memdisk::MemDisk;
use std::rc::Rc;

const ROUTES: &str = "[[route]]\ndomains = [\"ours.test\", \"archive.test\"]\n\
                      maildir = { path = \"/mail/{domain}/{local}\" }\n\
                      [[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }";

async fn start(rules: &str) -> Node {
    let world = TestWorld::new();
    let disk = Rc::new(MemDisk::new(1, 1 << 30));
    Node::start_on(world, disk, &config(&format!("{ROUTES}\n{rules}"))).await
}

/// Recipients of each message, in order.
fn received(node: &Node) -> Vec<String> {
    let shown = |event: &serde_json::Value| {
        let recipients = event["recipients"].as_array().expect("a list");
        recipients.iter().filter_map(|to| to.as_str()).collect::<Vec<_>>().join(" ")
    };
    node.of("received").iter().map(shown).collect()
}

#[test]
fn messages_are_copied_by_sender_recipient_and_listener() {
    play(|| async {
        let node = start(
            "[[copy]]\nto = \"all@archive.test\"\n\
             [[copy]]\nto = \"sent@archive.test\"\nsenders = [\"boss@source.test\", \"*.sub.test\"]\n\
             [[copy]]\nto = \"got@archive.test\"\nrecipients = [\"b@ours.test\", \"other.test\"]\n\
             [[copy]]\nto = \"never@archive.test\"\nrecipients = [\"archive.test\"]\nsenders = [\"x.test\"]\n\
             [[copy]]\nto = \"in@archive.test\"\nlisteners = [\"in\"]\nsenders = [\"boss@source.test\"]\n\
             [[copy]]\nto = \"idn@archive.test\"\nsenders = [\"bücher.test\"]",
        )
        .await;
        submit(&node, "me@source.test", &["a@ours.test"]).await;
        submit(&node, "boss@Source.test", &["a@ours.test"]).await;
        submit(&node, "me@a.sub.test", &["b@ours.test", "a@ours.test"]).await;
        submit(&node, "me@sub.test", &["all@archive.test"]).await;
        submit(&node, "me@xn--bcher-kva.test", &["a@ours.test"]).await;
        assert_eq!(
            received(&node),
            [
                "a@ours.test all@archive.test",
                "a@ours.test all@archive.test sent@archive.test in@archive.test",
                "b@ours.test a@ours.test all@archive.test sent@archive.test got@archive.test",
                "all@archive.test",
                "a@ours.test all@archive.test idn@archive.test",
            ]
        );
        node.wait_for("delivered", 15).await;
        assert_eq!(node.shared.queue_slots.used(), 0);
    });
}

#[test]
fn addresses_match_with_their_tags() {
    play(|| async {
        let rules = "[[copy]]\nto = \"to@archive.test\"\nrecipients = [\"al@ours.test\"]\n\
                     [[copy]]\nto = \"from@archive.test\"\nsenders = [\"boss@source.test\"]\n\
                     [[copy]]\nto = \"when@archive.test\"\n\
                     when = { senders = [\"boss@source.test\"], recipients = [\"al@ours.test\"] }";
        for (delimiter, begins) in [("", '+'), ("recipient_delimiter = \"-\"\n", '-')] {
            let text = format!("{delimiter}{}", config(&format!("{ROUTES}\n{rules}")));
            let disk = Rc::new(MemDisk::new(1, 1 << 30));
            let node = Node::start_on(TestWorld::new(), disk, &text).await;
            for tag in ['+', '-'] {
                let (from, to) = (format!("boss{tag}a@source.test"), format!("al{tag}b@ours.test"));
                submit(&node, &from, &[&to]).await;
                let copies = if tag == begins {
                    " to@archive.test from@archive.test when@archive.test"
                } else {
                    ""
                };
                assert_eq!(received(&node).pop(), Some(format!("{to}{copies}")), "{delimiter}");
            }
        }
    });
}

#[test]
fn copies_have_conditions_of_client_and_recipient() {
    play(|| async {
        let node = start(
            "[[copy]]\nto = \"friend@archive.test\"\nwhen = { clients = [\"198.51.100.7\"] }\n\
             [[copy]]\nto = \"b@archive.test\"\nsenders = [\"source.test\"]\n\
             when = { recipients = { table = \"watched\" } }\n\
             [[copy]]\nto = \"user@archive.test\"\nwhen = { logins = [\"jo\"] }\n\
             [[table]]\nname = \"watched\"\nscripted = { fields = [] }\n\
             [[certificate]]\nnames = [\"relay.test\"]\nchain = \"c.pem\"\nkey = \"c.key\"\n\
             [[listener]]\nname = \"users\"\nkind = \"submission\"\naddress = \"192.0.2.250:587\"\n\
             tls = \"implicit\"\nlogins = { table = \"watched\" }",
        )
        .await;
        node.world.set_entry("watched", "b@ours.test", Ok("1"));
        submit(&node, "me@source.test", &["a@ours.test", "b@ours.test"]).await;
        submit(&node, "me@source.test", &["a@ours.test"]).await;
        let mut client = Client::connect(&node, STRANGER).await;
        let content = "Subject: x\r\n\r\n";
        client.send("me@source.test", &["b@ours.test"], content).await;
        client.send("me@other.test", &["b@ours.test"], content).await;
        assert_eq!(FRIEND.to_string(), "198.51.100.7");
        assert_eq!(
            received(&node),
            [
                "a@ours.test b@ours.test friend@archive.test b@archive.test",
                "a@ours.test friend@archive.test",
                "b@ours.test b@archive.test",
                "b@ours.test",
            ]
        );
        // A table without an answer defers the message: a copy for an audit is not left out.
        let down = LookupErrorKind::Unreachable;
        node.world.set_entry("watched", "a@ours.test", Err(LookupError::new(down, "down")));
        let reply = client.send("me@source.test", &["a@ours.test"], content).await;
        assert!(reply.starts_with("451 4.4.3"), "{reply}");
    });
}

#[test]
fn copies_know_the_tenant_that_a_field_names() {
    play(|| async {
        let world = TestWorld::new();
        let disk = Rc::new(MemDisk::new(1, 1 << 30));
        let rules = "[steering]\ntenant = \"X-Tenant\"\n[[tenant]]\nname = \"acme\"\n\
                     [[copy]]\nto = \"acme@archive.test\"\nwhen = { tenants = [\"acme\"] }";
        let text = config(&format!("{ROUTES}\n{rules}"));
        let from = format!("name = \"in\"\nsteering_from = [\"{FRIEND}\"]\n");
        let node = Node::start_on(world, disk, &text.replacen("name = \"in\"\n", &from, 1)).await;
        let mut client = Client::connect(&node, FRIEND).await;
        for field in ["X-Tenant: acme\r\n", ""] {
            let content = format!("{field}Subject: x\r\n\r\n");
            let reply = client.send("me@source.test", &["a@ours.test"], &content).await;
            assert!(reply.starts_with("250 2.0.0"), "{reply}");
        }
        assert_eq!(received(&node), ["a@ours.test acme@archive.test", "a@ours.test"]);
    });
}

#[test]
fn nobody_hears_of_a_copy_that_fails_and_the_recipient_sees_no_sign_of_it() {
    play(|| async {
        let node =
            start("[[copy]]\nto = \"archive@far.test\"\n[retry]\ngive_up_after = \"2m\"").await;
        // A stranger could not have named the recipient of the copy.
        let mut client = Client::connect(&node, STRANGER).await;
        let reply = client.send("me@ours.test", &["a@ours.test"], "Subject: x\r\n\r\n").await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
        node.wait_for("delivered", 1).await;
        node.wait_for("expired", 1).await;
        assert_eq!(node.of("expired")[0]["recipient"], "archive@far.test");
        tokio::time::sleep(std::time::Duration::from_secs(3600)).await;
        assert_eq!(node.count("dsn_queued"), 0);
        let mailboxes = node.world.mailboxes();
        let content = &mailboxes[std::path::Path::new("/mail/ours.test/a")][0];
        assert!(!content.contains("archive"), "{content}");
    });
}

#[test]
fn a_copy_counts_against_the_queue() {
    play(|| async {
        let rules = "[[copy]]\nto = \"x@archive.test\"\n[spool]\nqueue_recipients_max = 2";
        let node = start(rules).await;
        let mut client = Client::connect(&node, FRIEND).await;
        let reply = client.send("me@source.test", &["a@far.test", "b@far.test"], "x\r\n").await;
        assert_eq!(reply, "452 4.3.1 Queue full; try again later");
        assert_eq!((node.count("received"), node.shared.queue_slots.used()), (0, 0));
        let reply = client.send("me@source.test", &["a@far.test"], "x\r\n").await;
        assert!(reply.starts_with("250 2.0.0"), "{reply}");
    });
}
