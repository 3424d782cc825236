//! Who answers for a list: its mail comes from there, and reports go there.

use super::client::{Client, FRIEND, STRANGER, submit};
use super::node::{Node, config, play, wait_until};
use super::peer::{Peer, Sent};
use std::path::Path;

const KEYS: &str = "[[table]]\nname = \"aliases\"\ninline = {}\n\
                    [srs]\ndomain = \"srs.test\"\nsecret_file = \"secret\"\n\
                    [[route]]\ndomains = [\"ours.test\"]\naliases = { table = \"aliases\" }\n\
                    maildir = { path = \"/mail/{local}\" }\n\
                    [[route]]\ndomains = [\"boss.test\"]\nsmtp = { hosts = [\"192.0.2.2:25\"] }\n\
                    [[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }\n";

/// With where members elsewhere are, and where those who answer for lists are.
async fn start() -> (Node, Peer, Peer) {
    let node = Node::start(&config(KEYS)).await;
    for (alias, members) in [
        ("staff@ours.test", "jo@ours.test, far@away.test, team@ours.test, news@ours.test"),
        ("owner-staff@ours.test", "boss@ours.test"),
        ("jo@ours.test", "jo@ours.test"),
        ("boss@ours.test", "her@boss.test, him@boss.test"),
        ("team@ours.test", "one@away.test"),
        ("owner-team@ours.test", "her@boss.test"),
        ("news@ours.test", "two@away.test"),
        ("plain@ours.test", "far@away.test"),
        ("@ours.test", "caught@away.test"),
    ] {
        node.world.set_entry("aliases", alias, Ok(members));
    }
    let (away, boss) =
        (Peer::at(&node.world, "192.0.2.1:25"), Peer::at(&node.world, "192.0.2.2:25"));
    (node, away, boss)
}

/// Senders and recipients of messages, in the order of the senders.
fn seen(messages: Vec<Sent>) -> Vec<(String, Vec<String>)> {
    let mut seen: Vec<_> = messages.into_iter().map(|sent| (sent.from, sent.to)).collect();
    seen.iter_mut().for_each(|(_, to)| to.sort());
    seen.sort();
    seen
}

fn expected(all: &[(&str, &[&str])]) -> Vec<(String, Vec<String>)> {
    let owned = |to: &[&str]| to.iter().map(|to| (*to).to_owned()).collect();
    all.iter().map(|(from, to)| ((*from).to_owned(), owned(to))).collect()
}

#[test]
fn the_mail_of_a_list_comes_from_its_owner_also_after_a_restart() {
    play(|| async {
        let (node, _away, _boss) = start().await;
        node.world.unserve("192.0.2.1:25".parse().expect("an address"));
        submit(&node, "me@source.test", &["own@away.test", "Staff+x@ours.test"]).await;
        node.wait_for("delivered", 1).await;
        let kept = node.world.mailboxes()[Path::new("/mail/jo+x")][0].clone();
        assert!(kept.starts_with("Return-Path: <owner-staff@ours.test>\r\n"), "{kept}");
        let node = node.restart().await;
        let away = Peer::at(&node.world, "192.0.2.1:25");
        node.wait_for("relayed", 4).await;
        // A list in a list has an owner of its own, or that of the other; no owner's mail is rewritten,
        // and what a client has named itself comes from the sender.
        let expected = expected(&[
            ("me@source.test", &["own@away.test"]),
            ("owner-staff@ours.test", &["far+x@away.test", "two+x@away.test"]),
            ("owner-team@ours.test", &["one+x@away.test"]),
        ]);
        assert_eq!(seen(away.messages()), expected);
    });
}

#[test]
fn mail_without_a_sender_stays_without_and_what_has_no_owner_is_sent_on() {
    play(|| async {
        let (node, away, _boss) = start().await;
        submit(&node, "", &["staff@ours.test"]).await;
        node.wait_for("relayed", 3).await;
        let to = ["far@away.test", "one@away.test", "two@away.test"];
        assert_eq!(seen(away.messages()), expected(&[("", &to)]));
        let kept = node.world.mailboxes()[Path::new("/mail/jo")][0].clone();
        assert!(kept.starts_with("Return-Path: <>\r\n"), "{kept}");
        // The entry of the whole domain is nobody's owner, and has none.
        submit(&node, "me@source.test", &["plain@ours.test", "nobody@ours.test"]).await;
        node.wait_for("relayed", 5).await;
        let last = away.messages().pop().expect("sent");
        assert!(last.from.starts_with("SRS0=") && last.to.len() == 2, "{last:?}");
    });
}

