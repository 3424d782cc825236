//! Rows about spool files that are not what they were.
//!
//! A server takes messages that it can't pass on and is stopped. For each row a copy of its spool is
//! changed as `do:` says; then:
//!
//! - `V: …`: what `postrider spool verify` says, `=: N`: its exit code;
//! - `L: …`: what a server with this spool logs about it when it starts (`refused: yes`: it does
//!   not, and this is what it says);
//! - `D: …`: the messages that arrive at the next hop when that comes up, `new` being one that is
//!   sent after the start; each once and as it was, unless said otherwise;
//! - `Q: …`: what is still queued then: why it failed last, or where its record can't be read, for
//!   whom it is and what it waits for;
//! - `E: …`: errors that are logged after the start, each once.

use super::table::{self, Row, is_writing};
use crate::support::client::Client;
use crate::support::peer::{Peer, Taken};
use crate::support::server::{Answer, CONFIG, POSTRIDER, Server, program};
use crate::support::tool::free_port;
use crate::support::{Files, wait_until};
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Subjects and how many lines there are. `wide` and `wider` fill the first segment, so that `late`
/// and `last` come into the second one; `big` gets a blob.
const MESSAGES: [(&str, usize); 7] = [
    ("one", 1),
    ("two", 1),
    ("big", 30_000),
    ("wide", 22_000),
    ("wider", 22_000),
    ("late", 10_000),
    ("last", 1),
];

/// Batches begin at multiples of it.
const BLOCK_BYTES: usize = 4096;

fn body(subject: &str) -> String {
    let lines = MESSAGES.iter().find(|(name, _)| *name == subject).map_or(1, |(_, lines)| *lines);
    format!(
        "Subject: {subject}\r\n\r\n{}",
        "What stands in the message stays as it is.\r\n".repeat(lines)
    )
}

fn config(hop: &str, node: u16, paths: &str) -> String {
    format!(
        "hostname = \"relay.test\"\n[spool]\n{paths}\nnode = {node}\nsegment_bytes = \"2MiB\"\n\
         min_free_bytes = \"16MiB\"\nblob_bytes = \"1MiB\"\n[events]\npath = \"events.jsonl\"\n\
         [[listener]]\naddress = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n\
         [[route]]\ndomains = [\"warm.test\"]\ndiscard = {{}}\n[[route]]\nsmtp = {{ hosts = [\"{hop}\"] }}\n[retry]\nfirst = \"1s\"\nlongest = \"1s\"\n"
    )
}

fn dead_hop() -> String {
    format!("127.0.0.1:{}", free_port())
}

fn send(server: &Server, to: &str, subject: &str) {
    let mut client = Client::connect(server.address());
    client.mail("a@client.test", &[to], &body(subject));
}

/// A spool with [`MESSAGES`].
fn original() -> Files {
    let files = Files::new();
    let server = Server::start(&files, &config(&dead_hop(), 0, "path = \"spool\""));
    // The first segment is there at once, and left as soon as a second one is written to the end.
    send(&server, "x@warm.test", "warm");
    wait_until("a second segment", || with_extension(&files, "segment").len() > 1);
    // What settles it would come into one batch with the first of the others.
    let events = || std::fs::read_to_string(files.path("events.jsonl")).unwrap_or_default();
    wait_until("a settled message", || events().contains("\"delivered\""));
    MESSAGES.iter().for_each(|(subject, _)| send(&server, "b@far.test", subject));
    server.stop();
    let first = only(&files, "segment", "Subject: one");
    assert_eq!(first, only(&files, "segment", "Subject: two"));
    assert_ne!(first, only(&files, "segment", "Subject: last"));
    files
}

fn copy(original: &Files) -> Files {
    let files = Files::new();
    std::fs::create_dir(files.path("spool")).expect("a directory");
    for entry in std::fs::read_dir(original.path("spool")).expect("a spool") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_str().expect("text");
        if !name.ends_with(".spare") && path.is_file() {
            std::fs::copy(&path, files.path("spool").join(name)).expect("a copy");
        }
    }
    files
}

