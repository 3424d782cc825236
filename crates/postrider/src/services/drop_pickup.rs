//! Takes up messages that `sendmail` has left in the directory of a `local` listener while the server was down.
//!
//! Each file is submitted at the listener's own socket as the user that owns it, so that the rules for the user apply.
//! It is removed once the message is durable: a crash in between submits it again.

use super::{Adoption, CandidateConfig, Service};
use crate::beside_spool;
use crate::console::ConsoleLog;
use crate::mutex::lock;
use crate::sendmail::drop_file::{self, PARTIAL, WHOLE};
use crate::sendmail::session::{SubmitOutcome, SubmitSession, SubmittedContent, SubmittedEnvelope};
use crate::system_user;
use config::{Config, Problem};
use mta::console::{Console as _, Level};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, Permissions};
use std::io::{self, Cursor, Read, Seek};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Mode of the directory: all users may create files, and only the owner may list and remove those of other users.
const MODE: u32 = 0o1733;
/// Pause between two looks into the directories.
const PACE: Duration = Duration::from_secs(2);
/// Pause before a deferred message is tried again.
const DEFERRED_PACE: Duration = Duration::from_secs(60);
/// Maximum number of files in one look; the rest follows in the next one.
const FILES_MAX: usize = 1_000;
/// Age of a file at which a deferred message is returned to its sender. The queue keeps mail as long.
const AGE_MAX: Duration = Duration::from_secs(5 * 86_400);
/// Maximum length of the header in a report to the sender; the rest is left out.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Age of a half-written file that is removed.
const PARTIAL_AGE_MAX: Duration = Duration::from_secs(86_400);

/// Takes up the messages of all `local` listeners.
#[derive(Clone)]
pub(crate) struct DropPickup {
    places: Arc<Mutex<Vec<DropPlace>>>,
    console: Arc<ConsoleLog>,
    has_thread: Arc<AtomicBool>,
}

/// The directory of a listener, and its socket.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DropPlace {
    directory: PathBuf,
    socket: PathBuf,
}

impl DropPickup {
    pub(crate) fn new(console: &Arc<ConsoleLog>) -> DropPickup {
        let console = Arc::clone(console);
        DropPickup { places: Arc::default(), console, has_thread: Arc::default() }
    }

    fn start_thread(&self) -> io::Result<()> {
        if self.has_thread.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let mut look = DropLook {
            places: Arc::clone(&self.places),
            console: Arc::clone(&self.console),
            logged: BTreeSet::new(),
            waiting: BTreeMap::new(),
            unremoved: BTreeSet::new(),
        };
        let started = thread::Builder::new().name("drop".to_owned()).spawn(move || {
            loop {
                thread::sleep(look.round());
            }
        });
        started.map(drop).inspect_err(|_| self.has_thread.store(false, Ordering::Relaxed))
    }
}

fn places(config: &Config) -> Vec<DropPlace> {
    let of = |listener: &Arc<config::Listener>| {
        let directory = listener.protocol.drop_directory()?.to_owned();
        Some(DropPlace { directory, socket: listener.socket.as_ref()?.to_path_buf() })
    };
    config.listeners.iter().filter_map(of).collect()
}

impl Service for DropPickup {
    fn name(&self) -> &'static str {
        "dropped messages"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let (this, places, is_check) = (self.clone(), places(next.config), next.is_check);
        if !places.is_empty() && !is_check {
            let why = |error| format!("cannot start a thread for dropped messages: {error}");
            let started = self.start_thread().map_err(why);
            started.map_err(|why| vec![next.config.mistake_at("listener", why)])?;
        }
        Ok(Box::new(move || *lock(&this.places) = places))
    }
}

/// The result of a file.
enum Taken {
    /// It is submitted, and removed.
    Done,
    /// Another try follows.
    Deferred(String),
    /// The server does not answer.
    Unreachable,
    /// It is submitted, and can't be removed.
    Unremoved(io::Error),
    /// It is not a message that may be submitted.
    Refused(String),
}

/// The thread's state.
struct DropLook {
    places: Arc<Mutex<Vec<DropPlace>>>,
    console: Arc<ConsoleLog>,
    /// Trouble that was logged, each once.
    logged: BTreeSet<String>,
    /// Deferred messages and the time of the next try. Until then they take no place in a look.
    waiting: BTreeMap<PathBuf, Instant>,
    /// Submitted files that can't be removed, and must not be submitted again.
    unremoved: BTreeSet<PathBuf>,
}

