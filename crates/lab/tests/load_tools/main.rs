//! The tools against each other and against Debian's: what one sends the other counts, and the
//! ledger finds every fault that was made on purpose.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod p1;
mod plots;
mod senders;

use load::listener::free_port;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const LAB: &str = env!("CARGO_BIN_EXE_postrider-lab");

/// The longest that anything here may take.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A running tool; ended when the test ends, however it ends.
struct Tool {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Tool {
    /// Starts a tool.
    fn start(arguments: &[&str]) -> Tool {
        let mut command = Command::new(LAB);
        let child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("the tool starts");
        let output = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        Tool { child, output, address: String::new() }
    }

    /// Starts one that listens, and waits until it does.
    fn listen(arguments: &[&str]) -> Tool {
        let mut tool = Tool::start(arguments);
        let mut line = String::new();
        tool.output.read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").expect("it listens");
        tool.address = address.to_owned();
        tool
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("it runs");
    }

    fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                return status;
            }
            assert!(begun.elapsed() < WAIT_MAX, "it doesn't end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the end; exit code and the JSON it printed.
    fn finish(&mut self) -> (i32, Value) {
        let status = self.wait();
        let mut text = String::new();
        self.output.read_to_string(&mut text).expect("text");
        let value = serde_json::from_str(text.trim()).unwrap_or(Value::Null);
        (status.code().expect("not killed"), value)
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Files of one test.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }
}

fn source(to: &str, messages: u64, more: &[&str]) -> Tool {
    let messages = messages.to_string();
    let mut arguments = vec!["source", "--json", "--to", to, "--messages", &messages];
    arguments.extend(more);
    Tool::start(&arguments)
}

fn sink(more: &[&str]) -> Tool {
    let mut arguments = vec!["sink", "--json", "--listen", "127.0.0.1:0"];
    arguments.extend(more);
    Tool::listen(&arguments)
}

fn audit(source: &Path, sink: &Path) -> (i32, Value) {
    let name = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    Tool::start(&["ledger", "--json", &name(source), &name(sink)]).finish()
}

fn free_address() -> String {
    format!("127.0.0.1:{}", free_port().expect("a free port"))
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

#[test]
fn who_has_seen_enough_of_the_output_hears_no_complaint() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let command = Command::new(LAB).args(["bench", "--list"]).stdout(writer).output();
    let output = command.expect("the tool starts");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(2), "what is cut short is no success");
}

#[test]
fn every_message_arrives_once_and_whole_in_every_manner_of_sending() {
    let manners: [&[&str]; 4] =
        [&[], &["--pipelining"], &["--chunking"], &["--pipelining", "--chunking"]];
    for manner in manners {
        for (kind, bytes) in
            [("plain", "400"), ("dots", "70000"), ("eightbit", "3000"), ("dots", "0")]
        {
            let files = Files::new();
            let mut sink = sink(&["--expect", "60", "--ledger", &files.name("sink")]);
            let ledger = files.name("source");
            let mut arguments = vec!["--sessions", "4", "--per-session", "7", "--ledger", &ledger];
            arguments.extend(["--body-kind", kind, "--body-bytes", bytes]);
            arguments.extend(["--recipients-per-message", "2", "--domains", "a.test,b.test"]);
            arguments.extend(manner);
            let (code, report) = source(&sink.address, 60, &arguments).finish();
            assert_eq!((code, number(&report, "acked")), (0, 60), "{manner:?} {kind}: {report}");
            assert_eq!(report["warnings"].as_array().map(Vec::len), Some(0));
            let (code, totals) = sink.finish();
            assert_eq!((code, number(&totals, "messages")), (0, 60));
            assert_eq!((number(&totals, "recipients"), number(&totals, "damaged")), (120, 0));
            let (code, audit) = audit(&files.path("source"), &files.path("sink"));
            assert_eq!((code, number(&audit, "arrivals")), (0, 120), "{audit}");
            assert_eq!(number(&audit["duplicates"], "count"), 0);
        }
    }
}

#[test]
fn what_is_not_offered_is_not_used_and_said() {
    let mut sink = sink(&["--no-chunking", "--no-pipelining", "--expect", "20"]);
    let arguments = ["--pipelining", "--chunking", "--per-session", "5"];
    let (code, report) = source(&sink.address, 20, &arguments).finish();
    assert_eq!((code, number(&report, "acked")), (0, 20));
    assert_eq!(report["warnings"].as_array().map(Vec::len), Some(2), "{report}");
    assert_eq!(sink.finish().0, 0);
}

