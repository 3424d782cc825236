//! Maildirs as a sink: how many messages have come into them, and which.
//!
//! While a server delivers, the kernel tells of each name that appears in a `new` (inotify): reading
//! directories with thousands of files once a second would take the processors from those who are
//! measured. What counts at the end is what lies there, read file by file.

mod readers;
mod stock;

pub use stock::{Look, Stock};

use crate::dialogue::ContentReceiver as _;
use crate::file::{FileError, create_directory};
use crate::ledger::ArrivalState;
use crate::sink::message::Incoming;
use readers::Readers;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::Permissions;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Events are read in pieces of this size; the longest has a name of 255 bytes.
const READ_BYTES: usize = 64 * 1024;
/// Nobody but their owner looks into mailboxes.
const MODE: u32 = 0o700;

/// A mailbox that mail is waited for in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mailbox {
    /// Whose it is.
    pub address: String,
    /// Its Maildir.
    pub directory: PathBuf,
}

/// Mailboxes that are watched.
#[derive(Debug)]
pub struct Mailboxes {
    mailboxes: Vec<Mailbox>,
    events: OwnedFd,
    /// From the kernel's number of a watch to the mailbox.
    by_watch: HashMap<i32, usize>,
    /// Messages that have come into each.
    counts: Vec<u64>,
    /// Who reads and removes them, if anybody does.
    readers: Option<Readers>,
}

impl Mailboxes {
    /// Makes the Maildirs, gives them to this user and group, and begins to watch.
    ///
    /// # Errors
    /// When one can't be made, given away or watched.
    pub fn make(
        mailboxes: Vec<Mailbox>,
        owner: Option<(u32, u32)>,
    ) -> Result<Mailboxes, FileError> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        let events = events.map_err(|error| FileError::at(Path::new("inotify"))(error.into()))?;
        let mut by_watch = HashMap::with_capacity(mailboxes.len());
        for (index, mailbox) in mailboxes.iter().enumerate() {
            make_maildir(&mailbox.directory, owner)?;
            let new = mailbox.directory.join("new");
            // A Maildir's messages get there by link or by rename.
            let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO;
            let watch = inotify::add_watch(&events, &new, flags);
            let watch = watch.map_err(|error| FileError::at(&new)(error.into()))?;
            by_watch.insert(watch, index);
        }
        let counts = vec![0; mailboxes.len()];
        Ok(Mailboxes { mailboxes, events, by_watch, counts, readers: None })
    }

    /// From now on what comes is read when it has lain there for so long, and removed. The account of
    /// that goes into the file `ledger`.
    ///
    /// # Errors
    /// When that can't be made.
    pub fn read_after(&mut self, after: Duration, ledger: &Path) -> Result<(), FileError> {
        self.readers = Some(Readers::new(self.mailboxes.len(), after, ledger)?);
        Ok(())
    }

    /// Takes in what the kernel has told since the last time, and reads what is to be read.
    ///
    /// # Errors
    /// When that can't be read, or not be removed.
    pub fn look(&mut self) -> Result<(), FileError> {
        let mut buffer = vec![MaybeUninit::uninit(); READ_BYTES];
        let mut reader = Reader::new(&self.events, &mut buffer);
        let mut has_lost_some = false;
        loop {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                    has_lost_some = true;
                }
                Ok(event) => {
                    let Some(&index) = self.by_watch.get(&event.wd()) else { continue };
                    if let Some(count) = self.counts.get_mut(index) {
                        *count += 1;
                    }
                    if let (Some(readers), Some(name)) = (&mut self.readers, event.file_name()) {
                        let name = OsStr::from_bytes(name.to_bytes());
                        readers.handle_arrival(index, name.to_owned());
                    }
                }
                Err(Errno::WOULDBLOCK) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(FileError::at(Path::new("inotify"))(error.into())),
            }
        }
        if has_lost_some {
            self.find_again()?;
        }
        match &mut self.readers {
            Some(readers) => readers.read(&self.mailboxes, &mut self.counts),
            None => Ok(()),
        }
    }

    /// Counts what lies there, beside what was read.
    fn find_again(&mut self) -> Result<(), FileError> {
        if let Some(readers) = &mut self.readers {
            readers.look_for_more(&self.mailboxes)?;
        }
        for (index, mailbox) in self.mailboxes.iter().enumerate() {
            let there = files(&mailbox.directory.join("new"))?.len() as u64;
            let come = there + self.read_from(index);
            if let Some(count) = self.counts.get_mut(index) {
                *count = come;
            }
        }
        Ok(())
    }

    /// Messages that were read from that mailbox.
    fn read_from(&self, index: usize) -> u64 {
        let read = self.readers.as_ref().and_then(|readers| readers.counts().get(index));
        read.copied().unwrap_or(0)
    }

    /// Messages that have come into all of them, when they were last looked at.
    #[must_use]
    pub fn arrived_count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Messages that lie in each, when they were last looked at.
    fn present(&self) -> impl Iterator<Item = u64> {
        let counts = self.counts.iter().enumerate();
        counts.map(|(index, count)| count.saturating_sub(self.read_from(index)))
    }

    /// Messages that lie in all of them, when they were last looked at.
    #[must_use]
    pub fn message_count(&self) -> u64 {
        self.present().sum()
    }

    /// Mailboxes that have mail, when they were last looked at.
    #[must_use]
    pub fn filled_count(&self) -> u64 {
        self.present().filter(|&count| count > 0).count() as u64
    }

    /// What was read and what lies there, in the lines of a sink's ledger: each message by the id that
    /// our source gave it, or by postal's checksum.
    ///
    /// # Errors
    /// When a file can't be read.
    pub fn ledger(&self) -> Result<String, FileError> {
        let read = self.readers.as_ref().map(Readers::ledger).transpose()?;
        let mut lines = read.unwrap_or_default();
        for mailbox in &self.mailboxes {
            for path in files(&mailbox.directory.join("new"))? {
                let message = std::fs::read(&path).map_err(FileError::at(&path))?;
                let (id, state) = identify(&message);
                let damaged = if state == ArrivalState::Damaged { " damaged" } else { "" };
                // Writing to a String can't fail.
                let _ = writeln!(lines, "{id} {}{damaged}", mailbox.address);
            }
        }
        Ok(lines)
    }
}

