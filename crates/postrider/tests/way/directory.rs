//! Recipients, aliases and domains in tables.

mod tags;

use super::client::{Client, FRIEND, STRANGER, submit};
use super::node::{Node, config, play, wait_until};
use super::peer::Peer;
use super::world::{LISTS, TestWorld};
use lookup::{LookupError, LookupErrorKind};
use std::path::Path;
use std::time::Duration;

/// What tables say is scripted: see `TestWorld::set_entry`.
const TABLES: &str = "\
[[table]]\nname = \"users\"\ninline = {}\n\
[[table]]\nname = \"aliases\"\ninline = {}\n\
[[table]]\nname = \"domains\"\ninline = {}\n\
[retry]\njitter = 0\n\
[[route]]\ndomains = [\"ours.test\"]\nrecipients = { table = \"users\" }\n\
aliases = { table = \"aliases\" }\nmaildir = { path = \"/mail/{local}\" }\n\
[[route]]\ndomains = { table = \"domains\" }\nmaildir = { path = \"/hosted/{domain}/{local}\" }\n\
[[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }";

fn gone() -> LookupError {
    LookupError::new(LookupErrorKind::Unreachable, "connection refused")
}

fn entries(world: &TestWorld, table: &str, entries: &[(&str, &str)]) {
    for (key, text) in entries {
        world.set_entry(table, key, Ok(text));
    }
}

async fn rcpt(client: &mut Client, to: &str) -> String {
    client.say(&format!("RCPT TO:<{to}>")).await
}

async fn begin(node: &Node, from: std::net::IpAddr) -> Client {
    let mut client = Client::connect(node, from).await;
    client.say("MAIL FROM:<me@source.test>").await;
    client
}

/// Who got mail, by the local part of the mailbox.
fn delivered(node: &Node) -> Vec<String> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    node.world.mailboxes().keys().map(|path| name(path)).collect()
}

#[test]
fn recipients_are_those_that_a_table_has() {
    play(|| async {
        let node = Node::start(&config(TABLES)).await;
        entries(&node.world, "users", &[("jo@ours.test", "x")]);
        let mut client = begin(&node, STRANGER).await;
        for (to, reply) in [
            ("Jo@Ours.TEST", "250 2.1.5"),
            ("jo+news@ours.test", "250 2.1.5"),
            ("nobody@ours.test", "550 5.1.1"),
            ("postmaster", "250 2.1.5"),
        ] {
            let said = rcpt(&mut client, to).await;
            assert!(said.starts_with(reply), "{to}: {said}");
        }
        node.world.set_entry("users", "@ours.test", Ok("everybody"));
        let said = rcpt(&mut client, "nobody@ours.test").await;
        assert!(said.starts_with("250 "), "{said}");
    });
}

#[test]
fn a_table_that_gives_no_answer_puts_recipients_off() {
    play(|| async {
        let node = Node::start(&config(TABLES)).await;
        node.world.set_entry("users", "jo@ours.test", Err(gone()));
        node.world.set_entry("aliases", "ann@ours.test", Err(gone()));
        node.world.set_entry("domains", "hosted.test", Err(gone()));
        let mut client = begin(&node, STRANGER).await;
        for to in ["jo@ours.test", "ann@ours.test", "jo@hosted.test"] {
            let said = rcpt(&mut client, to).await;
            assert!(said.starts_with("451 4.4.3"), "{to}: {said}");
        }
        assert_eq!(node.count("received"), 0);
    });
}

#[test]
fn a_hundred_recipients_wait_for_a_slow_table_together() {
    play(|| async {
        let node = Node::start(&config(TABLES)).await;
        let mut commands = String::new();
        for n in 0..100 {
            node.world.set_entry("users", &format!("u{n}@ours.test"), Ok("x"));
            commands.push_str(&format!("RCPT TO:<u{n}@ours.test>\r\n"));
        }
        let mut client = begin(&node, FRIEND).await;
        node.world.set_table_delay(Some(Duration::from_millis(50)));
        let before = node.age();
        client.write(&commands).await;
        for n in 0..100 {
            let said = client.reply().await;
            assert!(said.starts_with("250 2.1.5"), "{n}: {said}");
        }
        // Two lookups each, as many at once as a session may have open.
        let took = node.age() - before;
        assert!(took < Duration::from_millis(1_000), "{took:?}");
    });
}

