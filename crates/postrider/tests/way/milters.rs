//! Filters that speak the milter protocol.

mod script;

use super::client::{Client, FRIEND, STRANGER};
use super::node::{Node, config, play};
use super::world::TestWorld;
use script::{ALL, FIELDS_UNANSWERED, LEADING_SPACE, SKIP, Script, packet};
use spool::memdisk::MemDisk;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

const ROUTES: &str = "[[route]]\ndomains = [\"ours.test\"]\nmaildir = { path = \"/mail/{local}\" }";
const CONTENT: &str = "From: a@b.test\r\nSubject: one\r\n\ttwo\r\n\r\nbody\r\n";
const FILTER: &str = "192.0.2.10:8891";

/// A node whose listener asks these milters.
async fn start(world: TestWorld, milters: &str, more: &str) -> Node {
    let text = config(&format!("milters = [{milters}]\n{more}\n{ROUTES}"));
    Node::start_on(world, Rc::new(MemDisk::new(1, 1 << 30)), &text).await
}

async fn filtered(on_failure: &str, actions: u32, protocol: u32) -> (Node, Script) {
    let world = TestWorld::new();
    let script = Script::at(&world, FILTER, actions, protocol);
    let milter = format!("{{ address = \"{FILTER}\", on_failure = \"{on_failure}\" }}");
    (start(world, &milter, "").await, script)
}

async fn send(client: &mut Client) -> String {
    client.send("me@source.test", &["you@ours.test"], CONTENT).await
}

/// What the mailbox got, without what this server adds in the end.
fn contents(node: &Node, local: &str) -> Vec<String> {
    let mailboxes = node.world.mailboxes();
    let messages = mailboxes.get(Path::new(&format!("/mail/{local}"))).cloned();
    messages.unwrap_or_default()
}

fn added(name: &str, value: &str) -> Vec<u8> {
    packet(b'h', format!("{name}\0{value}\0").as_bytes())
}

fn go_on() -> Vec<u8> {
    packet(b'c', b"")
}

#[test]
fn a_filter_is_told_all_it_wants_over_one_connection() {
    play(|| async {
        let (node, script) = filtered("tempfail", 0, LEADING_SPACE).await;
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@source.test> SIZE=77").await;
        client.say("RCPT TO:<nobody@ours.test>").await;
        client.say("RCPT TO:<you@ours.test>").await;
        let reply = client.content(CONTENT).await;
        assert!(reply.starts_with("250 2.0.0 Ok: queued"), "{reply}");
        assert_eq!(
            script.told(),
            [
                "C unknown 4\u{9c}@198.51.100.7".replace("4\u{9c}@", "4\u{fffd}@"),
                "H client.test".to_owned(),
                "M <me@source.test> SIZE=77".to_owned(),
                "R <nobody@ours.test>".to_owned(),
                "R <you@ours.test>".to_owned(),
                "T".to_owned(),
                "L From  a@b.test".to_owned(),
                "L Subject  one\n\ttwo".to_owned(),
                "N".to_owned(),
                "B".to_owned(),
                "E".to_owned(),
            ]
        );
        assert_eq!(*script.0.body.borrow(), b"body\r\n");
        for (name, value) in [
            ("j", "relay.test"),
            ("{daemon_name}", "in"),
            ("{client_addr}", "198.51.100.7"),
            ("{client_port}", "40000"),
            ("_", "unknown [198.51.100.7]"),
            ("{mail_addr}", "me@source.test"),
            ("{rcpt_addr}", "you@ours.test"),
        ] {
            assert_eq!(script.told_of(name).as_deref(), Some(value), "{name}");
        }
        let id = script.told_of("i").expect("an id");
        assert!(reply.ends_with(&id), "{reply} {id}");
        assert_eq!(script.told_of("{auth_authen}"), None);
        // The next message, and one that was given up.
        client.say("MAIL FROM:<>").await;
        client.say("RSET").await;
        send(&mut client).await;
        let told = script.told();
        assert_eq!(told[..3], ["M <>", "A", "M <me@source.test>"]);
        client.say("QUIT").await;
        node.wait_for("delivered", 3).await;
        assert_eq!(script.told(), ["Q"]);
        assert_eq!(script.0.connections.get(), 1);
        let mailbox = contents(&node, "you");
        assert!(mailbox[0].ends_with(&format!("\r\n{CONTENT}")), "{}", mailbox[0]);
    });
}

