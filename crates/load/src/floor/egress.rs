//! A connection out, kept and used again.

use super::{Floor, RelayedMessage};
use crate::source::{Offered, ReplyReader};
use crate::tool::add;
use bytes::Buf;
use memchr::memmem;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// After a failed attempt to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// Content up to this size is copied behind its commands and goes out as one slice.
const COPY_BYTES_MAX: usize = 8 * 1024;

struct EgressConnection {
    /// Content goes out before a recipient has been accepted.
    is_hasty: bool,
    stream: TcpStream,
    replies: ReplyReader,
    offered: Offered,
    out: Vec<u8>,
}

/// Takes held messages and relays them, for ever. A message whose connection broke is relayed
/// again: twice, perhaps.
pub(super) async fn relay(floor: Rc<Floor>) {
    let mut connection = None;
    loop {
        let held = floor.passage.take().await;
        let open = match connection.take() {
            Some(open) => Ok(open),
            None => connect(&floor).await,
        };
        let Ok(mut open) = open else {
            tokio::time::sleep(PAUSE).await;
            floor.passage.put(held);
            continue;
        };
        match open.send(&held).await {
            Ok(code) if (200..300).contains(&code) => {
                add(&floor.passage.relayed, 1);
                connection = Some(open);
            }
            // Whatever was refused, a new connection is the simplest fresh start.
            Ok(_) => add(&floor.passage.refused, 1),
            Err(_) => floor.passage.put(held),
        }
    }
}

async fn connect(floor: &Floor) -> io::Result<EgressConnection> {
    let mut stream = TcpStream::connect(floor.to).await?;
    stream.set_nodelay(true)?;
    let mut replies = ReplyReader::default();
    let mut offered = Offered::default();
    let greeting = replies.read(&mut stream, |_| {}).await?;
    stream.write_all(b"EHLO postrider-lab.invalid\r\n").await?;
    let hello = replies.read(&mut stream, |line| offered.take(line)).await?;
    if greeting != 220 || hello != 250 {
        return Err(io::Error::other("refused"));
    }
    Ok(EgressConnection { is_hasty: floor.is_hasty, stream, replies, offered, out: Vec::new() })
}

impl EgressConnection {
    /// One transaction; the code of its last reply.
    async fn send(&mut self, held: &RelayedMessage) -> io::Result<u16> {
        self.out.clear();
        let mut commands = 1;
        self.command(b"MAIL FROM:<", &held.reverse_path);
        for recipient in held.recipients.split(|&byte| byte == b' ') {
            self.step(&mut commands).await?;
            self.command(b"RCPT TO:<", recipient);
            commands += 1;
        }
        if self.offered.chunking {
            // RFC 3030 §2: no content before a recipient has been accepted.
            if !(self.is_hasty && self.offered.pipelining) {
                self.flush().await?;
                let code = self.collect(std::mem::take(&mut commands)).await?;
                if code / 100 != 2 {
                    return Ok(code);
                }
            }
            let header = format!("BDAT {} LAST\r\n", held.content.len());
            self.out.extend_from_slice(header.as_bytes());
            self.write_content(&held.content, b"").await?;
            self.collect(commands).await?;
            return self.replies.read(&mut self.stream, |_| {}).await;
        }
        self.step(&mut commands).await?;
        self.out.extend_from_slice(b"DATA\r\n");
        self.flush().await?;
        self.collect(commands).await?;
        let code = self.replies.read(&mut self.stream, |_| {}).await?;
        if code != 354 {
            return Ok(code);
        }
        match stuffed(&held.content) {
            None => self.write_content(&held.content, b".\r\n").await?,
            Some(stuffed) => self.write_content(&stuffed, b".\r\n").await?,
        }
        self.replies.read(&mut self.stream, |_| {}).await
    }

    fn command(&mut self, verb: &[u8], path: &[u8]) {
        self.out.extend_from_slice(verb);
        self.out.extend_from_slice(path);
        self.out.extend_from_slice(b">\r\n");
    }

    /// Without PIPELINING: sends the command in the output and waits for its reply.
    async fn step(&mut self, commands: &mut u32) -> io::Result<()> {
        if self.offered.pipelining {
            return Ok(());
        }
        self.flush().await?;
        self.collect(std::mem::take(commands)).await.map(drop)
    }

    /// Reads as many replies; the code of the last, 250 of none. A refusal shows in the last reply of
    /// the transaction: each message has one recipient in what this relay is for.
    async fn collect(&mut self, commands: u32) -> io::Result<u16> {
        let mut code = 250;
        for _ in 0..commands {
            code = self.replies.read(&mut self.stream, |_| {}).await?;
        }
        Ok(code)
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    async fn write_content(&mut self, content: &[u8], end: &[u8]) -> io::Result<()> {
        if content.len() <= COPY_BYTES_MAX {
            self.out.extend_from_slice(content);
            self.out.extend_from_slice(end);
            return self.flush().await;
        }
        let mut bytes = self.out.as_slice().chain(content).chain(end);
        self.stream.write_all_buf(&mut bytes).await?;
        self.out.clear();
        Ok(())
    }
}

/// The content with a dot before each line that begins with one, if there is such a line
/// (RFC 5321 §4.5.2).
fn stuffed(content: &[u8]) -> Option<Vec<u8>> {
    if !content.starts_with(b".") && memmem::find(content, b"\r\n.").is_none() {
        return None;
    }
    let mut out = Vec::with_capacity(content.len() + 64);
    if content.starts_with(b".") {
        out.push(b'.');
    }
    let mut copied = 0;
    for found in memmem::find_iter(content, b"\r\n.") {
        out.extend_from_slice(&content[copied..found + 2]);
        out.push(b'.');
        copied = found + 2;
    }
    out.extend_from_slice(&content[copied..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::stuffed;

    #[test]
    fn dots_are_stuffed_only_where_lines_begin() {
        assert_eq!(stuffed(b"a.b\r\nc.\r\n"), None);
        assert_eq!(
            stuffed(b".a\r\n.\r\nb\n.c\r\n..\r\n"),
            Some(b"..a\r\n..\r\nb\n.c\r\n...\r\n".to_vec())
        );
    }
}