fn with_extension(files: &Files, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(files.path("spool")).into_iter().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths
}

/// The one file of the spool with this extension and this text in it.
fn only(files: &Files, extension: &str, text: &str) -> PathBuf {
    let mut paths = with_extension(files, extension);
    paths.retain(|path| {
        memmem::find(&std::fs::read(path).expect("a file"), text.as_bytes()).is_some()
    });
    assert_eq!(paths.len(), 1, "{extension}: {paths:?}");
    paths.remove(0)
}

/// The files of the spool but the lock.
fn contents(files: &Files) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = std::fs::read_dir(files.path("spool")).expect("a spool");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let paths = paths.filter(|path| path.is_file() && !path.ends_with("lock"));
    paths.map(|path| (path.clone(), std::fs::read(path).expect("a file"))).collect()
}

fn place_of(bytes: &[u8], text: &str) -> usize {
    memmem::find(bytes, text.as_bytes()).expect("it is there")
}

/// Changes a file in place.
fn edit(path: PathBuf, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(&path).expect("a file");
    change(&mut bytes);
    std::fs::write(&path, bytes).expect("a file");
}

/// The segment that `one` is in, and the one that `last` is in.
fn segment(files: &Files, which: &str) -> PathBuf {
    match which {
        "first" => only(files, "segment", "Subject: one"),
        "last" => only(files, "segment", "Subject: last"),
        other => panic!("which segment is {other}?"),
    }
}

/// Changes the bytes of a segment, or the segment.
fn change_segment(files: &Files, path: PathBuf, how: &str) {
    if let Some(subject) = how.strip_prefix("flip a bit in message ") {
        return edit(path, |bytes| {
            let at = place_of(bytes, &format!("Subject: {subject}"));
            bytes[at] ^= 1;
        });
    }
    if let Some(subject) = how.strip_prefix("flip a bit in the batch header before ") {
        return edit(path, |bytes| {
            let at = place_of(bytes, &format!("Subject: {subject}"));
            // Batches begin at blocks, and these are the first record of theirs.
            bytes[at / BLOCK_BYTES * BLOCK_BYTES + 8] ^= 1;
        });
    }
    if let Some(subject) = how.strip_prefix("cut it in message ") {
        return edit(path, |bytes| {
            bytes.truncate(place_of(bytes, &format!("Subject: {subject}")));
        });
    }
    match how {
        "zero 128 octets of message two" => edit(path, |bytes| {
            let at = place_of(bytes, "Subject: two");
            bytes[at - 64..at + 64].fill(0);
        }),
        "cut it in its header" => edit(path, |bytes| bytes.truncate(100)),
        "empty it" => edit(path, Vec::clear),
        "zero it" => edit(path, |bytes| bytes.fill(0)),
        "zero its header" => edit(path, |bytes| bytes[..512].fill(0)),
        "fill it with random octets" => edit(path, scramble),
        "set its version to 9" => edit(path, |bytes| bytes[4] = 9),
        "remove it" => std::fs::remove_file(path).expect("a file"),
        "rename it to another generation" => {
            let name = path.file_name().expect("a name").to_str().expect("text");
            let renamed = files.path("spool").join(format!("000000f0{}", &name[8..]));
            std::fs::rename(&path, renamed).expect("a rename");
        }
        other => panic!("do: {other}?"),
    }
}

fn scramble(bytes: &mut Vec<u8>) {
    let mut state = 88_172_645_463_325_252_u64;
    for byte in bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        *byte = state as u8;
    }
}

