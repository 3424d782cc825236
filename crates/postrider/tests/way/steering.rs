//! What clients say in header fields of how a message is to be sent.

use super::client::{Client, FRIEND, STRANGER};
use super::node::{Node, config, play, wait_until};
use super::peer::Peer;
use super::time::WALL_MS;
use mail::Wall;
use mta::commands::{ControlRequest, QueueHold, QueueRelease, QueueWhy};
use mta::control::{BlockerKind, QueueRecipient, Select};
use mta::seams::World as _;
use std::time::Duration;

const HOP: &str = "192.0.2.1:25";
const BACK: &str = "192.0.2.2:25";

/// Clients of 198.51.100.0/24 may steer; mail for `source.test` goes to `BACK`, all other mail to `HOP`.
fn steered(more: &str) -> String {
    let routes = format!(
        "steering_from = [\"198.51.100.0/24\"]\n\
         [steering]\ntenant = \"X-Tenant\"\ncampaign = \"X-Campaign\"\npool = \"X-Pool\"\n\
         priority = \"X-Priority\"\nnot_before = \"X-Not-Before\"\nexpires = \"X-Expires\"\n\
         window = \"X-Window\"\n{more}\n\
         [[source]]\nname = \"one\"\naddress = \"192.0.2.101\"\n\
         [[source]]\nname = \"two\"\naddress = \"192.0.2.102\"\n\
         [[pool]]\nname = \"usual\"\nsources = [{{ name = \"one\" }}]\n\
         [[pool]]\nname = \"bulk\"\nsources = [{{ name = \"two\" }}]\n\
         [[route]]\ndomains = [\"source.test\"]\nsmtp = {{ hosts = [\"{BACK}\"] }}\n\
         [[route]]\npool = \"usual\"\nsmtp = {{ hosts = [\"{HOP}\"], max_connections = 1 }}"
    );
    config(&routes)
}

const RETRY: &str = "[retry]\njitter = 0";

async fn send(node: &Node, to: &str, fields: &str) -> String {
    let mut client = Client::connect(node, FRIEND).await;
    let content = format!("{fields}Subject: one\r\n\r\nbody\r\n");
    let reply = client.send("me@source.test", &[to], &content).await;
    client.say("QUIT").await;
    reply
}

async fn sent(node: &Node, to: &str, fields: &str) {
    let reply = send(node, to, fields).await;
    assert!(reply.starts_with("250 2.0.0"), "{fields}: {reply}");
}

/// What follows the trace fields of what a peer was sent.
fn untraced(content: &str) -> &str {
    content.split_once("+0000\r\n").map_or("", |(_, rest)| rest)
}

#[test]
fn steering_fields_are_read_and_left_out_wherever_they_stand() {
    play(|| async {
        for spool in ["", "[spool]\nblob_bytes = \"64KiB\"\n"] {
            let node = Node::start(&steered(&format!("{spool}{RETRY}"))).await;
            let hop = Peer::at(&node.world, HOP);
            let body = "line\r\n".repeat(20_000);
            let content = format!(
                "x-tenant: acme\r\nFrom: me@source.test\r\nX-Campaign:\r\n spring\r\n sale\r\n\
                 X-Priority: 5\r\nSubject: one\r\nX-POOL : bulk\r\n\r\nX-Tenant: body\r\n{body}"
            );
            let left =
                format!("From: me@source.test\r\nSubject: one\r\n\r\nX-Tenant: body\r\n{body}");
            let mut client = Client::connect(&node, FRIEND).await;
            let reply = client.send("me@source.test", &["a@x.test"], &content).await;
            assert!(reply.starts_with("250 2.0.0"), "{reply}");
            for command in ["MAIL FROM:<me@source.test>", "RCPT TO:<b@x.test>"] {
                client.say(command).await;
            }
            let (first, rest) = content.split_at(20);
            client.write(&format!("BDAT {}\r\n{first}", first.len())).await;
            assert!(client.reply().await.starts_with("250"));
            client.write(&format!("BDAT {} LAST\r\n{rest}", rest.len())).await;
            assert!(client.reply().await.starts_with("250 2.0.0"));
            node.wait_for("relayed", 2).await;
            for message in hop.messages() {
                assert_eq!(untraced(&message.content), left);
            }
            assert_eq!(node.of("relayed")[0]["source"], "two", "the pool that was named");
        }
    });
}

