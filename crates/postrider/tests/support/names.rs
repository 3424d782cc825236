//! A name server that is silent until it is told to answer.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Serves any name: the MX of `d.test` is `mx.d.test`, whose address `address` gives.
pub struct NameServer {
    /// `127.0.0.1:PORT`.
    pub address: String,
    answers: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
}

impl NameServer {
    /// Listens on a free port; its thread ends with the test's process.
    pub fn start(address: impl Fn(&str) -> [u8; 4] + Send + 'static) -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let server = NameServer {
            address: socket.local_addr().expect("bound").to_string(),
            answers: Arc::new(AtomicBool::new(true)),
            asked: Arc::default(),
        };
        let (answers, asked) = (Arc::clone(&server.answers), Arc::clone(&server.asked));
        std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                asked.fetch_add(1, Ordering::Relaxed);
                if answers.load(Ordering::Relaxed) {
                    let _ = socket.send_to(&answer(&buffer[..length], &address), from);
                }
            }
        });
        server
    }

    /// Answers from now on, or falls silent.
    pub fn set_answering(&self, answers: bool) {
        self.answers.store(answers, Ordering::Relaxed);
    }

    /// Questions so far.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }
}

/// RFC 1035 §4.1: the question again, and a record where there is one.
fn answer(query: &[u8], address: &dyn Fn(&str) -> [u8; 4]) -> Vec<u8> {
    let mut name = Vec::new();
    let mut at = 12;
    while query[at] != 0 {
        let end = at + 1 + usize::from(query[at]);
        name.push(String::from_utf8_lossy(&query[at + 1..end]).to_ascii_lowercase());
        at = end;
    }
    let name = name.join(".");
    let kind = query[at + 2];
    let question = &query[12..at + 5];
    // The name of the question, by a pointer to it.
    let data = match kind {
        1 => address(&name).to_vec(),
        15 => [&[0, 10, 2][..], b"mx", &[0xc0, 12]].concat(),
        _ => Vec::new(),
    };
    let count = u8::from(!data.is_empty());
    let mut reply = [&query[..2], &[0x84, 0, 0, 1, 0, count, 0, 0, 0, 0], question].concat();
    if count > 0 {
        let length = u8::try_from(data.len()).expect("short");
        reply.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 1, 0, 0, length]);
        reply.extend(data);
    }
    reply
}
