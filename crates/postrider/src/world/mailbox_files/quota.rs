//! Mailbox quotas by Maildir++'s `maildirsize`: the first line is the quota, each further line has octets and messages
//! to add. Dovecot, Courier and other servers maintain the same file, and the mailbox's owner may write anything into
//! it. A file with impossible values is recomputed by counting.

use super::maildir::{FileCreator, Maildir};
use crate::mutex::lock;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

const NAME: &str = "maildirsize";
/// Size of a file beyond which the mailbox is counted again, as in Maildir++.
const FILE_BYTES_MAX: u64 = 5_120;
/// Maximum age of a recently counted file that is trusted when it shows a full mailbox.
const BELIEVED: Duration = Duration::from_secs(15 * 60);
/// Counting takes at most one part in this number of the time: a mailbox is counted again after this multiple of the
/// time taken.
const COUNT_PART: u32 = 50;
/// A count that takes no longer is not cached.
const QUICK: Duration = Duration::from_millis(10);
/// Files that are counted in one mailbox, at most.
const COUNTED_MAX: u64 = 1_000_000;
/// Timeout of a count.
const COUNT_MAX: Duration = Duration::from_secs(5);
/// Maximum number of cached sums; at the limit the cache is cleared.
const REMEMBERED_MAX: usize = 10_000;
/// The folder whose messages do not count.
const TRASH: &[u8] = b".Trash";

/// Cached usage of mailboxes. An owner may fill a mailbox with files and corrupt `maildirsize`; the cache bounds the
/// writers' time for that.
#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<HashMap<Mailbox, CachedUsage>>);

/// The device and inode of a mailbox.
type Mailbox = (u64, u64);

/// A sum that was counted.
#[derive(Clone, Copy, Debug)]
struct CachedUsage {
    /// `None`: it could not be counted.
    counted: Option<QuotaUsage>,
    at: Instant,
    took: Duration,
}

impl CachedUsage {
    /// Returns true if the mailbox may be counted again.
    fn is_due(&self) -> bool {
        self.took <= QUICK
            || self.at.elapsed() >= self.took.saturating_mul(COUNT_PART).min(BELIEVED)
    }
}

impl Counts {
    fn of(&self, mailbox: Option<Mailbox>) -> Option<CachedUsage> {
        lock(&self.0).get(&mailbox?).copied()
    }

    fn remember(&self, mailbox: Option<Mailbox>, remembered: CachedUsage) {
        let (Some(mailbox), mut all) = (mailbox, lock(&self.0)) else { return };
        if all.len() >= REMEMBERED_MAX && !all.contains_key(&mailbox) {
            all.clear();
        }
        all.insert(mailbox, remembered);
    }

    fn add(&self, mailbox: Option<Mailbox>, bytes: u64) {
        if let Some(mailbox) = mailbox
            && let Some(CachedUsage { counted: Some(counted), .. }) =
                lock(&self.0).get_mut(&mailbox)
        {
            counted.bytes = counted.bytes.saturating_add(bytes);
            counted.messages += 1;
        }
    }
}

fn mailbox_of(top: &OwnedFd) -> Option<Mailbox> {
    let stat = rustix::fs::fstat(top).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// Returns true if `bytes` more octets fit into the mailbox. Mail is not refused if counting fails.
pub(super) fn has_room(maildir: &Maildir, quota_bytes: u64, bytes: u64) -> bool {
    let Maildir { top, tmp, makes, counts, .. } = maildir;
    let fits = |used: u64| used.saturating_add(bytes) <= quota_bytes;
    match read(top, quota_bytes) {
        Some(sum) if fits(sum.bytes) || sum.is_fresh => fits(sum.bytes),
        _ => {
            let Some(counted) = counted(top, counts) else { return true };
            write(top, tmp, makes, quota_bytes, counted);
            fits(counted.bytes)
        }
    }
}

/// Returns true if `bytes` more octets do not fit into the mailbox. Changes nothing. If counting fails, the mailbox is
/// not full.
pub(super) fn is_full(top: &OwnedFd, counts: &Counts, quota_bytes: u64, bytes: u64) -> bool {
    let fits = |used: u64| used.saturating_add(bytes) <= quota_bytes;
    match read(top, quota_bytes) {
        Some(sum) if fits(sum.bytes) || sum.is_fresh => !fits(sum.bytes),
        _ => counted(top, counts).is_some_and(|counted| !fits(counted.bytes)),
    }
}

/// The usage of a mailbox, counted now or from a recent count.
fn counted(top: &OwnedFd, counts: &Counts) -> Option<QuotaUsage> {
    let mailbox = mailbox_of(top);
    if let Some(known) = counts.of(mailbox).filter(|known| !known.is_due()) {
        return known.counted;
    }
    let at = Instant::now();
    let counted = count(top, at).ok();
    counts.remember(mailbox, CachedUsage { counted, at: Instant::now(), took: at.elapsed() });
    counted
}

/// Adds a message to the sum. If that fails, it is missing until the next count.
pub(super) fn add(top: &OwnedFd, counts: &Counts, bytes: u64) {
    counts.add(mailbox_of(top), bytes);
    let flags = OFlags::WRONLY | OFlags::APPEND;
    if let Some(mut file) = open(top, flags) {
        let _ = file.write_all(format!("{bytes} 1\n").as_bytes());
    }
}

/// A sum that was read.
struct MaildirSize {
    bytes: u64,
    /// It was just counted.
    is_fresh: bool,
}

/// The usage of a mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QuotaUsage {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
}

