//! A server that does what a script says.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, spawn_local};

/// A server at a port of 127.0.0.1, until it is dropped.
pub(super) struct Peer {
    pub(super) url: String,
    task: JoinHandle<()>,
}

impl Peer {
    /// Each connection is served by `serve`, which gets its number, from 0.
    pub(super) async fn new<F: Future<Output = ()> + 'static>(
        serve: impl Fn(TcpStream, usize) -> F + 'static,
    ) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("ldap://{}", listener.local_addr().expect("an address"));
        let task = spawn_local(async move {
            for n in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                spawn_local(serve(stream, n));
            }
        });
        Peer { url, task }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An element.
pub(super) fn element(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).expect("a body").to_be_bytes();
    [&[tag, 0x84][..], &length, body].concat()
}

/// A message; ids are small.
pub(super) fn message(id: u8, operation: &[u8]) -> Vec<u8> {
    element(0x30, &[&element(0x02, &[id])[..], operation].concat())
}

/// How an operation ended: its tag, the code and the server's words.
pub(super) fn outcome(tag: u8, code: u8, words: &[u8]) -> Vec<u8> {
    element(tag, &[element(0x0a, &[code]), element(0x04, b""), element(0x04, words)].concat())
}

pub(super) const DONE: u8 = 0x65;

/// An entry with one value of `description`.
pub(super) fn entry(value: &[u8]) -> Vec<u8> {
    entry_of(&[("description", value)])
}

/// An entry with one value of each of these attributes.
pub(super) fn entry_of(attributes: &[(&str, &[u8])]) -> Vec<u8> {
    let attribute = |(name, value): &(&str, &[u8])| {
        let values = element(0x31, &element(0x04, value));
        element(0x30, &[element(0x04, name.as_bytes()), values].concat())
    };
    let attributes: Vec<u8> = attributes.iter().flat_map(attribute).collect();
    element(0x64, &[element(0x04, b"cn=x"), element(0x30, &attributes)].concat())
}

/// Waits for a request and gives its id and the tag of its operation.
pub(super) async fn request(stream: &mut TcpStream) -> Option<(u8, u8)> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).await.ok()?;
    // Requests of the tests are shorter than 128 bytes, or than 256.
    let length = match head[1] {
        0x81 => stream.read_u8().await.ok()?,
        length => length,
    };
    let mut body = vec![0; usize::from(length)];
    stream.read_exact(&mut body).await.ok()?;
    Some((*body.get(2)?, *body.get(3)?))
}

/// Answers each search with what `answer` makes of its id.
pub(super) async fn answer_each(mut stream: TcpStream, answer: impl Fn(u8) -> Vec<u8>) {
    while let Some((id, tag)) = request(&mut stream).await {
        if tag == 0x63 && stream.write_all(&answer(id)).await.is_err() {
            return;
        }
    }
}
