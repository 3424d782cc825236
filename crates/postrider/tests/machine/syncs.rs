//! What the kernel was asked to do, and when: every 250 after content must come after a completed
//! fdatasync that covers the message's record.
//!
//! Killing the process proves nothing about this, for the page cache survives it. So the real
//! binary runs under strace while sessions send mail, and the trace is judged. The same judge
//! must object to `durability = "os"`, or it judges nothing.

use crate::support::client::{Client, queued_id};
use crate::support::server::{CONFIG, POSTRIDER, Server};
use crate::support::{Files, wait_until};
use crate::trace::{self, Call, Trace};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;

mod x400;

const SESSIONS: usize = 6;
const PER_SESSION: usize = 14;
/// Bodies from here on go to a file of their own.
const BLOB_BYTES: usize = 64 << 10;

/// A relay under strace.
struct Traced {
    relay: Server,
    files: Files,
}

impl Traced {
    fn start(durability: &str) -> Traced {
        Traced::start_with(|spool| {
            format!(
                "hostname = \"relay.test\"\n\
                 [spool]\npath = {spool:?}\ndurability = \"{durability}\"\n\
                 segment_bytes = \"1MiB\"\nblob_bytes = {BLOB_BYTES}\nmin_free_bytes = \"1MiB\"\n\
                 [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n\
                 relay_from = [\"127.0.0.0/8\"]\n\
                 [[route]]\ndiscard = {{}}\n"
            )
        })
    }

    /// With what `config` says; it is told where the spool is.
    fn start_with(config: impl Fn(&Path) -> String) -> Traced {
        let files = Files::new();
        // strace shows paths from the root on.
        files.write(CONFIG, &config(&files.path("spool")));
        let mut command = Command::new("strace");
        command
            // -D: the child is the relay itself and strace its descendant, so that a signal to the
            // child ends the right one.
            .args(["-D", "-f", "-y", "-v", "-ttt", "-s", "200000", "-e", "signal=none"])
            .args(["-e", &format!("trace={}", trace::CALLS.join(",")), "-o", "trace"])
            .args([POSTRIDER, "serve", "--shards", "2", "--config", CONFIG]);
        Traced { relay: Server::spawn(command, files.dir()), files }
    }

    /// Ends the relay in the orderly way and reads what strace wrote.
    fn finish(self) -> Trace {
        // strace writes its last line when it has seen the end of the process.
        let end = format!("{} ", self.relay.pid().as_raw_nonzero());
        self.relay.stop();
        let mut text = String::new();
        wait_until("the end of strace", || {
            let bytes = std::fs::read(self.files.path("trace")).expect("strace began");
            text = String::from_utf8_lossy(&bytes).into_owned();
            let mut last = text.lines().rev().take(3);
            last.any(|line| line.starts_with(&end) && line.contains("+++ exited"))
        });
        Trace::parse(&text)
    }
}

/// A message as it was sent. `NAME` stands in the recipient's address and in the body, so that it
/// can be found in what was written.
struct Sent {
    name: String,
    content_bytes: usize,
    /// The id in the 250 reply.
    id: String,
}

fn send(client: &mut Client, name: String, body_bytes: usize, chunking: bool) -> Sent {
    let mut content = format!("Subject: {name}\r\n\r\n");
    let line = format!("{name} and what else there is to say\r\n");
    while content.len() < body_bytes {
        content.push_str(&line);
    }
    client.say("MAIL FROM:<sender@client.test>", "250");
    client.say(&format!("RCPT TO:<{name}@there.test>"), "250");
    let content_bytes = content.len();
    if chunking {
        client.send(format!("BDAT {content_bytes} LAST\r\n{content}"));
    } else {
        client.say("DATA", "354");
        client.send(content + ".\r\n");
    }
    Sent { name, content_bytes, id: queued_id(&client.expect("250")) }
}

/// Several sessions at once; in each some bodies are small, some not, and one is a blob.
fn send_mail(address: SocketAddr) -> Vec<Sent> {
    thread::scope(|scope| {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|session| {
                scope.spawn(move || {
                    let mut client = Client::connect(address);
                    let message = |number| {
                        let body_bytes = match number % 7 {
                            3 => BLOB_BYTES * 2 + 1000 * session,
                            1 | 5 => 40_000,
                            _ => 300 + 100 * number,
                        };
                        let name = format!("mark-{session}-{number}-end");
                        send(&mut client, name, body_bytes, (session + number) % 3 == 0)
                    };
                    (0..PER_SESSION).map(message).collect::<Vec<_>>()
                })
            })
            .collect();
        sessions.into_iter().flat_map(|session| session.join().expect("sent")).collect()
    })
}

/// Judges one trace.
struct Judge<'a> {
    trace: &'a Trace,
    directory: &'a str,
}

