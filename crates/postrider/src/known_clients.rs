//! The file that says which clients were which users lately, so that a restart makes no stranger of anybody:
//! written now and then by a thread of its own, and at the end. It is advice: one that can't be read is put
//! aside.

use crate::console::ConsoleLog;
use crate::kept_secret;
use mta::console::{Console as _, Level};
use mta::shared::Shared;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The file in the first spool directory.
const NAME: &str = "known-clients.text";
/// What a file that can't be read is called from then on.
const DAMAGED: &str = "known-clients.text.damaged";
/// It is never longer: 65,536 users with a few clients each.
const BYTES_MAX: usize = 4 << 20;
/// A crash forgets no more than what came in so long.
const WRITTEN_EVERY: Duration = Duration::from_secs(30);
/// The end of the server is noticed within this.
const END_NOTICED: Duration = Duration::from_secs(1);

/// Reads the file, and keeps it up to date for as long as anybody has `shared`.
pub(crate) fn open(directory: &Path, shared: &Arc<Shared>, console: &Arc<ConsoleLog>) {
    let path = directory.join(NAME);
    if let Err(why) = read(&path, shared) {
        let aside = fs::rename(&path, directory.join(DAMAGED));
        let where_to = aside.map_or_else(|e| format!("stays: {e}"), |()| DAMAGED.to_owned());
        let text =
            format_args!("no client is known: {why} file={} aside={where_to}", path.display());
        console.line(Level::Warn, "logins", text);
    }
    let (shared, log) = (Arc::downgrade(shared), Arc::clone(console));
    let thread = thread::Builder::new().name("known-clients".to_owned());
    if let Err(why) = thread.spawn(move || keep(&path, &shared, &log)) {
        let text = format_args!("clients are strangers after a restart: {why}");
        console.line(Level::Warn, "logins", text);
    }
}

/// Writes what is known at the end.
pub(crate) fn close(directory: &Path, shared: &Shared) {
    if shared.known_clients.changes() > 0 && directory.is_dir() {
        // What was written before is in place otherwise.
        let _ = replace(&directory.join(NAME), &shared.known_clients.written(BYTES_MAX));
    }
}

fn keep(path: &Path, shared: &Weak<Shared>, console: &ConsoleLog) {
    let (mut written, mut at) = (0, Instant::now());
    loop {
        thread::sleep(END_NOTICED);
        let Some(shared) = shared.upgrade() else { return };
        let changes = shared.known_clients.changes();
        if changes != written && at.elapsed() >= WRITTEN_EVERY {
            // What changes meanwhile is written the next time.
            written = changes;
            write(path, &shared, console);
            at = Instant::now();
        }
    }
}

fn read(path: &Path, shared: &Shared) -> Result<(), String> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(|error| error.to_string())?,
    };
    let mut text = String::new();
    file.take(BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() > BYTES_MAX {
        return Err("it is too long".to_owned());
    }
    shared.known_clients.read(&text).map_err(|line| format!("line {line} is none"))
}

fn write(path: &Path, shared: &Shared, console: &ConsoleLog) {
    let text = shared.known_clients.written(BYTES_MAX);
    if let Err(why) = replace(path, &text) {
        let text =
            format_args!("cannot write which clients are known: {why} file={}", path.display());
        console.line(Level::Warn, "logins", text);
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    // Who was where is nobody else's business.
    kept_secret::write(path.parent().unwrap_or(path), NAME, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared() -> Arc<Shared> {
        let text = "[[listener]]\naddress = \"127.0.0.1:2525\"\n[[route]]\ndiscard = {}\n";
        let config = channels::sections().parse(text, "test.toml").unwrap();
        Arc::new(Shared::new(&config, 1))
    }

    #[test]
    fn clients_are_known_over_a_restart_and_a_damaged_file_is_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let (path, console) =
            (directory.path().join(NAME), Arc::new(ConsoleLog::stderr(Level::Error)));
        let line = "00000000000000ff 192.0.2.1 2001:db8:1:2::\n";
        fs::write(&path, line).unwrap();
        let first = shared();
        open(directory.path(), &first, &console);
        assert_eq!(first.known_clients.written(1_000), line);
        write(&path, &first, &console);
        assert_eq!(fs::read_to_string(&path).unwrap(), line);
        for bad in [b"00ff nowhere\n".to_vec(), vec![0xff], vec![b'0'; BYTES_MAX + 1]] {
            fs::write(&path, &bad).unwrap();
            let second = shared();
            open(directory.path(), &second, &console);
            assert_eq!(second.known_clients.written(1_000), "");
            assert_eq!(fs::read(directory.path().join(DAMAGED)).unwrap(), bad);
            assert!(!path.exists());
        }
    }
}