fn make_maildir(directory: &Path, owner: Option<(u32, u32)>) -> Result<(), FileError> {
    for part in ["", "tmp", "new", "cur"] {
        let path = directory.join(part);
        create_directory(&path)?;
        let mode = std::fs::set_permissions(&path, Permissions::from_mode(MODE));
        mode.map_err(FileError::at(&path))?;
        if let Some((user, group)) = owner {
            chown(&path, Some(user), Some(group)).map_err(FileError::at(&path))?;
        }
    }
    Ok(())
}

/// The files of a directory, in the order of their names.
fn files(directory: &Path) -> Result<Vec<PathBuf>, FileError> {
    let entries = std::fs::read_dir(directory).map_err(FileError::at(directory))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> =
        paths.collect::<io::Result<_>>().map_err(FileError::at(directory))?;
    paths.sort();
    Ok(paths)
}

/// The id of a message, `-` without one, and whether it is whole.
fn identify(message: &[u8]) -> (String, ArrivalState) {
    let mut incoming = Incoming::default();
    incoming.push(&with_crlf(message));
    let id = incoming.id().or_else(|| incoming.postal_hash()).unwrap_or(b"-");
    // It becomes a word in the ledger.
    let id = String::from_utf8_lossy(id).replace(char::is_whitespace, "_");
    (id, incoming.state())
}

