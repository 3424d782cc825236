//! What the content readers must do, said a second time: slowly, on whole messages, without states.

/// What becomes of content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How many bytes of the wire belong to it.
    pub taken: usize,
    /// A CR or LF stands alone in it.
    pub bare: bool,
    /// As it is stored if bare newlines are normalised.
    pub stored: Vec<u8>,
}

/// What follows 354; `None` if it never ends.
#[must_use]
pub fn data(wire: &[u8]) -> Option<Verdict> {
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
#[must_use]
pub fn bdat(octets: &[u8]) -> Verdict {
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
