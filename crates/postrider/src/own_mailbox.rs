//! Looks now and then into the mailbox in the spool's directory that keeps the postmaster's mail: its
//! quota follows what somebody reads and removes there. On a thread of its own, as disks may hang.

use crate::console::ConsoleLog;
use crate::world::mailbox_files::{Counted, count_at};
use mta::console::{Console as _, Level};
use mta::own_mailbox::{Found, OWN_MAILBOX_BYTES_MAX};
use mta::shared::Shared;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Between two looks. What is accepted meanwhile counts as if it were in the mailbox.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// The end of the server is noticed within this.
const END_NOTICED: Duration = Duration::from_secs(1);
/// Mail that nobody fetches is logged as often.
const LOGGED_EVERY: Duration = Duration::from_secs(86_400);

/// Looks for as long as there is anybody who wants to know.
pub(crate) fn watch(shared: &Arc<Shared>, console: &Arc<ConsoleLog>) {
    look(shared);
    let (shared, log) = (Arc::downgrade(shared), Arc::clone(console));
    let thread = thread::Builder::new().name("own-mailbox".to_owned());
    if let Err(why) = thread.spawn(move || run(&shared, &log)) {
        // The quota counts all that comes from now on, and what comes is deferred when it is used up.
        let text = format_args!("the postmaster's mailbox is not looked into: {why}");
        console.line(Level::Warn, "postmaster", text);
    }
}

fn run(shared: &Weak<Shared>, console: &ConsoleLog) {
    let (mut looked, mut logged, mut was_full) = (Instant::now(), None::<Instant>, false);
    loop {
        thread::sleep(END_NOTICED);
        let Some(shared) = shared.upgrade() else { return };
        if looked.elapsed() < LOOK_EVERY && logged.is_some() {
            continue;
        }
        if looked.elapsed() >= LOOK_EVERY {
            look(&shared);
            looked = Instant::now();
        }
        let (Some(found), Some(path)) = (shared.own_mailbox.found(), shared.own_mailbox.path())
        else {
            continue;
        };
        let is_full = shared.own_mailbox.is_full();
        let is_due = logged.is_none_or(|at| at.elapsed() >= LOGGED_EVERY);
        let has_mail = found.messages > 0;
        if has_mail && is_due || is_full && !was_full {
            let word = if is_full { " full=true" } else { "" };
            let text = format_args!(
                "mail for the postmaster waits messages={} bytes={} mailbox={}{word}",
                found.messages,
                found.bytes,
                path.display()
            );
            console.line(Level::Warn, "postmaster", text);
            logged = Some(Instant::now());
        }
        was_full = is_full;
    }
}

/// A mailbox that is not there yet is empty.
fn look(shared: &Shared) {
    let Some(path) = shared.own_mailbox.path() else { return };
    let counted = match count_at(&path) {
        Err(rustix::io::Errno::NOENT) => Counted::default(),
        // More messages than can be counted: whatever they are, it is enough.
        Err(rustix::io::Errno::TOOBIG) => Counted { bytes: OWN_MAILBOX_BYTES_MAX, messages: 1 },
        Err(_) => return,
        Ok(counted) => counted,
    };
    shared.own_mailbox.note(Found { messages: counted.messages, bytes: counted.bytes });
}
