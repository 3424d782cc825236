//! Checks of messages whose questions to the DNS run into our own limits: what could have been refused is put off.

use super::client::Client;
use super::node::{Node, play};
use mta::seams::{DnsError, Mx};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

fn config(checks: &str) -> String {
    format!(
        "hostname = \"relay.test\"\n\
         [[listener]]\nname = \"in\"\naddress = \"192.0.2.250:25\"\n\
         exempt_from_limits = [\"0.0.0.0/0\"]\nchecks = {{ {checks} }}\n\
         [[route]]\ndomains = [\"here.test\"]\nmaildir = {{ path = \"/mail/{{local}}\" }}\n"
    )
}

const ALL: &str = "spf = \"mark\", dkim = \"mark\", dmarc = \"reject\", arc = \"mark\"";

fn host(site: u8, last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(203, 0, site, last))
}

/// A message by this author, with DKIM signatures whose keys have these names.
fn message(author: &str, keys: &[String]) -> String {
    let signature = |key: &String| {
        // The hash of an empty body.
        format!(
            "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=slow.test; s={key}; h=from;\r\n \
             bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=YQ==\r\n"
        )
    };
    let signatures: String = keys.iter().map(signature).collect();
    format!("{signatures}From: <{author}>\r\nSubject: one\r\n\r\n")
}

/// Ten keys that nobody answers for.
fn slow_keys(node: &Node, name: &str) -> Vec<String> {
    let keys: Vec<String> = (0..10).map(|n| format!("{name}k{n}")).collect();
    for key in &keys {
        node.world.set_silent(&format!("{key}._domainkey.slow.test"));
    }
    keys
}

/// The domain whose name a forger would like to have.
fn publish(node: &Node) {
    node.world.set_txt("bank.test", b"v=spf1 -all");
    node.world.set_txt("_dmarc.bank.test", b"v=DMARC1; p=reject");
}

/// Opens a message whose end has no reply yet.
async fn begin(node: &Node, from: IpAddr, content: &str) -> Client {
    begin_by(node, from, "a@evil.test", content).await
}

async fn begin_by(node: &Node, from: IpAddr, sender: &str, content: &str) -> Client {
    let mut client = Client::connect(node, from).await;
    let mail = format!("MAIL FROM:<{sender}>");
    for line in [&mail, "RCPT TO:<b@here.test>", "DATA"] {
        client.say(line).await;
    }
    client.write(&format!("{content}.\r\n")).await;
    client
}

async fn deliver(node: &Node, from: IpAddr, sender: &str, content: &str) -> String {
    Client::connect(node, from).await.send(sender, &["b@here.test"], content).await
}

