//! What the content readers must do, said a second time: slowly, on whole messages, without states.

use crate::driver::Driver;
use smtp::server::{BareNewline, Nul, ServerConfig};

/// What becomes of content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// How many bytes of the wire belong to it.
    pub(crate) taken: usize,
    /// A CR or LF stands alone in it.
    pub(crate) bare: bool,
    /// As it is stored if bare newlines are normalised.
    pub(crate) stored: Vec<u8>,
}

/// What follows 354; `None` if it never ends.
pub(crate) fn data(wire: &[u8]) -> Option<Verdict> {
    // The CRLF of the DATA command comes before.
    let stream = [b"\r\n", wire].concat();
    let end = stream.windows(5).position(|window| window == b"\r\n.\r\n")?;
    // That CRLF, the content with the dots that are stuffed into it, and its last CRLF.
    let lines = &stream[..end + 2];
    let mut unstuffed = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if lines[at..].starts_with(b"\r\n.") {
            unstuffed.extend_from_slice(b"\r\n");
            at += 3;
        } else {
            unstuffed.push(lines[at]);
            at += 1;
        }
    }
    // A dot that goes stands behind a whole CRLF, so no new CRLF comes to be.
    Some(Verdict {
        taken: end + 3,
        bare: has_bare(lines),
        stored: normalized(&unstuffed)[2..].to_vec(),
    })
}

/// All chunks of BDAT together.
pub(crate) fn bdat(octets: &[u8]) -> Verdict {
    Verdict { taken: octets.len(), bare: has_bare(octets), stored: normalized(octets) }
}

fn has_bare(bytes: &[u8]) -> bool {
    let count = |what: u8| bytes.iter().filter(|&&byte| byte == what).count();
    let pairs = bytes.windows(2).filter(|pair| pair == b"\r\n").count();
    count(b'\r') != pairs || count(b'\n') != pairs
}

fn normalized(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"\r\n") {
            at += 1;
        }
        match bytes[at] {
            b'\r' | b'\n' => out.extend_from_slice(b"\r\n"),
            other => out.push(other),
        }
        at += 1;
    }
    out
}

/// A session that was told 354, or that waits for BDAT.
pub(crate) fn ready(bare_newline: BareNewline, data: bool) -> Driver {
    ready_with(Nul::Keep, bare_newline, data)
}

/// The same at a listener that may not keep NULs.
pub(crate) fn ready_with(nul: Nul, bare_newline: BareNewline, data: bool) -> Driver {
    let mut driver = Driver::greeted(ServerConfig { bare_newline, nul, ..ServerConfig::default() });
    driver.feed(b"MAIL FROM:<ann@a.example>\r\nRCPT TO:<bob@b.example>\r\n");
    if data {
        driver.feed(b"DATA\r\n");
    }
    driver.trace.clear();
    driver
}

/// Asserts that a session that got content and then `NOOP` did with it what the verdict says.
#[track_caller]
pub(crate) fn check(driver: &Driver, verdict: &Verdict, bare_newline: BareNewline, what: &str) {
    let replies: Vec<_> = driver.trace.iter().filter(|line| line.starts_with("S: ")).collect();
    let refused = verdict.bare && bare_newline == BareNewline::Reject;
    let code = if refused { "S: 550 5.6.0 " } else { "S: 250 2.0.0 Queued" };
    assert_eq!(replies.len(), 2, "{what}: {replies:?}");
    assert!(replies[0].starts_with(code), "{what}: {replies:?}");
    assert_eq!(replies[1], "S: 250 2.0.0 Ok", "{what}");
    let stored: Vec<_> = driver.stored.iter().map(|stored| &stored.content[..]).collect();
    let expected: &[&[u8]] = if refused { &[] } else { &[&verdict.stored] };
    assert_eq!(stored, expected, "{what}");
}
