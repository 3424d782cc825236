//! What is kept of a message while it comes: its header, and the length and checksum of its body.

use crate::dialogue::ContentReceiver;
use crate::ledger::ArrivalState;
use crate::source::{BODY_FIELD, ID_FIELD};
use memchr::memmem;

/// A longer header is not searched any further.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// A message on its way in.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// The header with the empty line that ends it, once that has come.
    header: Vec<u8>,
    in_body: bool,
    body_bytes: u64,
    checksum: u32,
    /// All of the content.
    pub(super) bytes: u64,
}

impl Incoming {
    /// Makes ready for the next message.
    pub(super) fn clear(&mut self) {
        let mut header = std::mem::take(&mut self.header);
        header.clear();
        *self = Incoming { header, ..Incoming::default() };
    }

    /// The id that the source gave it.
    pub(crate) fn id(&self) -> Option<&[u8]> {
        let id = field(&self.header, ID_FIELD)?;
        // It becomes a word in the ledger.
        (!id.is_empty() && !id.contains(&b' ') && id != b"-").then_some(id)
    }

    /// The checksum by which postal's own log names it.
    pub(crate) fn postal_hash(&self) -> Option<&[u8]> {
        field(&self.header, "X-PostalHash").filter(|hash| !hash.is_empty())
    }

    /// Whether the body is what its header says. One of our source's says it; any other is whole.
    pub(crate) fn state(&self) -> ArrivalState {
        let Some(value) = field(&self.header, BODY_FIELD) else {
            let is_ours = self.id().is_some();
            return if is_ours { ArrivalState::Damaged } else { ArrivalState::Whole };
        };
        let told = std::str::from_utf8(value).ok().and_then(|value| {
            let (bytes, checksum) = value.split_once(' ')?;
            Some((bytes.parse().ok()?, u32::from_str_radix(checksum, 16).ok()?))
        });
        if told == Some((self.body_bytes, self.checksum)) {
            ArrivalState::Whole
        } else {
            ArrivalState::Damaged
        }
    }

    fn push_body(&mut self, piece: &[u8]) {
        self.body_bytes += piece.len() as u64;
        self.checksum = crc32c::crc32c_append(self.checksum, piece);
    }
}

impl ContentReceiver for Incoming {
    fn push(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        if self.in_body {
            return self.push_body(piece);
        }
        // The end of the header may lie across two pieces.
        let searched = self.header.len().saturating_sub(3);
        let before = self.header.len();
        self.header.extend_from_slice(piece);
        match memmem::find(&self.header[searched..], b"\r\n\r\n") {
            Some(found) => {
                let end = searched + found + 4;
                self.in_body = true;
                self.push_body(&piece[end - before..]);
                self.header.truncate(end);
            }
            None => self.in_body = self.header.len() > HEADER_BYTES_MAX,
        }
    }
}

/// The value of the first field of this name, as the source writes it: on one line.
fn field<'a>(header: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut searched = 0;
    // Names that are so long and begin a line are quickly found by their text.
    while let Some(found) = memmem::find(header.get(searched..)?, name.as_bytes()) {
        let start = searched + found;
        let value = start + name.len();
        searched = value;
        let begins_line = start == 0 || header.get(start - 1) == Some(&b'\n');
        if begins_line && header.get(value) == Some(&b':') {
            let rest = header.get(value + 1..)?;
            return Some(rest[..memchr::memchr(b'\r', rest)?].trim_ascii());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Incoming;
    use crate::dialogue::ContentReceiver;
    use crate::ledger::ArrivalState;
    use crate::source::{BodyKind, PreparedBody};

    fn incoming(message: &[u8], step: usize) -> Incoming {
        let mut incoming = Incoming::default();
        message.chunks(step).for_each(|piece| incoming.push(piece));
        incoming
    }

    #[test]
    fn id_and_checksum_are_found_however_the_message_is_split() {
        let body = PreparedBody::generate(BodyKind::Plain, 200, 1);
        let mut message = b"Received: from X-Postrider-Lab-Id: no\r\n\tby x\r\n".to_vec();
        body.write_header(&mut message, "run-7", "a@b", "c@d", "date");
        message.extend_from_slice(&body.raw);
        for step in 1..message.len() {
            let incoming = incoming(&message, step);
            assert_eq!(incoming.id(), Some(&b"run-7"[..]), "pieces of {step}");
            assert_eq!(incoming.state(), ArrivalState::Whole);
            assert_eq!(incoming.bytes, message.len() as u64);
        }
        let last = message.len() - 3;
        message[last] ^= 1;
        assert_eq!(incoming(&message, 64).state(), ArrivalState::Damaged);
        message.truncate(last);
        assert_eq!(incoming(&message, 64).state(), ArrivalState::Damaged);
    }

    #[test]
    fn foreign_mail_has_no_id_and_is_whole() {
        for message in [&b""[..], b"Subject: x\r\n\r\nhello\r\n", b"no header\r\n"] {
            let incoming = incoming(message, 5);
            assert_eq!(incoming.id(), None);
            assert_eq!(incoming.state(), ArrivalState::Whole);
        }
    }

    #[test]
    fn a_message_of_ours_that_says_nothing_of_its_body_is_damaged() {
        let cut = b"X-Postrider-Lab-Id: a-1\r\n";
        assert_eq!(incoming(cut, 5).state(), ArrivalState::Damaged);
    }

    #[test]
    fn a_cleared_one_knows_nothing_of_the_last() {
        let mut incoming = incoming(b"X-Postrider-Lab-Id: a-1\r\n\r\nhello\r\n", 100);
        incoming.clear();
        incoming.push(b"Subject: x\r\n\r\n");
        assert_eq!((incoming.id(), incoming.bytes), (None, 14));
    }
}
