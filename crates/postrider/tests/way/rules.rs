//! Rules of shaping: what a provider says changes how mail goes to it, for a while.

use super::client::{Client, FRIEND, submit};
use super::node::{Node, config, play, wait_until};
use super::peer::Peer;
use mail::Wall;
use mta::commands::{ControlRequest, QueueWhy};
use mta::control::{Lift, QueueRecipient};
use mta::seams::{Mx, Time as _, World as _};
use std::time::Duration;
use tokio::time::Instant;

const BIG: &str = "[provider.big]\nmx = [\"*.big.test\"]\nmax_connections = 20\n\
                   backoff = { max_connections = 1, rate = [\"6/m\"] }\n[[provider.big.rule]]\nname = \"slow\"\n";

/// `mx` routes with a provider and this rule of it.
fn ruled(rule: &str) -> String {
    shaped(&format!("{BIG}{rule}"), "")
}

fn shaped(shaping: &str, more: &str) -> String {
    let routes = format!("{more}[retry]\njitter = 0\nfirst = \"5m\"\n[[route]]\nmx = {{}}");
    let text = config(&routes);
    let steered = text.replace(
        "relay_from = [\"198.51.100.0/24\"]",
        "relay_from = [\"198.51.100.0/24\"]\nsteering_from = [\"198.51.100.0/24\"]",
    );
    format!(
        "shaping = [\'\'\'{shaping}\'\'\']\n{steered}\n[steering]\ntenant = \"X-Tenant\"\ncampaign = \"X-Campaign\"\n"
    )
}

/// `domain` has one MX host, at 192.0.2.`last`.
fn host(node: &Node, domain: &str, host: &str, last: u8) -> Peer {
    node.world.set_mx(domain, Ok(vec![Mx { preference: 10, host: host.to_owned() }]));
    let address = format!("192.0.2.{last}");
    node.world.set_addresses(host, Ok(vec![address.parse().expect("an address")]));
    Peer::at(&node.world, &format!("{address}:25"))
}

async fn send(node: &Node, to: &str, fields: &str) {
    let mut client = Client::connect(node, FRIEND).await;
    let content = format!("{fields}Subject: one\r\n\r\nbody\r\n");
    let reply = client.send("me@source.test", &[to], &content).await;
    assert!(reply.starts_with("250 "), "{reply}");
    client.say("QUIT").await;
}

async fn why(node: &Node) -> QueueRecipient {
    let id = node.last_id();
    let parts = node.ask(ControlRequest::QueueWhy(QueueWhy { id })).await;
    let mut items = parts.into_iter().flat_map(|part| part.items);
    items.next().expect("it is queued").recipients.remove(0)
}

/// How long it takes until so many more are relayed, in seconds.
async fn seconds(node: &Node, domain: &str, count: usize) -> u64 {
    let (begun, before) = (Instant::now(), node.count("relayed"));
    for n in 0..count {
        submit(node, "me@source.test", &[&format!("{n}@{domain}")]).await;
    }
    node.wait_for("relayed", before + count).await;
    begun.elapsed().as_secs()
}

const SLOW: &str =
    "match = \"slow down\"\nafter = \"2 in 10m\"\naction = \"backoff\"\nlasts = \"20m\"\n";

