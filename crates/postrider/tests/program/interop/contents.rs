//! Messages that are awkward to carry, each within what RFC 5322 and RFC 6152 allow.

/// One message.
pub(crate) struct Content {
    /// Also the local part of its recipient.
    pub(crate) name: &'static str,
    pub(crate) octets: Vec<u8>,
}

/// Octets of the large one.
const LARGE_BYTES: usize = 1_000_000;
/// RFC 5322 §2.1.1, without CRLF.
const LINE_BYTES_MAX: usize = 998;

/// All of them.
pub(crate) fn all() -> Vec<Content> {
    let header = "From: <me@source.test>\r\nSubject: x\r\nMessage-ID: <1@source.test>\r\n\
                  Date: Sun, 22 Nov 2026 10:00:00 +0000\r\n";
    let with = |body: &[u8]| [header.as_bytes(), b"\r\n", body].concat();
    let long = [vec![b'y'; LINE_BYTES_MAX], b"\r\n".to_vec(), vec![b'.'; LINE_BYTES_MAX]];
    let long = [&long.concat()[..], b"\r\n"].concat();
    // Every control character but NUL, CR and LF.
    let controls: Vec<u8> = (1..32).filter(|c| !b"\r\n".contains(c)).chain([127]).collect();
    let large = "A line of a large message, of some 60 octets, and a dot\r\n.\r\n";
    let content = |name, octets| Content { name, octets };
    vec![
        content("plain", with(b"Hello.\r\n")),
        content("bare-header", header.as_bytes().to_vec()),
        content("empty-body", with(b"")),
        content("dots", with(b".\r\n..\r\n...\r\n.a\r\na.\r\n \r\n.\r\n")),
        content("long-lines", with(&long)),
        content("latin", with(b"Gr\xfc\xdfe \x80\xff\r\n")),
        content("utf", with("Grüße, 世界, \u{feff}\r\n".as_bytes())),
        content("controls", with(&[&controls[..], b"\r\n"].concat())),
        content("blanks", with(b"\r\n\r\n trailing \t \r\n\t\r\n\r\n\r\n")),
        content("folded", [b"X-A: a\r\n\tb\r\n  c\r\nX-B:\r\n", &with(b"x\r\n")[..]].concat()),
        content("from", with(b"From me\r\n>From you\r\n")),
        content("commands", with(b"QUIT\r\nRSET\r\nMAIL FROM:<>\r\nBDAT 0 LAST\r\n")),
        content("large", with(large.repeat(LARGE_BYTES / large.len()).as_bytes())),
        content("no-newline", with(b"ends here")),
        content("no-newline-dot", with(b"a\r\n.")),
    ]
}
