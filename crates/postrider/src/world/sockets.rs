//! TCP by way of tokio.

use super::listening_socket::{AcceptedSocket, ListeningSocket};
use mta::seams::{Net, Stream};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};

/// Connections that the kernel completes before we accept them.
const BACKLOG: i32 = 4096;

/// The network of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sockets;

impl Net for Sockets {
    type Listener = ListeningSocket;
    type Accepted = AcceptedSocket;
    type Stream = Connection;

    fn listen(&self, address: SocketAddr) -> io::Result<ListeningSocket> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // A restart must not wait for the last run's connections to leave TIME_WAIT.
        socket.set_reuse_address(true)?;
        if address.is_ipv6() {
            // `[::]:25` beside `0.0.0.0:25` must not take that one's clients, nor its place.
            socket.set_only_v6(true)?;
        }
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        // Accepted sockets inherit it: replies are whole when they are written.
        socket.set_tcp_nodelay(true)?;
        ListeningSocket::new(socket)
    }

    fn adopt(&self, accepted: AcceptedSocket) -> io::Result<Connection> {
        let stream = TcpStream::from_std(accepted.0.into())?;
        Ok(Connection(stream))
    }

    async fn connect(&self, to: SocketAddr, from: Option<IpAddr>) -> io::Result<Connection> {
        let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(from) = from {
            socket.bind(SocketAddr::new(from, 0))?;
        }
        socket.set_nodelay(true)?;
        Ok(Connection(socket.connect(to).await?))
    }
}

/// A connection of one shard.
#[derive(Debug)]
pub(crate) struct Connection(TcpStream);

impl Stream for Connection {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.0).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match pieces {
            [one] => Pin::new(&mut self.0).poll_write(cx, one),
            many => Pin::new(&mut self.0).poll_write_vectored(cx, many),
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    async fn upgrade_server(self) -> io::Result<Connection> {
        // STARTTLS is offered by no listener and asked of no peer until there are keys to use.
        Err(io::Error::new(io::ErrorKind::Unsupported, "no TLS in this build"))
    }

    async fn upgrade_client(self, _name: &str) -> io::Result<Connection> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "no TLS in this build"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mta::seams::Listener;

    #[test]
    fn the_wildcards_of_both_families_can_be_listened_on_at_one_port() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let both = Sockets.listen("[::]:0".parse().unwrap()).unwrap();
            let port = both.local_addr().unwrap().port();
            Sockets.listen(SocketAddr::from(([0, 0, 0, 0], port))).unwrap();
        });
    }
}
