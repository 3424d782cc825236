//! A listening Unix socket and its file: the control socket, and listeners with a socket.

use crate::limited_work::waited_for;
use socket2::{Domain, SockAddr, Socket, Type};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Begin of the abstract name of the server's own client sockets; the number of the user and a random number follow.
pub(crate) const SUBMITTED_FOR: &str = "postrider-for-";

/// Timeout for the disk of the socket's file.
pub(crate) const FILE_TIMEOUT: Duration = Duration::from_secs(2);

/// The file of a listening socket. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

/// Listens at `path`, with this mode of the file, without blocking. A stale socket of a dead server is replaced.
///
/// # Errors
/// Returns an error if a server answers there, if the path is no socket, or the operating system's error.
pub(crate) fn bind(path: &Path, mode: u32, backlog: i32) -> io::Result<(Socket, SocketFile)> {
    check_vacant(path)?;
    // The file gets its name only after its mode is set and the socket listens. So no client can connect before
    // that, and a stale file is replaced atomically.
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    remove_if_there(&fresh)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let address = SockAddr::unix(&fresh).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("the path is too long for a socket; choose a shorter one ({error})"),
        )
    })?;
    socket.bind(&address)?;
    let placed = fs::set_permissions(&fresh, fs::Permissions::from_mode(mode))
        .and_then(|()| socket.listen(backlog))
        .and_then(|()| socket.set_nonblocking(true))
        .and_then(|()| fs::rename(&fresh, path))
        .and_then(|()| fs::metadata(path));
    match placed {
        Ok(meta) => {
            let identity = (meta.dev(), meta.ino());
            Ok((socket, SocketFile { path: path.to_owned(), identity }))
        }
        Err(error) => {
            let _ = fs::remove_file(&fresh);
            Err(error)
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let (path, identity) = (self.path.clone(), self.identity);
        // A stop waits for no disk that hangs.
        waited_for(FILE_TIMEOUT, move || {
            // Another server may have replaced the file.
            let meta = fs::symlink_metadata(&path);
            if meta.is_ok_and(|meta| (meta.dev(), meta.ino()) == identity) {
                let _ = fs::remove_file(&path);
            }
        });
    }
}

/// Checks that a socket can be created, in use or not. Spool directories are created by the start.
///
/// # Errors
/// Returns the reason if it cannot.
pub(crate) fn check_place(path: &Path, spools: &[PathBuf]) -> io::Result<()> {
    let named = path.parent().filter(|named| !named.as_os_str().is_empty());
    let directory = named.unwrap_or(Path::new("."));
    let will_be_made = spools.iter().any(|spool| spool == directory);
    match look_at(path) {
        Ok(Some(_)) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Problems of a spool directory are reported by the spool.
        _ if will_be_made => Ok(()),
        Ok(None) => fs::metadata(directory).map(drop),
        Err(error) => Err(error),
    }
}

/// The socket at `path`, if any.
fn look_at(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => Ok(Some(meta)),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is not a socket is in its place",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Checks that a socket may be created at `path`.
fn check_vacant(path: &Path) -> io::Result<()> {
    if look_at(path)?.is_none() {
        return Ok(());
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // It answered, or its backlog is full: the socket is in use.
        _ => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server is running there")),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
