//! RESP2, the protocol of Redis and compatible servers: a command is a list of strings, and each has one reply, in
//! order.

use super::super::connections::RequestError;
use super::super::server::{TableStream, has_news};
use super::super::text::words;
use lookup::{LookupError, LookupErrorKind};
use std::fmt;
use std::io;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

/// No value is longer, in octets.
pub(super) const VALUE_BYTES_MAX: usize = 100_000;

/// Maximum length of a line with a length or an error, including its end. Lines of Redis have up to 1,066 octets.
const LINE_BYTES_MAX: usize = 4_096;

/// Framing of a bulk string: its length, and two line ends.
const AROUND_WORD_BYTES_MAX: usize = 25;

/// Terminator of a line and of a value.
const LINE_END: &[u8; 2] = b"\r\n";

/// Encodes a command.
pub(super) fn command(words: &[&[u8]]) -> Vec<u8> {
    // Allocate the final size: a growing vector would leave copies of a password in memory.
    let bytes = words.iter().map(|word| word.len() + AROUND_WORD_BYTES_MAX);
    let mut command = Vec::with_capacity(AROUND_WORD_BYTES_MAX + bytes.sum::<usize>());
    command.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        command.extend_from_slice(word);
        command.extend_from_slice(LINE_END);
    }
    command
}

/// The reply to a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The key or field does not exist.
    Nil,
    Value(Box<[u8]>),
    /// A value for each requested field.
    Values(Box<[Option<Box<[u8]>>]>),
    /// An error reply.
    Error(Box<[u8]>),
    /// Something was done, or counted.
    Done,
}

/// A connection on which one request at a time is made.
pub(super) struct RespSession {
    wire: BufReader<Box<dyn TableStream>>,
    /// A request was sent. The server's first output, even without a request, is read as an answer, for example that it
    /// is too busy.
    is_used: bool,
}

impl RespSession {
    pub(super) fn new(wire: Box<dyn TableStream>) -> RespSession {
        RespSession { wire: BufReader::new(wire), is_used: false }
    }

    /// Sends commands all at once.
    pub(super) async fn send(&mut self, commands: &[u8]) -> Result<(), RequestError> {
        let is_used = std::mem::replace(&mut self.is_used, true);
        if is_used && (!self.wire.buffer().is_empty() || has_news(self.wire.get_mut()).await) {
            return Err(gone(&"closed the connection, or sent unsolicited data"));
        }
        self.wire.write_all(commands).await.map_err(|error| gone(&error))
    }

    /// The next reply, with at most `values_max` values; `is_first` for the first one after a request.
    pub(super) async fn reply(
        &mut self,
        values_max: usize,
        is_first: bool,
    ) -> Result<Reply, RequestError> {
        if is_first && self.wire.fill_buf().await.map_err(|error| gone(&error))?.is_empty() {
            return Err(gone(&"closed the connection without a reply"));
        }
        let line = self.line().await?;
        Ok(match line.split_first() {
            Some((b'+' | b':', _)) => Reply::Done,
            Some((b'-', error)) => Reply::Error(error.into()),
            Some((b'$', length)) => self.value(length).await?.map_or(Reply::Nil, Reply::Value),
            Some((b'*', b"-1")) => Reply::Nil,
            Some((b'*', count)) => {
                let count = number(count).filter(|count| *count <= values_max);
                let count = count.ok_or_else(|| no_reply(&line))?;
                let mut values = Vec::with_capacity(count);
                for _ in 0..count {
                    let line = self.line().await?;
                    let length = line.strip_prefix(b"$").ok_or_else(|| no_reply(&line))?;
                    values.push(self.value(length).await?);
                }
                Reply::Values(values.into())
            }
            _ => return Err(no_reply(&line)),
        })
    }

    /// Reads the rest of a value of this length.
    async fn value(&mut self, length: &[u8]) -> Result<Option<Box<[u8]>>, RequestError> {
        if length == b"-1" {
            return Ok(None);
        }
        let length = number(length).ok_or_else(|| no_reply(length))?;
        if length > VALUE_BYTES_MAX {
            return Err(RequestError::Broken(too_much()));
        }
        let mut value = vec![0; length + LINE_END.len()];
        self.wire.read_exact(&mut value).await.map_err(|error| broken_off(&error))?;
        match value.strip_suffix(LINE_END) {
            Some(value) => Ok(Some(value.into())),
            None => Err(wrong("a value in the reply has a wrong length")),
        }
    }

    /// The next line, without its end.
    async fn line(&mut self) -> Result<Vec<u8>, RequestError> {
        let mut line = Vec::new();
        let mut limited = (&mut self.wire).take(LINE_BYTES_MAX as u64);
        limited.read_until(b'\n', &mut line).await.map_err(|error| broken_off(&error))?;
        match line.strip_suffix(LINE_END) {
            Some(whole) => Ok(whole.to_vec()),
            None if line.ends_with(b"\n") || line.len() == LINE_BYTES_MAX => Err(no_reply(&line)),
            None => Err(wrong("closed the connection during its reply")),
        }
    }
}

