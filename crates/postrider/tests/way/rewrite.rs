//! Rewriting of addresses by tables, which are scripted.

use super::client::{Client, FRIEND, STRANGER, submit};
use super::node::{Node, config, play, wait_until};
use super::peer::Peer;
use lookup::{LookupError, LookupErrorKind};
use serde_json::Value;
use std::path::Path;

const ROUTES: &str = "[[table]]\nname = \"generic\"\ninline = {}\n\
    [[route]]\nname = \"inside\"\ndomains = [\"ours.test\"]\nmaildir = { path = \"/in/{local}\" }\n\
    [[route]]\nname = \"outside\"\nmaildir = { path = \"/out/{local}\" }\n";

async fn start(rules: &str, entries: &[(&str, &str)]) -> Node {
    let node = Node::start(&config(&format!("{ROUTES}{rules}"))).await;
    for (key, text) in entries {
        node.world.set_entry("generic", key, Ok(text));
    }
    node
}

const GENERIC: &str = "[[rewrite]]\ntable = \"generic\"\nroutes = [\"outside\"]\n\
    addresses = [\"envelope_sender\", \"from\", \"reply_to\"]\n";
const CANONICAL: &str = "[[rewrite]]\ntable = \"generic\"\n";

/// The last message in a mailbox.
fn last(node: &Node, path: &str) -> String {
    node.world.mailboxes()[Path::new(path)].last().expect("mail").clone()
}

/// A field of each event of this name, in order.
fn told(node: &Node, event: &str, field: &str) -> Vec<Value> {
    node.of(event).iter().map(|event| event[field].clone()).collect()
}

const CONTENT: &str = "From: \"Root, me\" <root@app1.ours.test>\r\nReply-To: Jo\r\n <jo@app1.ours.test>,\r\n \
    other@far.test (jo@app1.ours.test)\r\nTo: root@app1.ours.test\r\n\r\nroot@app1.ours.test\r\n";

async fn send(node: &Node, from: &str, to: &[&str], content: &str) -> String {
    Client::connect(node, FRIEND).await.send(from, to, content).await
}

#[test]
fn senders_and_authors_are_replaced_and_the_rest_stays() {
    play(|| async {
        let entries =
            [("root@app1.ours.test", "alerts@example.test"), ("@app1.ours.test", "@example.test")];
        let node = start(GENERIC, &entries).await;
        assert!(
            send(&node, "root@app1.ours.test", &["you@far.test"], CONTENT)
                .await
                .starts_with("250 ")
        );
        node.wait_for("delivered", 1).await;
        assert_eq!(told(&node, "received", "sender"), ["alerts@example.test"]);
        let text = last(&node, "/out/you");
        assert!(text.starts_with("Return-Path: <alerts@example.test>\r\n"), "{text}");
        let expected = CONTENT
            .replacen("<root@app1.ours.test>", "<alerts@example.test>", 1)
            .replacen("<jo@app1.ours.test>", "<jo@example.test>", 1);
        assert!(text.ends_with(&expected), "{text}");
        // A recipient of another route gets it as it is.
        send(&node, "root@app1.ours.test", &["you@ours.test"], CONTENT).await;
        node.wait_for("delivered", 2).await;
        let text = last(&node, "/in/you");
        assert!(
            text.starts_with("Return-Path: <root@app1.ours.test>\r\n") && text.ends_with(CONTENT),
            "{text}"
        );
    });
}

#[test]
fn recipients_with_different_content_get_separate_messages() {
    play(|| async {
        for large in [false, true] {
            let node = start(GENERIC, &[("root@app1.ours.test", "alerts@example.test")]).await;
            let body =
                if large { "0123456789 abcdef\r\n".repeat(200_000) } else { "body\r\n".to_owned() };
            let content = format!("From: root@app1.ours.test\r\nSubject: x\r\n\r\n{body}");
            let to = ["a@ours.test", "b@far.test", "c@ours.test", "d@far.test"];
            let reply = send(&node, "root@app1.ours.test", &to, &content).await;
            assert!(reply.starts_with("250 "), "{reply}");
            node.wait_for("delivered", 4).await;
            let recipients = told(&node, "received", "recipients");
            assert_eq!(
                recipients,
                [
                    serde_json::json!(["a@ours.test", "c@ours.test"]),
                    serde_json::json!(["b@far.test", "d@far.test"])
                ]
            );
            let (ids, senders) = (told(&node, "received", "id"), told(&node, "received", "sender"));
            assert_ne!(ids[0], ids[1]);
            assert_eq!(senders, ["root@app1.ours.test", "alerts@example.test"]);
            // One commit: both have its position.
            assert_eq!(
                told(&node, "received", "sequence")[0],
                told(&node, "received", "sequence")[1]
            );
            for (path, from) in
                [("/in/a", "root@app1.ours.test"), ("/out/d", "alerts@example.test")]
            {
                let text = last(&node, path);
                assert!(
                    text.ends_with(&format!("From: {from}\r\nSubject: x\r\n\r\n{body}")),
                    "{path}"
                );
            }
            assert_eq!(node.shared.queue_slots.used(), 0);
        }
    });
}

