//! Queue files that are cut, foreign or in the wrong place, and an import that ends at the worst moment.

use crate::support::server::{self, Server};
use crate::support::{Files, config};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

/// A queue directory as Postfix makes it, without Postfix.
struct Queue(PathBuf);

/// A record of a queue file; all of these are short.
fn record(kind: u8, data: &str) -> Vec<u8> {
    let length = u8::try_from(data.len()).ok().filter(|length| *length < 128);
    [&[kind, length.expect("a short record")], data.as_bytes()].concat()
}

fn records(records: &[(u8, &str)]) -> Vec<u8> {
    records.iter().flat_map(|(kind, data)| record(*kind, data)).collect()
}

/// A whole message to this recipient.
fn message(recipient: &str) -> Vec<u8> {
    records(&[
        (b'C', "             11             100               1               0              11"),
        (b'T', "1700000000 5"),
        (b'S', "jo@a.test"),
        (b'R', recipient),
        (b'M', ""),
        (b'N', "Subject: x"),
        (b'X', ""),
        (b'E', ""),
    ])
}

impl Queue {
    fn new(files: &Files) -> Queue {
        let queue = Queue(files.path("postfix"));
        for name in ["hold", "deferred", "active", "incoming", "maildrop", "corrupt", "pid"] {
            fs::create_dir_all(queue.0.join(name)).expect("a directory");
        }
        queue
    }

    /// Writes a queue file with a name that has its inode, in the right directory or in `below`.
    fn add(&self, queue: &str, below: Option<&str>, content: &[u8]) -> PathBuf {
        let path = self.0.join(queue).join("new");
        fs::write(&path, content).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("ours");
        let inode = fs::metadata(&path).expect("a file").ino();
        let directory = match below.unwrap_or("A") {
            "" => self.0.join(queue),
            below => self.0.join(queue).join(below),
        };
        fs::create_dir_all(&directory).expect("a directory");
        let named = directory.join(format!("A1234{inode:X}"));
        fs::rename(path, &named).expect("ours");
        named
    }
}

fn import(files: &Files, more: &[&str]) -> server::Answer {
    let words = ["spool", "import", "postfix", "postfix"];
    server::command(files.dir(), &[&words, more].concat())
}

