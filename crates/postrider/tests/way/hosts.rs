//! Next hops that the recipient's entry in a table names.

use super::client::{Client, FRIEND, submit};
use super::node::{Node, config, play, wait_until};
use super::peer::Peer;
use lookup::{LookupError, LookupErrorKind};
use mta::commands::{ControlRequest, QueueList};
use mta::control::{BlockerKind, Filter, QueueItem};
use std::time::Duration;

const ONE: &str = "192.0.2.1";
const TWO: &str = "192.0.2.2";

/// Backends by the `mailhost` of the recipient's entry; `give` says how long is tried.
fn backends(give: &str) -> String {
    config(&format!(
        "[[table]]\nname = \"users\"\nscripted = {{ fields = [\"mailhost\", \"uid\"] }}\n\
         [retry]\njitter = 0\n{give}\n[[route]]\nname = \"backends\"\ndomains = [\"ours.test\"]\n\
         recipients = {{ table = \"users\" }}\nlmtp = {{ hosts = [\"{{mailHost}}:2400\"] }}\n\
         [[route]]\nsmtp = {{ hosts = [\"192.0.2.9:25\"] }}"
    ))
}

/// A node with two backends.
async fn started() -> (Node, Peer, Peer) {
    started_with(&backends("")).await
}

/// The same over SMTP, where a message has one reply for all its recipients.
async fn started_with_smtp() -> (Node, Peer, Peer) {
    started_with(&backends("").replace("lmtp = ", "smtp = ")).await
}

async fn started_with(text: &str) -> (Node, Peer, Peer) {
    let node = Node::start(text).await;
    let peer = |ip: &str| Peer::at(&node.world, &format!("{ip}:2400"));
    let (one, two) = (peer(ONE), peer(TWO));
    (node, one, two)
}

fn put(node: &Node, user: &str, hosts: &[&str]) {
    node.world.set_values("users", &format!("{user}@ours.test"), &[("mailhost", hosts)]);
}

fn refused() -> LookupError {
    LookupError::new(LookupErrorKind::Unreachable, "connection refused")
}

/// Whom a peer took mail for.
fn taken(peer: &Peer) -> Vec<String> {
    peer.messages().into_iter().flat_map(|message| message.to).collect()
}

async fn listed(node: &Node) -> QueueItem {
    let request = ControlRequest::QueueList(QueueList { filter: Filter::default(), limit: 1 });
    let answer = node.ask(request).await.into_iter().flat_map(|part| part.items).next();
    answer.expect("a message is queued")
}

#[test]
fn each_recipient_goes_to_the_host_of_its_entry_and_those_of_one_host_together() {
    play(|| async {
        let (node, one, two) = started_with_smtp().await;
        let mut to = Vec::new();
        for n in 0..100 {
            put(&node, &format!("u{n}"), &[if n % 2 == 0 { ONE } else { TWO }]);
            to.push(format!("u{n}@ours.test"));
        }
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        let mut client = Client::connect(&node, FRIEND).await;
        node.world.set_table_delay(Some(Duration::from_millis(50)));
        let said = client.send("me@source.test", &to, "Subject: x\r\n\r\n").await;
        assert!(said.starts_with("250 "), "{said}");
        node.wait_for("relayed", 100).await;
        for (peer, rest) in [(&one, 0), (&two, 1)] {
            let mut taken = taken(peer);
            taken.sort();
            let mut wanted: Vec<_> =
                to.iter().skip(rest).step_by(2).map(|a| (*a).to_owned()).collect();
            wanted.sort();
            assert_eq!(taken, wanted);
            assert!(peer.messages().len() <= 2, "{} transactions", peer.messages().len());
        }
        let peers: Vec<_> = node.of("relayed").iter().map(|e| e["next_hop"].to_string()).collect();
        assert!(peers.iter().all(|peer| peer.contains(ONE) || peer.contains(TWO)), "{peers:?}");
    });
}

#[test]
fn who_was_moved_between_two_attempts_is_found_at_the_other_host() {
    play(|| async {
        let (node, one, two) = started().await;
        one.always("RCPT", "450 4.2.0 not now");
        put(&node, "jo", &[ONE]);
        submit(&node, "me@source.test", &["jo@ours.test"]).await;
        node.wait_for("deferred", 1).await;
        put(&node, "jo", &[TWO]);
        node.wait_for("delivered", 1).await;
        assert_eq!((taken(&one), taken(&two)), (vec![], vec!["jo@ours.test".to_owned()]));
        let delivered = node.of("delivered").remove(0);
        assert_eq!(delivered["attempts"], 2, "{delivered}");
    });
}

