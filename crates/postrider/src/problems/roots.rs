//! Checks directories and files that are needed from time to time: they must exist, and their disks must respond. Each
//! is checked independently, so that one that hangs hides no other, in use or not.

use crate::beside_spool;
use crate::file_watch::FileWatch;
use crate::mutex::lock;
use crate::world::clock::Start;
use config::Config;
use mta::event::EventSettings;
use mta::problems::{ClockReading, DetectedProblem, ProblemKind, Severity, Watchdog};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum number of paths to check per kind.
const PATHS_MAX: usize = 64;
/// Interval of the checks.
const LOOKED_EVERY: Duration = Duration::from_secs(3);
/// One that takes longer does not answer.
const LOOK_MAX: Duration = Duration::from_secs(2);
/// Next steps for the operator.
const MAKE: &str = "mount its disk, or create it";
const LOOK: &str = "check the disk";
const ROOM: &str = "free disk space";
/// Files of the resolver.
const NAMES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// The purpose of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PathPurpose {
    /// Directories before the first placeholder of Maildirs' paths.
    Mailboxes,
    Spool,
    Events,
    /// Files with host names and name servers.
    Names,
}

/// The needed paths of the configuration in force.
pub(crate) struct NeededPaths {
    kind: &'static str,
    wants: fn(&Config) -> Vec<(PathPurpose, PathBuf)>,
    roots: Mutex<BTreeMap<(PathPurpose, PathBuf), Arc<Root>>>,
    watch: Arc<FileWatch>,
    started: Start,
}

/// The reason why a path is unusable, and the next step.
type PathProblem = (String, &'static str);

struct Root {
    needed: PathPurpose,
    path: PathBuf,
    /// The result of the last check.
    wrong: Mutex<Option<PathProblem>>,
    looking: Watchdog,
}

fn mailboxes(config: &Config) -> Vec<(PathPurpose, PathBuf)> {
    let roots = channels::mailbox_roots(config);
    roots.map(|(_, path)| (PathPurpose::Mailboxes, path.to_owned())).collect()
}

fn others(config: &Config) -> Vec<(PathPurpose, PathBuf)> {
    // A spool in memory needs no directory.
    let is_kept = config.spool.durability != config::Durability::Memory;
    let spools = config.spool.paths.iter().filter(|_| is_kept);
    let spools = spools.map(|path| (PathPurpose::Spool, path.clone()));
    let events =
        config.of::<EventSettings>().map(|events| (PathPurpose::Events, events.file.path.clone()));
    let names = NAMES.iter().map(|path| (PathPurpose::Names, PathBuf::from(path)));
    spools.chain(events).chain(names).collect()
}

impl NeededPaths {
    /// Directories of mailboxes.
    pub(super) fn mailboxes(watch: &Arc<FileWatch>, started: Start) -> NeededPaths {
        NeededPaths::new("mailbox_directory", mailboxes, (watch, started))
    }

    /// All other needed paths.
    pub(super) fn others(watch: &Arc<FileWatch>, started: Start) -> NeededPaths {
        NeededPaths::new("disk", others, (watch, started))
    }

    fn new(
        kind: &'static str,
        wants: fn(&Config) -> Vec<(PathPurpose, PathBuf)>,
        (watch, started): (&Arc<FileWatch>, Start),
    ) -> NeededPaths {
        let (watch, roots) = (Arc::clone(watch), Mutex::default());
        NeededPaths { kind, wants, roots, watch, started }
    }

    /// Checks the paths of this configuration from now on.
    pub(super) fn adopt(&self, config: &Config) {
        let mut roots = lock(&self.roots);
        let mut kept = BTreeMap::new();
        for at in (self.wants)(config) {
            if kept.len() >= PATHS_MAX && !kept.contains_key(&at) {
                continue;
            }
            let root = roots.remove(&at).unwrap_or_else(|| self.look_at(at.clone()));
            kept.insert(at, root);
        }
        *roots = kept;
    }

    /// Checks the path for as long as the entry exists.
    fn look_at(&self, (needed, path): (PathPurpose, PathBuf)) -> Arc<Root> {
        let (wrong, looking) = Default::default();
        let root = Arc::new(Root { needed, path, wrong, looking });
        let started = self.started;
        self.watch.follow_every(LOOKED_EVERY, &root, move |root| {
            root.looking.begin(started.elapsed());
            let wrong = root.look();
            root.looking.end();
            *lock(&root.wrong) = wrong;
        });
        root
    }
}

impl Root {
    fn look(&self) -> Option<PathProblem> {
        match self.needed {
            // The spool checks its own free space.
            PathPurpose::Spool => {
                PathStatus::at(&self.path).wrong().or_else(|| no_room(&self.path, false))
            }
            PathPurpose::Mailboxes => {
                wrong_with_mailboxes(&self.path).or_else(|| no_room(&self.path, true))
            }
            // A missing file is no problem; the first event creates it.
            PathPurpose::Events | PathPurpose::Names => match PathStatus::at(&self.path) {
                PathStatus::Unseen(error) => Some((error, LOOK)),
                PathStatus::Directory | PathStatus::Other | PathStatus::Nothing => None,
            },
        }
    }

    fn hangs(&self, about: &str) -> DetectedProblem {
        let text = format!("the disk of {about} does not respond");
        DetectedProblem::warning(about, text).next_step(match self.needed {
            PathPurpose::Mailboxes => "mail for its mailboxes waits",
            PathPurpose::Spool => "check the disk: its mail waits",
            PathPurpose::Events => "check the disk: mail continues, and events wait",
            PathPurpose::Names => "check the disk: cached names are used",
        })
    }

    fn wrong(&self, about: &str, (why, step): &PathProblem) -> DetectedProblem {
        let text = match self.needed {
            PathPurpose::Mailboxes => format!("cannot store mailboxes in {about}: {why}"),
            PathPurpose::Spool => format!("the spool directory {about} is unusable: {why}"),
            PathPurpose::Events | PathPurpose::Names => {
                format!("cannot examine {about}: {why}")
            }
        };
        let severity = match self.needed {
            PathPurpose::Spool => Severity::Error,
            _ => Severity::Warning,
        };
        DetectedProblem::new(severity, about, text).next_step(*step)
    }
}

impl ProblemKind for NeededPaths {
    fn name(&self) -> &'static str {
        self.kind
    }

    fn find(&self, now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        for ((_, path), root) in &*lock(&self.roots) {
            let about = path.display().to_string();
            if root.looking.under_way(now.mono).is_some_and(|time| time > LOOK_MAX) {
                found(root.hangs(&about));
            } else if let Some(why) = lock(&root.wrong).as_ref() {
                found(root.wrong(&about, why));
            }
        }
    }
}

