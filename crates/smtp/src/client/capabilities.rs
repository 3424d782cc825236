//! What a peer offered in its reply to EHLO or LHLO (RFC 5321 §4.1.1.1).

use super::reply::RawReply;

/// The service extensions of a peer that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// SIZE (RFC 1870): the most bytes it takes; 0 when it names no limit. `None`: not offered.
    pub size: Option<u64>,
    /// 8BITMIME (RFC 6152).
    pub eight_bit_mime: bool,
    /// SMTPUTF8 (RFC 6531).
    pub smtputf8: bool,
    /// CHUNKING (RFC 3030).
    pub chunking: bool,
    /// PIPELINING (RFC 2920).
    pub pipelining: bool,
    /// DSN (RFC 3461).
    pub dsn: bool,
    /// ENHANCEDSTATUSCODES (RFC 2034).
    pub enhanced_status_codes: bool,
    /// STARTTLS (RFC 3207).
    pub starttls: bool,
}

impl Capabilities {
    /// Reads all lines but the first, which is the peer's name and greeting.
    pub(super) fn parse(reply: &RawReply<'_>) -> Capabilities {
        let mut offered = Capabilities::default();
        for line in reply.lines().skip(1) {
            offered.take_line(line);
        }
        offered
    }

    /// RFC 5321 §4.1.1.1: keywords are not case-sensitive.
    fn take_line(&mut self, line: &[u8]) {
        let mut words = line.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty());
        let Some(keyword) = words.next() else { return };
        let is = |name: &str| keyword.eq_ignore_ascii_case(name.as_bytes());
        if is("SIZE") {
            let limit = words.next().and_then(|w| std::str::from_utf8(w).ok()?.parse().ok());
            self.size = Some(limit.unwrap_or(0));
        } else if is("8BITMIME") {
            self.eight_bit_mime = true;
        } else if is("SMTPUTF8") {
            self.smtputf8 = true;
        } else if is("CHUNKING") {
            self.chunking = true;
        } else if is("PIPELINING") {
            self.pipelining = true;
        } else if is("DSN") {
            self.dsn = true;
        } else if is("ENHANCEDSTATUSCODES") {
            self.enhanced_status_codes = true;
        } else if is("STARTTLS") {
            self.starttls = true;
        }
    }
}
