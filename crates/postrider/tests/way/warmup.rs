//! Sources that warm up: what goes from them on which day, and what goes from others.

use super::client::submit;
use super::node::{Node, config, play};
use super::peer::Peer;
use mta::commands::{ControlRequest, QueueList};
use mta::control::{BlockerKind, Filter, QueueRecipient};
use mta::metrics::WarmupMetrics;
use mta::seams::Mx;
use std::sync::Arc;
use std::time::Duration;

const HOP: &str = "192.0.2.1:25";

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
/// The world begins at 11:06:40.
const TO_MIDNIGHT: Duration = Duration::from_secs(46_400);

/// Mail goes from `pool` to `HOP`; `new` warms up, `old` does not.
fn warming(warmup: &str, pool: &str) -> String {
    routed(warmup, pool, &format!("smtp = {{ hosts = [\"{HOP}\"] }}"))
}

fn routed(warmup: &str, pool: &str, route: &str) -> String {
    let routes = format!(
        "[[source]]\nname = \"new\"\naddress = \"192.0.2.101\"\nwarmup = {{ {warmup} }}\n\
         [[source]]\nname = \"old\"\naddress = \"192.0.2.102\"\n\
         [[pool]]\nname = \"bulk\"\nsources = [{pool}]\n\
         [retry]\njitter = 0\nfirst = \"1h\"\ngive_up_after = \"20d\"\nwarn_after = \"0\"\n\
         [[route]]\npool = \"bulk\"\n{route}"
    );
    config(&routes)
}

const FEW: &str = "start = \"2026-11-18\", per_day = [48, 96]";
const NEW: &str = "{ name = \"new\" }";
const BOTH: &str = "{ name = \"new\", weight = 3 }, { name = \"old\" }";

async fn submit_all(node: &Node, domain: &str, count: usize) {
    for n in 0..count {
        submit(node, "me@source.test", &[&format!("u{n}@{domain}")]).await;
    }
}

/// The numbers of the source that warms up.
fn warmup(node: &Node) -> Arc<WarmupMetrics> {
    node.shared.sending.warmup(&"new".into())
}

/// Recipients that went from a source.
fn from(node: &Node, source: &str) -> usize {
    node.of("relayed").iter().filter(|event| event["source"] == source).count()
}

async fn waiting(node: &Node) -> QueueRecipient {
    let request = ControlRequest::QueueList(QueueList { filter: Filter::default(), limit: 1 });
    let items = node.ask(request).await.into_iter().flat_map(|part| part.items);
    items.flat_map(|item| item.recipients).next().expect("something waits")
}

#[test]
fn each_day_has_its_count_and_then_all_goes() {
    play(|| async {
        let node = Node::start(&warming(FEW, NEW)).await;
        let _peer = Peer::at(&node.world, HOP);
        submit_all(&node, "x.test", 300).await;
        tokio::time::sleep(HOUR * 6).await;
        let by_evening = node.count("relayed");
        assert!((12..=15).contains(&by_evening), "{by_evening}: an even pace");
        tokio::time::sleep(TO_MIDNIGHT - HOUR * 6 - Duration::from_secs(5)).await;
        // Half a day is left of the first one.
        let first = node.count("relayed");
        assert!((25..=28).contains(&first), "{first}");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(node.count("relayed") <= first + 2, "midnight is no feast");
        tokio::time::sleep(DAY - Duration::from_secs(20)).await;
        let second = node.count("relayed") - first;
        assert!((92..=96).contains(&second), "{second}");
        node.wait_for("relayed", 300).await;
        assert!(node.age() < TO_MIDNIGHT + DAY + HOUR, "it is warm");
        let warm = "info warmup: source new towards 192.0.2.1:25 has completed its warm-up";
        assert!(node.lines().iter().any(|line| line.starts_with(warm)), "{:#?}", node.lines());
        assert_eq!(warmup(&node).finished.get(), 1);
    });
}

