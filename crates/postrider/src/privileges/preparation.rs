//! The work of root before the process becomes another user: directories, sockets, files that only root may read.

use super::confinement::{drop_directories, written_directories};
use crate::account::Account;
use crate::beside_spool::{above, may_be_made};
use crate::handed_sockets::{OpenedSocket, OpenedSockets};
use crate::kept_open;
use crate::system_user::{Owner, own};
use crate::world::sockets;
use config::{Config, FileUse};
use rustix::fs::{Mode, OFlags};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, fchown};
use std::path::Path;
use std::sync::Arc;

/// Prepares the change of user. It may wait for disks.
///
/// # Errors
/// Returns a sentence if a directory cannot be made, or too many files are root's.
pub(crate) fn prepare(
    config: &Config,
    account: &Account,
    (file, mut opened): (Option<&Path>, OpenedSockets),
    progress: &dyn Fn(&str),
) -> Result<OpenedSockets, String> {
    bind(config, &mut opened);
    if own().user != 0 {
        return Ok(opened);
    }
    progress("directories of the spool and of sockets");
    make_directories(config, account.owner)?;
    progress("files that only root may read");
    let read = config.files.iter().filter(|file| file.usage() == FileUse::Read);
    kept_open::keep(read.map(|file| &*file.path).chain(file))?;
    Ok(opened)
}

/// Binds addresses that were not handed over. They listen only when the spool is recovered: until then, clients are
/// refused at once, and may use another server.
fn bind(config: &Config, opened: &mut OpenedSockets) {
    for listener in config.listeners.iter().filter(|listener| listener.socket.is_none()) {
        let bound = || {
            sockets::bind(listener.address).map_or_else(OpenedSocket::Failed, OpenedSocket::Bound)
        };
        opened.listeners.entry(Arc::clone(&listener.name)).or_insert_with(bound);
    }
    if let (None, Some(address)) = (&opened.admin, config.admin.address) {
        // An error shows again when the socket is opened.
        opened.admin = sockets::bind(address).ok().map(OpenedSocket::Bound);
    }
}

/// Mode of directories with sockets, which other users connect to.
const SHARED: u32 = 0o755;
const PRIVATE: u32 = 0o700;
/// Mode of directories for messages of all users.
const DROPPED: u32 = 0o1733;

/// Makes missing directories and gives them to the user. Spools and sockets' directories need an existing one above.
/// Further ones are made only beside a spool, which shows that their disk is mounted.
fn make_directories(config: &Config, owner: Owner) -> Result<(), String> {
    let of_listeners = config.listeners.iter().filter_map(|listener| listener.socket.as_deref());
    let shared = of_listeners.map(|socket| (above(socket), SHARED));
    let spools = config.spool.paths.iter().map(|path| &**path);
    let private = spools.chain([above(&config.admin.control)]).map(|path| (path, PRIVATE));
    // Spools first, of which some are sockets' directories.
    let is_spool = |path: &Path| config.spool.paths.iter().any(|spool| spool == path);
    let shared = shared.filter(|(path, _)| !is_spool(path));
    let others = written_directories(config);
    let dropped = drop_directories(config).map(|path| (path, DROPPED));
    let others = dropped.chain(others.iter().map(|path| (&**path, PRIVATE)));
    let others = others.filter(|(path, _)| may_be_made(path));
    for (directory, mode) in shared.chain(private).chain(others) {
        make(directory, mode, owner)
            .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    }
    Ok(())
}

/// Makes a directory unless it exists, and gives it to the user. A link that another user puts in its place is not
/// followed.
fn make(directory: &Path, mode: u32, owner: Owner) -> io::Result<()> {
    // A missing parent is reported by those that use the directory.
    if directory.exists() || !above(directory).is_dir() {
        return Ok(());
    }
    DirBuilder::new().mode(mode).create(directory)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::open(directory, flags, Mode::empty())?;
    let meta = rustix::fs::fstat(&made)?;
    if meta.st_uid != 0 {
        return Err(io::Error::other("another user has put a directory there"));
    }
    // The mode does not depend on the umask.
    rustix::fs::fchmod(&made, Mode::from_raw_mode(mode))?;
    fchown(&made, Some(owner.user), Some(owner.group))
}
