//! The control socket. Write access to it means control of the server. It lies beside the spool with mode 0600; one
//! JSON request per connection, answered by JSON lines (`docs/control.md`).

mod abstract_socket;

use crate::handed_sockets::OpenedSocket;
use crate::limited_work::waited_for;
use crate::mutex::lock;
use crate::socket_file::{self, FILE_TIMEOUT, SocketFile};
use mta::commands::{ControlPlane, ControlRequest};
use mta::control::{ControlResponse, ErrorCode, PROTOCOL};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockAddr, Socket, Type};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};

/// A request line, its newline included.
const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// Timeout for a client's request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for a client to read a piece of the response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of clients; beyond it, the client that has been without a request for longest is dropped.
const CLIENTS_MAX: usize = 16;
/// Time for which input after a refused request is read and discarded, since the client would not see the answer
/// otherwise.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(1);
/// Responses are written in pieces of about this size.
const RESPONSE_BYTES: usize = 64 * 1024;
/// Responses that may wait for the client.
const RESPONSES_MAX: usize = 64;
/// Client's timeout for the next line; a long command sends one every second.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(120);
/// Client's timeout for the connection, and then for sending the request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A socket that listens; its file is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: std::os::unix::net::UnixListener,
    /// The second address.
    without_file: Option<std::os::unix::net::UnixListener>,
    /// Removed with the socket, unless it was handed over.
    _file: Option<SocketFile>,
}

impl ControlSocket {
    /// Listens at `path`. A stale socket of a dead server is replaced.
    ///
    /// # Errors
    /// Returns an error if a server answers there, if the path is no socket, or the operating system's error.
    pub(crate) fn bind(path: &Path) -> io::Result<ControlSocket> {
        let (socket, file) = socket_file::bind(path, 0o600, 128)?;
        Ok(ControlSocket {
            listener: socket.into(),
            without_file: abstract_socket::bind(path),
            _file: Some(file),
        })
    }

    /// Takes a socket that was handed over for `path`.
    ///
    /// # Errors
    /// Returns the operating system's error.
    pub(crate) fn handed(socket: OpenedSocket, path: &Path) -> io::Result<ControlSocket> {
        let listener = socket.listening(128)?.into();
        Ok(ControlSocket { listener, without_file: abstract_socket::bind(path), _file: None })
    }

    /// Serves clients until the future is dropped. Needs a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// When the socket cannot be given to the runtime.
    pub(crate) async fn serve(self, plane: Arc<ControlPlane>) -> io::Result<()> {
        let listener = UnixListener::from_std(self.listener.try_clone()?)?;
        let without_file = self.without_file.as_ref().map(|listener| listener.try_clone());
        let without_file = without_file.transpose()?.map(UnixListener::from_std).transpose()?;
        let places = Arc::new(Semaphore::new(CLIENTS_MAX));
        let idle = Arc::new(IdleClients::default());
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted.map(|(stream, _)| stream),
                accepted = abstract_socket::accept(without_file.as_ref()) => accepted,
            };
            let Ok(stream) = accepted else {
                // Out of file descriptors, most likely: that passes.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            if places.available_permits() == 0 {
                idle.oldest_gives_way();
            }
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
            // Before its task runs: the next client may want its place first.
            let waits = idle.enter();
            let (plane, idle) = (Arc::clone(&plane), Arc::clone(&idle));
            tokio::spawn(async move {
                // An error here is the client's going away.
                let _ = serve_client(stream, &plane, (&idle, waits)).await;
                drop(place);
            });
        }
    }
}

/// Clients that have sent no request yet, the oldest first.
#[derive(Default)]
struct IdleClients(Mutex<IdleClientMap>);

#[derive(Default)]
struct IdleClientMap {
    next: u64,
    clients: BTreeMap<u64, oneshot::Sender<()>>,
}

impl IdleClients {
    /// One more; it ends when the receiver has something, or fails.
    fn enter(&self) -> (u64, oneshot::Receiver<()>) {
        let (give_way, gives_way) = oneshot::channel();
        let mut waiting = lock(&self.0);
        waiting.next += 1;
        let number = waiting.next;
        waiting.clients.insert(number, give_way);
        (number, gives_way)
    }

    fn leave(&self, number: u64) {
        lock(&self.0).clients.remove(&number);
    }

    fn oldest_gives_way(&self) {
        // Its sender is dropped, which it sees.
        lock(&self.0).clients.pop_first();
    }
}

async fn serve_client(
    mut stream: UnixStream,
    plane: &ControlPlane,
    (idle, (number, gives_way)): (&IdleClients, (u64, oneshot::Receiver<()>)),
) -> io::Result<()> {
    let request = tokio::select! {
        biased;
        request = tokio::time::timeout(REQUEST_TIMEOUT, read_request(&mut stream)) => {
            request.unwrap_or_else(|_| Err("no request within 10 seconds".to_owned()))
        }
        _ = gives_way => {
            return refuse(&mut stream, "no request while other connections wait".to_owned()).await;
        }
    };
    idle.leave(number);
    let (out, mut responses) = mpsc::channel(RESPONSES_MAX);
    let (request, version) = match request {
        Ok(request) => request,
        Err(text) => {
            refuse(&mut stream, text).await?;
            // A socket that is closed with something unread resets the connection, and the answer is lost.
            stream.shutdown().await?;
            let _ = tokio::time::timeout(DISCARD_TIMEOUT, discard(&mut stream)).await;
            return Ok(());
        }
    };
    let mut handling = pin!(plane.handle(request, out));
    let mut is_handled = false;
    let mut text = Vec::new();
    loop {
        // If the client is gone, dropping `handling` stops the work of the shards.
        let response = tokio::select! {
            biased;
            response = responses.recv() => response,
            () = &mut handling, if !is_handled => {
                is_handled = true;
                continue;
            }
        };
        let Some(response) = response else { break };
        let is_progress = matches!(response, ControlResponse::Progress(_));
        if is_progress && has_hung_up(&stream) {
            return Ok(());
        }
        // Clients of the first version know of no progress.
        if is_progress && version < 2 {
            continue;
        }
        serde_json::to_writer(&mut text, &response)?;
        text.push(b'\n');
        if text.len() >= RESPONSE_BYTES || responses.is_empty() {
            send(&mut stream, &text).await?;
            text.clear();
        }
    }
    send(&mut stream, &text).await
}

