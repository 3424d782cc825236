//! Decoded by a reader that shares nothing with the encoder, what comes out is what went in.

use super::*;
use proptest::prelude::*;

/// A leaf as a reader sees it: its decoded body.
type Leaf = Vec<u8>;

/// Reads a message the slow and obvious way. Only for contents that `message()` makes.
fn decode(content: &[u8]) -> Vec<Leaf> {
    let (header, body) = match content.strip_prefix(b"\r\n") {
        Some(body) => (&b""[..], body),
        None => match find(content, b"\r\n\r\n") {
            Some(at) => (&content[..at + 2], &content[at + 4..]),
            None => (content, &b""[..]),
        },
    };
    let header = String::from_utf8_lossy(header).to_ascii_lowercase().replace("\r\n ", " ");
    let value = |name: &str| {
        let line = header.lines().find_map(|line| line.strip_prefix(name));
        line.map(|line| line.trim().to_owned()).unwrap_or_default()
    };
    let (kind, encoding) = (value("content-type:"), value("content-transfer-encoding:"));
    if kind.starts_with("multipart/") {
        let mark = format!("--{}", kind.split('"').nth(1).unwrap());
        let body = [b"\r\n", body].concat();
        let mut parts = split(&body, format!("\r\n{mark}").as_bytes()).into_iter();
        parts.next();
        return parts
            .take_while(|part| !part.starts_with(b"--"))
            .flat_map(|part| decode(part.strip_prefix(b"\r\n").unwrap_or(part)))
            .collect();
    }
    if kind == "message/rfc822" {
        return decode(body);
    }
    vec![match encoding.as_str() {
        "quoted-printable" => decode_quoted_printable(body),
        "base64" => decode_base64(body),
        _ => body.to_vec(),
    }]
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

fn split<'a>(mut text: &'a [u8], what: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    while let Some(at) = find(text, what) {
        parts.push(&text[..at]);
        text = &text[at + what.len()..];
    }
    parts.push(text);
    parts
}

fn decode_quoted_printable(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut rest = text;
    while let Some((&octet, behind)) = rest.split_first() {
        rest = behind;
        if octet != b'=' {
            decoded.push(octet);
        } else if let Some(behind) = rest.strip_prefix(b"\r\n") {
            rest = behind;
        } else {
            let digits = std::str::from_utf8(&rest[..2]).unwrap();
            assert_eq!(digits, digits.to_ascii_uppercase());
            decoded.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &rest[2..];
        }
    }
    decoded
}

