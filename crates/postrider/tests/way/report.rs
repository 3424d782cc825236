//! What senders are told.

use super::client::{Client, FRIEND, STRANGER, submit};
use super::node::{Node, config, play};
use super::peer::{Peer, Sent};
use super::world::TestWorld;
use spool::memdisk::MemDisk;
use std::rc::Rc;
use std::time::Duration;

const HOP: &str = "192.0.2.1:25";
const BACK: &str = "192.0.2.2:25";

/// Mail for `source.test` goes to `BACK`, all other mail to `HOP`.
fn routes(more: &str) -> String {
    config(&format!(
        "[retry]\njitter = 0\n{more}\n\
         [[route]]\ndomains = [\"source.test\"]\nsmtp = {{ hosts = [\"{BACK}\"] }}\n\
         [[route]]\nsmtp = {{ hosts = [\"{HOP}\"] }}"
    ))
}

async fn started(more: &str) -> (Node, Peer, Peer) {
    let node = Node::start(&routes(more)).await;
    let (hop, back) = (Peer::at(&node.world, HOP), Peer::at(&node.world, BACK));
    (node, hop, back)
}

async fn reports(node: &Node, back: &Peer, count: usize) -> Vec<Sent> {
    super::node::wait_until("the reports arrive", || back.messages().len() >= count).await;
    // What may come besides would come now.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(back.messages().len(), count, "{:#?}", node.events(&["recipient"]));
    back.messages()
}

#[test]
fn a_failure_is_reported_to_the_sender_from_nobody() {
    play(|| async {
        let (node, hop, back) = started("").await;
        hop.always("RCPT", "550 5.1.1 nobody of that name");
        submit(&node, "me@source.test", &["a@x.test"]).await;
        let sent = reports(&node, &back, 1).await;
        assert_eq!((&*sent[0].from, &sent[0].to[..]), ("", &["me@source.test".to_owned()][..]));
        for text in [
            "Content-Type: multipart/report; report-type=delivery-status;",
            "Final-Recipient: rfc822;a@x.test\r\n",
            "Action: failed\r\n",
            "Status: 5.1.1\r\n",
            "Diagnostic-Code: smtp; 550 5.1.1 nobody of that name\r\n",
            "Subject: one\r\n",
        ] {
            assert!(sent[0].content.contains(text), "no {text:?} in {}", sent[0].content);
        }
    });
}

#[test]
fn a_thousand_failures_of_one_message_make_one_report() {
    play(|| async {
        let (node, hop, back) = started("").await;
        hop.always("RCPT", "550 5.1.1 nobody");
        let recipients: Vec<String> = (0..1_000).map(|n| format!("u{n}@x.test")).collect();
        let to: Vec<&str> = recipients.iter().map(String::as_str).collect();
        submit(&node, "me@source.test", &to).await;
        let sent = reports(&node, &back, 1).await;
        assert_eq!(sent[0].content.matches("Final-Recipient:").count(), 100);
        assert!(sent[0].content.contains("900 more"), "{}", sent[0].content);
        assert_eq!(node.count("failed"), 1_000);
        assert_eq!(node.count("dsn_queued"), 1);
    });
}

#[test]
fn a_report_quotes_no_failure_of_another_recipient() {
    play(|| async {
        let (node, hop, back) = started("give_up_after = \"10m\"").await;
        hop.once("RCPT", "550 5.7.1 secret of a").always("RCPT", "450 4.2.1 b is late");
        submit(&node, "me@source.test", &["a@x.test", "b@x.test"]).await;
        let sent = reports(&node, &back, 2).await;
        let of_b =
            sent.iter().find(|sent| sent.content.contains("b@x.test\r\nAction")).or_else(|| {
                sent.iter().find(|sent| sent.content.contains("Final-Recipient: rfc822; b@x.test"))
            });
        let of_b = of_b.expect("a report about b");
        assert!(!of_b.content.contains("secret of a"), "{}", of_b.content);
        assert!(of_b.content.contains("b is late"), "{}", of_b.content);
    });
}

#[test]
fn what_has_no_sender_makes_no_report() {
    play(|| async {
        let (node, hop, back) = started("").await;
        hop.always("RCPT", "550 5.1.1 nobody");
        submit(&node, "", &["a@x.test"]).await;
        node.wait_for("failed", 1).await;
        reports(&node, &back, 0).await;
        assert_eq!(node.count("dsn_queued"), 0);
    });
}

#[test]
fn double_bounces_go_to_whom_the_configuration_names() {
    play(|| async {
        let more = "[reports]\ndouble_bounce_to = \"master@source.test\"";
        let (node, hop, back) = started(more).await;
        hop.always("RCPT", "550 5.1.1 nobody");
        submit(&node, "", &["a@x.test"]).await;
        let sent = reports(&node, &back, 1).await;
        assert_eq!(sent[0].to, ["master@source.test"]);
    });
}

