//! TCP and Unix sockets on tokio, and TLS on rustls.

use super::egress;
use super::encrypted::{self, Encrypted};
use super::listening_socket::{AcceptedSocket, ListeningSocket};
use crate::certificates::{Certificates, TlsAcceptConfig};
use crate::handed_sockets::{BACKLOG, OpenedSocket};
use crate::peer_tls::PeerTls;
use crate::socket_file::{self, SUBMITTED_FOR};
use crate::system_user;
use config::ClientCertificates;
use mta::seams::{ClientCertificate, Egress, Encryption, Endpoint, LocalUser, Net, Stream, Trust};
use rustix::net::SendFlags;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{ServerName, UnixTime};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Timeout for the name of a local user.
const USER_TIMEOUT: Duration = Duration::from_secs(10);

/// The network of the machine.
#[derive(Clone, Debug)]
pub(crate) struct Sockets {
    certificates: Arc<Certificates>,
    peers: Arc<PeerTls>,
}

impl Sockets {
    /// Sockets that use these certificates for TLS with clients.
    pub(crate) fn new(certificates: Arc<Certificates>, peers: Arc<PeerTls>) -> Sockets {
        Sockets { certificates, peers }
    }
}

impl Sockets {
    async fn accept(
        &self,
        stream: NetConnection,
        asked: Option<&ClientCertificates>,
    ) -> io::Result<(NetConnection, Encryption, Option<ClientCertificate>)> {
        let NetConnection::Tcp(stream) = stream else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let none = || io::Error::new(io::ErrorKind::Unsupported, "no certificate");
        let TlsAcceptConfig { config, judge } = self.certificates.door(asked).ok_or_else(none)?;
        let (stream, encryption) = encrypted::accept(stream, config).await?;
        let certificate = judge.and_then(|judge| judge.certificate(stream.chain()));
        Ok((NetConnection::Encrypted(Box::new(stream)), encryption, certificate))
    }
}