#[test]
fn from_elsewhere_the_fields_are_content() {
    play(|| async {
        let text = steered(RETRY).replace("[\"198.51.100.0/24\"]\n[steering]", "[]\n[steering]");
        let node = Node::start(&text).await;
        let hop = Peer::at(&node.world, HOP);
        let fields = "X-Tenant: <acme>\r\nX-Pool: none of ours\r\nX-Expires: yesterday\r\n";
        sent(&node, "a@x.test", fields).await;
        node.wait_for("relayed", 1).await;
        assert!(hop.messages()[0].content.contains(fields));
        assert_eq!(node.of("relayed")[0]["source"], "one");
    });
}

#[test]
fn what_can_not_be_read_is_refused_by_the_field_s_name() {
    play(|| async {
        let node = Node::start(&steered(RETRY)).await;
        let long = format!("X-Campaign: {}", "x".repeat(129));
        for (fields, said) in [
            ("X-Tenant: <acme>", "X-Tenant is not a name"),
            ("X-Tenant:", "X-Tenant is empty"),
            ("X-Tenant: a\r\nX-Tenant: a", "X-Tenant occurs more than once"),
            (&*long, "X-Campaign is not a name"),
            ("X-Pool: unknown", "X-Pool is not a pool"),
            ("X-Priority: 10", "X-Priority is not a priority"),
            ("X-Priority: high", "X-Priority is not a priority"),
            ("X-Not-Before: tomorrow", "X-Not-Before is not a time"),
            ("X-Not-Before: 2026-02-30T00:00:00Z", "X-Not-Before is not a time"),
            ("X-Not-Before: 2028-01-01T00:00:00Z", "X-Not-Before is more than a year ahead"),
            ("X-Window: office hours", "X-Window is not a window"),
            ("X-Window: 09:00-17:00 Atlantis", "X-Window is not a window"),
            ("X-Expires: 1795000000", "X-Expires is not a time"),
            ("X-Expires: 2026-11-18T00:00:00Z", "X-Expires is before the earliest"),
            (
                "X-Expires: 2026-11-20T00:00:00Z\r\nX-Not-Before: 2026-11-21T00:00:00Z",
                "X-Expires is before the earliest",
            ),
        ] {
            let reply = send(&node, "a@x.test", &format!("{fields}\r\n")).await;
            assert!(reply.starts_with(&format!("550 5.6.0 {said}")), "{fields}: {reply}");
        }
        assert_eq!(node.count("received"), 0);
    });
}

#[test]
fn what_is_returned_has_no_steering_fields() {
    play(|| async {
        let node = Node::start(&steered(RETRY)).await;
        let (hop, back) = (Peer::at(&node.world, HOP), Peer::at(&node.world, BACK));
        hop.always("RCPT", "550 5.1.1 nobody");
        for ret in ["FULL", "HDRS"] {
            let mut client = Client::connect(&node, FRIEND).await;
            client.say(&format!("MAIL FROM:<me@source.test> RET={ret}")).await;
            client.say("RCPT TO:<a@x.test>").await;
            let content = "X-Tenant: acme\r\nSubject: one\r\nX-Pool: bulk\r\n\r\nbody\r\n";
            let reply = client.content(content).await;
            assert!(reply.starts_with("250 2.0.0"), "{reply}");
        }
        wait_until("the reports arrive", || back.messages().len() == 2).await;
        for report in back.messages() {
            assert!(report.content.contains("Subject: one\r\n"), "{}", report.content);
            assert!(!report.content.contains("acme") && !report.content.contains("X-Pool"));
        }
    });
}