impl DropLook {
    /// Looks into each directory once. Returns the pause before the next round.
    fn round(&mut self) -> Duration {
        let places = lock(&self.places).clone();
        if places.is_empty() {
            // The configuration is about to be adopted.
            return PACE / 10;
        }
        let now = Instant::now();
        self.waiting.retain(|_, due| *due > now);
        for place in &places {
            if let Err(error) = self.take_up(place) {
                let directory = place.directory.display();
                self.log_once(format!("directory unusable path={directory}: {error}"));
            }
        }
        if self.logged.len() > FILES_MAX {
            self.logged.clear();
        }
        PACE
    }

    fn log_once(&mut self, text: String) {
        if !self.logged.contains(&text) {
            self.console.line(Level::Warn, "drop", format_args!("{text}"));
            self.logged.insert(text);
        }
    }

    /// Submits the messages of a directory, oldest first.
    fn take_up(&mut self, place: &DropPlace) -> io::Result<()> {
        make(&place.directory)?;
        for path in self.due(&place.directory)? {
            if starts_with(&path, PARTIAL) {
                self.refuse(&path, "it was never completed");
                continue;
            }
            if self.unremoved.contains(&path) {
                if fs::remove_file(&path).is_ok() {
                    self.unremoved.remove(&path);
                }
                continue;
            }
            match take(place, &path, &mut |text| self.log_once(text)) {
                Taken::Done => {}
                Taken::Refused(why) => self.refuse(&path, &why),
                Taken::Deferred(why) => {
                    self.waiting.insert(path.clone(), Instant::now() + DEFERRED_PACE);
                    self.log_once(format!("message deferred path={}: {why}", path.display()));
                }
                Taken::Unremoved(error) => {
                    let shown = path.display();
                    self.log_once(format!("submitted file not removed path={shown}: {error}"));
                    self.unremoved.insert(path);
                }
                // At a start, the listener follows soon.
                Taken::Unreachable => return Ok(()),
            }
        }
        Ok(())
    }

    /// The files of a directory to look at now. Files that wait take no place.
    fn due(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let is_due = |path: &PathBuf| {
            starts_with(path, WHOLE) && !self.waiting.contains_key(path)
                || starts_with(path, PARTIAL) && age(path) > PARTIAL_AGE_MAX
        };
        // Directories can't be removed.
        let entries = fs::read_dir(directory)?.filter_map(Result::ok);
        let entries = entries.filter(|entry| !entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let paths = entries.map(|entry| entry.path()).filter(is_due);
        let mut paths: Vec<PathBuf> = paths.take(FILES_MAX).collect();
        paths.sort();
        Ok(paths)
    }

    /// Logs a file that is not submitted, and removes it. Directories stay.
    fn refuse(&mut self, path: &Path, why: &str) {
        let owner = fs::symlink_metadata(path).map_or(0, |meta| meta.uid());
        self.log_once(format!("file refused path={} owner={owner}: {why}", path.display()));
        let _ = fs::remove_file(path);
    }
}

/// Creates the directory beside the spool, and checks an existing one.
fn make(directory: &Path) -> io::Result<()> {
    match fs::symlink_metadata(directory) {
        Ok(meta) if !meta.is_dir() => return Err(io::ErrorKind::NotADirectory.into()),
        // Its owner may remove and replace the files of all users.
        Ok(meta) if meta.uid() != 0 && meta.uid() != system_user::own().user => {
            let text = "it belongs to another user";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    beside_spool::make_if_missing(directory, Mode::RWXU)?;
    fs::set_permissions(directory, Permissions::from_mode(MODE))
}

fn starts_with(path: &Path, start: &str) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(start.as_bytes()))
}

/// Zero if it can't be found out.
fn age(path: &Path) -> Duration {
    let modified = fs::symlink_metadata(path).and_then(|meta| meta.modified());
    modified.ok().and_then(|at| at.elapsed().ok()).unwrap_or_default()
}

/// Submits a file as its owner.
fn take(place: &DropPlace, path: &Path, log: &mut dyn FnMut(String)) -> Taken {
    let (file, owner) = match open(path) {
        Ok(opened) => opened,
        Err(taken) => return taken,
    };
    let (envelope, mut content) = match drop_file::parse(file) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Taken::Refused(error.to_string());
        }
        Err(error) => return Taken::Deferred(error.to_string()),
    };
    let opened = SubmitSession::connect_as(&place.socket, owner).and_then(SubmitSession::open);
    let mut session = match opened {
        Ok(Ok(session)) => session,
        Ok(Err(reply)) if reply.is_temporary() => return Taken::Unreachable,
        // An operator has revoked the login, and may allow it again.
        Ok(Err(reply)) => return Taken::Deferred(reply.text),
        Err(_) => return Taken::Unreachable,
    };
    let is_last = age(path) >= AGE_MAX;
    let mut outcome = match is_last {
        // Accepted recipients get it even if some are still deferred.
        true => session.submit(&envelope, &mut content),
        false => session.submit_whole(&envelope, &mut content),
    };
    if !outcome.deferred.is_empty() && !is_last || session.is_broken() {
        return Taken::Deferred(outcome.reason.unwrap_or_default());
    }
    outcome.give_up();
    if !outcome.refused.is_empty() {
        report(&mut session, &envelope, &mut content, &outcome, log);
    }
    session.quit();
    if let Err(error) = fs::remove_file(path) {
        return Taken::Unremoved(error);
    }
    // If that fails, a power cut doubles the message.
    let _ = File::open(&place.directory).and_then(|directory| directory.sync_all());
    Taken::Done
}