#[test]
fn notify_is_what_the_sender_asked_for() {
    play(|| async {
        let (node, hop, back) = started("").await;
        hop.once("RCPT", "250 good").once("RCPT", "550 5.1.1 nobody");
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@source.test> RET=HDRS ENVID=mine").await;
        client.say("RCPT TO:<a@x.test> NOTIFY=SUCCESS").await;
        client.say("RCPT TO:<b@x.test> NOTIFY=NEVER").await;
        let reply = client.content("Subject: one\r\n\r\nbody\r\n").await;
        assert!(reply.starts_with("250"), "{reply}");
        let sent = reports(&node, &back, 1).await;
        let content = &sent[0].content;
        assert!(content.contains("Action: relayed\r\n"), "the hop offers no DSN: {content}");
        assert!(content.contains("Original-Envelope-Id: mine\r\n"), "{content}");
        assert!(!content.contains("b@x.test"), "{content}");
        assert!(!content.contains("\r\nbody\r\n"), "RET=HDRS: {content}");
    });
}

#[test]
fn strangers_are_offered_no_reports_of_success() {
    play(|| async {
        let (node, _hop, _back) = started("").await;
        let mut client = Client::open(&node, STRANGER);
        client.reply().await;
        let offered = client.say("EHLO stranger.test").await;
        assert!(!offered.contains("DSN"), "{offered}");
        client.say("MAIL FROM:<me@elsewhere.test>").await;
        let reply = client.say("RCPT TO:<a@source.test> NOTIFY=SUCCESS").await;
        assert!(reply.starts_with("555 "), "{reply}");
    });
}

#[test]
fn a_delay_is_told_once_of_all_that_are_late() {
    play(|| async {
        let (node, hop, back) = started("warn_after = \"1h\"").await;
        hop.always("RCPT", "450 4.2.1 later");
        submit(&node, "me@source.test", &["a@x.test", "b@x.test"]).await;
        let sent = reports(&node, &back, 1).await;
        assert!(sent[0].content.contains("Action: delayed\r\n"), "{}", sent[0].content);
        assert_eq!(sent[0].content.matches("Final-Recipient:").count(), 2);
        assert!(node.age() >= Duration::from_secs(3_600));
        hop.heal();
        node.wait_for("relayed", 3).await;
        assert_eq!(back.messages().len(), 1);
    });
}

#[test]
fn a_delay_is_not_told_while_the_disk_has_no_room_and_no_memory_waits_for_that() {
    play(|| async {
        let text = routes("warn_after = \"1h\"");
        let disk = Rc::new(MemDisk::new(1, 18 << 20));
        let node = Node::start_on(TestWorld::new(), disk, &text).await;
        let (hop, back) = (Peer::at(&node.world, HOP), Peer::at(&node.world, BACK));
        hop.always("RCPT", "450 4.2.1 later");
        let mut client = Client::connect(&node, FRIEND).await;
        let mut accepted = 0;
        loop {
            if !client.say("MAIL FROM:<me@source.test>").await.starts_with("250") {
                break;
            }
            client.say(&format!("RCPT TO:<{accepted}@x.test>")).await;
            if !client.content(&"x\r\n".repeat(100_000)).await.starts_with("250") {
                break;
            }
            accepted += 1;
        }
        assert!(accepted > 3, "{accepted}");
        // From now on they are read from the disk.
        let node = node.restart().await;
        tokio::time::sleep(Duration::from_secs(2 * 3_600)).await;
        assert!(node.metrics.messages_read_back.get() > accepted);
        assert_eq!((node.shared.reads.used(), node.count("dsn_queued")), (0, 0));
        assert_eq!(node.shared.queue_slots.used(), accepted);
        hop.heal();
        node.wait_for("relayed", accepted as usize).await;
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(node.count("dsn_queued"), 0, "they have arrived");
        assert!(back.messages().is_empty());
        assert_eq!(node.shared.queue_slots.used(), 0);
    });
}

#[test]
fn reports_can_be_off_or_go_elsewhere() {
    play(|| async {
        let (node, hop, back) = started("[reports]\nto = \"nobody\"").await;
        hop.always("RCPT", "550 5.1.1 nobody");
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("dsn_suppressed", 1).await;
        reports(&node, &back, 0).await;
        node.reload(&routes("[reports]\nto = \"desk@source.test\""));
        submit(&node, "me@source.test", &["a@x.test"]).await;
        let sent = reports(&node, &back, 1).await;
        assert_eq!(sent[0].to, ["desk@source.test"]);
    });
}
