//! Where mail goes, and what the DNS has to do with it.

use super::client::submit;
use super::node::{Node, config, play};
use super::peer::Peer;
use super::world::{HERE, TestWorld};
use mta::commands::{ControlRequest, QueueRetry};
use mta::control::Select;
use mta::seams::{DnsError, Mx};
use std::net::IpAddr;
use std::time::Duration;

const MX: &str = "[retry]\njitter = 0\n[[route]]\nmx = {}";

fn mx(preference: u16, host: &str) -> Mx {
    Mx { preference, host: host.to_owned() }
}

fn ip(text: &str) -> Vec<IpAddr> {
    vec![text.parse().expect("an address")]
}

/// `x.test` has `mx1` before `mx2`.
fn two_hosts(world: &TestWorld) {
    world.set_mx("x.test", Ok(vec![mx(20, "mx2.x.test"), mx(10, "mx1.x.test")]));
    world.set_addresses("mx1.x.test", Ok(ip("192.0.2.11")));
    world.set_addresses("mx2.x.test", Ok(ip("192.0.2.12")));
}

#[test]
fn the_preferred_host_gets_the_mail() {
    play(|| async {
        let node = Node::start(&config(MX)).await;
        two_hosts(&node.world);
        let (first, second) =
            (Peer::at(&node.world, "192.0.2.11:25"), Peer::at(&node.world, "192.0.2.12:25"));
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("relayed", 1).await;
        assert_eq!((first.messages().len(), second.messages().len()), (1, 0));
        assert_eq!(node.of("relayed")[0]["next_hop"], "mx1.x.test[192.0.2.11]:25");
    });
}

#[test]
fn the_next_host_is_asked_when_the_preferred_is_away() {
    play(|| async {
        let node = Node::start(&config(MX)).await;
        two_hosts(&node.world);
        let second = Peer::at(&node.world, "192.0.2.12:25");
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("relayed", 1).await;
        assert_eq!(second.messages().len(), 1);
        assert_eq!(node.count("deferred"), 0);
    });
}

#[test]
fn a_domain_without_mx_is_its_own_host() {
    play(|| async {
        let node = Node::start(&config(MX)).await;
        node.world.set_mx("x.test", Err(DnsError::NoRecords));
        node.world.set_addresses("x.test", Ok(ip("192.0.2.13")));
        let peer = Peer::at(&node.world, "192.0.2.13:25");
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("relayed", 1).await;
        assert_eq!(peer.messages().len(), 1);
    });
}

#[test]
fn null_mx_and_domains_that_do_not_exist_fail_at_once() {
    play(|| async {
        let node = Node::start(&config(MX)).await;
        node.world.set_mx("null.test", Ok(vec![mx(0, "")]));
        submit(&node, "", &["a@null.test", "b@nowhere.test"]).await;
        node.wait_for("failed", 2).await;
        let mut failed = node.events(&["recipient", "status", "culprit"]).split_off(1);
        failed.sort();
        assert_eq!(
            failed,
            [
                // RFC 7505 §4.1, RFC 3463 §3.2.
                "failed recipient=a@null.test status=5.1.10 culprit=dns",
                "failed recipient=b@nowhere.test status=5.1.2 culprit=dns",
            ]
        );
        assert_eq!(node.world.connects(), 0);
    });
}

const MX_OF: &str = "[retry]\njitter = 0\n[[route]]\nsmtp = { mx_of = \"hub.test\" }";

#[test]
fn named_relay_is_found_by_its_mx_records() {
    play(|| async {
        let node = Node::start(&config(MX_OF)).await;
        let hosts = vec![mx(20, "mx2.hub.test"), mx(10, "mx1.hub.test")];
        node.world.set_mx("hub.test", Ok(hosts));
        node.world.set_addresses("mx1.hub.test", Ok(ip("192.0.2.11")));
        node.world.set_addresses("mx2.hub.test", Ok(ip("192.0.2.12")));
        let second = Peer::at(&node.world, "192.0.2.12:25");
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("relayed", 1).await;
        let first = Peer::at(&node.world, "192.0.2.11:25");
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        submit(&node, "me@source.test", &["a@x.test", "b@y.test"]).await;
        node.wait_for("relayed", 3).await;
        let count = |peer: &Peer| peer.messages().iter().map(|one| one.to.len()).sum::<usize>();
        assert_eq!((count(&first), count(&second)), (2, 1));
        let asked = node.world.asked();
        assert!(!asked.iter().any(|name| name.contains("x.test")), "{asked:?}");
    });
}