impl Judge<'_> {
    /// The write of the 250 for this message.
    fn reply(&self, sent: &Sent) -> &Call {
        let text = format!("250 2.0.0 Ok: queued as {}\\r\\n", sent.id);
        let mut replies =
            self.trace.calls().filter(|call| call.is_socket() && call.arguments.contains(&text));
        let reply = replies.next().expect("the client got it, so it was written");
        assert!(replies.next().is_none(), "one reply for one message");
        reply
    }

    /// A sync of `file` that began at or after `from` and had succeeded by `until`.
    fn synced(&self, name: &str, file: &str, from: usize, until: usize) -> Option<&Call> {
        self.trace.calls().find(|call| {
            let right = call.name == name && call.file == file && call.result == Some(0);
            right && call.begin > from && call.end < until
        })
    }

    /// What gave the file its name: its creation, or a rename; and what made the name durable.
    fn check_name(&self, file: &str, until: usize) -> Result<(), String> {
        let named = self.trace.calls().filter(|call| call.names(file) && call.end < until).last();
        let named = named.ok_or_else(|| format!("{file} comes from nowhere"))?;
        let synced = self.synced("fsync", self.directory, named.end, until);
        synced.map(|_| ()).ok_or_else(|| format!("the name {file} is not synced"))
    }

    /// Everything that must have been before the 250 was.
    fn check(&self, sent: &Sent) -> Result<(), String> {
        let marks = [format!("{}@there.test", sent.name), format!("{} and what else", sent.name)];
        self.check_until(sent, [&marks[0], &marks[1]], self.reply(sent).begin)
    }

    /// Everything that must have been before a line of the trace. The record has these marks: by the first it is
    /// found, the second is in its content.
    fn check_until(&self, sent: &Sent, marks: [&str; 2], until: usize) -> Result<(), String> {
        let [mark, content] = marks;
        let is_its = |call: &&Call| call.is_record() && call.arguments.contains(mark);
        let record = self.trace.calls().find(is_its);
        let record = record.filter(|record| record.end < until).ok_or("no record was written")?;
        if record.result != Some(record.wanted_bytes()) {
            return Err(format!("the record was not written whole: {:?}", record.result));
        }
        if sent.content_bytes >= BLOB_BYTES {
            self.check_blob(sent, record)?;
        } else if !record.arguments.contains(content) {
            return Err("the record does not hold the content".to_owned());
        }
        self.synced("fdatasync", &record.file, record.end, until)
            .ok_or_else(|| format!("{} was not synced between record and 250", record.file))?;
        self.check_name(&record.file, until)
    }

    /// A body in a file of its own: written, synced, its name synced, and only then the record.
    fn check_blob(&self, sent: &Sent, record: &Call) -> Result<(), String> {
        let blobs = || self.trace.calls().filter(|c| c.is_write() && c.file.ends_with(".blob"));
        let first = blobs().find(|call| call.arguments.contains(&sent.name));
        let file = &first.ok_or("no blob was written")?.file;
        let (mut written, mut end) = (0, 0);
        for call in blobs().filter(|call| &call.file == file) {
            written += call.result.unwrap_or(0);
            end = end.max(call.end);
        }
        if written != sent.content_bytes as i64 {
            return Err(format!("{written} bytes in {file} instead of {}", sent.content_bytes));
        }
        let synced = self.synced("fdatasync", file, end, record.begin).ok_or_else(|| {
            format!("{file} was not synced between its last write and its record")
        })?;
        self.synced("fsync", self.directory, synced.end, record.begin)
            .ok_or_else(|| format!("the name of {file} was not synced before its record"))?;
        Ok(())
    }
}

/// What the judge says of each message, and how many segments were written.
fn run(durability: &str) -> (BTreeMap<String, Result<(), String>>, usize) {
    let relay = Traced::start(durability);
    let sent = send_mail(relay.relay.address());
    assert_eq!(sent.len(), SESSIONS * PER_SESSION);
    let directory = relay.files.path("spool");
    let directory = directory.to_str().expect("UTF-8").to_owned();
    let trace = relay.finish();
    let judge = Judge { trace: &trace, directory: &directory };
    let segments: BTreeSet<_> =
        trace.calls().filter(|call| call.is_record()).map(|call| &call.file).collect();
    let verdicts = sent.iter().map(|sent| (sent.name.clone(), judge.check(sent))).collect();
    (verdicts, segments.len())
}

#[test]
fn every_250_follows_a_sync_that_covers_its_record() {
    let (verdicts, segments) = run("sync");
    for (name, verdict) in &verdicts {
        assert_eq!(verdict, &Ok(()), "{name}");
    }
    assert!(segments > 1, "the log went on in another segment while it was watched");
}

#[test]
fn without_syncs_the_same_judge_objects() {
    let (verdicts, _) = run("os");
    for (name, verdict) in &verdicts {
        let objection = verdict.as_ref().expect_err(name);
        assert!(objection.contains("not synced"), "{name}: {objection}");
    }
}