#[test]
fn both_messages_are_there_after_a_crash() {
    play(|| async {
        let node = start(GENERIC, &[("root@app1.ours.test", "alerts@example.test")]).await;
        node.world.set_mailbox_failure(Some(std::io::ErrorKind::PermissionDenied));
        let to = ["a@ours.test", "b@far.test"];
        let reply =
            send(&node, "root@app1.ours.test", &to, "From: root@app1.ours.test\r\n\r\n").await;
        assert!(reply.starts_with("250 "), "{reply}");
        let node = node.restart().await;
        node.world.set_mailbox_failure(None);
        node.wait_for("delivered", 2).await;
        assert!(last(&node, "/out/b").contains("From: alerts@example.test"));
        assert!(last(&node, "/in/a").contains("From: root@app1.ours.test"));
    });
}

#[test]
fn a_loop_and_an_entry_that_is_no_address_change_nothing() {
    play(|| async {
        let entries = [
            ("a@x.test", "b@x.test"),
            ("b@x.test", "a@x.test"),
            ("c@x.test", "no address"),
            ("d@x.test", "\u{e9}@x.test"),
            ("e@x.test", "E@x.test"),
            ("f@x.test", "g@x.test"),
            ("g@x.test", "h@x.test"),
        ];
        let node = start(CANONICAL, &entries).await;
        for (n, (from, expected, is_logged)) in [
            ("a@x.test", "a@x.test", true),
            ("c@x.test", "c@x.test", true),
            ("d@x.test", "d@x.test", true),
            ("e@x.test", "E@x.test", false),
            ("f@x.test", "h@x.test", false),
        ]
        .into_iter()
        .enumerate()
        {
            let before = node.lines().len();
            submit(&node, from, &["you@far.test"]).await;
            node.wait_for("delivered", n + 1).await;
            assert_eq!(told(&node, "received", "sender")[n], expected);
            let lines = node.lines();
            let is_told = lines[before..].iter().any(|line| line.contains("stays"));
            assert_eq!(is_told, is_logged, "{from}: {lines:?}");
        }
        let gone = LookupError::new(LookupErrorKind::Unreachable, "connection refused");
        node.world.set_entry("generic", "z@x.test", Err(gone));
        let reply = send(&node, "z@x.test", &["you@far.test"], "To: x\r\n\r\n").await;
        assert!(reply.starts_with("451 4.4.3"), "{reply}");
        // The null sender, and the bare postmaster, stay.
        node.world.set_entry("generic", "@", Ok("x@x.test"));
        let reply = send(&node, "", &["postmaster"], "To: x\r\n\r\n").await;
        assert!(reply.starts_with("250 "), "{reply}");
    });
}

#[test]
fn tags_and_names_alone_are_looked_up_as_in_postfix() {
    play(|| async {
        let entries = [
            ("jo@x.test", "joanna"),
            ("ann@x.test", "ann.doe@y.test"),
            ("ann+list@x.test", "list@y.test"),
            ("bo", "bo.doe@y.test"),
            ("@z.test", "@y.test"),
        ];
        let node = start(CANONICAL, &entries).await;
        for (n, (from, expected)) in [
            ("Jo@X.test", "joanna@relay.test"),
            ("ann+x@x.test", "ann.doe+x@y.test"),
            ("ann+list@x.test", "list@y.test"),
            ("bo+t@ours.test", "bo.doe+t@y.test"),
            ("bo@far.test", "bo@far.test"),
            ("Any+t@z.test", "Any+t@y.test"),
        ]
        .into_iter()
        .enumerate()
        {
            submit(&node, from, &["you@far.test"]).await;
            node.wait_for("received", n + 1).await;
            let sender = told(&node, "received", "sender")[n].clone();
            assert_eq!(sender, expected, "{from}");
        }
    });
}

