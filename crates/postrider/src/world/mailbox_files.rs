//! Maildirs on the file system, written by a thread of their own: shards never wait for a disk.

use bytes::Bytes;
use mta::seams::MailStore;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use tokio::sync::oneshot;

/// Threads that write mailboxes. Each spends its time waiting for syncs.
const THREADS: usize = 4;

type Answer<T> = oneshot::Sender<io::Result<T>>;

enum Job {
    Deliver { directory: PathBuf, name: String, pieces: Vec<Bytes>, answer: Answer<()> },
    Begin { handle: u64, directory: PathBuf, name: String, answer: Answer<u64> },
    Append { handle: u64, piece: Bytes, answer: Answer<()> },
    Finish { handle: u64, keep: bool, answer: Answer<()> },
}

/// A way to the threads; one per shard.
#[derive(Clone, Debug)]
pub(crate) struct MailboxFiles {
    threads: Vec<mpsc::Sender<Job>>,
    next: Arc<AtomicU64>,
}

/// Starts the threads.
pub(crate) struct MailboxThread;

impl MailboxThread {
    /// The threads end when every [`MailboxFiles`] is gone.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start() -> io::Result<MailboxFiles> {
        let mut threads = Vec::new();
        for n in 0..THREADS {
            let (sender, jobs) = mpsc::channel();
            std::thread::Builder::new().name(format!("mailbox-{n}")).spawn(move || run(&jobs))?;
            threads.push(sender);
        }
        Ok(MailboxFiles { threads, next: Arc::default() })
    }
}

