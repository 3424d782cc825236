//! Header scanning and the Received field.

use libfuzzer_sys::arbitrary::Unstructured;
use mail::received::Received;
use mail::{ContentScanner, MessageId, Wall, header};
use std::net::IpAddr;

/// The bytes are a content; some of them also fill a Received field that is put before it.
pub fn run(data: &[u8]) {
    scan(data);
    let mut choices = Unstructured::new(data);
    if let Ok((helo, with, recipient, address, at, id)) = choices.arbitrary::<Parts>() {
        received(
            data,
            helo,
            with,
            recipient,
            address.map_or(IpAddr::from([192, 0, 2, 1]), IpAddr::from),
            at,
            id,
        );
    }
}

type Parts<'a> = (&'a str, &'a str, Option<&'a str>, Option<[u8; 16]>, u64, u64);

fn scan(content: &[u8]) {
    let mut next = 0;
    let mut count = 0;
    for field in header::fields(content) {
        assert_eq!(field.range.start, next, "fields follow each other");
        next = field.range.end;
        count += usize::from(field.is("Received"));
        assert!(!field.name.is_empty());
        assert!(field.name.iter().all(|b| matches!(b, 33..=126) && *b != b':'));
        let whole = &content[field.range.clone()];
        assert!(whole.starts_with(field.name));
        let unfolded = field.unfolded();
        assert!(!unfolded.contains(&b'\r') && !unfolded.contains(&b'\n'));
        assert_eq!(header::trim(&unfolded), &*unfolded);
        // A line within a field begins with a blank.
        let inner = &whole[..whole.len() - 1];
        for (at, _) in inner.iter().enumerate().filter(|(_, b)| **b == b'\n') {
            assert!(matches!(whole[at + 1], b' ' | b'\t'));
        }
    }
    assert_eq!(header::relay_fields(content).received_count, count);
    if let Some(end) = header::end(content) {
        assert_eq!(end.fields_end, next);
        let between = &content[end.fields_end..end.body_start];
        assert!(matches!(between, b"" | b"\n" | b"\r\n"));
        // What follows changes nothing once the end is seen.
        let more = [content, b"Received: x\r\n"].concat();
        assert_eq!(header::end(&more), Some(end));
    }
    let mut whole = ContentScanner::default();
    whole.push(content);
    let mut bytes = ContentScanner::default();
    content.chunks(1).for_each(|byte| bytes.push(byte));
    assert_eq!(whole.finish(), bytes.finish());
}

fn received(
    content: &[u8],
    helo: &str,
    with: &str,
    for_recipient: Option<&str>,
    client: IpAddr,
    at: u64,
    id: u64,
) {
    // Years of five digits are not in the grammar.
    let at = Wall(at % 250_000_000_000_000);
    let with = if with.len() > 20 { "ESMTP" } else { with };
    let for_recipient = for_recipient.filter(|text| text.len() < 300);
    // The names of suites are ours, not a stranger's.
    let tls = (id % 2 == 1).then_some("TLS_AES_256_GCM_SHA384");
    let client = (id % 4 != 3).then_some(client);
    // Names that the DNS has told are written as those that a client says.
    let client_name = (id % 8 == 2).then_some(helo);
    let (by, id) = ("relay.example", MessageId(id));
    // And so is the name in a certificate.
    let certified = (id.0 % 16 == 4).then_some(helo);
    let uid = (id.0 % 16 == 3).then_some(u32::MAX);
    let field = Received {
        helo,
        client,
        client_name,
        by,
        with,
        id,
        for_recipient,
        tls,
        certified,
        uid,
        at,
    };
    let mut out = Vec::new();
    field.write_to(&mut out);
    assert!(out.ends_with(b"\r\n"));
    let length = out.len();
    out.extend_from_slice(content);
    let Some(first) = header::fields(&out).next() else { panic!("no field") };
    assert!(first.is("Received"));
    let follows_blank = content.first().is_some_and(|b| matches!(b, b' ' | b'\t'));
    assert!(follows_blank || first.range == (0..length), "{:?}", String::from_utf8_lossy(&out));
    for line in out[..length].split(|b| *b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        assert!(line.len() <= 998, "a line of {} bytes", line.len());
        assert!(line.iter().all(|b| *b == b'\t' || !b.is_ascii_control()));
    }
}
