//! A listening socket, and reading without a buffer per connection.

use socket2::{Domain, Socket, Type};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::UnixListener;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpListener, TcpSocket};

/// Connections that may wait to be accepted.
const BACKLOG_MAX: u32 = 4096;

/// Read at once from one connection.
const READ_BYTES_MAX: usize = 64 * 1024;

/// Ports for programs that come and go: below those that the kernel gives to outgoing connections, or
/// one of these could have it while the program is down.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Finds a port that nobody listens on at any address of this machine, and that no outgoing connection will
/// take.
///
/// # Errors
/// When there is none.
pub fn free_port() -> io::Result<u16> {
    // Two at the same time, and two in a row, begin at different places.
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let begin = (since_1970.subsec_nanos() % u32::from(PORTS.end - PORTS.start)) as u16;
    for port in (PORTS.start + begin..PORTS.end).chain(PORTS) {
        // Claimed first: whoever has claimed it may be about to listen there, and is not to find it taken by a trial.
        let Ok(claim) = claim(port) else { continue };
        if trial(port).is_ok() {
            keep(claim);
            return Ok(port);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no port is free"))
}

/// Binds a port; fails if a program listens on it at any address. The socket does not listen. A child process holds copies
/// of its parent's sockets until its exec, and a copy that listens would keep the port busy.
fn trial(port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    Ok(socket)
}

/// Ports that are claimed at once: a server soon listens on what was claimed before them.
const CLAIMS_MAX: usize = 512;

/// Claims a port for this process, among all processes that ask here. The name, which no file has, goes with
/// what is given back.
fn claim(port: u16) -> io::Result<UnixListener> {
    let name = format!("postrider-port-{port}");
    UnixListener::bind_addr(&std::os::unix::net::SocketAddr::from_abstract_name(name)?)
}

/// Keeps a claim: it will be some time before a server listens there.
fn keep(claim: UnixListener) {
    static CLAIMS: Mutex<VecDeque<UnixListener>> = Mutex::new(VecDeque::new());
    let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
    if claims.len() == CLAIMS_MAX {
        claims.pop_front();
    }
    claims.push_back(claim);
}

/// Resolves `HOST:PORT` to its first address.
pub fn resolve(address: &str) -> io::Result<SocketAddr> {
    address
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}

/// Listens. TCP_NODELAY is set on the listener: on Linux the accepted sockets inherit it, which
/// saves a system call for each connection.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG_MAX)
}

/// One read buffer for all connections of a thread. What was read must be used up before the next
/// await.
#[derive(Debug)]
pub struct ReadBuffer(RefCell<Box<[u8]>>);

impl Default for ReadBuffer {
    fn default() -> ReadBuffer {
        ReadBuffer(RefCell::new(vec![0; READ_BYTES_MAX].into_boxed_slice()))
    }
}

impl ReadBuffer {
    /// Reads once and gives what came to `take`; empty at the end of the stream.
    pub async fn read<T>(
        &self,
        stream: &mut (impl AsyncRead + Unpin),
        mut take: impl FnMut(&[u8]) -> T,
    ) -> io::Result<T> {
        // poll_read instead of readable() and try_read(): it knows from a short read that the
        // socket is empty, which saves the read that would only say so.
        poll_fn(|cx| {
            let mut bytes = self.0.borrow_mut();
            let mut buffer = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *stream).poll_read(cx, &mut buffer) {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => Poll::Ready(Ok(take(buffer.filled()))),
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::{free_port, trial};
    use std::net::TcpListener;

    #[test]
    fn trial_finds_listeners_and_is_none() {
        let port = free_port().unwrap();
        let held = trial(port).unwrap();
        let listener = TcpListener::bind(("127.77.1.1", port)).unwrap();
        assert!(trial(port).is_err(), "a listener at another address");
        drop(held);
        assert!(trial(port).is_err());
        drop(listener);
        assert!(trial(port).is_ok());
    }
}