#[test]
fn what_is_urgent_goes_first() {
    play(|| async {
        let node = Node::start(&steered(RETRY)).await;
        for (to, priority) in [("low", -9), ("none", 0), ("high", 9), ("higher", 3)] {
            sent(&node, &format!("{to}@x.test"), &format!("X-Priority: {priority}\r\n")).await;
        }
        let hop = Peer::at(&node.world, HOP);
        node.wait_for("relayed", 4).await;
        let order: Vec<String> =
            hop.messages().into_iter().map(|sent| sent.to[0].clone()).collect();
        assert_eq!(order, ["high@x.test", "higher@x.test", "none@x.test", "low@x.test"]);
    });
}

#[test]
fn mail_of_a_pool_that_is_gone_waits_for_one_also_over_a_restart() {
    play(|| async {
        let node = Node::start(&steered(RETRY)).await;
        sent(&node, "a@x.test", "X-Pool: bulk\r\n").await;
        let gone = steered(RETRY).replace("name = \"bulk\"", "name = \"other\"");
        let node = node.restart_with(&gone).await;
        let hop = Peer::at(&node.world, HOP);
        wait_until("it is told", || {
            let told = format!("{:?}", node.events(&["reason"]));
            told.contains("no longer exists") || node.count("relayed") > 0
        })
        .await;
        assert!(hop.messages().is_empty());
        node.reload(&steered(RETRY));
        node.wait_for("relayed", 1).await;
        assert_eq!(node.of("relayed")[0]["source"], "two");
    });
}

#[test]
fn strangers_steer_where_the_listener_says_so_and_not_otherwise() {
    play(|| async {
        let node = Node::start(&steered(RETRY)).await;
        let hop = Peer::at(&node.world, BACK);
        let mut client = Client::connect(&node, STRANGER).await;
        let content = "X-Tenant: acme\r\n\r\nbody\r\n";
        client.send("you@x.test", &["me@source.test"], content).await;
        node.wait_for("relayed", 1).await;
        assert!(hop.messages()[0].content.contains("X-Tenant: acme\r\n"));
    });
}

/// The world's time of day so many seconds after it began.
fn time(after: u64) -> Wall {
    Wall(WALL_MS + after * 1_000)
}

async fn why(node: &Node) -> QueueRecipient {
    let id = node.last_id();
    let parts = node.ask(ControlRequest::QueueWhy(QueueWhy { id })).await;
    let mut items = parts.into_iter().flat_map(|part| part.items);
    items.next().expect("it is queued").recipients.remove(0)
}

#[test]
fn not_before_is_kept_to_the_second_and_over_a_restart() {
    play(|| async {
        for is_restarted in [false, true] {
            let mut node = Node::start(&steered(RETRY)).await;
            let hop = Peer::at(&node.world, HOP);
            // Later than mail is kept for: its age counts from then on.
            let at = time(7 * 86_400);
            sent(&node, "a@x.test", &format!("X-Not-Before: {}\r\n", at.rfc5322())).await;
            let waits = why(&node).await;
            assert_eq!(waits.blocker.kind, BlockerKind::Time);
            assert_eq!(waits.blocker.text, "the time that its sender set: not before");
            assert_eq!((waits.next_try, waits.expires_at), (Some(at), Some(time(12 * 86_400))));
            if is_restarted {
                tokio::time::sleep(Duration::from_secs(86_400)).await;
                node = node.restart().await;
            }
            let left = at.since(time(0)) - node.age();
            tokio::time::sleep(left - Duration::from_secs(1)).await;
            assert_eq!(node.count("relayed"), 0);
            node.wait_for("relayed", 1).await;
            assert_eq!(hop.messages().len(), 1);
            let relayed = Wall::parse_rfc3339(node.of("relayed")[0]["time"].as_str().unwrap());
            let late = relayed.unwrap().since(at);
            assert!(relayed.unwrap() >= at && late < Duration::from_secs(1), "{late:?}");
        }
    });
}

