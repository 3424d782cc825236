//! The file behind the event log: rotation, and lines that are never torn by us.

use crate::beside_spool;
use mail::Wall;
use mta::control::text::parse_wall;
use mta::event::EventFile;
use rustix::fs::Mode;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Interval of checks of the path: logrotate may have moved the file.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// An open event log.
#[derive(Debug)]
pub(super) struct LogFile {
    options: EventFile,
    file: Option<File>,
    /// Device and inode of `file`.
    identity: (u64, u64),
    file_bytes: u64,
    /// Time of its first line.
    begun: Wall,
    looked: Wall,
    /// Bytes at the start of the caller's text that are in the file already.
    written: usize,
}

impl LogFile {
    /// Nothing is opened yet.
    pub(super) fn new(options: EventFile, now: Wall) -> LogFile {
        LogFile {
            options,
            file: None,
            identity: (0, 0),
            file_bytes: 0,
            begun: now,
            looked: now,
            written: 0,
        }
    }

    /// Opens the file for appending, unless it is open; makes it when it is missing, and its directory beside a spool.
    pub(super) fn open(&mut self, now: Wall) -> io::Result<()> {
        if self.file.is_none() { self.reopen(now) } else { Ok(()) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.options.path
    }

    /// Appends `text` and empties it; returns the octets written. After an error the text is kept, and the next call
    /// continues at the same position, so that no line is torn or doubled.
    pub(super) fn write(&mut self, text: &mut Vec<u8>, now: Wall) -> io::Result<u64> {
        if self.written == 0 {
            self.follow_path(now);
            self.rotate_if_due(now)?;
        }
        self.open(now)?;
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        let from = self.written;
        while self.written < text.len() {
            match file.write(&text[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.written += n;
                    self.file_bytes += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        text.clear();
        let bytes = (self.written - from) as u64;
        self.written = 0;
        Ok(bytes)
    }

    /// Closes the file; a later write opens it again.
    pub(super) fn close(&mut self) {
        self.file = None;
    }

    fn reopen(&mut self, now: Wall) -> io::Result<()> {
        // Events below an empty mount point would be hidden later.
        beside_spool::make_if_missing(beside_spool::above(&self.options.path), Mode::RWXU)?;
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o640)
            .open(&self.options.path)?;
        let meta = file.metadata()?;
        self.identity = (meta.dev(), meta.ino());
        self.file_bytes = meta.len();
        self.begun = first_time(&mut file).unwrap_or(now);
        // Ends a line that a crash truncated, so that the next one is separate.
        if self.written == 0 && self.file_bytes > 0 && last_byte(&mut file)? != b'\n' {
            file.write_all(b"\n")?;
            self.file_bytes += 1;
        }
        self.file = Some(file);
        Ok(())
    }

    /// Lets go of the file when the path leads to another one, or to none.
    fn follow_path(&mut self, now: Wall) {
        if now.since(self.looked) < LOOK_EVERY {
            return;
        }
        self.looked = now;
        let meta = fs::metadata(&self.options.path);
        if !meta.is_ok_and(|meta| (meta.dev(), meta.ino()) == self.identity) {
            self.file = None;
        }
    }

    fn rotate_if_due(&mut self, now: Wall) -> io::Result<()> {
        let large = self.options.rotate_bytes.is_some_and(|max| self.file_bytes >= max);
        let old = self.options.rotate_after.is_some_and(|max| now.since(self.begun) >= max);
        if self.file.is_none() || self.file_bytes == 0 || !(large || old) {
            return Ok(());
        }
        fs::rename(&self.options.path, self.rotated_name(now))?;
        self.file = None;
        self.reopen(now)?;
        // A file too many is no reason to stop writing.
        let _ = self.remove_oldest();
        Ok(())
    }

    /// `events.jsonl.2026-11-21T10-11-12.345Z`: names sort by age, and need no quotes in a shell.
    fn rotated_name(&self, now: Wall) -> PathBuf {
        let mut at = now;
        loop {
            let mut name: OsString = self.options.path.clone().into_os_string();
            name.push(format!(".{}", at.to_string().replace(':', "-")));
            let name = PathBuf::from(name);
            if !name.exists() {
                return name;
            }
            at = at.after(Duration::from_millis(1));
        }
    }

    fn remove_oldest(&self) -> io::Result<()> {
        let Some(keep) = self.options.keep_files else { return Ok(()) };
        let mut rotated = rotated_files(&self.options.path)?;
        let surplus = rotated.len().saturating_sub(keep as usize);
        for path in rotated.drain(..surplus) {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

/// Files rotated away from `path`, oldest first.
fn rotated_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let file_name = entry.file_name();
        let Some(file_name) = file_name.to_str() else { continue };
        let stamp = file_name.strip_prefix(&name).and_then(|rest| rest.strip_prefix('.'));
        if stamp.is_some_and(is_stamp) {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

/// Returns true for the end of a name that a rotation appends. This program removes only files that it named.
pub(crate) fn is_stamp(text: &str) -> bool {
    text.get(11..).is_some_and(|_| text.is_ascii())
        && parse_wall(&format!("{}{}", &text[..11], text[11..].replace('-', ":"))).is_some()
}

fn last_byte(file: &mut File) -> io::Result<u8> {
    let mut byte = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}

/// The time of the first line.
fn first_time(file: &mut File) -> Option<Wall> {
    let mut start = [0; 64];
    file.seek(SeekFrom::Start(0)).ok()?;
    let length = file.read(&mut start).ok()?;
    line_time(&start[..length])
}

/// The time of a line; every line begins with it.
pub(crate) fn line_time(line: &[u8]) -> Option<Wall> {
    let text = line.strip_prefix(b"{\"time\":\"")?.get(..24)?;
    parse_wall(std::str::from_utf8(text).ok()?)
}
