//! Backups of a running server, and their way back.

use crate::support::client::{Client, queued_id};
use crate::support::peer::Peer;
use crate::support::server::{self, CONFIG, POSTRIDER, Server};
use crate::support::{Files, config, wait_until};
use serde_json::Value;
use skips::Machine;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Mail for up.test goes to the peer, all other mail stays. The event log is not on the spool's disk.
fn config_to(peer: &Peer) -> String {
    config(&format!(
        "[events]\npath = \"log/events.jsonl\"\n[[route]]\ndomains = [\"up.test\"]\nsmtp = {{ hosts = [\"{}\"], tls = \
         \"off\" }}\n[[route]]\nsmtp = {{ hosts = [\"127.0.0.1:1\"] }}\n",
        peer.address
    ))
}

fn start(files: &Files) -> (Peer, Server) {
    fs::create_dir_all(files.path("log")).expect("a directory");
    let peer = Peer::start(|_| None);
    let server = Server::start(files, &config_to(&peer));
    (peer, server)
}

fn run(files: &Files, words: &[&str]) -> server::Answer {
    server::command(files.dir(), words)
}

fn back_up(files: &Files) -> Value {
    let answer = run(files, &["spool", "backup", "backup", "--json"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    serde_json::from_str(&answer.out).expect("JSON")
}

fn restore(files: &Files) -> Value {
    let answer = run(files, &["spool", "restore", "backup", "--json"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    serde_json::from_str(&answer.out).expect("JSON")
}

/// The spool is lost.
fn lose_spool(files: &Files) {
    fs::remove_dir_all(files.path("spool")).expect("ours");
}

/// Ids in the queue, with the reason of the hold.
fn queued(server: &Server) -> Vec<(String, Option<String>)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let of = |item: &Value| (text(&item["id"]).expect("an id"), text(&item["held"]));
    let items = server.json(&["queue", "list", "--limit", "100000"]);
    items.iter().filter(|item| item["response"] == "item").map(of).collect()
}

#[test]
fn restored_mail_is_held_and_released_but_for_what_was_delivered() {
    let files = Files::new();
    let (peer, server) = start(&files);
    run(&files, &["queue", "suspend", "--domain", "up.test", "--reason", "later"]);
    let mut client = Client::connect(server.address());
    let content = "Subject: x\r\n\r\nbody\r\n";
    let stays = client.mail("a@a.test", &["one@down.test"], content);
    let half = client.mail("a@a.test", &["two@up.test", "three@down.test"], content);
    client.mail("a@a.test", &["four@up.test"], content);
    let held = client.mail("a@a.test", &["five@up.test"], content);
    run(&files, &["queue", "hold", &held, "--reason", "asked"]);
    back_up(&files);

    // Delivered since, and accepted since.
    run(&files, &["queue", "resume", "--domain", "up.test"]);
    peer.wait_taken(2);
    let later = client.mail("a@a.test", &["six@up.test"], content);
    peer.wait_taken(3);
    wait_until("three deliveries in the log", || {
        let text = fs::read_to_string(files.path("log/events.jsonl")).unwrap_or_default();
        text.matches("\"event\":\"relayed\"").count() == 3
    });
    server.kill();
    lose_spool(&files);

    let report = restore(&files);
    assert_eq!((&report["messages"], &report["held_before"]), (&4.into(), &1.into()), "{report}");
    let server = Server::start_again(&files);
    let all = queued(&server);
    let is_restored = |held: &Option<String>| {
        held.as_deref().is_some_and(|reason| reason.starts_with("restored from the backup of 2"))
    };
    let reasons: Vec<bool> = all.iter().map(|(_, held)| is_restored(held)).collect();
    assert_eq!(reasons.iter().filter(|is| **is).count(), 3, "{all:?}");
    assert!(all.contains(&(held.clone(), Some("asked".to_owned()))), "{all:?}");
    // The suspension is part of the backup.
    let status = server.command(&["status"]).out;
    assert!(status.contains("later"), "{status}");
    run(&files, &["queue", "resume", "--domain", "up.test"]);

    let words = ["queue", "release", "--failure", "restored from the backup"];
    let missing = run(&files, &[&words[..], &["--not-in", "log/none.jsonl"]].concat());
    assert_eq!(missing.code, 1, "{missing:?}");
    let released = run(&files, &[&words[..], &["--not-in", "log/events.jsonl"]].concat());
    assert_eq!(released.code, 0, "{released:?}");
    assert_eq!(released.out, "recipients removed: 2, messages released: 2\n", "{released:?}");
    let ids: BTreeSet<_> = queued(&server).into_iter().filter(|one| one.1.is_none()).collect();
    let expected = BTreeSet::from([(stays, None), (half.clone(), None)]);
    assert_eq!(ids, expected);
    let show = server.command(&["queue", "show", &half]).out;
    assert!(show.contains("three@down.test") && !show.contains("two@up.test"), "{show}");
    // New mail gets no id of the lost time.
    let mut client = Client::connect(server.address());
    let fresh = client.mail("a@a.test", &["seven@up.test"], content);
    assert!(fresh > later, "{fresh} {later}");
    peer.wait_taken(4);
    server.stop();
}

/// Clients that send until they are told to stop; the ids of what was accepted.
struct Load {
    stops: Arc<AtomicBool>,
    accepted: Arc<Mutex<Vec<String>>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start(server: &Server, domain: &'static str) -> Load {
        let (stops, accepted) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let start = |number: usize| {
            let (address, stops, accepted) =
                (server.address(), Arc::clone(&stops), Arc::clone(&accepted));
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                let body = "z".repeat(60).repeat(200 * (number + 1)).replace("zzzzzz", "zzzz\r\n");
                while !stops.load(Ordering::Relaxed) {
                    let command =
                        format!("MAIL FROM:<a@a.test>\r\nRCPT TO:<b{number}@{domain}>\r\nDATA\r\n");
                    if !client.try_send(command) {
                        return;
                    }
                    if (0..3).any(|_| client.reply().is_empty()) {
                        return;
                    }
                    let _ = client.try_send(format!("Subject: load\r\n\r\n{body}\r\n.\r\n"));
                    let reply = client.reply();
                    if reply.is_empty() {
                        return;
                    }
                    assert!(reply.starts_with("250"), "{reply}");
                    let accepted: &Mutex<Vec<String>> = &accepted;
                    accepted.lock().expect("no panic").push(queued_id(&reply));
                }
            })
        };
        let threads = (0..3).map(start).collect();
        Load { stops, accepted, threads }
    }

    fn accepted(&self) -> Vec<String> {
        self.accepted.lock().expect("no panic").clone()
    }

    fn stop(self) {
        self.stops.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("no panic");
        }
    }
}

