//! A peer of others on either side: its codecs were generated from the ITU's modules.

use super::{last, relay_config, transfer};
use crate::support::server::Server;
use crate::support::tool::free_port;
use crate::support::{Files, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// `scripts/install-test-packages` fetches them.
fn codecs() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/test-packages/x400-codecs/node_modules");
    if !path.join("@wildboar/x400").exists() {
        skips::missing("the package of X.400 codecs");
        return None;
    }
    Some(path)
}

fn peer(codecs: &Path, role: &str, port: u16) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../x400/tests/witness/peer.cjs");
    let mut command = Command::new("node");
    command.env("NODE_PATH", codecs).arg(script).args([role, &port.to_string()]);
    command
}

/// It listens, and prints what it reads.
struct Listening(Child, BufReader<ChildStdout>);

impl Listening {
    fn start(codecs: &Path, port: u16) -> Listening {
        let mut child =
            peer(codecs, "listen", port).stdout(Stdio::piped()).spawn().expect("node starts");
        let mut output = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("it listens");
        assert_eq!(line, format!("listening {port}\n"));
        Listening(child, output)
    }

    fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Ends it. What it read.
    fn read(mut self) -> Vec<Value> {
        self.end();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut self.1, &mut text).expect("text");
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.end();
    }
}

#[test]
fn what_is_passed_on_is_read_by_codecs_of_others() {
    let Some(codecs) = codecs() else { return };
    for keys in ["", "checkpoint_kib = 1", "mode = \"x410\"", "mode = \"x410-1984\"\nwindow = 1"] {
        let files = Files::new();
        let port = free_port();
        let listening = Listening::start(&codecs, port);
        let config = relay_config(&format!("127.0.0.1:{port}"), keys)
            .replace("\"mta.last\"", "\"peer\"")
            .replace("\"from-last\"", "\"secret\"");
        let relay = Server::start(&files, &config);
        transfer(&relay, &["-n", "5", "--size", "12000"]);
        // No route takes it: its originator is told, whose messages go to the same peer.
        transfer(&relay, &["--to", "a"]);
        files.wait_events("relayed", 6);
        wait_until("an empty queue", || relay.queue().is_empty());
        relay.stop();
        let read = listening.read();
        let messages: Vec<&Value> = read.iter().filter(|line| line["kind"] == "message").collect();
        assert_eq!(messages.len(), 5, "{keys}: {read:?}");
        for message in messages {
            assert_eq!((&message["recipients"], &message["trace"]), (&1.into(), &2.into()));
            assert!(message["content"].as_u64() > Some(12_000), "{keys}: {message}");
        }
        let reports: Vec<&Value> = read.iter().filter(|line| line["kind"] == "report").collect();
        assert_eq!(reports.len(), 1, "{keys}: {read:?}");
        assert_eq!((&reports[0]["recipients"], &reports[0]["trace"]), (&1.into(), &1.into()));
    }
}

#[test]
fn what_codecs_of_others_write_is_taken() {
    let Some(codecs) = codecs() else { return };
    let (files, last_files) = (Files::new(), Files::new());
    let last = last(&last_files);
    let config = relay_config(&last.to(), "")
        .replace("\"client.test\"", "\"peer\"")
        .replace("\"secretc\"", "\"secret\"");
    let relay = Server::start(&files, &config);
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../x400/tests/apdus/golden");
    let names = ["py_message", "message_unknown_noncritical", "probe"];
    let mut command = peer(&codecs, "send", relay.address().port());
    let done = command
        .args(names.map(|name| golden.join(format!("{name}.ber"))))
        .output()
        .expect("node runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(said.matches("acknowledged").count(), names.len(), "{said}");
    let received = last_files.wait_events("received", names.len());
    let kinds = |kind: &str| received.iter().filter(|event| super::apdu(event) == kind).count();
    assert_eq!((kinds("message"), kinds("probe")), (2, 1), "{received:?}");
    wait_until("an empty queue", || relay.queue().is_empty());
    relay.stop();
    last.stop();
}
