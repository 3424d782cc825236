//! Sessions that wait for content, and what must become of it.

use super::model::Verdict;
use super::server::Driver;
use crate::server::{BareNewline, Nul, ServerConfig};

/// A session that was told 354, or that waits for BDAT.
#[must_use]
pub fn ready(bare_newline: BareNewline, data: bool) -> Driver {
    ready_with(Nul::Keep, bare_newline, data)
}

/// The same at a listener that may not keep NULs.
#[must_use]
pub fn ready_with(nul: Nul, bare_newline: BareNewline, data: bool) -> Driver {
    let mut driver = Driver::greeted(ServerConfig { bare_newline, nul, ..ServerConfig::default() });
    driver.feed(b"MAIL FROM:<ann@a.example>\r\nRCPT TO:<bob@b.example>\r\n");
    if data {
        driver.feed(b"DATA\r\n");
    }
    driver.trace.clear();
    driver
}

/// Asserts that a session that got content and then `NOOP` did with it what the verdict says.
///
/// # Panics
/// If it did not.
#[track_caller]
pub fn check(driver: &Driver, verdict: &Verdict, bare_newline: BareNewline, what: &str) {
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