#[test]
fn a_provider_that_says_so_is_sent_to_slowly_and_then_in_steps_as_before() {
    play(|| async {
        let node = Node::start(&ruled(SLOW)).await;
        let (a, b) =
            (host(&node, "a.test", "mx1.big.test", 1), host(&node, "b.test", "mx2.big.test", 2));
        let _other = host(&node, "c.test", "mx.other.test", 3);
        assert!(seconds(&node, "a.test", 5).await < 1);
        a.once("RCPT", "450 4.7.1 Slow down");
        submit(&node, "me@source.test", &["x@a.test"]).await;
        node.wait_for("deferred", 1).await;
        assert!(seconds(&node, "a.test", 3).await < 1, "once is not enough");
        b.once("RCPT", "450 4.7.1 slow\u{9}down");
        submit(&node, "me@source.test", &["x@b.test"]).await;
        node.wait_for("shaped", 1).await;
        let begun = Instant::now();
        let shaped = &node.of("shaped")[0];
        assert_eq!(
            (&shaped["rule"], &shaped["action"], &shaped["provider"], &shaped["step"]),
            (&"slow".into(), &"backoff".into(), &"big".into(), &1.into())
        );
        assert_eq!(
            (&shaped["place"], &shaped["reply"]),
            (&"shaping.toml:5".into(), &"450 4.7.1 slow down".into())
        );
        assert_eq!(node.metrics.shaping_effects_begun[config::shaping::Action::Backoff].get(), 1);
        // All of the provider's hosts together, and nobody else's. The first waits for no token.
        let took = seconds(&node, "a.test", 6).await + seconds(&node, "b.test", 6).await;
        assert!((100..=125).contains(&took), "{took} s");
        assert!(seconds(&node, "c.test", 9).await < 1);
        // A quarter of the way: 4 times 6 a minute, for there is no other rate.
        tokio::time::sleep(Duration::from_secs(1_201).saturating_sub(begun.elapsed())).await;
        let took = seconds(&node, "a.test", 13).await;
        assert!((27..=33).contains(&took), "{took} s");
        node.wait_for("unshaped", 1).await;
        let over = begun.elapsed().as_secs();
        assert!(
            (2_098..2_103).contains(&over),
            "20 minutes and three quarters of that, not {over} s"
        );
        assert_eq!(node.of("unshaped")[0]["why"], "time");
        assert!(seconds(&node, "a.test", 20).await < 1);
        assert_eq!(node.metrics.shaping_effects.get(), 0);
        let lines = node.lines();
        assert!(
            lines.iter().any(|line| line.contains("shaping: backoff for provider big until ")),
            "{lines:#?}"
        );
    });
}

#[test]
fn who_waits_is_told_the_rule_its_line_the_words_and_the_end() {
    play(|| async {
        let node = Node::start(&ruled(&SLOW.replace("after = \"2 in 10m\"\n", ""))).await;
        let peer = host(&node, "a.test", "mx.big.test", 1);
        peer.once("MAIL", "421 4.7.28 slow down");
        submit(&node, "me@source.test", &["x@a.test"]).await;
        node.wait_for("shaped", 1).await;
        for n in 0..5 {
            submit(&node, "me@source.test", &[&format!("{n}@a.test")]).await;
        }
        tokio::time::sleep(Duration::from_secs(8)).await;
        let told = why(&node).await.blocker.text;
        let until = node.of("shaped")[0]["until"].as_str().expect("a time").to_owned();
        for part in [
            "rule slow (shaping.toml:5)",
            "provider big",
            "backoff by rule slow (shaping.toml:5), because mx.big.test[192.0.2.1]:25 replied: 421 4.7.28 slow down",
            &format!("limits return from {until} to "),
        ] {
            assert!(told.contains(part), "{part}\n{told}");
        }
        // Lifted, all goes as before.
        assert_eq!(node.shared.rules.lift(&Lift::default()), 1);
        node.wait_for("unshaped", 1).await;
        assert_eq!(node.of("unshaped")[0]["why"], "lifted");
        let begun = Instant::now();
        node.wait_for("relayed", 5).await;
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    });
}

#[test]
fn what_comes_again_lasts_longer_and_deliveries_end_it() {
    play(|| async {
        let rule = "class = \"rate_limited\"\naction = { set = { recipients_per_message = 1, rate = [\"1/s\"] } }\n\
                    lasts = \"10m\"\nuntil_delivered = 4\n";
        let node = Node::start(&ruled(rule)).await;
        let peer = host(&node, "a.test", "mx.big.test", 1);
        let until = |node: &Node| node.of("shaped").last().map(|event| event["step"].clone());
        for (step, waits) in [(1, 0), (2, 900)] {
            tokio::time::sleep(Duration::from_secs(waits)).await;
            peer.once("RCPT", "452 4.7.0 too many messages, slow down");
            submit(&node, "me@source.test", &["x@a.test"]).await;
            node.wait_for("shaped", step).await;
            assert_eq!(until(&node), Some(step.into()));
        }
        peer.heal();
        submit(&node, "me@source.test", &["1@a.test", "2@a.test", "3@a.test", "4@a.test"]).await;
        node.wait_for("unshaped", 1).await;
        assert_eq!(node.of("unshaped").last().expect("one")["why"], "delivered");
        let alone = peer.messages().into_iter().filter(|sent| sent.to.len() == 1).count();
        assert!(alone >= 4, "{alone}");
        submit(&node, "me@source.test", &["5@a.test", "6@a.test"]).await;
        wait_until("they go together", || peer.messages().iter().any(|sent| sent.to.len() == 2))
            .await;
    });
}

