//! Mailboxes: the store of mailbox files, its targets and errors, and questions about recipients' mailboxes.

use super::World;
use crate::answer::Decision;
use bytes::Bytes;
use config::{MailboxChecks, Route};
use mail::Mailbox;
use queue::Origin;
use std::fmt;
use std::future::{Future, ready};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// Writes mailbox files.
pub trait MailStore: 'static {
    /// Writes `pieces` as the new message `name` of a mailbox (created if missing): into tmp, synced, then moved into
    /// new, and the directory synced. The pieces have CRLF at line ends, the file has the system's line ends.
    fn deliver(
        &self,
        place: MailboxPlace,
        name: String,
        pieces: Vec<Bytes>,
    ) -> impl Future<Output = Result<(), MailboxError>>;

    /// Like [`MailStore::deliver`], the first of three steps for content that does not fit into memory: opens a file in
    /// tmp and returns its handle.
    fn begin(
        &self,
        place: MailboxPlace,
        name: String,
    ) -> impl Future<Output = Result<u64, MailboxError>>;

    /// Appends to a file opened by [`MailStore::begin`].
    fn append(&self, file: u64, piece: Bytes) -> impl Future<Output = Result<(), MailboxError>>;

    /// Syncs it and moves it to new (`keep`), or removes it.
    fn finish(&self, file: u64, keep: bool) -> impl Future<Output = Result<(), MailboxError>>;

    /// Returns true if a disk of mailboxes was full lately. Never waits.
    fn was_full(&self) -> bool {
        false
    }

    /// Checks that a message of `bytes` octets fits into a mailbox, within a short time. Creates nothing: a missing
    /// mailbox is empty.
    ///
    /// # Errors
    /// The quota or the disk is full, or it is unknown.
    fn room(
        &self,
        _place: MailboxPlace,
        _bytes: u64,
    ) -> impl Future<Output = Result<(), MailboxError>> {
        ready(Ok(()))
    }
}

/// A recipient that routes and tables accept.
pub struct MailboxQuestion<'a, W: World> {
    pub world: &'a W,
    /// Tables, charged to the client.
    pub tables: &'a W::Tables,
    /// The recipient's route.
    pub route: &'a Arc<Route>,
    pub recipient: &'a Mailbox,
    /// The announced size of the content in octets.
    pub size: Option<u64>,
}

impl<W: World> MailboxQuestion<'_, W> {
    /// Returns true if the channel of this route is asked now.
    #[must_use]
    pub fn is_asked(world: &W, route: &Route) -> bool {
        let is_asked = match route.channel.mailbox_checks() {
            MailboxChecks::Never => false,
            MailboxChecks::DiskFull => world.store().was_full(),
            MailboxChecks::Always => true,
        };
        // The postmaster's mailbox in the spool directory has its own limit.
        is_asked && !route.is_built_in()
    }
}

/// Asks the channel of the route. A channel that knows nothing accepts.
pub type MailboxCheck<W> = Rc<dyn Fn(&MailboxQuestion<'_, W>) -> Decision<'static, ()>>;

/// A mailbox, its owner and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxPlace {
    /// The directory in the configuration: symbolic links in its path are followed.
    pub root: PathBuf,
    /// The Maildir's path below the root: symbolic links are not followed here. Empty: the root is the Maildir.
    pub below: PathBuf,
    /// The Maildir++ folder for the message.
    pub folder: Option<MailFolder>,
    /// Maximum size of all its messages together, in octets.
    pub quota_bytes: Option<u64>,
    /// Owner and mode of its files.
    pub keeping: Arc<Keeping>,
    /// The origin that takes the turn for its write.
    pub origin: Origin,
}

impl MailboxPlace {
    /// The Maildir at a configured path, owned by this process.
    #[must_use]
    pub fn at(root: PathBuf) -> MailboxPlace {
        MailboxPlace {
            root,
            below: PathBuf::new(),
            folder: None,
            quota_bytes: None,
            keeping: Arc::default(),
            origin: Origin::OURS,
        }
    }

    /// The directory that must exist: the root, or the Maildir's parent if the root is the Maildir itself.
    #[must_use]
    pub fn required(&self) -> &Path {
        required_directory(&self.root, self.below.as_os_str().is_empty())
    }

    /// The Maildir's path.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self.below.as_os_str().is_empty() {
            true => self.root.clone(),
            false => self.root.join(&self.below),
        }
    }
}

/// The directory that must exist for mailboxes below a root, or for a Maildir at the root.
#[must_use]
pub fn required_directory(root: &Path, is_maildir: bool) -> &Path {
    let required = if is_maildir { root.parent().unwrap_or(Path::new("/")) } else { root };
    if required.as_os_str().is_empty() { Path::new(".") } else { required }
}

/// A folder of a Maildir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailFolder {
    /// Its directory: `.Lists`.
    pub name: String,
    /// Created if missing. If not, mail for it is stored in the inbox.
    pub is_made: bool,
}

/// Owner and mode of a mailbox's files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Keeping {
    /// The user; by default this process's.
    pub user: Option<SystemAccount>,
    /// The group; by default the user's, or this process's.
    pub group: Option<SystemAccount>,
    /// Mode of messages. Directories get the search bit for each class that may read.
    pub mode: u32,
}

/// A system user or group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SystemAccount {
    /// Name or number.
    pub name: String,
    /// From a table, so it may not be root.
    pub by_table: bool,
}

impl Keeping {
    /// Returns true if each mailbox may belong to another user: shared directories then belong to this process alone.
    #[must_use]
    pub fn is_by_table(&self) -> bool {
        [&self.user, &self.group].into_iter().flatten().any(|account| account.by_table)
    }
}

impl Default for Keeping {
    /// Owned by this process's user, readable by it alone.
    fn default() -> Keeping {
        Keeping { user: None, group: None, mode: 0o600 }
    }
}

/// The reason for which a message was not stored in its mailbox.
#[derive(Debug)]
pub enum MailboxError {
    /// Error of the operating system.
    Io(io::Error),
    /// The quota is exceeded.
    Full {
        /// The quota in octets.
        quota_bytes: u64,
    },
    /// The directory of the mailboxes does not exist.
    Missing(PathBuf),
    /// The disk did not answer in time.
    Hangs,
    /// The mailbox is not safe to write; the end of a sentence.
    Untrusted(String),
}

impl From<io::Error> for MailboxError {
    fn from(error: io::Error) -> MailboxError {
        MailboxError::Io(error)
    }
}

impl From<io::ErrorKind> for MailboxError {
    fn from(kind: io::ErrorKind) -> MailboxError {
        MailboxError::Io(kind.into())
    }
}

impl fmt::Display for MailboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MailboxError::Io(error) => error.fmt(f),
            MailboxError::Full { quota_bytes } => {
                write!(f, "the message exceeds the quota of {quota_bytes} octets")
            }
            MailboxError::Missing(path) => write!(
                f,
                "directory {} does not exist: mount its disk, or create it",
                path.display()
            ),
            MailboxError::Hangs => f.write_str("the disk does not respond"),
            MailboxError::Untrusted(why) => f.write_str(why),
        }
    }
}