impl MailboxFiles {
    async fn ask<T>(&self, key: u64, job: impl FnOnce(Answer<T>) -> Job) -> io::Result<T> {
        let (answer, answered) = oneshot::channel();
        let thread = &self.threads[(key % THREADS as u64) as usize];
        let gone = || io::Error::other("the mailbox thread has ended");
        thread.send(job(answer)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

impl MailStore for MailboxFiles {
    async fn deliver(
        &self,
        directory: PathBuf,
        name: String,
        pieces: Vec<Bytes>,
    ) -> io::Result<()> {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        self.ask(key, |answer| Job::Deliver { directory, name, pieces, answer }).await
    }

    async fn begin(&self, directory: PathBuf, name: String) -> io::Result<u64> {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.ask(handle, |answer| Job::Begin { handle, directory, name, answer }).await
    }

    async fn append(&self, handle: u64, piece: Bytes) -> io::Result<()> {
        self.ask(handle, |answer| Job::Append { handle, piece, answer }).await
    }

    async fn finish(&self, handle: u64, keep: bool) -> io::Result<()> {
        self.ask(handle, |answer| Job::Finish { handle, keep, answer }).await
    }
}

fn run(jobs: &mpsc::Receiver<Job>) {
    let mut open: BTreeMap<u64, NewMail> = BTreeMap::new();
    // Answers that nobody waits for any more (the shard has ended) are dropped.
    while let Ok(job) = jobs.recv() {
        match job {
            Job::Deliver { directory, name, pieces, answer } => {
                let _ = answer.send(deliver(&directory, &name, &pieces));
            }
            Job::Begin { handle, directory, name, answer } => {
                let begun = NewMail::begin(&directory, &name).map(|mail| {
                    open.insert(handle, mail);
                    handle
                });
                let _ = answer.send(begun);
            }
            Job::Append { handle, piece, answer } => {
                let result = match open.get_mut(&handle) {
                    Some(mail) => mail.append(&piece),
                    None => Err(io::ErrorKind::NotFound.into()),
                };
                let _ = answer.send(result);
            }
            Job::Finish { handle, keep, answer } => {
                let result = match open.remove(&handle) {
                    Some(mail) if keep => mail.publish(),
                    Some(mail) => fs::remove_file(&mail.tmp),
                    None => Err(io::ErrorKind::NotFound.into()),
                };
                let _ = answer.send(result);
            }
        }
    }
}

fn deliver(directory: &Path, name: &str, pieces: &[Bytes]) -> io::Result<()> {
    let mut mail = NewMail::begin(directory, name)?;
    for piece in pieces {
        if let Err(error) = mail.append(piece) {
            let _ = fs::remove_file(&mail.tmp);
            return Err(error);
        }
    }
    mail.publish()
}

/// A file in tmp.
struct NewMail {
    file: File,
    lines: LineEnds,
    tmp: PathBuf,
    new: PathBuf,
}

impl NewMail {
    fn begin(directory: &Path, name: &str) -> io::Result<NewMail> {
        let tmp = directory.join("tmp").join(name);
        let new = directory.join("new").join(name);
        let mut options = OpenOptions::new();
        // A leftover of a crash has the same name: it is this message's, and is written anew.
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = match options.open(&tmp) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_maildir(directory)?;
                options.open(&tmp)?
            }
            other => other?,
        };
        Ok(NewMail { file, lines: LineEnds::default(), tmp, new })
    }

    /// Appends a piece of the message as it came, with CRLF at line ends.
    fn append(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.write_all(&self.lines.localise(piece))
    }

    /// The content is synced before the name appears in new, and the name before we say so.
    fn publish(mut self) -> io::Result<()> {
        self.file.write_all(self.lines.rest())?;
        self.file.sync_data()?;
        fs::rename(&self.tmp, &self.new)?;
        match self.new.parent() {
            Some(parent) => File::open(parent)?.sync_all(),
            None => Ok(()),
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
    /// What to write for the next piece.
    fn localise(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(piece.len() + 1);
        if self.has_cr && !piece.is_empty() && piece[0] != b'\n' {
            out.push(b'\r');
        }
        self.has_cr &= piece.is_empty();
        let mut begin = 0;
        for cr in memchr::memchr_iter(b'\r', piece) {
            match piece.get(cr + 1) {
                Some(b'\n') => {
                    out.extend_from_slice(&piece[begin..cr]);
                    begin = cr + 1;
                }
                Some(_) => {}
                None => {
                    self.has_cr = true;
                    out.extend_from_slice(&piece[begin..cr]);
                    return out;
                }
            }
        }
        out.extend_from_slice(&piece[begin..]);
        out
    }

    /// What to write at the end.
    fn rest(&self) -> &'static [u8] {
        if self.has_cr { b"\r" } else { b"" }
    }
}

/// Makes a Maildir with the directories above it, and syncs every directory that got a new name.
fn make_maildir(directory: &Path) -> io::Result<()> {
    let mut missing = Vec::new();
    let mut above = Some(directory);
    while let Some(path) = above.filter(|path| !path.as_os_str().is_empty() && !path.exists()) {
        missing.push(path);
        above = path.parent();
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    // `tmp` last: where it is, the others are, even if this was broken off once.
    for part in ["new", "cur", "tmp"] {
        builder.create(directory.join(part))?;
    }
    File::open(directory)?.sync_all()?;
    for path in missing {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_appears_in_new_only_when_it_is_whole() {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("example.org").join("user");
        deliver(&directory, "1.a", &[Bytes::from_static(b"ab"), Bytes::from_static(b"c")]).unwrap();
        assert_eq!(fs::read(directory.join("new/1.a")).unwrap(), b"abc");
        let mut mail = NewMail::begin(&directory, "2.b").unwrap();
        mail.file.write_all(b"half").unwrap();
        assert!(directory.join("tmp/2.b").exists());
        assert!(!directory.join("new/2.b").exists());
        mail.publish().unwrap();
        assert!(!directory.join("tmp/2.b").exists());
        assert_eq!(fs::read(directory.join("new/2.b")).unwrap(), b"half");
    }

    #[test]
    fn lines_end_in_lf_wherever_pieces_end() {
        let whole = b"\r\nSubject: a\r\n\r\nb\rc\r\r\nd\n\r";
        let expected = b"\nSubject: a\n\nb\rc\r\nd\n\r";
        for first in 0..=whole.len() {
            for second in first..=whole.len() {
                let mut lines = LineEnds::default();
                let pieces = [&whole[..first], &whole[first..second], &whole[second..]];
                let mut out: Vec<u8> =
                    pieces.iter().flat_map(|piece| lines.localise(piece)).collect();
                out.extend_from_slice(lines.rest());
                assert_eq!(out, expected, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn a_mailbox_that_cannot_be_made_is_an_error() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        fs::write(&file, b"in the way").unwrap();
        assert!(deliver(&file.join("user"), "1.a", &[]).is_err());
    }
}
