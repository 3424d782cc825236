//! Connections over TCP from an address of this machine, or through a proxy.

use config::{Proxy, ProxyKind};
use mta::seams::{Egress, SourceFailure};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_socks::Error as SocksError;
use tokio_socks::tcp::Socks5Stream;

/// A proxy is near: one that takes longer to be connected to is not there.
const PROXY_PATIENCE: Duration = Duration::from_secs(5);

/// Signature of the PROXY protocol, version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, command PROXY.
const VERSION_AND_COMMAND: u8 = 0x21;
/// TCP over IPv4.
const TCP4: u8 = 0x11;
/// TCP over IPv6.
const TCP6: u8 = 0x21;

/// Connects to `to`.
pub(super) async fn connect(to: SocketAddr, from: Egress) -> io::Result<TcpStream> {
    match from.proxy {
        None => directly(to, from.address).await,
        Some(proxy) => {
            let stream = timeout(PROXY_PATIENCE, directly(proxy.address, None)).await;
            let stream = stream.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            let stream = stream.map_err(|error| away(proxy, error))?;
            match proxy.kind {
                ProxyKind::Socks5 => by_socks5(to, proxy, stream).await,
                ProxyKind::HaProxy => told_of(to, from.address, stream).await,
            }
        }
    }
}

async fn directly(to: SocketAddr, from: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = if to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(from) = from {
        // Without it no more ports are free than connections have ended within a minute.
        socket.set_reuseaddr(true)?;
        let bound = socket.bind(SocketAddr::new(from, 0));
        bound.map_err(|error| match error.kind() {
            kind @ io::ErrorKind::AddrNotAvailable => {
                io::Error::new(kind, SourceFailure::AddressMissing(from))
            }
            _ => error,
        })?;
    }
    socket.set_nodelay(true)?;
    socket.connect(to).await
}

/// An unreachable proxy is a failure of the source. Exhaustion in this process is our own.
fn away(proxy: Proxy, error: io::Error) -> io::Error {
    if mta::lack::is_ours(&error) {
        return error;
    }
    failed(proxy, "cannot be reached")
}

fn failed(proxy: Proxy, why: &'static str) -> io::Error {
    io::Error::other(SourceFailure::ProxyFailed(proxy, why))
}

async fn by_socks5(to: SocketAddr, proxy: Proxy, stream: TcpStream) -> io::Result<TcpStream> {
    let connected = Socks5Stream::connect_with_socket(stream, to).await;
    // RFC 1928 §6: replies about the peer, and replies about the proxy itself.
    match connected {
        Ok(stream) => Ok(stream.into_inner()),
        Err(SocksError::HostUnreachable) => Err(io::ErrorKind::HostUnreachable.into()),
        Err(SocksError::NetworkUnreachable) => Err(io::ErrorKind::NetworkUnreachable.into()),
        Err(SocksError::ConnectionRefused) => Err(io::ErrorKind::ConnectionRefused.into()),
        Err(SocksError::TtlExpired) => Err(io::ErrorKind::TimedOut.into()),
        Err(SocksError::NoAcceptableAuthMethods) => Err(failed(proxy, "requires authentication")),
        Err(SocksError::ConnectionNotAllowedByRuleset) => Err(failed(proxy, "does not allow it")),
        Err(_) => Err(failed(proxy, "does not support the request")),
    }
}

async fn told_of(
    to: SocketAddr,
    from: Option<IpAddr>,
    mut stream: TcpStream,
) -> io::Result<TcpStream> {
    stream.write_all(&header(from, to)).await?;
    Ok(stream)
}

/// The header of the PROXY protocol, version 2: from where to where.
fn header(from: Option<IpAddr>, to: SocketAddr) -> Vec<u8> {
    let mut header = SIGNATURE.to_vec();
    header.push(VERSION_AND_COMMAND);
    let (family, addresses) = match (from, to.ip()) {
        (Some(IpAddr::V4(from)), IpAddr::V4(to)) => (TCP4, [from.octets(), to.octets()].concat()),
        (Some(IpAddr::V6(from)), IpAddr::V6(to)) => (TCP6, [from.octets(), to.octets()].concat()),
        // From wherever the proxy likes.
        (_, IpAddr::V4(to)) => (TCP4, [[0; 4], to.octets()].concat()),
        (_, IpAddr::V6(to)) => (TCP6, [[0; 16], to.octets()].concat()),
    };
    header.push(family);
    // Addresses, and two ports of two octets each.
    let length = u16::try_from(addresses.len() + 4).unwrap_or(u16::MAX);
    header.extend(length.to_be_bytes());
    header.extend(addresses);
    header.extend(0_u16.to_be_bytes());
    header.extend(to.port().to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_both_ends() {
        let four = header(Some([192, 0, 2, 1].into()), "198.51.100.7:25".parse().unwrap());
        assert_eq!(four[12..16], [0x21, 0x11, 0, 12]);
        assert_eq!(four[16..], [192, 0, 2, 1, 198, 51, 100, 7, 0, 0, 0, 25]);
        let six =
            header(Some("2001:db8::1".parse().unwrap()), "[2001:db8::2]:587".parse().unwrap());
        assert_eq!((six[13], &six[14..16], six.len()), (0x21, &[0, 36][..], 52));
        assert_eq!((six[31], six[47], &six[50..]), (1, 2, &[2, 75][..]));
        let unsaid = header(None, "198.51.100.7:25".parse().unwrap());
        assert_eq!(unsaid[16..20], [0; 4]);
    }
}
