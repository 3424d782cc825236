//! A client of the shard's listener.

use super::node::Node;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// A network that may relay.
pub(crate) const FRIEND: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));
/// One that may not.
pub(crate) const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));

/// A session.
pub(crate) struct Client {
    stream: DuplexStream,
    unread: Vec<u8>,
}

impl Client {
    /// Connects from an address, and is greeted and has said EHLO.
    pub(crate) async fn connect(node: &Node, from: IpAddr) -> Client {
        Client::open(node, from).greeted().await
    }

    /// The same at a listener, by its number.
    pub(crate) async fn connect_at(node: &Node, listener: usize, from: IpAddr) -> Client {
        let stream = node.accept_at(listener, SocketAddr::new(from, 40_000));
        Client { stream, unread: Vec::new() }.greeted().await
    }

    async fn greeted(mut self) -> Client {
        let greeting = self.reply().await;
        assert!(greeting.starts_with("220 "), "{greeting}");
        let offered = self.say("EHLO client.test").await;
        assert!(offered.starts_with("250"), "{offered}");
        self
    }

    /// Connects only.
    pub(crate) fn open(node: &Node, from: IpAddr) -> Client {
        Client { stream: node.accept(SocketAddr::new(from, 40_000)), unread: Vec::new() }
    }

    /// Writes a line without waiting for anything.
    pub(crate) async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.expect("the session lives");
    }

    /// Says a command; the reply to it.
    pub(crate) async fn say(&mut self, command: &str) -> String {
        self.write(&format!("{command}\r\n")).await;
        self.reply().await
    }

    /// The same of a session that may have ended; empty then.
    pub(crate) async fn try_say(&mut self, command: &str) -> String {
        match self.stream.write_all(format!("{command}\r\n").as_bytes()).await {
            Ok(()) => self.reply().await,
            Err(_) => String::new(),
        }
    }

    /// The next reply, its lines joined by a space; empty at the end of the session.
    pub(crate) async fn reply(&mut self) -> String {
        let mut lines = Vec::new();
        loop {
            let line = self.line().await;
            let is_last = line.as_bytes().get(3) != Some(&b'-');
            lines.push(line);
            if is_last {
                return lines.join(" ");
            }
        }
    }

    async fn line(&mut self) -> String {
        loop {
            if let Some(at) = self.unread.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.unread.drain(..at + 2).collect::<Vec<u8>>();
                return String::from_utf8_lossy(&line[..at]).into_owned();
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return String::new(),
                Ok(n) => self.unread.extend_from_slice(&buffer[..n]),
            }
        }
    }

    /// Sends a message and gives the reply to its end.
    pub(crate) async fn send(&mut self, from: &str, to: &[&str], content: &str) -> String {
        let reply = self.say(&format!("MAIL FROM:<{from}>")).await;
        assert!(reply.starts_with("250"), "{reply}");
        for recipient in to {
            let reply = self.say(&format!("RCPT TO:<{recipient}>")).await;
            assert!(reply.starts_with("250"), "{reply}");
        }
        self.content(content).await
    }

    /// DATA and what follows; the reply to its end.
    pub(crate) async fn content(&mut self, content: &str) -> String {
        let reply = self.say("DATA").await;
        assert!(reply.starts_with("354"), "{reply}");
        self.write(content).await;
        self.say(".").await
    }
}

/// One message by a session of its own, accepted.
pub(crate) async fn submit(node: &Node, from: &str, to: &[&str]) {
    let mut client = Client::connect(node, FRIEND).await;
    let reply = client.send(from, to, "Subject: one\r\n\r\nbody\r\n").await;
    assert!(reply.starts_with("250 2.0.0"), "{reply}");
    client.say("QUIT").await;
}