#[test]
fn an_alias_stands_for_all_whom_it_leads_to() {
    play(|| async {
        let node = Node::start(&config(TABLES)).await;
        let peer = Peer::at(&node.world, "192.0.2.1:25");
        entries(
            &node.world,
            "aliases",
            &[
                // A circle, a second way to one of them, one that is nobody, one elsewhere.
                ("team@ours.test", "sales@ours.test, jo@ours.test, gone@ours.test"),
                ("sales@ours.test", "ann@ours.test team@ours.test, jo@ours.test,far@away.test"),
                // Who is told of as well keeps a mailbox.
                ("ann@ours.test", "ann@ours.test, deputy@ours.test"),
                ("old@ours.test", "jo@ours.test"),
            ],
        );
        entries(
            &node.world,
            "users",
            &[("jo@ours.test", ""), ("ann@ours.test", ""), ("deputy@ours.test", "")],
        );
        let mut client = Client::connect(&node, STRANGER).await;
        let said = client.send("me@source.test", &["team@ours.test"], "Subject: x\r\n\r\n").await;
        assert!(said.starts_with("250 2.0.0"), "{said}");
        node.wait_for("delivered", 3).await;
        node.wait_for("relayed", 1).await;
        assert_eq!(delivered(&node), ["ann", "deputy", "jo"]);
        assert_eq!(peer.messages()[0].to, ["far@away.test"]);
        let said = node.lines().into_iter().find(|line| line.contains("an unknown recipient"));
        assert!(said.is_some_and(|line| line.contains("gone@ours.test")));
        submit(&node, "me@source.test", &["old+tag@ours.test"]).await;
        node.wait_for("delivered", 4).await;
        assert_eq!(delivered(&node), ["ann", "deputy", "jo"], "the tag is the user's");
    });
}

#[test]
fn a_domain_stands_for_another_and_for_whoever_is_not_named() {
    play(|| async {
        let node = Node::start(&config(TABLES)).await;
        entries(&node.world, "aliases", &[("@ours.test", "@hosted.test")]);
        entries(&node.world, "domains", &[("hosted.test", "")]);
        submit(&node, "me@source.test", &["jo@ours.test"]).await;
        node.wait_for("delivered", 1).await;
        let path = Path::new("/hosted/hosted.test/jo");
        assert!(node.world.mailboxes().contains_key(path), "{:?}", node.world.mailboxes());
    });
}

#[test]
fn members_without_a_domain_get_the_origin() {
    let origin = "{ table = \"aliases\", origin = \"away.test\" }";
    for (from, to, alias, member) in [
        // The alias's own domain, whichever route of this server has it.
        ("{ table = \"aliases\" }", "{ table = \"aliases\" }", "a@ours.test", "b@ours.test"),
        ("maildir = { path = \"/mail/{local}\" }", "mx = {}", "a@ours.test", "b@relay.test"),
        ("{ table = \"aliases\" }", origin, "a@ours.test", "b@away.test"),
        // Any domain: it is nobody's here.
        (
            "smtp = { hosts",
            "aliases = { table = \"aliases\" }\nsmtp = { hosts",
            "a@far.test",
            "b@relay.test",
        ),
    ] {
        play(|| async move {
            let text = TABLES.replacen(from, to, 1);
            let node = Node::start(&config(&text)).await;
            node.world.set_entry("aliases", alias, Ok("b"));
            node.world.set_entry("users", member, Ok(""));
            submit(&node, "me@source.test", &[alias]).await;
            let got = || {
                let events = node.of("received");
                events.first().map(|event| event["recipients"].to_string()).unwrap_or_default()
            };
            wait_until("it is accepted", || !got().is_empty()).await;
            assert!(got().contains(member), "{to} {alias}: {}", got());
        });
    }
}

#[test]
fn members_of_lists_tags_and_whole_domains_get_the_origin() {
    for (alias, entry, to, member) in [
        ("a@ours.test", ":include:/lists/staff", "a@ours.test", "b@ours.test"),
        ("@ours.test", "b", "nobody@ours.test", "b@ours.test"),
        ("a@ours.test", "b", "a+tag@ours.test", "b+tag@ours.test"),
    ] {
        play(|| async move {
            let node = start_with_lists().await;
            entries(&node.world, LISTS, &[("/lists/staff", "b")]);
            entries(&node.world, "aliases", &[(alias, entry)]);
            entries(&node.world, "users", &[("b@ours.test", "")]);
            submit(&node, "me@source.test", &[to]).await;
            node.wait_for("received", 1).await;
            let received = &node.of("received")[0]["recipients"];
            assert_eq!(received, &serde_json::json!([member]), "{alias} {entry}");
        });
    }
}

