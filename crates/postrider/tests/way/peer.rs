//! A next hop that answers by a script and keeps what it was sent.

use super::world::TestWorld;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

/// What it has seen and will say.
#[derive(Clone, Default)]
pub(crate) struct Peer(Rc<Memory>);

#[derive(Default)]
struct Memory {
    /// By verb (`CONNECT`, `EHLO`, `MAIL`, …, `.` for the end of the content, `content` before it is
    /// read); once each, in order.
    replies: RefCell<BTreeMap<&'static str, VecDeque<String>>>,
    /// By verb, whenever there is none in `replies`.
    always: RefCell<BTreeMap<&'static str, String>>,
    messages: RefCell<Vec<Sent>>,
    /// Contents that came whole, whatever was said of them.
    contents: Cell<usize>,
    /// Connections so far.
    connections: Cell<usize>,
    /// It takes no mail in clear.
    insists_on_tls: Cell<bool>,
}

/// A message that it has taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The whole MAIL command.
    pub(crate) said: String,
    /// Behind a handshake.
    pub(crate) is_encrypted: bool,
    /// The last AUTH command on its connection.
    pub(crate) login: String,
    pub(crate) from: String,
    pub(crate) to: Vec<String>,
    pub(crate) content: String,
}

impl Peer {
    /// A well-behaved next hop at an address.
    pub(crate) fn at(world: &TestWorld, address: &str) -> Peer {
        let peer = Peer::default();
        peer.serve_at(world, address);
        peer
    }

    /// The same next hop is at this address from now on.
    pub(crate) fn serve_at(&self, world: &TestWorld, address: &str) {
        let address: SocketAddr = address.parse().expect("an address");
        let serving = self.clone();
        world.serve(address, move |stream| {
            let peer = serving.clone();
            tokio::task::spawn_local(async move { peer.serve(stream).await });
        });
    }

    /// What it says to the next command of that verb.
    pub(crate) fn once(&self, verb: &'static str, reply: &str) -> &Peer {
        self.0.replies.borrow_mut().entry(verb).or_default().push_back(reply.to_owned());
        self
    }

    /// What it says to every command of that verb.
    pub(crate) fn always(&self, verb: &'static str, reply: &str) -> &Peer {
        self.0.always.borrow_mut().insert(verb, reply.to_owned());
        self
    }

    /// It behaves again.
    pub(crate) fn heal(&self) {
        self.0.replies.borrow_mut().clear();
        self.0.always.borrow_mut().clear();
    }

    /// It offers STARTTLS from now on, and takes no mail without.
    pub(crate) fn insist_on_tls(&self) -> &Peer {
        self.0.insists_on_tls.set(true);
        self
    }

    /// Contents that came whole, whatever was said of them.
    pub(crate) fn contents(&self) -> usize {
        self.0.contents.get()
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.0.connections.get()
    }

    /// Messages taken.
    pub(crate) fn messages(&self) -> Vec<Sent> {
        self.0.messages.borrow().clone()
    }

    fn reply(&self, verb: &str, usual: &str) -> String {
        let once = self.0.replies.borrow_mut().get_mut(verb).and_then(VecDeque::pop_front);
        once.or_else(|| self.0.always.borrow().get(verb).cloned()).unwrap_or(usual.to_owned())
    }

    async fn serve(&self, mut stream: DuplexStream) {
        // Whoever hangs up has had enough.
        let _ = self.converse(&mut stream).await;
    }

