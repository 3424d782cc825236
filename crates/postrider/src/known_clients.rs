//! The file of clients that logged in lately, so that they are known clients after a restart. It is written at
//! intervals and at the stop. It is advisory: an unreadable one is moved aside.

use crate::file_watch::FileWatch;
use crate::kept_file::StateFiles;
use crate::kept_secret;
use crate::sealed_text::{self, SEAL_BYTES, SealedContent};
use mta::shared::SharedState;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The file in the first spool directory.
const NAME: &str = "known-clients.text";
/// New name of an unreadable file.
const DAMAGED: &str = "known-clients.text.damaged";
/// It is never longer: 65,536 users with a few clients each.
const BYTES_MAX: usize = 4 << 20;
/// Interval of writes; a crash loses no more than this.
const WRITTEN_EVERY: Duration = Duration::from_secs(30);

/// Reads the file, and keeps it up to date while `shared` exists.
pub(crate) fn open(
    directory: &Path,
    shared: &Arc<SharedState>,
    files: &StateFiles,
    watch: &FileWatch,
) {
    let path = directory.join(NAME);
    if let Err(why) = read(&path, shared) {
        let aside = fs::rename(&path, directory.join(DAMAGED));
        let where_to = aside.map_or_else(|e| format!("stays: {e}"), |()| DAMAGED.to_owned());
        let why = format!("cannot read {}: {why} aside={where_to}", path.display());
        files.lost("logins", &path, &why, "all clients start as unknown");
    }
    let (files, mut written, mut at) = (files.clone(), 0, Instant::now());
    watch.follow(shared, move |shared| {
        let changes = shared.known_clients.changes();
        if changes != written && at.elapsed() >= WRITTEN_EVERY {
            // Changes during the write belong to the next one.
            written = changes;
            write(&path, shared, &files);
            at = Instant::now();
        }
    });
}

/// Writes the file at the stop.
pub(crate) fn close(directory: &Path, shared: &SharedState) {
    if shared.known_clients.changes() > 0 && directory.is_dir() {
        // On failure the previous file stays in place.
        let _ = replace(&directory.join(NAME), shared);
    }
}

fn read(path: &Path, shared: &SharedState) -> Result<(), String> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(|error| error.to_string())?,
    };
    let mut bytes = Vec::new();
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() > BYTES_MAX {
        return Err("too long".to_owned());
    }
    let text = match sealed_text::opened(&bytes) {
        SealedContent::Whole(text) => text,
        SealedContent::Without(_) => return Err("truncated".to_owned()),
        SealedContent::Damaged(_) => return Err(sealed_text::DAMAGED.to_owned()),
    };
    let text = str::from_utf8(text).map_err(|error| error.to_string())?;
    shared.known_clients.read(text).map_err(|line| format!("line {line} is invalid"))
}

fn write(path: &Path, shared: &SharedState, files: &StateFiles) {
    match replace(path, shared) {
        Ok(()) => files.written(path),
        Err(why) => {
            let why = format!("cannot write known clients: {why} file={}", path.display());
            files.unwritten("logins", path, &why);
        }
    }
}

fn replace(path: &Path, shared: &SharedState) -> io::Result<()> {
    let text = shared.known_clients.written(BYTES_MAX - SEAL_BYTES);
    // The addresses of users are private.
    let sealed = sealed_text::sealed(text.into_bytes());
    kept_secret::write(path.parent().unwrap_or(path), NAME, &sealed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::ConsoleLog;
    use mta::console::Level;

    fn shared() -> Arc<SharedState> {
        let text = "[[listener]]\naddress = \"127.0.0.1:2525\"\n[[route]]\ndiscard = {}\n";
        let config = channels::sections().parse(text, "test.toml").unwrap();
        Arc::new(SharedState::new(&config, 1))
    }

    #[test]
    fn clients_are_known_over_a_restart_and_a_damaged_file_is_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        let files = StateFiles::new(&Arc::new(ConsoleLog::stderr(Level::Error)));
        let line = "00000000000000ff 192.0.2.1 2001:db8:1:2::\n";
        let whole = sealed_text::sealed(line.as_bytes().to_vec());
        fs::write(&path, &whole).unwrap();
        let watch = FileWatch::start().unwrap();
        let first = shared();
        open(directory.path(), &first, &files, &watch);
        assert_eq!(first.known_clients.written(1_000), line);
        write(&path, &first, &files);
        assert_eq!(fs::read(&path).unwrap(), whole);
        let sealed = |text: &[u8]| sealed_text::sealed(text.to_vec());
        let cut = whole[..whole.len() - SEAL_BYTES].to_vec();
        let other = String::from_utf8(whole).unwrap().replace("192.0.2.1", "192.0.2.7");
        let bad = [
            cut,
            other.into_bytes(),
            sealed(b"00ff nowhere\n"),
            sealed(&[0xff]),
            vec![b'0'; BYTES_MAX + 1],
            Vec::new(),
        ];
        for bad in bad {
            fs::write(&path, &bad).unwrap();
            let second = shared();
            open(directory.path(), &second, &files, &watch);
            assert_eq!(second.known_clients.written(1_000), "");
            assert_eq!(fs::read(directory.path().join(DAMAGED)).unwrap(), bad);
            assert!(!path.exists());
        }
    }
}