#[test]
fn aliases_that_explode_or_go_too_deep_or_lead_nowhere_are_put_off() {
    play(|| async {
        let node = Node::start(&config(TABLES)).await;
        let many = |count: usize| {
            (0..count).map(|n| format!("m{n}@away.test")).collect::<Vec<_>>().join(",")
        };
        let (most, more) = (many(20_000), many(20_001));
        entries(&node.world, "aliases", &[("most@ours.test", &most), ("more@ours.test", &more)]);
        for n in 0..51 {
            let (key, next) = (format!("d{n}@ours.test"), format!("d{}@ours.test", n + 1));
            node.world.set_entry("aliases", &key, Ok(&next));
        }
        node.world.set_entry("users", "d51@ours.test", Ok(""));
        entries(
            &node.world,
            "aliases",
            &[("pipe@ours.test", "\"|/bin/sh -c x\""), ("void@ours.test", "gone@ours.test")],
        );
        let mut client = begin(&node, FRIEND).await;
        for (to, reply) in [
            ("most@ours.test", "250 2.1.5"),
            ("more@ours.test", "451 4.3.5"),
            ("d1@ours.test", "250 2.1.5"),
            ("d0@ours.test", "451 4.3.5"),
            ("pipe@ours.test", "451 4.3.5"),
            ("void@ours.test", "550 5.1.1"),
        ] {
            let said = rcpt(&mut client, to).await;
            assert!(said.starts_with(reply), "{to}: {said}");
        }
    });
}

#[test]
fn whoever_stands_for_several_recipients_takes_one_slot_of_the_queue() {
    play(|| async {
        let node = Node::start(&config(TABLES)).await;
        entries(&node.world, "users", &[("admin@ours.test", "")]);
        for alias in ["abuse@ours.test", "noc@ours.test"] {
            node.world.set_entry("aliases", alias, Ok("admin@ours.test"));
        }
        let to = ["abuse@ours.test", "Abuse@ours.test", "aBuse@ours.test", "noc@ours.test"];
        submit(&node, "me@source.test", &to).await;
        node.wait_for("delivered", 1).await;
        assert_eq!(delivered(&node), ["admin"]);
        assert_eq!(node.shared.queue_slots.used(), 0);
    });
}

#[test]
fn recipients_beyond_what_a_message_may_have_are_for_another_transaction() {
    play(|| async {
        let node = Node::start(&config(TABLES)).await;
        let to: Vec<String> = [20_000, 20_000, 20_000, 5_534]
            .iter()
            .zip(0..)
            .map(|(count, list)| {
                let members = (0..*count).map(|n| format!("m{list}-{n}@away.test"));
                let (alias, members) = (format!("l{list}@ours.test"), members.collect::<Vec<_>>());
                node.world.set_entry("aliases", &alias, Ok(&members.join(",")));
                alias
            })
            .collect();
        node.world.set_entry("aliases", "two@ours.test", Ok("one@away.test,two@away.test"));
        let mut client = begin(&node, FRIEND).await;
        for to in to {
            assert!(rcpt(&mut client, &to).await.starts_with("250 "), "{to}");
        }
        let too_many = "452 4.5.3 Too many recipients";
        assert_eq!(rcpt(&mut client, "two@ours.test").await, too_many);
        let said = rcpt(&mut client, "last@away.test").await;
        assert!(said.starts_with("250 "), "the last that has room: {said}");
        // As often as clients like: it is no error of theirs.
        for n in 0..1_001 {
            assert_eq!(rcpt(&mut client, &format!("more{n}@away.test")).await, too_many);
        }
        let said = client.content("Subject: x\r\n\r\n").await;
        assert!(said.starts_with("250 2.0.0 Ok: queued"), "{said}");
        assert_eq!(node.shared.queue_slots.used(), 65_535);
        client.say("MAIL FROM:<me@source.test>").await;
        assert!(rcpt(&mut client, "two@ours.test").await.starts_with("250 "));
    });
}

