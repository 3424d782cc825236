//! A TCP connection with TLS on it.

use crate::terminal;
use auth::tls_report::ResultType;
use mta::seams::{Encryption, HandshakeError};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    CertificateError, CipherSuite, ClientConfig, CommonState, ConnectionCommon, ProtocolVersion,
    ServerConfig,
};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// Encrypted by a handshake that is done.
#[derive(Debug)]
pub(crate) struct Encrypted(TlsStream<TcpStream>);

/// Performs the server's side of the handshake.
///
/// # Errors
/// Returns the handshake's error. The client got an alert, if TLS defines one.
pub(super) async fn accept(
    stream: TcpStream,
    server: Arc<ServerConfig>,
) -> io::Result<(Encrypted, Encryption)> {
    let stream = TlsAcceptor::from(server).accept(stream).await?;
    let encryption = encryption_of(stream.get_ref().1);
    Ok((Encrypted(stream.into()), encryption))
}

/// Performs the client's side of the handshake with a host of this name, or address.
///
/// # Errors
/// Returns the handshake's error. The server got an alert, if TLS defines one.
pub(super) async fn connect(
    stream: TcpStream,
    client: Arc<ClientConfig>,
    name: &str,
) -> io::Result<(Encrypted, Encryption)> {
    let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
    let connected = TlsConnector::from(client).connect(name, stream).await;
    let stream = connected.map_err(in_words)?;
    let encryption = encryption_of(stream.get_ref().1);
    Ok((Encrypted(stream.into()), encryption))
}

/// Maximum octets of a handshake error's text: the text is kept with the host and in events, and a certificate can have
/// tens of thousands of names.
const WORDS_MAX: usize = 512;

/// An error in a certificate that was checked.
pub(super) fn handshake_error(error: rustls::Error) -> io::Error {
    in_words(io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Shortens the text of an error and removes control characters, since much of the text comes from the peer. Texts of
/// our own verifiers stay as they are.
fn in_words(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    // Errors of the operating system are returned unchanged.
    let Some(inner) = inner else { return error };
    let result = result_of(inner);
    let words = match inner {
        rustls::Error::InvalidCertificate(CertificateError::Other(why)) => why.to_string(),
        error => error.to_string(),
    };
    let mut words = terminal::clean(&words);
    if words.len() > WORDS_MAX {
        words.truncate(words.floor_char_boundary(WORDS_MAX - '…'.len_utf8()));
        words.push('…');
    }
    io::Error::new(error.kind(), HandshakeError { result, words: words.into() })
}

/// The result type in TLS reports (RFC 8460 §4.3.1).
fn result_of(error: &rustls::Error) -> ResultType {
    let rustls::Error::InvalidCertificate(error) = error else {
        return ResultType::ValidationFailure;
    };
    match error {
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => ResultType::CertificateExpired,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            ResultType::CertificateHostMismatch
        }
        _ => ResultType::CertificateNotTrusted,
    }
}

impl Encrypted {
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Flush output that the socket could not accept before, while waiting for the peer.
        if let Poll::Ready(Err(error)) = Pin::new(&mut self.0).poll_flush(cx) {
            return Poll::Ready(Err(error));
        }
        match Pin::new(&mut self.0).poll_read(cx, buffer) {
            // A connection that ends without close_notify may have been truncated. SMTP marks its own end, and many
            // peers omit close_notify (RFC 8446 §6.1).
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }

    /// Accepts output up to the buffer's limit, and sends as much as the socket accepts.
    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut stream = Pin::new(&mut self.0);
        let written = match pieces {
            [one] => stream.as_mut().poll_write(cx, one),
            many => stream.as_mut().poll_write_vectored(cx, many),
        };
        if let Poll::Ready(Ok(_)) = written
            && let Poll::Ready(Err(error)) = stream.poll_flush(cx)
        {
            return Poll::Ready(Err(error));
        }
        written
    }

    /// RFC 9266 §4.2: of TLS 1.3 only, where it is one connection's alone by design.
    pub(super) fn channel_binding(&self) -> Option<[u8; 32]> {
        const LABEL: &[u8] = b"EXPORTER-Channel-Binding";
        let TlsStream::Server(stream) = &self.0 else { return None };
        let session = stream.get_ref().1;
        let is_new = session.protocol_version() == Some(ProtocolVersion::TLSv1_3);
        is_new.then(|| session.export_keying_material([0; 32], LABEL, Some(b"")).ok()).flatten()
    }

    /// The certificates that the peer has shown, its own first.
    pub(super) fn chain(&self) -> &[CertificateDer<'static>] {
        self.0.get_ref().1.peer_certificates().unwrap_or_default()
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().0.local_addr()
    }
}