#[test]
fn what_expires_is_returned_to_the_second_whatever_it_waits_for() {
    play(|| async {
        // A next hop that is dead, and one that puts off.
        for refuses in [false, true] {
            for is_restarted in [false, true] {
                let mut node = Node::start(&steered(RETRY)).await;
                let back = Peer::at(&node.world, BACK);
                if refuses {
                    Peer::at(&node.world, HOP).always("RCPT", "450 4.2.1 later");
                }
                let at = time(3 * 3_600 + 7);
                sent(&node, "a@x.test", &format!("X-Expires: {at}\r\n")).await;
                assert_eq!(why(&node).await.expires_at, Some(at));
                if is_restarted {
                    tokio::time::sleep(Duration::from_secs(3_600)).await;
                    node = node.restart().await;
                }
                node.wait_for("expired", 1).await;
                let expired = node.of("expired").remove(0);
                let when = Wall::parse_rfc3339(expired["time"].as_str().unwrap()).unwrap();
                assert!(when >= at && when.since(at) < Duration::from_secs(1), "{when}");
                assert_eq!(expired["status"], "5.4.7");
                wait_until("it is returned", || back.messages().len() == 1).await;
                let report = &back.messages()[0].content;
                assert!(report.contains("Status: 5.4.7\r\n"), "{report}");
                assert!(!report.contains("X-Expires"), "{report}");
            }
        }
    });
}

#[test]
fn what_has_expired_while_it_was_held_or_the_server_was_down_is_not_sent() {
    play(|| async {
        let node = Node::start(&steered(RETRY)).await;
        let fields = format!("X-Expires: {}\r\n", time(600));
        sent(&node, "a@x.test", &fields).await;
        let reason = "wait".to_owned();
        node.ask(ControlRequest::QueueHold(QueueHold { select: Select::All, reason })).await;
        let hop = Peer::at(&node.world, HOP);
        tokio::time::sleep(Duration::from_secs(1_200)).await;
        assert_eq!(node.count("expired"), 0);
        node.ask(ControlRequest::QueueRelease(QueueRelease { select: Select::All })).await;
        node.wait_for("expired", 1).await;
        node.world.unserve(HOP.parse().expect("an address"));
        sent(&node, "b@x.test", &format!("X-Expires: {}\r\n", time(1_800))).await;
        node.world.spawn().end();
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let node = node.restart().await;
        let _hop = Peer::at(&node.world, HOP);
        node.wait_for("expired", 1).await;
        assert_eq!((hop.messages().len(), node.count("relayed")), (0, 0));
    });
}

