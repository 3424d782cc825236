//! A connection on which a server can't say without end.

use crate::tables::server::Wire;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much may still be read on a connection. (Atomics only because the client library wants to be able
/// to move it to other threads.)
#[derive(Debug)]
pub(super) struct Allowance {
    bytes: AtomicUsize,
    is_exceeded: AtomicBool,
}

impl Allowance {
    pub(super) fn new(bytes: usize) -> Arc<Allowance> {
        Arc::new(Allowance { bytes: bytes.into(), is_exceeded: false.into() })
    }

    /// As much again, whatever was left.
    pub(super) fn set(&self, bytes: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// The server said more. Nothing is read any more then.
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_exceeded.load(Ordering::Relaxed)
    }

    fn spend(&self, bytes: usize) -> io::Result<()> {
        let left = self.bytes.load(Ordering::Relaxed);
        self.bytes.store(left.saturating_sub(bytes), Ordering::Relaxed);
        if bytes > left || self.is_exceeded() {
            self.is_exceeded.store(true, Ordering::Relaxed);
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the answer is too long"));
        }
        Ok(())
    }
}

/// A connection with an allowance.
pub(super) struct Limited {
    pub(super) wire: Box<dyn Wire>,
    pub(super) allowance: Arc<Allowance>,
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.wire).poll_read(cx, buffer))?;
        Poll::Ready(self.allowance.spend(buffer.filled().len() - before))
    }
}

impl AsyncWrite for Limited {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_may_be_read_and_no_byte_more() {
        let allowance = Allowance::new(10);
        allowance.spend(4).unwrap();
        allowance.spend(6).unwrap();
        assert!(!allowance.is_exceeded());
        allowance.spend(0).unwrap();
        assert!(allowance.spend(1).is_err() && allowance.is_exceeded());
        allowance.set(10);
        assert!(allowance.spend(1).is_err(), "an answer was cut: nothing fits together any more");
    }
}