fn decode_base64(text: &[u8]) -> Vec<u8> {
    let alphabet = |b: u8| match b {
        b'A'..=b'Z' => u32::from(b - b'A'),
        b'a'..=b'z' => u32::from(b - b'a') + 26,
        b'0'..=b'9' => u32::from(b - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("{b}"),
    };
    let text: Vec<u8> = text.iter().copied().filter(|b| !b"\r\n".contains(b)).collect();
    assert_eq!(text.len() % 4, 0);
    let mut decoded = Vec::new();
    for group in text.chunks(4) {
        let padding = group.iter().rev().take_while(|b| **b == b'=').count();
        let bits = group[..4 - padding].iter().fold(0, |bits, b| bits << 6 | alphabet(*b));
        let bits = bits << (6 * padding);
        decoded.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
    }
    decoded
}

fn encode(content: &[u8], takes_eight_bit: bool, step: usize) -> Result<Vec<u8>, Unencodable> {
    let mut survey = Survey::new(takes_eight_bit);
    content.chunks(step).for_each(|piece| survey.push(piece));
    let plan = survey.finish()?;
    let mut encoder = Encoder::new(&plan);
    let mut out = Vec::new();
    for piece in content.chunks(step + 1) {
        out.extend(encoder.push(piece));
    }
    out.extend(encoder.finish());
    Ok(out)
}

fn encoded(content: &str) -> Result<String, Unencodable> {
    encode(content.as_bytes(), false, 7).map(|out| String::from_utf8(out).unwrap())
}

#[test]
fn text_becomes_quoted_printable() {
    let text = "Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
        Content-Transfer-Encoding: 8bit\r\n\r\nGrüße = \r\n.\r\n";
    assert_eq!(
        encoded(text).unwrap(),
        "Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Transfer-Encoding: quoted-printable\r\n\r\nGr=C3=BC=C3=9Fe =3D=20\r\n.\r\n"
    );
}

#[test]
fn a_message_that_is_not_mime_becomes_so() {
    assert_eq!(
        encoded("Subject: é\r\n\r\né\r\n").unwrap(),
        "Subject: é\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=unknown-8bit\r\n\
         Content-Transfer-Encoding: quoted-printable\r\n\r\n=C3=A9\r\n"
    );
    assert_eq!(
        encoded("\r\né").unwrap(),
        "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=unknown-8bit\r\n\
         Content-Transfer-Encoding: quoted-printable\r\n\r\n=C3=A9"
    );
}

#[test]
fn each_part_is_encoded_as_it_needs() {
    let content = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; charset=x;\r\n boundary=\"a b\"\r\n\
        Content-Transfer-Encoding: 8bit\r\n\r\nfor old readers\r\n--a b\r\n\r\nascii\r\n--a b \r\n\
        Content-Type: application/x-y\r\nContent-Transfer-Encoding: binary\r\n\r\né\r\n\r\n--a b\r\n\
        Content-Type: message/rfc822\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\
        Subject: inner\r\n\r\né\r\n--a b--\r\nbehind\r\n";
    assert_eq!(
        encoded(content).unwrap(),
        "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; charset=x;\r\n boundary=\"a b\"\r\n\
        Content-Transfer-Encoding: 7bit\r\n\r\nfor old readers\r\n--a b\r\n\r\nascii\r\n--a b \r\n\
        Content-Type: application/x-y\r\nContent-Transfer-Encoding: base64\r\n\r\nw6kNCg==\r\n--a b\r\n\
        Content-Type: message/rfc822\r\nContent-Transfer-Encoding: 7bit\r\n\r\n\
        Subject: inner\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=unknown-8bit\r\n\
        Content-Transfer-Encoding: quoted-printable\r\n\r\n=C3=A9\r\n--a b--\r\nbehind\r\n"
    );
}

#[test]
fn what_must_stay_is_refused() {
    let part = |head: &str, body: &str| format!("MIME-Version: 1.0\r\n{head}\r\n\r\n{body}\r\n");
    let signed = "--b\r\nContent-Transfer-Encoding: 8bit\r\n\r\né\r\n--b\r\n\r\nsignature\r\n--b--";
    for (content, why) in [
        (part("Content-Type: multipart/signed; boundary=b", signed), Unencodable::Signed),
        (part("Content-Type: message/partial", "é"), Unencodable::Structure),
        (part("Content-Type: multipart/mixed", "é"), Unencodable::Structure),
        (part("Content-Transfer-Encoding: base64", "é"), Unencodable::Structure),
        (part("Content-Transfer-Encoding: x-uue", "é"), Unencodable::Structure),
        (part("Content-Type: text/plain\r\nContent-Type: text/html", "é"), Unencodable::Structure),
        (part("no field", "é"), Unencodable::Structure),
        (part("A: b", &"é".repeat(HELD_LINE_BYTES_MAX / 2 + 1)), Unencodable::TooLarge),
        (part(&"A: bcdef\r\n".repeat(HEADER_BYTES_MAX / 10), "é"), Unencodable::TooLarge),
    ] {
        assert_eq!(encode(content.as_bytes(), false, 4096), Err(why), "{content:.200}");
    }
    let signed = signed.replace('é', "e");
    let whole = part("Content-Type: multipart/signed; boundary=b", &signed);
    assert_eq!(encoded(&whole).as_deref(), Ok(&*whole));
    // A boundary that is used again within is nobody's.
    let twice = part(
        "Content-Type: multipart/mixed; boundary=b",
        "--b\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nx\r\n--b--",
    );
    assert_eq!(encoded(&twice), Err(Unencodable::Structure));
}

#[test]
fn depth_and_number_of_parts_are_bounded() {
    let nested = |depth: usize| -> String {
        let level =
            |n: usize| format!("Content-Type: multipart/mixed; boundary=b{n}x\r\n\r\n--b{n}x\r\n");
        (0..depth).map(level).collect()
    };
    assert!(encoded(&nested(DEPTH_MAX)).is_ok());
    assert_eq!(encoded(&nested(DEPTH_MAX + 1)), Err(Unencodable::TooLarge));
    let many = |parts: usize| {
        format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{}", "--b\r\n\r\n".repeat(parts))
    };
    assert!(encoded(&many(LEAVES_MAX)).is_ok());
    assert_eq!(encoded(&many(LEAVES_MAX + 1)), Err(Unencodable::TooLarge));
}

#[test]
fn only_lines_that_are_too_long_are_folded_for_who_takes_eight_bits() {
    let part = |body: &str| format!("--b\r\nContent-Transfer-Encoding: 8bit\r\n\r\n{body}\r\n");
    let head = "Content-Type: multipart/mixed; boundary=\"b\"\r\n\r\n";
    let (fits, long) = ("x".repeat(998), "é".repeat(500));
    let content = format!("{head}{}{}{}--b--\r\n", part("é"), part(&fits), part(&long));
    let out = String::from_utf8(encode(content.as_bytes(), true, 50).unwrap()).unwrap();
    assert!(out.starts_with(&format!("{head}{}{}--b\r\n", part("é"), part(&fits))), "{out}");
    assert!(
        out.lines().all(|line| line.len() <= 998) && out.matches("quoted-printable").count() == 1
    );
    assert_eq!(decode(out.as_bytes()), decode(content.as_bytes()));
}

#[test]
fn a_label_that_is_slightly_wrong_is_what_it_most_likely_means() {
    let content = |fields: &str| format!("MIME-Version: 1.0\r\n{fields}\r\né\r\n");
    let encoding = "Content-Transfer-Encoding";
    for label in
        ["8bits", "8bit\"", "\"8bit\"", "8-bit", "8Bit;", "utf-8", "ISO-8859-1", "8 bit", ""]
    {
        let out = encoded(&content(&format!("{encoding}: {label}\r\n"))).expect(label);
        assert!(out.contains(&format!("{encoding}: quoted-printable\r\n\r\n=C3=A9")), "{out}");
        assert_eq!(out.matches(encoding).count(), 1, "{out}");
    }
    for fields in [
        format!("{encoding}: 8bit\r\n{encoding}: 8bit\r\n"),
        format!("{encoding}: 7bit\r\n{encoding}: 8bit\r\n"),
        "Content-Type: text\r\n".to_owned(),
        "Content-Type:\r\n".to_owned(),
        "Content-Type: text/html\r\nContent-Type: text/html\r\n".to_owned(),
    ] {
        let out = encoded(&content(&fields)).expect(&fields);
        assert!(out.ends_with("=C3=A9\r\n") && out.matches(encoding).count() == 1, "{out}");
    }
    let two = format!("{encoding}: 8bit\r\n{encoding}: base64\r\n");
    assert_eq!(encoded(&content(&two)), Err(Unencodable::Structure));
    let raw = content(&format!("{encoding}: quoted-printable\r\n")).replace('é', "=C3=A4é=");
    let out = encoded(&raw).expect("it is as good as encoded");
    assert!(out.ends_with("\r\n\r\n=C3=A4=C3=A9=\r\n"), "{out}");
}

#[test]
fn what_stands_around_parts_is_for_nobody() {
    let head = "Content-Type: multipart/mixed; boundary=b\r\n";
    for label in ["", "Content-Transfer-Encoding: quoted-printable\r\n"] {
        let content =
            format!("{head}{label}\r\nfür alte\r\n--b\r\n\r\né\r\n--b--\r\nEnde für heute\r\n");
        let out = encoded(&content).expect("it can be encoded");
        assert!(out.is_ascii() && out.contains("\r\nf??r alte\r\n--b\r\n"), "{out}");
        assert!(out.contains("=C3=A9\r\n--b--\r\nEnde f??r heute\r\n"), "{out}");
    }
    let signed = head.replace("mixed", "signed");
    let content = format!("{signed}\r\n--b\r\n{head}\r\né\r\n--b--\r\n")
        .replace("=b\r\n\r\né", "=c\r\n\r\né");
    assert_eq!(encoded(&content), Err(Unencodable::Signed));
}

#[test]
fn a_part_that_must_stay_keeps_no_other_from_being_encoded() {
    let long = "word ".repeat(480);
    let head = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"zz\"\r\n\r\n";
    let part = |fields: &str, body: &str| format!("--zz\r\n{fields}\r\n{body}\r\n");
    let label = |name: &str| format!("Content-Transfer-Encoding: {name}\r\n");
    let stays = [
        part(&label("x-uuencode"), &long),
        part("Content-Type: message/partial\r\n", &long),
        part(
            "Content-Type: multipart/signed; boundary=s\r\n",
            &format!("--s\r\n\r\n{long}\r\n--s\r\n\r\nsignature\r\n--s--"),
        ),
    ]
    .concat();
    let changes = [
        part("Content-Type: text/html\r\n", &long),
        part(&label("quoted-printable"), &"abc=20def ".repeat(200)),
        part(&label("base64"), &"QUJD".repeat(1_000)),
    ]
    .concat();
    let content = format!("{head}{changes}{stays}--zz--\r\n");
    for takes_eight_bit in [true, false] {
        let out = encode(content.as_bytes(), takes_eight_bit, 100).expect("it can be encoded");
        let out = String::from_utf8(out).expect("text");
        let (changed, rest) = out.split_at(out.find(&stays).expect("what stays"));
        assert_eq!(rest, format!("{stays}--zz--\r\n"));
        assert!(changed.lines().all(|line| line.len() <= 76), "{changed}");
        assert_eq!(
            decode(changed.as_bytes()),
            decode(format!("{head}{changes}").as_bytes()),
            "{changed}"
        );
    }
}

#[test]
fn long_fields_are_folded_and_others_stay() {
    let list = "<a@b.test>, ".repeat(100);
    let content = format!("Subject: x\r\nTo: {list}<c@d.test>\r\nX: y\r\n\r\nHello.\r\n");
    let out =
        String::from_utf8(encode(content.as_bytes(), true, 99).expect("it can")).expect("text");
    assert!(out.lines().all(|line| line.len() <= 78), "{out}");
    assert_eq!(out.replace("\r\n ", " "), content);
    let signed = format!(
        "Content-Type: multipart/signed; boundary=s\r\n\r\n--s\r\nX: {list}\r\n\r\nx\r\n--s--\r\n"
    );
    assert_eq!(encode(signed.as_bytes(), true, 99).as_deref(), Ok(signed.as_bytes()));
}

/// Lines of a body: nothing in them looks like a boundary.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let octet = prop_oneof![
        6 => 32u8..127, 3 => Just(b' '), 2 => Just(b'='), 2 => Just(b'.'), 1 => Just(b'\t'),
        3 => 0x80u8..=0xff, 1 => 1u8..9,
    ];
    let line = prop_oneof![
        8 => prop::collection::vec(octet.clone(), 0..90),
        1 => prop::collection::vec(octet, 900..1100),
    ];
    (prop::collection::vec(line, 0..6), any::<bool>()).prop_map(|(mut lines, ends)| {
        for line in &mut lines {
            if line.starts_with(b"--") {
                line[0] = b'+';
            }
        }
        let mut body = lines.join(&b"\r\n"[..]);
        body.extend_from_slice(if ends { b"\r\n" } else { b"" });
        body
    })
}