#[test]
fn what_a_spent_source_would_send_goes_from_others_within_a_second() {
    play(|| async {
        let node = Node::start(&warming(FEW, BOTH)).await;
        let _peer = Peer::at(&node.world, HOP);
        submit_all(&node, "x.test", 60).await;
        node.wait_for("relayed", 60).await;
        assert!(node.age() < Duration::from_secs(1), "{:?}", node.age());
        assert_eq!((from(&node, "new"), from(&node, "old")), (2, 58));
        // When it may send again it has its part of what comes then.
        tokio::time::sleep(HOUR * 2).await;
        submit_all(&node, "x.test", 20).await;
        node.wait_for("relayed", 80).await;
        assert_eq!(from(&node, "new"), 4);
        assert_eq!(node.count("deferred"), 0);
    });
}

#[test]
fn recipients_that_were_never_named_to_the_peer_are_not_counted() {
    play(|| async {
        // A burst is a hundred recipients, and a transaction has one.
        let warmup_of_100 = "start = \"2026-11-18\", per_day = [2400, 4800]";
        for offer in ["RCPTMAX=1", "RCPTDOMAINMAX=1"] {
            let node = Node::start(&warming(warmup_of_100, NEW)).await;
            let peer = Peer::at(&node.world, HOP);
            peer.always("EHLO", &format!("250-peer.test\r\n250 LIMITS {offer}"));
            let to: Vec<String> = (0..90).map(|n| format!("u{n}@d{n}.test")).collect();
            let to: Vec<&str> = to.iter().map(String::as_str).collect();
            submit(&node, "me@source.test", &to).await;
            node.wait_for("relayed", 90).await;
            assert!(node.age() < Duration::from_secs(60), "{offer}: {:?}", node.age());
            // And what was sent is.
            submit_all(&node, "x.test", 60).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            let relayed = node.count("relayed");
            assert!((98..=104).contains(&relayed), "{offer}: {relayed}");
        }
    });
}

#[test]
fn what_waits_says_for_what_and_until_when() {
    play(|| async {
        let node = Node::start(&warming(FEW, NEW)).await;
        let _peer = Peer::at(&node.world, HOP);
        submit_all(&node, "x.test", 5).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(node.count("relayed"), 2);
        let recipient = waiting(&node).await;
        let blocker = recipient.blocker;
        let text = "warm-up of source new towards 192.0.2.1:25: 2 of 48 recipients today";
        assert_eq!((blocker.kind, &*blocker.text), (BlockerKind::Rate, text));
        assert!(blocker.until.is_some() && recipient.expires_at.is_some());
        // Nobody looks before that: the next goes after half an hour.
        let asked = warmup(&node).pauses.get();
        tokio::time::sleep(Duration::from_secs(1_700)).await;
        assert_eq!((node.count("relayed"), warmup(&node).pauses.get()), (2, asked));
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(node.count("relayed"), 3);
    });
}

#[test]
fn before_its_start_a_source_is_out() {
    play(|| async {
        let later = FEW.replace("11-18", "11-20");
        let node = Node::start(&warming(&later, BOTH)).await;
        let _peer = Peer::at(&node.world, HOP);
        submit_all(&node, "x.test", 20).await;
        node.wait_for("relayed", 20).await;
        assert_eq!(from(&node, "new"), 0);
        node.reload(&warming(&later, NEW));
        submit_all(&node, "x.test", 1).await;
        tokio::time::sleep(HOUR).await;
        let text = waiting(&node).await.blocker.text;
        assert_eq!(text, "warm-up of source new has not begun");
        node.wait_for("relayed", 21).await;
        assert!(node.age() >= TO_MIDNIGHT + DAY && node.age() < TO_MIDNIGHT + DAY + HOUR);
        assert!(node.world.warmup_book().borrow().courses().all(|course| course.kept.stage == 0));
    });
}