#[test]
fn what_was_not_asked_for_is_not_told() {
    play(|| async {
        // No connect, HELO, recipients, body, fields, DATA, end of header.
        let (node, script) =
            filtered("tempfail", 0, 0x1 | 0x2 | 0x8 | 0x10 | 0x20 | 0x40 | 0x200).await;
        let mut client = Client::connect(&node, FRIEND).await;
        send(&mut client).await;
        assert_eq!(script.told(), ["M <me@source.test>", "E"]);
        node.wait_for("delivered", 1).await;
    });
}

#[test]
fn verdicts_decide_at_each_moment() {
    play(|| async {
        let (node, script) = filtered("accept", ALL, SKIP).await;
        let reject = || vec![packet(b'r', b"")];
        let chosen = |text: &str| vec![packet(b'y', format!("{text}\0").as_bytes())];
        script.says(b'C', &chosen("554 5.7.1 not you"));
        let mut client = Client::open(&node, FRIEND);
        assert_eq!(client.reply().await, "554 5.7.1 relay.test not you");
        script.heal();
        script.says(b'H', &chosen("550 5.7.1 what a name"));
        let mut client = Client::connect(&node, FRIEND).await;
        let mail = "MAIL FROM:<me@source.test>";
        assert_eq!(client.say(mail).await, "550 5.7.1 what a name");
        script.heal();
        script.says(b'M', &[packet(b't', b"")]);
        let deferred = "451 4.7.1 Deferred by a mail filter; try again later";
        assert_eq!(client.say(mail).await, deferred);
        script.heal();
        client.say(mail).await;
        script.says(b'R', &chosen("550 5.1.1 nobody"));
        assert_eq!(client.say("RCPT TO:<a@ours.test>").await, "550 5.1.1 nobody");
        script.heal();
        assert_eq!(client.say("RCPT TO:<you@ours.test>").await, "250 2.1.5 Recipient ok");
        script.says(b'T', &reject());
        assert_eq!(client.say("DATA").await, "550 5.7.1 Rejected by a mail filter");
        for command in *b"LNBE" {
            script.heal();
            let mut client = Client::connect(&node, FRIEND).await;
            script.says(command, &chosen("550-5.7.1 no\r\n550 5.7.1 spam"));
            let reply = send(&mut client).await;
            assert_eq!(reply, "550-5.7.1 no 550 5.7.1 spam", "{command}");
            script.heal();
            script.says(command, &[packet(b'a', b"")]);
            assert!(send(&mut client).await.starts_with("250 2.0.0"));
            script.heal();
            script.says(command, &[packet(b'd', b"")]);
            assert_eq!(send(&mut client).await, "250 2.0.0 Ok: discarded");
        }
        script.heal();
        script.says(b'R', &[packet(b'd', b"")]);
        let mut client = Client::connect(&node, FRIEND).await;
        assert_eq!(send(&mut client).await, "250 2.0.0 Ok: discarded");
        script.heal();
        node.wait_for("delivered", 4).await;
        let discarded = node.of("discarded");
        assert_eq!(discarded.len(), 5);
        assert_eq!(discarded[0]["reason"], format!("discarded by milter {FILTER}"));
        assert_eq!(node.metrics.milter_discards.get(), 5);
        assert_eq!(node.metrics.milter_refusals.get(), 9);
        script.says(b'C', &[packet(b'a', b"")]);
        script.told();
        let mut client = Client::connect(&node, FRIEND).await;
        send(&mut client).await;
        assert_eq!(script.told().len(), 2, "connect and the farewell");
    });
}