fn leaf() -> impl Strategy<Value = Vec<u8>> {
    let kinds = prop::sample::select(vec![
        "",
        "Content-Type: text/plain\r\n",
        "Content-Type: TEXT/html;\r\n charset=x\r\n",
        "Content-Type: application/octet-stream\r\n",
        "content-type: image/png; name=\"a;b\"\r\n",
        "Content-Type: message/global-headers\r\n",
    ]);
    let labels = prop::sample::select(vec![
        "",
        "Content-Transfer-Encoding: 7bit\r\n",
        "Content-Transfer-Encoding: 8BIT\r\n",
        "Content-Transfer-Encoding:\r\n binary\r\n",
    ]);
    (kinds, labels, body()).prop_map(|(kind, label, body)| {
        [kind.as_bytes(), label.as_bytes(), b"\r\n", &body].concat()
    })
}

/// A whole message; boundaries are told apart by the level, which `level` counts down.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let nested = leaf().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            3 => (prop::collection::vec(inner.clone(), 1..4), any::<u32>(), any::<bool>())
                .prop_map(|(parts, number, is_closed)| {
                    let mark = format!("=_{number:08x}");
                    let mut whole = format!(
                        "Content-Type: multipart/mixed; boundary=\"{mark}\"\r\n\
                         Content-Transfer-Encoding: 8bit\r\n\r\nbefore"
                    ).into_bytes();
                    for part in parts {
                        whole.extend_from_slice(format!("\r\n--{mark}\r\n").as_bytes());
                        whole.extend_from_slice(&part);
                    }
                    let end = if is_closed { format!("\r\n--{mark}--\r\nbehind") } else { String::new() };
                    whole.extend_from_slice(end.as_bytes());
                    whole
                }),
            1 => inner.prop_map(|inner| {
                [&b"Content-Type: message/rfc822\r\n\r\nSubject: inner\r\n"[..], &inner].concat()
            }),
        ]
    });
    nested.prop_map(|part| [&b"From: a@b\r\nMIME-Version: 1.0\r\n"[..], &part].concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn decoded_it_is_what_it_was(content in message(), step in 1usize..300) {
        let out = encode(&content, false, step).unwrap();
        prop_assert!(out.is_ascii());
        prop_assert!(out.split(|b| *b == b'\n').all(|line| line.len() <= 999));
        prop_assert_eq!(decode(&out), decode(&content));
        // What is fit stays to the letter.
        prop_assert_eq!(encode(&out, false, step), Ok(out));
    }

    #[test]
    fn nothing_makes_it_panic(
        words in prop::collection::vec(prop::sample::select(vec![
            "Content-Type: ", "multipart/mixed; ", "multipart/signed; ", "boundary=", "\"b", "b", "\"",
            "\\", ";", "--b", "--", "\r\n", "\r\n\r\n", "\n", "\r", "message/rfc822", "text/plain", "/",
            "Content-Transfer-Encoding: ", "8bit", "base64", "é", " ", "=", "(", "MIME-Version: 1.0",
        ]), 0..60),
        noise in prop::collection::vec(any::<u8>(), 0..20),
        step in 1usize..20,
        takes_eight_bit: bool,
    ) {
        let content = [words.concat().as_bytes(), &noise].concat();
        if let Ok(out) = encode(&content, takes_eight_bit, step) {
            prop_assert!(out.len() <= 4 * content.len() + 1000 * (1 + words.len()));
        }
    }
}
