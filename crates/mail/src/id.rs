//! Message ids, unique across nodes, logs and restarts.

use std::fmt;
use std::str::FromStr;

/// Node (16 bits), log (8 bits) and sequence (40 bits), printed as 16 hex digits. Allocated before the commit, printed
/// in the 250 reply and in Received, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u64);

impl MessageId {
    /// The largest sequence number a log can hand out.
    pub const SEQUENCE_MAX: u64 = (1 << 40) - 1;

    /// Composes an id. `sequence` is cut to 40 bits.
    #[must_use]
    pub fn new(node: u16, log: u8, sequence: u64) -> MessageId {
        MessageId(
            u64::from(node) << 48 | u64::from(log) << 40 | (sequence & MessageId::SEQUENCE_MAX),
        )
    }

    /// The machine that accepted the message.
    #[must_use]
    pub fn node(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The number of its log.
    #[must_use]
    pub fn log(self) -> u8 {
        (self.0 >> 40) as u8
    }

    /// Its sequence number within that log.
    #[must_use]
    pub fn sequence(self) -> u64 {
        self.0 & MessageId::SEQUENCE_MAX
    }

    /// The printed form as ASCII digits: for replies and trace fields, without formatting.
    #[must_use]
    pub fn hex(self) -> [u8; 16] {
        let mut digits = [0; 16];
        for (i, digit) in digits.iter_mut().enumerate() {
            *digit = b"0123456789abcdef"[(self.0 >> (60 - 4 * i) & 0xf) as usize];
        }
        digits
    }
}

impl MessageId {
    /// Appends its `Display` form to a text.
    pub fn push_to(self, text: &mut String) {
        text.push_str(std::str::from_utf8(&self.hex()).unwrap_or_default());
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Hexadecimal digits are ASCII. Takes a fifth of the time of `{:016x}`: every reply has an id.
        f.write_str(std::str::from_utf8(&self.hex()).unwrap_or_default())
    }
}

/// The text was not 16 hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageIdError;

impl fmt::Display for MessageIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message id is 16 hexadecimal digits")
    }
}

impl std::error::Error for MessageIdError {}

impl FromStr for MessageId {
    type Err = MessageIdError;

    fn from_str(s: &str) -> Result<MessageId, MessageIdError> {
        if s.len() != 16 || !s.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(MessageIdError);
        }
        u64::from_str_radix(s, 16).map(MessageId).map_err(|_| MessageIdError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_printed_is_read(n: u64) {
            let id = MessageId(n);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
            prop_assert_eq!(id.to_string().into_bytes(), id.hex().to_vec());
            prop_assert_eq!(MessageId::new(id.node(), id.log(), id.sequence()), id);
        }

        #[test]
        fn what_is_read_is_an_id(text in "[0-9a-fA-F+ gü-]{15,17}") {
            if let Ok(id) = text.parse::<MessageId>() {
                prop_assert_eq!(id.to_string(), text.to_ascii_lowercase());
            }
        }
    }

    #[test]
    fn a_sequence_never_spills_into_the_log() {
        let id = MessageId::new(0, 0, MessageId::SEQUENCE_MAX + 2);
        assert_eq!((id.log(), id.sequence()), (0, 1));
    }

    #[test]
    fn parts_and_text_round_trip() {
        let id = MessageId::new(0x1234, 7, 42);
        assert_eq!((id.node(), id.log(), id.sequence()), (0x1234, 7, 42));
        assert_eq!(id.to_string(), "123407000000002a");
        assert_eq!(&id.hex(), b"123407000000002a");
        let mut text = "id ".to_owned();
        id.push_to(&mut text);
        assert_eq!(text, "id 123407000000002a");
        assert_eq!("123407000000002a".parse(), Ok(id));
        assert_eq!("+23407000000002a".parse::<MessageId>(), Err(MessageIdError));
    }
}
