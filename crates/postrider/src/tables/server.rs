//! The server of a table: where it is, and bytes to it and back.

use super::connections::{Connections, RequestError, in_turn};
use super::text::words;
use config::{Host, HostPort, Reader};
use lookup::{Backend, Entry, Fetch, LookupError, LookupErrorKind};
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;
use std::{fmt, io};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// Default timeout for a connection.
pub(super) const CONNECT_TIMEOUT: &str = "5s";

/// A connection to a server.
pub(crate) trait TableStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<W: AsyncRead + AsyncWrite + Unpin + Send> TableStream for W {}

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableServer(HostPort);

impl fmt::Display for TableServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.host {
            Host::Socket(_) => write!(f, "unix:{}", self.0),
            _ => self.0.fmt(f),
        }
    }
}

impl TableServer {
    /// Reads `server`: a host and port, or `unix:` and a path. Returns `None` after an error, which is reported to
    /// `reader`. With 0 as default the port is required.
    pub(super) fn read(
        text: &str,
        default_port: u16,
        reader: &mut Reader<'_, '_>,
    ) -> Option<TableServer> {
        if text.is_empty() {
            let help = "name its address, for example server = \"127.0.0.1:9000\"";
            reader.error("", "a table without `server`", help);
            return None;
        }
        let help = "write a host and port, for example \"127.0.0.1:9000\", or \"unix:\" and a path";
        match HostPort::parse(text, default_port) {
            Ok(host) if host.port == 0 && !matches!(host.host, Host::Socket(_)) => {
                reader.error("server", format!("\"{text}\" has no port"), help);
                None
            }
            Ok(host) => Some(TableServer(host)),
            Err(why) => {
                reader.error("server", format!("\"{text}\" is not a server: {why}"), help);
                None
            }
        }
    }

    /// The one at this place.
    pub(crate) fn at(place: HostPort) -> TableServer {
        TableServer(place)
    }

    /// Opens a connection. Names are resolved as the system does, all addresses are tried.
    pub(super) async fn connect(
        &self,
        timeout: Duration,
    ) -> Result<Box<dyn TableStream>, LookupError> {
        within(self, timeout, async { self.open().await.map_err(|error| error.to_string()) }).await
    }

    /// Opens a connection without a timeout.
    pub(crate) async fn open(&self) -> io::Result<Box<dyn TableStream>> {
        let port = self.0.port;
        let stream = match &self.0.host {
            Host::Socket(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
            Host::Address(address) => TcpStream::connect((*address, port)).await?,
            Host::Name(name) => TcpStream::connect((name.as_str(), port)).await?,
        };
        stream.set_nodelay(true)?;
        Ok(Box::new(stream))
    }
}

/// Opens a connection within a timeout. An error has the server's text, or the timeout.
pub(crate) async fn within<C>(
    server: &dyn fmt::Display,
    timeout: Duration,
    open: impl Future<Output = Result<C, String>>,
) -> Result<C, LookupError> {
    let why = match tokio::time::timeout(timeout, open).await {
        Ok(Ok(connection)) => return Ok(connection),
        Ok(Err(why)) => words(why.as_bytes()),
        Err(_) => format!("no connection within {timeout:?}"),
    };
    Err(LookupError::new(LookupErrorKind::Unreachable, format!("{server}: {why}")))
}

/// Finds the end of an answer, and returns the range of its content; `None` if the answer is incomplete. Bytes after
/// the answer are an error.
pub(super) type Frame = fn(&[u8]) -> Result<Option<Range<usize>>, LookupError>;

/// Sends a request and reads its answer.
pub(super) async fn exchange(
    wire: &mut Box<dyn TableStream>,
    request: &[u8],
    frame: Frame,
) -> Result<Box<[u8]>, RequestError> {
    let gone = |error: &dyn fmt::Display| {
        RequestError::Gone(LookupError::new(
            LookupErrorKind::Unreachable,
            words(error.to_string().as_bytes()),
        ))
    };
    if has_news(wire).await {
        return Err(gone(&"closed the connection, or sent unsolicited data"));
    }
    wire.write_all(request).await.map_err(|error| gone(&error))?;
    let mut answer = Vec::with_capacity(512);
    loop {
        let read = wire.read_buf(&mut answer).await.map_err(|error| gone(&error))?;
        if read == 0 && answer.is_empty() {
            return Err(gone(&"closed the connection without a reply"));
        }
        if read == 0 {
            let text = "closed the connection during its reply";
            return Err(RequestError::Broken(LookupError::new(LookupErrorKind::Wrong, text)));
        }
        if let Some(place) = frame(&answer).map_err(RequestError::Broken)? {
            return Ok(answer.get(place).unwrap_or_default().into());
        }
    }
}

/// Returns true if the connection is readable before a request: unexpected bytes, or its end.
pub(super) async fn has_news(wire: &mut Box<dyn TableStream>) -> bool {
    let mut byte = [0];
    poll_fn(|cx| {
        let read = Pin::new(&mut *wire).poll_read(cx, &mut ReadBuf::new(&mut byte));
        Poll::Ready(read.is_ready())
    })
    .await
}

/// A protocol of questions and replies.
pub(super) trait QueryProtocol: Clone + 'static {
    /// The question for a key.
    ///
    /// # Errors
    /// There is none for this key.
    fn question(&self, key: &str) -> Result<Vec<u8>, LookupError>;

    /// The range of the reply's content; `None` if the reply is incomplete.
    ///
    /// # Errors
    /// Returns an error for an invalid or too long reply.
    fn content(bytes: &[u8]) -> Result<Option<Range<usize>>, LookupError>;

    /// Parses a reply.
    ///
    /// # Errors
    /// Returns an error if the reply contains no answer.
    fn answer(reply: &[u8]) -> Result<Option<Entry>, LookupError>;
}

/// The server to query in this protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DialogueSettings<D> {
    pub(super) server: TableServer,
    pub(super) connect_timeout: Duration,
    pub(super) dialogue: D,
}

impl<D: QueryProtocol> DialogueSettings<D> {
    /// The driver, for the table thread.
    pub(super) fn backend(&self) -> Box<dyn Backend> {
        Box::new(DialogueDriver { asked: self.clone(), connections: Connections::new() })
    }
}

struct DialogueDriver<D> {
    asked: DialogueSettings<D>,
    connections: Connections<Box<dyn TableStream>>,
}

impl<D: QueryProtocol> Backend for DialogueDriver<D> {
    fn fetch<'a>(&'a self, keys: &'a [Box<str>]) -> Fetch<'a> {
        Box::pin(in_turn(keys, async |key| self.find(key).await))
    }

    fn server(&self) -> Option<String> {
        self.connections.is_answering().then(|| self.asked.server.to_string())
    }
}

impl<D: QueryProtocol> DialogueDriver<D> {
    async fn find(&self, key: &str) -> Result<Option<Entry>, LookupError> {
        let DialogueSettings { server, connect_timeout, dialogue } = &self.asked;
        let question = dialogue.question(key)?;
        let open = async || server.connect(*connect_timeout).await;
        let ask = async |wire: &mut Box<dyn TableStream>| {
            let reply = exchange(wire, &question, D::content).await;
            let reply = reply.map_err(|failure| failure.of(server))?;
            D::answer(&reply).map_err(|trouble| RequestError::Answered(trouble).of(server))
        };
        self.connections.ask(open, ask).await
    }
}
