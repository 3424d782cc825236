//! What the kernel was asked to do, and when: every 250 after content must come after a completed
//! fdatasync that covers the message's record.
//!
//! Killing the process proves nothing about this, for the page cache survives it. So the real
//! binary runs under strace while sessions send mail, and the trace is judged. The same judge
//! must object to `durability = "os"`, or it judges nothing.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod trace;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use trace::{Call, Trace};

/// The longest that anything here may take.
const WAIT_MAX: Duration = Duration::from_secs(60);
const SESSIONS: usize = 6;
const PER_SESSION: usize = 14;
/// Bodies from here on go to a file of their own.
const BLOB_BYTES: usize = 64 << 10;

/// A relay under strace; killed when the test ends.
struct Traced {
    relay: Child,
    trace: PathBuf,
    address: String,
    directory: tempfile::TempDir,
}

impl Traced {
    fn start(durability: &str) -> Traced {
        // Beside the build, not in /tmp: that may be a tmpfs, where nothing is synced.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let config = directory.path().join("config.toml");
        let spool = directory.path().join("spool");
        let text = format!(
            "hostname = \"relay.test\"\n\
             [spool]\npath = {spool:?}\ndurability = \"{durability}\"\n\
             segment_bytes = \"1MiB\"\nblob_bytes = {BLOB_BYTES}\nmin_free_bytes = \"1MiB\"\n\
             [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n\
             relay_from = [\"127.0.0.0/8\"]\n\
             [[route]]\ndiscard = {{}}\n"
        );
        std::fs::write(&config, text).expect("written");
        let trace = directory.path().join("trace");
        let mut relay = Command::new("strace")
            // -D: the child is the relay itself and strace its descendant, so that a signal to the
            // child ends the right one.
            .args(["-D", "-f", "-y", "-v", "-ttt", "-s", "200000"])
            .args(["-e", "signal=none"])
            .args(["-e", &format!("trace={}", trace::CALLS.join(","))])
            .arg("-o")
            .arg(&trace)
            .arg(env!("CARGO_BIN_EXE_postrider"))
            .args(["serve", "--shards", "2", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace is there (scripts/install-test-packages)");
        let mut lines = BufReader::new(relay.stderr.take().expect("a pipe")).lines();
        let address = loop {
            let line = lines.next().expect("it listens before it ends").expect("text");
            if let Some((_, rest)) = line.split_once("listening on ") {
                break rest.split(' ').next().expect("an address").to_owned();
            }
        };
        // Its console must not block it.
        thread::spawn(move || lines.count());
        Traced { relay, trace, address, directory }
    }

    /// Ends the relay in the orderly way and reads what strace wrote.
    fn finish(mut self) -> Trace {
        let pid = rustix::process::Pid::from_child(&self.relay);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        let status = self.relay.wait().expect("a child");
        assert!(status.success(), "{status}");
        // strace writes its last line when it has seen the end of the process.
        let end = format!("{} ", pid.as_raw_nonzero());
        let begun = Instant::now();
        loop {
            let text = String::from_utf8_lossy(&std::fs::read(&self.trace).expect("it is there"))
                .into_owned();
            let mut last = text.lines().rev().take(3);
            if last.any(|line| line.starts_with(&end) && line.contains("+++ exited")) {
                return Trace::parse(&text);
            }
            assert!(begun.elapsed() < WAIT_MAX, "strace doesn't end");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn spool(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.relay.kill();
        let _ = self.relay.wait();
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

struct Client {
    output: TcpStream,
    input: BufReader<TcpStream>,
}

impl Client {
    fn connect(address: &str) -> Client {
        let output = TcpStream::connect(address).expect("it listens");
        output.set_read_timeout(Some(WAIT_MAX)).expect("set");
        output.set_nodelay(true).expect("set");
        let input = BufReader::new(output.try_clone().expect("cloned"));
        let mut client = Client { output, input };
        client.reply("220");
        client.say(b"EHLO client.test\r\n", "250");
        client
    }

    fn say(&mut self, bytes: &[u8], code: &str) -> String {
        self.output.write_all(bytes).expect("sent");
        self.reply(code)
    }

    fn reply(&mut self, code: &str) -> String {
        loop {
            let mut line = String::new();
            self.input.read_line(&mut line).expect("a reply");
            assert!(line.starts_with(code), "{code} was expected: {line:?}");
            if line.as_bytes().get(3) == Some(&b' ') {
                return line;
            }
        }
    }

    fn send(&mut self, name: String, body_bytes: usize, chunking: bool) -> Sent {
        let mut content = format!("Subject: {name}\r\n\r\n").into_bytes();
        let line = format!("{name} and what else there is to say\r\n");
        while content.len() < body_bytes {
            content.extend_from_slice(line.as_bytes());
        }
        self.say(b"MAIL FROM:<sender@client.test>\r\n", "250");
        self.say(format!("RCPT TO:<{name}@there.test>\r\n").as_bytes(), "250");
        let content_bytes = content.len();
        let accepted = if chunking {
            let mut command = format!("BDAT {content_bytes} LAST\r\n").into_bytes();
            command.append(&mut content);
            self.say(&command, "250")
        } else {
            self.say(b"DATA\r\n", "354");
            content.extend_from_slice(b".\r\n");
            self.say(&content, "250")
        };
        let (_, id) = accepted.trim_end().split_once("queued as ").expect("an id");
        Sent { name, content_bytes, id: id.to_owned() }
    }
}

/// Several sessions at once; in each some bodies are small, some not, and one is a blob.
fn send_mail(address: &str) -> Vec<Sent> {
    thread::scope(|scope| {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|session| {
                scope.spawn(move || {
                    let mut client = Client::connect(address);
                    let send = |number| {
                        let body_bytes = match number % 7 {
                            3 => BLOB_BYTES * 2 + 1000 * session,
                            1 | 5 => 40_000,
                            _ => 300 + 100 * number,
                        };
                        let name = format!("mark-{session}-{number}-end");
                        client.send(name, body_bytes, (session + number) % 3 == 0)
                    };
                    (0..PER_SESSION).map(send).collect::<Vec<_>>()
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
        let until = self.reply(sent).begin;
        let recipient = format!("{}@there.test", sent.name);
        let record = self.trace.calls().find(|call| {
            let written = call.is_write() && call.file.ends_with(".segment");
            written && call.arguments.contains(&recipient)
        });
        let record = record.filter(|record| record.end < until).ok_or("no record was written")?;
        if record.result != Some(record.wanted_bytes()) {
            return Err(format!("the record was not written whole: {:?}", record.result));
        }
        if sent.content_bytes >= BLOB_BYTES {
            self.check_blob(sent, record)?;
        } else if !record.arguments.contains(&format!("{} and what else", sent.name)) {
            return Err("the record does not hold the content".to_owned());
        }
        self.synced("fdatasync", &record.file, record.end, until)
            .ok_or_else(|| format!("{} was not synced between record and 250", record.file))?;
        self.check_name(&record.file, until)
    }

    /// A body in a file of its own: written, synced, its name synced, and only then the record.
    fn check_blob(&self, sent: &Sent, record: &Call) -> Result<(), String> {
        let mut file = None;
        let (mut written, mut end) = (0, 0);
        for call in self.trace.calls().filter(|call| call.file.ends_with(".blob")) {
            // The marker is in every line, so in every piece.
            if call.is_write() && call.arguments.contains(&sent.name) {
                assert!(file.is_none_or(|file| file == &call.file), "one blob for one body");
                file = Some(&call.file);
                written += call.result.unwrap_or(0);
                end = end.max(call.end);
            }
        }
        let file = file.ok_or("no blob was written")?;
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
    let sent = send_mail(&relay.address);
    assert_eq!(sent.len(), SESSIONS * PER_SESSION);
    let directory = relay.spool().join("spool");
    let directory = directory.to_str().expect("UTF-8").to_owned();
    let trace = relay.finish();
    let judge = Judge { trace: &trace, directory: &directory };
    let segments: BTreeSet<_> = trace
        .calls()
        .filter(|call| call.is_write() && call.file.ends_with(".segment"))
        .map(|call| &call.file)
        .collect();
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
