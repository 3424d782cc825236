//! What aliases send on for others: whose it is, and who hears of its failure.

use super::client::{Client, FRIEND, STRANGER, submit};
use super::node::{Node, config, play};
use super::peer::Peer;
use std::path::Path;
use std::time::Duration;

const KEYS: &str = "[[table]]\nname = \"aliases\"\ninline = {}\n[[table]]\nname = \"domains\"\ninline = {}\n\
                    [srs]\ndomain = \"srs.test\"\nsecret_file = \"secret\"\n\
                    [[route]]\ndomains = [\"ours.test\"]\naliases = { table = \"aliases\" }\n\
                    maildir = { path = \"/mail/{local}\" }\n\
                    [[route]]\ndomains = { table = \"domains\" }\nsmtp = { hosts = [\"192.0.2.2:25\"] }\n\
                    [[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }\n";

async fn start() -> (Node, Peer) {
    let node = Node::start(&config(KEYS)).await;
    for (alias, members) in [
        ("both@ours.test", "jo@ours.test, far@away.test, her@away.test"),
        ("away@ours.test", "far@away.test"),
        ("hosted@ours.test", "jo@hosted.test"),
    ] {
        node.world.set_entry("aliases", alias, Ok(members));
    }
    node.world.set_entry("domains", "hosted.test", Ok(""));
    let peer = Peer::at(&node.world, "192.0.2.1:25");
    (node, peer)
}

async fn rcpt(client: &mut Client, to: &str) -> String {
    client.say(&format!("RCPT TO:<{to}>")).await
}

#[test]
fn what_is_sent_on_has_a_sender_of_ours_and_reports_are_led_back() {
    play(|| async {
        let (node, peer) = start().await;
        let mut client = Client::connect(&node, STRANGER).await;
        let said = client.send("Me@source.test", &["both@ours.test"], "Subject: x\r\n\r\n").await;
        assert!(said.starts_with("250 2.0.0"), "{said}");
        node.wait_for("delivered", 1).await;
        node.wait_for("relayed", 2).await;
        let mailboxes = node.world.mailboxes();
        let kept = &mailboxes[Path::new("/mail/jo")][0];
        assert!(kept.contains("Return-Path: <Me@source.test>"), "{kept}");
        let sent = peer.messages();
        assert_eq!((sent.len(), sent[0].to.len()), (1, 2), "in one transaction");
        let rewritten = sent[0].from.clone();
        assert!(rewritten.starts_with("SRS0=") && rewritten.ends_with("=source.test=Me@srs.test"));
        // A report from somewhere.
        let said = client.send("", &[&rewritten.to_lowercase()], "Subject: no\r\n\r\n").await;
        assert!(said.starts_with("250 2.0.0"), "{said}");
        node.wait_for("relayed", 3).await;
        assert_eq!((&*peer.messages()[1].from, &*peer.messages()[1].to[0]), ("", "me@source.test"));
        client.say("MAIL FROM:<>").await;
        for (address, text) in [
            (
                rewritten.replace("source.test", "victim.test"),
                "550 5.1.1 SRS address has an invalid hash",
            ),
            ("SRS0=x@srs.test".to_owned(), "550 5.1.1 Not an SRS address"),
            ("jo@srs.test".to_owned(), "550 5.7.1 Relay access denied"),
            (rewritten.replace("srs.test", "other.test"), "550 5.7.1 Relay access denied"),
        ] {
            assert_eq!(rcpt(&mut client, &address).await, text, "{address}");
        }
        client.say("QUIT").await;
        tokio::time::sleep(Duration::from_secs(22 * 86_400)).await;
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<>").await;
        let said = rcpt(&mut client, &rewritten).await;
        assert_eq!(said, "550 5.1.1 SRS address has expired");
    });
}

#[test]
fn a_sender_who_is_written_in_two_ways_takes_one_slot_of_the_queue() {
    play(|| async {
        let (node, peer) = start().await;
        submit(&node, "me@source.test", &["away@ours.test"]).await;
        node.wait_for("relayed", 1).await;
        let rewritten = peer.messages()[0].from.clone();
        submit(&node, "", &[&rewritten, &rewritten.to_lowercase()]).await;
        node.wait_for("relayed", 2).await;
        assert_eq!(peer.messages()[1].to, ["me@source.test"]);
        assert_eq!(node.shared.queue_slots.used(), 0);
    });
}