/// Returns true if the client has closed the connection, not only its sending side.
fn has_hung_up(stream: &UnixStream) -> bool {
    let mut descriptors = [PollFd::new(stream, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut descriptors, Some(&now)).is_ok_and(|n| n > 0)
        && descriptors.iter().any(|d| d.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

async fn refuse(stream: &mut UnixStream, text: String) -> io::Result<()> {
    let mut line = serde_json::to_vec(&bad_request(text))?;
    line.push(b'\n');
    send(stream, &line).await
}

async fn discard(stream: &mut UnixStream) {
    let mut piece = vec![0; 16 * 1_024];
    while stream.read(&mut piece).await.is_ok_and(|length| length > 0) {}
}

fn bad_request(text: String) -> ControlResponse {
    ControlResponse::Error { code: ErrorCode::BadRequest, text }
}

async fn send(stream: &mut UnixStream, text: &[u8]) -> io::Result<()> {
    tokio::time::timeout(RESPONSE_TIMEOUT, stream.write_all(text)).await?
}

/// Reads one line: the request, and its protocol version. Errors are sentences.
async fn read_request(stream: &mut UnixStream) -> Result<(ControlRequest, u32), String> {
    let mut line = Vec::new();
    loop {
        let mut piece = [0; 4_096];
        let length = stream.read(&mut piece).await.map_err(|error| error.to_string())?;
        line.extend_from_slice(piece.get(..length).unwrap_or_default());
        if let Some(end) = line.iter().position(|&b| b == b'\n') {
            line.truncate(end);
            break;
        }
        if line.len() >= REQUEST_BYTES_MAX {
            return Err(format!("the request is longer than {REQUEST_BYTES_MAX} bytes"));
        }
        if length == 0 {
            return Err("the request must be one line of JSON that ends with a newline".to_owned());
        }
    }
    let misread = |error: serde_json::Error| format!("invalid request: {error}");
    let mut request: serde_json::Value = serde_json::from_slice(&line).map_err(misread)?;
    let version = request.as_object_mut().and_then(|fields| fields.remove("version"));
    let version = match version {
        None => 1,
        Some(version) => version
            .as_u64()
            .and_then(|version| u32::try_from(version).ok())
            .filter(|version| (1..=PROTOCOL).contains(version))
            .ok_or_else(|| format!("this server supports protocol versions 1 to {PROTOCOL}"))?,
    };
    Ok((serde_json::from_value(request).map_err(misread)?, version))
}

/// The reason why a request got no answer.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// No server at the socket.
    Unreachable(io::Error),
    /// The connection broke, or the response is invalid.
    Broken(String),
    /// Writing the responses failed.
    Output(io::Error),
}

/// Connects with a timeout for `connect` and for writes to an idle server. On Linux the send timeout also limits
/// `connect` while the backlog is full.
fn connect(path: &Path) -> io::Result<BlockingStream> {
    let prepared = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        io::Result::Ok(socket)
    };
    let at = path.to_owned();
    let error = match waited_for(FILE_TIMEOUT, move || fs::symlink_metadata(at)) {
        Some(_) => {
            let socket = prepared()?;
            match socket.connect(&SockAddr::unix(path)?) {
                Ok(()) => return Ok(socket.into()),
                // The server would close the other connection without a reply.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
                Err(error) => error,
            }
        }
        None => io::Error::new(io::ErrorKind::TimedOut, "the disk of its file does not respond"),
    };
    abstract_socket::connect(path, prepared()?).map_err(|_| error)
}

/// Sends `request` to the server at `path` and passes each response to `take`, including the last one (`Done` or
/// `Error`). Blocks.
///
/// # Errors
/// Returns an error if the server cannot be reached or closes the connection early, or if `take` fails.
pub(crate) fn ask(
    path: &Path,
    request: &ControlRequest,
    mut take: impl FnMut(ControlResponse) -> io::Result<()>,
) -> Result<(), ClientError> {
    let mut stream = connect(path).map_err(ClientError::Unreachable)?;
    let broken = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            ClientError::Broken("the server does not respond".to_owned())
        }
        _ => ClientError::Broken(error.to_string()),
    };
    stream.set_read_timeout(Some(CLIENT_TIMEOUT)).map_err(broken)?;
    let request = serde_json::to_value(request).and_then(|mut request| {
        request["version"] = PROTOCOL.into();
        serde_json::to_vec(&request)
    });
    let mut line = request.map_err(|e| ClientError::Broken(e.to_string()))?;
    line.push(b'\n');
    stream.write_all(&line).map_err(broken)?;
    for line in BufReader::new(stream).lines() {
        let line = line.map_err(broken)?;
        let response: ControlResponse = serde_json::from_str(&line).map_err(|error| {
            ClientError::Broken(format!("invalid reply of the server: {error}"))
        })?;
        let last = matches!(response, ControlResponse::Done { .. } | ControlResponse::Error { .. });
        take(response).map_err(ClientError::Output)?;
        if last {
            return Ok(());
        }
    }
    Err(ClientError::Broken(
        "the server closed the connection before its reply was complete".to_owned(),
    ))
}

#[cfg(test)]
mod tests;