/// Parses a number of digits only.
fn number(text: &[u8]) -> Option<usize> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

fn gone(error: &dyn fmt::Display) -> RequestError {
    RequestError::Gone(LookupError::new(
        LookupErrorKind::Unreachable,
        words(error.to_string().as_bytes()),
    ))
}

fn broken_off(error: &io::Error) -> RequestError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => wrong("closed the connection during its reply"),
        _ => wrong(&words(error.to_string().as_bytes())),
    }
}

fn no_reply(line: &[u8]) -> RequestError {
    wrong(&format!("invalid reply: {}", words(line)))
}

fn wrong(text: &str) -> RequestError {
    RequestError::Broken(LookupError::new(LookupErrorKind::Wrong, text))
}

fn too_much() -> LookupError {
    let text = format!("the reply has a value of more than {VALUE_BYTES_MAX} bytes");
    LookupError::new(LookupErrorKind::Key, text)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::run;
    use super::*;

    /// Replies that a server gives at once, before it is gone.
    fn replies(said: &[u8], count: usize) -> Vec<Result<Reply, RequestError>> {
        run(async {
            let (near, mut far) = tokio::io::duplex(1 << 20);
            far.write_all(said).await.unwrap();
            drop(far);
            let mut session = RespSession::new(Box::new(near));
            let mut replies = Vec::new();
            for number in 0..count {
                replies.push(session.reply(2, number == 0).await);
            }
            replies
        })
    }

    fn trouble(said: &[u8]) -> String {
        match replies(said, 1).remove(0) {
            Err(RequestError::Broken(trouble)) => format!("{:?}: {trouble}", trouble.kind),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_stranger_is_looked_up_by_is_one_word() {
        let hostile = "a\r\n*1\r\n$8\r\nFLUSHALL\r\n @x.test";
        let length = "mail:".len() + hostile.len();
        let expected = format!("*2\r\n$3\r\nGET\r\n${length}\r\nmail:{hostile}\r\n");
        let word = format!("mail:{hostile}");
        assert_eq!(command(&[b"GET", word.as_bytes()]), expected.as_bytes());
    }

    #[test]
    fn each_kind_of_reply_is_understood() {
        assert_eq!(command(&[b"GET", b"a\r\n"]), b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n");
        let said = b"+OK\r\n:1\r\n-ERR no\r\n$-1\r\n*-1\r\n$0\r\n\r\n$3\r\n\r\nx\r\n*0\r\n*2\r\n$1\r\na\r\n$-1\r\n";
        let replies: Vec<Reply> = replies(said, 9).into_iter().map(Result::unwrap).collect();
        let value = |text: &[u8]| Box::<[u8]>::from(text);
        let expected = [
            Reply::Done,
            Reply::Done,
            Reply::Error(value(b"ERR no")),
            Reply::Nil,
            Reply::Nil,
            Reply::Value(value(b"")),
            Reply::Value(value(b"\r\nx")),
            Reply::Values(Box::default()),
            Reply::Values(Box::new([Some(value(b"a")), None])),
        ];
        assert_eq!(replies, expected);
    }

    #[test]
    fn what_is_no_reply_is_told() {
        for (said, expected) in [
            (&b"220 mail.test ESMTP\r\n"[..], "Wrong: invalid reply: 220 mail.test ESMTP"),
            (b"\r\n", "Wrong: invalid reply: "),
            (b"$x\r\n", "Wrong: invalid reply: x"),
            (b"$-2\r\n", "Wrong: invalid reply: -2"),
            (b"$1\r\nabc", "Wrong: a value in the reply has a wrong length"),
            (b"$4\r\nab", "Wrong: closed the connection during its reply"),
            (b"$4", "Wrong: closed the connection during its reply"),
            (b"*3\r\n", "Wrong: invalid reply: *3"),
            (b"*99999999999999999999\r\n", "Wrong: invalid reply: *99999999999999999999"),
            (b"*1\r\n*1\r\n", "Wrong: invalid reply: *1"),
            (b"+OK\n", "Wrong: invalid reply: +OK"),
            (b"$100001\r\n", "Key: the reply has a value of more than 100000 bytes"),
        ] {
            assert_eq!(trouble(said), expected);
        }
        assert!(matches!(replies(b"", 1)[0], Err(RequestError::Gone(_))));
    }

    #[test]
    fn the_longest_line_is_one_and_a_longer_one_is_not() {
        let line = |length: usize| [b"-", &vec![b'x'; length - 3][..], LINE_END].concat();
        assert!(matches!(replies(&line(LINE_BYTES_MAX), 1)[0], Ok(Reply::Error(_))));
        assert!(trouble(&line(LINE_BYTES_MAX + 1)).starts_with("Wrong: invalid reply: -xx"));
    }
}