#[test]
fn faults_are_told_apart_and_nothing_is_lost() {
    for manner in
        [&["--per-session", "10"][..], &["--per-session", "10", "--pipelining", "--chunking"]]
    {
        let files = Files::new();
        let mut arguments = vec!["--seed", "7"];
        let ledger = files.name("sink");
        arguments.extend(["--ledger", &ledger]);
        for phase in ["connect", "ehlo", "mail", "rcpt", "data", "content", "dot"] {
            arguments.push("--drop");
            arguments.push(match phase {
                "connect" => "20:connect",
                "ehlo" => "20:ehlo",
                "mail" => "20:mail",
                "rcpt" => "20:rcpt",
                "data" => "20:data",
                "content" => "20:content",
                _ => "20:dot",
            });
        }
        for refusal in ["30:451", "30:550:rcpt", "30:450:mail", "30:452:data"] {
            arguments.extend(["--refuse", refusal]);
        }
        let mut sink = sink(&arguments);
        let ledger = files.name("source");
        let mut arguments = vec!["--sessions", "5", "--ledger", &ledger];
        arguments.extend(["--recipients-per-message", "2"]);
        arguments.extend(manner);
        let (code, report) = source(&sink.address, 1000, &arguments).finish();
        assert_eq!(code, 1, "{report}");
        let fates = ["acked", "refused", "unknown"].map(|key| number(&report, key));
        assert_eq!(fates.iter().sum::<u64>(), 1000);
        assert!(fates.iter().all(|&count| count > 0), "{report}");
        assert!(number(&report["refused_by_reply"], "content 451") > 0, "{report}");
        sink.signal(rustix::process::Signal::TERM);
        let (code, totals) = sink.finish();
        assert_eq!((code, number(&totals, "messages")), (0, fates[0]));
        assert!(number(&totals, "dropped") > 0 && number(&totals, "refused") > 0);
        let (code, audit) = audit(&files.path("source"), &files.path("sink"));
        assert_eq!(code, 0, "{audit}");
        assert_eq!(number(&audit, "unsent_messages"), number(&report, "unsent"));
        // A sink that dropped a connection before its reply doesn't count the message.
        for kind in ["missing", "duplicates", "unknown_arrived", "refused_arrived"] {
            assert_eq!(number(&audit[kind], "count"), 0, "{kind}: {audit}");
        }
    }
}

#[test]
fn the_source_goes_on_when_its_peer_is_killed_and_comes_back() {
    let files = Files::new();
    let address = free_address();
    let start = |ledger: &str| {
        Tool::listen(&["sink", "--json", "--listen", &address, "--ledger", &files.name(ledger)])
    };
    let first = start("sink-1");
    let ledger = files.name("source");
    let arguments = ["--sessions", "8", "--ledger", &ledger, "--rate", "1500"];
    let mut source = source(&address, 1500, &arguments);
    std::thread::sleep(Duration::from_millis(400));
    // SIGTERM, for its ledger must be whole: what is killed without warning is the relay between.
    first.signal(rustix::process::Signal::TERM);
    let mut first = first;
    first.wait();
    std::thread::sleep(Duration::from_millis(200));
    let second = start("sink-2");
    let (code, report) = source.finish();
    assert!(code == 0 || code == 1, "{code}: {report}");
    assert!(!report["connect_failures"].as_object().expect("a map").is_empty(), "{report}");
    second.signal(rustix::process::Signal::TERM);
    let mut second = second;
    second.wait();
    let both: String = ["sink-1", "sink-2"]
        .map(|name| std::fs::read_to_string(files.path(name)).expect("a ledger"))
        .concat();
    std::fs::write(files.path("sink"), both).expect("written");
    let (code, audit) = audit(&files.path("source"), &files.path("sink"));
    assert_eq!(code, 0, "{audit}");
    assert_eq!(number(&audit["unlisted_arrived"], "count"), 0);
}

