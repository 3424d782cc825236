//! Dot-stuffing is undone by any server, however the body was cut.

use proptest::prelude::*;
use smtp::client::DotStuffer;

fn stuff(body: &[u8], cuts: &[usize]) -> Vec<u8> {
    let mut stuffer = DotStuffer::new();
    let mut wire = Vec::new();
    let mut rest = body;
    let mut cuts = cuts.iter().cycle();
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
        for slice in stuffer.slices(piece) {
            assert!(!slice.is_empty());
            wire.extend_from_slice(slice);
        }
        rest = behind;
    }
    wire
}

/// RFC 5321 §4.5.2 as a server does it, with lines that end as `line_end` says.
fn unstuff(wire: &[u8], line_end: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    let mut is_line_start = true;
    for (at, &byte) in wire.iter().enumerate() {
        if !(is_line_start && byte == b'.') {
            body.push(byte);
        } else {
            assert_eq!(wire.get(at + 1), Some(&b'.'), "a lone dot begins a line");
        }
        is_line_start = wire[..=at].ends_with(line_end);
    }
    body
}

fn lines() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof!["[.]{0,3}", "[.]{0,2}[a-z.]{0,5}", "[\\x00-\\x09]{0,4}"];
    (prop::collection::vec(line, 0..20), any::<bool>()).prop_map(|(lines, ends)| {
        let mut body = lines.join("\r\n").into_bytes();
        if ends {
            body.extend_from_slice(b"\r\n");
        }
        body
    })
}

proptest! {
    #[test]
    fn crlf_lines_come_back(body in lines(), cuts in prop::collection::vec(1usize..9, 1..6)) {
        let wire = stuff(&body, &cuts);
        prop_assert_eq!(unstuff(&wire, b"\r\n"), body);
    }

    #[test]
    fn anything_comes_back_from_a_server_that_takes_lf(
        body in prop::collection::vec(prop::sample::select(b".\r\na".to_vec()), 0..40),
        cuts in prop::collection::vec(1usize..9, 1..6),
    ) {
        let wire = stuff(&body, &cuts);
        prop_assert_eq!(unstuff(&wire, b"\n"), body);
    }
}

#[test]
fn dots_are_doubled_without_copying() {
    let body = b".a\r\n..\r\nb.\r\n.";
    let mut stuffer = DotStuffer::new();
    let slices: Vec<&[u8]> = stuffer.slices(body).collect();
    assert_eq!(slices, [&b"."[..], b".a\r\n.", b"..\r\nb.\r\n.", b"."]);
    assert_eq!(stuffer.slices(b".x").collect::<Vec<_>>(), [b".x"]);
    assert_eq!(stuffer.slices(b"\n").count(), 1);
    assert_eq!(stuffer.slices(b"").count(), 0);
    assert_eq!(stuffer.slices(b".").collect::<Vec<_>>(), [b".", b"."]);
}
