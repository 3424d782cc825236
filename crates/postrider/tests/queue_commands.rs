//! What an operator sees of the queue and does to it, over the control socket.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod support;
use serde_json::Value;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::client::Client;
use support::peer::Peer;
use support::server::{self, Server};
use support::tool::free_port;
use support::{Files, config, wait_until};

/// A next hop that nobody is at, and three messages for it: server, address, ids.
fn stuck(files: &Files) -> (Server, String, [String; 3]) {
    let hop = format!("127.0.0.1:{}", free_port());
    let text = config(&format!(
        "[[route]]\nname = \"far\"\nsmtp = {{ hosts = [\"{hop}\"] }}\n\
         [retry]\nfirst = \"1s\"\nlongest = \"1s\"\n"
    ));
    let server = Server::start(files, &text);
    let mut client = Client::connect(server.address());
    let ids = [("a@one.test", "x@far.test"), ("b@one.test", "y@far.test"), ("", "z@other.test")]
        .map(|(from, to)| client.mail(from, &[to], "Subject: stuck\r\n\r\n"));
    (server, hop, ids)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer}: {value}"))
}

fn ids(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| text(item, "/id")).collect()
}

#[test]
fn what_waits_is_listed_shown_and_explained() {
    let files = Files::new();
    let (server, hop, [a, b, c]) = stuck(&files);
    assert_eq!(ids(&server.queue()), [&a, &b, &c]);
    let matched = |words: &[&str]| {
        let all = [&["queue", "list"], words].concat();
        let lines = server.json(&all);
        let (done, items) = lines.split_last().expect("a last line");
        assert_eq!(done["response"], "done");
        assert_eq!(done["matched"].as_u64(), Some(items.len() as u64));
        ids(items).iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(matched(&["--domain", "FAR.test"]), [a.clone(), b.clone()]);
    assert_eq!(matched(&["--sender", "b@one.test"]), std::slice::from_ref(&b));
    assert_eq!(matched(&["--sender", "<>"]), std::slice::from_ref(&c));
    assert_eq!(matched(&["--domain", "nowhere.test"]), [] as [String; 0]);

    wait_until("the hop's failure is known", || {
        let lines = server.json(&["queue", "why", &a]);
        lines[0].pointer("/recipients/0/blocker/kind").is_some_and(|kind| kind == "backoff")
    });
    let [shown, _] = &server.json(&["queue", "show", &a])[..] else { panic!() };
    assert_eq!(text(shown, "/sender"), "a@one.test");
    assert_eq!(text(shown, "/recipients/0/address"), "x@far.test");
    assert_eq!(text(shown, "/recipients/0/route"), "far");
    assert_eq!(shown["recipients_count"], 1);
    assert!(text(shown, "/client").starts_with("127.0.0.1"), "{shown}");
    assert!(shown["recipients"][0]["next_hop"].as_str().is_some_and(|h| h.contains(&hop)));
    let [why, _] = &server.json(&["queue", "why", &a])[..] else { panic!() };
    let blocker = text(why, "/recipients/0/blocker/text");
    assert!(blocker.contains("refused"), "names the failure: {blocker}");
    assert!(blocker.contains(&hop), "names the hop: {blocker}");
    assert!(text(why, "/recipients/0/blocker/until").ends_with('Z'), "has a deadline");
    // For people the same.
    let answer = server.command(&["queue", "why", &a]);
    assert!(answer.out.contains("refused") && answer.out.contains(&hop), "{answer:?}");
    let answer = server.command(&["queue", "list"]);
    assert!(answer.out.contains(&a) && answer.out.contains("x@far.test"), "{answer:?}");
    server.stop();
}

#[test]
fn holds_and_removals_survive_a_restart() {
    let files = Files::new();
    let (server, hop, [a, b, c]) = stuck(&files);
    let hold = ["queue", "hold", &a, "--reason", "asked by marketing"];
    assert_eq!(server.json(&hold).last().expect("done")["matched"], 1);
    assert_eq!(server.json(&["queue", "remove", &b]).last().expect("done")["matched"], 1);
    server.stop();
    let server = Server::start_again(&files);
    let queue = server.queue();
    assert_eq!(ids(&queue), [&a, &c]);
    assert_eq!(queue[0]["held"], "asked by marketing");
    assert_eq!(queue[0]["recipients"][0]["state"], "held");
    assert_eq!(queue[0]["recipients"][0]["blocker"]["kind"], "operator");
    // The hop comes up: what is held stays, whoever wants it retried.
    let peer = Peer::start_at(&hop, "250 HELP", |_| None);
    server.command(&["queue", "retry", "--all"]);
    assert_eq!(peer.wait_taken(1)[0].rcpt, ["RCPT TO:<z@other.test>"]);
    // Known to be on disk: what isn't may be sent again after a kill.
    files.wait_events("relayed", 1);
    server.kill();
    let server = Server::start_again(&files);
    assert_eq!(ids(&server.queue()), [&a]);
    // Releasing survives, too.
    assert_eq!(server.json(&["queue", "release", "--all"]).last().expect("done")["matched"], 1);
    assert_eq!(peer.wait_taken(2)[1].rcpt, ["RCPT TO:<x@far.test>"]);
    wait_until("an empty queue", || server.queue().is_empty());
    for (kind, id) in [("held", &a), ("removed", &b), ("released", &a)] {
        let events = files.wait_events(kind, 1);
        assert_eq!(events[0]["id"], id.as_str(), "{events:?}");
    }
    server.stop();
}

#[test]
fn retry_does_not_wait_for_the_back_off() {
    let files = Files::new();
    let hop = format!("127.0.0.1:{}", free_port());
    let text = config(&format!(
        "[[route]]\nsmtp = {{ hosts = [\"{hop}\"] }}\n[retry]\nfirst = \"1h\"\nlongest = \"1h\"\n"
    ));
    let server = Server::start(&files, &text);
    let mut client = Client::connect(server.address());
    let id = client.mail("a@one.test", &["x@far.test"], "Subject: stuck\r\n\r\n");
    wait_until("the hop's failure is known", || {
        server.json(&["queue", "why", &id])[0]["recipients"][0]["blocker"]["kind"] == "backoff"
    });
    let refusing = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let flag = std::sync::Arc::clone(&refusing);
    let peer = Peer::start_at(&hop, "250 HELP", move |line| {
        let refuse = flag.load(std::sync::atomic::Ordering::SeqCst) && line.starts_with("RCPT");
        refuse.then(|| "450 4.2.1 mailbox busy".to_owned())
    });
    // By id, while the hop was down …
    let begun = Instant::now();
    assert_eq!(server.json(&["queue", "retry", &id]).last().expect("done")["matched"], 1);
    // … then by domain, while it said 450 and the message has its own time.
    let deferred = files.wait_events("deferred", 1);
    assert_eq!(deferred[0]["status"], "4.2.1", "{deferred:?}");
    let [why, _] = &server.json(&["queue", "why", &id])[..] else { panic!() };
    assert_eq!(why["recipients"][0]["blocker"]["kind"], "time", "{why}");
    assert!(why["recipients"][0]["last_failure"].as_str().is_some_and(|f| f.contains("busy")));
    refusing.store(false, std::sync::atomic::Ordering::SeqCst);
    let done = server.json(&["queue", "retry", "--domain", "far.test"]);
    assert_eq!(done.last().expect("done")["matched"], 1);
    peer.wait_taken(1);
    assert!(begun.elapsed() < Duration::from_secs(20));
    server.stop();
}

#[test]
fn what_is_removed_while_it_is_tried_is_counted_and_goes() {
    let files = Files::new();
    let refuse = Arc::new(AtomicBool::new(false));
    let may = Arc::clone(&refuse);
    let peer = Peer::start(move |line| {
        line.starts_with("RCPT").then(|| {
            wait_until("leave to refuse", || may.load(Ordering::Relaxed));
            "451 4.2.0 not now".to_owned()
        })
    });
    let server = Server::start(
        &files,
        &config(&format!("[[route]]\nsmtp = {{ hosts = [\"{}\"] }}\n", peer.address)),
    );
    let id = Client::connect(server.address()).mail("a@one.test", &["b@far.test"], "x\r\n");
    wait_until("an attempt", || {
        server.queue().iter().any(|item| item["recipients"][0]["state"] == "in_flight")
    });
    assert_eq!(server.json(&["queue", "remove", &id]).last().expect("done")["matched"], 1);
    refuse.store(true, Ordering::Relaxed);
    wait_until("an empty queue", || server.queue().is_empty());
    let removed = files.wait_events("removed", 1);
    assert_eq!((text(&removed[0], "/id"), text(&removed[0], "/recipient")), (&*id, "b@far.test"));
    server.stop();
}

#[test]
fn reports_find_room_where_new_mail_does_not() {
    let files = Files::new();
    let (server, hop, [_, _, c]) = stuck(&files);
    server.command(&["queue", "remove", &c]);
    server.stop();
    // So much is not free: nothing is accepted.
    let roomy = std::fs::read_to_string(files.path(server::CONFIG)).expect("a configuration");
    let full = roomy.replace("min_free_bytes = \"16MiB\"", "min_free_bytes = \"1TiB\"");
    let server = Server::start(&files, &full);
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<a@one.test>", "250");
    client.say("RCPT TO:<x@far.test>", "250");
    client.say("DATA", "354");
    client.say("late\r\n.", "452 4.3.1");
    let peer = Peer::start_at(&hop, "250 HELP", |line| {
        let refuse = line.ends_with("@far.test>") && line.starts_with("RCPT");
        refuse.then(|| "550 5.1.1 no such user".to_owned())
    });
    wait_until("an empty queue", || server.queue().is_empty() && peer.taken().len() == 2);
    let mut told: Vec<_> = peer.taken().into_iter().flat_map(|taken| taken.rcpt).collect();
    told.sort();
    assert_eq!(told, ["RCPT TO:<a@one.test>", "RCPT TO:<b@one.test>"]);
    server.stop();
}

/// Turns a bit in each place of the spool's segments where this text stands, or its changed form
/// if it was changed before.
fn turn_bit(files: &Files, texts: [&str; 2]) {
    let entries = std::fs::read_dir(files.path("spool")).expect("a spool");
    let mut turned = 0;
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.extension().is_none_or(|extension| extension != "segment") {
            continue;
        }
        let bytes = std::fs::read(&path).expect("a segment");
        let file = std::fs::File::options().write(true).open(&path).expect("a segment");
        let places = bytes.iter().enumerate().filter(|(_, byte)| b"RS".contains(byte));
        for (at, byte) in places {
            if texts.iter().any(|text| bytes[at..].starts_with(text.as_bytes())) {
                file.write_all_at(&[byte ^ 1], at as u64).expect("a write");
                turned += 1;
            }
        }
    }
    assert!(turned > 0, "{texts:?}");
}

