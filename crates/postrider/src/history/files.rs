//! The files of an event log: the current one, and those that this program or logrotate(8) rotated away.

use crate::event_log::{is_stamp, line_time};
use flate2::read::MultiGzDecoder;
use mail::Wall;
use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

/// Maximum length of a line in octets; a longer one is skipped. The longest are `received` events with thousands of
/// recipients.
pub(super) const LINE_BYTES_MAX: usize = 32 << 20;
/// A file's last change may be a little earlier than its last event, by buffers and clock changes.
const CHANGE_LEEWAY: Duration = Duration::from_secs(3_600);

/// A file that could not be read, with the reason.
#[derive(Debug)]
pub(crate) struct UnreadFile {
    pub(crate) path: PathBuf,
    pub(crate) error: io::Error,
}

/// The files of an event log, oldest first.
#[derive(Debug)]
pub(crate) struct EventFiles {
    rotated: Vec<PathBuf>,
    /// Open already, because a rotation may rename it at any time.
    current: Option<(PathBuf, File)>,
}

impl EventFiles {
    /// Finds the files of the log at `path`. Files that last changed before `since` are left out.
    ///
    /// # Errors
    /// Returns an error if the current file or the directory cannot be read. A missing file is an empty log.
    pub(crate) fn find(path: &Path, since: Option<Wall>) -> Result<EventFiles, UnreadFile> {
        let unread = |path: &Path, error| UnreadFile { path: path.to_owned(), error };
        // Opened before the directory is listed, so that no file is missed when it is rotated in between.
        let current = match File::open(path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(unread(path, error)),
        };
        let mut seen = BTreeSet::new();
        if let Some(file) = &current {
            seen.insert(identity(&file.metadata().map_err(|error| unread(path, error))?));
        }
        let mut rotated = Vec::new();
        for candidate in rotated_of(path).map_err(|error| unread(directory_of(path), error))? {
            let Ok(meta) = fs::metadata(&candidate) else { continue };
            let is_new = meta.is_file() && seen.insert(identity(&meta));
            if is_new && !since.is_some_and(|since| is_before(&meta, since)) {
                rotated.push((first_time(&candidate), candidate));
            }
        }
        rotated.sort();
        Ok(EventFiles {
            rotated: rotated.into_iter().map(|(_, path)| path).collect(),
            current: current.map(|file| (path.to_owned(), file)),
        })
    }

    /// Leaves out the file with this device and inode, and all newer ones.
    pub(crate) fn before(mut self, file: (u64, u64)) -> EventFiles {
        let is_it = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| identity(&meta) == file);
        let at = self.rotated.iter().position(is_it);
        self.rotated.truncate(at.unwrap_or(self.rotated.len()));
        self.current = None;
        self
    }

    /// Returns true if there is no file.
    pub(crate) fn is_empty(&self) -> bool {
        self.rotated.is_empty() && self.current.is_none()
    }

    /// Passes each line to `take`, oldest file first. Returns the files that could not be read to their end.
    ///
    /// # Errors
    /// Returns the error of `take`.
    pub(crate) fn read(
        self,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<Vec<UnreadFile>> {
        let mut unread = Vec::new();
        let opened = self.rotated.into_iter().map(|path| {
            let file = File::open(&path);
            (path, file)
        });
        for (path, file) in opened.chain(self.current.map(|(path, file)| (path, Ok(file)))) {
            let mut lines = match file {
                Ok(file) => LineReader::new(decoded(&path, file)),
                Err(error) => {
                    unread.push(UnreadFile { path, error });
                    continue;
                }
            };
            loop {
                match lines.next() {
                    Ok(Some(line)) => take(line)?,
                    Ok(None) => break,
                    Err(error) => {
                        unread.push(UnreadFile { path, error });
                        break;
                    }
                }
            }
        }
        Ok(unread)
    }
}

/// Reads lines up to a maximum length.
pub(crate) struct LineReader<R> {
    input: R,
    line: Vec<u8>,
}

impl<R: BufRead> LineReader<R> {
    pub(crate) fn new(input: R) -> LineReader<R> {
        LineReader { input, line: Vec::new() }
    }

    /// The next line without its newline; `None` at the end. Lines over [`LINE_BYTES_MAX`] are skipped.
    ///
    /// # Errors
    /// Returns the error of the file.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            self.line.clear();
            self.line.shrink_to(1 << 20);
            let most = LINE_BYTES_MAX as u64 + 1;
            let length = (&mut self.input).take(most).read_until(b'\n', &mut self.line)?;
            if length == 0 {
                return Ok(None);
            }
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
            } else if length > LINE_BYTES_MAX {
                skip_line(&mut self.input)?;
                continue;
            }
            return Ok(Some(&self.line));
        }
    }
}

fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(());
        }
        let end = memchr::memchr(b'\n', buffer);
        let length = end.map_or(buffer.len(), |at| at + 1);
        input.consume(length);
        if end.is_some() {
            return Ok(());
        }
    }
}

/// The text of a file, which logrotate may have compressed.
fn decoded(path: &Path, file: File) -> Box<dyn BufRead> {
    if path.extension().is_some_and(|end| end == "gz") {
        Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(BufReader::new(file))))
    } else {
        Box::new(BufReader::with_capacity(1 << 16, file))
    }
}

/// Device and inode.
pub(super) fn identity(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

fn is_before(meta: &Metadata, since: Wall) -> bool {
    let changed = meta.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    changed.is_some_and(|at| Wall(0).after(at + CHANGE_LEEWAY) < since)
}

/// The time of its first event; none for a file that cannot be read, which is reported when its turn comes.
fn first_time(path: &Path) -> Option<Wall> {
    let mut start = Vec::new();
    decoded(path, File::open(path).ok()?).take(64).read_to_end(&mut start).ok()?;
    line_time(&start)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Files rotated away from `path`, in any order.
pub(super) fn rotated_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    let directory = directory_of(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut found = Vec::new();
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let file_name = entry.file_name();
        if file_name.to_str().and_then(|other| other.strip_prefix(&name)).is_some_and(is_rotated) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Returns true for the end of a name that a rotation appends: a time by this program; a number, a date or a time by
/// logrotate, with `.gz` after compression. Other names may be copies, and their events would count twice.
fn is_rotated(end: &str) -> bool {
    let end = end.strip_suffix(".gz").unwrap_or(end);
    let is_number = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_digit())
            && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
    };
    match end.split_at_checked(1) {
        Some((".", rest)) => is_stamp(rest) || is_number(rest),
        Some(("-", rest)) => is_number(rest),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write as _;

    fn event(second: u32, name: &str) -> String {
        format!("{{\"time\":\"2026-11-21T10:11:{second:02}.000Z\",\"event\":\"{name}\"}}\n")
    }

    fn read(path: &Path, since: Option<Wall>) -> (Vec<String>, Vec<UnreadFile>) {
        let mut lines = Vec::new();
        let unread = EventFiles::find(path, since).unwrap().read(|line| {
            lines.push(String::from_utf8_lossy(line).into_owned() + "\n");
            Ok(())
        });
        (lines, unread.unwrap())
    }

    #[test]
    fn rotated_and_compressed_files_come_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let at = |end: &str| directory.path().join(format!("events.jsonl{end}"));
        let lines: Vec<_> = (0..5).map(|n| event(n, "received")).collect();
        let mut gz = GzEncoder::new(File::create(at(".2.gz")).unwrap(), Compression::fast());
        gz.write_all(lines[0].as_bytes()).unwrap();
        gz.finish().unwrap();
        fs::write(at("-20261121"), &lines[1]).unwrap();
        fs::write(at(".1"), &lines[2]).unwrap();
        fs::write(at(".2026-11-21T10-11-12.345Z"), &lines[3]).unwrap();
        fs::write(&path, &lines[4]).unwrap();
        // No rotation makes these.
        for other in [".bak", "~", ".swp", "-old", "2", ".gz"] {
            fs::write(at(other), event(9, "copied")).unwrap();
        }
        let (found, unread) = read(&path, None);
        assert!(found == lines && unread.is_empty(), "{found:?} {unread:?}");
        assert_eq!(read(&path, Some(Wall(u64::MAX))).0, [lines[4].clone()]);
    }

    #[test]
    fn damaged_files_are_reported_and_others_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        fs::write(directory.path().join("events.jsonl.1.gz"), "no gzip").unwrap();
        fs::write(&path, event(1, "received")).unwrap();
        let (found, unread) = read(&path, None);
        assert_eq!((found.len(), unread.len()), (1, 1));
        assert!(unread[0].path.ends_with("events.jsonl.1.gz"), "{unread:?}");
        let missing = directory.path().join("other.jsonl");
        assert!(EventFiles::find(&missing, None).unwrap().is_empty());
    }

    #[test]
    fn lines_over_the_maximum_are_skipped() {
        let long = vec![b'x'; LINE_BYTES_MAX];
        let text = [&b"first\n"[..], &long, b"\n", &long, b"x\nlast"].concat();
        let mut lines = LineReader::new(&text[..]);
        assert_eq!(lines.next().unwrap(), Some(&b"first"[..]));
        assert_eq!(lines.next().unwrap().map(<[u8]>::len), Some(LINE_BYTES_MAX));
        assert_eq!(lines.next().unwrap(), Some(&b"last"[..]));
        assert_eq!(lines.next().unwrap(), None);
    }
}