#[test]
fn only_what_leaves_our_domains_from_elsewhere_is_rewritten() {
    play(|| async {
        let (node, peer) = start().await;
        let hosted = Peer::at(&node.world, "192.0.2.2:25");
        let mut told = 0;
        for (sender, to, seen) in [
            ("me@ours.test", "away@ours.test", "me@ours.test"),
            ("me@hosted.test", "away@ours.test", "me@hosted.test"),
            ("me@relay.test", "away@ours.test", "me@relay.test"),
            ("", "away@ours.test", ""),
            ("me@source.test", "far@away.test", "me@source.test"),
        ] {
            let mut client = Client::connect(&node, FRIEND).await;
            let said = client.send(sender, &[to], "Subject: x\r\n\r\n").await;
            assert!(said.starts_with("250 2.0.0"), "{said}");
            told += 1;
            node.wait_for("relayed", told).await;
            assert_eq!(peer.messages()[told - 1].from, seen, "{sender} {to}");
        }
        submit(&node, "me@source.test", &["hosted@ours.test"]).await;
        node.wait_for("relayed", told + 1).await;
        assert_eq!(hosted.messages()[0].from, "me@source.test", "it stays with us");
        // Another forwarder's, and what is on its way back.
        let first = "SRS0=abcd=AB=source.test=me@first.test";
        submit(&node, first, &["away@ours.test"]).await;
        node.wait_for("relayed", told + 2).await;
        let from = peer.messages()[told].from.clone();
        assert!(
            from.starts_with("SRS1=")
                && from.ends_with("=first.test==abcd=AB=source.test=me@srs.test")
        );
        submit(&node, "", &[&from]).await;
        node.wait_for("relayed", told + 3).await;
        assert_eq!(peer.messages()[told + 1].to, [first]);
    });
}

#[test]
fn a_route_may_say_whether_senders_are_rewritten() {
    play(|| async {
        let hop = |domain: &str, more: &str| {
            format!(
                "[[route]]\ndomains = [\"{domain}\"]\n{more}\nsmtp = {{ hosts = [\"192.0.2.1:25\"] }}\n"
            )
        };
        let keys = format!(
            "[[table]]\nname = \"aliases\"\ninline = {{}}\n\
             [srs]\ndomain = \"srs.test\"\nsecret_file = \"secret\"\n\
             [[route]]\ndomains = [\"ours.test\"]\naliases = {{ table = \"aliases\" }}\n\
             maildir = {{ path = \"/mail/{{local}}\" }}\n{}{}{}\
             [[route]]\nsrs = false\nsmtp = {{ hosts = [\"192.0.2.1:25\"] }}\n",
            hop("named.test", ""),
            hop("strict.test", "srs = true"),
            hop("lax.test", "srs = false"),
        );
        let node = Node::start(&config(&keys)).await;
        let peer = Peer::at(&node.world, "192.0.2.1:25");
        let to = "a@named.test, b@strict.test, c@lax.test, d@away.test";
        node.world.set_entry("aliases", "all@ours.test", Ok(to));
        submit(&node, "me@source.test", &["all@ours.test"]).await;
        node.wait_for("relayed", 4).await;
        // A sender of ours is good everywhere.
        submit(&node, "me@lax.test", &["all@ours.test"]).await;
        node.wait_for("relayed", 8).await;
        for sent in peer.messages() {
            let is_rewritten = sent.from.starts_with("SRS0=");
            let is_strict = sent.to == ["b@strict.test"] && !sent.from.ends_with("@lax.test");
            assert_eq!(is_rewritten, is_strict, "{sent:?}");
        }
    });
}

#[test]
fn a_message_may_have_two_senders_and_keeps_them_over_a_restart() {
    play(|| async {
        let (node, _peer) = start().await;
        node.world.unserve("192.0.2.1:25".parse().expect("an address"));
        let to = ["own@away.test", "both@ours.test"];
        submit(&node, "me@source.test", &to).await;
        node.wait_for("delivered", 1).await;
        let node = node.restart().await;
        let peer = Peer::at(&node.world, "192.0.2.1:25");
        node.wait_for("relayed", 3).await;
        let seen = peer.messages().into_iter().map(|mut message| {
            message.to.sort();
            (message.from.chars().take(4).collect::<String>(), message.to)
        });
        let mut seen: Vec<_> = seen.collect();
        seen.sort();
        let owned = |all: &[&str]| all.iter().map(|to| (*to).to_owned()).collect::<Vec<_>>();
        let expected = [
            ("SRS0".to_owned(), owned(&["far@away.test", "her@away.test"])),
            ("me@s".to_owned(), owned(&["own@away.test"])),
        ];
        assert_eq!(seen, expected);
        assert_eq!(node.count("failed"), 0);
    });
}
