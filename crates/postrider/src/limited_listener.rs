//! Connections that cannot pile up: so many at once, so many of a client, each for so long.

use crate::mutex::lock;
use axum::serve::Listener;
use mta::clients::network_of;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// What connections may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// At once; further ones wait in the kernel's backlog.
    pub(crate) connections_max: usize,
    /// Of one client (an IPv4 address, or an IPv6 /64); further ones are closed.
    pub(crate) per_client_max: usize,
    /// A connection lives no longer, however slowly its peer sends or reads.
    pub(crate) life_max: Duration,
}

/// Connections by client.
type Clients = Arc<Mutex<BTreeMap<IpAddr, usize>>>;

/// Accepts connections within the limits.
pub(crate) struct LimitedListener {
    listener: TcpListener,
    limits: Limits,
    places: Arc<Semaphore>,
    clients: Clients,
}

impl LimitedListener {
    /// Must be called within the runtime.
    pub(crate) fn new(
        listener: std::net::TcpListener,
        limits: Limits,
    ) -> io::Result<LimitedListener> {
        let listener = TcpListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(limits.connections_max));
        Ok(LimitedListener { listener, limits, places, clients: Clients::default() })
    }
}

impl Listener for LimitedListener {
    type Io = LimitedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LimitedStream, SocketAddr) {
        loop {
            // The semaphore is never closed; without a place there would simply be no limit.
            let place = Arc::clone(&self.places).acquire_owned().await.ok();
            // axum's own accept retries when file descriptors are short.
            let (stream, peer) = Listener::accept(&mut self.listener).await;
            let client = Share::of(&self.clients, network_of(peer.ip()), self.limits);
            let Some(client) = client else { continue };
            let life = Box::pin(tokio::time::sleep(self.limits.life_max));
            return (LimitedStream { stream, life, _place: place, _client: client }, peer);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that counts with its client's.
struct Share {
    clients: Clients,
    client: IpAddr,
}

impl Share {
    /// `None`: the client has as many as it may have.
    fn of(clients: &Clients, client: IpAddr, limits: Limits) -> Option<Share> {
        let mut counts = lock(clients);
        let count = counts.entry(client).or_default();
        if *count >= limits.per_client_max {
            return None;
        }
        *count += 1;
        Some(Share { clients: Arc::clone(clients), client })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut counts = lock(&self.clients);
        if let Some(count) = counts.get_mut(&self.client) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

/// A connection that ends by itself.
pub(crate) struct LimitedStream {
    stream: TcpStream,
    life: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
    _client: Share,
}

impl LimitedStream {
    fn check_life(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.life.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncRead for LimitedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check_life(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for LimitedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_life(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
