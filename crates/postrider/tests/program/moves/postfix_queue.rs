//! The import of a real Postfix's queue. `IMPORT_MESSAGES` sets the number of messages.

use crate::interop::place::{Place, succeed};
use crate::interop::postfix;
use crate::support::client::Client;
use crate::support::peer::{Peer, Taken};
use crate::support::server::{self, CONFIG, POSTRIDER, Server};
use crate::support::tool::free_port;
use crate::support::{Files, config, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MESSAGES: usize = 240;
/// The import is killed after so many milliseconds, each time.
const KILLED_AFTER_MS: [u64; 6] = [60, 120, 180, 240, 150, 200];
/// The longest body.
const LARGE_BYTES: usize = 20 << 20;
/// Kinds of messages, which take turns.
const KINDS: usize = 8;

fn count() -> usize {
    std::env::var("IMPORT_MESSAGES").map_or(MESSAGES, |n| n.parse().expect("a number"))
}

/// A message as it is given to Postfix.
struct Given {
    mail: String,
    /// Each with the recipient that stays open.
    rcpts: Vec<(String, Option<String>)>,
    content: Vec<u8>,
}

/// Message number `n`: kinds take turns.
fn given(n: usize) -> Given {
    let open = |address: String| (address.clone(), Some(address));
    let mut mail = format!("<s{n}@a.test>");
    let mut rcpts = vec![open(format!("<u{n}@down.test>"))];
    let mut body = format!("The body of {n}.\r\n").into_bytes();
    match n % KINDS {
        0 => mail = format!("<held{n}@hold.test>"),
        1 => rcpts.push((format!("<done{n}@done.test>"), None)),
        2 => {
            mail.push_str(" BODY=8BITMIME");
            body.extend_from_slice("Grüße aus Köln \u{1f4ee}\r\n".as_bytes());
        }
        3 => {
            mail = format!("<sönder{n}@a.test> SMTPUTF8");
            rcpts = vec![open(format!("<ü{n}@down.test>"))];
        }
        4 => {
            mail.push_str(&format!(" RET=HDRS ENVID=env+2B{n}"));
            let wishes = format!("NOTIFY=SUCCESS,DELAY ORCPT=rfc822;first+2B{n}@x.test");
            let address = format!("<u{n}@down.test>");
            rcpts = vec![(format!("{address} {wishes}"), Some(address))];
            rcpts.push(open(format!("<v{n}@down.test> NOTIFY=NEVER")));
        }
        5 => {
            body.extend(std::iter::repeat_n(b'x', 5_000));
            body.extend_from_slice(b"\r\n..\r\n..two dots\r\n\r\n\r\n");
        }
        6 => rcpts.extend((0..20).map(|k| open(format!("<\"many {k} of {n}\"@down.test>")))),
        _ => mail = "<>".to_owned(),
    }
    if n == KINDS + 2 {
        let line = [&[b'y'; 70][..], b"\r\n"].concat();
        body.extend(line.iter().cycle().take(LARGE_BYTES / line.len() * line.len()));
    }
    let mut content = format!("Subject: number {n}\r\n\r\n").into_bytes();
    content.extend(body);
    Given { mail, rcpts, content }
}

fn give_all(port: u16, count: usize) {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    std::thread::scope(|scope| {
        for start in 0..4 {
            scope.spawn(move || {
                let mut client = Client::connect(address);
                for n in (start..count).step_by(4) {
                    let Given { mail, rcpts, content } = given(n);
                    client.say(&format!("MAIL FROM:{mail}"), "250");
                    for (rcpt, _) in &rcpts {
                        client.say(&format!("RCPT TO:{rcpt}"), "250");
                    }
                    client.say("DATA", "354");
                    client.send(&content);
                    client.say(".", "250");
                }
            });
        }
    });
}

/// A Postfix that can deliver to one domain only.
fn start_postfix(long_ids: bool) -> Place {
    let mut place = Place::new(free_port());
    let (dir, next) = (place.dir(), place.next_port);
    place.write("transport", "done.test discard:\n");
    place.write("held", "hold.test HOLD\n");
    let long_ids = if long_ids { "yes" } else { "no" };
    let lines = format!(
        "relayhost = [127.0.0.1]:{next}
inet_interfaces = 127.0.0.1
enable_long_queue_ids = {long_ids}
transport_maps = texthash:{dir}/transport
smtpd_sender_restrictions = check_sender_access texthash:{dir}/held
smtpd_relay_restrictions = permit_mynetworks, reject
message_size_limit = {}
queue_minfree = 0
minimal_backoff_time = 3600s
maximal_backoff_time = 3600s
queue_run_delay = 3600s
",
        2 * LARGE_BYTES
    );
    let port = place.port;
    postfix::launch_with(&mut place, &lines, &format!("{port} inet n - n - - smtpd\n"));
    place.wait_listening(port);
    place
}

/// All files below a directory.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .flat_map(|entry| match entry.path() {
            path if path.is_dir() => files_below(&path),
            path => vec![path],
        })
        .collect()
}

