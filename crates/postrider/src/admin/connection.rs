//! HTTP connections that cannot pile up: so many at once, each for so long.

use axum::serve::Listener;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Connections at once; further ones wait in the kernel's backlog.
const CONNECTIONS_MAX: usize = 64;
/// A connection lives no longer, however slowly its peer sends or reads.
const LIFE_MAX: Duration = Duration::from_secs(60);

/// Accepts connections within the limits.
pub(super) struct LimitedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl LimitedListener {
    /// Must be called within the runtime.
    pub(super) fn new(listener: std::net::TcpListener) -> io::Result<LimitedListener> {
        let listener = TcpListener::from_std(listener)?;
        Ok(LimitedListener { listener, places: Arc::new(Semaphore::new(CONNECTIONS_MAX)) })
    }
}

impl Listener for LimitedListener {
    type Io = LimitedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LimitedStream, SocketAddr) {
        // The semaphore is never closed; without a place there would simply be no limit.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        // axum's own accept retries when file descriptors are short.
        let (stream, peer) = Listener::accept(&mut self.listener).await;
        let life = Box::pin(tokio::time::sleep(LIFE_MAX));
        (LimitedStream { stream, life, _place: place }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends by itself.
pub(super) struct LimitedStream {
    stream: TcpStream,
    life: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
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
