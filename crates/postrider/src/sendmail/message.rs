//! A message from standard input, as it is sent: line ends, the end of its header, and fields that are read or left out.

use mail::header::{self, Field};
use std::io::{self, Read};

/// Maximum size of a message, which is kept in memory; the server's own limit is usually smaller.
pub(super) const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A message with CRLF at each line end.
#[derive(Debug)]
pub(super) struct Message {
    text: Vec<u8>,
    /// Start of the body; the empty line before it is not counted.
    body: usize,
}

/// Reads standard input to its end, or to a line with a dot.
///
/// # Errors
/// The input fails, or is larger than [`BYTES_MAX`].
pub(super) fn read(input: impl Read, ends_at_dot: bool) -> io::Result<Message> {
    let mut bytes = Vec::new();
    input.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the message is too large"));
    }
    Ok(Message::of(&bytes, ends_at_dot))
}

impl Message {
    fn of(bytes: &[u8], ends_at_dot: bool) -> Message {
        let mut text = Vec::with_capacity(bytes.len() + bytes.len() / 32 + 2);
        for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if ends_at_dot && line == b"." {
                break;
            }
            // The separator of an mbox file, which some programs pass on.
            if at == 0 && (line.starts_with(b"From ") || line.starts_with(b">From ")) {
                continue;
            }
            text.extend_from_slice(line);
            text.extend_from_slice(b"\r\n");
        }
        // Text without a header, or right behind one: an empty line is missing.
        let body = header::end(&text).map_or(text.len(), |end| end.body_start);
        Message { text, body }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        header::find(&self.text, name).is_some()
    }

    /// The unfolded values of the fields that name recipients: those of a resent message, if it is one.
    pub(super) fn recipients(&self) -> Vec<String> {
        let is_resent = |field: Field<'_>| {
            field.name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case(b"Resent-"))
        };
        let named = match header::fields(&self.text).any(is_resent) {
            true => ["Resent-To", "Resent-Cc", "Resent-Bcc"],
            false => ["To", "Cc", "Bcc"],
        };
        header::fields(&self.text)
            .filter(|field| named.iter().any(|name| field.is(name)))
            .map(|field| String::from_utf8_lossy(&field.unfolded()).into_owned())
            .collect()
    }

    /// The message as it is sent, with `above` before its header, and without Bcc fields if they named recipients.
    pub(super) fn content(&self, above: &str, omits_bcc: bool) -> Vec<u8> {
        let mut content = Vec::with_capacity(self.text.len() + above.len() + 2);
        content.extend_from_slice(above.as_bytes());
        for field in header::fields(&self.text) {
            if !(omits_bcc && (field.is("Bcc") || field.is("Resent-Bcc"))) {
                content.extend_from_slice(self.text.get(field.range).unwrap_or_default());
            }
        }
        content.extend_from_slice(b"\r\n");
        content.extend_from_slice(self.text.get(self.body..).unwrap_or_default());
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(input: &str) -> String {
        String::from_utf8(Message::of(input.as_bytes(), true).content("", true)).unwrap()
    }

    #[test]
    fn line_ends_of_all_kinds_become_crlf() {
        let expected = "Subject: a\r\n\r\nb\r\n\r\nc\r\n";
        for input in [
            "Subject: a\n\nb\n\nc\n",
            "Subject: a\r\n\r\nb\r\n\r\nc",
            "Subject: a\n\r\nb\r\n\nc\n.\nd\n",
        ] {
            assert_eq!(sent(input), expected, "{input:?}");
        }
        assert_eq!(sent(""), "\r\n");
        let whole = Message::of(b"A: b\n\n.\nc\n", false).content("", false);
        assert_eq!(whole, b"A: b\r\n\r\n.\r\nc\r\n");
    }

    #[test]
    fn header_ends_where_text_begins() {
        assert_eq!(sent("hello\nworld\n"), "\r\nhello\r\nworld\r\n");
        assert_eq!(sent("A: b\n c\nhello\n"), "A: b\r\n c\r\n\r\nhello\r\n");
        assert_eq!(sent("A: b"), "A: b\r\n\r\n");
        assert_eq!(sent("From jo Mon Jan\nA: b\n\nx\n"), "A: b\r\n\r\nx\r\n");
        assert_eq!(sent(" A: b\n"), "\r\n A: b\r\n");
    }

    #[test]
    fn recipients_are_those_of_the_header_and_bcc_is_left_out() {
        let text = "To: a@x.test,\n b@x.test\nBcc : c@x.test\ncc: d@x.test\n\nTo: e@x.test\n";
        let message = Message::of(text.as_bytes(), true);
        assert_eq!(message.recipients(), ["a@x.test, b@x.test", "c@x.test", "d@x.test"]);
        let content = String::from_utf8(message.content("From: j\r\n", true)).unwrap();
        assert_eq!(
            content,
            "From: j\r\nTo: a@x.test,\r\n b@x.test\r\ncc: d@x.test\r\n\r\nTo: e@x.test\r\n"
        );
        let resent = Message::of(b"To: a@x.test\nResent-To: b@x.test\n\n", true);
        assert_eq!(resent.recipients(), ["b@x.test"]);
    }
}