#[test]
fn our_own_failures_and_the_network_s_are_heard_by_no_rule() {
    play(|| async {
        let node =
            Node::start(&ruled("match = \"refused|timed|slow|lost\"\naction = \"suspend\"\n"))
                .await;
        let peer = host(&node, "a.test", "mx.big.test", 1);
        peer.once("RCPT", "hang up").once("MAIL", "hang up");
        submit(&node, "me@source.test", &["x@a.test"]).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        node.world.unserve("192.0.2.1:25".parse().expect("an address"));
        submit(&node, "me@source.test", &["y@a.test"]).await;
        node.wait_for("suspended", 1).await;
        // Words that no rule waits for, and words to whom no rule is.
        let other = host(&node, "c.test", "mx.other.test", 3);
        other.always("RCPT", "450 4.7.1 slow down");
        submit(&node, "me@source.test", &["x@c.test"]).await;
        let is_there = || node.of("deferred").iter().any(|event| event["recipient"] == "x@c.test");
        wait_until("it is deferred", is_there).await;
        assert_eq!(node.count("shaped"), 0);
    });
}

#[test]
fn a_refusal_at_the_greeting_is_heard_and_stops_the_provider_for_its_time() {
    play(|| async {
        let node = Node::start(&ruled(
            "match = \"^554 .*blocked\"\naction = \"suspend\"\nlasts = \"1h\"\n",
        ))
        .await;
        let peer = host(&node, "a.test", "mx1.big.test", 1);
        let other = host(&node, "b.test", "mx2.big.test", 2);
        peer.once("CONNECT", "554 5.7.1 192.0.2.250 is blocked");
        submit(&node, "me@source.test", &["x@a.test"]).await;
        node.wait_for("shaped", 1).await;
        let begun = Instant::now();
        for to in ["y@b.test", "z@a.test"] {
            submit(&node, "me@source.test", &[to]).await;
        }
        tokio::time::sleep(Duration::from_secs(3_000)).await;
        assert!(peer.messages().is_empty() && other.messages().is_empty());
        let told = why(&node).await;
        for part in [
            "provider big",
            "rule slow (shaping.toml:5)",
            "replied: 554 5.7.1 192.0.2.250 is blocked",
        ] {
            assert!(told.blocker.text.contains(part), "{part}\n{}", told.blocker.text);
        }
        assert!(told.blocker.until.is_some());
        // None of it was returned, though 554 at the greeting says that there is no mail service.
        node.wait_for("relayed", 3).await;
        let waited = begun.elapsed().as_secs();
        assert!((3_595..3_700).contains(&waited), "{waited} s");
        assert_eq!((peer.messages().len(), other.messages().len()), (2, 1));
    });
}

/// Two sources in a pool.
const POOL: &str = "[[source]]\nname = \"ip-1\"\naddress = \"192.0.2.11\"\n\
                    [[source]]\nname = \"ip-2\"\naddress = \"192.0.2.12\"\n\
                    [[pool]]\nname = \"bulk\"\nsources = [{ name = \"ip-1\" }, { name = \"ip-2\" }]\n";

#[test]
fn mail_of_a_source_that_is_stopped_goes_from_others_unless_all_are() {
    play(|| async {
        let rule = "match = \"blocked\"\naction = \"suspend\"\nlasts = \"1h\"\n";
        for scope in ["", "scope = \"provider\"\n"] {
            let text = shaped(&format!("{BIG}{rule}{scope}"), POOL)
                .replace("mx = {}", "pool = \"bulk\"\nmx = {}");
            let node = Node::start(&text).await;
            let peer = host(&node, "a.test", "mx.big.test", 1);
            peer.once("MAIL", "450 4.7.1 blocked");
            submit(&node, "me@source.test", &["x@a.test"]).await;
            node.wait_for("shaped", 1).await;
            let shaped = node.of("shaped").remove(0);
            let (before, begun) = (node.count("relayed"), Instant::now());
            for n in 0..40 {
                submit(&node, "me@source.test", &[&format!("{n}@a.test")]).await;
            }
            node.wait_for("relayed", before + 40).await;
            if scope.is_empty() {
                assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
                let stopped = shaped["source"].as_str().expect("a source");
                let sources = node.of("relayed").into_iter().map(|event| event["source"].clone());
                assert!(sources.into_iter().all(|source| source != *stopped));
            } else {
                assert!(begun.elapsed() >= Duration::from_secs(3_590), "{:?}", begun.elapsed());
                assert!(shaped["source"].is_null());
            }
        }
    });
}