#[test]
fn mail_goes_in_its_window_only_and_over_a_restart() {
    play(|| async {
        for is_restarted in [false, true] {
            let mut node = Node::start(&steered(RETRY)).await;
            let (hop, back) = (Peer::at(&node.world, HOP), Peer::at(&node.world, BACK));
            // It is 2026-11-18 at 11:06:40 UTC.
            sent(&node, "a@x.test", "X-Window: 11:00-12:00 UTC\r\n").await;
            node.wait_for("relayed", 1).await;
            let window = "thu 09:00-10:00 Europe/Berlin, fri 09:00-10:00 Europe/Berlin";
            sent(&node, "b@x.test", &format!("X-Window: {window}\r\n")).await;
            let opens = Wall::parse_rfc3339("2026-11-19T08:00:00Z").unwrap();
            let waits = why(&node).await;
            assert_eq!(waits.blocker.kind, BlockerKind::Time);
            assert_eq!(waits.blocker.text, format!("its window, {window}, to open"));
            assert_eq!(waits.next_try, Some(opens));
            if is_restarted {
                node = node.restart().await;
            }
            let connects = node.world.connects();
            tokio::time::sleep(opens.since(time(0)) - node.age() - Duration::from_secs(1)).await;
            assert_eq!((node.world.connects(), hop.messages().len()), (connects, 1));
            assert!(back.messages().is_empty(), "nobody is told that it waits as it should");
            // The next hop puts it off until the window has closed.
            hop.always("RCPT", "450 4.2.1 later");
            tokio::time::sleep(Duration::from_secs(3_602)).await;
            let tried = node.count("deferred");
            assert!(tried >= 5, "{tried}");
            hop.heal();
            tokio::time::sleep(Duration::from_secs(22 * 3_600)).await;
            assert_eq!((node.count("deferred"), hop.messages().len()), (tried, 1), "it is closed");
            wait_until("it goes the next day", || hop.messages().len() == 2).await;
            let relayed = node.of("relayed");
            let relayed = relayed.iter().find(|event| event["recipient"] == "b@x.test").unwrap();
            let at = Wall::parse_rfc3339(relayed["time"].as_str().unwrap()).unwrap();
            let late = at.since(opens.after(Duration::from_secs(86_400)));
            assert!(late < Duration::from_secs(1) && at.0 >= opens.0 + 86_400_000, "{at}");
        }
    });
}

#[test]
fn what_waits_at_a_dead_next_hop_goes_no_more_once_its_window_has_closed() {
    play(|| async {
        let node = Node::start(&steered(RETRY)).await;
        sent(&node, "a@x.test", "X-Window: 11:00-12:00 UTC\r\n").await;
        node.wait_for("suspended", 3).await;
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        let hop = Peer::at(&node.world, HOP);
        tokio::time::sleep(Duration::from_secs(20 * 3_600)).await;
        assert!(hop.messages().is_empty());
        node.wait_for("relayed", 1).await;
        let at = node.of("relayed")[0]["time"].as_str().unwrap().to_owned();
        assert!(at.starts_with("2026-11-19T11:00:0"), "{at}");
    });
}

#[test]
fn what_waits_for_its_window_expires_when_its_sender_says_so() {
    play(|| async {
        let node = Node::start(&steered(RETRY)).await;
        let _back = Peer::at(&node.world, BACK);
        let at = time(3_600);
        let fields = format!("X-Window: 03:00-04:00 UTC\r\nX-Expires: {at}\r\n");
        sent(&node, "a@x.test", &fields).await;
        node.wait_for("expired", 1).await;
        assert!(node.age().abs_diff(Duration::from_secs(3_600)) < Duration::from_secs(2));
    });
}

/// Says these parameters with MAIL, and sends a message.
async fn sent_with(node: &Node, parameters: &str) -> String {
    let mut client = Client::connect(node, FRIEND).await;
    let reply = client.say(&format!("MAIL FROM:<me@source.test> {parameters}")).await;
    if !reply.starts_with("250") {
        return reply;
    }
    client.say("RCPT TO:<a@x.test>").await;
    client.content("Subject: one\r\n\r\nbody\r\n").await
}

#[test]
fn the_extensions_are_offered_to_those_who_may_relay_only() {
    play(|| async {
        let node = Node::start(&steered(RETRY)).await;
        let mut friend = Client::open(&node, FRIEND);
        friend.reply().await;
        let offered = friend.say("EHLO client.test").await;
        for line in ["MT-PRIORITY", "DELIVERBY 4", "FUTURERELEASE 31622400 2027-11-19T11:00:00Z"] {
            assert!(offered.contains(&format!("250-{line} ")), "{line}: {offered}");
        }
        let mut stranger = Client::open(&node, STRANGER);
        stranger.reply().await;
        let offered = stranger.say("EHLO client.test").await;
        assert!(
            !offered.contains("PRIORITY") && !offered.contains("BY") && !offered.contains("FUT")
        );
        for parameter in ["MT-PRIORITY=3", "HOLDFOR=60", "BY=60;R"] {
            let reply = stranger.say(&format!("MAIL FROM:<me@x.test> {parameter}")).await;
            assert!(reply.starts_with("555 5.5.4"), "{reply}");
        }
    });
}