fn queued(place: &Place, queue: &str) -> usize {
    files_below(&place.path("queue").join(queue)).len()
}

/// Ends Postfix when it has tried all messages.
fn stop_postfix(place: &Place, count: usize) {
    let begun = Instant::now();
    let is_tried = || {
        let waiting = queued(place, "incoming") + queued(place, "active");
        waiting == 0 && queued(place, "deferred") + queued(place, "hold") == count
    };
    while !is_tried() {
        assert!(begun.elapsed() < Duration::from_secs(600), "Postfix has not tried all");
        std::thread::sleep(Duration::from_millis(50));
    }
    let config = place.path("config");
    succeed(Command::new("/usr/sbin/postfix").arg("-c").arg(config).arg("stop"));
}

/// The content of every message by the number in its subject, as postcat(1) prints it, with CRLF.
fn printed_by_postcat(place: &Place) -> BTreeMap<usize, Vec<u8>> {
    let mut contents = BTreeMap::new();
    for queue in ["deferred", "hold"] {
        for file in files_below(&place.path("queue").join(queue)) {
            let mut postcat = Command::new("/usr/sbin/postcat");
            let output = postcat.arg("-c").arg(place.path("config")).arg("-bh").arg(&file).output();
            let lines = output.expect("postcat runs").stdout;
            let mut content = Vec::new();
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                content.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
                content.extend_from_slice(b"\r\n");
            }
            contents.insert(number_of(&content), content);
        }
    }
    contents
}

/// The number in the subject.
fn number_of(content: &[u8]) -> usize {
    let head = String::from_utf8_lossy(&content[..content.len().min(4_000)]).into_owned();
    let (_, rest) = head.split_once("Subject: number ").unwrap_or_else(|| panic!("{head}"));
    rest.lines().next().and_then(|line| line.parse().ok()).expect("a number")
}

fn import(files: &Files, place: &Place) -> server::Answer {
    let queue = place.path("queue").display().to_string();
    server::command(files.dir(), &["spool", "import", "postfix", &queue, "--json"])
}

