//! Which host, which address, and which transaction comes next.

use super::client::{Client, FRIEND, submit};
use super::node::{Node, config, play, wait_until};
use super::peer::Peer;
use mta::commands::{ControlRequest, QueueRetry};
use mta::control::Select;
use mta::seams::Mx;
use std::net::IpAddr;
use std::time::Duration;

const ONE: &str = "192.0.2.1";
const TWO: &str = "192.0.2.2";

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().expect("an address")).collect()
}

/// A domain with these hosts, the first preferred to the next, each with an address.
fn set_hosts(node: &Node, domain: &str, hosts: &[&str]) {
    let mut mx = Vec::new();
    for (n, ip) in (1_u16..).zip(hosts) {
        let host = format!("mx{n}.{domain}");
        node.world.set_addresses(&host, Ok(ips(&[ip])));
        mx.push(Mx { preference: n * 10, host });
    }
    node.world.set_mx(domain, Ok(mx));
}

async fn started(keys: &str) -> Node {
    let retry = "[retry]\njitter = 0\nfirst = \"1m\"";
    Node::start(&config(&format!("{retry}\n[[route]]\nmx = {{ {keys} }}\n"))).await
}

async fn started_with_two() -> (Node, Peer, Peer) {
    let node = started("").await;
    set_hosts(&node, "far.test", &[ONE, TWO]);
    let at = |ip: &str| Peer::at(&node.world, &format!("{ip}:25"));
    let (one, two) = (at(ONE), at(TWO));
    (node, one, two)
}

/// Whom a peer took mail for, by transaction.
fn transactions(peer: &Peer) -> Vec<Vec<String>> {
    peer.messages().into_iter().map(|sent| sent.to).collect()
}

#[test]
fn a_greeting_that_refuses_us_returns_nothing() {
    play(|| async {
        for greeting in ["554 5.7.1 poor reputation", "550 go away", "521 5.3.2 no mail here"] {
            let node = started("").await;
            set_hosts(&node, "far.test", &[ONE]);
            for n in 0..50 {
                submit(&node, "me@source.test", &[&format!("u{n}@far.test")]).await;
            }
            node.wait_for("suspended", 1).await;
            let peer = Peer::at(&node.world, &format!("{ONE}:25"));
            peer.once("CONNECT", greeting);
            node.wait_for("relayed", 50).await;
            assert_eq!(node.count("failed") + node.count("dsn_queued"), 0, "{greeting}");
        }
    });
}

#[test]
fn a_host_that_takes_no_mail_is_believed_when_it_has_said_so_for_a_while() {
    play(|| async {
        let node = started("").await;
        set_hosts(&node, "far.test", &[ONE]);
        let peer = Peer::at(&node.world, &format!("{ONE}:25"));
        peer.always("CONNECT", "521 5.3.2 no mail here");
        submit(&node, "me@source.test", &["u@far.test"]).await;
        node.wait_for("failed", 1).await;
        let waited = node.age();
        assert!(waited >= Duration::from_secs(900), "{waited:?}");
        assert!(waited < Duration::from_secs(4 * 3_600), "{waited:?}");
        assert!(peer.connections() >= 3);
    });
}

#[test]
fn hosts_that_take_no_mail_are_final_when_all_of_them_say_so() {
    play(|| async {
        let (node, one, two) = started_with_two().await;
        one.always("CONNECT", "521 5.3.2 no mail here");
        two.always("CONNECT", "554 5.7.1 not you");
        // Without a sender there are no reports, which would fail as well.
        submit(&node, "", &["u@far.test"]).await;
        tokio::time::sleep(Duration::from_secs(4 * 3_600)).await;
        assert_eq!(node.count("failed"), 0, "one of them refuses us alone");
        two.heal();
        two.always("CONNECT", "521 5.3.2 no mail here");
        let before = node.age();
        node.wait_for("failed", 1).await;
        let waited = node.age() - before;
        let failed = node.of("failed").remove(0);
        assert!(waited >= Duration::from_secs(900), "{waited:?}: {failed}");
        assert!(failed["reply"].as_str().is_some_and(|it| it.starts_with("521")), "{failed}");
        assert_eq!(node.count("relayed"), 0);
    });
}

