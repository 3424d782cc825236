//! The server that all rows are played against, at once.

use super::play::Play;
use crate::support::name_server::NameServer;
use crate::support::server::Server;
use crate::support::tool::free_port;
use crate::support::{Files, config, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

/// Rows that are not over by then are compared as they are.
const PATIENCE: Duration = Duration::from_secs(90);

/// What was observed of each row, by its id.
pub(crate) fn play(mut plays: Vec<Play<'_>>) -> BTreeMap<String, Vec<String>> {
    let files = Files::new();
    let names = NameServer::start();
    let port = free_port();
    for play in &mut plays {
        play.prepare(port, &names);
    }
    let routes: String = plays.iter().map(Play::route).collect();
    let more = format!(
        "{}timeout = \"1s\"\nattempts = 1\n{routes}[[route]]\ndomains = [\"source.test\"]\ndiscard = {{}}\n",
        names.section()
    );
    // Of rows that log in.
    files.write("password", "pw\n");
    let private = Permissions::from_mode(0o600);
    std::fs::set_permissions(files.path("password"), private).expect("a file of ours");
    let server = Server::start(&files, &config(&more));
    let mut log = Log::default();
    let begun = Instant::now();
    loop {
        for event in log.more(&files) {
            plays.iter_mut().for_each(|play| play.take(&event));
        }
        let mut waiting = plays
            .iter_mut()
            .filter_map(|play| (!play.advance(server.address())).then(|| play.row.id.clone()));
        let waiting: Vec<String> = waiting.by_ref().collect();
        if waiting.is_empty() {
            break;
        }
        if begun.elapsed() > PATIENCE {
            eprintln!("not over: {waiting:?}");
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("{} rows took {:?}", plays.len(), begun.elapsed());
    let console = server.console();
    let bad = |line: &&String| line.contains("Z error ") || line.contains("panicked");
    assert_eq!(console.iter().find(bad), None);
    // Idle connections are said farewell to, and all events are written.
    server.stop();
    for event in log.more(&files) {
        plays.iter_mut().for_each(|play| play.take(&event));
    }
    wait_until("the peers' end", || plays.iter().all(Play::is_over));
    plays.iter().map(|play| (play.row.id.clone(), play.lines())).collect()
}

/// The event log, as far as it was read.
#[derive(Default)]
struct Log {
    read: u64,
}

impl Log {
    fn more(&mut self, files: &Files) -> Vec<Value> {
        let Ok(mut file) = std::fs::File::open(files.path("spool/events.jsonl")) else {
            return Vec::new();
        };
        let mut text = String::new();
        file.seek(SeekFrom::Start(self.read)).expect("a file");
        file.read_to_string(&mut text).expect("text");
        // What is being written may end in the middle of a line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        self.read += whole as u64;
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        text[..whole].lines().map(parse).collect()
    }
}
