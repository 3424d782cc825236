//! What is sent: a body of an exact size, one of a few of a run, and a header that is unique.

use super::span::Span;
use crate::random::Random;
use std::io::Write as _;

/// Characters in a line, without CRLF.
const LINE_CHARS_MAX: usize = 76;

/// Bodies of a run whose messages differ in size: made beforehand, for making one takes longer than
/// sending it.
const BODIES: u64 = 64;

/// Carries the id that the ledger is kept by.
pub const ID_FIELD: &str = "X-Postrider-Lab-Id";

/// Carries the body's length and CRC-32C, by which the sink sees whether it came whole.
pub const BODY_FIELD: &str = "X-Postrider-Lab-Body";

/// What a body is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BodyKind {
    /// Letters, digits and spaces
    Plain,
    /// Many lines that begin with a dot or have only dots
    Dots,
    /// UTF-8 with many bytes above 127 (BODY=8BITMIME if the server offers it)
    Eightbit,
}

/// A body, ready to be sent.
#[derive(Debug)]
pub struct PreparedBody {
    /// As the message has it.
    pub raw: Vec<u8>,
    /// As DATA carries it: dots stuffed, the final dot behind it.
    pub wire: Vec<u8>,
    /// Has bytes above 127.
    pub eight_bit: bool,
    /// CRC-32C of `raw`.
    checksum: u32,
}

impl PreparedBody {
    /// `body_bytes` bytes, in lines that end with CRLF; 1 is impossible.
    // The simulator makes many, and is optimised where this crate isn't.
    #[inline]
    #[must_use]
    pub fn generate(kind: BodyKind, body_bytes: usize, seed: u64) -> PreparedBody {
        let mut random = Random::new(seed);
        let mut raw = Vec::with_capacity(body_bytes);
        let mut wire = Vec::with_capacity(body_bytes + 64);
        while raw.len() < body_bytes {
            let start = raw.len();
            let left = body_bytes - start;
            let mut chars = left.saturating_sub(2).min(LINE_CHARS_MAX);
            // One byte can't be a line: leave it none, or two.
            if left - (chars + 2).min(left) == 1 {
                chars -= 1;
            }
            line(kind, chars, &mut random, &mut raw);
            let line = &raw[start..];
            if line.starts_with(b".") {
                wire.push(b'.');
            }
            wire.extend_from_slice(line);
        }
        wire.extend_from_slice(b".\r\n");
        let checksum = crc32c::crc32c(&raw);
        PreparedBody { wire, eight_bit: kind == BodyKind::Eightbit, checksum, raw }
    }

    /// Writes the header of one message, with the empty line behind it.
    pub fn write_header(&self, out: &mut Vec<u8>, id: &str, from: &str, to: &str, date: &str) {
        let (length, checksum) = (self.raw.len(), self.checksum);
        // Writing to a Vec can't fail.
        let _ = write!(
            out,
            "From: <{from}>\r\nTo: <{to}>\r\nSubject: {id}\r\nDate: {date}\r\n\
             Message-ID: <{id}@postrider-lab.invalid>\r\n{ID_FIELD}: {id}\r\n\
             {BODY_FIELD}: {length} {checksum:08x}\r\n\r\n"
        );
    }
}

/// The bodies of a run.
#[derive(Debug)]
pub struct Bodies(Vec<PreparedBody>);

/// The sizes of a run's bodies and what each is generated from: one, or 64 that are spread evenly from the least
/// to the most; one byte becomes two.
pub(crate) fn sizes(span: Span, seed: u64) -> Vec<(usize, u64)> {
    let steps = if span.is_one() { 0 } else { BODIES - 1 };
    let size = |step: u64| match (span.max - span.min).saturating_mul(step) / steps.max(1) {
        above if span.min + above == 1 => 2,
        above => span.min + above,
    };
    (0..=steps).map(|step| (size(step) as usize, seed.wrapping_add(step))).collect()
}

impl Bodies {
    /// One of this size, or 64 of sizes that are spread evenly from the least to the most; a body of
    /// one byte becomes one of two.
    #[must_use]
    pub fn generate(kind: BodyKind, span: Span, seed: u64) -> Bodies {
        let bodies = sizes(span, seed).into_iter();
        Bodies(bodies.map(|(bytes, seed)| PreparedBody::generate(kind, bytes, seed)).collect())
    }

    /// One of them, each as likely as the others.
    pub fn draw(&self, random: &mut Random) -> &PreparedBody {
        match self.0.as_slice() {
            [one] => one,
            several => &several[random.below(several.len() as u64) as usize],
        }
    }

