//! A new message: written in tmp, synced, moved to new.

use super::maildir::Maildir;
use super::quota;
use bytes::Bytes;
use memchr::memchr_iter;
use mta::seams::MailboxError;
use rustix::fs::{Advice, AtFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

/// So much of a message is written with one call, and a piece more.
const WRITE_BYTES: usize = 64 * 1024;

/// A file in tmp. Its name is gone when it is dropped, unless it was published.
#[derive(Debug)]
pub(super) struct NewMail {
    maildir: Arc<Maildir>,
    file: File,
    lines: LineEnds,
    name: String,
    bytes: u64,
    is_published: bool,
}

impl NewMail {
    /// Begins a file in tmp.
    ///
    /// # Errors
    /// As the operating system says.
    pub(super) fn begin(maildir: Arc<Maildir>, name: String) -> io::Result<NewMail> {
        let file = match maildir.makes.file(&maildir.tmp, &name) {
            Err(Errno::EXIST) => {
                // A leftover of a crash has the same name: it is this message's, and is written
                // anew. Not over the old file, which the mailbox's user may have linked elsewhere.
                rustix::fs::unlinkat(&maildir.tmp, &name, AtFlags::empty())?;
                maildir.makes.file(&maildir.tmp, &name)?
            }
            other => other?,
        };
        let (file, lines) = (File::from(file), LineEnds::default());
        Ok(NewMail { maildir, file, lines, name, bytes: 0, is_published: false })
    }

    /// Writes a message that is there as a whole; of many pieces, some at a time.
    ///
    /// # Errors
    /// As the operating system says.
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
    /// As the operating system says.
    pub(super) fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        let mut out = Vec::with_capacity(piece.len() + 1);
        self.lines.localise(piece, &mut out);
        self.put(&out)
    }

    /// Writes what is left of what was appended.
    ///
    /// # Errors
    /// As the operating system says.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.put(self.lines.rest())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes)
    }

    /// Has the system begin to bring the content to the disk, without waiting.
    pub(super) fn begin_sync(&self) {
        // Linux begins to write what it is told will not be needed.
        let _ = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
    }

    /// Waits until the content is on the disk.
    ///
    /// # Errors
    /// As the operating system says.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Gives it its name in new, which is on the disk when that directory is.
    ///
    /// # Errors
    /// As the operating system says, or when there is no room for it.
    pub(super) fn publish(&mut self) -> Result<(), MailboxError> {
        let Maildir { top, tmp, new, makes, quota_bytes, file_system: _ } = &*self.maildir;
        let Some(quota_bytes) = *quota_bytes else {
            rustix::fs::renameat(tmp, &self.name, new, &self.name).map_err(io::Error::from)?;
            self.is_published = true;
            return Ok(());
        };
        // By its size in its name others add up the mailbox without looking at the file.
        let name = format!("{},S={}", self.name, self.bytes);
        // After a crash it may be there, and counted, already.
        let is_counted = rustix::fs::statat(new, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if !is_counted && !quota::has_room(top, tmp, makes, quota_bytes, self.bytes) {
            return Err(MailboxError::Full { quota_bytes });
        }
        rustix::fs::renameat(tmp, &self.name, new, &name).map_err(io::Error::from)?;
        self.is_published = true;
        if !is_counted {
            quota::add(top, self.bytes);
        }
        Ok(())
    }

    /// Where it is.
    pub(super) fn maildir(&self) -> &Arc<Maildir> {
        &self.maildir
    }
}

impl Drop for NewMail {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = rustix::fs::unlinkat(&self.maildir.tmp, &self.name, AtFlags::empty());
        }
    }
}

/// Turns CRLF into the LF that ends lines in the files of this system, as every reader of Maildirs
/// expects. A CR that ends no line stays.
#[derive(Debug, Default)]
struct LineEnds {
    /// The piece before ended in a CR, which is not written yet.
    has_cr: bool,
}

impl LineEnds {
    /// Adds what to write for the next piece.
    fn localise(&mut self, piece: &[u8], out: &mut Vec<u8>) {
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

    /// What to write at the end.
    fn rest(&self) -> &'static [u8] {
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