#[test]
fn relay_without_hosts_bounces_nothing() {
    play(|| async {
        let node = Node::start(&config(MX_OF)).await;
        for answer in [Err(DnsError::NoSuchDomain), Ok(vec![mx(0, "")])] {
            node.world.set_mx("hub.test", answer);
            submit(&node, "me@source.test", &["a@x.test"]).await;
            node.wait_for("suspended", 1).await;
            tokio::time::sleep(Duration::from_secs(3_600)).await;
        }
        assert_eq!((node.count("failed"), node.count("relayed")), (0, 0));
        node.world.set_mx("hub.test", Ok(vec![mx(10, "mx1.hub.test")]));
        node.world.set_addresses("mx1.hub.test", Ok(ip("192.0.2.11")));
        Peer::at(&node.world, "192.0.2.11:25");
        node.wait_for("relayed", 2).await;
    });
}

#[test]
fn trouble_with_the_dns_makes_mail_wait_until_it_is_over() {
    play(|| async {
        let node = Node::start(&config(MX)).await;
        let failure = || DnsError::Transient("the name server said SERVFAIL".to_owned());
        node.world.set_mx("x.test", Err(failure()));
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("suspended", 1).await;
        assert_eq!(node.of("suspended")[0]["next_hop"], "x.test");
        two_hosts(&node.world);
        Peer::at(&node.world, "192.0.2.11:25");
        node.wait_for("relayed", 1).await;
        assert_eq!(node.count("failed"), 0);
    });
}

#[test]
fn name_servers_that_answer_nothing_are_told_of_once_and_so_is_their_return() {
    play(|| async {
        let node = Node::start(&config(MX)).await;
        let trouble = || DnsError::Transient("timed out".to_owned());
        for n in 0..20 {
            node.world.set_mx(&format!("d{n}.test"), Err(trouble()));
            submit(&node, "me@source.test", &[&format!("a@d{n}.test")]).await;
        }
        node.wait_for("suspended", 20).await;
        let told = |node: &Node| {
            let lines = node.lines();
            lines.into_iter().filter(|line| line.contains("name_servers")).collect::<Vec<String>>()
        };
        assert_eq!(told(&node), ["warn name_servers: lookups fail count=8 reason=\"timed out\""]);
        assert!(node.shared.name_servers.trouble().is_some());
        submit(&node, "", &["a@nowhere.test"]).await;
        node.wait_for("failed", 1).await;
        assert_eq!(told(&node)[1..], ["warn name_servers: DNS resolver recovered"]);
        assert_eq!(node.shared.name_servers.trouble(), None);
    });
}

#[test]
fn a_zone_that_is_silent_is_named_and_the_name_servers_are_not_blamed() {
    play(|| async {
        let node = Node::start(&config(MX)).await;
        let trouble = || DnsError::Transient("timed out".to_owned());
        let servers = &node.shared.name_servers;
        for n in 0..20 {
            node.world.set_mx(&format!("d{n}.dead.test"), Err(trouble()));
            submit(&node, "me@source.test", &[&format!("a@d{n}.dead.test")]).await;
        }
        node.wait_for("suspended", 20).await;
        assert_eq!(servers.trouble(), None);
        let named = servers.silent_zones();
        assert_eq!(named.as_deref(), Some("DNS lookups fail for zone dead.test: timed out"));
        // Among other questions it is one next hop that waits, as its event says.
        submit(&node, "", &["a@nowhere.test"]).await;
        node.wait_for("failed", 1).await;
        assert_eq!((servers.trouble(), servers.silent_zones()), (None, None));
        let lines = node.lines();
        assert!(!lines.iter().any(|line| line.contains("name_servers")), "{lines:?}");
    });
}

/// A message waits for a host that is away; then the domain has another one.
async fn that_has_moved(lasts: Duration) -> (Node, Peer) {
    let node = Node::start(&config(&MX.replace("jitter = 0", "jitter = 0\nfirst = \"1h\""))).await;
    node.world.set_mx_lasts(lasts);
    two_hosts(&node.world);
    node.world.set_mx("x.test", Ok(vec![mx(10, "mx1.x.test")]));
    submit(&node, "me@source.test", &["a@x.test"]).await;
    node.wait_for("suspended", 1).await;
    node.world.set_mx("x.test", Ok(vec![mx(10, "mx2.x.test")]));
    let new = Peer::at(&node.world, "192.0.2.12:25");
    (node, new)
}

