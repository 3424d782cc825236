//! Mailbox providers and the pace at which each takes mail.

use super::client::submit;
use super::node::{Node, config, play, wait_until};
use super::peer::Peer;
use mta::commands::{ControlRequest, QueueList};
use mta::control::Filter;
use mta::seams::Mx;
use std::time::Duration;
use tokio::time::Instant;

/// `mx` routes that are shaped by this text, or not at all.
fn shaped(text: Option<&str>) -> String {
    let shaping = text.map(|text| format!("shaping = [\'\'\'{text}\'\'\']\n"));
    let routes = "[retry]\njitter = 0\n[[route]]\nmx = {}";
    format!("{}{}", shaping.unwrap_or_default(), config(routes))
}

/// `domain` has one MX host, at 192.0.2.`last`.
fn host(node: &Node, domain: &str, host: &str, last: u8) -> Peer {
    node.world.set_mx(domain, Ok(vec![Mx { preference: 10, host: host.to_owned() }]));
    let address = format!("192.0.2.{last}");
    node.world.set_addresses(host, Ok(vec![address.parse().expect("an address")]));
    Peer::at(&node.world, &format!("{address}:25"))
}

/// How long it takes until all of these are relayed.
async fn seconds(node: &Node, to: &[&str]) -> u64 {
    let (begun, before) = (Instant::now(), node.count("relayed"));
    for to in to {
        submit(node, "me@source.test", &[to]).await;
    }
    node.wait_for("relayed", before + to.len()).await;
    begun.elapsed().as_secs()
}

const TOGETHER: &str = "[provider.big]\nmx = [\"*.big.test\"]\ntogether = { rate = [\"1/s\"] }\n";
const BOTH: [&str; 10] = [
    "1@a.test",
    "2@b.test",
    "3@a.test",
    "4@b.test",
    "5@a.test",
    "6@b.test",
    "7@a.test",
    "8@b.test",
    "9@a.test",
    "10@b.test",
];

#[test]
fn hosts_of_a_provider_share_its_rate_and_others_do_not() {
    play(|| async {
        let node = Node::start(&shaped(Some(TOGETHER))).await;
        let (a, b) =
            (host(&node, "a.test", "mx1.big.test", 1), host(&node, "b.test", "mx2.big.test", 2));
        let other = host(&node, "c.test", "mx.other.test", 3);
        assert!(seconds(&node, &["x@c.test"; 10]).await < 1);
        assert_eq!(other.messages().len(), 10);
        let took = seconds(&node, &BOTH).await;
        assert!((8..=12).contains(&took), "{took} s");
        assert_eq!((a.messages().len(), b.messages().len()), (5, 5));
    });
}

#[test]
fn who_waits_for_a_provider_is_told_its_name() {
    play(|| async {
        let node = Node::start(&shaped(Some(TOGETHER))).await;
        let _peer = host(&node, "a.test", "mx1.big.test", 1);
        for n in 0..5 {
            submit(&node, "me@source.test", &[&format!("{n}@a.test")]).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let request = ControlRequest::QueueList(QueueList { filter: Filter::default(), limit: 9 });
        let items: Vec<_> =
            node.ask(request).await.into_iter().flat_map(|part| part.items).collect();
        assert!(!items.is_empty());
        let told = format!("{items:?}");
        assert!(told.contains("provider big"), "{told}");
    });
}

#[test]
fn limits_of_a_provider_and_of_a_domain_hold_in_place_of_the_route_s() {
    play(|| async {
        let text = "[provider.big]\nmx = [\"*.big.test\"]\nrecipients_per_message = 2\n\
                    [domain.\"b.test\"]\nrecipients_per_message = 3\n";
        let node = Node::start(&shaped(Some(text))).await;
        // The same host, whose mail for one domain may have more recipients.
        let peer = host(&node, "a.test", "mx.big.test", 1);
        let same = Mx { preference: 10, host: "mx.big.test".to_owned() };
        node.world.set_mx("b.test", Ok(vec![same]));
        let counts = |domain: &str| {
            let sent = peer.messages().into_iter();
            let mut counts: Vec<usize> =
                sent.filter(|m| m.to[0].ends_with(domain)).map(|m| m.to.len()).collect();
            counts.sort_unstable();
            counts
        };
        for domain in ["a.test", "b.test"] {
            let to: Vec<String> = (0..6).map(|n| format!("{n}@{domain}")).collect();
            let to: Vec<&str> = to.iter().map(String::as_str).collect();
            submit(&node, "me@source.test", &to).await;
        }
        node.wait_for("relayed", 12).await;
        assert_eq!((counts("@a.test"), counts("@b.test")), (vec![2, 2, 2], vec![3, 3]));
    });
}

#[test]
fn a_reload_changes_the_pace_of_mail_that_waits() {
    play(|| async {
        let slow = "[provider.big]\nmx = [\"*.big.test\"]\nrate = [\"1/h\"]\n";
        let node = Node::start(&shaped(Some(slow))).await;
        let peer = host(&node, "a.test", "mx.big.test", 1);
        for n in 0..5 {
            submit(&node, "me@source.test", &[&format!("{n}@a.test")]).await;
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(peer.messages().len(), 1, "one an hour");
        node.reload(&shaped(None));
        wait_until("the rest has gone", || peer.messages().len() == 5).await;
        assert!(node.age() < Duration::from_secs(3_600));
    });
}