/// The file, if it is one, and nothing that a link leads to or that would block.
fn open(top: &OwnedFd, flags: OFlags) -> Option<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(top, NAME, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    // One with other names may be no file of this mailbox at all.
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    (is_file && stat.st_nlink == 1).then(|| File::from(file))
}

fn read(top: &OwnedFd, quota_bytes: u64) -> Option<MaildirSize> {
    let file = open(top, OFlags::RDONLY)?;
    let age = file.metadata().ok()?.modified().ok().map(|at| SystemTime::now().duration_since(at));
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).ok()?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return None;
    }
    let (bytes, lines) = sum_of(&text, quota_bytes)?;
    let is_young = matches!(age, Some(Ok(age)) if age < BELIEVED);
    Some(MaildirSize { bytes, is_fresh: lines == 1 && is_young })
}

/// The sum in octets, and the number of lines; `None` for a different quota or invalid text.
fn sum_of(text: &str, quota_bytes: u64) -> Option<(u64, usize)> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    if lines.next()?.strip_suffix('S')?.parse() != Ok(quota_bytes) {
        return None;
    }
    let (mut bytes, mut messages, mut count) = (0_i64, 0_i64, 0);
    for line in lines {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<i64>);
        let (Some(Ok(more)), Some(Ok(many)), None) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            return None;
        };
        bytes = bytes.checked_add(more)?;
        messages = messages.checked_add(many)?;
        count += 1;
    }
    // Negative sums are invalid, and so are octets without messages.
    let is_possible = messages >= 0 && (bytes == 0 || messages > 0) && count > 0;
    Some((u64::try_from(bytes).ok().filter(|_| is_possible)?, count))
}

/// Rewrites the file through tmp, so that no reader sees a partial one.
fn write(top: &OwnedFd, tmp: &OwnedFd, makes: &FileCreator, quota_bytes: u64, counted: QuotaUsage) {
    let _ = rustix::fs::unlinkat(tmp, NAME, AtFlags::empty());
    let Ok(file) = makes.file(tmp, NAME) else { return };
    let QuotaUsage { bytes, messages } = counted;
    let text = format!("{quota_bytes}S\n{bytes} {messages}\n");
    if File::from(file).write_all(text.as_bytes()).is_ok() {
        let _ = rustix::fs::renameat(tmp, NAME, top, NAME);
    }
    // Remains if the rename failed, for example over a directory.
    let _ = rustix::fs::unlinkat(tmp, NAME, AtFlags::empty());
}

/// Counts the mailbox in this directory.
pub(crate) fn count_at(path: &Path) -> rustix::io::Result<QuotaUsage> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    count(&rustix::fs::open(path, flags, Mode::empty())?, Instant::now())
}

/// Adds up the messages of a mailbox and its folders, within [`COUNT_MAX`] since `begun`. A mailbox beyond the limits
/// has no usage.
fn count(top: &OwnedFd, begun: Instant) -> rustix::io::Result<QuotaUsage> {
    let mut counting = RunningCount { counted: QuotaUsage::default(), seen: 0, begun };
    counting.add_home(top)?;
    for entry in Dir::new(directory(top, c".")?)? {
        let entry = entry?;
        counting.look()?;
        let name = entry.file_name().to_bytes();
        if !name.starts_with(b".") || matches!(name, b"." | b"..") || name == TRASH {
            continue;
        }
        // Only directories are folders.
        if let Ok(folder) = directory(top, entry.file_name()) {
            counting.add_home(&folder)?;
        }
    }
    Ok(counting.counted)
}

/// A count that is being made.
struct RunningCount {
    counted: QuotaUsage,
    /// Number of names read.
    seen: u64,
    begun: Instant,
}

