//! A message from standard input, as it is sent: line ends, the end of its header, and fields that are read or left out.

use std::io::{self, Read};
use std::ops::Range;

/// Maximum size of a message, which is kept in memory; the server's own limit is usually smaller.
pub(super) const BYTES_MAX: u64 = 256 * 1024 * 1024;

/// A message with CRLF at each line end.
#[derive(Debug)]
pub(super) struct Message {
    /// Header fields with their names in lower case. Their order is that of the message.
    fields: Vec<(String, Range<usize>)>,
    /// Start of the body; the empty line before it is not counted.
    body: usize,
    text: Vec<u8>,
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
        let mut fields: Vec<(String, Range<usize>)> = Vec::new();
        let (mut at, mut body) = (0, text.len());
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let end = at + line.len();
            if line == b"\r\n" {
                body = end;
                break;
            }
            match (name_of(line), fields.last_mut()) {
                (_, Some((_, range))) if line.starts_with(b" ") || line.starts_with(b"\t") => {
                    range.end = end;
                }
                (Some(name), _) => fields.push((name, at..end)),
                // Text without a header, or right behind one: an empty line is missing.
                (None, _) => {
                    body = at;
                    break;
                }
            }
            at = end;
        }
        Message { fields, body, text }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| known == name)
    }

    /// The unfolded values of the fields that name recipients: those of a resent message, if it is one.
    pub(super) fn recipients(&self) -> Vec<String> {
        let resent = ["resent-to", "resent-cc", "resent-bcc"];
        let first = ["to", "cc", "bcc"];
        let is_resent = self.fields.iter().any(|(name, _)| name.starts_with("resent-"));
        let named = if is_resent { resent } else { first };
        let fields = self.fields.iter().filter(|(name, _)| named.contains(&name.as_str()));
        fields.map(|(_, range)| self.value(range.clone())).collect()
    }

    fn value(&self, range: Range<usize>) -> String {
        let field = self.text.get(range).unwrap_or_default();
        let start = field.iter().position(|byte| *byte == b':').map_or(0, |colon| colon + 1);
        let value = String::from_utf8_lossy(field.get(start..).unwrap_or_default());
        value.replace("\r\n", " ").trim().to_owned()
    }

    /// The message as it is sent, with `above` before its header, and without Bcc fields if they named recipients.
    pub(super) fn content(&self, above: &str, omits_bcc: bool) -> Vec<u8> {
        let mut content = Vec::with_capacity(self.text.len() + above.len() + 2);
        content.extend_from_slice(above.as_bytes());
        for (name, range) in &self.fields {
            if !(omits_bcc && matches!(name.as_str(), "bcc" | "resent-bcc")) {
                content.extend_from_slice(self.text.get(range.clone()).unwrap_or_default());
            }
        }
        content.extend_from_slice(b"\r\n");
        content.extend_from_slice(self.text.get(self.body..).unwrap_or_default());
        content
    }
}

/// The name of the field that begins on this line, in lower case (RFC 5322 §2.2; blanks before the colon: §4.5).
fn name_of(line: &[u8]) -> Option<String> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = line.get(..colon)?.trim_ascii_end();
    let is_name = !name.is_empty() && name.iter().all(u8::is_ascii_graphic);
    is_name.then(|| String::from_utf8_lossy(name).to_ascii_lowercase())
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
        assert_eq!(message.recipients(), ["a@x.test,  b@x.test", "c@x.test", "d@x.test"]);
        let content = String::from_utf8(message.content("From: j\r\n", true)).unwrap();
        assert_eq!(
            content,
            "From: j\r\nTo: a@x.test,\r\n b@x.test\r\ncc: d@x.test\r\n\r\nTo: e@x.test\r\n"
        );
        let resent = Message::of(b"To: a@x.test\nResent-To: b@x.test\n\n", true);
        assert_eq!(resent.recipients(), ["b@x.test"]);
    }
}
