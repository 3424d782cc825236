//! The directories that mailboxes are in: they must be there, and their disks answer. Each is looked at by a
//! thread of its own, so that one that hangs hides no other.

use crate::mutex::lock;
use crate::world::clock::Start;
use config::Config;
use mta::problems::{Found, Moment, ProblemKind, Watch};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Directories that are looked at, at most: a thread for each.
const ROOTS_MAX: usize = 64;
/// How often.
const LOOKED_EVERY: Duration = Duration::from_secs(3);
/// One that takes longer does not answer.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// The directories of the configuration in force.
pub(crate) struct MailboxRoots {
    roots: Mutex<BTreeMap<PathBuf, Arc<Root>>>,
    started: Start,
}

struct Root {
    path: PathBuf,
    /// Why it can't be used, when it was looked at last.
    wrong: Mutex<Option<String>>,
    looking: Watch,
}

impl MailboxRoots {
    pub(super) fn new(started: Start) -> MailboxRoots {
        MailboxRoots { roots: Mutex::default(), started }
    }

    /// Looks at those of this configuration from now on.
    pub(super) fn adopt(&self, config: &Config) {
        let wanted = channels::mailbox_roots(config).map(|(_, path)| path.to_owned());
        let mut roots = lock(&self.roots);
        let mut kept = BTreeMap::new();
        for path in wanted {
            if kept.len() >= ROOTS_MAX && !kept.contains_key(&path) {
                continue;
            }
            let root = roots.remove(&path).unwrap_or_else(|| self.look_at(path.clone()));
            kept.insert(path, root);
        }
        *roots = kept;
    }

    /// Its thread ends when nobody else wants to know; one that hangs ends with the process.
    fn look_at(&self, path: PathBuf) -> Arc<Root> {
        let (wrong, looking) = Default::default();
        let root = Arc::new(Root { path, wrong, looking });
        let (of_thread, started) = (Arc::clone(&root), self.started);
        let name = "mailbox-root".to_owned();
        let thread = thread::Builder::new().name(name).spawn(move || {
            while Arc::strong_count(&of_thread) > 1 {
                of_thread.looking.begin(started.elapsed());
                let wrong = wrong_with(&of_thread.path);
                of_thread.looking.end();
                *lock(&of_thread.wrong) = wrong;
                thread::park_timeout(LOOKED_EVERY);
            }
        });
        if let Err(error) = thread {
            *lock(&root.wrong) = Some(format!("it can't be looked at: {error}"));
        }
        root
    }
}

impl ProblemKind for MailboxRoots {
    fn name(&self) -> &'static str {
        "mailbox_directory"
    }

    fn find(&self, now: Moment, found: &mut dyn FnMut(Found)) {
        for (path, root) in &*lock(&self.roots) {
            let about = path.display().to_string();
            if root.looking.under_way(now.mono).is_some_and(|time| time > LOOK_MAX) {
                let text = format!("the disk of {about} does not answer");
                found(Found::warning(&about, text).next_step("mail for its mailboxes waits"));
            } else if let Some(why) = lock(&root.wrong).as_ref() {
                let text = format!("mailboxes can't be kept in {about}: {why}");
                found(Found::warning(&about, text).next_step("mount its disk, or make it"));
            }
        }
    }
}

/// Why mailboxes can't be in a directory.
fn wrong_with(path: &Path) -> Option<String> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_dir() => None,
        Ok(_) => Some("it is no directory".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Some("it is not there".to_owned())
        }
        Err(error) => Some(error.to_string()),
    }
}

/// Directories of a configuration that can't be used now, a sentence for each.
pub(crate) fn missing_roots(config: &Config) -> Vec<String> {
    let sentence = |(route, path): (&str, &Path)| {
        // The server makes its spool at the first start.
        if config.spool.paths.iter().any(|spool| spool == path) {
            return None;
        }
        let (why, path) = (wrong_with(path)?, path.display());
        Some(format!(
            "route {route}: mailboxes can't be kept in {path}: {why}: mount its disk, or make it"
        ))
    };
    channels::mailbox_roots(config).filter_map(sentence).collect()
}