/// Carries out what `do:` says; returned is a configuration that differs, if it does.
fn carry_out(files: &Files, what: &str, hop: &str) -> Option<String> {
    if let Some((which, how)) = what.split_once(" segment: ") {
        change_segment(files, segment(files, which), how);
        return None;
    }
    let blob = || only(files, "blob", "Subject: big");
    let spool = |name: &str| files.path("spool").join(name);
    let add = |name: &str, bytes: &[u8]| std::fs::write(spool(name), bytes).expect("a file");
    let other = "000000f1-0123456789abcdef.segment";
    match what {
        "nothing" => {}
        "remove the blob" => std::fs::remove_file(blob()).expect("a file"),
        "empty the blob" => edit(blob(), Vec::clear),
        "cut the blob" => edit(blob(), |bytes| bytes.truncate(5_000)),
        "flip a bit in the blob" => edit(blob(), |bytes| bytes[600_000] ^= 1),
        "remove the register" => std::fs::remove_file(spool("register")).expect("a file"),
        "flip a bit in the register" => edit(spool("register"), |bytes| bytes[40] ^= 1),
        "remove the register and the first segment" => {
            std::fs::remove_file(spool("register")).expect("a file");
            std::fs::remove_file(segment(files, "first")).expect("a file");
        }
        "add a blob of no message" => add("00000000000000ff.blob", b"orphan"),
        "add files of other programs" => {
            add("core", b"\x7fELF");
            add("README.txt", b"hello");
            add("0000000G-0000000000000000.segment", b"x");
            add("1.segment", b"x");
            std::fs::create_dir(spool("lost+found")).expect("a directory");
        }
        "add a spare of junk" => add("000000ee.spare", &[0xa5; 70_000]),
        "add an empty spare" => add("000000ee.spare", b""),
        "add a segment that was never finished" => add("000000ef.new", &[0; 5_000]),
        "add an empty segment" => add(other, b""),
        "add a segment of junk" => add(other, &[0xa5; 100_000]),
        "put a directory in a segment's place" => {
            std::fs::create_dir(spool(other)).expect("a directory");
        }
        "start as another node" => return Some(config(hop, 5, "path = \"spool\"")),
        "put a segment of the same generation beside the first" => {
            let path = segment(files, "first");
            let name = path.file_name().expect("a name").to_str().expect("text");
            std::fs::copy(&path, spool(&format!("{}-0123456789abcdef.segment", &name[..8])))
                .expect("a copy");
        }
        "name a spool in a directory that is not there" => {
            return Some(config(hop, 0, "path = \"mount/spool\""));
        }
        "name a directory with files of other programs" => {
            std::fs::create_dir(files.path("other")).expect("a directory");
            std::fs::write(files.path("other").join("README.txt"), b"hello").expect("a file");
            return Some(config(hop, 0, "path = \"other\""));
        }
        "list it as the second log" => {
            return Some(config(hop, 0, "paths = [\"first\", \"spool\"]"));
        }
        other => panic!("do: {other}?"),
    }
    None
}

/// Text without names and numbers of this run.
fn plain(text: &str) -> String {
    let text = text.split(" took=").next().unwrap_or(text);
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        let (before, behind) = rest.split_at(at);
        let word = behind.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or(behind);
        let hex = word.bytes().all(|b| b.is_ascii_hexdigit());
        let number = word.bytes().all(|b| b.is_ascii_digit());
        out.push_str(before);
        out.push_str(match word.len() {
            8 | 16 if hex => "{hex}",
            3.. if number => "{n}",
            _ => word,
        });
        rest = &behind[word.len()..];
    }
    out + rest
}

fn verify(files: &Files) -> Vec<String> {
    let answer = program(files.dir(), &["spool", "verify", "spool"]);
    let text = answer.out + &answer.err;
    // How many segments there are, and what is settled in them, is a matter of time.
    let lines =
        text.lines().filter(|line| !line.starts_with("settled:") && !line.contains(" records in "));
    let lines = lines.map(|line| format!("V: {}", plain(line)));
    lines.chain([format!("=: {}", answer.code)]).collect()
}

/// What arrived, each as it was.
fn arrived(taken: &[Taken]) -> Vec<String> {
    let mut lines: Vec<String> = taken
        .iter()
        .map(|taken| {
            let text = String::from_utf8_lossy(&taken.content);
            let (_, text) = text.split_once("Subject: ").expect("a subject");
            let (subject, _) = text.split_once("\r\n").expect("a line");
            let whole = format!("Subject: {text}") == body(subject);
            format!("D: {subject}{}", if whole { "" } else { " (CHANGED)" })
        })
        .collect();
    lines.sort();
    lines
}

