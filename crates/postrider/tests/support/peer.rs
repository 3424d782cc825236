//! A next hop that answers as a test tells it to, and keeps what it was sent.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What a peer took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The MAIL command's line.
    pub mail: String,
    /// The RCPT commands that were accepted.
    pub rcpt: Vec<String>,
    /// The content, dots un-stuffed, with line ends.
    pub content: Vec<u8>,
}

/// How a peer answers a command line; `None`: as usual.
pub type Script = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A scripted next hop without PIPELINING or CHUNKING. Its threads end with the test's process.
pub struct Peer {
    /// `127.0.0.1:PORT`.
    pub address: String,
    taken: Arc<Mutex<Vec<Taken>>>,
}

impl Peer {
    /// Listens on a free port. A reply from `script` stands for the usual one; it is without line
    /// end, and an empty one closes the connection.
    pub fn start(script: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Peer {
        Peer::start_at("127.0.0.1:0", "250-8BITMIME\r\n250-SIZE 0\r\n250 DSN", script)
    }

    /// The same at an address, with the last lines of the EHLO reply.
    pub fn start_at(
        address: &str,
        features: &'static str,
        script: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Peer {
        let listener = TcpListener::bind(address).expect("the address is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let (kept, script) = (Arc::clone(&taken), Arc::new(script) as Script);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, script) = (Arc::clone(&kept), Arc::clone(&script));
                std::thread::spawn(move || Session { features, kept, script }.serve(stream));
            }
        });
        Peer { address, taken }
    }

    /// What it took so far.
    pub fn taken(&self) -> Vec<Taken> {
        self.taken.lock().expect("no panic").clone()
    }

    /// Waits until it took as many messages, and returns them.
    pub fn wait_taken(&self, count: usize) -> Vec<Taken> {
        super::wait_until(&format!("{count} messages at the peer"), || self.taken().len() >= count);
        let taken = self.taken();
        assert_eq!(taken.len(), count, "{taken:#?}");
        taken
    }
}

struct Session {
    features: &'static str,
    kept: Arc<Mutex<Vec<Taken>>>,
    script: Script,
}

impl Session {
    /// Serves until the client goes: `None` at its end.
    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut writer = stream.try_clone().ok()?;
        let mut reader = BufReader::new(stream);
        let mut current = Taken::default();
        say(&mut writer, &(self.script)("").unwrap_or_else(|| "220 peer.test ESMTP".to_owned()))?;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            let verb = line.get(..4).unwrap_or(line).to_ascii_uppercase();
            if verb == "MAIL" {
                current = Taken { mail: line.to_owned(), ..Taken::default() };
            }
            let told = (self.script)(line);
            let usual = match verb.as_str() {
                "EHLO" | "LHLO" => format!("250-peer.test\r\n{}", self.features),
                "DATA" => "354 go on".to_owned(),
                "QUIT" => "221 bye".to_owned(),
                _ => "250 2.0.0 Ok".to_owned(),
            };
            let reply = told.unwrap_or(usual);
            if reply.is_empty() {
                return None;
            }
            say(&mut writer, &reply)?;
            match verb.as_str() {
                "QUIT" => return None,
                "RCPT" if reply.starts_with('2') => current.rcpt.push(line.to_owned()),
                "DATA" if reply.starts_with('3') => {
                    current.content = content(&mut reader)?;
                    let reply = (self.script)(".").unwrap_or_else(|| "250 2.0.0 Ok".to_owned());
                    if reply.starts_with('2') {
                        self.kept.lock().expect("no panic").push(current.clone());
                    }
                    if reply.is_empty() {
                        return None;
                    }
                    say(&mut writer, &reply)?;
                }
                _ => {}
            }
        }
    }
}

fn say(writer: &mut TcpStream, reply: &str) -> Option<()> {
    writer.write_all(format!("{reply}\r\n").as_bytes()).ok()
}

/// Content up to the final dot. Ends at nothing but CRLF . CRLF.
fn content(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut begins = true;
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        if begins && line == b".\r\n" {
            return Some(content);
        }
        let stuffed = begins && line.first() == Some(&b'.');
        content.extend_from_slice(&line[usize::from(stuffed)..]);
        begins = content.ends_with(b"\r\n");
    }
}