#[test]
fn parameters_that_can_not_be_are_refused() {
    play(|| async {
        let node = Node::start(&steered(RETRY)).await;
        for parameters in [
            "MT-PRIORITY",
            "MT-PRIORITY=10",
            "MT-PRIORITY=1 MT-PRIORITY=1",
            "HOLDFOR=",
            "HOLDFOR=31622401",
            "HOLDUNTIL=2027-11-19T11:00:01Z",
            "HOLDUNTIL=soon",
            "HOLDFOR=60 HOLDUNTIL=2026-11-20T00:00:00Z",
            "BY=3;R",
            "BY=60",
            "BY=60;X",
            "BY=60;R BY=60;R",
        ] {
            let reply = sent_with(&node, parameters).await;
            assert!(reply.starts_with("501 5.5.4"), "{parameters}: {reply}");
        }
        let reply = sent_with(&node, "HOLDFOR=60 BY=30;R").await;
        assert!(reply.starts_with("550 5.5.4"), "{reply}");
        assert_eq!(node.count("received"), 0);
    });
}

#[test]
fn a_peer_is_told_of_priority_and_the_time_that_is_left() {
    play(|| async {
        let node = Node::start(&steered(RETRY)).await;
        let hop = Peer::at(&node.world, HOP);
        hop.always("EHLO", "250-hop\r\n250-MT-PRIORITY\r\n250 DELIVERBY");
        sent_with(&node, "MT-PRIORITY=-3 BY=3600;NT HOLDFOR=600").await;
        node.wait_for("relayed", 1).await;
        assert!(node.age().abs_diff(Duration::from_secs(600)) < Duration::from_secs(2));
        sent(&node, "b@x.test", &format!("X-Expires: {}\r\nX-Priority: 9\r\n", time(4_000))).await;
        node.wait_for("relayed", 2).await;
        let said: Vec<String> = hop.messages().into_iter().map(|sent| sent.said).collect();
        let left = |said: &str, mode: &str| -> u64 {
            let (_, rest) = said.split_once(" BY=").expect("it is said");
            let (seconds, behind) = rest.split_once(';').expect("so much");
            assert_eq!(behind, mode, "{said}");
            seconds.parse().expect("a number")
        };
        assert!(said[0].contains(" MT-PRIORITY=-3 ") && said[1].contains(" MT-PRIORITY=9 "));
        assert!((2_995..=3_000).contains(&left(&said[0], "NT")), "{said:?}");
        assert!((3_390..=3_400).contains(&left(&said[1], "R")), "{said:?}");
    });
}

#[test]
fn what_is_late_is_returned_or_told_of_as_was_asked() {
    play(|| async {
        let node = Node::start(&steered(RETRY)).await;
        let back = Peer::at(&node.world, BACK);
        sent_with(&node, "BY=7200;R").await;
        sent_with(&node, "BY=1800;N").await;
        tokio::time::sleep(Duration::from_secs(1_795)).await;
        assert!(back.messages().is_empty());
        wait_until("the notice", || back.messages().len() == 1).await;
        assert!(node.age() < Duration::from_secs(1_820), "{:?}", node.age());
        assert!(back.messages()[0].content.contains("Action: delayed\r\n"));
        let node = node.restart().await;
        wait_until("the return", || back.messages().len() == 2).await;
        assert!(node.age() < Duration::from_secs(7_220), "{:?}", node.age());
        assert!(back.messages()[1].content.contains("Status: 5.4.7\r\n"));
        assert_eq!(node.count("expired"), 1);
    });
}