#[test]
fn a_tenant_or_a_campaign_is_stopped_for_that_provider_alone() {
    play(|| async {
        for (action, field, value, other) in [
            ("suspend_tenant", "X-Tenant", "acme", "X-Tenant: zen\r\n"),
            ("suspend_campaign", "X-Campaign", "spring", ""),
        ] {
            let node = Node::start(&ruled(&format!(
                "kind = \"block\"\naction = \"{action}\"\nlasts = \"1h\"\n"
            )))
            .await;
            let peer = host(&node, "a.test", "mx.big.test", 1);
            let elsewhere = host(&node, "c.test", "mx.other.test", 3);
            let mine = format!("{field}: {value}\r\n");
            peer.once(".", "554 5.7.1 this looks like spam");
            // Nobody's: no rule is about it.
            send(&node, "0@a.test", "").await;
            node.wait_for("failed", 1).await;
            assert_eq!(node.count("shaped"), 0);
            peer.once(".", "554 5.7.1 this looks like spam");
            send(&node, "1@a.test", &mine).await;
            node.wait_for("shaped", 1).await;
            let key = field.trim_start_matches("X-").to_lowercase();
            assert_eq!(node.of("shaped")[0][&key], value);
            send(&node, "2@a.test", &mine).await;
            send(&node, "3@c.test", &mine).await;
            send(&node, "4@a.test", other).await;
            wait_until("others go", || {
                !elsewhere.messages().is_empty() && !peer.messages().is_empty()
            })
            .await;
            tokio::time::sleep(Duration::from_secs(600)).await;
            let to: Vec<String> = peer.messages().into_iter().flat_map(|sent| sent.to).collect();
            assert_eq!(to, ["4@a.test"]);
            // A domain of the provider's that was not known before.
            let late = host(&node, "b.test", "mx2.big.test", 2);
            send(&node, "5@b.test", &mine).await;
            tokio::time::sleep(Duration::from_secs(600)).await;
            assert!(late.messages().is_empty());
            let told = why(&node).await.blocker.text;
            assert!(
                told.contains(&format!("{key} {value}")) && told.contains("shaping.toml:5"),
                "{told}"
            );
            wait_until("it is over", || late.messages().len() + peer.messages().len() == 3).await;
        }
    });
}

