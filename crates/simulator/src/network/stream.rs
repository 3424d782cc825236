//! One end of a connection, with what a task does at it.

use super::connection::{Connection, Pieces, Side, StreamRead};
use super::{Network, leaving};
use crate::open_files::OpenFile;
use mta::seams::Stream;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

/// Bytes under way in one direction, read buffers included; beyond it a writer waits.
const PIPE_BYTES_MAX: usize = 64 * 1024;

/// A connection that counts towards a limit while it lives.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    network: Network,
    from: IpAddr,
    to: SocketAddr,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let mut state = self.network.0.state.borrow_mut();
        let (from, to) = (self.from, self.to);
        for watch in state.watches.iter_mut().filter(|watch| watch.counts(from, &to)) {
            watch.open -= 1;
        }
    }
}

impl Network {
    /// Counts a connection from `from` towards `to` from its first packet on.
    pub(super) fn count(&self, from: IpAddr, to: SocketAddr) -> ConnectionGuard {
        let now_us = self.0.executor.now_us();
        let state = &mut *self.0.state.borrow_mut();
        for watch in state.watches.iter_mut().filter(|watch| watch.counts(from, &to)) {
            watch.open += 1;
            let allowed = watch.allowed(now_us);
            if watch.open > allowed && watch.exceeded.is_none() {
                let left = leaving::count(watch, state.connections.values(), now_us);
                let open = watch.open.saturating_sub(left);
                watch.exceeded = (open > allowed).then_some((open, allowed));
            }
        }
        ConnectionGuard { network: self.clone(), from, to }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct SimStream {
    network: Network,
    id: u64,
    local: SocketAddr,
    side: Side,
    _counted: Option<ConnectionGuard>,
    _file: OpenFile,
}

impl SimStream {
    /// The end of connection `id` that has this address and is on this side.
    pub(super) fn new(
        network: Network,
        id: u64,
        (local, side): (SocketAddr, Side),
        counted: Option<ConnectionGuard>,
        file: OpenFile,
    ) -> SimStream {
        SimStream { network, id, local, side, _counted: counted, _file: file }
    }

    /// Which connection it is an end of.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// All that was written at this end so far.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        let state = self.network.0.state.borrow();
        let pipe = |c: &Connection| c.pipes[self.side as usize].written_bytes;
        state.connections.get(&self.id).map_or(0, pipe)
    }

    /// All that was read at this end so far.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        let state = self.network.0.state.borrow();
        let pipe = |c: &Connection| c.pipes[self.side.other() as usize].read_bytes;
        state.connections.get(&self.id).map_or(0, pipe)
    }

    /// Writes nothing any more; the other end reads what was written, then the end.
    pub fn shut_down(&self) {
        let mut state = self.network.0.state.borrow_mut();
        let Some(connection) = state.connections.get_mut(&self.id) else { return };
        if connection.reset || std::mem::replace(&mut connection.shut[self.side as usize], true) {
            return;
        }
        let now_us = self.network.0.executor.now_us();
        let pipe = &mut connection.pipes[self.side as usize];
        let at_us = (now_us + connection.latency_us).max(pipe.last_at_us);
        pipe.last_at_us = at_us;
        let (network, id, side) = (self.network.clone(), self.id, self.side);
        self.network.0.executor.call_at(at_us, move || network.end(id, side));
    }

    /// Breaks the connection.
    pub fn abort(self) {
        self.network.reset(self.id);
    }

    /// Reads; 0 is the end.
    ///
    /// # Errors
    /// When the connection is broken.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, buffer)).await
    }

    /// Writes it all.
    ///
    /// # Errors
    /// When the connection is broken.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = poll_fn(|cx| self.poll_write(cx, &[IoSlice::new(bytes)])).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }
}

impl Stream for SimStream {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let now_us = self.network.0.executor.now_us();
        let state = &mut *self.network.0.state.borrow_mut();
        let Some(connection) = state.connections.get_mut(&self.id) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        if connection.reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        let pieces = connection.pieces;
        let written_bytes = connection.pipes[self.side as usize].written_bytes;
        let pipe = &mut connection.pipes[self.side.other() as usize];
        if pipe.arrived.is_empty() {
            if pipe.ended {
                return Poll::Ready(Ok(0));
            }
            pipe.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let all = buffer.len().min(pipe.arrived.len());
        let count = match pieces {
            Pieces::Bytes(first) if pipe.read_bytes < first => 1,
            Pieces::Ragged if state.random.below(2) == 0 => {
                1 + state.random.below(all as u64) as usize
            }
            _ => all,
        };
        io::Read::read_exact(&mut pipe.arrived, &mut buffer[..count])?;
        pipe.read_bytes += count as u64;
        pipe.reads.push(StreamRead { end: pipe.read_bytes, at_us: now_us, written_bytes });
        if let Some(waker) = pipe.writer.take() {
            waker.wake();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let now_us = self.network.0.executor.now_us();
        let state = &mut *self.network.0.state.borrow_mut();
        let Some(connection) = state.connections.get_mut(&self.id) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        if connection.reset {
            return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
        }
        if connection.shut[self.side as usize] {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let total: u64 = connection.pipes.iter().map(|pipe| pipe.written_bytes).sum();
        let pipe = &mut connection.pipes[self.side as usize];
        let room = PIPE_BYTES_MAX.saturating_sub(pipe.arrived.len() + pipe.flying_bytes);
        if room == 0 {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let mut bytes = Vec::new();
        for piece in pieces {
            let left = room - bytes.len();
            bytes.extend_from_slice(&piece[..piece.len().min(left)]);
        }
        let count = bytes.len();
        pipe.written_bytes += count as u64;
        pipe.writes.push((pipe.written_bytes, now_us));
        pipe.flying_bytes += count;
        let mut latency_us =
            connection.latency_us + state.random.below(connection.latency_us / 4 + 1);
        if !connection.is_well && state.random.permille(state.faults.stall_permille) {
            latency_us += state.random.below(20_000_000);
        }
        pipe.last_at_us = pipe.last_at_us.max(now_us + latency_us);
        let at_us = pipe.last_at_us;
        let resets = connection.reset_after.is_some_and(|after| total + count as u64 > after);
        let (network, id, side) = (self.network.clone(), self.id, self.side);
        if resets {
            // Part of what was written before may still arrive.
            let after_us = state.random.below(2 * latency_us + 1);
            self.network.reset_at(id, now_us + after_us);
        }
        self.network.0.executor.call_at(at_us, move || network.deliver(id, side, &bytes));
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.network.close(self.id, self.side);
    }
}
