//! What TLS costs where nothing else is done: conversations of the length that mail has, between two threads
//! that parse nothing and keep nothing, in clear and encrypted. The difference is what a server that
//! uses the same library can't avoid.

use crate::cpu::thread_time;
use crate::listener::listen;
use crate::tls::{HandshakeCount, TlsClient, TlsServer};
use crate::wire::Wire;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};

/// Read at once.
const READ_BYTES: usize = 64 * 1024;

/// A step of a conversation: so many bytes from the client, so many from the server.
type Exchange = (usize, usize);

/// Greeting and EHLO.
const OPENING: [Exchange; 2] = [(0, 40), (30, 150)];
/// STARTTLS, in clear; behind the handshake EHLO comes again.
const STARTTLS: Exchange = (10, 24);
const HELLO: Exchange = (30, 140);
/// MAIL, RCPT and DATA one by one, as a source sends them.
const STEPWISE: [Exchange; 3] = [(45, 14), (35, 14), (6, 24)];
/// MAIL and RCPT at once, as a relay sends them; content comes behind its BDAT.
const PIPELINED: [Exchange; 1] = [(85, 28)];
/// The reply to content.
const ACCEPTED: usize = 60;
const QUIT: Exchange = (6, 20);

/// Which conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A connection for each message, as it comes in.
    OneEach,
    /// One connection for all, as mail goes out.
    Kept,
}

/// What is measured.
#[derive(Debug)]
pub struct Conversation {
    /// How many connections there are.
    pub shape: Shape,
    /// Of the content.
    pub content_bytes: usize,
    /// Both sides, or in clear.
    pub tls: Option<(TlsServer, TlsClient)>,
    /// So many at once.
    pub sessions: usize,
    /// For so long.
    pub lasts: Duration,
}

/// What it came to, for each message.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Messages in all.
    pub messages: u64,
    /// Microseconds of processor time of the server's thread.
    pub server_us: f64,
    /// Microseconds of processor time of the client's thread.
    pub client_us: f64,
    /// Handshakes of the client.
    pub handshakes: u64,
    /// Of them, those that went on with an earlier session.
    pub resumed: u64,
}

/// Has the conversations, a thread for each side.
///
/// # Errors
/// What kept them from being had.
pub fn measure(conversation: &Conversation) -> io::Result<Cost> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    drop(listener);
    let (ready, listening) = std::sync::mpsc::channel();
    let (stop, stopped) = oneshot::channel();
    std::thread::scope(|scope| {
        let server = scope.spawn(move || run(serve(conversation, address, ready, stopped)));
        let client = scope.spawn(move || {
            // If the sender is gone, connecting fails and tells.
            let _ = listening.recv();
            let result = run(converse(conversation, address));
            let _ = stop.send(());
            result
        });
        let panicked = |_| io::Error::other("a thread panicked");
        let (messages, client, count) = client.join().map_err(panicked)??;
        let server = server.join().map_err(panicked)??;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / messages.max(1) as f64;
        Ok(Cost {
            messages,
            server_us: each(server),
            client_us: each(client),
            handshakes: count.all.get(),
            resumed: count.resumed.get(),
        })
    })
}

/// On a runtime of this thread.
fn run<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, work)
}

/// What the server's thread used until it was stopped.
async fn serve(
    conversation: &Conversation,
    address: SocketAddr,
    ready: std::sync::mpsc::Sender<()>,
    mut stopped: oneshot::Receiver<()>,
) -> io::Result<Duration> {
    let listener: TcpListener = listen(address)?;
    let _ = ready.send(());
    let begun = thread_time();
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => return Ok(thread_time() - begun),
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                let side = Side {
                    shape: conversation.shape,
                    content_bytes: conversation.content_bytes,
                    tls: conversation.tls.as_ref().map(|(server, _)| TlsEndpoint::Server(server.clone())),
                    count: Rc::default(),
                };
                // The client sees it if something is wrong.
                tokio::task::spawn_local(async move { side.talk(stream, None).await });
            }
        }
    }
}

