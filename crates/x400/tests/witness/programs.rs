//! A client in Python and a peer in Node.

use crate::net::{answer, call};
use crate::{large_apdu, small_apdu};
use bytes::Bytes;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use x400::association::{AssociationEnd, Event, InitiatorSettings, Mode, ResponderSettings};
use x400::ber::{Reader, Tag};
use x400::testing::driver::initiator_settings;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/witness").join(name)
}

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

fn peer(codecs: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("node");
    command.env("NODE_PATH", codecs).arg(script("peer.cjs")).args(words);
    command
}

fn assert_success(output: &Output, what: &str) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{what}: {said} {complained} (see scripts/install-test-packages)"
    );
    said
}

#[test]
fn a_client_in_python_transfers() {
    for words in [
        &[][..],
        &["-n", "3"],
        &["--ck", "1"],
        &["--size", "12000"],
        &["--ck", "1", "--size", "12000"],
        &["--twa"],
        &["--ck", "2", "--size", "100000", "--twa", "-n", "2"],
    ] {
        for checkpoint_kib in [0, 1] {
            let (port, answering) = answer(ResponderSettings {
                t_selectors: vec!["x400in88".into()],
                checkpoint_kib,
                ..ResponderSettings::default()
            });
            let mut command = Command::new("python3");
            command.arg(script("p1client.py")).arg(port.to_string()).args(words);
            let said = assert_success(&command.output().expect("python3"), "p1client.py");
            assert!(said.contains("sent"), "{said}");
            let driver = answering.join().expect("answered");
            assert_eq!(
                driver.events.last(),
                Some(&Event::Ended(AssociationEnd::Released)),
                "{words:?}"
            );
            let Some(Event::Bind(bind)) = driver.events.first() else { panic!("no bind") };
            assert_eq!(bind.identity.name.as_deref(), Some("client.test"));
            assert_eq!(bind.two_way, words.contains(&"--twa"));
            let count = if words.contains(&"3") {
                3
            } else if words.contains(&"-n") {
                2
            } else {
                1
            };
            assert_eq!(driver.received.len(), count, "{words:?}");
            for apdu in &driver.received {
                let mut reader = Reader::new(apdu);
                assert_eq!(reader.any().expect("an APDU").tag, Tag::context(0));
                reader.end().expect("nothing else");
                assert!(apdu.len() > 12_000 || !words.contains(&"12000"));
            }
        }
    }
}

#[test]
fn a_peer_in_node_transfers_to_us() {
    let Some(codecs) = codecs() else { return };
    let apdu = small_apdu();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("small.ber");
    std::fs::write(&path, &apdu).expect("written");
    let file = path.to_str().expect("a path");
    let (port, answering) = answer(ResponderSettings::default());
    let output = peer(&codecs, &["send", &port.to_string(), file, file]).output().expect("node");
    let said = assert_success(&output, "peer.cjs");
    let driver = answering.join().expect("answered");
    assert_eq!(said.matches("acknowledged").count(), 2, "{said} {:?}", driver.events);
    // It writes the APDU again, without defaults.
    assert_eq!(driver.received.len(), 2);
    assert!(driver.received.iter().all(|received| Reader::new(received).any().is_ok()));
    assert_eq!(driver.events.last(), Some(&Event::Ended(AssociationEnd::Released)));
}

/// A peer that listens: its port, and the lines it prints.
struct Listening {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    port: u16,
}

impl Listening {
    fn start(codecs: &Path) -> Self {
        let mut child =
            peer(codecs, &["listen", "0"]).stdout(Stdio::piped()).spawn().expect("node");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let first = lines.next().expect("a line").expect("text");
        let port = first.strip_prefix("listening ").expect(&first).parse().expect("a port");
        Listening { child, lines, port }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("a line").expect("text")
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn we_transfer_to_a_peer_in_node() {
    let Some(codecs) = codecs() else { return };
    let mut listening = Listening::start(&codecs);
    let apdus: Vec<Bytes> = [small_apdu(), large_apdu()].into_iter().map(Bytes::from).collect();
    for mode in [Mode::Normal, Mode::X410, Mode::X410Of1984] {
        for (checkpoint_kib, window, two_way, tpdu_bytes) in
            [(0, 3, false, 65_408), (1, 1, false, 2_048), (4, 2, true, 128)]
        {
            let settings = InitiatorSettings {
                mode,
                checkpoint_kib,
                window,
                two_way,
                tpdu_bytes,
                ..initiator_settings()
            };
            let driver = call(listening.port, settings, apdus.clone());
            assert_eq!(
                driver.events.last(),
                Some(&Event::Ended(AssociationEnd::Released)),
                "{mode:?}"
            );
            let bound = listening.line();
            match mode {
                Mode::Normal => {
                    assert!(bound.contains(r#""context":"2.6.0.1.6""#), "{bound}");
                    assert!(bound.contains(r#""who":"a.test""#), "{bound}");
                    assert!(
                        bound.contains(&format!(r#""checkpoint":{checkpoint_kib}"#)),
                        "{bound}"
                    );
                }
                Mode::X410 => assert!(bound.contains(r#""protocol":"12""#), "{bound}"),
                Mode::X410Of1984 => assert!(bound.contains(r#""protocol":"1""#), "{bound}"),
            }
            for apdu in &apdus {
                let line = listening.line();
                assert!(
                    line.contains(r#""kind":"message""#) && line.contains(r#""recipients":1"#),
                    "{line}"
                );
                let is_large = apdu.len() > 10_000;
                let content = line.split(r#""content":"#).nth(1).expect("content");
                let bytes: usize = content.trim_end_matches('}').parse().expect("a number");
                assert_eq!(bytes > 10_000, is_large, "{line}");
            }
        }
    }
}
