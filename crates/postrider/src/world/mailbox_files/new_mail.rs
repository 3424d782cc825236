//! A new message: written in tmp, synced, and renamed to a unique name in new.
//!
//! Several servers may share one mail store, and twins may give their messages the same names. So an existing name in
//! `new` is never overwritten. An existing file counts as this message only if it is identical octet for octet, as
//! after a crash; otherwise this message gets another name.

use super::maildir::Maildir;
use super::quota;
use bytes::Bytes;
use memchr::memchr_iter;
use mta::seams::MailboxError;
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, AtFlags, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::SystemTime;

/// Size of a write; a call may exceed it by one piece.
const WRITE_BYTES: usize = 64 * 1024;
/// Names that are tried for one message, in tmp and in new: each is another message's only where several
/// servers count as one.
const NAMES_MAX: u32 = 16;
/// Size of a read when two files are compared.
const COMPARED_BYTES: usize = 64 * 1024;

/// A file in tmp. Its name is gone when it is dropped, unless it was published.
#[derive(Debug)]
pub(super) struct NewMail {
    maildir: Arc<Maildir>,
    file: File,
    lines: LineEnds,
    /// Its name in new.
    name: String,
    /// The name that it has in tmp.
    name_in_tmp: String,
    bytes: u64,
    is_published: bool,
}

impl NewMail {
    /// Begins a file in tmp. `since` is the start of this server: an older file is a leftover.
    ///
    /// # Errors
    /// Returns the operating system's error.
    pub(super) fn begin(
        maildir: Arc<Maildir>,
        name: String,
        since: SystemTime,
    ) -> io::Result<NewMail> {
        for n in 0..NAMES_MAX {
            let name_in_tmp = numbered(&name, n);
            let file = match maildir.makes.file(&maildir.tmp, &name_in_tmp) {
                // A leftover of a crash with the same name belongs to this message, and is replaced. It is not
                // overwritten, because the mailbox's user may have created further links to it.
                Err(Errno::EXIST) if is_leftover(&maildir.tmp, &name_in_tmp, since) => {
                    rustix::fs::unlinkat(&maildir.tmp, &name_in_tmp, AtFlags::empty())?;
                    maildir.makes.file(&maildir.tmp, &name_in_tmp)?
                }
                // Another server, or an abandoned attempt of this one, is writing to it.
                Err(Errno::EXIST) => continue,
                other => other?,
            };
            let (file, lines) = (File::from(file), LineEnds::default());
            return Ok(NewMail {
                maildir,
                file,
                lines,
                name,
                name_in_tmp,
                bytes: 0,
                is_published: false,
            });
        }
        Err(Errno::EXIST.into())
    }

    /// Writes a complete message, several pieces at a time.
    ///
    /// # Errors
    /// Returns the operating system's error.
    pub(super) fn write(&mut self, pieces: &[Bytes]) -> io::Result<()> {
        let bytes = pieces.iter().map(Bytes::len).sum::<usize>();
        let mut out = Vec::with_capacity(bytes.min(2 * WRITE_BYTES) + 1);
        for piece in pieces {
            self.lines.localise(piece, &mut out);
            if out.len() >= WRITE_BYTES {
                self.put(&out)?;
                out.clear();
            }
        }
        out.extend_from_slice(self.lines.rest());
        self.put(&out)
    }

    /// Appends a piece of the message as it came, with CRLF at line ends.
    ///
    /// # Errors
    /// Returns the operating system's error.
    pub(super) fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        let mut out = Vec::with_capacity(piece.len() + 1);
        self.lines.localise(piece, &mut out);
        self.put(&out)
    }

    /// Writes the remaining output.
    ///
    /// # Errors
    /// Returns the operating system's error.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.put(self.lines.rest())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// Starts writeback of the content without waiting.
    pub(super) fn begin_sync(&self) {
        // On DONTNEED, Linux starts to write dirty pages.
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
    }

    /// Waits until the content is on the disk.
    ///
    /// # Errors
    /// Returns the operating system's error.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Moves the message to its name in new, which is durable after a sync of that directory.
    ///
    /// # Errors
    /// Returns the operating system's error, or `Full` if the quota is exceeded.
    pub(super) fn publish(&mut self) -> Result<(), MailboxError> {
        let Maildir { top, tmp, new, quota_bytes, counts, .. } = &*self.maildir;
        let mut has_room = quota_bytes.is_none();
        for n in 0..NAMES_MAX {
            // From the size in the name, other servers compute the usage without opening the file.
            let name = match quota_bytes {
                None => numbered(&self.name, n),
                Some(_) => format!("{},S={}", numbered(&self.name, n), self.bytes),
            };
            // After a crash it may be there, and counted, already.
            if let Some(quota_bytes) = *quota_bytes
                && !has_room
                && rustix::fs::statat(new, &name, AtFlags::SYMLINK_NOFOLLOW).is_err()
            {
                has_room = quota::has_room(&self.maildir, quota_bytes, self.bytes);
                if !has_room {
                    return Err(MailboxError::Full { quota_bytes });
                }
            }
            match take_name(tmp, &self.name_in_tmp, new, &name) {
                Ok(()) => {
                    self.is_published = true;
                    if quota_bytes.is_some() {
                        quota::add(top, counts, self.bytes);
                    }
                    return Ok(());
                }
                // It was delivered before; the file in tmp is not needed.
                Err(Errno::EXIST) if self.is_this(new, &name) => {
                    let _ = rustix::fs::unlinkat(tmp, &self.name_in_tmp, AtFlags::empty());
                    self.is_published = true;
                    return Ok(());
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Err(io::Error::from(Errno::EXIST).into())
    }

    /// Returns true if a file in new is this message. An unreadable file counts as a different one.
    fn is_this(&self, new: &OwnedFd, name: &str) -> bool {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(found) = rustix::fs::openat(new, name, flags, Mode::empty()) else { return false };
        let is_alike = rustix::fs::fstat(&found).is_ok_and(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                && u64::try_from(stat.st_size) == Ok(self.bytes)
        });
        is_alike && has_same_content(&self.file, &File::from(found), self.bytes).unwrap_or(false)
    }

    pub(super) fn maildir(&self) -> &Arc<Maildir> {
        &self.maildir
    }
}

impl Drop for NewMail {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = rustix::fs::unlinkat(&self.maildir.tmp, &self.name_in_tmp, AtFlags::empty());
        }
    }
}