#[test]
fn a_refusal_of_data_stands_until_the_transaction_ends() {
    play(|| async {
        let chosen = packet(b'y', b"550 5.7.1 spam\0");
        for (said, reply) in [
            (packet(b'r', b""), "550 5.7.1 Rejected by a mail filter"),
            (packet(b't', b""), "451 4.7.1 Deferred by a mail filter; try again later"),
            (chosen, "550 5.7.1 spam"),
        ] {
            let (node, script) = filtered("accept", ALL, 0).await;
            let mut client = Client::connect(&node, FRIEND).await;
            client.say("MAIL FROM:<me@source.test>").await;
            client.say("RCPT TO:<you@ours.test>").await;
            script.says(b'T', &[said]);
            assert_eq!(client.say("DATA").await, reply);
            // What it would say now is not asked: filters hear DATA once in a message.
            script.heal();
            assert_eq!(client.say("DATA").await, reply);
            assert_eq!(client.say("RCPT TO:<other@ours.test>").await, reply);
            assert_eq!(client.say("BDAT 4 LAST\r\nxy").await, reply);
            let told = script.told();
            assert_eq!(told.iter().filter(|told| *told == "T").count(), 1, "{told:?}");
            assert_eq!(node.count("received"), 0);
            let said = send(&mut client).await;
            assert!(said.starts_with("250 2.0.0 Ok: queued"), "{said}");
            assert_eq!(script.told()[..2], ["A", "M <me@source.test>"]);
        }
    });
}

#[test]
fn a_filter_that_has_taken_data_hears_of_no_second_one_and_of_no_recipient_behind_it() {
    play(|| async {
        let world = TestWorld::new();
        let first = Script::at(&world, FILTER, ALL, 0);
        let second = Script::at(&world, "192.0.2.11:8891", ALL, 0);
        let milters = format!("{{ address = \"{FILTER}\" }}, {{ address = \"192.0.2.11:8891\" }}");
        let node = start(world, &milters, "").await;
        let mut client = Client::connect(&node, FRIEND).await;
        client.say("MAIL FROM:<me@source.test>").await;
        client.say("RCPT TO:<you@ours.test>").await;
        second.says(b'T', &[packet(b't', b"")]);
        for _ in 0..2 {
            assert!(client.say("DATA").await.starts_with("451 4.7.1 Deferred by a mail filter"));
        }
        let said = client.say("RCPT TO:<other@ours.test>").await;
        assert!(said.starts_with("452 4.5.3 "), "for another transaction: {said}");
        let told = first.told();
        assert_eq!(told[told.len() - 2..], ["R <you@ours.test>", "T"]);
        second.heal();
        client.say("RSET").await;
        assert!(send(&mut client).await.starts_with("250 2.0.0 Ok: queued"));
        assert_eq!(first.told()[..2], ["A", "M <me@source.test>"]);
        node.wait_for("delivered", 1).await;
    });
}

#[test]
fn what_a_filter_changes_is_changed_and_the_next_one_sees_it() {
    play(|| async {
        let world = TestWorld::new();
        let first = Script::at(&world, FILTER, ALL, LEADING_SPACE);
        let second = Script::at(&world, "192.0.2.11:8891", 0, LEADING_SPACE | FIELDS_UNANSWERED);
        let milters = format!("{{ address = \"{FILTER}\" }}, {{ address = \"192.0.2.11:8891\" }}");
        let node = start(world, &milters, "").await;
        first.says(
            b'E',
            &[
                packet(b'i', b"\0\0\0\x01X-First\0 1\0"),
                packet(b'm', b"\0\0\0\x01subject\0 changed\n\tto this\0"),
                added("X-Last", " 2"),
                packet(b'b', b"another\nbody\r"),
                packet(b'p', b""),
                packet(b'b', b"\n.\r\n"),
                packet(b'+', b"<more@ours.test>\0"),
                packet(b'-', b"<you@ours.test>\0"),
                packet(b'e', b"<other@source.test>\0"),
                go_on(),
            ],
        );
        let mut client = Client::connect(&node, FRIEND).await;
        assert!(send(&mut client).await.starts_with("250 2.0.0 Ok: queued"));
        node.wait_for("delivered", 1).await;
        let told = second.told();
        let fields =
            ["L X-First  1", "L From  a@b.test", "L subject  changed\n\tto this", "L X-Last  2"];
        assert!(told.windows(4).any(|window| window == fields), "{told:?}");
        assert_eq!(*second.0.body.borrow(), b"another\r\nbody\r\n.\r\n");
        assert!(contents(&node, "you").is_empty());
        let got = contents(&node, "more").remove(0);
        let changed = "From: a@b.test\r\nsubject: changed\r\n\tto this\r\nX-Last: 2\r\n\r\n\
                       another\r\nbody\r\n.\r\n";
        assert!(got.ends_with(changed), "{got}");
        assert!(got.contains("X-First: 1\r\nReceived: "), "{got}");
        assert_eq!(node.of("received")[0]["sender"], "other@source.test");
        assert_eq!(node.metrics.milter_rewrites.get(), 1);
        // In front alone: the content is what it was.
        first
            .says(b'E', &[packet(b'i', b"\0\0\0\0X-First\0 1\0"), packet(b'q', b"odd\0"), go_on()]);
        send(&mut client).await;
        assert_eq!(node.of("held")[0]["reason"], format!("milter {FILTER}: odd"));
        assert_eq!(node.metrics.milter_rewrites.get(), 1);
        // Nobody is left.
        first.says(b'E', &[packet(b'-', b"you@ours.test\0"), go_on()]);
        assert_eq!(send(&mut client).await, "250 2.0.0 Ok: discarded");
    });
}