#[test]
fn mail_that_waits_follows_its_domain_when_the_records_no_longer_count() {
    for (lasts, most) in [(0, 10), (1, 10), (120, 130), (3_600, 310 + 3_600)] {
        play(move || async move {
            let (node, new) = that_has_moved(Duration::from_secs(lasts)).await;
            let before = node.age();
            node.wait_for("relayed", 1).await;
            let took = (node.age() - before).as_secs();
            assert!((lasts.saturating_sub(30)..most).contains(&took), "{lasts} s: {took} s");
            assert_eq!(new.messages().len(), 1);
        });
    }
}

#[test]
fn new_mail_follows_its_domain_when_the_records_no_longer_count() {
    play(|| async {
        let node = Node::start(&config(MX)).await;
        node.world.set_mx_lasts(Duration::from_secs(20));
        two_hosts(&node.world);
        let (old, new) =
            (Peer::at(&node.world, "192.0.2.11:25"), Peer::at(&node.world, "192.0.2.12:25"));
        for (n, host) in ["mx1.x.test", "mx2.x.test"].into_iter().enumerate() {
            node.world.set_mx("x.test", Ok(vec![mx(10, host)]));
            submit(&node, "me@source.test", &["a@x.test"]).await;
            node.wait_for("relayed", 2 * n + 1).await;
            // Within its time it is not asked for again.
            submit(&node, "me@source.test", &["b@x.test"]).await;
            node.wait_for("relayed", 2 * n + 2).await;
            tokio::time::sleep(Duration::from_secs(21)).await;
        }
        assert_eq!((old.messages().len(), new.messages().len()), (2, 2));
        let asked = node.world.asked();
        assert_eq!(asked.iter().filter(|name| *name == "x.test").count(), 2, "{asked:?}");
    });
}

#[test]
fn a_retry_has_it_found_out_anew_where_mail_goes() {
    play(|| async {
        let (node, new) = that_has_moved(Duration::from_secs(86_400)).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = node.age();
        node.ask(ControlRequest::QueueRetry(QueueRetry { select: Select::All })).await;
        node.wait_for("relayed", 1).await;
        assert!((node.age() - before).as_secs() < 10);
        assert_eq!(new.messages().len(), 1);
    });
}

#[test]
fn an_mx_that_is_this_server_is_a_loop() {
    play(|| async {
        let node = Node::start(&config(MX)).await;
        node.world.set_mx("x.test", Ok(vec![mx(10, "us.x.test")]));
        node.world.set_addresses("us.x.test", Ok(vec![HERE]));
        submit(&node, "", &["a@x.test"]).await;
        node.wait_for("failed", 1).await;
        assert_eq!(node.of("failed")[0]["status"], "5.4.6");
    });
}

#[test]
fn the_first_route_that_names_the_domain_wins_and_a_reload_moves_what_waits() {
    play(|| async {
        let text = |host: &str| {
            config(&format!(
                "[retry]\njitter = 0\n\
                 [[route]]\ndomains = [\"*.x.test\"]\nsmtp = {{ hosts = [\"192.0.2.21:25\"] }}\n\
                 [[route]]\nsmtp = {{ hosts = [\"{host}\"] }}"
            ))
        };
        let node = Node::start(&text("192.0.2.22:25")).await;
        let below = Peer::at(&node.world, "192.0.2.21:25");
        submit(&node, "me@source.test", &["a@deep.x.test", "b@x.test"]).await;
        node.wait_for("relayed", 1).await;
        assert_eq!(below.messages()[0].to, ["a@deep.x.test"]);
        let moved = Peer::at(&node.world, "192.0.2.23:25");
        node.reload(&text("192.0.2.23:25"));
        node.wait_for("relayed", 2).await;
        assert_eq!(moved.messages()[0].to, ["b@x.test"]);
    });
}

#[test]
fn mail_whose_route_has_vanished_waits_and_is_not_returned() {
    play(|| async {
        let before = config(
            "[retry]\njitter = 0\n\
             [[route]]\ndomains = [\"x.test\"]\nsmtp = { hosts = [\"192.0.2.31:25\"] }\n\
             [[route]]\ndomains = [\"y.test\"]\ndiscard = {}",
        );
        let after = config("[[route]]\ndomains = [\"y.test\"]\ndiscard = {}");
        let node = Node::start(&before).await;
        submit(&node, "me@source.test", &["a@x.test"]).await;
        node.wait_for("suspended", 1).await;
        node.reload(&after);
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(node.count("failed"), 0);
        let peer = Peer::at(&node.world, "192.0.2.31:25");
        node.reload(&before);
        node.wait_for("relayed", 1).await;
        assert_eq!(peer.messages().len(), 1);
    });
}