fn value(answer: &server::Answer) -> Value {
    serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

/// Starts an import and kills it. Returns true if it ended before.
fn killed_import(files: &Files, place: &Place, after: Duration) -> bool {
    let mut command = Command::new(POSTRIDER);
    command.args(["spool", "import", "postfix"]).arg(place.path("queue"));
    command.args(["--config", CONFIG]).current_dir(files.dir()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().expect("the program starts");
    std::thread::sleep(after);
    let ended = child.try_wait().expect("a child of ours").is_some();
    let _ = child.kill();
    let _ = child.wait();
    ended
}

fn peer() -> Peer {
    Peer::start_at("127.0.0.1:0", "250-8BITMIME\r\n250-SMTPUTF8\r\n250-SIZE 0\r\n250 DSN", |_| None)
}

fn config_to(peer: &Peer) -> String {
    config(&format!("[[route]]\nsmtp = {{ hosts = [\"{}\"], tls = \"off\" }}\n", peer.address))
}

/// The address and the parameters of a RCPT command.
fn parts(command: &str) -> (&str, &str) {
    let (_, path) = command.split_once(':').expect("a path");
    let end = path.rfind('>').expect("a path") + 1;
    path.split_at(end)
}

fn body(content: &[u8]) -> &[u8] {
    let end = content.windows(4).position(|four| four == b"\r\n\r\n").expect("a header");
    &content[end + 4..]
}

/// The body, which is quoted-printable (RFC 2045 §6.7).
fn decoded(content: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(body(content).to_vec()).expect("ASCII").replace("=\r\n", "");
    let mut parts = text.split('=');
    let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        out.push(u8::from_str_radix(digits, 16).expect("two digits"));
        out.extend_from_slice(rest.as_bytes());
    }
    out
}

/// Each open recipient got the content once, and the sender's wishes with it.
fn check_taken(taken: &[Taken], contents: &BTreeMap<usize, Vec<u8>>, count: usize) {
    let mut got: BTreeMap<String, Vec<&Taken>> = BTreeMap::new();
    for message in taken {
        for rcpt in &message.rcpt {
            got.entry(parts(rcpt).0.to_owned()).or_default().push(message);
        }
    }
    let mut expected = 0;
    for n in 0..count {
        let given = given(n);
        for address in given.rcpts.iter().filter_map(|(_, open)| open.as_deref()) {
            expected += 1;
            let address = parts(&format!(":{address}")).0.to_owned();
            let taken = got.get(&address).unwrap_or_else(|| panic!("{address} has no mail"));
            let [one] = taken[..] else { panic!("{address} has {} messages", taken.len()) };
            // No next hop takes lines over 998 octets (RFC 5321 §4.5.3.1.6): these are encoded on the way out.
            let is_same = match n % KINDS {
                5 => decoded(&one.content) == body(&contents[&n]),
                _ => one.content == contents[&n],
            };
            assert!(is_same, "the content for {address} differs");
            let sender = given.mail.split(' ').next().expect("a sender");
            assert!(one.mail.starts_with(&format!("MAIL FROM:{sender}")), "{}", one.mail);
        }
    }
    assert_eq!(got.len(), expected, "mail for recipients that were done");
    // The wishes of one with all of them, and 8-bit and Unicode mail.
    let of = |address: &str| got[address][0];
    let full = of("<u4@down.test>");
    assert!(full.mail.contains("RET=HDRS") && full.mail.contains("ENVID=env+2B4"), "{full:?}");
    let rcpt = full.rcpt.iter().find(|rcpt| rcpt.contains("<u4@")).expect("it is one");
    assert!(rcpt.contains("NOTIFY=SUCCESS,DELAY"), "{rcpt}");
    assert!(rcpt.contains("ORCPT=rfc822;first+2B4@x.test"), "{rcpt}");
    let never = of("<v4@down.test>");
    assert!(never.rcpt.iter().any(|r| r.contains("<v4@") && r.contains("NOTIFY=NEVER")));
    assert!(of("<u2@down.test>").mail.contains("BODY=8BITMIME"));
    assert!(of("<ü3@down.test>").mail.contains("SMTPUTF8"));
}

/// The queue of the server as Postfix had it.
fn check_queue(server: &Server, count: usize) {
    let held = server.json(&["queue", "list", "--state", "held", "--limit", "100000"]);
    let held: Vec<_> = held.iter().filter(|one| one["response"] == "item").collect();
    assert_eq!(held.len(), count.div_ceil(KINDS));
    assert!(held.iter().all(|one| one["held"] == "held in Postfix"), "{held:?}");
    let listed = server.json(&["queue", "list", "--recipient", "u1@down.test"]);
    let one = &listed[0];
    assert_eq!((&one["sender"], &one["recipients_open"]), (&"s1@a.test".into(), &1.into()));
    assert_eq!(one["client"], "127.0.0.1 client.test", "{one}");
    let recipient = &one["recipients"][0];
    assert_eq!(recipient["attempts"], 1, "{one}");
    let failure = recipient["last_failure"].as_str().expect("a reason");
    assert!(failure.contains("Connection refused"), "{failure}");
    // The next attempt is that of Postfix, an hour after the last one.
    let id = one["id"].as_str().expect("an id");
    let show = server.command(&["queue", "show", id]).out;
    assert!(recipient["next_try"].is_string(), "{show}");
}

fn play(long_ids: bool) {
    if !postfix::is_startable() {
        return;
    }
    let count = count();
    let place = start_postfix(long_ids);
    give_all(place.port, count);
    let (files, peer) = (Files::new(), peer());
    Server::start(&files, &config_to(&peer)).stop();
    let refused = import(&files, &place);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("Postfix is running"), "{refused:?}");
    stop_postfix(&place, count);
    let contents = printed_by_postcat(&place);
    assert_eq!(contents.len(), count);
    for after in KILLED_AFTER_MS {
        if killed_import(&files, &place, Duration::from_millis(after)) {
            break;
        }
    }
    let begun = Instant::now();
    let imported = import(&files, &place);
    assert_eq!(imported.code, 0, "{imported:?}");
    let (report, took) = (value(&imported), begun.elapsed());
    println!("{count} messages, the last run imported {} in {took:?}", report["messages"]);
    assert_eq!(report["left"], Value::Array(Vec::new()), "{report}");
    assert_eq!(queued(&place, "deferred") + queued(&place, "hold"), 0);
    assert_eq!(queued(&place, "imported-postrider"), count);
    let again = value(&import(&files, &place));
    assert_eq!((&again["messages"], &again["finished"]), (&0.into(), &0.into()), "{again}");

    let server = Server::start_again(&files);
    check_queue(&server, count);
    server.command(&["queue", "retry", "--all"]);
    server.command(&["queue", "release", "--all"]);
    wait_until("all mail to be gone", || server.queue().is_empty());
    check_taken(&peer.taken(), &contents, count);
    server.stop();
}

#[test]
fn imports_a_real_queue_once_whenever_it_is_killed() {
    play(false);
}

#[test]
fn imports_a_queue_with_long_ids() {
    play(true);
}