#[test]
fn backup_under_load_has_all_that_was_accepted_before() {
    let files = Files::new();
    let (_peer, server) = start(&files);
    let load = Load::start(&server, "down.test");
    wait_until("some mail", || load.accepted().len() > 100);
    let first = back_up(&files);
    assert!(first["new_files"].as_u64() > Some(0), "{first}");
    wait_until("some more mail", || load.accepted().len() > 400);
    let before = load.accepted();
    back_up(&files);
    let again = back_up(&files);
    assert!(again["new_files"].as_u64() < again["files"].as_u64(), "{again}");
    assert!(!files.path("spool/backup-staging").exists());
    // A further one is killed, and so is the server.
    let mut killed = Command::new(POSTRIDER);
    killed.args(["spool", "backup", "backup", "--config", CONFIG]).current_dir(files.dir());
    let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    std::thread::sleep(Duration::from_millis(30));
    let _ = killed.kill();
    let _ = killed.wait();
    server.kill();
    load.stop();
    lose_spool(&files);

    let report = restore(&files);
    assert!(report["messages"].as_u64() >= Some(before.len() as u64), "{report} {}", before.len());
    let verified = server::program(files.dir(), &["spool", "verify", "spool", "--json"]);
    assert_eq!(verified.code, 0, "{verified:?}");
    let server = Server::start_again(&files);
    let restored: BTreeSet<String> = queued(&server).into_iter().map(|one| one.0).collect();
    let missing: Vec<_> = before.iter().filter(|id| !restored.contains(*id)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    server.stop();
}

/// Segments that a backup shares are not used again: their content would change there, too.
#[test]
fn backup_keeps_its_content_while_the_spool_goes_on() {
    let files = Files::new();
    let (peer, server) = start(&files);
    let load = Load::start(&server, "down.test");
    // More than two segments of 8 MiB.
    wait_until("some segments", || load.accepted().len() > 900);
    load.stop();
    let count = queued(&server).len() as u64;
    back_up(&files);
    let answer = run(&files, &["queue", "remove", "--all"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    let load = Load::start(&server, "up.test");
    wait_until("as much again", || load.accepted().len() > 1_500);
    load.stop();
    wait_until("all to be delivered", || queued(&server).is_empty());
    assert!(peer.taken().len() > 1_500);
    server.stop();
    lose_spool(&files);
    let report = restore(&files);
    assert_eq!(report["messages"].as_u64(), Some(count), "{report}");
    let verified = server::program(files.dir(), &["spool", "verify", "spool", "--json"]);
    assert_eq!(verified.code, 0, "{verified:?}");
}

#[test]
fn restore_that_is_killed_lets_no_server_start() {
    let files = Files::new();
    let (_peer, server) = start(&files);
    let mut client = Client::connect(server.address());
    for n in 0..20 {
        client.mail("a@a.test", &[&format!("u{n}@down.test")], "Subject: x\r\n\r\n");
    }
    let early = run(&files, &["spool", "restore", "backup"]);
    assert!(early.err.contains("backup is no backup"), "{early:?}");
    back_up(&files);
    server.stop();
    let full = run(&files, &["spool", "restore", "backup"]);
    assert!(full.err.contains("spool has a spool: move it away"), "{full:?}");
    lose_spool(&files);
    // As it is left by a crash.
    fs::create_dir(files.path("spool")).expect("ours");
    files.write("spool/restore-unfinished", "");
    files.write("spool/00000001-0000000000000002.segment", "half");
    let refused = run(&files, &["serve"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("a restore into it was not finished"), "{refused:?}");
    assert_eq!(restore(&files)["messages"], 20);
    // A backup with a part missing is none.
    let log = files.path("backup/log0");
    let part = fs::read_dir(&log).expect("a directory").next().expect("a file").expect("a file");
    fs::write(part.path(), "cut").expect("ours");
    lose_spool(&files);
    let cut = run(&files, &["spool", "restore", "backup"]);
    assert!(cut.code == 1 && cut.err.contains("has 3 octets, not "), "{cut:?}");
    assert!(!files.path("spool").exists());
}

#[test]
fn full_target_is_no_backup_and_leaves_the_earlier_one() {
    if !rustix::process::geteuid().is_root() {
        skips::machine(Machine::Root, "a small file system is mounted");
        return;
    }
    let files = Files::new();
    let (_peer, server) = start(&files);
    let mut client = Client::connect(server.address());
    client.mail("a@a.test", &["one@down.test"], "Subject: x\r\n\r\n");
    fs::create_dir(files.path("backup")).expect("ours");
    // One backup fits; then the target is full; then it is restored elsewhere.
    let script = "mount -t tmpfs -o size=2m none backup || exit 9
$0 spool backup backup --config $1 || exit 8
head -c 2m /dev/zero > backup/filler
$0 spool backup backup --config $1 && exit 7
rm backup/filler
cp -r backup whole";
    let mut unshared = Command::new("unshare");
    unshared.args(["--mount", "sh", "-c", script, POSTRIDER, CONFIG]).current_dir(files.dir());
    let output = unshared.env("POSTRIDER_CONFIG", "").output().expect("unshare runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(9) {
        skips::machine(Machine::Namespaces, "it may not mount");
        return;
    }
    assert!(output.status.success(), "{:?} {text}", output.status);
    assert!(text.contains("No space left on device"), "{text}");
    assert!(text.contains("there is no new backup, an earlier one is still whole"), "{text}");
    server.kill();
    lose_spool(&files);
    let restored = run(&files, &["spool", "restore", "whole", "--json"]);
    assert_eq!(restored.code, 0, "{restored:?}");
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success());
}

#[test]
fn copy_of_a_running_spool_is_refused() {
    let files = Files::new();
    let (peer, server) = start(&files);
    copy(&files.path("spool"), &files.path("live"));
    server.stop();
    copy(&files.path("spool"), &files.path("stopped"));
    let with =
        |path: &str| config_to(&peer).replace("path = \"spool\"", &format!("path = \"{path}\""));
    files.write(CONFIG, &with("live"));
    let refused = run(&files, &["serve"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("it is a copy of a spool in use"));
    assert!(refused.err.contains("docs/moving.md#backup"), "{refused:?}");
    Server::start(&files, &with("stopped")).stop();
    // A crash is no copy.
    Server::start(&files, &config_to(&peer)).kill();
    Server::start_again(&files).stop();
}