/// Servers keep mail with line ends of their own: LF alone becomes CRLF, as it was sent.
fn with_crlf(message: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(message.len() + message.len() / 32);
    for line in message.split_inclusive(|&byte| byte == b'\n') {
        match line {
            [.., b'\r', b'\n'] => all.extend_from_slice(line),
            [text @ .., b'\n'] => {
                all.extend_from_slice(text);
                all.extend_from_slice(b"\r\n");
            }
            _ => all.extend_from_slice(line),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{Mailbox, Mailboxes};
    use crate::source::{BodyKind, PreparedBody};
    use std::path::{Path, PathBuf};

    pub(super) fn message(id: &str) -> Vec<u8> {
        let body = PreparedBody::generate(BodyKind::Plain, 300, 1);
        let mut message = b"Return-Path: <a@b>\r\n".to_vec();
        body.write_header(&mut message, id, "a@b", "u@x", "date");
        message.extend_from_slice(&body.raw);
        message
    }

    /// Into `tmp`, then into `new`.
    pub(super) fn deliver(mailbox: &Path, name: &str, message: &[u8], by_link: bool) -> PathBuf {
        let (tmp, new) = (mailbox.join("tmp").join(name), mailbox.join("new").join(name));
        std::fs::write(&tmp, message).expect("written");
        if by_link {
            std::fs::hard_link(&tmp, &new)
                .and_then(|()| std::fs::remove_file(&tmp))
                .expect("linked");
        } else {
            std::fs::rename(&tmp, &new).expect("renamed");
        }
        new
    }

    pub(super) fn made(directory: &Path) -> (Mailboxes, Vec<Mailbox>) {
        let mailbox = |name: &str| Mailbox {
            address: format!("{name}@x"),
            directory: directory.join("x").join(name),
        };
        let list: Vec<Mailbox> = ["a", "b", "c"].map(mailbox).to_vec();
        (Mailboxes::make(list.clone(), None).expect("made"), list)
    }

    #[test]
    fn mail_is_counted_as_it_comes_by_link_or_by_rename() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut mailboxes, list) = made(directory.path());
        mailboxes.look().expect("nothing");
        assert_eq!((mailboxes.message_count(), mailboxes.filled_count()), (0, 0));
        deliver(&list[0].directory, "1", &message("r-1"), true);
        deliver(&list[0].directory, "2", &message("r-2"), false);
        deliver(&list[2].directory, "1", &message("r-3"), false);
        mailboxes.look().expect("three");
        assert_eq!((mailboxes.message_count(), mailboxes.filled_count()), (3, 2));
        // What a server writes into tmp is no mail yet.
        std::fs::write(list[1].directory.join("tmp/3"), "x").expect("written");
        mailboxes.look().expect("the same");
        assert_eq!(mailboxes.message_count(), 3);
    }

    #[test]
    fn what_the_kernel_could_not_keep_is_counted_by_hand() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mut mailboxes, list) = made(directory.path());
        deliver(&list[1].directory, "1", &message("r-1"), false);
        deliver(&list[1].directory, "2", &message("r-2"), false);
        mailboxes.look().expect("two");
        mailboxes.counts = vec![9, 9, 9];
        mailboxes.find_again().expect("counted");
        assert_eq!(mailboxes.counts, [0, 2, 0]);
    }

    #[test]
    fn each_message_is_named_whole_or_damaged_with_its_mailbox() {
        let directory = tempfile::tempdir().expect("a directory");
        let (mailboxes, list) = made(directory.path());
        deliver(&list[0].directory, "1", &message("r-1"), true);
        let unix: Vec<u8> = message("r-2").into_iter().filter(|&byte| byte != b'\r').collect();
        deliver(&list[0].directory, "2", &unix, true);
        let mut damaged = message("r-3");
        let last = damaged.len() - 5;
        damaged[last] ^= 1;
        deliver(&list[1].directory, "1", &damaged, true);
        deliver(&list[2].directory, "1", b"X-PostalHash: 96af\n\nx\n", true);
        deliver(&list[2].directory, "2", b"Subject: x\n\nx\n", true);
        let ledger = mailboxes.ledger().expect("read");
        let expected = "r-1 a@x\nr-2 a@x\nr-3 b@x damaged\n96af c@x\n- c@x\n";
        assert_eq!(ledger, expected);
    }
}