/// Opens a file that only its owner can have written, and returns the owner.
fn open(path: &Path) -> Result<(File, u32), Taken> {
    // A link could name another user's file, and a pipe would hang.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => return Err(Taken::Refused("it is a symbolic link".to_owned())),
        Err(error @ (Errno::ACCESS | Errno::NXIO)) => {
            return Err(Taken::Refused(error.to_string()));
        }
        // Too few descriptors, a failing disk: the message stays.
        Err(error) => return Err(Taken::Deferred(error.to_string())),
    };
    let meta = file.metadata().map_err(|error| Taken::Deferred(error.to_string()))?;
    let why = match meta.mode() & 0o022 {
        _ if !meta.is_file() => "it is not a regular file",
        _ if meta.nlink() != 1 => "it has several names",
        0 => return Ok((file, meta.uid())),
        _ => "other users may write to it",
    };
    Err(Taken::Refused(why.to_owned()))
}

/// Returns the refused recipients to the sender. The user that sent the message gets no exit code.
fn report<R: Read + Seek>(
    session: &mut SubmitSession,
    envelope: &SubmittedEnvelope,
    content: &mut SubmittedContent<R>,
    outcome: &SubmitOutcome,
    log: &mut dyn FnMut(String),
) {
    let lines: Vec<String> = outcome
        .refused
        .iter()
        .map(|(recipient, reply)| {
            let recipients = if recipient.is_empty() {
                envelope.recipients.join(", ")
            } else {
                recipient.clone()
            };
            format!("<{recipients}>: {} {}\r\n", reply.code, reply.text)
        })
        .collect();
    if envelope.sender.is_empty() || envelope.notify.as_deref() == Some("NEVER") {
        return log(format!(
            "recipients refused: {}",
            lines.concat().trim_end().replace("\r\n", "; ")
        ));
    }
    let beginning = content.beginning(HEADER_BYTES_MAX).unwrap_or_default();
    let header_end = beginning.windows(4).position(|four| four == b"\r\n\r\n");
    let header = beginning.get(..header_end.unwrap_or(beginning.len())).unwrap_or_default();
    let header = String::from_utf8_lossy(header);
    let text = format!(
        "From: Mail Delivery System <MAILER-DAEMON>\r\nTo: {}\r\nSubject: Undelivered Mail Returned to Sender\r\n\
         Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\
         Your message could not be sent to these recipients:\r\n\r\n{}\r\nThe header of your message:\r\n\r\n{header}\r\n",
        envelope.sender,
        lines.concat(),
    );
    let own = SubmittedEnvelope {
        recipients: vec![envelope.sender.clone()],
        is_8bit: !text.is_ascii(),
        ..SubmittedEnvelope::default()
    };
    let mut whole = SubmittedContent::new(Cursor::new(&text), 0, text.len() as u64);
    let sent = session.submit(&own, &mut whole);
    if sent.accepted == 0 {
        log(format!(
            "report not accepted sender={}: {}",
            envelope.sender,
            lines.concat().trim_end()
        ));
    }
}