    /// Whether any has bytes above 127.
    #[must_use]
    pub fn eight_bit(&self) -> bool {
        self.0.iter().any(|body| body.eight_bit)
    }
}

#[inline]
fn line(kind: BodyKind, chars: usize, random: &mut Random, out: &mut Vec<u8>) {
    // é in UTF-8.
    const E_ACUTE: [u8; 2] = [0xC3, 0xA9];
    const PLAIN: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789  ";
    let mut chars = chars;
    let mut dots = 0;
    if kind == BodyKind::Dots {
        match random.below(4) {
            0 => dots = 1,
            1 => dots = 2,
            // A line of nothing but dots; alone, the one that ends DATA. Only where much is left,
            // for the rest must not come to one byte.
            2 if chars > 10 => {
                dots = 1 + random.below(3) as usize;
                chars = dots;
            }
            _ => {}
        }
    }
    let mut text = [b'.'; LINE_CHARS_MAX + 2];
    let mut at = dots.min(chars);
    while at < chars {
        let value = random.next_u64();
        if kind == BodyKind::Eightbit && value >> 63 == 1 && at + 2 <= chars {
            [text[at], text[at + 1]] = E_ACUTE;
            at += 2;
        } else {
            text[at] = PLAIN[(value & 63) as usize];
            at += 1;
        }
    }
    [text[chars], text[chars + 1]] = *b"\r\n";
    out.extend_from_slice(&text[..chars + 2]);
}

#[cfg(test)]
mod tests {
    use super::{Bodies, BodyKind, PreparedBody, Span};
    use crate::random::Random;

    #[test]
    fn bodies_have_their_exact_size_and_only_good_lines() {
        for kind in [BodyKind::Plain, BodyKind::Dots, BodyKind::Eightbit] {
            for bytes in (0..400).filter(|&bytes| bytes != 1).chain([65_536]) {
                let body = PreparedBody::generate(kind, bytes, 3);
                assert_eq!(body.raw.len(), bytes, "{kind:?}");
                for line in body.raw.split_inclusive(|&byte| byte == b'\n') {
                    let text = line.strip_suffix(b"\r\n").expect("ends with CRLF");
                    assert!(text.len() <= 76 && !text.contains(&b'\r'));
                    assert!(kind == BodyKind::Dots || !text.starts_with(b"."));
                }
                assert_eq!(std::str::from_utf8(&body.raw).is_ok_and(str::is_ascii), {
                    kind != BodyKind::Eightbit || body.raw.iter().all(u8::is_ascii)
                });
            }
        }
    }

    #[test]
    fn bodies_of_a_range_are_spread_over_it() {
        let sizes = |min, max| -> Vec<usize> {
            let bodies = Bodies::generate(BodyKind::Plain, Span { min, max }, 1);
            bodies.0.iter().map(|body| body.raw.len()).collect()
        };
        assert_eq!(sizes(400, 400), [400]);
        let spread = sizes(0, 10_240);
        assert_eq!((spread.len(), spread[0], spread[63]), (64, 0, 10_240));
        assert!(spread.windows(2).all(|pair| (162..=163).contains(&(pair[1] - pair[0]))));
        assert!(sizes(0, 70).iter().all(|&size| size != 1));
        let (bodies, mut random) =
            (Bodies::generate(BodyKind::Plain, Span { min: 0, max: 10_240 }, 1), Random::new(1));
        let total: usize = (0..10_000).map(|_| bodies.draw(&mut random).raw.len()).sum();
        assert!((4_900..5_400).contains(&(total / 10_000)), "{total}");
    }

    #[test]
    fn same_seed_same_body() {
        let body = |seed| PreparedBody::generate(BodyKind::Plain, 1000, seed).raw;
        assert_eq!(body(1), body(1));
        assert_ne!(body(1), body(2));
    }

    #[test]
    fn each_kind_is_what_it_says() {
        let dots = PreparedBody::generate(BodyKind::Dots, 10_000, 1);
        assert!(dots.raw.windows(4).any(|window| window == b"\n.\r\n"), "no line of one dot");
        assert!(dots.wire.len() > dots.raw.len() + 20);
        assert!(dots.wire.ends_with(b"\r\n.\r\n"));
        let eight_bit = PreparedBody::generate(BodyKind::Eightbit, 10_000, 1);
        assert!(eight_bit.raw.iter().filter(|byte| !byte.is_ascii()).count() > 1000);
        assert!(std::str::from_utf8(&eight_bit.raw).is_ok());
    }
}