/// A node whose aliases may name files below `/lists`.
async fn start_with_lists() -> Node {
    let allowed = "aliases = { table = \"aliases\" }\ninclude = [\"/lists\"]";
    let text = TABLES.replace("aliases = { table = \"aliases\" }", allowed);
    let node = Node::start(&config(&text)).await;
    for (alias, file) in [
        ("out", "/etc/passwd"),
        ("up", "/lists/../etc/passwd"),
        ("none", "/lists/none"),
        ("torn", "/lists/torn"),
        ("slow", "/lists/slow"),
        ("many", "/lists/many"),
        ("odd", "/lists/odd"),
        ("empty", "/lists/empty"),
        ("deep", "/lists/1"),
        ("flat", "/lists/2"),
    ] {
        let key = format!("{alias}@ours.test");
        node.world.set_entry("aliases", &key, Ok(&format!(":include:{file}")));
    }
    for user in ["boss", "jo", "ann"] {
        node.world.set_entry("users", &format!("{user}@ours.test"), Ok(""));
    }
    node
}

#[test]
fn aliases_name_files_with_addresses() {
    play(|| async {
        let node = start_with_lists().await;
        let staff = ":include:/lists/staff, boss@ours.test";
        entries(
            &node.world,
            "aliases",
            &[
                ("staff@ours.test", staff),
                ("more@ours.test", "staff@ours.test :include:/lists/more"),
            ],
        );
        // A circle, and one who is named twice.
        entries(
            &node.world,
            LISTS,
            &[
                ("/lists/staff", "jo@ours.test,:include:/lists/more"),
                ("/lists/more", "ann@ours.test, jo@ours.test,:include:/lists/staff"),
            ],
        );
        submit(&node, "me@source.test", &["more@ours.test"]).await;
        node.wait_for("delivered", 3).await;
        assert_eq!(delivered(&node), ["ann", "boss", "jo"]);
        // Without `include` there are no such files.
        node.reload(&config(TABLES));
        let mut client = begin(&node, FRIEND).await;
        let said = rcpt(&mut client, "staff@ours.test").await;
        assert!(said.starts_with("451 4.3.5"), "{said}");
    });
}

#[test]
fn files_that_are_not_allowed_or_not_right_put_recipients_off() {
    play(|| async {
        let node = start_with_lists().await;
        let many = (0..20_000).map(|n| format!("m{n}@away.test")).collect::<Vec<_>>().join(",");
        let wrong = LookupError::new(LookupErrorKind::Key, "byte 7 is not UTF-8");
        node.world.set_entry(LISTS, "/lists/torn", Err(wrong));
        node.world.set_entry(LISTS, "/lists/slow", Err(gone()));
        for (file, said) in [("many", &*many), ("odd", "|/bin/sh"), ("empty", "")] {
            node.world.set_entry(LISTS, &format!("/lists/{file}"), Ok(said));
        }
        for n in 1..50 {
            let next = format!(":include:/lists/{}", n + 1);
            node.world.set_entry(LISTS, &format!("/lists/{n}"), Ok(&next));
        }
        node.world.set_entry(LISTS, "/lists/50", Ok("jo@ours.test"));
        let mut client = begin(&node, FRIEND).await;
        for (to, reply) in [
            ("out", "451 4.3.5"),
            ("up", "451 4.3.5"),
            ("none", "451 4.3.5"),
            ("torn", "451 4.3.5"),
            ("odd", "451 4.3.5"),
            // One file and 20,000 addresses are one too many.
            ("many", "451 4.3.5"),
            ("deep", "451 4.3.5"),
            ("flat", "250 2.1.5"),
            ("slow", "451 4.4.3"),
            ("empty", "550 5.1.1"),
        ] {
            let said = rcpt(&mut client, &format!("{to}@ours.test")).await;
            assert!(said.starts_with(reply), "{to}: {said}");
        }
        let lines = node.lines();
        for wanted in [
            "out@ours.test expands to :include:/etc/passwd: it is outside the directories of",
            "torn@ours.test expands to :include:/lists/torn: byte 7 is not UTF-8",
            "none@ours.test expands to :include:/lists/none: file not found",
        ] {
            assert!(lines.iter().any(|line| line.contains(wanted)), "{wanted}: {lines:#?}");
        }
    });
}