#[test]
fn recipients_are_replaced_and_an_address_that_comes_twice_gets_one_copy() {
    play(|| async {
        let rule = "[[rewrite]]\ntable = \"generic\"\naddresses = [\"envelope_recipient\"]\n";
        let node =
            start(rule, &[("old@ours.test", "new@far.test"), ("older@ours.test", "new@far.test")])
                .await;
        let to = ["old@ours.test", "older@ours.test", "a@ours.test"];
        let reply = send(&node, "me@source.test", &to, "To: old@ours.test\r\n\r\n").await;
        assert!(reply.starts_with("250 "), "{reply}");
        node.wait_for("delivered", 2).await;
        assert_eq!(
            told(&node, "received", "recipients"),
            [serde_json::json!(["new@far.test", "a@ours.test"])]
        );
        assert!(last(&node, "/out/new").ends_with("To: old@ours.test\r\n\r\n"));
        assert_eq!(node.shared.queue_slots.used(), 0);
    });
}

#[test]
fn addresses_without_a_domain_get_the_origin() {
    play(|| async {
        let text = config(ROUTES).replace(
            "name = \"in\"\n",
            "name = \"in\"\norigin = \"ours.test\"\nadd_missing_fields = true\n",
        );
        let node = Node::start(&text).await;
        let mut client = Client::connect(&node, FRIEND).await;
        let reply = client.send("root", &["jo", "postmaster"], "From: jo\r\n\r\n").await;
        assert!(reply.starts_with("250 "), "{reply}");
        node.wait_for("delivered", 2).await;
        assert_eq!(told(&node, "received", "sender"), ["root@ours.test"]);
        let text = last(&node, "/in/jo");
        for field in ["From: jo@ours.test\r\n", "\r\nDate: ", "\r\nMessage-ID: <"] {
            assert!(text.contains(field), "{field}: {text}");
        }
        let mut client = Client::connect(&node, STRANGER).await;
        let reply = client.say("MAIL FROM:<root>").await;
        assert!(reply.starts_with("501 5.1.7"), "{reply}");
        client.say("MAIL FROM:<me@source.test>").await;
        let reply = client.say("RCPT TO:<jo>").await;
        assert!(reply.starts_with("501 5.1.3"), "{reply}");
    });
}

#[test]
fn only_different_content_makes_another_message() {
    play(|| async {
        let node = start(GENERIC, &[("root@app1.ours.test", "alerts@example.test")]).await;
        let content = "From: jo@app1.ours.test\r\nTo: root@app1.ours.test\r\n\r\n";
        let to = ["a@ours.test", "b@far.test"];
        assert!(send(&node, "jo@app1.ours.test", &to, content).await.starts_with("250 "));
        node.wait_for("delivered", 2).await;
        assert_eq!(told(&node, "received", "recipients"), [serde_json::json!(to)]);
        assert!(last(&node, "/out/b").ends_with(content));
    });
}

#[test]
fn conditions_are_those_of_each_recipient() {
    play(|| async {
        let rules = "[[table]]\nname = \"wanted\"\ninline = {}\n\
            [[rewrite]]\ntable = \"generic\"\naddresses = [\"from\"]\n\
            when = { senders = [\"@app1.test\"], recipients = { table = \"wanted\" } }\n\
            [[rewrite]]\ntable = \"generic\"\naddresses = [\"reply_to\"]\n\
            when = { clients = [\"203.0.113.0/24\"] }\n";
        let node = start(rules, &[("@app1.test", "@example.test")]).await;
        node.world.set_entry("wanted", "b@far.test", Ok("yes"));
        let content = "From: jo@app1.test\r\nReply-To: jo@app1.test\r\n\r\n";
        let new = content.replacen("@app1", "@example", 1);
        for (n, (sender, expected)) in
            [("root@app1.test", &*new), ("root@app2.test", content)].into_iter().enumerate()
        {
            let reply = send(&node, sender, &["a@far.test", "b@far.test"], content).await;
            assert!(reply.starts_with("250 "), "{reply}");
            node.wait_for("delivered", 2 * (n + 1)).await;
            assert!(last(&node, "/out/a").ends_with(content));
            assert!(last(&node, "/out/b").ends_with(expected), "{sender}");
        }
        let gone = LookupError::new(LookupErrorKind::Unreachable, "connection refused");
        node.world.set_entry("wanted", "c@far.test", Err(gone));
        let reply = send(&node, "root@app1.test", &["c@far.test"], content).await;
        assert!(reply.starts_with("451 4.4.3"), "{reply}");
    });
}