/// Checks that this machine has an address, in use or not.
///
/// # Errors
/// Returns an error if it does not.
pub(crate) fn check_address(address: SocketAddr) -> io::Result<()> {
    let none_there = |error: &io::Error| {
        let no_family = Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error());
        error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == no_family
    };
    let any_port = SocketAddr::new(address.ip(), 0);
    let bind = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.bind(&any_port.into())
    };
    match bind() {
        Err(error) if none_there(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Binds an address, on which nothing listens yet.
///
/// # Errors
/// Returns the operating system's error.
pub(crate) fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait for the last run's connections to leave TIME_WAIT.
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // `[::]:25` beside `0.0.0.0:25` must not take that one's clients, nor its place.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

impl Net for Sockets {
    type Listener = ListeningSocket;
    type Accepted = AcceptedSocket;
    type Stream = NetConnection;

    fn listen(&self, address: SocketAddr) -> io::Result<ListeningSocket> {
        ListeningSocket::opened(OpenedSocket::Bound(bind(address)?))
    }

    fn listen_local(&self, path: &Path) -> io::Result<ListeningSocket> {
        // Every user may connect; the user id of each is known.
        ListeningSocket::with_file(socket_file::bind(path, 0o666, BACKLOG)?)
    }

    async fn local_user(&self, stream: &NetConnection) -> io::Result<Option<LocalUser>> {
        let NetConnection::Unix(stream) = stream else { return Ok(None) };
        let peer = stream.peer_cred()?.uid();
        let uid = if peer == system_user::own().user { submitted_for(stream, peer) } else { peer };
        // The directory of users may be on another machine, which the shard must not wait for.
        let found = spawn_blocking(move || system_user::name_of(uid));
        match timeout(USER_TIMEOUT, found).await {
            Ok(found) => Ok(Some(LocalUser { uid, name: found?? })),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn adopt(&self, accepted: AcceptedSocket) -> io::Result<NetConnection> {
        Ok(match accepted {
            AcceptedSocket::Tcp(fd) => NetConnection::Tcp(TcpStream::from_std(fd.into())?),
            AcceptedSocket::Unix(fd) => NetConnection::Unix(UnixStream::from_std(fd.into())?),
        })
    }

    async fn connect(&self, to: &Endpoint, from: Egress) -> io::Result<NetConnection> {
        let to = match to {
            Endpoint::Tcp(to) => *to,
            Endpoint::Unix(path) => {
                return UnixStream::connect(path).await.map(NetConnection::Unix);
            }
        };
        Ok(NetConnection::Tcp(egress::connect(to, from).await?))
    }

    fn can_encrypt(&self) -> bool {
        self.certificates.is_any()
    }

    async fn encrypt_accepted(
        &self,
        stream: NetConnection,
    ) -> io::Result<(NetConnection, Encryption)> {
        let (stream, encryption, _) = self.accept(stream, None).await?;
        Ok((stream, encryption))
    }

    async fn encrypt_asking(
        &self,
        stream: NetConnection,
        asked: &ClientCertificates,
    ) -> io::Result<(NetConnection, Encryption, Option<ClientCertificate>)> {
        self.accept(stream, Some(asked)).await
    }

    fn certificate(
        &self,
        stream: &NetConnection,
        asked: &ClientCertificates,
    ) -> Option<ClientCertificate> {
        let NetConnection::Encrypted(stream) = stream else { return None };
        self.certificates.door(Some(asked))?.judge?.certificate(stream.chain())
    }

    async fn encrypt_connected(
        &self,
        stream: NetConnection,
        name: &str,
        trust: &Trust,
    ) -> io::Result<(NetConnection, Encryption)> {
        let NetConnection::Tcp(stream) = stream else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let client = self.peers.client(trust)?;
        let (stream, encryption) = encrypted::connect(stream, client, name).await?;
        Ok((NetConnection::Encrypted(Box::new(stream)), encryption))
    }

    fn examine(&self, stream: &NetConnection, name: &str) -> io::Result<()> {
        let NetConnection::Encrypted(stream) = stream else { return Ok(()) };
        let [certificate, chain @ ..] = stream.chain() else { return Ok(()) };
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        let (examiner, now) = (self.peers.examiner()?, UnixTime::now());
        let verdict = examiner.verify_server_cert(certificate, chain, &name, &[], now);
        verdict.map(drop).map_err(encrypted::handshake_error)
    }
}

/// The user that this server itself submits a message for, by the name of the socket at the other end, which only
/// processes with the server's own user could choose; `own` without that name.
fn submitted_for(stream: &UnixStream, own: u32) -> u32 {
    let address = stream.peer_addr().ok();
    let name = address.as_ref().and_then(|address| address.as_abstract_name());
    let rest = name.and_then(|name| name.strip_prefix(SUBMITTED_FOR.as_bytes()));
    let user = rest.and_then(|rest| rest.split(|byte| *byte == b'-').next());
    let user = user.and_then(|user| std::str::from_utf8(user).ok()?.parse().ok());
    user.unwrap_or(own)
}

/// A connection of one shard.
#[derive(Debug)]
pub(crate) enum NetConnection {
    /// Over TCP.
    Tcp(TcpStream),
    /// To a Unix socket.
    Unix(UnixStream),
    /// Over TCP, with TLS.
    Encrypted(Box<Encrypted>),
}

impl Stream for NetConnection {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(match self {
            NetConnection::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            NetConnection::Unix(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            NetConnection::Encrypted(stream) => stream.poll_read(cx, &mut buffer),
        })?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            // An error of the connection shows at the next read.
            NetConnection::Tcp(stream) => stream.poll_read_ready(cx).map(drop),
            _ => Poll::Ready(()),
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            NetConnection::Tcp(stream) => write(Pin::new(stream), cx, pieces),
            NetConnection::Unix(stream) => write(Pin::new(stream), cx, pieces),
            NetConnection::Encrypted(stream) => stream.poll_write(cx, pieces),
        }
    }

    fn poll_write_last(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let NetConnection::Tcp(stream) = self else {
            return self.poll_write(cx, &[IoSlice::new(bytes)]);
        };
        loop {
            ready!(stream.poll_write_ready(cx))?;
            // The kernel delays it by at most 200 ms (MSG_MORE).
            let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
            let send = || Ok(rustix::net::send(&*stream, bytes, flags)?);
            match stream.try_io(Interest::WRITABLE, send) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn channel_binding(&self) -> Option<[u8; 32]> {
        match self {
            NetConnection::Encrypted(stream) => stream.channel_binding(),
            NetConnection::Tcp(_) | NetConnection::Unix(_) => None,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            NetConnection::Tcp(stream) => stream.local_addr(),
            NetConnection::Encrypted(stream) => stream.local_addr(),
            NetConnection::Unix(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

fn write(
    stream: Pin<&mut impl AsyncWrite>,
    cx: &mut Context<'_>,
    pieces: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    match pieces {
        [one] => stream.poll_write(cx, one),
        many => stream.poll_write_vectored(cx, many),
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
            let sockets = Sockets::new(Certificates::none(), Arc::default());
            let both = sockets.listen("[::]:0".parse().unwrap()).unwrap();
            let port = both.local_addr().unwrap().port();
            sockets.listen(SocketAddr::from(([0, 0, 0, 0], port))).unwrap();
        });
    }

    #[test]
    fn what_is_written_last_comes_with_the_end_or_soon() {
        use std::io::Read;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = Endpoint::Tcp(listener.local_addr().unwrap());
        runtime.block_on(async {
            let sockets = Sockets::new(Certificates::none(), Arc::default());
            for is_closed in [true, false] {
                let mut connection = sockets.connect(&to, Egress::default()).await.unwrap();
                let (mut peer, _) = listener.accept().unwrap();
                let written =
                    std::future::poll_fn(|cx| connection.poll_write_last(cx, b"221 bye\r\n"));
                assert_eq!(written.await.unwrap(), 9);
                if is_closed {
                    drop(connection);
                    let mut all = String::new();
                    peer.read_to_string(&mut all).unwrap();
                    assert_eq!(all, "221 bye\r\n");
                    continue;
                }
                // Who does not close keeps nobody waiting for long.
                let mut some = [0; 9];
                peer.read_exact(&mut some).unwrap();
                assert_eq!(&some, b"221 bye\r\n");
            }
        });
    }
}
