//! Mailboxes: what the store of mailbox files is told, and why it refuses.

use queue::Origin;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A mailbox, and how it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxPlace {
    /// The directory that an operator names: on the way to it symbolic links are followed.
    pub root: PathBuf,
    /// The Maildir, from there on: on this way none is followed. Empty: the root is the Maildir.
    pub below: PathBuf,
    /// The Maildir++ folder in it that the message is for.
    pub folder: Option<MailFolder>,
    /// The octets that all its messages may have together.
    pub quota_bytes: Option<u64>,
    /// Whose its files are.
    pub keeping: Arc<Keeping>,
    /// In whose turn it is written to.
    pub origin: Origin,
}

impl MailboxPlace {
    /// The Maildir at a path that an operator names, as this process's own.
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

    /// The directory that must be there, or beside a spool: the root, or where that is the Maildir itself, what it is
    /// in.
    #[must_use]
    pub fn required(&self) -> &Path {
        required_directory(&self.root, self.below.as_os_str().is_empty())
    }

    /// Where the Maildir is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self.below.as_os_str().is_empty() {
            true => self.root.clone(),
            false => self.root.join(&self.below),
        }
    }
}

/// The directory that must be there for mailboxes below a root, or for a Maildir that is the root.
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
    /// Made if it is missing. If not, mail for it stays in the inbox.
    pub is_made: bool,
}

/// Whose the files of a mailbox are, and who may read them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Keeping {
    /// Their user; this process's without one.
    pub user: Option<SystemAccount>,
    /// Their group; the user's, or this process's, without one.
    pub group: Option<SystemAccount>,
    /// The mode of messages. Directories may be searched by whoever may read.
    pub mode: u32,
}

/// A user or a group of the system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SystemAccount {
    /// Name or number.
    pub name: String,
    /// A table names it, so it is never root's.
    pub by_table: bool,
}

impl Keeping {
    /// Each mailbox may belong to another: the directories that they share are nobody's but this
    /// process's.
    #[must_use]
    pub fn is_by_table(&self) -> bool {
        [&self.user, &self.group].into_iter().flatten().any(|account| account.by_table)
    }
}

impl Default for Keeping {
    /// The process's own, and nobody else's.
    fn default() -> Keeping {
        Keeping { user: None, group: None, mode: 0o600 }
    }
}

/// Why a message is not in its mailbox.
#[derive(Debug)]
pub enum MailboxError {
    /// What the operating system says.
    Io(io::Error),
    /// There is no room for it: the mailbox may have so many octets.
    Full {
        /// What it may have.
        quota_bytes: u64,
    },
    /// The directory that mailboxes are in is not there.
    Missing(PathBuf),
    /// The disk has not answered for so long that the attempt was given up.
    Hangs,
    /// It is not a mailbox that may be written to: a sentence's end, for people.
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
                write!(f, "the message does not fit into the quota of {quota_bytes} octets")
            }
            MailboxError::Missing(path) => write!(
                f,
                "the directory {} is not there: mount its disk, or make it",
                path.display()
            ),
            MailboxError::Hangs => f.write_str("the disk does not answer"),
            MailboxError::Untrusted(why) => f.write_str(why),
        }
    }
}