#[test]
fn a_forger_cannot_make_the_authors_policy_wait_for_his_own_keys() {
    play(|| async {
        let node = Node::start(&config(ALL)).await;
        publish(&node);
        let keys = slow_keys(&node, "");
        let mut slow = Vec::new();
        for _ in 0..12 {
            slow.push(begin(&node, host(1, 1), &message("a@evil.test", &keys)).await);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        // With its own keys in the way of nothing but itself, and its SPF behind all the others'.
        let forged = message("ceo@bank.test", &[]);
        let reply = deliver(&node, host(1, 1), "a@evil.test", &forged).await;
        let rejected = "550 5.7.1 Rejected by the DMARC policy of bank.test";
        assert!(reply.starts_with(rejected), "{reply}");
        let forged = message("ceo@bank.test", &keys);
        let reply = deliver(&node, host(1, 1), "a@evil.test", &forged).await;
        assert!(reply.starts_with(rejected), "{reply}");
    });
}

#[test]
fn mail_of_others_does_not_wait_for_many_clients_slow_keys() {
    play(|| async {
        let node = Node::start(&config(ALL)).await;
        publish(&node);
        node.world.set_txt("good.test", b"v=spf1 ip4:203.0.200.1 -all");
        node.world.set_txt("_dmarc.good.test", b"v=DMARC1; p=reject");
        let keys = slow_keys(&node, "");
        let mut slow = Vec::new();
        for n in 0..72 {
            let from = host(1, n);
            slow.push(begin(&node, from, &message("a@evil.test", &keys)).await);
            // The first ones show that nobody answers there.
            if n == 30 {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(node.pressure("check_questions").is_some());
        let begun = node.age();
        let good = message("jo@good.test", &[]);
        let reply = deliver(&node, host(200, 1), "jo@good.test", &good).await;
        assert!(reply.starts_with("250"), "{reply}");
        let forged = message("ceo@bank.test", &[]);
        let reply = deliver(&node, host(201, 1), "a@evil.test", &forged).await;
        let rejected = "550 5.7.1 Rejected by the DMARC policy of bank.test";
        assert!(reply.starts_with(rejected), "{reply}");
        let took = node.age() - begun;
        assert!(took < Duration::from_secs(2), "{took:?}");
    });
}

#[test]
fn slow_zones_of_a_hundred_networks_keep_nobody_else_waiting() {
    play(|| async {
        let node = Node::start(&config(ALL)).await;
        node.world.set_txt("good.test", b"v=spf1 ip4:203.0.200.0/24 -all");
        node.world.set_txt("_dmarc.good.test", b"v=DMARC1; p=reject");
        let good = message("jo@good.test", &[]);
        let (mut slow, mut zones) = (Vec::new(), 0);
        // SPF and the author's policy of each are asked for, and a zone's silence is not known before.
        let mut press = async |count: u32| {
            for _ in 0..count {
                let sender = format!("a@d{zones}.test");
                node.world.set_silent(&format!("d{zones}.test"));
                node.world.set_silent(&format!("_dmarc.d{zones}.test"));
                let from = host(1, (zones % 100) as u8);
                slow.push(begin_by(&node, from, &sender, &message(&sender, &[])).await);
                zones += 1;
            }
        };
        press(300).await;
        let mut late = 0;
        for n in 0..100 {
            let begun = node.age();
            let reply = deliver(&node, host(200, n), "jo@good.test", &good).await;
            assert!(reply.starts_with("250"), "{reply}");
            late += usize::from(node.age() - begun > Duration::from_secs(2));
            press(5).await;
        }
        assert!(late <= 5, "{late} of 100 waited for more than two seconds");
        // What had to make way is put off.
        let reply = slow.swap_remove(0).reply().await;
        assert!(reply.starts_with("451 4.4.3"), "{reply}");
    });
}

#[test]
fn a_senders_spf_cannot_use_up_the_authors_questions() {
    play(|| async {
        let node = Node::start(&config(ALL)).await;
        publish(&node);
        // Ten terms of ten hosts each, as RFC 7208 allows.
        let terms: String = (0..10).map(|n| format!(" mx:m{n}.evil.test")).collect();
        node.world.set_txt("evil.test", format!("v=spf1{terms} -all").as_bytes());
        for n in 0..10 {
            let hosts = (0..10).map(|h| format!("h{h}.m{n}.evil.test"));
            let mx = hosts.clone().map(|host| Mx { preference: 1, host });
            node.world.set_mx(&format!("m{n}.evil.test"), Ok(mx.collect()));
            for host in hosts {
                node.world.set_addresses(&host, Ok(vec![IpAddr::from([192, 0, 2, 1])]));
            }
        }
        let forged = message("ceo@bank.test", &[]);
        let reply = deliver(&node, host(1, 1), "a@evil.test", &forged).await;
        let rejected = "550 5.7.1 Rejected by the DMARC policy of bank.test";
        assert!(reply.starts_with(rejected), "{reply}");
        // Of its own mail nobody knows more: its policy may have refused it.
        let own = message("a@evil.test", &[]);
        node.world.set_txt("_dmarc.evil.test", b"v=DMARC1; p=reject");
        let reply = deliver(&node, host(1, 1), "a@evil.test", &own).await;
        assert!(reply.starts_with("451 4.4.3"), "{reply}");
        node.world.set_txt("_dmarc.evil.test", b"v=DMARC1; p=none");
        let reply = deliver(&node, host(1, 1), "a@evil.test", &own).await;
        assert!(reply.starts_with("250"), "{reply}");
        let node = node.restart_with(&config("spf = \"reject\"")).await;
        let reply = deliver(&node, host(1, 1), "a@evil.test", &own).await;
        assert!(reply.starts_with("451 4.7.24"), "{reply}");
    });
}

#[test]
fn a_policy_that_our_limits_keep_from_being_found_is_taken_for_the_strictest() {
    play(|| async {
        let node = Node::start(&config(ALL)).await;
        node.world.set_silent("_dmarc.bank.test");
        let forged = message("ceo@bank.test", &[]);
        let begun = node.age();
        let reply = deliver(&node, host(1, 1), "a@evil.test", &forged).await;
        assert!(reply.starts_with("451 4.4.3"), "{reply}");
        let took = (node.age() - begun).as_secs();
        assert!((20..25).contains(&took), "{took}");
        // A policy that was found before another question got no answer counts.
        node.world.set_txt("_dmarc.sub.shop.test", b"v=DMARC1; p=reject");
        node.world.set_silent("_dmarc.shop.test");
        let forged = message("ceo@sub.shop.test", &[]);
        let reply = deliver(&node, host(1, 1), "a@evil.test", &forged).await;
        let rejected = "550 5.7.1 Rejected by the DMARC policy of sub.shop.test";
        assert!(reply.starts_with(rejected), "{reply}");
    });
}

#[test]
fn a_name_that_our_limits_keep_from_being_found_is_put_off() {
    play(|| async {
        let node = Node::start(&config("client_name = \"reject\"")).await;
        node.world.set_names(host(1, 1), None);
        let mut client = Client::connect(&node, host(1, 1)).await;
        let reply = client.say("MAIL FROM:<a@evil.test>").await;
        assert!(reply.starts_with("250"), "{reply}");
        let reply = client.say("RCPT TO:<b@here.test>").await;
        assert!(reply.starts_with("450 4.7.25"), "{reply}");
        // The silence of the DNS itself refuses nothing.
        let silent = Err(DnsError::Transient("SERVFAIL".into()));
        node.world.set_names(host(1, 2), Some(silent));
        let mut client = Client::connect(&node, host(1, 2)).await;
        client.say("MAIL FROM:<a@evil.test>").await;
        let reply = client.say("RCPT TO:<b@here.test>").await;
        assert!(reply.starts_with("250"), "{reply}");
    });
}

#[test]
fn a_remembered_answer_needs_no_place() {
    play(|| async {
        let node = Node::start(&config(ALL)).await;
        node.world.set_txt("good.test", b"v=spf1 ip4:203.0.1.1 -all");
        let keys = slow_keys(&node, "");
        let mut slow = Vec::new();
        for _ in 0..12 {
            slow.push(begin(&node, host(1, 1), &message("a@evil.test", &keys)).await);
        }
        // Before they are silent for so long that they make way.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let good = message("jo@good.test", &[]);
        for (is_remembered, millis) in [(true, 0..50), (false, 200..2_000)] {
            node.world.set_at_hand("good.test", is_remembered);
            let begun = node.age();
            let reply = deliver(&node, host(1, 1), "jo@good.test", &good).await;
            assert!(reply.starts_with("250"), "{reply}");
            let took = (node.age() - begun).as_millis();
            assert!(millis.contains(&took), "{is_remembered}: {took} ms");
        }
    });
}
