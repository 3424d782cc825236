//! Messages that the disk gives back damaged.

use super::stuck::{ids, stuck, text};
use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::{self, Server};
use crate::support::{Files, config, wait_until};
use memchr::memmem;
use serde_json::Value;
use std::os::unix::fs::FileExt;

/// Writes `to` in place of `from`, which is as long, wherever it stands in the spool's segments; a copy that is made of
/// one meanwhile, too.
fn change(files: &Files, from: &str, to: &str) {
    let mut changed = 0;
    loop {
        let before = changed;
        let entries = std::fs::read_dir(files.path("spool")).expect("a spool");
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            if path.extension().is_none_or(|extension| extension != "segment") {
                continue;
            }
            // One that is no longer needed may go meanwhile.
            let Ok(bytes) = std::fs::read(&path) else { continue };
            let Ok(file) = std::fs::File::options().write(true).open(&path) else { continue };
            for at in memmem::find_iter(&bytes, from.as_bytes()) {
                file.write_all_at(to.as_bytes(), at as u64).expect("a write");
                changed += 1;
            }
        }
        if changed == before {
            break;
        }
    }
    assert!(changed > 0, "{from}");
}

const LOST: [&str; 2] = ["Subject: lost", "Rubject: lost"];
const FOUND: [&str; 2] = ["Subject: found", "Rubject: found"];
const LATE: [&str; 2] = ["Subject: late", "Rubject: late"];

/// A server that has three messages, none of which it can read.
fn unread(files: &Files) -> (Server, [String; 3]) {
    let (server, _, others) = stuck(files);
    for id in &others {
        assert_eq!(server.command(&["queue", "remove", id]).code, 0);
    }
    let mut client = Client::connect(server.address());
    let ids = [LOST, FOUND, LATE].map(|subject| {
        client.mail("a@one.test", &["x@far.test"], &format!("{}\r\n\r\n", subject[0]))
    });
    // Nobody reads them before they are changed.
    let far = ["--domain", "far.test"];
    assert_eq!(server.command(&[&["queue", "suspend"], &far[..]].concat()).code, 0);
    server.stop();
    // After a start nothing of them is in memory.
    let server = Server::start_again(files);
    for subject in [LOST, FOUND, LATE] {
        change(files, subject[0], subject[1]);
    }
    assert_eq!(server.command(&[&["queue", "resume"], &far[..]].concat()).code, 0);
    (server, ids)
}

#[test]
fn what_cannot_be_read_is_listed() {
    let files = Files::new();
    let (server, [lost, ..]) = unread(&files);
    let listed = server.queue();
    assert_eq!(listed.len(), 3, "{listed:?}");
    let unread = listed.iter().find(|item| item["id"] == lost.as_str()).expect("it is listed");
    assert!(text(unread, "/unreadable").contains("bad checksum"), "{unread}");
    assert_eq!(text(unread, "/recipients/0/address"), "?@far.test");
    assert_eq!(text(unread, "/recipients/0/blocker/kind"), "spool");
    let blocker = text(unread, "/recipients/0/blocker/text");
    assert!(blocker.starts_with("its spool record to be readable: damaged: "), "{unread}");
    let shown = server.command(&["queue", "why", &lost]);
    assert!(shown.out.contains("?@far.test: waiting for its spool record"), "{shown:?}");
    let by_sender = server.json(&["queue", "list", "--sender", "a@one.test"]);
    assert_eq!(by_sender.len(), 1, "nobody knows the sender: {by_sender:?}");
    server.stop();
}

/// What cannot be read, was given up, and is to be reported.
fn unreported(server: &Server) -> Vec<Value> {
    let mut items =
        server.json(&["queue", "list", "--state", "unreported", "--domain", "far.test"]);
    items.pop();
    items
}

#[test]
fn what_cannot_be_read_when_it_is_given_up_waits_to_be_reported() {
    let files = Files::new();
    let (server, [lost, found, late]) = unread(&files);
    // They get too old and have no route: whom to tell stands in their records only.
    let peer = Peer::start(|_| None);
    let route = format!(
        "[[route]]\ndomains = [\"one.test\"]\nsmtp = {{ hosts = [\"{}\"] }}\n\
         [retry]\nfirst = \"1s\"\nlongest = \"1s\"\ngive_up_after = \"2s\"\n",
        peer.address
    );
    files.write(server::CONFIG, &config(&route));
    let reloaded = server.command(&["reload"]);
    assert_eq!(reloaded.code, 0, "{reloaded:?}");
    wait_until("all are given up", || unreported(&server).len() == 3);
    let [why, _] = &server.json(&["queue", "why", &lost])[..] else { panic!() };
    assert_eq!(text(why, "/recipients/0/address"), "?@far.test");
    assert_eq!(text(why, "/recipients/0/blocker/kind"), "spool");
    let blocker = text(why, "/recipients/0/blocker/text");
    assert!(blocker.contains("to be readable, so that its DSN can be sent: damaged"), "{why}");
    assert_eq!(text(why, "/recipients/0/blocker/until"), text(why, "/recipients/0/next_try"));
    assert!(text(why, "/recipients/0/last_failure").contains("no route to"), "{why}");
    assert_eq!(server.json(&["queue", "remove", &lost]).last().expect("done")["matched"], 1);
    let status = &server.json(&["status"])[0];
    let sum = |field: &str| -> u64 {
        let shards = status["shards"].as_array().expect("shards");
        shards.iter().filter_map(|shard| shard[field].as_u64()).sum()
    };
    assert_eq!((sum("recipients"), sum("unreported")), (2, 2), "{status}");
    let held = server.command(&["queue", "hold", &found, "--reason", "wait"]);
    assert!(held.code != 0 && held.err.contains("cannot be held"), "{held:?}");
    // What can be read again is removed by name.
    change(&files, LATE[1], LATE[0]);
    assert_eq!(server.json(&["queue", "remove", &late]).last().expect("done")["matched"], 1);
    let is_late = |event: &Value| event["id"] == *late && event["recipient"] == "x@far.test";
    wait_until("its event", || files.events_of("removed").iter().any(is_late));
    assert_eq!(ids(&server.queue()), [&found]);
    // A disk that heals: the sender of the other one is told as soon as it can be read.
    change(&files, FOUND[1], FOUND[0]);
    assert_eq!(server.json(&["queue", "retry", &found]).last().expect("done")["matched"], 1);
    wait_until("an empty queue", || server.queue().is_empty() && !peer.taken().is_empty());
    let told: Vec<_> = peer.taken().into_iter().flat_map(|taken| taken.rcpt).collect();
    assert_eq!(told, ["RCPT TO:<a@one.test> NOTIFY=NEVER"]);
    server.stop();
}