#[test]
fn domains_are_those_that_a_table_has_at_rcpt_and_later() {
    play(|| async {
        let node = Node::start(&config(TABLES)).await;
        node.world.set_entry("domains", "hosted.test", Ok(""));
        let mut client = begin(&node, STRANGER).await;
        let said = rcpt(&mut client, "jo@hosted.test").await;
        assert!(said.starts_with("250 "), "{said}");
        let said = rcpt(&mut client, "jo@other.test").await;
        assert!(said.starts_with("550 5.7.1"), "{said}");
        node.world.set_table_delay(Some(Duration::from_secs(1)));
        client.content("Subject: x\r\n\r\n").await;
        node.wait_for("delivered", 1).await;
        assert!(node.world.mailboxes().contains_key(Path::new("/hosted/hosted.test/jo")));
    });
}

#[test]
fn queued_mail_waits_while_the_table_of_its_domain_gives_no_answer() {
    play(|| async {
        let node = Node::start(&config(TABLES)).await;
        node.world.set_entry("domains", "hosted.test", Ok(""));
        node.world.set_mailbox_failure(Some(std::io::ErrorKind::PermissionDenied));
        submit(&node, "me@source.test", &["jo@hosted.test"]).await;
        node.wait_for("deferred", 1).await;
        node.world.set_entry("domains", "hosted.test", Err(gone()));
        node.reload(&config(TABLES));
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!((node.count("delivered"), node.count("failed")), (0, 0));
        node.world.set_mailbox_failure(None);
        node.world.set_entry("domains", "hosted.test", Ok(""));
        node.wait_for("delivered", 1).await;
    });
}

/// Mail for ours.test stays here, and aliases lead to a next hop that may follow routes in addresses.
fn with_backend(keys: &str) -> String {
    let routes = TABLES.replace(
        "[[route]]\nsmtp",
        "[[route]]\ndomains = [\"backend.test\"]\nsmtp = { hosts = [\"192.0.2.1:25\"] }\n[[route]]\nsmtp",
    );
    let text = config(&routes);
    text.replacen("name = \"in\"\n", &format!("name = \"in\"\n{keys}\n"), 1)
}

#[test]
fn aliases_lead_strangers_nowhere_that_they_may_not_name() {
    play(|| async {
        let routed = "550 5.7.1 Source routing not supported";
        for (keys, from, refusals) in [
            ("", STRANGER, [routed; 2]),
            // An address that the client names itself is not its operator's alias.
            ("", FRIEND, ["250 ", routed]),
            ("allow_routed_recipients = true", STRANGER, ["250 "; 2]),
            ("allow_routed_recipients = true", FRIEND, ["250 "; 2]),
        ] {
            let node = Node::start(&with_backend(keys)).await;
            entries(
                &node.world,
                "aliases",
                &[
                    ("@ours.test", "@backend.test"),
                    ("many@ours.test", "jo%far.test@backend.test, al@backend.test"),
                ],
            );
            let mut client = begin(&node, from).await;
            for local in ["x%far.test", "far.test!x", "\"x@far.test\"", "\"x%far.test\"", "x%y%z"] {
                for (domain, refusal) in ["ours.test", "backend.test"].into_iter().zip(refusals) {
                    let reply = rcpt(&mut client, &format!("{local}@{domain}")).await;
                    assert!(reply.starts_with(refusal), "{local}@{domain}: {reply}");
                }
            }
            // The operator's own alias leads where it says.
            for local in ["jo", "many", "\"a b\""] {
                let reply = rcpt(&mut client, &format!("{local}@ours.test")).await;
                assert!(reply.starts_with("250 "), "{local}: {reply}");
            }
        }
    });
}