/// The n-th candidate name; 0 is the name itself. Another delivery of the message tries the same names in the same
/// order.
fn numbered(name: &str, n: u32) -> String {
    if n == 0 { name.to_owned() } else { format!("{name}.{n}") }
}

/// Returns true if a file in tmp was last written before this server started.
fn is_leftover(tmp: &OwnedFd, name: &str, since: SystemTime) -> bool {
    let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    rustix::fs::statat(tmp, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| u64::try_from(stat.st_mtime).is_ok_and(|at| at < since.as_secs()))
}

/// Moves a file to a name that nothing has yet.
fn take_name(tmp: &OwnedFd, from: &str, new: &OwnedFd, to: &str) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(tmp, from, new, to, RenameFlags::NOREPLACE) {
        // Not every file system knows how (renameat2(2)), NFS for one. A link takes no name over either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            rustix::fs::linkat(tmp, from, new, to, AtFlags::empty())?;
            let _ = rustix::fs::unlinkat(tmp, from, AtFlags::empty());
            Ok(())
        }
        other => other,
    }
}

/// Compares two files of `bytes` octets.
fn has_same_content(one: &File, other: &File, bytes: u64) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]);
    let mut at = 0;
    while at < bytes {
        let count = usize::try_from(bytes - at).map_or(COMPARED_BYTES, |n| n.min(COMPARED_BYTES));
        one.read_exact_at(&mut left[..count], at)?;
        other.read_exact_at(&mut right[..count], at)?;
        if left[..count] != right[..count] {
            return Ok(false);
        }
        at += count as u64;
    }
    Ok(true)
}

/// Turns CRLF into the LF that ends lines on this system, as readers of Maildirs and programs expect. A CR that ends no
/// line stays.
#[derive(Debug, Default)]
pub(in crate::world) struct LineEnds {
    /// The piece before ended in a CR, which is not written yet.
    has_cr: bool,
}

impl LineEnds {
    /// Adds the output for the next piece.
    pub(in crate::world) fn localise(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        if self.has_cr && !piece.is_empty() && piece[0] != b'\n' {
            out.push(b'\r');
        }
        self.has_cr &= piece.is_empty();
        let mut begin = 0;
        for cr in memchr_iter(b'\r', piece) {
            match piece.get(cr + 1) {
                Some(b'\n') => {
                    out.extend_from_slice(&piece[begin..cr]);
                    begin = cr + 1;
                }
                Some(_) => {}
                None => {
                    self.has_cr = true;
                    out.extend_from_slice(&piece[begin..cr]);
                    return;
                }
            }
        }
        out.extend_from_slice(&piece[begin..]);
    }

    /// Pending output at the end.
    pub(in crate::world) fn rest(&self) -> &'static [u8] {
        if self.has_cr { b"\r" } else { b"" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_in_lf_wherever_pieces_end() {
        let whole = b"\r\nSubject: a\r\n\r\nb\rc\r\r\nd\n\r";
        let expected = b"\nSubject: a\n\nb\rc\r\nd\n\r";
        for first in 0..=whole.len() {
            for second in first..=whole.len() {
                let mut lines = LineEnds::default();
                let pieces = [&whole[..first], &whole[first..second], &whole[second..]];
                let mut out = Vec::new();
                pieces.iter().for_each(|piece| lines.localise(piece, &mut out));
                out.extend_from_slice(lines.rest());
                assert_eq!(out, expected, "cut at {first} and {second}");
            }
        }
    }
}