#[test]
fn what_is_stopped_until_a_time_waits_for_it_by_a_clock_that_is_set_back() {
    play(|| async {
        for stopped_by in ["suspend", "suspend_tenant", "an operator"] {
            let is_operators = stopped_by == "an operator";
            let action = if is_operators { "suspend" } else { stopped_by };
            let rule = format!("match = \"stop\"\naction = \"{action}\"\nlasts = \"4m\"\n");
            let node = Node::start(&ruled(&rule)).await;
            let peer = host(&node, "a.test", "mx.big.test", 1);
            let mine = "X-Tenant: acme\r\n";
            if is_operators {
                let until = Wall(node.world.time().wall().0 + 240_000);
                node.suspend_until(&[r#"{"domain":"a.test"}"#], Some(until));
            } else {
                peer.once("RCPT", "450 4.7.1 stop");
                send(&node, "1@a.test", mine).await;
                node.wait_for("shaped", 1).await;
            }
            send(&node, "2@a.test", mine).await;
            // Where its hosts are is known longer than that: nobody asks, and thereby learns of it.
            tokio::time::sleep(Duration::from_secs(120)).await;
            node.world.set_clock_back(50);
            tokio::time::sleep(Duration::from_secs(160)).await;
            assert!(peer.messages().is_empty(), "{stopped_by}: 50 seconds too soon");
            let until = why(&node).await.blocker.until.expect("it ends by itself");
            let left_ms = until.0 - node.world.time().wall().0;
            assert!(left_ms <= 10_000, "{stopped_by}: {left_ms} ms");
            tokio::time::sleep(Duration::from_secs(12)).await;
            assert_eq!(peer.messages().len(), 1, "{stopped_by}: its time is over");
        }
    });
}

#[test]
fn a_campaign_is_given_up_for_the_provider_with_what_still_comes() {
    play(|| async {
        let rule = "match = \"phishing\"\naction = \"fail_campaign\"\nlasts = \"1h\"\n";
        let node = Node::start(&ruled(rule)).await;
        let peer = host(&node, "a.test", "mx.big.test", 1);
        let elsewhere = host(&node, "c.test", "mx.other.test", 3);
        let mine = "X-Campaign: spring\r\n";
        // What waits for its next try is given up as well.
        peer.once("RCPT", "450 4.2.1 later");
        send(&node, "0@a.test", mine).await;
        node.wait_for("deferred", 1).await;
        peer.once(".", "554 5.7.1 phishing");
        send(&node, "1@a.test", mine).await;
        node.wait_for("shaped", 1).await;
        let failed =
            |to: &str| node.of("failed").into_iter().find(|event| event["recipient"] == *to);
        wait_until("it is given up", || failed("0@a.test").is_some()).await;
        let given_up = failed("0@a.test").expect("it is");
        assert_eq!((&given_up["status"], &given_up["culprit"]), (&"5.7.1".into(), &"local".into()));
        let reason = given_up["reason"].as_str().expect("a reason");
        assert!(
            reason.starts_with("campaign spring failed for big by rule slow (shaping.toml:5)"),
            "{reason}"
        );
        send(&node, "2@a.test", mine).await;
        send(&node, "3@a.test", "").await;
        send(&node, "4@c.test", mine).await;
        wait_until("it is given up, too", || failed("2@a.test").is_some()).await;
        wait_until("others go", || peer.messages().len() == 1 && elsewhere.messages().len() == 1)
            .await;
        tokio::time::sleep(Duration::from_secs(3_601)).await;
        send(&node, "5@a.test", mine).await;
        wait_until("it may again", || peer.messages().len() == 2).await;
        assert_eq!(node.count("unshaped"), 1);
    });
}

#[test]
fn who_has_no_provider_has_rules_for_each_next_hop() {
    play(|| async {
        let text = "[default]\nbackoff = { rate = [\"6/m\"] }\n[[default.rule]]\nname = \"slow\"\n\
                    match = \"slow down\"\naction = \"backoff\"\nlasts = \"10m\"\n";
        let node = Node::start(&shaped(text, "")).await;
        let a = host(&node, "a.test", "mx.a.test", 1);
        let _b = host(&node, "b.test", "mx.b.test", 2);
        a.once("RCPT", "450 4.7.1 slow down");
        submit(&node, "me@source.test", &["x@a.test"]).await;
        node.wait_for("shaped", 1).await;
        let next_hop = node.of("shaped")[0]["next_hop"].clone();
        assert!(next_hop.as_str().is_some_and(|hop| hop.ends_with(":mx.a.test:25")), "{next_hop}");
        assert!(seconds(&node, "b.test", 9).await < 1);
        let took = seconds(&node, "a.test", 4).await;
        assert!((28..=42).contains(&took), "{took} s");
    });
}

#[test]
fn a_rule_that_a_reload_takes_away_ends_with_what_it_did() {
    play(|| async {
        let text = ruled("match = \"blocked\"\naction = \"suspend\"\nlasts = \"12h\"\n");
        let node = Node::start(&text).await;
        let peer = host(&node, "a.test", "mx.big.test", 1);
        peer.once("RCPT", "450 4.7.1 blocked");
        submit(&node, "me@source.test", &["x@a.test"]).await;
        node.wait_for("shaped", 1).await;
        submit(&node, "me@source.test", &["y@a.test"]).await;
        node.reload(&text);
        tokio::time::sleep(Duration::from_secs(900)).await;
        assert_eq!((peer.messages().len(), node.count("unshaped")), (0, 0), "it is the same");
        node.reload(&text.replace("\"suspend\"", "\"none\""));
        node.wait_for("relayed", 2).await;
        assert_eq!(node.of("unshaped")[0]["why"], "rule");
        assert!(node.age() < Duration::from_secs(3_600));
        peer.once("RCPT", "450 4.7.1 blocked");
        submit(&node, "me@source.test", &["z@a.test"]).await;
        node.wait_for("deferred", 2).await;
        assert_eq!(node.count("shaped"), 1);
    });
}

/// Rules of a provider with customers, as ours are.
const BANNED: &str = "status = [\"5.7.511\", \"5.7.606-649\"]\nafter = \"2 in 10m\"\naction = \"suspend\"\n\
                      lasts = \"4h\"\n[[provider.big.rule]]\nname = \"blocked\"\nmatch = \"s3140|blocklisted\"\n\
                      after = \"2 in 10m\"\naction = \"suspend\"\nlasts = \"4h\"\n";

#[test]
fn what_a_recipient_is_called_stops_no_provider() {
    play(|| async {
        let node = Node::start(&ruled(BANNED)).await;
        let peer = host(&node, "contoso.test", "mx1.big.test", 1);
        let _other = host(&node, "other.test", "mx2.big.test", 2);
        for name in ["5.7.606", "5.7.607", "s3140", "blocklisted"] {
            for words in ["@contoso.test not found", " not found", ": no such mailbox (#5.7.606)"] {
                peer.once("RCPT", &format!("550 5.1.10 RESOLVER.ADR; Recipient {name}{words}"));
                peer.once("RCPT", &format!("550 {name}{words}"));
                peer.once("RCPT", &format!("550 5.7.1 <{name}@contoso.test>: {name}{words}"));
                for _ in 0..3 {
                    submit(&node, "", &[&format!("{name}@contoso.test")]).await;
                }
            }
        }
        node.wait_for("failed", 36).await;
        assert_eq!(node.count("shaped"), 0, "{:#?}", node.of("shaped"));
        submit(&node, "me@source.test", &["x@other.test"]).await;
        node.wait_for("relayed", 1).await;
    });
}

#[test]
fn what_a_senders_name_or_a_status_in_words_says_stops_no_provider() {
    play(|| async {
        let node = Node::start(&ruled(BANNED)).await;
        let peer = host(&node, "contoso.test", "mx1.big.test", 1);
        peer.always("MAIL", "550 5.1.8 <s3140@source.test>: s3140 of 5.7.606 rejected");
        for _ in 0..3 {
            submit(&node, "s3140@source.test", &["x@contoso.test"]).await;
        }
        node.wait_for("failed", 3).await;
        assert_eq!(node.count("shaped"), 0, "{:#?}", node.of("shaped"));
    });
}

#[test]
fn what_a_customer_of_a_provider_says_stops_mail_for_that_customer_alone() {
    play(|| async {
        let node = Node::start(&ruled(BANNED)).await;
        let (a, b) =
            (host(&node, "a.test", "mx1.big.test", 1), host(&node, "b.test", "mx2.big.test", 2));
        let _c = host(&node, "c.test", "mx3.big.test", 3);
        for _ in 0..3 {
            a.once("MAIL", "550 5.7.606 our own words");
            submit(&node, "", &["x@a.test"]).await;
        }
        node.wait_for("shaped", 1).await;
        let shaped = &node.of("shaped")[0];
        assert_eq!(shaped["provider"], "big");
        assert!(shaped["next_hop"].as_str().is_some_and(|hop| hop.contains("mx1")), "{shaped}");
        submit(&node, "me@source.test", &["x@c.test"]).await;
        node.wait_for("relayed", 1).await;
        // Another domain's mail hears the same: it is the provider's word.
        b.once("MAIL", "550 5.7.606 banned");
        submit(&node, "", &["x@b.test"]).await;
        node.wait_for("shaped", 2).await;
        assert_eq!(node.of("shaped")[1]["next_hop"], serde_json::Value::Null);
        submit(&node, "me@source.test", &["x@c.test"]).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(node.count("relayed"), 1, "it waits");
    });
}

#[test]
fn what_a_recipient_is_called_has_no_class_however_it_is_repeated() {
    play(|| async {
        let node = Node::start(&ruled("class = \"reputation\"\naction = \"suspend\"\n")).await;
        let peer = host(&node, "contoso.test", "mx.big.test", 1);
        let replies = [
            "550 user spamhaus unknown",
            "550 spamhaus: no such user",
            "550-unknown user spamhaus\r\n550 contoso.test",
            "550 unknown user spamhaus.contoso.test",
            "550 unknown user, see http://a.test/?u=spamhaus%40contoso.test",
            "550 unknown user rfc822;spamhaus+40contoso.test",
            "550 unknown user (original spamhaus-list)",
        ];
        for (count, reply) in replies.iter().enumerate() {
            peer.once("RCPT", reply);
            let mut client = Client::connect(&node, FRIEND).await;
            client.say("MAIL FROM:<me@source.test> ENVID=spamhaus-1").await;
            let rcpt =
                "RCPT TO:<spamhaus@contoso.test> NOTIFY=NEVER ORCPT=rfc822;spamhaus-list@a.test";
            let taken = client.say(rcpt).await;
            assert!(taken.starts_with("250"), "{taken}");
            client.content("Subject: x\r\n\r\nx\r\n").await;
            node.wait_for("failed", count + 1).await;
            let failed = node.of("failed").pop().expect("an event");
            assert_eq!(
                (&failed["class"], &failed["kind"]),
                (&"unknown_recipient".into(), &"hard".into()),
                "{reply}"
            );
            // People get to see all of it.
            assert!(failed.to_string().contains("spamhaus"), "{failed}");
        }
        assert_eq!(node.count("shaped"), 0);
    });
}