/// The type of file at a path.
enum PathStatus {
    Directory,
    Other,
    Nothing,
    /// It cannot be examined.
    Unseen(String),
}

impl PathStatus {
    fn at(path: &Path) -> PathStatus {
        match std::fs::metadata(path) {
            Ok(meta) if meta.is_dir() => PathStatus::Directory,
            Ok(_) => PathStatus::Other,
            Err(error) if error.kind() == io::ErrorKind::NotFound => PathStatus::Nothing,
            Err(error) => PathStatus::Unseen(error.to_string()),
        }
    }

    /// The reason why it cannot contain files.
    fn wrong(self) -> Option<PathProblem> {
        match self {
            PathStatus::Directory => None,
            PathStatus::Other => Some(("not a directory".to_owned(), MAKE)),
            PathStatus::Nothing => Some(("it does not exist".to_owned(), MAKE)),
            PathStatus::Unseen(error) => Some((error, LOOK)),
        }
    }
}

/// The reason why the file system of a directory, though responsive, has no space for new files. A failed statvfs is
/// not a separate problem.
fn no_room(path: &Path, with_bytes: bool) -> Option<PathProblem> {
    let space = rustix::fs::statvfs(path).ok()?;
    // File systems without a table of inodes have 0 of 0.
    if space.f_files > 0 && space.f_favail == 0 {
        return Some(("its file system has no free inodes".to_owned(), ROOM));
    }
    (with_bytes && space.f_blocks > 0 && space.f_bavail == 0)
        .then(|| ("its file system is full".to_owned(), ROOM))
}

/// The reason why a directory that the first delivery may create cannot contain mailboxes.
fn wrong_with_mailboxes(path: &Path) -> Option<PathProblem> {
    match PathStatus::at(path) {
        PathStatus::Nothing if beside_spool::may_be_made(path) => None,
        seen => seen.wrong(),
    }
}

/// Directories of a configuration that can't be used now, a sentence for each.
pub(crate) fn missing_roots(config: &Config) -> Vec<String> {
    // The server creates its spool at the first start, and directories beside it.
    let will_be_made = |path: &Path| {
        let above = beside_spool::above(path);
        let spools = || config.spool.paths.iter();
        spools().any(|spool| spool == path || spool == above || beside_spool::above(spool) == above)
    };
    let sentence = |(route, path): (&str, &Path)| {
        let ((why, step), shown) = (wrong_with_mailboxes(path)?, path.display());
        let text = format!("route {route}: cannot store mailboxes in {shown}: {why}: {step}");
        (path.exists() || !will_be_made(path)).then_some(text)
    };
    let events = config.of::<EventSettings>().and_then(|events| {
        let directory = beside_spool::above(&events.file.path);
        let is_made = will_be_made(directory) || beside_spool::may_be_made(directory);
        let (why, step) = PathStatus::at(directory).wrong()?;
        let text = format!("cannot write events to {}: {why}: {step}", directory.display());
        (directory.exists() || !is_made).then_some(text)
    });
    channels::mailbox_roots(config).filter_map(sentence).chain(events).collect()
}
