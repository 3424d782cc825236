//! What the tests of the real program share: directories, a running server, its peers.
//!
//! Each test file uses a part of it.
#![allow(dead_code, unreachable_pub, clippy::disallowed_methods, clippy::disallowed_types)]

pub mod author_forms;
pub mod certificate;
pub mod client;
pub mod foreign;
pub mod http;
pub mod name_server;
pub mod peer;
pub mod server;
pub mod spool_files;
pub mod table;
pub mod tool;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The longest that anything here may take before the test fails.
pub const WAIT_MAX: Duration = Duration::from_secs(30);

/// A directory of one test, on the disk that the build is on (a real one, not tmpfs), removed at
/// the end. Configurations name paths relative to it: the server is started in it.
pub struct Files(tempfile::TempDir);

impl Files {
    pub fn new() -> Files {
        let dir = tempfile::Builder::new().prefix("e2e-").tempdir_in(env!("CARGO_TARGET_TMPDIR"));
        let files = Files(dir.expect("a directory for the test"));
        // Where mailboxes are: no server makes it.
        std::fs::create_dir(files.path("mail")).expect("a directory for mailboxes");
        files
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    /// The messages in `new` of a Maildir.
    pub fn maildir(&self, name: &str) -> Vec<Vec<u8>> {
        let Ok(entries) = std::fs::read_dir(self.path(name).join("new")) else {
            return Vec::new();
        };
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths.iter().map(|path| std::fs::read(path).expect("a message")).collect()
    }

    /// Waits until a Maildir has as many messages, and returns them.
    pub fn wait_maildir(&self, name: &str, count: usize) -> Vec<Vec<u8>> {
        wait_until(&format!("{count} messages in {name}"), || self.maildir(name).len() >= count);
        let messages = self.maildir(name);
        assert_eq!(messages.len(), count, "messages in {name}");
        messages
    }

    /// The event log so far.
    pub fn events(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.path("spool/events.jsonl")).unwrap_or_default();
        // What is being written may end in the middle of a line.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }

    /// Events of one kind.
    pub fn events_of(&self, kind: &str) -> Vec<serde_json::Value> {
        self.events().into_iter().filter(|event| event["event"] == kind).collect()
    }

    /// Waits for as many events of a kind, and returns them.
    pub fn wait_events(&self, kind: &str, count: usize) -> Vec<serde_json::Value> {
        wait_until(&format!("{count} events {kind}"), || self.events_of(kind).len() >= count);
        self.events_of(kind)
    }
}

/// Waits until something is so; fails the test when it takes too long.
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < WAIT_MAX, "waited {WAIT_MAX:?} for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A configuration: spool, one listener on a free port that relays for this machine, and what the
/// test adds. `rest` begins with sections.
pub fn config(rest: &str) -> String {
    config_with("", "relay_from = [\"127.0.0.0/8\"]", rest)
}

/// The same with more keys in `[spool]`, and other ones in `[[listener]]`.
pub fn config_with(spool: &str, listener: &str, rest: &str) -> String {
    format!(
        r#"hostname = "relay.test"

[spool]
path = "spool"
segment_bytes = "8MiB"
min_free_bytes = "16MiB"
{spool}

[[listener]]
name = "in"
address = "127.0.0.1:0"
{listener}

{rest}
"#
    )
}