    async fn converse(&self, stream: &mut DuplexStream) -> std::io::Result<()> {
        let mut unread = Vec::new();
        let mut envelope = Sent::default();
        let (insists, mut is_encrypted) = (self.0.insists_on_tls.get(), false);
        let mut login = String::new();
        self.0.connections.set(self.0.connections.get() + 1);
        self.write(stream, &self.reply("CONNECT", "220 peer.test ESMTP")).await?;
        while let Some(line) = line(stream, &mut unread).await? {
            let verb = line.split([' ', ':']).next().unwrap_or_default().to_uppercase();
            let usual = match &*verb {
                "(HANDSHAKE)" => "(agreed)",
                "STARTTLS" => "220 2.0.0 go on",
                "AUTH" => "235 2.7.0 welcome",
                "MAIL" if insists && !is_encrypted => {
                    "530 5.7.0 Must issue a STARTTLS command first"
                }
                "RCPT" if envelope.said.is_empty() => "503 5.5.1 MAIL first",
                "EHLO" if insists => "250-peer.test\r\n250-STARTTLS\r\n250 PIPELINING",
                "EHLO" | "LHLO" => "250-peer.test\r\n250-PIPELINING\r\n250 ENHANCEDSTATUSCODES",
                "DATA" if envelope.to.is_empty() => "503 5.5.1 no recipients",
                "DATA" => "354 go on",
                "QUIT" => "221 2.0.0 bye",
                _ => "250 2.0.0 good",
            };
            let reply = self.reply(&verb, usual);
            let is_taken = reply.starts_with('2');
            if verb == "(HANDSHAKE)" && reply == "(agreed)" {
                is_encrypted = true;
                stream.write_all(b"(agreed)\n").await?;
                continue;
            }
            match &*verb {
                "MAIL" if is_taken => {
                    let (said, from) = (line.clone(), path(&line));
                    let login = login.clone();
                    envelope = Sent { said, is_encrypted, login, from, ..Sent::default() };
                }
                "RCPT" if is_taken => envelope.to.push(path(&line)),
                "AUTH" if is_taken => login = line.clone(),
                "RSET" => envelope = Sent::default(),
                _ => {}
            }
            self.write(stream, &reply).await?;
            let is_late = reply.strip_prefix("late ");
            if verb == "DATA" && is_late.unwrap_or(&reply).starts_with('3') {
                self.take_content(stream, &mut unread, &mut envelope).await?;
            }
            if verb == "QUIT" {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn take_content(
        &self,
        stream: &mut DuplexStream,
        unread: &mut Vec<u8>,
        envelope: &mut Sent,
    ) -> std::io::Result<()> {
        let pace = self.reply("content", "");
        if pace == "silence" {
            std::future::pending().await
        }
        if !pace.is_empty() && pace != "slow" {
            // Whoever answers within the content says nothing at its end.
            line(stream, unread).await?;
            self.write(stream, &pace).await?;
            while line(stream, unread).await?.is_some_and(|line| line != ".") {}
            return Ok(());
        }
        let (mut sent, mut lines) = (std::mem::take(envelope), 0);
        while let Some(line) = line(stream, unread).await? {
            lines += 1;
            if pace == "slow" && lines % 100 == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            }
            if line == "." {
                self.0.contents.set(self.0.contents.get() + 1);
                let reply = self.reply(".", "250 2.0.0 taken");
                if reply.starts_with('2') {
                    self.0.messages.borrow_mut().push(sent);
                }
                return self.write(stream, &reply).await;
            }
            sent.content += line.strip_prefix('.').unwrap_or(&line);
            sent.content += "\r\n";
        }
        Ok(())
    }

    /// `hang up` closes the connection instead of an answer, `silence` never comes, `late …` comes after two seconds,
    /// and of `drip 250` there is a line each 300 ms, and no last one.
    async fn write(&self, stream: &mut DuplexStream, reply: &str) -> std::io::Result<()> {
        match reply {
            "hang up" => Err(std::io::ErrorKind::ConnectionReset.into()),
            "silence" => std::future::pending().await,
            text => {
                while let Some(code) = text.strip_prefix("drip ") {
                    stream.write_all(format!("{code}-wait\r\n").as_bytes()).await?;
                    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                }
                let late = text.strip_prefix("late ");
                if late.is_some() {
                    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
                }
                stream.write_all(format!("{}\r\n", late.unwrap_or(text)).as_bytes()).await
            }
        }
    }
}

fn path(line: &str) -> String {
    let inside = line.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
    inside.map(|(path, _)| path.to_owned()).unwrap_or_default()
}

async fn line(stream: &mut DuplexStream, unread: &mut Vec<u8>) -> std::io::Result<Option<String>> {
    loop {
        if let Some(at) = unread.windows(2).position(|pair| pair == b"\r\n") {
            let line = unread.drain(..at + 2).collect::<Vec<u8>>();
            return Ok(Some(String::from_utf8_lossy(&line[..at]).into_owned()));
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await? {
            0 => return Ok(None),
            n => unread.extend_from_slice(&buffer[..n]),
        }
    }
}