#[test]
fn who_was_moved_away_from_a_dead_host_does_not_wait_for_it() {
    play(|| async {
        let (node, one, two) = started().await;
        node.world.unserve(format!("{ONE}:2400").parse().expect("an address"));
        put(&node, "jo", &[ONE]);
        submit(&node, "me@source.test", &["jo@ours.test"]).await;
        node.wait_for("suspended", 1).await;
        let item = listed(&node).await;
        let (blocker, next_hop) = (&item.recipients[0].blocker, &item.recipients[0].next_hop);
        assert_eq!(blocker.kind, BlockerKind::Backoff);
        let hop = format!("lmtp:backends:{ONE}:2400");
        assert!(blocker.text.contains(&hop), "{}", blocker.text);
        assert_eq!(next_hop.as_deref(), Some(&*hop));
        put(&node, "jo", &[TWO]);
        let moved = node.age();
        node.wait_for("delivered", 1).await;
        let waited = node.age() - moved;
        assert!(waited < Duration::from_secs(400), "{waited:?}");
        assert_eq!((one.messages().len(), taken(&two).len()), (0, 1));
    });
}

#[test]
fn a_table_that_gives_no_answer_stops_its_domain_and_records_nothing() {
    play(|| async {
        let (node, one, _two) = started_with_smtp().await;
        for n in 0..100 {
            put(&node, &format!("u{n}"), &[ONE]);
        }
        let to: Vec<String> = (0..100).map(|n| format!("u{n}@ours.test")).collect();
        let to: Vec<&str> = to.iter().map(String::as_str).collect();
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@source.test>").await;
        for to in &to {
            client.say(&format!("RCPT TO:<{to}>")).await;
        }
        for to in &to {
            node.world.set_entry("users", to, Err(refused()));
        }
        client.content("Subject: x\r\n\r\n").await;
        node.wait_for("suspended", 1).await;
        let item = listed(&node).await;
        let blocker = &item.recipients[0].blocker;
        assert_eq!(blocker.kind, BlockerKind::Resolving);
        assert_eq!(
            blocker.text,
            "a next hop for ours.test; the lookup failed: no answer from table users: connection \
             refused"
        );
        let last = item.recipients[0].last_failure.as_deref().unwrap_or_default();
        assert!(last.contains("no answer from table users"), "{last}");
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!((node.count("deferred"), node.count("failed"), one.messages().len()), (0, 0, 0));
        for n in 0..100 {
            put(&node, &format!("u{n}"), &[ONE]);
        }
        node.wait_for("relayed", 100).await;
        assert_eq!(node.count("resumed"), 1);
        let attempts = &node.of("relayed")[0]["attempts"];
        assert_eq!(attempts, 1);
    });
}

#[test]
fn one_key_without_an_answer_stops_nobody_else() {
    play(|| async {
        let (node, one, _two) = started().await;
        put(&node, "jo", &[ONE]);
        put(&node, "ann", &[ONE]);
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@source.test>").await;
        client.say("RCPT TO:<jo@ours.test>").await;
        let odd = LookupError::new(LookupErrorKind::Key, "two entries");
        node.world.set_entry("users", "jo@ours.test", Err(odd));
        client.content("Subject: x\r\n\r\n").await;
        node.wait_for("deferred", 1).await;
        let deferred = node.of("deferred").remove(0);
        assert_eq!(
            (&deferred["status"], &deferred["recipient"]),
            (&"4.4.3".into(), &"jo@ours.test".into())
        );
        submit(&node, "me@source.test", &["ann@ours.test"]).await;
        node.wait_for("delivered", 1).await;
        assert_eq!(taken(&one), ["ann@ours.test"]);
        assert_eq!(node.count("suspended"), 0);
    });
}

#[test]
fn values_that_name_no_host_put_mail_off_until_they_do() {
    play(|| async {
        let (node, one, _two) = started().await;
        let long = "x".repeat(256);
        let long: [&str; 1] = [&long];
        let bad: [(&[&str], &str); 9] = [
            (&[], "the recipient's entry has no `mailHost`"),
            (&[""], "`mailHost` of the recipient's entry is empty"),
            (&["a b"], "space or control"),
            (&["a\0b"], "space or control"),
            (&["a..b"], "is not a host"),
            (&["b1:0"], "is not a port"),
            (&["/run/../etc"], "contains `.`"),
            (&long, "255 octets"),
            (&["a", "b c"], "space or control"),
        ];
        for (n, (hosts, told)) in bad.iter().enumerate() {
            node.world.set_values("users", "jo@ours.test", &[("mailhost", hosts), ("uid", &["1"])]);
            submit(&node, "me@source.test", &["jo@ours.test"]).await;
            node.wait_for("deferred", n + 1).await;
            let deferred = node.of("deferred").pop().expect("one");
            assert_eq!(deferred["status"], "4.3.5", "{deferred}");
            let reason = deferred["reason"].to_string();
            assert!(reason.contains(told), "{hosts:?}: {reason}");
            assert!(reason.contains("(table users, key jo@ours.test)"), "{reason}");
            put(&node, "jo", &[ONE]);
            node.wait_for("delivered", n + 1).await;
        }
        assert_eq!((taken(&one).len(), node.count("failed")), (bad.len(), 0));
    });
}