/// Messages, what the client's thread used, and its handshakes.
async fn converse(
    conversation: &Conversation,
    address: SocketAddr,
) -> io::Result<(u64, Duration, HandshakeCount)> {
    let begun = thread_time();
    let until = Instant::now() + conversation.lasts;
    let count = Rc::new(HandshakeCount::default());
    let mut sessions = JoinSet::new();
    for _ in 0..conversation.sessions {
        let side = Side {
            shape: conversation.shape,
            content_bytes: conversation.content_bytes,
            tls: conversation.tls.as_ref().map(|(_, client)| TlsEndpoint::Client(client.another())),
            count: Rc::clone(&count),
        };
        sessions.spawn_local(async move {
            let mut messages = 0;
            while Instant::now() < until {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                messages += side.talk(stream, Some(until)).await?;
            }
            io::Result::Ok(messages)
        });
    }
    let mut messages = 0;
    while let Some(session) = sessions.join_next().await {
        messages += session.map_err(io::Error::other)??;
    }
    let used = thread_time() - begun;
    let count = Rc::into_inner(count).unwrap_or_default();
    Ok((messages, used, count))
}

/// How one side encrypts.
enum TlsEndpoint {
    Server(TlsServer),
    Client(TlsClient),
}

/// One side of conversations.
struct Side {
    shape: Shape,
    content_bytes: usize,
    tls: Option<TlsEndpoint>,
    count: Rc<HandshakeCount>,
}

impl Side {
    /// A connection to its end: the client's at `until`, the server's when the client ends it. The number of
    /// messages.
    async fn talk(&self, stream: TcpStream, until: Option<Instant>) -> io::Result<u64> {
        let asks = until.is_some();
        let mut wire = Wire::Clear(stream);
        let mut buffer = vec![0; READ_BYTES.max(self.content_bytes)];
        for exchange in OPENING {
            step(&mut wire, asks, exchange, &mut buffer).await?;
        }
        if let Some(end) = &self.tls {
            step(&mut wire, asks, STARTTLS, &mut buffer).await?;
            wire = self.encrypt(wire, end).await?;
            step(&mut wire, asks, HELLO, &mut buffer).await?;
        }
        let mut messages = 0;
        loop {
            let before: &[Exchange] = match self.shape {
                Shape::OneEach => &STEPWISE,
                Shape::Kept => &PIPELINED,
            };
            for exchange in before {
                step(&mut wire, asks, *exchange, &mut buffer).await?;
            }
            step(&mut wire, asks, (self.content_bytes, ACCEPTED), &mut buffer).await?;
            messages += 1;
            if self.shape == Shape::OneEach {
                step(&mut wire, asks, QUIT, &mut buffer).await?;
                return Ok(messages);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(messages);
            }
        }
    }

    async fn encrypt(&self, wire: Wire, end: &TlsEndpoint) -> io::Result<Wire> {
        let Wire::Clear(stream) = wire else { return Ok(wire) };
        let stream = match end {
            TlsEndpoint::Server(server) => server.encrypt(stream, &self.count).await?,
            TlsEndpoint::Client(client) => client.encrypt(stream, &self.count).await?,
        };
        Ok(Wire::Encrypted(Box::new(stream)))
    }
}

/// Says one side's part and hears the other's.
async fn step(
    wire: &mut Wire,
    asks: bool,
    (question, answer): Exchange,
    buffer: &mut [u8],
) -> io::Result<()> {
    let (said, heard) = if asks { (question, answer) } else { (answer, question) };
    if asks {
        say(wire, said, buffer).await?;
    }
    let mut left = heard;
    while left > 0 {
        let at_most = left.min(buffer.len());
        let read = wire.read(&mut buffer[..at_most]).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        left -= read;
    }
    if !asks {
        say(wire, said, buffer).await?;
    }
    Ok(())
}

async fn say(wire: &mut Wire, bytes: usize, buffer: &[u8]) -> io::Result<()> {
    if bytes == 0 {
        return Ok(());
    }
    wire.write_all(&buffer[..bytes]).await?;
    wire.flush().await
}

#[cfg(test)]
mod tests {
    use super::{Conversation, Shape, measure};
    use std::time::Duration;

    #[test]
    fn conversations_are_counted_on_both_sides() {
        for shape in [Shape::OneEach, Shape::Kept] {
            let lasts = Duration::from_millis(50);
            let conversation =
                Conversation { shape, content_bytes: 100_000, tls: None, sessions: 3, lasts };
            let cost = measure(&conversation).expect("had");
            assert!(cost.messages >= 3, "{cost:?}");
            assert!(cost.server_us > 0.0 && cost.client_us > 0.0, "{cost:?}");
            assert_eq!(cost.handshakes, 0);
        }
    }
}