/// What a filter says of recipients: the command, and the local part.
type Words = &'static [(u8, &'static str)];

#[test]
fn the_last_word_of_a_filter_about_a_recipient_counts() {
    play(|| async {
        let world = TestWorld::new();
        let script = Script::at(&world, FILTER, ALL, 0);
        let node = start(world, &format!("{{ address = \"{FILTER}\" }}"), "").await;
        let mut client = Client::connect(&node, FRIEND).await;
        let cases: [(Words, [usize; 2]); 5] = [
            // Taken off and put back, as one may who sorts the recipients anew: the only one stays.
            (&[(b'-', "you"), (b'+', "you")], [1, 0]),
            (&[(b'-', "you"), (b'+', "more"), (b'+', "you")], [1, 1]),
            (&[(b'-', "more"), (b'+', "more")], [1, 1]),
            (&[(b'+', "more"), (b'-', "more")], [1, 0]),
            (&[(b'+', "you"), (b'-', "you"), (b'+', "more")], [0, 1]),
        ];
        let (mut expected, mut delivered) = ([0, 0], 0);
        for (words, more) in cases {
            let word = |(kind, name): &(u8, &str)| {
                packet(*kind, format!("<{name}@ours.test>\0").as_bytes())
            };
            let said: Vec<Vec<u8>> = words.iter().map(word).chain([go_on()]).collect();
            script.says(b'E', &said);
            let reply = send(&mut client).await;
            assert!(reply.starts_with("250 2.0.0 Ok: queued"), "{words:?}: {reply}");
            delivered += more.iter().sum::<usize>();
            node.wait_for("delivered", delivered).await;
            expected = [expected[0] + more[0], expected[1] + more[1]];
            let got = ["you", "more"].map(|name| contents(&node, name).len());
            assert_eq!(got, expected, "{words:?}");
        }
    });
}

#[test]
fn an_alias_that_a_filter_takes_off_and_puts_back_stands_for_whom_it_did() {
    play(|| async {
        let world = TestWorld::new();
        let script = Script::at(&world, FILTER, ALL, 0);
        let text = config(&format!(
            "milters = [{{ address = \"{FILTER}\" }}]\n[[table]]\nname = \"aliases\"\ninline = {{}}\n\
             [[route]]\ndomains = [\"ours.test\"]\naliases = {{ table = \"aliases\" }}\n\
             maildir = {{ path = \"/mail/{{local}}\" }}"
        ));
        let node = Node::start_on(world, Rc::new(MemDisk::new(1, 1 << 30)), &text).await;
        node.world.set_entry("aliases", "you@ours.test", Ok("ann@ours.test, jo@ours.test"));
        script.says(
            b'E',
            &[packet(b'-', b"<you@ours.test>\0"), packet(b'+', b"<you@ours.test>\0"), go_on()],
        );
        let mut client = Client::connect(&node, FRIEND).await;
        let reply = send(&mut client).await;
        assert!(reply.starts_with("250 2.0.0 Ok: queued"), "{reply}");
        node.wait_for("delivered", 2).await;
        let got = ["ann", "jo", "you"].map(|name| contents(&node, name).len());
        assert_eq!(got, [1, 1, 0]);
    });
}

