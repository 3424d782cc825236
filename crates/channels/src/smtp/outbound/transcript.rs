//! The dialogue of a connection, kept until it is known to be harmless.
//!
//! Only commands and replies are kept, no content, and no part of a login.

use mail::Wall;
use mta::control::{DIALOGUE_BYTES_MAX, FailedDialogue};

/// Octets of the beginning that are kept when a dialogue is too long; the rest is its end.
const HEAD_BYTES: usize = 1_024;
/// Marks before commands and before replies.
const SENT: u8 = 1;
const RECEIVED: u8 = 2;
/// RFC 4954 §4.
const AUTH: &[u8] = b"AUTH ";
const REDACTED: &[u8] = b"[redacted]\r\n";

/// A bounded record of commands and replies.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    /// Texts, each after a mark where the direction changes.
    bytes: Vec<u8>,
    direction: u8,
    is_cut: bool,
    in_login: bool,
}

impl Transcript {
    /// Forgets all, for the next transaction.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.direction = 0;
        self.is_cut = false;
    }

    /// Records commands.
    pub(super) fn sent(&mut self, bytes: &[u8]) {
        if bytes.starts_with(AUTH) {
            self.in_login = true;
            let mechanism = bytes.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
            let mechanism = mechanism.trim_ascii_end();
            self.push(SENT, AUTH);
            self.push(SENT, mechanism);
            self.push(SENT, b" ");
        }
        self.push(SENT, if self.in_login { REDACTED } else { bytes });
    }

    /// Records replies.
    pub(super) fn received(&mut self, bytes: &[u8]) {
        if self.in_login && bytes.starts_with(b"334") {
            self.push(RECEIVED, b"334 ");
            return self.push(RECEIVED, REDACTED);
        }
        self.in_login = false;
        if bytes.iter().all(|byte| *byte > RECEIVED) {
            self.push(RECEIVED, bytes);
        } else {
            let harmless: Vec<u8> = bytes.iter().map(|byte| (*byte).max(RECEIVED + 1)).collect();
            self.push(RECEIVED, &harmless);
        }
    }

    fn push(&mut self, direction: u8, bytes: &[u8]) {
        if self.direction != direction {
            self.direction = direction;
            self.bytes.push(direction);
        }
        // The end of a long text has the failure.
        let end = bytes.len().saturating_sub(DIALOGUE_BYTES_MAX);
        self.bytes.extend_from_slice(bytes.get(end..).unwrap_or_default());
        let excess = self.bytes.len().saturating_sub(DIALOGUE_BYTES_MAX);
        if excess > 0 {
            self.is_cut = true;
            self.bytes.drain(HEAD_BYTES..HEAD_BYTES + excess);
        }
    }

    /// The dialogue with this peer for people: a line for each line, after `>` if it was sent and `<` if it was received.
    pub(super) fn dialogue(&self, next_hop: &str, peer: &str, at: Wall) -> FailedDialogue {
        let mut text = String::new();
        let (head, tail) = match self.is_cut {
            true => self.bytes.split_at(HEAD_BYTES.min(self.bytes.len())),
            false => (&self.bytes[..], &[][..]),
        };
        write_lines(&mut text, head, SENT);
        if self.is_cut {
            text.push_str("…\n");
            let last = self.direction;
            let first = tail.iter().position(|byte| *byte <= RECEIVED);
            write_lines(&mut text, tail.get(first.unwrap_or(0)..).unwrap_or_default(), last);
        }
        let (next_hop, peer) = (next_hop.to_owned(), peer.to_owned());
        FailedDialogue { next_hop, peer, at, text }
    }
}

fn write_lines(text: &mut String, bytes: &[u8], mut direction: u8) {
    for part in bytes.split_inclusive(|byte| *byte == b'\n') {
        for piece in part.split_inclusive(|byte| *byte <= RECEIVED) {
            let (line, mark) = match piece.split_last() {
                Some((last, line)) if *last <= RECEIVED => (line, Some(*last)),
                _ => (piece, None),
            };
            let line = String::from_utf8_lossy(line.trim_ascii_end());
            if !line.is_empty() {
                text.push_str(if direction == SENT { "> " } else { "< " });
                text.extend(line.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }));
                text.push('\n');
            }
            direction = mark.unwrap_or(direction);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(transcript: &Transcript) -> String {
        transcript.dialogue("hop", "peer", Wall(0)).text
    }

    #[test]
    fn commands_and_replies_are_told_apart() {
        let mut transcript = Transcript::default();
        transcript.received(b"220 mx.test\r\n");
        transcript.sent(b"EHLO a.test\r\n");
        transcript.received(b"250-mx.test\r\n250 PIPELI");
        transcript.received(b"NING\r\n");
        transcript.sent(b"MAIL FROM:<a@a.test>\r\nRCPT TO:<b@b.test>\r\n");
        transcript.received(b"250 ok\r\n550 \x01no\x1b[2J\r\n");
        assert_eq!(
            text(&transcript),
            "< 220 mx.test\n> EHLO a.test\n< 250-mx.test\n< 250 PIPELINING\n\
             > MAIL FROM:<a@a.test>\n> RCPT TO:<b@b.test>\n< 250 ok\n< 550 \u{fffd}no\u{fffd}[2J\n"
        );
        transcript.clear();
        transcript.sent(b"RSET\r\n");
        assert_eq!(text(&transcript), "> RSET\n");
    }

    #[test]
    fn a_login_is_redacted() {
        let mut transcript = Transcript::default();
        transcript.sent(b"AUTH PLAIN AGpvAHNlY3JldA==\r\n");
        transcript.received(b"535 5.7.8 no\r\n");
        transcript.sent(b"AUTH LOGIN\r\n");
        transcript.received(b"334 VXNlcm5hbWU6\r\n");
        transcript.sent(b"am8=\r\n");
        transcript.received(b"334 UGFzc3dvcmQ6\r\n");
        transcript.sent(b"c2VjcmV0\r\n");
        transcript.received(b"235 2.7.0 ok\r\n");
        transcript.sent(b"MAIL FROM:<>\r\n");
        assert_eq!(
            text(&transcript),
            "> AUTH PLAIN [redacted]\n< 535 5.7.8 no\n> AUTH LOGIN [redacted]\n< 334 [redacted]\n\
             > [redacted]\n< 334 [redacted]\n> [redacted]\n< 235 2.7.0 ok\n> MAIL FROM:<>\n"
        );
    }

    #[test]
    fn a_long_dialogue_keeps_its_beginning_and_its_end() {
        let mut transcript = Transcript::default();
        transcript.received(b"220 mx.test\r\n");
        for n in 0..1_000 {
            transcript.sent(format!("RCPT TO:<{n}@b.test>\r\n").as_bytes());
            transcript.received(b"250 ok\r\n");
            assert!(transcript.bytes.len() <= DIALOGUE_BYTES_MAX);
        }
        transcript.received(&[b'x'; 3 * DIALOGUE_BYTES_MAX]);
        assert_eq!(transcript.bytes.len(), DIALOGUE_BYTES_MAX);
        let text = text(&transcript);
        assert!(text.starts_with("< 220 mx.test\n> RCPT TO:<0@b.test>\n< 250 ok\n"), "{text}");
        assert!(text.contains("…\n< xxx") && text.ends_with("x\n"), "{text}");
    }
}