#[test]
fn recipients_go_before_the_alias_of_their_whole_domain() {
    play(|| async {
        let node = Node::start(&config(TABLES)).await;
        entries(&node.world, "users", &[("jo@ours.test", "x"), ("admin@ours.test", "x")]);
        entries(
            &node.world,
            "aliases",
            &[
                ("foo@ours.test", "jo@ours.test"),
                ("team@ours.test", "jo@ours.test, gone@ours.test"),
                ("@ours.test", "admin@ours.test"),
            ],
        );
        for (to, boxes) in [
            ("jo", &["jo"][..]),
            ("jo+shop", &["jo"]),
            ("foo", &["jo"]),
            ("foo+x", &["jo"]),
            ("admin", &["admin"]),
            ("nobody", &["admin"]),
            ("team", &["admin", "jo"]),
        ] {
            let before = node.world.mailboxes();
            submit(&node, "me@source.test", &[&format!("{to}@ours.test")]).await;
            node.wait_for("delivered", node.of("delivered").len().max(1)).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            let count = |path: &Path| before.get(path).map_or(0, Vec::len);
            let now = node.world.mailboxes();
            let got = now.iter().filter(|(path, messages)| messages.len() > count(path));
            let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
            let got: Vec<String> = got.map(|(path, _)| name(path)).collect();
            assert_eq!(got, boxes, "{to}");
        }
    });
}

#[test]
fn the_entry_that_lets_a_tagged_address_in_decides_the_mailbox() {
    play(|| async {
        let node = Node::start(&config(TABLES)).await;
        entries(
            &node.world,
            "users",
            &[("jo@ours.test", "x"), ("al@ours.test", "x"), ("al+own@ours.test", "x")],
        );
        for (to, mailbox) in [
            ("jo+shop", "jo"),
            ("JO+a+b", "jo"),
            ("jo+", "jo"),
            ("al+own", "al+own"),
            ("al+x", "al"),
        ] {
            let before = node.world.mailboxes();
            submit(&node, "me@source.test", &[&format!("{to}@ours.test")]).await;
            tokio::time::sleep(Duration::from_secs(5)).await;
            let path = Path::new("/mail").join(mailbox);
            let count = |boxes: &std::collections::BTreeMap<_, Vec<String>>| {
                boxes.get(&path).map_or(0, Vec::len)
            };
            assert_eq!(count(&node.world.mailboxes()), count(&before) + 1, "{to}");
        }
        // Where the whole domain is let in each address has its own.
        node.world.set_entry("users", "@ours.test", Ok("x"));
        submit(&node, "me@source.test", &["eve+tag@ours.test"]).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(node.world.mailboxes().contains_key(Path::new("/mail/eve+tag")));
    });
}

#[test]
fn members_of_a_list_are_paid_for_by_who_names_it() {
    play(|| async {
        let text = config(TABLES).replace("relay_from", "recipients_per_minute = 1000\nrelay_from");
        let node = Node::start(&text).await;
        let members: Vec<String> = (0..2_000).map(|n| format!("m{n}@far.test")).collect();
        entries(&node.world, "aliases", &[("all@ours.test", &members.join(" "))]);
        entries(&node.world, "users", &[("jo@ours.test", "x")]);
        let mut client = begin(&node, STRANGER).await;
        let before = node.age();
        assert!(rcpt(&mut client, "all@ours.test").await.starts_with("250"));
        // In pieces, between which others go first.
        assert!(node.age() - before >= Duration::from_millis(4), "{:?}", node.age() - before);
        let said = rcpt(&mut client, "all+1@ours.test").await;
        assert!(said.starts_with("450 4.7.1 Recipient rate limit exceeded"), "{said}");
        client.say("RSET").await;
        client.say("MAIL FROM:<me@source.test>").await;
        assert!(rcpt(&mut client, "jo@ours.test").await.starts_with("450 4.7.1"));
        // Another client's is remembered, and costs nothing.
        let other = std::net::IpAddr::from([203, 0, 113, 10]);
        let mut client = begin(&node, other).await;
        let before = node.age();
        assert!(rcpt(&mut client, "all@ours.test").await.starts_with("250"));
        assert_eq!(node.age(), before);
        // What its table says now counts at once.
        entries(&node.world, "aliases", &[("all@ours.test", "jo@ours.test")]);
        let mut friend = begin(&node, FRIEND).await;
        assert!(rcpt(&mut friend, "all@ours.test").await.starts_with("250"));
        assert!(friend.content("Subject: x\r\n\r\n").await.starts_with("250"));
        node.wait_for("delivered", 1).await;
        assert_eq!(delivered(&node), ["jo"]);
        // Two minutes later it is paid for.
        tokio::time::sleep(Duration::from_secs(121)).await;
        let mut client = begin(&node, STRANGER).await;
        assert!(rcpt(&mut client, "jo@ours.test").await.starts_with("250"));
    });
}