#[test]
fn a_message_that_went_to_disk_is_told_and_rewritten_in_pieces() {
    play(|| async {
        let world = TestWorld::new();
        let script = Script::at(&world, FILTER, ALL, 0);
        let milter = format!("{{ address = \"{FILTER}\" }}");
        let spool = "[spool]\npath = \"/spool\"\nblob_bytes = \"128KiB\"";
        let node = start(world, &milter, spool).await;
        let mut client = Client::connect(&node, FRIEND).await;
        let body: String =
            (0..20_000).map(|n| format!("line {n} of the body, and more\r\n")).collect();
        let content = format!("Subject: one\r\n\r\n{body}");
        let reply = client.send("me@source.test", &["you@ours.test"], &content).await;
        assert!(reply.starts_with("250 2.0.0 Ok: queued"), "{reply}");
        assert!(*script.0.body.borrow() == body.as_bytes());
        script.says(b'E', &[added("X-Seen", "yes"), go_on()]);
        script.0.body.borrow_mut().clear();
        client.send("me@source.test", &["you@ours.test"], &content).await;
        // Another body, as large.
        let pieces = body.as_bytes().chunks(65_535).map(|piece| packet(b'b', piece));
        let said: Vec<Vec<u8>> = pieces.chain([go_on()]).collect();
        script.says(b'E', &said);
        client.send("me@source.test", &["you@ours.test"], "Subject: small\r\n\r\nx\r\n").await;
        node.wait_for("delivered", 3).await;
        let got = contents(&node, "you");
        assert!(got[0].ends_with(&content));
        assert!(got[1].ends_with(&format!("Subject: one\r\nX-Seen: yes\r\n\r\n{body}")));
        assert!(got[2].ends_with(&format!("Subject: small\r\n\r\n{body}")));
        assert_eq!(node.shared.body_memory.used(), 0);
    });
}

#[test]
fn who_has_seen_enough_is_told_no_more_of_the_kind() {
    play(|| async {
        let (node, script) = filtered("accept", 0, SKIP).await;
        script.says(b'L', &[packet(b's', b"")]).says(b'B', &[packet(b's', b"")]);
        let mut client = Client::connect(&node, FRIEND).await;
        let content = format!("A: 1\r\nB: 2\r\n\r\n{}", "x\r\n".repeat(100_000));
        client.send("me@source.test", &["you@ours.test"], &content).await;
        let told = script.told();
        assert_eq!(told[told.len() - 4..], ["L A 1", "N", "B", "E"]);
    });
}

#[test]
fn a_filter_that_fails_is_told_of_once_and_tried_again_with_the_next_message() {
    play(|| async {
        let (node, script) = filtered("accept", ALL, 0).await;
        let mut client = Client::connect(&node, FRIEND).await;
        // It hangs up in the middle of what it wants.
        script.says(b'E', &[added("X-Lost", "1"), vec![0, 0, 0, 0]]);
        for _ in 0..2 {
            assert!(send(&mut client).await.starts_with("250 2.0.0 Ok: queued"));
        }
        node.wait_for("delivered", 2).await;
        assert!(contents(&node, "you").iter().all(|got| got.ends_with(CONTENT)));
        let warned = |text: &str| node.lines().iter().filter(|line| line.contains(text)).count();
        assert_eq!(warned("a packet without a command; on failure: accept"), 1);
        assert_eq!(warned("recovered"), 0);
        script.heal();
        send(&mut client).await;
        assert_eq!(warned("recovered"), 1);
        assert_eq!(node.metrics.milter_failures.get(), 2);
        assert_eq!(script.0.connections.get(), 3);
    });
}

