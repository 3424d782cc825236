//! The control socket's second address, an abstract socket without a file (unix(7)), used by commands if the disk of
//! the socket's file does not respond. It has no mode; each side checks the user of the other's process.

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};
use socket2::{Domain, SockAddr, Socket, Type};
use std::ffi::OsString;
use std::future::pending;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, absolute};
use tokio::net::{UnixListener, UnixStream};

/// Number of octets of the path in the name, for people (`ss -xl`).
const PATH_BYTES_MAX: usize = 80;

/// The name that belongs to a socket file.
pub(super) fn name(path: &Path) -> io::Result<Vec<u8>> {
    // Without disk access.
    let path = absolute(path)?;
    let bytes = path.as_os_str().as_bytes();
    let end = bytes.get(bytes.len().saturating_sub(PATH_BYTES_MAX)..).unwrap_or(bytes);
    let mut name = format!("\0postrider {:08x} ", crc32c::crc32c(bytes)).into_bytes();
    name.extend_from_slice(end);
    Ok(name)
}

fn address(path: &Path) -> io::Result<SockAddr> {
    SockAddr::unix(OsString::from_vec(name(path)?))
}

fn is_trusted(uid: Uid) -> bool {
    uid.is_root() || uid == geteuid()
}

/// Listens at the abstract address of `path`. `None` if the system has no abstract addresses, or the address is in use.
pub(super) fn bind(path: &Path) -> Option<std::os::unix::net::UnixListener> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).ok()?;
    socket.bind(&address(path).ok()?).ok()?;
    socket.listen(128).ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket.into())
}

/// The next client with the user root or our own; pending forever without a listener.
pub(super) async fn accept(listener: Option<&UnixListener>) -> io::Result<UnixStream> {
    let Some(listener) = listener else { return pending().await };
    loop {
        let (stream, _) = listener.accept().await?;
        if is_trusted(socket_peercred(&stream)?.uid) {
            return Ok(stream);
        }
    }
}

/// Connects to the server of `path`.
///
/// # Errors
/// Returns the operating system's error, and an error if another user's process listens there.
pub(super) fn connect(path: &Path, prepared: Socket) -> io::Result<BlockingStream> {
    prepared.connect(&address(path)?)?;
    if !is_trusted(socket_peercred(&prepared)?.uid) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user listens there"));
    }
    Ok(prepared.into())
}
