//! The queue directory of a stopped Postfix. Its files are read as they are: neither Postfix nor its configuration is
//! needed.

mod import;
mod message;
mod name;
mod records;

pub(crate) use import::{ImportReport, import};

use name::QueueId;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Queues with messages, in the order of import.
const QUEUES: [&str; 4] = ["hold", "deferred", "active", "incoming"];
/// Messages of sendmail(1) that Postfix has not taken yet, and those that it could not read.
const UNREAD: [(&str, &str); 2] = [
    ("maildrop", "pickup(8) has not taken it: start Postfix once with `postfix start`"),
    ("corrupt", "Postfix found it corrupt"),
];
/// Maximum levels of directories below a queue (`hash_queue_depth`).
const DEPTH_MAX: usize = 16;
/// Maximum size of a queue file, which is read into memory.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Maximum size of a file with the reasons of delays; the rest is not read.
const REASONS_BYTES_MAX: u64 = 64 << 10;

/// A file that stays where it is.
#[derive(Debug)]
pub(crate) struct LeftFile {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

/// A file in a queue.
#[derive(Debug)]
struct FoundFile {
    queue: &'static str,
    path: PathBuf,
    /// Its name.
    id: String,
}

/// A queue file that is open and locked.
struct OpenedFile {
    file: File,
    inode: u64,
    /// Time of the next attempt, for deferred messages; seconds.
    modified_at: u64,
    content: Vec<u8>,
}

/// A queue directory that Postfix can't use as long as this value lives.
struct StoppedQueue {
    directory: PathBuf,
    /// The lock of master(8). `None` if Postfix never ran there.
    _lock: Option<File>,
}

impl StoppedQueue {
    /// Takes the lock of master(8).
    ///
    /// # Errors
    /// Returns a sentence if this is no queue directory, or Postfix is running.
    fn lock(directory: &Path) -> Result<StoppedQueue, String> {
        let at = directory.display();
        if let Some(missing) = QUEUES.iter().find(|queue| !directory.join(queue).is_dir()) {
            return Err(format!(
                "{at} is no queue directory of Postfix, it has no {missing}/: `postconf \
                 queue_directory` prints its path"
            ));
        }
        let path = directory.join("pid/master.pid");
        let lock = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(format!("cannot open {}: {error}", path.display())),
            Ok(file) => match file.try_lock() {
                Ok(()) => Some(file),
                Err(TryLockError::WouldBlock) => {
                    return Err(format!("Postfix is running in {at}: stop it with `postfix stop`"));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(format!("cannot lock {}: {error}", path.display()));
                }
            },
        };
        Ok(StoppedQueue { directory: directory.to_owned(), _lock: lock })
    }

    /// All files of its queues, and those that do not belong there.
    fn scan(&self) -> Result<(Vec<FoundFile>, Vec<LeftFile>), String> {
        let (mut found, mut left) = (Vec::new(), Vec::new());
        for queue in QUEUES {
            self.scan_below(queue, "", &mut found, &mut left)?;
        }
        for (queue, why) in UNREAD {
            let (mut unread, mut others) = (Vec::new(), Vec::new());
            if self.directory.join(queue).is_dir() {
                self.scan_below(queue, "", &mut unread, &mut others)?;
            }
            let paths = unread.into_iter().map(|file| file.path);
            let paths = paths.chain(others.into_iter().map(|file| file.path));
            left.extend(paths.map(|path| LeftFile { path, why: why.to_owned() }));
        }
        Ok((found, left))
    }

    /// The files of a queue below the directories with these characters.
    fn scan_below(
        &self,
        queue: &'static str,
        below: &str,
        found: &mut Vec<FoundFile>,
        left: &mut Vec<LeftFile>,
    ) -> Result<(), String> {
        let directory = below.chars().fold(self.directory.join(queue), |directory, character| {
            directory.join(character.to_string())
        });
        let failed = |error: io::Error| format!("cannot read {}: {error}", directory.display());
        for entry in fs::read_dir(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_str().unwrap_or_default();
            let kind = entry.file_type().map_err(failed)?;
            let is_level = kind.is_dir() && name.len() == 1 && below.len() < DEPTH_MAX;
            if is_level {
                self.scan_below(queue, &format!("{below}{name}"), found, left)?;
                continue;
            }
            let why = match QueueId::parse(name) {
                _ if !kind.is_file() => "it is no file",
                None => "its name is no queue id",
                Some(id) if !id.is_below(below) => {
                    "it is in the wrong directory: `postsuper -s` moves it"
                }
                Some(_) => {
                    found.push(FoundFile { queue, path, id: name.to_owned() });
                    continue;
                }
            };
            left.push(LeftFile { path, why: why.to_owned() });
        }
        Ok(())
    }

    /// The reason of the last delay, as Postfix keeps it for `mailq`.
    fn reason_of(&self, id: &str) -> Option<String> {
        let flat = self.directory.join("defer").join(id);
        let hashed = || {
            let parsed = QueueId::parse(id)?;
            Some(self.directory.join("defer").join(parsed.first_directory()).join(id))
        };
        let file = File::open(flat).ok().or_else(|| File::open(hashed()?).ok())?;
        let mut bytes = Vec::new();
        file.take(REASONS_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let reason = text.lines().find_map(|line| line.strip_prefix("reason="));
        reason.map(str::to_owned)
    }
}

/// Opens a file of a queue, locks it as Postfix's processes do, and reads it.
///
/// # Errors
/// Returns the reason why it stays where it is.
fn open(found: &FoundFile, is_copied: bool) -> Result<OpenedFile, String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let options =
        OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&found.path);
    let mut file = options.map_err(|error| format!("cannot open it: {error}"))?;
    let status = file.metadata().map_err(|error| format!("cannot examine it: {error}"))?;
    // cleanup(8) sets this bit when the message is complete.
    if status.permissions().mode() & 0o100 == 0 {
        return Err("Postfix had not finished it, and not promised to deliver it".to_owned());
    }
    if status.len() > FILE_BYTES_MAX {
        return Err(format!("it is larger than {FILE_BYTES_MAX} octets: let Postfix deliver it"));
    }
    let named = QueueId::parse(&found.id).map(|id| id.inode);
    if named != Some(status.ino()) && !is_copied {
        return Err("its name has another inode: if the queue is a copy, add --copied".to_owned());
    }
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err("a process of Postfix has it open: try again later".to_owned());
        }
        Err(TryLockError::Error(error)) => return Err(format!("cannot lock it: {error}")),
    }
    let mut content = Vec::new();
    let read = (&mut file).take(FILE_BYTES_MAX + 1).read_to_end(&mut content);
    read.map_err(|error| format!("cannot read it: {error}"))?;
    let modified_at = u64::try_from(status.mtime()).unwrap_or(0);
    Ok(OpenedFile { file, inode: status.ino(), modified_at, content })
}
