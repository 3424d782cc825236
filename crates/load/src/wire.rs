//! A connection, in clear or encrypted.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// A connection that may become an encrypted one.
#[derive(Debug)]
pub(crate) enum Wire {
    Clear(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// The socket below.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Wire::Clear(stream) => stream,
            Wire::Encrypted(stream) => stream.get_ref().0,
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Clear(stream) => Pin::new(stream).poll_read(cx, buffer),
            Wire::Encrypted(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Clear(stream) => Pin::new(stream).poll_write(cx, bytes),
            Wire::Encrypted(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Clear(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Wire::Encrypted(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Wire::Clear(stream) => stream.is_write_vectored(),
            Wire::Encrypted(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Clear(stream) => Pin::new(stream).poll_flush(cx),
            Wire::Encrypted(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Clear(stream) => Pin::new(stream).poll_shutdown(cx),
            Wire::Encrypted(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