#[test]
fn domains_that_can_not_share_a_transaction_follow_each_other_at_once() {
    play(|| async {
        let node = started("").await;
        let peer = Peer::at(&node.world, &format!("{ONE}:25"));
        let domains = ["v.test", "w.test", "x.test"];
        for domain in domains {
            node.world.set_mx(domain, Ok(vec![Mx { preference: 1, host: "mx.big.test".into() }]));
        }
        node.world.set_addresses("mx.big.test", Ok(ips(&[ONE])));
        let refusal = "451-4.3.0 Multiple destination domains per transaction is unsupported.\r\n\
                       451 4.3.0 try again";
        peer.once("RCPT", "250 2.1.5 good").once("RCPT", refusal).once("RCPT", refusal);
        let to: Vec<String> = domains.iter().map(|domain| format!("u@{domain}")).collect();
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        submit(&node, "me@source.test", &to).await;
        node.wait_for("relayed", 3).await;
        assert_eq!(node.count("deferred"), 0);
        assert!(node.age() < Duration::from_secs(1), "{:?}", node.age());
        // And it is remembered.
        submit(&node, "me@source.test", &to).await;
        node.wait_for("relayed", 6).await;
        assert!(transactions(&peer).iter().all(|to| to.len() == 1), "{:?}", transactions(&peer));
    });
}

#[test]
fn limits_that_a_host_names_are_kept() {
    play(|| async {
        let route = "[[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"], max_connections = 1 }";
        let node = Node::start(&config(route)).await;
        let peer = Peer::at(&node.world, &format!("{ONE}:25"));
        peer.always("EHLO", "250-peer.test\r\n250 LIMITS RCPTDOMAINMAX=2 MAILMAX=2");
        let to =
            ["a@v.test", "b@w.test", "c@v.test", "d@x.test", "e@w.test", "f@y.test", "g@z.test"];
        submit(&node, "me@source.test", &to).await;
        node.wait_for("relayed", 7).await;
        let of_v_and_w: Vec<_> =
            ["a@v.test", "b@w.test", "c@v.test", "e@w.test"].map(str::to_owned).into();
        assert_eq!(transactions(&peer)[0], of_v_and_w);
        assert_eq!(transactions(&peer).len(), 3);
        assert_eq!((peer.connections(), node.count("deferred")), (2, 0));
    });
}

