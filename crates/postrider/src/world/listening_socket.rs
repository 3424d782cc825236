//! A listening socket that returns connections not yet registered with a runtime, so that each can join its shard's
//! runtime. The listener of tokio would register every connection with the accepting runtime: two wasted system calls
//! per connection that moves.

use crate::handed_sockets::{BACKLOG, OpenedSocket};
use crate::socket_file::SocketFile;
use config::LOCAL_CLIENT;
use mta::seams::Listener;
use rustix::net::{SocketFlags, acceptfrom_with};
use socket2::Socket;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};
use tokio::io::unix::AsyncFd;

/// A socket that no runtime knows yet; it may go to any shard.
#[derive(Debug)]
pub(crate) enum AcceptedSocket {
    Tcp(OwnedFd),
    /// From a client on this machine.
    Unix(OwnedFd),
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    socket: AsyncFd<Socket>,
    is_local: bool,
    /// File of an own Unix socket, removed with it.
    _file: Option<SocketFile>,
}

impl ListeningSocket {
    /// Takes a socket that listens and does not block. To be called within a runtime.
    pub(crate) fn new(socket: Socket) -> io::Result<ListeningSocket> {
        // SAFETY: `Socket` owns its descriptor, which is open and stays the same until the socket
        // is dropped; the `AsyncFd` owns the socket, and nothing here replaces or closes it.
        #[allow(unsafe_code)]
        let socket = unsafe { AsyncFd::register(socket) }?;
        Ok(ListeningSocket { socket, is_local: false, _file: None })
    }

    /// The same for a Unix socket with a file.
    pub(crate) fn with_file((socket, file): (Socket, SocketFile)) -> io::Result<ListeningSocket> {
        let socket = ListeningSocket::new(socket)?;
        Ok(ListeningSocket { is_local: true, _file: Some(file), ..socket })
    }

    /// The same for a socket that was opened before. The file of one that was handed over stays for the next server.
    pub(crate) fn opened(socket: OpenedSocket) -> io::Result<ListeningSocket> {
        let is_local = matches!(socket, OpenedSocket::Unix(_));
        let socket = socket.listening(BACKLOG)?;
        if !is_local {
            // Accepted sockets inherit it: replies are whole when they are written.
            socket.set_tcp_nodelay(true)?;
        }
        Ok(ListeningSocket { is_local, ..ListeningSocket::new(socket)? })
    }
}

impl Listener for ListeningSocket {
    type Accepted = AcceptedSocket;

    fn local_addr(&self) -> io::Result<SocketAddr> {
        if self.is_local {
            return Ok(LOCAL_CLIENT);
        }
        let address = self.socket.get_ref().local_addr()?;
        address.as_socket().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
    }

    fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<(AcceptedSocket, SocketAddr)>> {
        loop {
            let mut guard = ready!(self.socket.poll_read_ready(cx))?;
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let accepted = guard.try_io(|socket| Ok(acceptfrom_with(socket.get_ref(), flags)?));
            match accepted {
                Ok(Ok((fd, _))) if self.is_local => {
                    return Poll::Ready(Ok((AcceptedSocket::Unix(fd), LOCAL_CLIENT)));
                }
                Ok(Ok((fd, address))) => {
                    let address = address.and_then(|address| SocketAddr::try_from(address).ok());
                    let Some(address) = address else { continue };
                    return Poll::Ready(Ok((AcceptedSocket::Tcp(fd), address)));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                // It would block: the guard has forgotten the readiness, and we wait for more.
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    #[test]
    fn connections_come_out_with_their_peers_and_work() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let mut listener = ListeningSocket::new(listener.into()).unwrap();
            let address = listener.local_addr().unwrap();
            let client = std::thread::spawn(move || {
                let mut clients: Vec<TcpStream> =
                    (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
                let mut word = [0; 5];
                clients[2].read_exact(&mut word).unwrap();
                (clients[2].local_addr().unwrap(), word)
            });
            let mut last = None;
            for _ in 0..3 {
                last = Some(poll_fn(|cx| listener.poll_accept(cx)).await.unwrap());
            }
            let (AcceptedSocket::Tcp(socket), peer) = last.unwrap() else { panic!("not of TCP") };
            let mut stream = TcpStream::from(socket);
            stream.set_nonblocking(false).unwrap();
            stream.write_all(b"hello").unwrap();
            assert_eq!(client.join().unwrap(), (peer, *b"hello"));
        });
    }
}