impl RunningCount {
    /// Adds up the messages of the inbox, or of a folder.
    fn add_home(&mut self, home: &OwnedFd) -> rustix::io::Result<()> {
        for name in [c"new", c"cur"] {
            let Ok(directory) = directory(home, name) else { continue };
            for entry in Dir::read_from(&directory)? {
                let entry = entry?;
                self.look()?;
                let name = entry.file_name();
                if name.to_bytes().starts_with(b".") || is_trashed(name.to_bytes()) {
                    continue;
                }
                let bytes = size_of(name.to_bytes()).or_else(|| {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    let stat = rustix::fs::statat(&directory, name, flags).ok()?;
                    u64::try_from(stat.st_size).ok()
                });
                // A message that was moved is counted in its new place.
                if let Some(bytes) = bytes {
                    self.counted.bytes = self.counted.bytes.saturating_add(bytes);
                    self.counted.messages += 1;
                }
            }
        }
        Ok(())
    }

    /// One more name.
    fn look(&mut self) -> rustix::io::Result<()> {
        self.seen += 1;
        // The clock is read now and then.
        let is_late = self.seen.is_multiple_of(1_024) && self.begun.elapsed() > COUNT_MAX;
        if self.seen > COUNTED_MAX || is_late { Err(Errno::TOOBIG) } else { Ok(()) }
    }
}

fn directory(at: &OwnedFd, name: &std::ffi::CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// The size in a file name: `1.host,S=400:2,S`.
fn size_of(name: &[u8]) -> Option<u64> {
    let name = std::str::from_utf8(name).ok()?;
    let name = name.split(':').next()?;
    name.split(',').find_map(|part| part.strip_prefix("S="))?.parse().ok()
}

/// Marked to be thrown away.
fn is_trashed(name: &[u8]) -> bool {
    let flags = name.windows(3).rposition(|part| part == b":2,");
    flags.is_some_and(|at| name[at + 3..].contains(&b'T'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_has_an_end() {
        let counting =
            |seen| RunningCount { counted: QuotaUsage::default(), seen, begun: Instant::now() };
        assert!(counting(COUNTED_MAX - 1).look().is_ok());
        assert!(counting(COUNTED_MAX).look().is_err());
        let Some(begun) = Instant::now().checked_sub(2 * COUNT_MAX) else { return };
        let mut late = RunningCount { begun, ..counting(1_023) };
        assert!(late.look().is_err());
    }

    #[test]
    fn what_took_long_to_count_is_believed_for_a_while() {
        let (mailbox, counts) = (Some((1, 2)), Counts::default());
        let counted = Some(QuotaUsage { bytes: 100, messages: 1 });
        let is_due = |took, ago| {
            let at = Instant::now().checked_sub(ago)?;
            counts.remember(mailbox, CachedUsage { counted, at, took });
            counts.of(mailbox).map(|known| known.is_due())
        };
        let (second, ago) = (Duration::from_secs(1), |n| Duration::from_secs(n));
        assert_eq!(is_due(QUICK, ago(0)), Some(true));
        assert!(!is_due(second, ago(49)).unwrap_or(false));
        assert!(is_due(second, ago(50)).unwrap_or(true));
        assert!(is_due(100 * second, BELIEVED).unwrap_or(true));
        // What is delivered meanwhile counts.
        counts.add(mailbox, 11);
        assert_eq!(
            counts.of(mailbox).unwrap().counted,
            Some(QuotaUsage { bytes: 111, messages: 2 })
        );
    }

    #[test]
    fn a_sum_is_what_the_lines_add_up_to() {
        assert_eq!(sum_of("1000S\n0 0\n", 1_000), Some((0, 1)));
        assert_eq!(sum_of("1000S\n500 2\n400 1\n-500 -2\n", 1_000), Some((400, 3)));
        assert_eq!(sum_of("1000S\n  500    2  \n", 1_000), Some((500, 1)));
    }

    #[test]
    fn a_file_that_lies_is_not_believed() {
        for text in [
            "",
            "\n",
            "1000S",
            "1000S\n",
            "999S\n0 0\n",
            "1000C\n0 0\n",
            "1000S,5C\n0 0\n",
            "1000S\n-1 1\n",
            "1000S\n5 -1\n",
            "1000S\n5 0\n",
            "1000S\n9223372036854775807 1\n1 1\n",
            "1000S\n99999999999999999999 1\n",
            "1000S\n1 1 1\n",
            "1000S\n1\n",
            "1000S\nx y\n",
            "1000S\n1 1\n\n",
            "\0\0\0",
        ] {
            assert_eq!(sum_of(text, 1_000), None, "{text:?}");
        }
    }

    #[test]
    fn file_names_tell_sizes_and_flags() {
        assert_eq!(size_of(b"1.a.host,S=400:2,S"), Some(400));
        assert_eq!(size_of(b"1.a.host,S=400,W=410"), Some(400));
        assert_eq!(size_of(b"1.a.host:2,S=4"), None);
        assert_eq!(size_of(b"1.a.host,S=-4"), None);
        assert_eq!(size_of(b"1.\xff,S=4"), None);
        assert!(is_trashed(b"1.a:2,ST") && !is_trashed(b"1.T:2,S") && !is_trashed(b"1.T"));
    }
}
