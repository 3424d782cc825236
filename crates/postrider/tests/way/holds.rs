//! Messages that checks hold: how many, and for how long.

use super::client::{Client, FRIEND};
use super::node::{Node, config, play, wait_until};
use super::peer::Peer;
use mta::commands::{ControlRequest, QueueHold, QueueRelease};
use mta::control::Select;
use mta::metrics::HoldEnd;
use mta::own_mailbox::{MailboxUsage, OWN_MAILBOX_BYTES_MAX};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

fn text(queued_max: u32) -> String {
    let holds = format!("[spool]\nqueue_recipients_max = {queued_max}\nhold_for = \"2d\"\n");
    let routes = "[[table]]\nname = \"a\"\ninline = {}\n\
                  [[route]]\ndomains = [\"ours.test\"]\nmaildir = { path = \"/mail/{local}\" }\n\
                  [[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }\n\
                  [[access]]\ntable = \"a\"\nby = \"recipient\"\nclients = \"all\"\n";
    config(&format!("{holds}{routes}"))
}

async fn start(queued_max: u32) -> Node {
    let node = Node::start(&text(queued_max)).await;
    node.world.set_entry("a", "held@ours.test", Ok("HOLD odd"));
    node
}

fn stranger(n: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, n))
}

async fn send(node: &Node, from: IpAddr, sender: &str, to: &str) -> String {
    let mut client = Client::connect(node, from).await;
    let said = client.send(sender, &[to], "Subject: x\r\n\r\nbody\r\n").await;
    client.say("QUIT").await;
    said
}

fn held(node: &Node) -> u64 {
    node.shared.holdings.held().recipients
}

#[test]
fn held_mail_has_a_tenth_of_the_queue_and_leaves_the_rest_to_others() {
    play(|| async {
        let node = start(100).await;
        for n in 0..10 {
            let sender = format!("a@s{n}.test");
            let said = send(&node, stranger(n), &sender, "held@ours.test").await;
            assert!(said.starts_with("250 "), "{n}: {said}");
        }
        let full = "451 4.3.1 Review quarantine full; try again later";
        // 100 networks at full effort take no more.
        for n in 10..110 {
            let sender = format!("a@s{n}.test");
            assert_eq!(send(&node, stranger(n), &sender, "held@ours.test").await, full);
        }
        assert_eq!((held(&node), node.metrics.held_refused.get()), (10, 100));
        for n in 0..100 {
            let said = send(&node, stranger(n), "a@s1.test", "jo@ours.test").await;
            assert!(said.starts_with("250 "), "{said}");
        }
        // Counts are rebuilt from what the spool has.
        node.wait_for("delivered", 100).await;
        let node = node.restart().await;
        node.world.set_entry("a", "held@ours.test", Ok("HOLD odd"));
        assert_eq!(held(&node), 10);
        assert_eq!(send(&node, stranger(200), "a@s.test", "held@ours.test").await, full);
    });
}

#[test]
fn one_network_and_one_domain_have_a_hundredth() {
    play(|| async {
        let node = start(200).await;
        let too_much = "451 4.7.1 Too much mail from you is held for review; try again later";
        for n in 0..2 {
            let said = send(&node, stranger(1), &format!("a@n{n}.test"), "held@ours.test").await;
            assert!(said.starts_with("250 "), "{said}");
        }
        assert_eq!(send(&node, stranger(1), "a@other.test", "held@ours.test").await, too_much);
        for n in 2..4 {
            let said = send(&node, stranger(n), "a@one.test", "held@ours.test").await;
            assert!(said.starts_with("250 "), "{said}");
        }
        assert_eq!(send(&node, stranger(5), "a@One.Test", "held@ours.test").await, too_much);
        let said = send(&node, stranger(5), "a@two.test", "held@ours.test").await;
        assert!(said.starts_with("250 "), "{said}");
        // A release makes room.
        node.ask(ControlRequest::QueueRelease(QueueRelease { select: Select::All })).await;
        assert_eq!(held(&node), 0);
        node.wait_for("delivered", 5).await;
        let said = send(&node, stranger(1), "a@one.test", "held@ours.test").await;
        assert!(said.starts_with("250 "), "{said}");
    });
}