#[test]
fn a_source_that_is_stopped_leaves_a_complete_ledger() {
    let files = Files::new();
    let sink = sink(&["--ledger", &files.name("sink"), "--latency", "3"]);
    let ledger = files.name("source");
    let mut source = source(&sink.address, 1_000_000, &["--sessions", "9", "--ledger", &ledger]);
    std::thread::sleep(Duration::from_millis(500));
    source.signal(rustix::process::Signal::TERM);
    let (code, report) = source.finish();
    assert_eq!(code, 4, "{report}");
    assert!(number(&report, "acked") > 0);
    let mut sink = sink;
    sink.signal(rustix::process::Signal::TERM);
    sink.wait();
    let (code, audit) = audit(&files.path("source"), &files.path("sink"));
    assert_eq!(code, 0, "{audit}");
    assert_eq!(number(&audit, "acked_messages"), number(&report, "acked"));
    assert_eq!(number(&audit["unlisted_arrived"], "count"), 0);
}

#[test]
fn a_source_without_a_peer_gives_up() {
    let address = free_address();
    let begun = Instant::now();
    let (code, report) = source(&address, 10, &["--reconnect", "1"]).finish();
    assert_eq!((code, number(&report, "acked")), (3, 0));
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_given_rate_is_kept_and_latency_runs_from_the_intended_time() {
    let sink = sink(&["--latency", "20"]);
    // One session needs some 120 ms for a message of one connection: at 50/s it falls behind, and
    // that must show in the latency of the last ones.
    let (_, report) = source(&sink.address, 30, &["--rate", "50", "--sessions", "1"]).finish();
    let worst = number(&report["latency_us"], "max");
    assert!(worst > 1_000_000, "{report}");
    let (_, report) = source(&sink.address, 100, &["--rate", "200", "--sessions", "60"]).finish();
    let seconds = report["seconds"].as_f64().expect("a number");
    assert!((0.49..3.0).contains(&seconds), "{report}");
    assert!(number(&report["latency_us"], "p50") > 100_000, "{report}");
}

#[test]
fn the_ledger_finds_what_is_missing_and_what_came_twice() {
    let files = Files::new();
    let write = |name: &str, text: &str| std::fs::write(files.path(name), text).expect("written");
    write("source", "r-0 acked a@x\nr-1 acked a@x\n");
    write("sink", "r-0 a@x\nr-0 a@x\n");
    let (code, report) = audit(&files.path("source"), &files.path("sink"));
    assert_eq!((code, number(&report["missing"], "count")), (1, 1));
    assert_eq!(report["missing"]["listed"][0]["id"], "r-1");
    assert_eq!(number(&report["duplicates"], "count"), 1);
    write("sink", "r-0 a@x\nr-0 a@x\nr-1 a@x\n");
    assert_eq!(audit(&files.path("source"), &files.path("sink")).0, 1);
    let (source, sink) = (files.name("source"), files.name("sink"));
    let allowed = ["ledger", "--json", "--max-duplicates", "1", &source, &sink];
    assert_eq!(Tool::start(&allowed).finish().0, 0);
    write("sink", "nonsense\n");
    assert_eq!(audit(&files.path("source"), &files.path("sink")).0, 2);
}

#[test]
fn the_floor_relays_everything_with_a_log_and_without() {
    let variants =
        [(false, true, false), (true, false, false), (true, true, false), (true, true, true)];
    for (log, chunking, unasked) in variants {
        let files = Files::new();
        let mut arguments = vec!["--expect", "500"];
        let ledger = files.name("sink");
        arguments.extend(["--ledger", &ledger]);
        if !chunking {
            arguments.push("--no-chunking");
        }
        let mut sink = sink(&arguments);
        let to = sink.address.clone();
        let mut arguments = vec!["floor", "--listen", "127.0.0.1:0", "--to", &to];
        let log_name = files.name("log");
        if log {
            arguments.extend(["--log", &log_name, "--log-bytes", "2000000"]);
        }
        if unasked {
            arguments.push("--unasked-content");
        }
        let mut floor = Tool::listen(&arguments);
        let ledger = files.name("source");
        let mut arguments = vec!["--sessions", "20", "--ledger", &ledger, "--body-kind", "dots"];
        arguments.extend(["--body-bytes", "9000", "--per-session", "4"]);
        if chunking {
            arguments.extend(["--pipelining", "--chunking"]);
        }
        let (code, report) = source(&floor.address, 500, &arguments).finish();
        assert_eq!((code, number(&report, "acked")), (0, 500), "{report}");
        assert_eq!(sink.finish().0, 0);
        floor.signal(rustix::process::Signal::TERM);
        let (code, totals) = floor.finish();
        assert_eq!((code, number(&totals, "accepted")), (0, 500));
        if log {
            let syncs = number(&totals, "log_syncs");
            assert!((1..=500).contains(&syncs), "{totals}");
        }
        let (code, audit) = audit(&files.path("source"), &files.path("sink"));
        assert_eq!(code, 0, "{audit}");
        assert_eq!(number(&audit["duplicates"], "count"), 0);
    }
}

#[test]
fn cpu_reports_a_running_process() {
    let sink = sink(&[]);
    let (code, usage) = Tool::start(&["cpu", "--pid", &sink.child.id().to_string()]).finish();
    assert_eq!(code, 0);
    assert!(number(&usage, "rss_peak_bytes") >= number(&usage, "rss_bytes"));
}

/// Debian's tools, where they are installed: another's hand on either end.
fn debian(name: &str) -> Option<PathBuf> {
    let path = Path::new("/usr/sbin").join(name);
    if !path.exists() {
        eprintln!("{name} is not installed: not tested");
    }
    path.exists().then_some(path)
}

#[test]
fn smtp_source_sends_to_our_sink() {
    let Some(path) = debian("smtp-source") else { return };
    for more in [&[][..], &["-d"]] {
        let mut sink = sink(&["--expect", "300"]);
        let mut command = Command::new(&path);
        command.args(more).args(["-s", "10", "-m", "300", "-l", "2000", &sink.address]);
        let status = command.stdout(Stdio::null()).status().expect("it runs");
        assert!(status.success(), "{more:?}");
        let (code, totals) = sink.finish();
        assert_eq!((code, number(&totals, "unidentified")), (0, 300), "{totals}");
        assert!(number(&totals, "content_bytes") >= 600_000);
    }
}

#[test]
fn our_source_sends_to_smtp_sink() {
    let Some(path) = debian("smtp-sink") else { return };
    let address = free_address();
    let mut command = Command::new(path);
    // It refuses to run as root; as somebody else it needs no -u.
    if rustix::process::getuid().is_root() {
        command.args(["-u", "nobody"]);
    }
    let child = command.args([&address, "100"]).spawn().expect("it starts");
    let child = Ended(child);
    for more in [&[][..], &["--pipelining", "--per-session", "20", "--body-kind", "dots"]] {
        let (code, report) = source(&address, 300, more).finish();
        assert_eq!((code, number(&report, "acked")), (0, 300), "{report}");
    }
    drop(child);
}

/// A child that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn encrypted_load_arrives_whole_resumed_or_not() {
    let files = Files::new();
    let openssl = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-nodes",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args(["-subj", "/CN=sink.test", "-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &files.name("key.pem"), "-out", &files.name("chain.pem")])
        .output()
        .expect("openssl is there");
    assert!(openssl.status.success(), "{openssl:?}");
    for handshakes in ["resumed", "full"] {
        let (sent, arrived) = (files.name("sent"), files.name("arrived"));
        let tls =
            ["--tls-certificate", &files.name("chain.pem"), "--tls-key", &files.name("key.pem")];
        let mut sink = sink(
            &[&tls[..], &["--tls-handshakes", handshakes, "--ledger", &arrived, "--expect", "40"]]
                .concat(),
        );
        let more =
            ["--tls", handshakes, "--body-bytes", "200000", "--ledger", &sent, "--sessions", "2"];
        let (code, report) = source(&sink.address, 40, &more).finish();
        assert_eq!(code, 0, "{report}");
        let (_, taken) = sink.finish();
        for value in [&report, &taken] {
            assert_eq!(number(value, "handshakes"), 40, "{value}");
            let resumed = number(value, "handshakes_resumed");
            assert_eq!(resumed > 30, handshakes == "resumed", "{value}");
        }
        assert_eq!(audit(&files.path("sent"), &files.path("arrived")).0, 0);
    }
    let clear = sink(&[]);
    let refused = ["--tls", "full", "--reconnect", "0"];
    let (code, report) = source(&clear.address, 1, &refused).finish();
    assert_eq!(code, 3, "{report}");
    assert!(report["connect_failures"]["STARTTLS is not offered"].is_u64(), "{report}");
}
