//! The server's input as a whole: which part of it is the content of a message.

use super::model::{self, Verdict};

/// Where in the stream the content of the open transaction began.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Data(usize),
    /// Behind the BDAT command of the first chunk.
    Bdat(usize),
}

impl Content {
    /// What the content is that ends where the stream ends, by a reading of all of it.
    pub(super) fn read(self, stream: &[u8]) -> Verdict {
        match self {
            Content::Data(at) => {
                let verdict = model::data(&stream[at..]).expect("an end");
                assert_eq!(at + verdict.taken, stream.len(), "another end");
                verdict
            }
            Content::Bdat(at) => model::bdat(&chunks(stream, at)),
        }
    }
}

fn is_bdat(command: &[u8]) -> bool {
    let word = command.split(|b| matches!(b, b' ' | b'\t')).next();
    word.is_some_and(|word| word.eq_ignore_ascii_case(b"BDAT"))
}

/// The command line that ends where the stream ends.
fn last_line(stream: &[u8]) -> &[u8] {
    let line = stream.strip_suffix(b"\r\n").expect("a whole line");
    let start = line.windows(2).rposition(|pair| pair == b"\r\n").map_or(0, |at| at + 2);
    &line[start..]
}

/// The octets of all chunks from the one whose command ends at `at` to the end of the stream.
fn chunks(stream: &[u8], at: usize) -> Vec<u8> {
    let mut content = Vec::new();
    let mut command = last_line(&stream[..at]);
    let mut rest = &stream[at..];
    loop {
        if is_bdat(command) {
            let text = std::str::from_utf8(&command[4..]).expect("ASCII");
            let mut words = text.split_ascii_whitespace();
            let octets: usize = words.next().expect("octets").parse().expect("a number");
            content.extend_from_slice(&rest[..octets]);
            rest = &rest[octets..];
            if words.next().is_some() {
                assert!(rest.is_empty(), "the message ends before its last chunk");
                return content;
            }
        }
        // Commands between chunks: NOOP and the like.
        let end = rest.windows(2).position(|pair| pair == b"\r\n").expect("a line");
        command = &rest[..end];
        rest = &rest[end + 2..];
    }
}
