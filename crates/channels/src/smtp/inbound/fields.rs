//! Which fields a header lacks that every message has (RFC 5322 §3.6).

use mta::ingress::Observer;

/// The longest name that is looked for.
const NAME_BYTES: usize = "message-id".len();

/// Looks at content as it arrives, up to the end of its header, and keeps none of it.
#[derive(Debug, Default)]
pub(super) struct HeaderScan {
    at: At,
    /// The name of the field that begins, in lower case, as far as it could be one of those.
    name: [u8; NAME_BYTES],
    name_len: usize,
    pub(super) has_date: bool,
    pub(super) has_message_id: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    LineStart,
    Name,
    /// Blanks before the colon (RFC 5322 §4.5).
    Colon,
    Value,
    End,
}

impl Observer for HeaderScan {
    fn push(&mut self, piece: &[u8]) {
        for &byte in piece {
            if self.at == At::End {
                return;
            }
            self.at = self.next(byte);
        }
    }
}

impl HeaderScan {
    fn next(&mut self, byte: u8) -> At {
        match (self.at, byte) {
            (At::Value, b'\n') => At::LineStart,
            (At::Value, _) => At::Value,
            // A field goes on.
            (At::LineStart, b' ' | b'\t') => At::Value,
            (At::LineStart, b'!'..=b'9' | b';'..=b'~') => {
                self.name_len = 0;
                self.note(byte)
            }
            (At::Name, b'!'..=b'9' | b';'..=b'~') => self.note(byte),
            (At::Name, b' ' | b'\t') | (At::Colon, b' ' | b'\t') => At::Colon,
            (At::Name | At::Colon, b':') => {
                match self.name.get(..self.name_len) {
                    Some(b"date") => self.has_date = true,
                    Some(b"message-id") => self.has_message_id = true,
                    _ => {}
                }
                At::Value
            }
            // The empty line, or what is no field.
            _ => At::End,
        }
    }

    fn note(&mut self, byte: u8) -> At {
        if let Some(place) = self.name.get_mut(self.name_len) {
            *place = byte.to_ascii_lowercase();
        }
        // One beyond is none of those.
        self.name_len = (self.name_len + 1).min(NAME_BYTES + 1);
        At::Name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_header_has_is_seen_however_it_arrives() {
        for (content, date, id) in [
            ("", false, false),
            ("\r\nDate: x\r\n", false, false),
            ("Date: x\r\nMESSAGE-ID:<a@b>\r\n\r\n", true, true),
            ("Subject: x\r\n Date: y\r\nmessage-id : <a@b>", false, true),
            (
                "Resent-Date: x\r\nDate-x: y\r\nMessage-ID-long: z\r\nX-Message-ID: z\r\n",
                false,
                false,
            ),
            ("no field\r\nDate: x\r\n", false, false),
            ("D\u{e4}te: x\r\nDate: x\r\n", false, false),
            ("Subject: x\r\n\r\nDate: x\r\nMessage-ID: y\r\n", false, false),
            ("From:a\nDate:b\n\nMessage-ID: c", true, false),
        ] {
            for pieces in [1, 2, 3, 1_000] {
                let mut scan = HeaderScan::default();
                content.as_bytes().chunks(pieces).for_each(|piece| scan.push(piece));
                assert_eq!((scan.has_date, scan.has_message_id), (date, id), "{content:?}");
            }
        }
    }
}