#[test]
fn a_day_with_too_many_held_back_is_repeated() {
    play(|| async {
        let node = Node::start(&warming(FEW, NEW)).await;
        let peer = Peer::at(&node.world, HOP);
        peer.always("RCPT", "450 4.7.1 rate limit exceeded");
        submit_all(&node, "x.test", 60).await;
        tokio::time::sleep(TO_MIDNIGHT - Duration::from_secs(60)).await;
        peer.heal();
        tokio::time::sleep(HOUR).await;
        let stage = |node: &Node| {
            let book = node.world.warmup_book().borrow();
            book.courses().map(|course| course.kept.stage).collect::<Vec<u32>>()
        };
        assert_eq!(stage(&node), [0]);
        let lines = node.lines();
        let is_told = |line: &&String| {
            line.starts_with(
                "warn warmup: source new towards 192.0.2.1:25 repeats day 1 of its warm-up",
            )
        };
        assert_eq!(lines.iter().filter(is_told).count(), 1, "{lines:#?}");
        assert_eq!(warmup(&node).days_repeated.get(), 1);
        tokio::time::sleep(DAY).await;
        submit_all(&node, "x.test", 1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(stage(&node), [1]);
        assert_eq!(warmup(&node).days_repeated.get(), 1);
    });
}

#[test]
fn a_process_that_ends_again_and_again_has_no_burst_each_time() {
    play(|| async {
        let many = FEW.replace("[48, 96]", "[480]");
        let mut node = Node::start(&warming(&many, NEW)).await;
        let peer = Peer::at(&node.world, HOP);
        submit_all(&node, "x.test", 3).await;
        for round in 0..8 {
            submit_all(&node, "y.test", 4).await;
            // In the middle of it.
            tokio::time::sleep(Duration::from_millis(round)).await;
            node = node.restart().await;
        }
        submit_all(&node, "z.test", 30).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let sent: usize = peer.messages().iter().map(|message| message.to.len()).sum();
        assert!((5..=20).contains(&sent), "{sent}: an hour's worth is 20");
    });
}

#[test]
fn recipients_are_counted_and_not_messages() {
    play(|| async {
        let many = FEW.replace("[48, 96]", "[480]");
        let node = Node::start(&warming(&many, NEW)).await;
        let peer = Peer::at(&node.world, HOP);
        let to: Vec<String> = (0..50).map(|n| format!("u{n}@x.test")).collect();
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        submit(&node, "me@source.test", &to).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let counts: Vec<usize> = peer.messages().iter().map(|m| m.to.len()).collect();
        assert_eq!(counts.iter().sum::<usize>(), 20, "{counts:?}");
        assert!(counts.iter().all(|count| *count <= 9), "{counts:?}: a fiftieth at once");
    });
}

#[test]
fn hosts_of_one_provider_are_counted_together_and_others_by_their_set() {
    play(|| async {
        let shaping = "shaping = [\'\'\'[provider.big]\nmx = [\"*.big.test\"]\n\'\'\']\n";
        let text = format!("{shaping}{}", routed(FEW, NEW, "mx = {}"));
        let node = Node::start(&text).await;
        let domains = [
            ("a.test", "mx1.big.test", "192.0.2.1"),
            ("b.test", "mx2.big.test", "192.0.2.2"),
            ("c.test", "mx.c.test", "192.0.2.3"),
        ];
        let mut peers = Vec::new();
        for (domain, host, address) in domains {
            node.world.set_mx(domain, Ok(vec![Mx { preference: 10, host: host.to_owned() }]));
            node.world.set_addresses(host, Ok(vec![address.parse().expect("an address")]));
            peers.push(Peer::at(&node.world, &format!("{address}:25")));
            submit_all(&node, domain, 5).await;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        let sent: Vec<usize> = peers.iter().map(|peer| peer.messages().len()).collect();
        assert_eq!((sent[0] + sent[1], sent[2]), (2, 2), "{sent:?}");
        let book = node.world.warmup_book().borrow();
        let towards: Vec<String> = book.courses().map(|c| c.key.towards.to_string()).collect();
        assert_eq!(towards, ["big", "mx.c.test:25"]);
    });
}

#[test]
fn without_a_warm_up_nobody_counts_any_more() {
    play(|| async {
        let node = Node::start(&warming(FEW, NEW)).await;
        let _peer = Peer::at(&node.world, HOP);
        submit_all(&node, "x.test", 20).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(node.count("relayed"), 2);
        let plan = format!("warmup = {{ {FEW} }}\n");
        node.reload(&warming(FEW, NEW).replace(&plan, ""));
        node.wait_for("relayed", 20).await;
        assert!(node.age() < Duration::from_secs(60), "{:?}", node.age());
    });
}
