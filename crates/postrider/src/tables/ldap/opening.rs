//! Opens connections to a directory's servers, up to and with the bind.

use super::server::{HostPort, LdapServer};
use super::settings::{BindSettings, LdapSettings, Secret};
use super::tls;
use crate::tables::connections;
use ldap::{BindAs, Op, Outcome, Response, code};
use lookup::{LookupError, LookupErrorKind};
use socket2::{SockRef, TcpKeepalive};
use std::fmt::Display;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

/// Maximum size of a response while a connection is opened.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Idle time before TCP keepalive probes.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// A duplex byte stream.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Stream for T {}

/// Opens a connection for searches.
///
/// # Errors
/// Returns an error with the server's name if it cannot be reached, does not answer or refuses the bind.
pub(super) async fn open(
    settings: &LdapSettings,
    server: &LdapServer,
) -> Result<Box<dyn Stream>, LookupError> {
    let opened = open_unnamed(settings, server).await;
    opened.map_err(|trouble| trouble.of(server))
}

async fn open_unnamed(
    settings: &LdapSettings,
    server: &LdapServer,
) -> Result<Box<dyn Stream>, LookupError> {
    let wait = settings.connect_timeout;
    let mut stream: Box<dyn Stream> = match server {
        LdapServer::Unix(path) => {
            Box::new(within(wait, "connecting", UnixStream::connect(path)).await?)
        }
        LdapServer::Tls(at) => {
            let plain = connect(wait, at).await?;
            Box::new(encrypt(settings, at, plain).await?)
        }
        LdapServer::Plain(at) if settings.start_tls => {
            let mut plain = connect(wait, at).await?;
            let request = ldap::start_tls(1);
            let asked = exchange(&mut plain, &request, 1);
            match within(wait, "StartTLS", asked).await? {
                Op::Extended(outcome) if outcome.is_success() => {}
                Op::Extended(outcome) => return Err(refused("StartTLS", &outcome)),
                _ => return Err(nonsense("invalid reply to StartTLS")),
            }
            Box::new(encrypt(settings, at, plain).await?)
        }
        LdapServer::Plain(at) => Box::new(connect(wait, at).await?),
    };
    if let Some(bind) = &settings.bind {
        within(wait, "the bind", self::bind(&mut stream, bind)).await??;
    }
    Ok(stream)
}

async fn connect(wait: Duration, at: &HostPort) -> Result<TcpStream, LookupError> {
    let stream = within(wait, "connecting", TcpStream::connect((&*at.host, at.port))).await?;
    let prepared = stream.set_nodelay(true).and_then(|()| {
        SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))
    });
    prepared.map_err(|error| unreachable("connecting", error))?;
    Ok(stream)
}

async fn encrypt(
    settings: &LdapSettings,
    at: &HostPort,
    plain: TcpStream,
) -> Result<TlsStream<TcpStream>, LookupError> {
    let files = settings.tls.clone();
    let connector =
        connections::aside(&settings.tls.files(), move || Ok(tls::connector(&files))).await;
    let connector =
        connector.map_err(|why| LookupError::new(LookupErrorKind::Unreachable, why))??;
    let handshake = connector.connect(tls::name(&at.host)?, plain);
    within(settings.connect_timeout, "TLS", handshake).await
}

async fn bind(
    stream: &mut Box<dyn Stream>,
    bind: &BindSettings,
) -> io::Result<Result<(), LookupError>> {
    let (request, who) = match bind {
        BindSettings::External => (ldap::bind(2, BindAs::External), "EXTERNAL"),
        BindSettings::Simple { dn, password } => {
            let password = match secret(password).await {
                Ok(password) => password,
                Err(trouble) => return Ok(Err(trouble)),
            };
            (ldap::bind(2, BindAs::Simple { dn, password: password.as_bytes() }), dn.as_str())
        }
    };
    let what = format!("the bind as {who}");
    Ok(match exchange(stream, &request, 2).await? {
        Op::Bind(outcome) if outcome.is_success() => Ok(()),
        Op::Bind(outcome) if outcome.code == code::INVALID_CREDENTIALS => {
            Err(refused(&format!("{what}: invalid name or password"), &outcome))
        }
        Op::Bind(outcome) | Op::Extended(outcome) => Err(refused(&what, &outcome)),
        _ => Err(nonsense("invalid reply to the bind")),
    })
}

/// The password. One from a file must not be empty: that would be an anonymous bind, which succeeds (RFC 4513 §5.1.2).
async fn secret(secret: &Secret) -> Result<String, LookupError> {
    match secret {
        Secret::Here(password) => Ok(password.clone()),
        Secret::File(path) => {
            let read = connections::read(path).await.map(|password| password.to_string());
            read.map_err(|why| LookupError::new(LookupErrorKind::Unreachable, why))
        }
    }
}

/// Sends a request and reads its one answer.
pub(super) async fn exchange<S: Stream>(stream: &mut S, request: &[u8], id: i32) -> io::Result<Op> {
    let wrong = |reason: &'static str| io::Error::new(io::ErrorKind::InvalidData, reason);
    stream.write_all(request).await?;
    stream.flush().await?;
    let mut bytes = Vec::new();
    let frame = loop {
        match ldap::frame(&bytes, ANSWER_BYTES_MAX).map_err(|error| wrong(error.0))? {
            Some(frame) if bytes.len() >= frame => break frame,
            _ => {}
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    // Extra bytes before TLS may come from an attacker (RFC 4513 §3.1.1).
    if bytes.len() > frame {
        return Err(wrong("unsolicited data"));
    }
    let response = Response::read(&bytes).map_err(|error| wrong(error.0))?;
    // Farewell has no number.
    if response.id != id && response.id != 0 {
        return Err(wrong("unsolicited reply"));
    }
    Ok(response.op)
}

/// A step that may not take longer.
async fn within<T>(
    wait: Duration,
    step: &str,
    done: impl Future<Output = io::Result<T>>,
) -> Result<T, LookupError> {
    match timeout(wait, done).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(unreachable(step, error)),
        Err(_) => {
            let text = format!("{step}: no answer within {wait:?}");
            Err(LookupError::new(LookupErrorKind::Unreachable, text))
        }
    }
}

fn unreachable(step: &str, error: impl Display) -> LookupError {
    LookupError::new(LookupErrorKind::Unreachable, format!("{step}: {error}"))
}

fn refused(what: &str, outcome: &Outcome) -> LookupError {
    LookupError::new(LookupErrorKind::Unreachable, format!("{what}: {outcome}"))
}

fn nonsense(text: &str) -> LookupError {
    LookupError::new(LookupErrorKind::Wrong, text)
}