#[test]
fn what_cannot_be_read_is_listed_and_when_it_is_given_up_waits_to_be_reported() {
    const LOST: [&str; 2] = ["Subject: lost", "Rubject: lost"];
    const FOUND: [&str; 2] = ["Subject: found", "Rubject: found"];
    const LATE: [&str; 2] = ["Subject: late", "Rubject: late"];
    let files = Files::new();
    let (server, _, others) = stuck(&files);
    for id in &others {
        assert_eq!(server.command(&["queue", "remove", id]).code, 0);
    }
    let mut client = Client::connect(server.address());
    let [lost, found, late] = [LOST, FOUND, LATE].map(|subject| {
        client.mail("a@one.test", &["x@far.test"], &format!("{}\r\n\r\n", subject[0]))
    });
    server.stop();
    // After a start nothing of them is in memory.
    let server = Server::start_again(&files);
    for subject in [LOST, FOUND, LATE] {
        turn_bit(&files, subject);
    }
    let listed = server.queue();
    assert_eq!(listed.len(), 3, "{listed:?}");
    let unread = listed.iter().find(|item| item["id"] == *lost).expect("it is listed");
    assert!(text(unread, "/unreadable").contains("bad checksum"), "{unread}");
    assert_eq!(text(unread, "/recipients/0/address"), "?@far.test");
    assert_eq!(text(unread, "/recipients/0/blocker/kind"), "spool");
    let blocker = text(unread, "/recipients/0/blocker/text");
    assert!(blocker.starts_with("its record, which can't be read: damaged: "), "{unread}");
    assert!(unread.pointer("/recipients/0/blocker/until").is_some(), "{unread}");
    let shown = server.command(&["queue", "why", &lost]);
    assert!(shown.out.contains("?@far.test: waiting for its record"), "{shown:?}");
    let by_sender = server.json(&["queue", "list", "--sender", "a@one.test"]);
    assert_eq!(by_sender.len(), 1, "nobody knows the sender: {by_sender:?}");

    // Without a route they are given up; whom to tell stands in their records only.
    let peer = Peer::start(|_| None);
    let route = format!(
        "[[route]]\ndomains = [\"one.test\"]\nsmtp = {{ hosts = [\"{}\"] }}\n",
        peer.address
    );
    files.write(server::CONFIG, &config(&route));
    assert_eq!(server.command(&["reload"]).code, 0);
    let unreported = || {
        let mut items =
            server.json(&["queue", "list", "--state", "unreported", "--domain", "far.test"]);
        items.pop();
        items
    };
    wait_until("all are given up", || unreported().len() == 3);
    let [why, _] = &server.json(&["queue", "why", &lost])[..] else { panic!() };
    assert_eq!(text(why, "/recipients/0/address"), "?@far.test");
    assert_eq!(text(why, "/recipients/0/blocker/kind"), "spool");
    let blocker = text(why, "/recipients/0/blocker/text");
    assert!(blocker.contains("can't be read: damaged"), "{why}");
    assert_eq!(text(why, "/recipients/0/blocker/until"), text(why, "/recipients/0/next_try"));
    assert!(text(why, "/recipients/0/last_failure").contains("no route leads"), "{why}");
    assert_eq!(server.json(&["queue", "remove", &lost]).last().expect("done")["matched"], 1);
    let status = &server.json(&["status"])[0];
    let sum = |field: &str| -> u64 {
        let shards = status["shards"].as_array().expect("shards");
        shards.iter().filter_map(|shard| shard[field].as_u64()).sum()
    };
    assert_eq!((sum("recipients"), sum("unreported")), (2, 2), "{status}");
    let held = server.command(&["queue", "hold", &found, "--reason", "wait"]);
    assert!(held.code != 0 && held.err.contains("can't be held"), "{held:?}");
    // What can be read again is removed by name.
    turn_bit(&files, LATE);
    assert_eq!(server.json(&["queue", "remove", &late]).last().expect("done")["matched"], 1);
    let is_late = |event: &Value| event["id"] == *late && event["recipient"] == "x@far.test";
    wait_until("its event", || files.events_of("removed").iter().any(is_late));
    assert_eq!(ids(&server.queue()), [&found]);
    // A disk that heals: the sender of the other one is told as soon as it can be read.
    turn_bit(&files, FOUND);
    assert_eq!(server.json(&["queue", "retry", &found]).last().expect("done")["matched"], 1);
    wait_until("an empty queue", || server.queue().is_empty() && !peer.taken().is_empty());
    let told: Vec<_> = peer.taken().into_iter().flat_map(|taken| taken.rcpt).collect();
    assert_eq!(told, ["RCPT TO:<a@one.test> NOTIFY=NEVER"]);
    server.stop();
}

#[test]
fn exit_codes_tell_what_happened() {
    let files = Files::new();
    let (server, _, [a, ..]) = stuck(&files);
    let code = |words: &[&str]| server.command(words).code;
    assert_eq!(code(&["queue", "show", &a]), 0);
    assert_eq!(code(&["queue", "show", "00000000ffffffff"]), 1);
    assert_eq!(code(&["queue", "why", "00000000ffffffff", "--json"]), 1);
    assert_eq!(code(&["queue", "remove", "00000000ffffffff"]), 1);
    assert_eq!(code(&["queue", "release", &a]), 1, "it is not held");
    assert_eq!(code(&["queue", "hold", "--domain", "nowhere.test"]), 1);
    assert_eq!(code(&["queue", "show", "no-id"]), 2);
    assert_eq!(code(&["queue", "remove"]), 2);
    assert_eq!(code(&["status"]), 0);
    assert_eq!(code(&["reload"]), 0);
    let status = server.json(&["status"]);
    assert_eq!(status[0]["response"], "status", "{status:?}");
    server.stop();
    let answer = server::command(files.dir(), &["queue", "list"]);
    assert_eq!(answer.code, 3, "{answer:?}");
    assert!(answer.err.contains("control.sock"), "{answer:?}");
}