/// What a start that fails says; one that doesn't is ended.
fn refusal(files: &Files) -> Answer {
    let words = ["20", POSTRIDER, "serve", "--config", CONFIG];
    let output = Command::new("timeout").args(words).current_dir(files.dir()).output();
    let output = output.expect("coreutils");
    Answer {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).expect("text"),
        err: String::from_utf8(output.stderr).expect("text"),
    }
}

fn play(original: &Files, row: &Row) -> Vec<String> {
    let files = copy(original);
    let hop = dead_hop();
    files.write(CONFIG, &config(&hop, 0, "path = \"spool\""));
    let what = row.setting("do").expect("what to do");
    if let Some(config) = carry_out(&files, what, &hop) {
        files.write(CONFIG, &config);
    }
    let mut seen = vec![format!("do: {what}")];
    seen.extend(verify(&files));
    if row.setting("refused").is_some() {
        let before = contents(&files);
        let answer = refusal(&files);
        assert_eq!(contents(&files), before, "[{}]: it changed something", row.id);
        seen.push("refused: yes".to_owned());
        // A mistake of the configuration stands above the place in the file.
        let of_config = answer.err.lines().find(|line| line.starts_with("error: "));
        let said = answer.err.lines().last().unwrap_or_default();
        let said = said.split_once(' ').map_or(said, |(_, text)| text);
        let said = of_config.unwrap_or(said);
        seen.push(format!("L: {}", plain(said.trim_start_matches("info ").trim())));
        assert_eq!(answer.code, if of_config.is_some() { 2 } else { 1 }, "{answer:?}");
        return seen;
    }
    play_server(&files, row, &hop, seen)
}

/// What a server makes of it.
fn play_server(files: &Files, row: &Row, hop: &str, mut seen: Vec<String>) -> Vec<String> {
    let server = Server::start_again(files);
    let console = server.console();
    let about = console.iter().filter_map(|line| line.split_once(" spool: "));
    seen.extend(about.map(|(_, text)| format!("L: {}", plain(text))));
    send(&server, "b@far.test", "new");
    let peer = Peer::start_at(hop, "250 HELP", |_| None);
    server.command(&["queue", "retry", "--all"]);
    let counts = |kind: &str| row.lines.iter().filter(|line| line.starts_with(kind)).count();
    let expected = (counts("D: "), counts("Q: "), counts("E: "));
    if is_writing() {
        std::thread::sleep(Duration::from_millis(2_500));
    } else {
        wait_until(&format!("[{}]: arrived, queued, errors: {expected:?}", row.id), || {
            peer.taken().len() >= expected.0
                && server.queue().len() <= expected.1
                && errors(&server).len() >= expected.2
        });
    }
    seen.extend(arrived(&peer.taken()));
    seen.extend(server.queue().iter().map(|item| {
        let recipient = &item["recipients"][0];
        let said = |value: &serde_json::Value| value.as_str().unwrap_or("not tried").to_owned();
        if item["unreadable"].is_null() {
            return format!("Q: {}", plain(&said(&recipient["last_failure"])));
        }
        let (address, waits) = (said(&recipient["address"]), &recipient["blocker"]["text"]);
        format!("Q: {address} waits for {}", plain(&said(waits)))
    }));
    seen.extend(errors(&server).into_iter().map(|line| format!("E: {line}")));
    server.stop();
    seen
}

/// The errors that a server logged, each once.
fn errors(server: &Server) -> BTreeSet<String> {
    let console = server.console();
    let errors = console.iter().filter_map(|line| line.split_once("Z error "));
    // Damage is logged as such at the start, and is in the row already.
    errors.map(|(_, text)| plain(text)).filter(|text| !text.starts_with("spool: damage")).collect()
}

#[test]
fn spool() {
    let original = original();
    table::check("spool", |row| play(&original, row));
}