#[test]
fn holds_of_checks_end_and_an_operators_do_not() {
    play(|| async {
        let node = start(1_000).await;
        let source = Peer::at(&node.world, "192.0.2.1:25");
        let begun = node.age();
        let said = send(&node, stranger(1), "a@forged.test", "held@ours.test").await;
        assert!(said.starts_with("250 "), "{said}");
        let node = node.restart().await;
        node.world.set_entry("a", "held@ours.test", Ok("HOLD odd"));
        let said = send(&node, FRIEND, "me@source.test", "held@ours.test").await;
        assert!(said.starts_with("250 "), "{said}");
        // An operator takes over the hold of a check.
        let said = send(&node, FRIEND, "me@kept.test", "held@ours.test").await;
        assert!(said.starts_with("250 "), "{said}");
        let (select, reason) = (Select::Id(node.last_id()), "mine".to_owned());
        node.ask(ControlRequest::QueueHold(QueueHold { select, reason })).await;
        assert_eq!(held(&node), 2);
        tokio::time::sleep(DAY * 2 - Duration::from_secs(60)).await;
        assert_eq!((node.count("removed"), node.count("failed")), (0, 0), "{:?}", node.age());
        wait_until("the holds end", || held(&node) == 0).await;
        assert!(node.age() - begun < DAY * 2 + Duration::from_secs(60), "{:?}", node.age());
        // The forged sender gets nothing, the one that may relay its report.
        node.wait_for("removed", 1).await;
        node.wait_for("failed", 1).await;
        assert_eq!(node.of("failed")[0]["sender"], "me@source.test");
        assert_eq!(node.of("failed")[0]["status"], "5.7.1");
        wait_until("the report goes out", || !source.messages().is_empty()).await;
        assert_eq!(source.messages()[0].to, ["me@source.test"]);
        assert_eq!(
            (
                node.metrics.holds_ended[HoldEnd::Returned].get(),
                node.metrics.holds_ended[HoldEnd::Removed].get()
            ),
            (1, 1)
        );
        tokio::time::sleep(DAY * 3).await;
        assert_eq!((node.count("removed"), node.count("failed")), (1, 1));
    });
}

#[test]
fn postmasters_own_mailbox_takes_its_quota() {
    play(|| async {
        let node = Node::start(&config("[[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }\n")).await;
        let full = "452 4.2.2 Postmaster mailbox full; try again later";
        let used = MailboxUsage { messages: 9, bytes: OWN_MAILBOX_BYTES_MAX - 6_000 };
        node.shared.own_mailbox.note(used);
        let mut client = Client::connect(&node, stranger(1)).await;
        for to in ["postmaster", "postmaster@relay.test", "POSTMASTER@Relay.Test"] {
            client.say("MAIL FROM:<a@s.test>").await;
            let said = client.say(&format!("RCPT TO:<{to}>")).await;
            assert!(said.starts_with("250 "), "{to}: {said}");
            // Asked for before 250: nothing is accepted that would only wait.
            assert_eq!(
                client.content(&format!("Subject: x\r\n\r\n{}\r\n", "x".repeat(3_000))).await,
                full
            );
        }
        client.say("MAIL FROM:<a@s.test>").await;
        client.say("RCPT TO:<postmaster>").await;
        assert!(client.content("Subject: x\r\n\r\n").await.starts_with("250 "));
        // Now it is full for all, and only that mailbox.
        client.say("MAIL FROM:<a@s.test>").await;
        assert_eq!(client.say("RCPT TO:<postmaster>").await, full);
        let mut friend = Client::connect(&node, FRIEND).await;
        assert!(
            friend
                .send("me@s.test", &["x@far.test"], "Subject: x\r\n\r\n")
                .await
                .starts_with("250 ")
        );
        let kinds = || -> Vec<(String, String)> {
            // The friend's mail waits for a host that is not there.
            let problems = node.problems().into_iter().filter(|one| one.kind != "next_hop");
            problems.map(|problem| (problem.kind, problem.text)).collect()
        };
        let shown = kinds();
        assert!(shown[0].1.starts_with("pool postmaster_mailbox is under pressure"), "{shown:?}");
        assert!(shown[1].1.starts_with("the postmaster has 9 messages"), "{shown:?}");
        // Somebody has read it.
        node.shared.own_mailbox.note(MailboxUsage::default());
        node.shared.own_mailbox.note(MailboxUsage::default());
        assert!(client.say("RCPT TO:<postmaster>").await.starts_with("250 "));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(kinds(), []);
    });
}