fn json(files: &Files, more: &[&str]) -> Value {
    let answer = import(files, &[&["--json"], more].concat());
    serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

/// A server that has nowhere to send mail.
fn stopped_server(files: &Files) {
    let route = "[[route]]\nsmtp = { hosts = [\"127.0.0.1:1\"] }\n";
    Server::start(files, &config(route)).stop();
}

/// The open recipients in the queue, each with the reason of a hold.
fn queued(server: &Server) -> Vec<(String, Option<String>)> {
    let of = |item: &Value| {
        let address = item["recipients"][0]["address"].as_str().expect("an address").to_owned();
        (address, item["held"].as_str().map(str::to_owned))
    };
    let mut all: Vec<_> = server.queue().iter().map(of).collect();
    all.sort();
    all
}

fn name_of(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

#[test]
fn files_that_cannot_be_imported_are_named_and_left() {
    let files = Files::new();
    let queue = Queue::new(&files);
    stopped_server(&files);
    let good = queue.add("deferred", None, &message("good@b.test"));
    let whole = message("a@b.test");
    let unfinished = queue.add("incoming", Some(""), &whole);
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o600)).expect("ours");
    let renamed = queue.add("deferred", None, &whole);
    let other = renamed.with_file_name("A12341");
    fs::rename(&renamed, &other).expect("ours");
    let linked = queue.0.join("active/A1234B");
    symlink(&good, &linked).expect("a link");
    let locked = queue.add("active", Some(""), &whole);
    let lock = fs::File::open(&locked).expect("a file");
    lock.lock().expect("free");
    let foreign = queue.0.join("hold/core.1234");
    fs::write(&foreign, "x").expect("a file");
    let done = records(&[(b'C', "5"), (b'T', "9"), (b'S', ""), (b'D', "a@b.test"), (b'M', "")]);
    let done = [done, records(&[(b'N', "x"), (b'X', ""), (b'E', "")])].concat();
    let maildrop = queue.add("maildrop", Some(""), b"");
    let corrupt = queue.add("corrupt", Some(""), &whole);
    let expected = [
        (queue.add("deferred", None, &whole[..whole.len() - 3]), "corrupt at byte 130: no length"),
        (queue.add("deferred", None, b"no queue file"), "corrupt at byte 0: it"),
        (queue.add("deferred", Some("B"), &whole), "it is in the wrong directory"),
        (queue.add("hold", Some(""), &message("root")), "its recipient root: it has no domain"),
        (queue.add("hold", Some(""), &done), "no recipient is open (1 done)"),
        (unfinished, "Postfix had not finished it"),
        (other, "its name has another inode: if the queue is a copy, add --copied"),
        (linked, "it is no file"),
        (locked, "a process of Postfix has it open"),
        (foreign, "its name is no queue id"),
        (maildrop, "pickup(8) has not taken it"),
        (corrupt, "Postfix found it corrupt"),
    ];
    let report = json(&files, &[]);
    assert_eq!((&report["messages"], &report["recipients"]), (&1.into(), &1.into()), "{report}");
    let left = report["left"].as_array().expect("a list");
    for (path, why) in &expected {
        let path = format!("postfix/{}", path.strip_prefix(&queue.0).expect("below").display());
        let named = left.iter().find(|one| one["path"] == path.as_str());
        let reason = named.unwrap_or_else(|| panic!("{path}: {report:#}"))["reason"].as_str();
        assert!(reason.is_some_and(|reason| reason.contains(why)), "{path}: {reason:?}");
        assert!(queue.0.join(path.trim_start_matches("postfix/")).symlink_metadata().is_ok());
    }
    assert_eq!(left.len(), expected.len(), "{report:#}");
    assert!(!good.exists());
    assert!(queue.0.join("imported-postrider/deferred").join(name_of(&good)).exists());
    // As text, each on a line; a failure, so that no script takes it for done.
    drop(lock);
    let again = import(&files, &["--copied"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.out.starts_with("imported:  2 messages, 2 recipients"), "{again:?}");
    assert_eq!(again.err.lines().count(), expected.len() - 2, "{again:?}");
}

#[test]
fn import_needs_both_servers_stopped() {
    let files = Files::new();
    let queue = Queue::new(&files);
    let config = config("[[route]]\ndiscard = {}\n");
    files.write(server::CONFIG, &config);
    let none = import(&files, &[]);
    assert_eq!(none.code, 1, "{none:?}");
    assert!(none.err.contains("start the server once"), "{none:?}");
    let server = Server::start(&files, &config);
    let running = import(&files, &[]);
    assert!(running.err.contains("stop the server first"), "{running:?}");
    server.stop();
    let pid = queue.0.join("pid/master.pid");
    fs::write(&pid, "   1\n").expect("a file");
    let master = fs::File::open(&pid).expect("a file");
    master.lock().expect("free");
    let locked = import(&files, &[]);
    assert!(locked.err.contains("Postfix is running in postfix: stop it"), "{locked:?}");
    drop(master);
    let in_memory = config.replace("path = \"spool\"", "path = \"spool\"\ndurability = \"memory\"");
    files.write(server::CONFIG, &in_memory);
    let in_memory = import(&files, &[]);
    assert!(in_memory.err.contains("the spool is in memory"), "{in_memory:?}");
    fs::remove_dir(queue.0.join("active")).expect("empty");
    let foreign = import(&files, &[]);
    assert!(foreign.err.contains("it has no active/"), "{foreign:?}");
}

/// An import that ends between the sync here and the move there, by a file that is in the way.
#[test]
fn crash_between_sync_and_move_sends_nothing_twice() {
    let files = Files::new();
    let queue = Queue::new(&files);
    stopped_server(&files);
    let one = queue.add("deferred", None, &message("one@b.test"));
    let two = queue.add("hold", Some(""), &message("two@b.test"));
    let aside = queue.0.join("imported-postrider/deferred");
    fs::create_dir_all(&aside).expect("a directory");
    let blocker = aside.join(name_of(&one));
    fs::write(&blocker, "in the way").expect("a file");
    let failed = import(&files, &[]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(failed.err.contains("cannot move"), "{failed:?}");

    // Whatever runs now: nothing is sent.
    let server = Server::start_again(&files);
    let held = queued(&server);
    let hold = |address: &str, path: &Path| {
        let reason =
            format!("import not finished: run the import again (postfix {})", name_of(path));
        (address.to_owned(), Some(reason))
    };
    assert_eq!(held, [hold("one@b.test", &one), hold("two@b.test", &two)]);
    server.stop();

    // The first was not moved, and in the meantime Postfix has delivered to one of its recipients.
    let both = [(b'C', "5"), (b'T', "9"), (b'S', ""), (b'D', "one@b.test"), (b'R', "new@b.test")];
    let rest = [(b'M', ""), (b'N', "x"), (b'X', ""), (b'E', "")];
    fs::write(&one, records(&[&both[..], &rest].concat())).expect("ours");
    fs::remove_file(&blocker).expect("ours");
    let report = json(&files, &[]);
    assert_eq!((&report["messages"], &report["finished"]), (&1.into(), &1.into()), "{report}");
    let server = Server::start_again(&files);
    let held = Some("held in Postfix".to_owned());
    let expected = [("new@b.test".to_owned(), None), ("two@b.test".to_owned(), held)];
    assert_eq!(queued(&server), expected);
    server.stop();

    // A file that is gone may have been delivered.
    let three = queue.add("deferred", None, &message("three@b.test"));
    fs::write(aside.join(name_of(&three)), "in the way").expect("a file");
    assert_eq!(import(&files, &[]).code, 1);
    fs::remove_file(aside.join(name_of(&three))).expect("ours");
    fs::remove_file(&three).expect("ours");
    let report = json(&files, &[]);
    assert_eq!(report["uncertain"].as_array().map(Vec::len), Some(1), "{report}");
    let server = Server::start_again(&files);
    let reason =
        queued(&server).into_iter().find(|one| one.0 == "three@b.test").and_then(|one| one.1);
    assert!(reason.is_some_and(|reason| reason.starts_with("import not finished")));
}