#[test]
fn too_many_recipients_are_split_whatever_command_is_refused_for_them() {
    play(|| async {
        for verb in ["DATA", "."] {
            let node =
                Node::start(&config("[[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }")).await;
            let peer = Peer::at(&node.world, &format!("{ONE}:25"));
            peer.once(verb, "452 4.5.3 too many recipients");
            submit(&node, "me@source.test", &["a@x.test", "b@x.test", "c@x.test", "d@x.test"])
                .await;
            node.wait_for("relayed", 4).await;
            assert_eq!(transactions(&peer).iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
            assert_eq!(node.count("deferred"), 0, "{verb}");
        }
    });
}

#[test]
fn a_session_that_takes_no_more_mail_is_followed_by_another() {
    play(|| async {
        let node = Node::start(&config("[[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }")).await;
        let peer = Peer::at(&node.world, &format!("{ONE}:25"));
        peer.once("MAIL", "250 2.1.0 good")
            .once("MAIL", "452 4.5.3 too many messages on this connection");
        submit(&node, "me@source.test", &["a@x.test"]).await;
        submit(&node, "me@source.test", &["b@x.test"]).await;
        node.wait_for("relayed", 2).await;
        assert_eq!((peer.connections(), node.count("deferred")), (2, 0));
    });
}

#[test]
fn a_refused_sender_neither_stops_nor_diverts_others() {
    play(|| async {
        for refusal in [
            "450 4.1.8 Sender address rejected: Domain not found",
            "450 <x@broken.test>: Sender address rejected",
            "451 4.7.1 not you",
        ] {
            let (node, one, two) = started_with_two().await;
            for _ in 0..40 {
                one.once("MAIL", refusal);
            }
            for n in 0..40 {
                submit(&node, "x@broken.test", &[&format!("u{n}@far.test")]).await;
            }
            node.wait_for("deferred", 40).await;
            let before = node.age();
            for n in 0..20 {
                submit(&node, "me@source.test", &[&format!("v{n}@far.test")]).await;
            }
            node.wait_for("relayed", 20).await;
            assert!(node.age() - before < Duration::from_secs(1), "{refusal}");
            assert_eq!(node.count("suspended"), 0, "{refusal}");
            assert_eq!((one.messages().len(), two.messages().len()), (20, 0), "{refusal}");
        }
    });
}

#[test]
fn a_second_refused_sender_in_a_row_is_the_hosts_affair() {
    play(|| async {
        let node = started("").await;
        set_hosts(&node, "far.test", &[ONE]);
        let peer = Peer::at(&node.world, &format!("{ONE}:25"));
        peer.always("MAIL", "451 4.7.1 too much mail");
        for n in 0..400 {
            submit(&node, &format!("x@s{n}.test"), &[&format!("u{n}@far.test")]).await;
        }
        node.wait_for("suspended", 1).await;
        peer.heal();
        node.wait_for("relayed", 400).await;
    });
}

#[test]
fn what_one_host_does_not_take_another_is_asked_for() {
    play(|| async {
        let small = "250-peer.test\r\n250-SIZE 20\r\n250 SMTPUTF8";
        let large = "250-peer.test\r\n250-SIZE 1000000\r\n250 SMTPUTF8";
        // The preferred host takes less.
        let (node, one, two) = started_with_two().await;
        one.always("EHLO", small);
        two.always("EHLO", large);
        submit(&node, "me@source.test", &["u@far.test"]).await;
        node.wait_for("relayed", 1).await;
        assert_eq!((node.count("deferred"), two.messages().len()), (0, 1));
        // The backup takes less, while the preferred one is down.
        let (node, one, two) = started_with_two().await;
        node.world.unserve(format!("{ONE}:25").parse().expect("an address"));
        two.always("EHLO", small);
        submit(&node, "me@source.test", &["u@far.test"]).await;
        node.wait_for("deferred", 1).await;
        one.serve_at(&node.world, &format!("{ONE}:25"));
        node.wait_for("relayed", 1).await;
        assert_eq!((one.messages().len(), node.count("failed")), (1, 0));
        // All take less: that is known as soon as each has been asked.
        let (node, one, two) = started_with_two().await;
        one.always("EHLO", small);
        two.always("EHLO", small);
        submit(&node, "me@source.test", &["u@far.test"]).await;
        node.wait_for("failed", 1).await;
        let failed = node.of("failed").remove(0);
        assert_eq!((&failed["status"], node.count("deferred")), (&"5.3.4".into(), 0), "{failed}");
    });
}

#[test]
fn a_want_of_one_host_diverts_nobody_else() {
    play(|| async {
        let (node, one, two) = started_with_two().await;
        one.always("EHLO", "250-peer.test\r\n250 SIZE 1000");
        let mut client = Client::connect(&node, FRIEND).await;
        let large = format!("Subject: large\r\n\r\n{}", "0123456789\r\n".repeat(200));
        client.send("me@source.test", &["large@far.test"], &large).await;
        node.wait_for("relayed", 1).await;
        for n in 0..20 {
            submit(&node, "me@source.test", &[&format!("v{n}@far.test")]).await;
        }
        node.wait_for("relayed", 21).await;
        assert_eq!(two.messages().len(), 1);
    });
}

#[test]
fn all_addresses_of_a_host_are_used() {
    play(|| async {
        let node = started("messages_per_connection = 1").await;
        set_hosts(&node, "lb.test", &[ONE]);
        let all = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"];
        node.world.set_addresses("mx1.lb.test", Ok(ips(&all)));
        let peers = all.map(|ip| Peer::at(&node.world, &format!("{ip}:25")));
        for n in 0..40 {
            submit(&node, "me@source.test", &[&format!("u{n}@lb.test")]).await;
        }
        node.wait_for("relayed", 40).await;
        for peer in peers {
            assert!((1..40).contains(&peer.messages().len()), "{}", peer.messages().len());
        }
    });
}

#[test]
fn however_many_addresses_are_dead_the_one_that_is_not_is_reached() {
    play(|| async {
        for alive in [1, 8, 40] {
            let node = started("").await;
            set_hosts(&node, "many.test", &[ONE]);
            let all: Vec<String> = (1..=40).map(|n| format!("192.0.2.{n}")).collect();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            node.world.set_addresses("mx1.many.test", Ok(ips(&all)));
            Peer::at(&node.world, &format!("192.0.2.{alive}:25"));
            submit(&node, "me@source.test", &["u@many.test"]).await;
            node.wait_for("relayed", 1).await;
            assert!(node.age() < Duration::from_secs(300), "{alive}: {:?}", node.age());
        }
    });
}

#[test]
fn retry_has_tls_tried_again() {
    play(|| async {
        let node = started("").await;
        node.world.speak_tls();
        set_hosts(&node, "far.test", &[ONE]);
        let peer = Peer::at(&node.world, &format!("{ONE}:25"));
        peer.always("EHLO", "250-peer.test\r\n250 STARTTLS").once("(HANDSHAKE)", "no cipher");
        peer.once("RCPT", "450 4.2.0 later");
        submit(&node, "me@source.test", &["u@far.test"]).await;
        node.wait_for("deferred", 1).await;
        // Its connection is idle no longer.
        tokio::time::sleep(Duration::from_secs(50)).await;
        node.ask(ControlRequest::QueueRetry(QueueRetry { select: Select::All })).await;
        node.wait_for("relayed", 1).await;
        assert!(peer.messages()[0].is_encrypted);
    });
}

#[test]
fn a_host_that_was_encrypted_gets_mail_in_clear_when_tls_has_failed_for_a_while() {
    play(|| async {
        let node = started("").await;
        node.world.speak_tls();
        set_hosts(&node, "far.test", &[ONE]);
        let peer = Peer::at(&node.world, &format!("{ONE}:25"));
        peer.always("EHLO", "250-peer.test\r\n250 STARTTLS");
        submit(&node, "me@source.test", &["u@far.test"]).await;
        node.wait_for("relayed", 1).await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        peer.always("(HANDSHAKE)", "no cipher");
        let before = node.age();
        submit(&node, "me@source.test", &["v@far.test"]).await;
        node.wait_for("relayed", 2).await;
        assert!(node.age() - before >= Duration::from_secs(300), "{:?}", node.age() - before);
        let encrypted: Vec<bool> = peer.messages().iter().map(|sent| sent.is_encrypted).collect();
        assert_eq!(encrypted, [true, false]);
    });
}

#[test]
fn a_host_that_goes_by_any_name_of_ours_is_ourselves() {
    play(|| async {
        for name in ["relay.test", "M1.relay.test", "m2.relay.test"] {
            let sources = "[[source]]\nname = \"one\"\naddress = \"192.0.2.251\"\n\
                           ehlo = \"m1.relay.test\"\n[[source]]\nname = \"two\"\n\
                           address = \"192.0.2.252\"\nehlo = \"m2.relay.test\"\n\
                           [[pool]]\nname = \"p\"\nsources = [{ name = \"one\" }]\n";
            let route = "[[route]]\npool = \"p\"\nmx = {}\n";
            let node = Node::start(&config(&format!("{sources}{route}"))).await;
            set_hosts(&node, "far.test", &[ONE]);
            let peer = Peer::at(&node.world, &format!("{ONE}:25"));
            peer.always("EHLO", &format!("250 {name}"));
            submit(&node, "me@source.test", &["u@far.test"]).await;
            node.wait_for("failed", 1).await;
            assert_eq!(node.of("failed")[0]["status"], "5.4.6", "{name}");
        }
    });
}

#[test]
fn who_is_greylisted_again_is_taken_to_the_next_host() {
    play(|| async {
        let (node, one, two) = started_with_two().await;
        one.always("RCPT", "450 4.7.1 greylisted");
        submit(&node, "me@source.test", &["u@far.test"]).await;
        node.wait_for("deferred", 1).await;
        assert_eq!(two.connections(), 0, "the first time it waits");
        node.wait_for("relayed", 1).await;
        assert_eq!(two.messages().len(), 1);
        let attempts = &node.of("relayed")[0]["attempts"];
        assert_eq!(attempts, 2);
        wait_until("nothing is queued", || node.shared.queue_slots.used() == 0).await;
    });
}