#[test]
fn a_later_rule_sees_the_new_recipient_and_its_route() {
    play(|| async {
        let rules = format!(
            "[[rewrite]]\ntable = \"generic\"\naddresses = [\"envelope_recipient\"]\n{GENERIC}"
        );
        let entries = [
            ("old@ours.test", "new@far.test"),
            ("older@ours.test", "a@ours.test"),
            ("root@app1.test", "alerts@example.test"),
        ];
        let node = start(&rules, &entries).await;
        // The third recipient is the first one again, and so no message is left for it.
        let to = ["a@ours.test", "old@ours.test", "older@ours.test"];
        let reply = send(&node, "root@app1.test", &to, "From: root@app1.test\r\n\r\n").await;
        assert!(reply.starts_with("250 "), "{reply}");
        node.wait_for("delivered", 2).await;
        let recipients = told(&node, "received", "recipients");
        let expected = [["a@ours.test"], ["new@far.test"]];
        assert_eq!(recipients, expected.map(|one| serde_json::json!(one)));
        let senders = told(&node, "received", "sender");
        assert_eq!(senders, ["root@app1.test", "alerts@example.test"]);
        assert_eq!(node.shared.queue_slots.used(), 0);
    });
}

#[test]
fn a_message_does_not_become_too_many() {
    play(|| async {
        let rules: String = (0..17)
            .map(|n| {
                format!(
                    "[[table]]\nname = \"t{n}\"\ninline = {{}}\n[[rewrite]]\ntable = \"t{n}\"\n\
                     addresses = [\"from\"]\nwhen = {{ recipients = [\"r{n}@far.test\"] }}\n"
                )
            })
            .collect();
        let node = start(&rules, &[]).await;
        for n in 0..17 {
            node.world.set_entry(&format!("t{n}"), "a@x.test", Ok(&format!("a{n}@x.test")));
        }
        let all: Vec<String> = (0..17).map(|n| format!("r{n}@far.test")).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let reply = send(&node, "a@x.test", &all[..16], "From: a@x.test\r\n\r\n").await;
        assert!(reply.starts_with("250 "), "{reply}");
        node.wait_for("delivered", 16).await;
        let ids: std::collections::BTreeSet<String> =
            told(&node, "received", "id").iter().map(Value::to_string).collect();
        assert_eq!(ids.len(), 16);
        let reply = send(&node, "a@x.test", &all, "From: a@x.test\r\n\r\n").await;
        assert!(reply.starts_with("451 4.3.5"), "{reply}");
        assert_eq!(node.count("received"), 16);
        assert_eq!(node.shared.queue_slots.used(), 0);
    });
}

#[test]
fn owners_of_lists_are_replaced_as_senders_and_keep_their_reports() {
    play(|| async {
        let text = "[[table]]\nname = \"generic\"\ninline = {}\n\
            [[table]]\nname = \"aliases\"\ninline = {}\n\
            [[rewrite]]\ntable = \"generic\"\nroutes = [\"outside\"]\n\
            addresses = [\"envelope_sender\"]\n\
            [[route]]\ndomains = [\"ours.test\"]\naliases = { table = \"aliases\" }\n\
            maildir = { path = \"/in/{local}\" }\n\
            [[route]]\nname = \"outside\"\nsmtp = { hosts = [\"192.0.2.1:25\"] }\n";
        let node = Node::start(&config(text)).await;
        let away = Peer::at(&node.world, "192.0.2.1:25");
        for (key, text) in [
            ("staff@ours.test", "jo@ours.test, far@far.test, other@far.test"),
            ("owner-staff@ours.test", "boss@ours.test"),
        ] {
            node.world.set_entry("aliases", key, Ok(text));
        }
        node.world.set_entry("generic", "owner-staff@ours.test", Ok("lists@example.test"));
        submit(&node, "me@source.test", &["staff@ours.test"]).await;
        node.wait_for("relayed", 2).await;
        node.wait_for("delivered", 1).await;
        let sent = away.messages().remove(0);
        assert_eq!((&*sent.from, sent.to.len()), ("lists@example.test", 2));
        let text = last(&node, "/in/jo");
        assert!(text.starts_with("Return-Path: <owner-staff@ours.test>\r\n"), "{text}");
        // One message: the owner belongs to each recipient.
        assert_eq!(node.of("received").len(), 1);
        // Mail without a sender keeps none.
        submit(&node, "", &["staff@ours.test"]).await;
        node.wait_for("relayed", 4).await;
        assert_eq!(away.messages()[1].from, "");
        // Reports go to the mailboxes of the owner, as without the rule.
        away.always("RCPT", "550 5.1.1 gone");
        submit(&node, "me@source.test", &["staff@ours.test"]).await;
        wait_until("a report", || node.world.mailboxes().contains_key(Path::new("/in/boss"))).await;
        let report = last(&node, "/in/boss");
        assert!(report.contains("Final-Recipient: rfc822;far@far.test\r\n"), "{report}");
    });
}