#[test]
fn a_failure_is_told_to_whom_the_owner_stands_for_and_not_to_the_sender() {
    play(|| async {
        let (node, away, boss) = start().await;
        away.always("RCPT", "550 5.1.1 gone");
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@boss.test> RET=FULL ENVID=mine").await;
        let wish = "NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;staff@ours.test";
        let said = client.say(&format!("RCPT TO:<staff@ours.test> {wish}")).await;
        assert!(said.starts_with("250"), "{said}");
        let said = client.content("Subject: one\r\n\r\nbody\r\n").await;
        assert!(said.starts_with("250 2.0.0"), "{said}");
        wait_until("the reports arrive", || boss.messages().len() >= 2).await;
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        let reports = boss.messages();
        let expected =
            expected(&[("", &["her@boss.test"]), ("", &["her@boss.test", "him@boss.test"])]);
        assert_eq!(seen(reports.clone()), expected, "nobody is told of the success either");
        let of_staff = reports.iter().find(|report| report.to.len() == 2).expect("told");
        for (text, is_there) in [
            ("To: <owner-staff@ours.test>\r\n", true),
            ("Final-Recipient: rfc822;far@away.test\r\n", true),
            ("Final-Recipient: rfc822;two@away.test\r\n", true),
            ("one@away.test", false),
            ("Original-Envelope-Id", false),
            ("Original-Recipient", false),
        ] {
            assert_eq!(of_staff.content.contains(text), is_there, "{text}: {}", of_staff.content);
        }
    });
}

/// Nothing vouches for a stranger's sender, so it gets no report of what a host lacks: whoever answers for a list does.
#[test]
fn an_owner_is_told_what_a_stranger_asked_for_and_no_host_has() {
    play(|| async {
        let (node, away, boss) = start().await;
        away.always("EHLO", "250-peer.test\r\n250 SIZE 1000");
        let mut client = Client::connect(&node, STRANGER).await;
        let content = format!("Subject: one\r\n\r\n{}\r\n", "x".repeat(990));
        let said = client.send("forged@boss.test", &["staff@ours.test"], &content).await;
        assert!(said.starts_with("250 2.0.0"), "{said}");
        wait_until("the reports arrive", || boss.messages().len() >= 2).await;
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        let expected =
            expected(&[("", &["her@boss.test"]), ("", &["her@boss.test", "him@boss.test"])]);
        assert_eq!(seen(boss.messages()), expected);
    });
}

/// As the owner of a list, who gets the reports of all mail was named by the operator.
#[test]
fn whom_the_operator_names_is_told_what_a_stranger_asked_for_and_no_host_has() {
    play(|| async {
        for (reports, to) in [("to = \"her@boss.test\"", Some("her@boss.test")), ("", None)] {
            let node = Node::start(&config(&format!("[reports]\n{reports}\n{KEYS}"))).await;
            node.world.set_entry("aliases", "plain@ours.test", Ok("far@away.test"));
            let (away, boss) =
                (Peer::at(&node.world, "192.0.2.1:25"), Peer::at(&node.world, "192.0.2.2:25"));
            away.always("EHLO", "250-peer.test\r\n250 SIZE 1000");
            let mut client = Client::connect(&node, STRANGER).await;
            let content = format!("Subject: one\r\n\r\n{}\r\n", "x".repeat(990));
            let said = client.send("forged@boss.test", &["plain@ours.test"], &content).await;
            assert!(said.starts_with("250 2.0.0"), "{said}");
            tokio::time::sleep(std::time::Duration::from_secs(60)).await;
            let to: Vec<_> = to.into_iter().map(str::to_owned).collect();
            let told: Vec<_> = seen(boss.messages()).into_iter().flat_map(|(_, to)| to).collect();
            assert_eq!(told, to, "{reports}");
        }
    });
}

#[test]
fn an_owner_that_stands_for_too_many_or_for_nonsense_puts_the_list_off() {
    play(|| async {
        let (node, away, boss) = start().await;
        let many = |count: usize| (0..count).map(|n| format!("u{n}@boss.test")).collect::<Vec<_>>();
        for (members, code) in
            [(many(50).join(","), "250"), (many(51).join(","), "451"), ("|mail".to_owned(), "451")]
        {
            node.world.set_entry("aliases", "owner-team@ours.test", Ok(&members));
            let mut client = Client::connect(&node, STRANGER).await;
            client.say("MAIL FROM:<me@source.test>").await;
            let said = client.say("RCPT TO:<team@ours.test>").await;
            assert!(said.starts_with(code), "{said}");
            client.say("QUIT").await;
        }
        let away_gone = "550 5.1.1 gone";
        away.always("RCPT", away_gone);
        node.world.set_entry("aliases", "owner-team@ours.test", Ok(&many(50).join(" ")));
        submit(&node, "me@source.test", &["team@ours.test"]).await;
        wait_until("the report arrives", || !boss.messages().is_empty()).await;
        assert_eq!(boss.messages()[0].to.len(), 50);
    });
}
