//! Measures the postmaster's mailbox in the spool directory at intervals: its quota follows messages that are read and
//! removed there.

use crate::console::ConsoleLog;
use crate::file_watch::FileWatch;
use crate::world::mailbox_files::{QuotaUsage, count_at};
use mta::console::{Console as _, Level};
use mta::own_mailbox::{MailboxUsage, OWN_MAILBOX_BYTES_MAX};
use mta::shared::SharedState;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval of measurements. Messages accepted since the last one count as if they were in the mailbox.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Interval of log lines about unread mail.
const LOGGED_EVERY: Duration = Duration::from_secs(86_400);

/// Measures the mailbox for as long as the shared state exists.
pub(crate) fn watch(shared: &Arc<SharedState>, files: &FileWatch, console: &Arc<ConsoleLog>) {
    look(shared);
    let console = Arc::clone(console);
    let mut looks = MailboxSightings { looked: Instant::now(), logged: None, was_full: false };
    files.follow(shared, move |shared| looks.go_on(shared, &console));
}

/// Times of the last measurement and the last log line.
struct MailboxSightings {
    looked: Instant,
    logged: Option<Instant>,
    was_full: bool,
}

impl MailboxSightings {
    fn go_on(&mut self, shared: &SharedState, console: &ConsoleLog) {
        if self.looked.elapsed() < LOOK_EVERY && self.logged.is_some() {
            return;
        }
        if self.looked.elapsed() >= LOOK_EVERY {
            look(shared);
            self.looked = Instant::now();
        }
        let (Some(found), Some(path)) = (shared.own_mailbox.found(), shared.own_mailbox.path())
        else {
            return;
        };
        let is_full = shared.own_mailbox.is_full();
        let is_due = self.logged.is_none_or(|at| at.elapsed() >= LOGGED_EVERY);
        let has_mail = found.messages > 0;
        if has_mail && is_due || is_full && !self.was_full {
            let word = if is_full { " full=true" } else { "" };
            let text = format_args!(
                "mail for the postmaster waits messages={} bytes={} mailbox={}{word}",
                found.messages,
                found.bytes,
                path.display()
            );
            console.line(Level::Warn, "postmaster", text);
            self.logged = Some(Instant::now());
        }
        self.was_full = is_full;
    }
}

/// A mailbox that is not there yet is empty.
fn look(shared: &SharedState) {
    let Some(path) = shared.own_mailbox.path() else { return };
    let counted = match count_at(&path) {
        Err(rustix::io::Errno::NOENT) => QuotaUsage::default(),
        // Too many messages to count: the mailbox is full in any case.
        Err(rustix::io::Errno::TOOBIG) => QuotaUsage { bytes: OWN_MAILBOX_BYTES_MAX, messages: 1 },
        Err(_) => return,
        Ok(counted) => counted,
    };
    shared.own_mailbox.note(MailboxUsage { messages: counted.messages, bytes: counted.bytes });
}
