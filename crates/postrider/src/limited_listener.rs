//! A listener with limits on the number of connections, in total and per client, and on their duration.

use crate::world::clock::Start;
use axum::serve::Listener;
use mta::pools::PoolId;
use mta::pressure::Pressures;
use mta::seats::{self, Rank, Seat, Seats};
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

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// At once.
    pub(crate) connections_max: u32,
    /// A connection lives no longer, however slowly its peer sends or reads.
    pub(crate) life_max: Duration,
}

/// The pool that a listener's places are, in the list of problems.
#[derive(Clone)]
pub(crate) struct Pool {
    pub(crate) id: PoolId,
    pub(crate) pressures: Arc<Pressures>,
    pub(crate) started: Start,
}

impl Pool {
    /// Counts a refused or evicted client.
    fn note_turned_away(&self) {
        self.pressures.note_turned_away(self.id, self.started.elapsed());
    }
}

/// Admission of clients.
enum ConnectionAdmission {
    /// The operator's own: further connections wait in the kernel's backlog.
    Ours(Arc<Semaphore>),
    /// Any client. At the limit, the oldest connection of the network with the most is closed, and no network has more
    /// than `network_max`.
    Public { seats: Arc<Seats>, network_max: u32, pool: Pool },
}

/// Accepts connections within the limits.
pub(crate) struct LimitedListener {
    listener: TcpListener,
    limits: ConnectionLimits,
    places: ConnectionAdmission,
}

impl LimitedListener {
    /// For the operator's own. Must be called within the runtime.
    pub(crate) fn new(
        listener: std::net::TcpListener,
        limits: ConnectionLimits,
    ) -> io::Result<LimitedListener> {
        let places =
            ConnectionAdmission::Ours(Arc::new(Semaphore::new(limits.connections_max as usize)));
        Ok(LimitedListener { listener: TcpListener::from_std(listener)?, limits, places })
    }

    /// For any client, with a maximum per network. Must be called within the runtime.
    pub(crate) fn public(
        listener: std::net::TcpListener,
        limits: ConnectionLimits,
        network_max: u32,
        pool: Pool,
    ) -> io::Result<LimitedListener> {
        let seats = Seats::new(limits.connections_max);
        pool.pressures.register(pool.id, &seats);
        let places = ConnectionAdmission::Public { seats, network_max, pool };
        Ok(LimitedListener { listener: TcpListener::from_std(listener)?, limits, places })
    }
}

impl Listener for LimitedListener {
    type Io = LimitedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (LimitedStream, SocketAddr) {
        loop {
            // The semaphore is never closed; without a place there would simply be no limit.
            let place = match &self.places {
                ConnectionAdmission::Ours(places) => Arc::clone(places).acquire_owned().await.ok(),
                ConnectionAdmission::Public { .. } => None,
            };
            // axum's own accept retries when file descriptors are short.
            let (stream, peer) = Listener::accept(&mut self.listener).await;
            let seat = match &self.places {
                ConnectionAdmission::Ours(_) => None,
                ConnectionAdmission::Public { seats, network_max, pool } => {
                    let limits = seats::SeatLimits {
                        all: self.limits.connections_max,
                        network: *network_max,
                    };
                    let seat = seats.enter(0, peer.ip(), Rank::Unproven, limits);
                    if seat.as_ref().is_none_or(Seat::has_displaced) {
                        pool.note_turned_away();
                    }
                    if seat.is_none() {
                        continue;
                    }
                    seat
                }
            };
            let life = Box::pin(tokio::time::sleep(self.limits.life_max));
            return (LimitedStream { stream, life, _place: place, seat }, peer);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that ends by itself.
pub(crate) struct LimitedStream {
    stream: TcpStream,
    life: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
    seat: Option<Seat>,
}

impl LimitedStream {
    fn check_life(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.seat.as_mut().is_some_and(|seat| seat.poll_displaced(cx).is_ready()) {
            return Err(io::Error::other("displaced by another connection: all are in use"));
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use mta::problems::ClockReading;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpSocket;

    const LIMITS: ConnectionLimits =
        ConnectionLimits { connections_max: 20, life_max: Duration::from_secs(600) };

    async fn connect(from: [u8; 4], to: SocketAddr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        socket.connect(to).await.unwrap()
    }

    #[tokio::test]
    async fn a_hundred_networks_leave_places_to_others() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let (id, pressures) = (PoolId::Challenges, Arc::<Pressures>::default());
        let pool = Pool { id, pressures: Arc::clone(&pressures), started: Start::now() };
        let mut listener = LimitedListener::public(listener, LIMITS, 2, pool).unwrap();
        let to = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await;
                tokio::spawn(async move {
                    let mut byte = [0];
                    if stream.read_exact(&mut byte).await.is_ok() {
                        let _ = stream.write_all(&byte).await;
                    }
                });
            }
        });
        // They say nothing, and come again all the time.
        let mut silent = Vec::new();
        for n in 0..100 {
            for _ in 0..3 {
                silent.push(connect([127, 9, n, 1], to).await);
            }
            let mut other = connect([127, 10, n, 1], to).await;
            other.write_all(b"x").await.unwrap();
            let mut byte = [0];
            other.read_exact(&mut byte).await.unwrap();
            assert_eq!(byte, *b"x", "{n}");
        }
        // Each of them made somebody give his way, which an operator can see.
        let (_, numbers) = pressures.metrics(ClockReading::default()).remove(0);
        assert!(numbers.used.get() <= i64::from(LIMITS.connections_max));
        assert!(numbers.turned_away.get() > 100 && numbers.pressed.get() == 1);
    }
}
