//! Reads replies (RFC 5321 §4.2).

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// A reply longer than this is no reply.
const REPLY_BYTES_MAX: usize = 16 * 1024;

/// Read at once.
const READ_BYTES: usize = 2048;

/// What a peer offers after EHLO, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offered {
    /// RFC 2920.
    pub(crate) pipelining: bool,
    /// RFC 3030.
    pub(crate) chunking: bool,
    /// RFC 6152.
    pub(crate) eight_bit: bool,
    /// RFC 3207.
    pub(crate) starttls: bool,
}

/// Bytes that came and the replies in them.
#[derive(Debug, Default)]
pub(crate) struct ReplyReader {
    buffer: Vec<u8>,
    /// Before this, all replies were taken.
    taken: usize,
}

impl ReplyReader {
    /// Whether something came behind the last reply.
    pub(crate) fn has_more(&self) -> bool {
        self.taken < self.buffer.len()
    }

    /// Forgets what a former connection sent.
    pub(crate) fn reset(&mut self) {
        self.buffer.clear();
        self.taken = 0;
    }

    /// The code of the next reply; `line` is called for the text of each of its lines.
    ///
    /// # Errors
    /// The connection broke or ended, or what came is no reply.
    pub(crate) async fn read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
        mut line: impl FnMut(&[u8]),
    ) -> io::Result<u16> {
        loop {
            if let Some((code, bytes)) = parse(self.buffer.get(self.taken..).unwrap_or_default())? {
                let reply = &self.buffer[self.taken..self.taken + bytes];
                reply.split_inclusive(|&byte| byte == b'\n').for_each(|text| {
                    line(text.get(4..).unwrap_or_default().trim_ascii_end());
                });
                self.taken += bytes;
                return Ok(code);
            }
            self.buffer.drain(..self.taken);
            self.taken = 0;
            if self.buffer.len() > REPLY_BYTES_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a reply without end"));
            }
            self.buffer.reserve(READ_BYTES);
            if stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Code and length of the first whole reply.
fn parse(input: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let mut start = 0;
    loop {
        let rest = input.get(start..).unwrap_or_default();
        let Some(end) = memchr::memchr(b'\n', rest) else { return Ok(None) };
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "not an SMTP reply");
        let &[a @ b'2'..=b'5', b @ b'0'..=b'9', c @ b'0'..=b'9', separator, ..] = rest else {
            return Err(bad());
        };
        start += end + 1;
        match separator {
            b'-' => {}
            b' ' | b'\r' | b'\n' => {
                let digits = [a, b, c].map(|digit| u16::from(digit - b'0'));
                return Ok(Some((digits[0] * 100 + digits[1] * 10 + digits[2], start)));
            }
            _ => return Err(bad()),
        }
    }
}

impl Offered {
    /// Takes one line of EHLO's reply.
    pub(crate) fn take(&mut self, line: &[u8]) {
        let keyword = line.split(|&byte| byte == b' ').next().unwrap_or_default();
        match () {
            () if keyword.eq_ignore_ascii_case(b"PIPELINING") => self.pipelining = true,
            () if keyword.eq_ignore_ascii_case(b"CHUNKING") => self.chunking = true,
            () if keyword.eq_ignore_ascii_case(b"8BITMIME") => self.eight_bit = true,
            () if keyword.eq_ignore_ascii_case(b"STARTTLS") => self.starttls = true,
            () => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Offered, parse};

    #[test]
    fn replies_of_one_line_and_of_several() {
        assert_eq!(parse(b"250 ok\r\n354 go\r\n").expect("a reply"), Some((250, 8)));
        assert_eq!(parse(b"250-a\r\n250-b\r\n250 c\r\n").expect("a reply"), Some((250, 21)));
        assert_eq!(parse(b"221\r\n").expect("a reply"), Some((221, 5)));
        for partial in [&b""[..], b"2", b"250 o", b"250-a\r\n", b"250-a\r\n25"] {
            assert_eq!(parse(partial).expect("not wrong yet"), None);
        }
        for bad in [&b"\r\n"[..], b"hello\r\n", b"25 x\r\n", b"250x\r\n", b"650 x\r\n"] {
            assert!(parse(bad).is_err());
        }
    }

    #[test]
    fn offers_are_seen_in_any_case() {
        let mut offered = Offered::default();
        for line in [&b"host.example"[..], b"pipelining", b"SIZE 1000", b"ChunkinG", b"8BITMIMEX"] {
            offered.take(line);
        }
        let seen = Offered { pipelining: true, chunking: true, ..Offered::default() };
        assert_eq!(offered, seen);
    }
}
