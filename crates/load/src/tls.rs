//! TLS for what sends and receives load: STARTTLS with or without resumption, certificates from files.
//!
//! The client judges no certificate: it sends made-up mail to a server that whoever runs it has named.

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ProducesTickets};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind,
    ServerConfig, SignatureScheme, StreamOwned,
};
use std::cell::Cell;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// Sessions that a client remembers: of one server, and one connection at a time.
const SESSIONS_MAX: usize = 8;

/// Tickets that a server gives with a full handshake, as rustls has it, of which each is good for one
/// resumption. A resumed session gets them, too.
const TICKETS: usize = 2;

/// How connections that are encrypted begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Handshakes {
    /// Resume the session of an earlier connection if possible
    Resumed,
    /// Full handshake, with key exchange and signature, for each connection
    Full,
}

impl Handshakes {
    /// As the command line has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Handshakes::Resumed => "resumed",
            Handshakes::Full => "full",
        }
    }
}

/// Handshakes that were done.
#[derive(Debug, Default)]
pub struct HandshakeCount {
    /// All of them.
    pub all: Cell<u64>,
    /// Of them, those that went on with an earlier session.
    pub resumed: Cell<u64>,
}

impl HandshakeCount {
    fn note(&self, kind: Option<HandshakeKind>) {
        self.all.set(self.all.get() + 1);
        self.resumed.set(self.resumed.get() + u64::from(kind == Some(HandshakeKind::Resumed)));
    }
}

/// The client's side, of one peer: it remembers sessions of its own.
pub struct TlsClient {
    handshakes: Handshakes,
    connector: TlsConnector,
    /// Sessions are remembered under it.
    name: ServerName<'static>,
}

impl std::fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("name", &self.name).finish_non_exhaustive()
    }
}

impl TlsClient {
    /// One that begins connections so.
    ///
    /// # Errors
    /// When the library can't be set up.
    pub fn new(handshakes: Handshakes) -> io::Result<TlsClient> {
        let config = client_config(handshakes)?;
        let name = ServerName::try_from("server.invalid").map_err(io::Error::other)?;
        Ok(TlsClient { handshakes, connector: TlsConnector::from(Arc::new(config)), name })
    }

    /// Another peer, that remembers nothing yet.
    #[must_use]
    pub fn another(&self) -> TlsClient {
        let mut config = ClientConfig::clone(self.connector.config());
        config.resumption = resumption(self.handshakes);
        let connector = TlsConnector::from(Arc::new(config));
        TlsClient { handshakes: self.handshakes, connector, name: self.name.clone() }
    }

    /// Encrypts a connection whose server said that it is ready.
    ///
    /// # Errors
    /// The network's, or what is wrong with the handshake.
    pub(crate) async fn encrypt(
        &self,
        stream: TcpStream,
        count: &HandshakeCount,
    ) -> io::Result<TlsStream<TcpStream>> {
        let stream = self.connector.connect(self.name.clone(), stream).await?;
        count.note(stream.get_ref().1.handshake_kind());
        Ok(stream.into())
    }

    /// The same for a socket that blocks.
    ///
    /// # Errors
    /// The network's, or what is wrong with the handshake.
    pub fn encrypt_blocking<S: Read + Write>(
        &self,
        stream: S,
    ) -> io::Result<StreamOwned<ClientConnection, S>> {
        let config = Arc::clone(self.connector.config());
        let connection = ClientConnection::new(config, self.name.clone());
        let mut stream = StreamOwned::new(connection.map_err(io::Error::other)?, stream);
        stream.conn.complete_io(&mut stream.sock)?;
        Ok(stream)
    }
}

/// The server's side.
#[derive(Clone)]
pub struct TlsServer(TlsAcceptor);

impl std::fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

impl TlsServer {
    /// One with the certificate in one file and its key in another, both PEM.
    ///
    /// # Errors
    /// When one of them can't be used.
    pub fn from_files(
        certificate: &Path,
        key: &Path,
        handshakes: Handshakes,
    ) -> io::Result<TlsServer> {
        let config = server_config(certificate, key, handshakes)?;
        Ok(TlsServer(TlsAcceptor::from(Arc::new(config))))
    }

    /// Encrypts a connection whose client was told that it may.
    ///
    /// # Errors
    /// The network's, or what is wrong with the handshake.
    pub(crate) async fn encrypt(
        &self,
        stream: TcpStream,
        count: &HandshakeCount,
    ) -> io::Result<TlsStream<TcpStream>> {
        let stream = self.0.accept(stream).await?;
        count.note(stream.get_ref().1.handshake_kind());
        Ok(stream.into())
    }
}

/// Suites with AES-128 go first, as with most who run servers: what is measured is TLS, not SHA-384.
fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    let is_light = |suite: CipherSuite| suite == CipherSuite::TLS13_AES_128_GCM_SHA256;
    provider.cipher_suites.sort_by_key(|suite| !is_light(suite.suite()));
    provider
}

/// What a client of load has: any certificate is taken.
///
/// # Errors
/// When the library can't be set up.
pub fn client_config(handshakes: Handshakes) -> io::Result<ClientConfig> {
    let provider = Arc::new(provider());
    let any = AnyCertificate(Arc::clone(&provider));
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(any))
        .with_no_client_auth();
    config.resumption = resumption(handshakes);
    Ok(config)
}

fn resumption(handshakes: Handshakes) -> Resumption {
    match handshakes {
        Handshakes::Resumed => Resumption::in_memory_sessions(SESSIONS_MAX),
        Handshakes::Full => Resumption::disabled(),
    }
}

/// What a server of load has.
///
/// # Errors
/// When a file can't be used.
pub fn server_config(
    certificate: &Path,
    key: &Path,
    handshakes: Handshakes,
) -> io::Result<ServerConfig> {
    let at = |path: &Path| {
        let path = path.display().to_string();
        move |error: &dyn std::fmt::Display| io::Error::other(format!("{path}: {error}"))
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .map_err(|error| at(certificate)(&error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| at(key)(&error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(|error| at(certificate)(&error))?;
    match handshakes {
        Handshakes::Resumed => {
            config.ticketer = ticketer()?;
            config.send_tls13_tickets = TICKETS;
        }
        Handshakes::Full => {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
    }
    Ok(config)
}

fn ticketer() -> io::Result<Arc<dyn ProducesTickets>> {
    aws_lc_rs::Ticketer::new().map_err(io::Error::other)
}

/// Takes any certificate; that its key signed the handshake is checked all the same.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