#[test]
fn whoever_must_be_heard_and_is_not_stops_the_message() {
    play(|| async {
        for (on_failure, reply) in [
            ("tempfail", "451 4.7.1 Mail filter unavailable; try again later"),
            ("reject", "550 5.7.1 Mail filter unavailable"),
        ] {
            let (node, script) = filtered(on_failure, 0, 0).await;
            let mut client = Client::connect(&node, FRIEND).await;
            script.says(b'M', &[]);
            assert_eq!(client.say("MAIL FROM:<me@source.test>").await, reply);
            script.heal();
            client.say("MAIL FROM:<me@source.test>").await;
            script.says(b'R', &[]);
            assert_eq!(client.say("RCPT TO:<you@ours.test>").await, reply);
            script.heal();
            // For the rest of the message.
            assert_eq!(client.say("RCPT TO:<you@ours.test>").await, reply);
            client.say("RSET").await;
            script.says(b'B', &[]);
            assert_eq!(send(&mut client).await, reply);
            assert_eq!(node.metrics.milter_failures.get(), 3);
            assert!(contents(&node, "you").is_empty());
        }
    });
}

#[test]
fn a_filter_that_hangs_holds_up_its_own_message_and_no_other() {
    play(|| async {
        let (node, script) = filtered("accept", 0, 0).await;
        script.0.pauses.borrow_mut().insert(b'M', Duration::from_secs(3_600));
        let mut client = Client::connect(&node, FRIEND).await;
        let mut other = Client::connect(&node, STRANGER).await;
        let begun = tokio::time::Instant::now();
        let slow = send(&mut client);
        let quick = async {
            let reply = other.say("NOOP").await;
            (reply, begun.elapsed())
        };
        let (slow, (quick, after)) = tokio::join!(slow, quick);
        assert!(slow.starts_with("250 2.0.0 Ok: queued"), "{slow}");
        assert!(quick.starts_with("250") && after < Duration::from_secs(1), "{quick} {after:?}");
        let waited = begun.elapsed();
        let timeout = Duration::from_secs(30);
        assert!(waited >= timeout && waited < timeout * 2, "{waited:?}");
    });
}

#[test]
fn signs_of_life_are_waited_for_but_not_for_ever() {
    play(|| async {
        let (node, script) = filtered("tempfail", 0, 0).await;
        let mut client = Client::connect(&node, FRIEND).await;
        script.says(b'E', &[packet(b'p', b"")]);
        let begun = tokio::time::Instant::now();
        let reply = send(&mut client).await;
        assert_eq!(reply, "451 4.7.1 Mail filter unavailable; try again later");
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_secs(300) && waited < Duration::from_secs(480));
    });
}

#[test]
fn several_recipients_at_once_are_asked_about_one_after_the_other() {
    play(|| async {
        let (node, script) = filtered("tempfail", 0, 0).await;
        let mut client = Client::connect(&node, FRIEND).await;
        script.0.pauses.borrow_mut().insert(b'R', Duration::from_millis(50));
        let commands = (0..4).map(|n| format!("RCPT TO:<r{n}@ours.test>\r\n")).collect::<String>();
        client.write(&format!("MAIL FROM:<me@source.test>\r\n{commands}")).await;
        for _ in 0..5 {
            assert!(client.reply().await.starts_with("250"));
        }
        let told = script.told();
        let asked: Vec<&str> = told.iter().filter_map(|told| told.strip_prefix("R ")).collect();
        assert_eq!(asked, ["<r0@ours.test>", "<r1@ours.test>", "<r2@ours.test>", "<r3@ours.test>"]);
    });
}

#[test]
fn what_is_refused_anyway_is_not_asked_about() {
    play(|| async {
        let (node, script) = filtered("tempfail", 0, 0).await;
        let mut client = Client::connect(&node, STRANGER).await;
        client.say("MAIL FROM:<me@source.test>").await;
        let reply = client.say("RCPT TO:<you@elsewhere.test>").await;
        assert_eq!(reply, "550 5.7.1 Relay access denied");
        assert!(!script.told().iter().any(|told| told.starts_with("R ")));
    });
}