#[test]
fn mail_for_who_is_no_longer_in_the_table_is_returned() {
    play(|| async {
        let (node, one, _two) = started().await;
        let back = Peer::at(&node.world, "192.0.2.9:25");
        one.always("RCPT", "450 4.2.0 not now");
        put(&node, "jo", &[ONE]);
        submit(&node, "me@source.test", &["jo@ours.test"]).await;
        node.wait_for("deferred", 1).await;
        node.world.remove_entry("users", "jo@ours.test");
        node.wait_for("failed", 1).await;
        let failed = node.of("failed").remove(0);
        assert_eq!(failed["status"], "5.1.1");
        wait_until("the report arrives", || back.messages().len() == 1).await;
        let report = &back.messages()[0].content;
        assert!(report.contains("jo@ours.test is no longer in table users"), "{report}");
        assert!(!report.contains("Remote-MTA"), "{report}");
    });
}

#[test]
fn a_report_names_the_host_that_refused() {
    play(|| async {
        let (node, _one, two) = started().await;
        let back = Peer::at(&node.world, "192.0.2.9:25");
        node.world.set_addresses("two.test", Ok(vec![TWO.parse().expect("an address")]));
        two.always("RCPT", "550 5.1.1 nobody of that name");
        put(&node, "jo", &["two.test"]);
        submit(&node, "me@source.test", &["jo@ours.test"]).await;
        wait_until("the report arrives", || back.messages().len() == 1).await;
        let report = &back.messages()[0].content;
        assert!(report.contains("Remote-MTA: dns; two.test\r\n"), "{report}");
    });
}

#[test]
fn several_values_are_several_hosts() {
    play(|| async {
        let text = backends("").replace(":2400\"]", ":2400\"], balance = \"failover\"");
        let node = Node::start(&text).await;
        let two = Peer::at(&node.world, &format!("{TWO}:2400"));
        put(&node, "jo", &[ONE, TWO]);
        submit(&node, "me@source.test", &["jo@ours.test"]).await;
        node.wait_for("delivered", 1).await;
        assert_eq!(taken(&two), ["jo@ours.test"]);
    });
}

#[test]
fn a_restart_and_a_reload_ask_anew() {
    play(|| async {
        let (node, one, _two) = started().await;
        one.always("RCPT", "450 4.2.0 not now");
        put(&node, "jo", &[ONE]);
        submit(&node, "me@source.test", &["jo@ours.test"]).await;
        node.wait_for("deferred", 1).await;
        let node = node.restart().await;
        let two = Peer::at(&node.world, &format!("{TWO}:2400"));
        put(&node, "jo", &[TWO]);
        node.wait_for("delivered", 1).await;
        assert_eq!(taken(&two), ["jo@ours.test"]);
        // A route of whose recipients nothing is asked any more, while one waits behind a dead host.
        put(&node, "jo", &["192.0.2.3"]);
        submit(&node, "me@source.test", &["jo@ours.test"]).await;
        node.wait_for("suspended", 1).await;
        node.reload(&backends("").replace("{mailHost}", TWO));
        node.wait_for("delivered", 2).await;
        // And back.
        node.reload(&backends(""));
        put(&node, "jo", &[TWO]);
        submit(&node, "me@source.test", &["jo@ours.test"]).await;
        node.wait_for("delivered", 3).await;
        assert_eq!(taken(&two).len(), 3);
    });
}

#[test]
fn the_text_of_an_entry_without_values_is_a_host() {
    play(|| async {
        let text = backends("")
            .replace("scripted = { fields = [\"mailhost\", \"uid\"] }", "inline = {}")
            .replace("{mailHost}", "{value}");
        let node = Node::start(&text).await;
        let two = Peer::at(&node.world, "192.0.2.2:24");
        node.world.set_entry("users", "@ours.test", Ok("192.0.2.2:24"));
        submit(&node, "me@source.test", &["jo@ours.test"]).await;
        node.wait_for("delivered", 1).await;
        assert_eq!(taken(&two), ["jo@ours.test"]);
    });
}
