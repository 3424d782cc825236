//! What an operator sees of the queue and does to it, over the control socket.

mod orders;
mod stuck;
mod suspended;
mod unreadable;

use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::{self, CONFIG, POSTRIDER, Server};
use crate::support::tool::{free_port, succeed};
use crate::support::{Files, config, wait_until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stuck::{ids, stuck, text};

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
    assert!(text(why, "/recipients/0/next_try").ends_with('Z'), "says when it is tried again");
    // For people the same.
    let answer = server.command(&["queue", "why", &a]);
    assert!(answer.out.contains("refused") && answer.out.contains(&hop), "{answer:?}");
    let answer = server.command(&["queue", "list"]);
    assert!(answer.out.contains(&a) && answer.out.contains("x@far.test"), "{answer:?}");
    // On a terminal lines fit it, but for `--wide`.
    let on_terminal = |words: &str| {
        let command = format!(
            "cd '{}' && stty cols 100 && '{POSTRIDER}' queue list --config {CONFIG}{words}",
            files.dir().display()
        );
        let text = succeed("script", &["-qec", &command, "/dev/null"]);
        text.lines().map(|line| line.trim_end().chars().count()).max().unwrap_or(0)
    };
    let longest = answer.out.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    assert!(longest > 100, "{answer:?}");
    assert!(on_terminal("") <= 100 && on_terminal(" --wide") > 100, "{}", on_terminal(""));
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

#[test]
fn mail_whose_route_has_gone_waits_for_one() {
    let files = Files::new();
    let (server, hop, [a, ..]) = stuck(&files);
    let whole = std::fs::read_to_string(files.path(server::CONFIG)).expect("a configuration");
    let slip = whole.replace("name = \"far\"", "name = \"far\"\ndomains = [\"fra.test\"]");
    files.write(server::CONFIG, &slip);
    let reloaded = server.command(&["reload"]);
    assert_eq!(reloaded.code, 0, "{reloaded:?}");
    assert!(reloaded.out.contains("3 queued recipients have no route now"), "{reloaded:?}");
    wait_until("it waits for a route", || {
        let answer = server.command(&["queue", "why", &a]);
        answer.out.contains(
            "waiting for a next hop for far.test; the lookup failed: no route to far.test",
        )
    });
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<a@one.test>", "250");
    client.say("RCPT TO:<x@far.test>", "550 5.1.2");
    let peer = Peer::start_at(&hop, "250 HELP", |_| None);
    files.write(server::CONFIG, &whole);
    let reloaded = server.command(&["reload"]);
    assert!(!reloaded.out.contains("no route now"), "{reloaded:?}");
    peer.wait_taken(3);
    wait_until("an empty queue", || server.queue().is_empty());
    assert!(files.events_of("failed").is_empty(), "nobody is told that it failed");
    server.stop();
}

#[test]
fn a_reload_applies_its_retry_policy_to_what_is_queued() {
    let files = Files::new();
    let peer =
        Peer::start(|line| line.starts_with("RCPT TO:<x@").then(|| "450 4.2.0 later".to_owned()));
    let route = |retry: &str| {
        config(&format!("[[route]]\nsmtp = {{ hosts = [\"{}\"] }}\n{retry}", peer.address))
    };
    let server = Server::start(&files, &route("[retry]\nfirst = \"1h\"\nlongest = \"1h\"\n"));
    let id = Client::connect(server.address()).mail("", &["x@far.test"], "Subject: x\r\n\r\n");
    files.wait_events("deferred", 1);
    let short = "[retry]\nfirst = \"1s\"\nlongest = \"1s\"\ngive_up_after = \"4s\"\n";
    files.write(server::CONFIG, &route(short));
    assert_eq!(server.command(&["reload"]).code, 0);
    wait_until("it is given up", || server.queue().is_empty());
    let expired = files.wait_events("expired", 1);
    assert_eq!(expired[0]["id"], id.as_str());
    assert!(files.events_of("deferred").len() >= 2, "it was tried as often as the new policy says");
    server.stop();
}

#[test]
fn a_reload_that_is_refused_changes_nothing_of_what_is_told() {
    let files = Files::new();
    let good = config("[[route]]\nsmtp = { hosts = [\"192.0.2.1:25\"] }");
    let mut server = Server::start(&files, &good);
    let bad = format!("{good}\n[log]\nlevel = \"error\"\n[classes]\nfiles = [\"nowhere.toml\"]\n");
    files.write(server::CONFIG, &bad);
    let answer = server.command(&["reload"]);
    assert!(answer.code != 0 && answer.err.contains("the old configuration stays"), "{answer:?}");
    // Told at the level "info".
    server.signal(rustix::process::Signal::TERM);
    assert!(server.wait().success());
    server.wait_console("it stops", |line| line.contains("stopping: "));
}

#[test]
fn a_hold_does_not_end_by_itself_and_tells_why() {
    let files = Files::new();
    let (server, _, [a, b, c]) = stuck(&files);
    for id in [&b, &c] {
        server.command(&["queue", "remove", id]);
    }
    let hold = |reason: &str| server.command(&["queue", "hold", &a, "--reason", reason]);
    assert_eq!(hold("look at it").out, "1 message held\n");
    let whole = std::fs::read_to_string(files.path(server::CONFIG)).expect("a configuration");
    files.write(server::CONFIG, &format!("{whole}give_up_after = \"1s\"\n"));
    assert_eq!(server.command(&["reload"]).code, 0);
    let shown = |words: &[&str]| server.command(&[&["queue"], words].concat()).out;
    assert!(shown(&["why", &a]).contains("waiting for an operator to release it: look at it\n"));
    assert!(hold("it is spam").out.contains("1 message held"));
    assert!(shown(&["why", &a]).contains("release it: it is spam\n"));
    let line = shown(&["list"]).lines().nth(1).expect("a line").to_owned();
    assert!(line.contains("release it: it is spam") && line.ends_with(" -"), "{line}");
    assert!(shown(&["show", &a]).contains("On hold     it is spam"));
    let retried = server.command(&["queue", "retry", &a]);
    assert_eq!(
        retried.out,
        "nothing scheduled; 1 recipient on hold left there (release them first)\n"
    );
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(ids(&server.queue()), [&a], "it is too old and stays");
    assert_eq!(server.command(&["queue", "release", &a]).out, "1 message released\n");
    files.wait_events("expired", 1);
    server.stop();
}

#[test]
fn filters_tell_queued_mail_apart() {
    let files = Files::new();
    let (server, hop, [a, b, c]) = stuck(&files);
    wait_until("the hop's failure is known", || {
        server.json(&["queue", "list", "--failure", "refused"]).len() == 4
    });
    let matched = |words: &[&str]| {
        let lines = server.json(&[&["queue", "list"], words].concat());
        let items = &lines[..lines.len() - 1];
        ids(items).iter().map(|id| (*id).to_owned()).collect::<Vec<_>>()
    };
    let all = [a.clone(), b.clone(), c.clone()];
    assert_eq!(matched(&["--recipient", "Y@far.test"]), std::slice::from_ref(&b));
    assert_eq!(matched(&["--client", "127.0.0.1"]), all);
    assert_eq!(matched(&["--client", "127.0.0.2"]), [] as [String; 0]);
    assert_eq!(matched(&["--route", "far"]), all);
    assert_eq!(matched(&["--route", "near"]), [] as [String; 0]);
    assert_eq!(matched(&["--next-hop", &hop]), all);
    assert_eq!(
        matched(&["--next-hop", "127.0.0.1", "--domain", "other.test"]),
        std::slice::from_ref(&c)
    );
    assert_eq!(matched(&["--failure", "mailbox full"]), [] as [String; 0]);
    assert_eq!(matched(&["--older-than", "1h"]), [] as [String; 0]);
    assert_eq!(
        matched(&["--younger-than", "1h", "--sender", "a@one.test"]),
        std::slice::from_ref(&a)
    );
    assert_eq!(matched(&["--state", "held"]), [] as [String; 0]);
    let held = server.command(&["queue", "hold", "--recipient", "y@far.test", "--reason", "Odd"]);
    assert_eq!(held.out, "1 message held\n", "{held:?}");
    assert_eq!(matched(&["--state", "held"]), std::slice::from_ref(&b));
    assert_eq!(matched(&["--failure", "odd"]), std::slice::from_ref(&b));
    let summary = &server.json(&["queue", "summary"])[0];
    assert_eq!((&summary["messages"], &summary["recipients"]), (&3.into(), &3.into()));
    assert_eq!(text(summary, "/domains/0/name"), "far.test");
    assert_eq!(summary["domains"][0]["recipients"], 2);
    assert!(text(summary, "/next_hops/0/name").contains(&hop), "{summary}");
    assert!(text(summary, "/reasons/0/name").contains("refused"), "{summary}");
    assert_eq!(summary["ages"][0]["recipients"], 3, "{summary}");
    let shown = server.command(&["queue", "summary", "--domain", "other.test"]);
    assert!(shown.out.starts_with("1 recipient of 1 message.\n"), "{shown:?}");
    server.stop();
}

#[test]
fn an_operator_gives_mail_up_and_its_sender_is_told_once() {
    let files = Files::new();
    let (server, hop, [_, _, c]) = stuck(&files);
    server.command(&["queue", "remove", &c]);
    let mut client = Client::connect(server.address());
    let to = ["x@far.test", "y@far.test", "z@other.test"];
    let id = client.mail("many@one.test", &to, "Subject: three\r\n\r\n");
    let words = ["queue", "fail", "--sender", "many@one.test", "--domain", "far.test"];
    let given_up = [&words[..], &["--status", "5.7.1", "--reason", "not this way"]].concat();
    let answer = server.command(&given_up);
    assert_eq!(answer.out, "2 recipients of 1 message failed, DSNs sent to their senders\n");
    assert!(server.command(&[&words[..], &["--status", "4.0.0"]].concat()).code != 0);
    let failed = files.wait_events("failed", 2);
    assert!(failed.iter().all(|event| event["id"] == *id && event["status"] == "5.7.1"));
    let left = server.json(&["queue", "show", &id]);
    assert_eq!(left[0]["recipients_open"], 1);
    assert_eq!(text(&left[0], "/recipients/0/address"), "z@other.test");
    let peer = Peer::start_at(&hop, "250 HELP", |_| None);
    wait_until("an empty queue", || server.queue().is_empty());
    let taken = peer.wait_taken(4);
    let reports: Vec<_> =
        taken.iter().filter(|taken| taken.rcpt.iter().any(|to| to.contains("many@"))).collect();
    assert_eq!(reports.len(), 1, "{taken:?}");
    server.stop();
}

#[test]
fn a_clock_that_jumped_gives_nothing_up_until_somebody_says_that_it_is_right() {
    let files = Files::new();
    let hop = format!("127.0.0.1:{}", free_port());
    let text = config(&format!(
        "[[route]]\nsmtp = {{ hosts = [\"{hop}\"] }}\n\
         [retry]\nfirst = \"1s\"\nlongest = \"1s\"\ngive_up_after = \"3s\"\n"
    ));
    let server = Server::start(&files, &text);
    let id = Client::connect(server.address()).mail("", &["b@far.test"], "x\r\n");
    server.stop();
    // As if the clock had gone ahead by six days since.
    let six_days = Duration::from_secs(6 * 86_400);
    for entry in std::fs::read_dir(files.path("spool")).expect("a spool") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "segment") {
            let file = std::fs::File::options().write(true).open(&path).expect("a segment");
            let written = file.metadata().expect("metadata").modified().expect("a time");
            file.set_modified(written - six_days).expect("a file that is ours");
        }
    }
    let server = Server::start_again(&files);
    server.wait_console("a word about the clock", |line| line.contains("ahead of the newest"));
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(ids(&server.queue()), [&id], "it is too old by such a clock");
    let status = server.command(&["status"]).out;
    assert!(status.contains("Trouble: the clock is 6d 0h ahead"), "{status}");
    let answer = server.command(&["queue", "trust-clock"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    files.wait_events("expired", 1);
    assert!(server.command(&["status"]).out.contains("All is well."));
    assert!(server.command(&["queue", "trust-clock"]).code != 0, "nobody doubts it");
    server.stop();
}

#[test]
fn programs_may_say_which_version_of_the_protocol_they_speak() {
    use std::io::{Read as _, Write as _};
    let files = Files::new();
    let (server, _, _) = stuck(&files);
    let ask = |request: &str| {
        let path = files.path("spool/control.sock");
        let mut stream = std::os::unix::net::UnixStream::connect(path).expect("the socket");
        stream.write_all(request.as_bytes()).expect("taken");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let old = ask("{\"command\":\"queue_hold\",\"select\":\"all\",\"reason\":\"x\"}\n");
    assert!(old.starts_with("{\"response\":\"done\",\"matched\":3"), "{old}");
    let new = ask("{\"version\":2,\"command\":\"queue_release\",\"select\":\"all\"}\n");
    assert!(new.contains("\"matched\":3") && new.contains("3 messages released"), "{new}");
    let future = ask("{\"version\":9,\"command\":\"status\"}\n");
    assert!(future.contains("bad_request"), "{future}");
    server.stop();
}