/// RFC 8446 §6.1: sends close_notify, as far as the socket accepts it now. A finished connection is not waited for.
impl Drop for Encrypted {
    fn drop(&mut self) {
        let (socket, last) = match &mut self.0 {
            TlsStream::Server(stream) => {
                let (socket, session) = stream.get_mut();
                (socket, last_words(session))
            }
            TlsStream::Client(stream) => {
                let (socket, session) = stream.get_mut();
                (socket, last_words(session))
            }
        };
        let _ = socket.try_write(&last);
    }
}

fn last_words<D>(session: &mut ConnectionCommon<D>) -> Vec<u8> {
    session.send_close_notify();
    let mut last = Vec::new();
    while session.wants_write() && session.write_tls(&mut last).is_ok_and(|n| n > 0) {}
    last
}

/// Registered names of the version and the cipher suite, for the suites negotiated by default.
fn encryption_of(connection: &CommonState) -> Encryption {
    let version = match connection.protocol_version() {
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLS",
    };
    let cipher = connection.negotiated_cipher_suite().map(|suite| suite.suite());
    let cipher = match cipher {
        Some(CipherSuite::TLS13_AES_128_GCM_SHA256) => "TLS_AES_128_GCM_SHA256",
        Some(CipherSuite::TLS13_AES_256_GCM_SHA384) => "TLS_AES_256_GCM_SHA384",
        Some(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256) => "TLS_CHACHA20_POLY1305_SHA256",
        Some(other) => other.as_str().unwrap_or("unknown"),
        None => "unknown",
    };
    Encryption { version, cipher }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_certificate_says_is_told_in_few_words() {
        let presented = (0..9_000).map(|n| format!("DnsName(\"\u{202e}{n}.test\")")).collect();
        let expected = ServerName::try_from("mx.far.test").unwrap();
        let misnamed = CertificateError::NotValidForNameContext { expected, presented };
        let error = io::Error::other(rustls::Error::from(misnamed));
        let told = in_words(error).to_string();
        assert!(told.len() <= WORDS_MAX && told.ends_with('…'), "{}", told.len());
        assert!(told.contains("mx.far.test") && !told.contains('\u{202e}'), "{told}");
        let short = io::Error::other(rustls::Error::from(CertificateError::Expired));
        let short = in_words(short);
        assert_eq!(short.to_string(), "invalid peer certificate: Expired");
        assert_eq!(HandshakeError::result_of(&short), ResultType::CertificateExpired);
        let lack = io::Error::from_raw_os_error(24);
        assert_eq!(in_words(lack).raw_os_error(), Some(24));
    }

    #[test]
    fn certificates_fail_as_reports_have_it() {
        let expected = || ServerName::try_from("mx.far.test").unwrap();
        let presented = Vec::new();
        let misnamed = CertificateError::NotValidForNameContext { expected: expected(), presented };
        for (error, result) in [
            (CertificateError::NotValidYet, ResultType::CertificateExpired),
            (misnamed, ResultType::CertificateHostMismatch),
            (CertificateError::UnknownIssuer, ResultType::CertificateNotTrusted),
            (CertificateError::BadSignature, ResultType::CertificateNotTrusted),
        ] {
            let error = handshake_error(rustls::Error::InvalidCertificate(error));
            assert_eq!(HandshakeError::result_of(&error), result, "{error}");
        }
        let garbage = handshake_error(rustls::Error::DecryptError);
        assert_eq!(HandshakeError::result_of(&garbage), ResultType::ValidationFailure);
    }
}
