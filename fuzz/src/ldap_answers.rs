//! What a directory's server says: any bytes, as a connection reads them.

use ldap::{Op, Response, SyncNews, frame};

/// As long as a message may be here.
const BYTES_MAX: usize = 1 << 16;

/// Takes message after message, until the bytes end or are none.
pub fn run(data: &[u8]) {
    let mut rest = data;
    while let Ok(measured) = frame(rest, BYTES_MAX) {
        check_pieces(rest, measured);
        let Some((message, behind)) = measured.and_then(|bytes| rest.split_at_checked(bytes))
        else {
            return;
        };
        if let Ok(response) = Response::read(message) {
            check(&response, message.len());
        }
        rest = behind;
    }
}

/// How the bytes are cut changes nothing: fewer of them say the same, or that more is to come.
fn check_pieces(bytes: &[u8], measured: Option<usize>) {
    assert!(measured.is_none_or(|length| (2..=BYTES_MAX).contains(&length)));
    for length in 0..bytes.len().min(8) {
        let of_piece = frame(&bytes[..length], BYTES_MAX);
        assert!(of_piece == Ok(None) || of_piece == Ok(measured), "{of_piece:?} at {length}");
    }
}

/// Nothing is longer than the message that it came in, and what people are shown is one short line.
fn check(response: &Response, message_bytes: usize) {
    assert!(response.id >= 0);
    match &response.op {
        Op::Bind(outcome) | Op::Done(outcome) | Op::Extended(outcome) => {
            let shown = outcome.to_string();
            assert!(!shown.contains(char::is_control) && shown.chars().count() < 400, "{shown}");
        }
        Op::Entry(entry) => {
            let values = entry.attributes.iter().flat_map(|attribute| &attribute.values);
            assert!(values.map(Vec::len).sum::<usize>() <= message_bytes);
            for attribute in &entry.attributes {
                assert_eq!(
                    entry.values(&attribute.name.to_ascii_uppercase()),
                    entry.values(&attribute.name)
                );
            }
            let _ = ldap::normalise(&entry.dn);
        }
        Op::News(info) => {
            if let SyncNews::Entries { uuids, .. } = &info.news {
                assert!(uuids.len() * 16 <= message_bytes);
            }
        }
        Op::Reference | Op::Other(_) => {}
    }
}
