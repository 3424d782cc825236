//! BER: what is read, what is refused and where, what is written, and streams cut anywhere.

use proptest::prelude::*;
use x400::ber::{
    BerFault, Class, NESTING_MAX, Reader, Skimmed, Skimmer, Tag, Writer, header_bytes,
    oid_from_text, oid_text,
};

/// The octets that hexadecimal digits stand for; blanks are skipped.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Reads everything, down to the last element; how many there are.
fn walk(reader: Reader<'_>) -> Result<usize, x400::ber::BerError> {
    let mut count = 0;
    for element in reader {
        let element = element?;
        count += 1;
        if element.constructed {
            count += walk(element.children()?)?;
        }
    }
    Ok(count)
}

#[test]
fn broken_encodings_are_refused_at_their_octet() {
    let past = |length, available| BerFault::PastEnd { length, available };
    let rows: &[(&str, BerFault, u64)] = &[
        ("04", BerFault::HeaderCut, 0),
        ("0400 1f", BerFault::HeaderCut, 2),
        ("0400 1f81", BerFault::HeaderCut, 2),
        ("04 82 01", BerFault::HeaderCut, 0),
        ("04 03 0102", past(3, 2), 0),
        ("30 05 04 04 010203", past(4, 3), 2),
        ("30 80 04 03 0102", past(3, 2), 2),
        ("30 80 04 01 01", BerFault::NeverClosed, 0),
        ("30 80 04 01 01 00", BerFault::NeverClosed, 0),
        ("30 80 30 80 0000", BerFault::NeverClosed, 0),
        ("30 06 30 80 04 02 0102", BerFault::NeverClosed, 2),
        ("04 80 0000", BerFault::IndefinitePrimitive, 0),
        ("30 80 04 80 0000 0000", BerFault::IndefinitePrimitive, 2),
        ("0000", BerFault::StrayEnd, 0),
        ("30 02 0000", BerFault::StrayEnd, 2),
        ("30 80 00 01 00 0000", BerFault::StrayEnd, 2),
        ("20 00", BerFault::StrayEnd, 0),
        ("1f 00 00", BerFault::StrayEnd, 0),
        ("30 80 00 81 00", BerFault::StrayEnd, 2),
        ("04 FF 00", BerFault::Length, 0),
        ("04 89 000000000000000001 00", BerFault::Length, 0),
        ("04 88 8000000000000000", BerFault::Length, 0),
        ("1f 80 01 00", BerFault::TagNumber, 0),
        ("1f 90 80 80 80 00 00", BerFault::TagNumber, 0),
    ];
    for (text, fault, at) in rows {
        let octets = hex(text);
        let error = walk(Reader::new(&octets)).expect_err(text);
        assert_eq!((&error.fault, error.at), (fault, *at), "{text}");
        assert!(error.to_string().contains(&format!("octet {at}")), "{error}");
    }
}

/// So many elements within each other.
fn nested(depth: usize, is_definite: bool) -> Vec<u8> {
    let mut octets = Vec::new();
    for _ in 0..depth {
        let mut outer = Writer::new();
        if is_definite {
            outer.constructed(Tag::SEQUENCE, |inner| inner.raw(&octets));
        } else {
            outer.raw(&[0x30, 0x80]);
            outer.raw(&octets);
            outer.raw(&[0, 0]);
        }
        octets = outer.into_vec();
    }
    octets
}

#[test]
fn nesting_ends_at_its_limit() {
    for is_definite in [true, false] {
        let at_limit = nested(NESTING_MAX, is_definite);
        assert_eq!(walk(Reader::new(&at_limit)), Ok(NESTING_MAX));
        let over = nested(NESTING_MAX + 1, is_definite);
        let error = walk(Reader::new(&over)).unwrap_err();
        assert_eq!(error.fault, BerFault::TooDeep);
        assert_eq!(skim(&over, 1, NESTING_MAX).unwrap_err().fault, BerFault::TooDeep);
        assert!(skim(&at_limit, 1, NESTING_MAX).is_ok());
    }
    let endless = [0x30, 0x80].repeat(100_000);
    assert_eq!(walk(Reader::new(&endless)).unwrap_err().fault, BerFault::TooDeep);
    assert_eq!(skim(&endless, 7, 1).unwrap_err().fault, BerFault::TooDeep);
}

#[test]
fn lengths_mix_and_need_not_be_minimal() {
    let octets =
        hex("30 80 02 820001 05 24 80 04 01 61 24 05 04 81 02 62 63 0000 bf8148 84 00000000 0000");
    let mut outer = Reader::new(&octets);
    let sequence = outer.read(Tag::SEQUENCE).unwrap();
    outer.end().unwrap();
    assert_eq!(sequence.encoded, octets);
    let mut fields = sequence.children().unwrap();
    assert_eq!(fields.read(Tag::INTEGER).unwrap().integer(), Ok(5));
    let string = fields.read(Tag::OCTET_STRING).unwrap();
    assert_eq!(&*string.octets().unwrap(), b"abc");
    let pieces: Vec<_> = string.segments().map(Result::unwrap).collect();
    assert_eq!(pieces, [&b"a"[..], b"bc"]);
    assert_eq!(fields.read_if(Tag::context(1)).unwrap(), None);
    let last = fields.read_if(Tag::context(200)).unwrap().unwrap();
    assert!(last.constructed && last.contents.is_empty());
    fields.end().unwrap();
}

#[test]
fn errors_of_a_part_count_from_its_base() {
    let octets = hex("30 05 04 04 010203");
    let error = walk(Reader::with_base(&octets, 1_000)).unwrap_err();
    assert_eq!(error.at, 1_002);
}

#[test]
fn what_must_be_there_is_named() {
    let octets = hex("02 01 05");
    let unexpected = BerFault::Unexpected { found: Tag::INTEGER, wanted: Tag::SET };
    assert_eq!(Reader::new(&octets).read(Tag::SET).unwrap_err(), unexpected.at(0));
    let missing = BerFault::Missing { wanted: Some(Tag::SET) };
    assert_eq!(Reader::new(&[]).read(Tag::SET).unwrap_err(), missing.at(0));
    assert_eq!(Reader::new(&[]).any().unwrap_err(), BerFault::Missing { wanted: None }.at(0));
    assert_eq!(Reader::new(&octets).end().unwrap_err(), BerFault::Trailing.at(0));
    let element = Reader::new(&octets).any().unwrap();
    assert_eq!(element.children().unwrap_err(), BerFault::NotConstructed.at(0));
    let explicit = hex("A0 06 02 01 05 02 01 06");
    let outer = Reader::new(&explicit).any().unwrap();
    assert_eq!(outer.only_child().unwrap_err(), BerFault::Trailing.at(5));
    assert_eq!(outer.integer().unwrap_err(), BerFault::NotPrimitive.at(0));
    assert_eq!(Tag::application(4).to_string(), "[APPLICATION 4]");
}

#[test]
fn integers_at_their_edges() {
    let rows: &[(&str, Result<i64, BerFault>)] = &[
        ("02 01 00", Ok(0)),
        ("02 01 80", Ok(-128)),
        ("02 02 0080", Ok(128)),
        ("02 08 7FFFFFFFFFFFFFFF", Ok(i64::MAX)),
        ("02 08 8000000000000000", Ok(i64::MIN)),
        ("02 0A 00007FFFFFFFFFFFFFFF", Ok(i64::MAX)),
        ("02 09 FFFFFFFFFFFFFFFFFF", Ok(-1)),
        ("02 09 008000000000000000", Err(BerFault::IntegerRange)),
        ("02 09 FF7FFFFFFFFFFFFFFF", Err(BerFault::IntegerRange)),
        ("02 00", Err(BerFault::Integer)),
    ];
    for (text, wanted) in rows {
        let octets = hex(text);
        let found = Reader::new(&octets).any().unwrap().integer();
        assert_eq!(found.map_err(|error| error.fault), *wanted, "{text}");
    }
    let value = hex("02 02 7FFF");
    let element = Reader::new(&value).any().unwrap();
    assert_eq!(element.unsigned(32_767), Ok(32_767));
    assert_eq!(element.unsigned(32_766).unwrap_err().fault, BerFault::IntegerRange);
}

#[test]
fn bits_at_their_edges() {
    let read = |text: &str| {
        let octets = hex(text);
        let element = Reader::new(&octets).any().unwrap();
        element.bits().map(|bits| (bits.len(), bits.has(0), bits.has(4), bits.has(99)))
    };
    assert_eq!(read("03 02 03 88"), Ok((5, true, true, false)));
    assert_eq!(read("03 03 07 A8 00"), Ok((9, true, true, false)));
    assert_eq!(read("03 01 00"), Ok((0, false, false, false)));
    assert_eq!(read("23 80 03 02 00 80 03 02 04 F0 0000"), Ok((12, true, false, false)));
    for text in ["03 00", "03 02 08 80", "03 01 01", "23 08 03 02 01 80 03 02 00 80"] {
        assert_eq!(read(text).unwrap_err().fault, BerFault::BitString, "{text}");
    }
    // Bit 4 of "03 02 04 F8" is unused, whatever it is.
    assert_eq!(read("03 02 04 F8"), Ok((4, true, false, false)));
}

#[test]
fn a_segment_must_be_a_string() {
    let octets = hex("24 07 04 01 61 30 02 0500");
    let error = Reader::new(&octets).any().unwrap().octets().unwrap_err();
    assert_eq!(error, BerFault::Segment { found: Tag::SEQUENCE }.at(5));
}

#[test]
fn object_identifiers() {
    for text in [
        "2.6.0.1.6",
        "1.3.26.0.4406.0.4.1",
        "2.16.840.1.113694.2.2.1.1",
        "0.0",
        "2.999.18446744073709551615",
    ] {
        let octets = oid_from_text(text).expect(text);
        assert_eq!(oid_text(&octets), text);
        let mut writer = Writer::new();
        writer.primitive(Tag::OID, &octets);
        let element = Reader::new(writer.as_slice()).any().unwrap();
        assert_eq!(element.oid(), Ok(&octets[..]));
    }
    assert_eq!(oid_from_text("2.6.0.1.6").unwrap(), hex("56000106"));
    for text in ["", "1", "3.1", "1.40", "1.2.", "1.+2", "1.2.18446744073709551616"] {
        assert_eq!(oid_from_text(text), None, "{text}");
    }
    for text in ["06 00", "06 02 5681", "06 0B 51FFFFFFFFFFFFFFFFFF7F"] {
        let octets = hex(text);
        assert_eq!(
            Reader::new(&octets).any().unwrap().oid().unwrap_err().fault,
            BerFault::Oid,
            "{text}"
        );
    }
}

#[test]
fn what_is_written_is_minimal() {
    for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
        let mut writer = Writer::new();
        writer.constructed(Tag::context(31), |inner| inner.raw(&vec![0; length]));
        let mut header = Writer::new();
        header.header(Tag::context(31), true, length as u64);
        assert_eq!(header.as_slice().len(), header_bytes(Tag::context(31), length as u64));
        assert!(writer.as_slice().starts_with(header.as_slice()));
        assert_eq!(writer.as_slice().len(), header.as_slice().len() + length);
    }
    let mut writer = Writer::new();
    for value in [0, 127, 128, -128, -129, i64::MAX, i64::MIN] {
        writer.integer(Tag::INTEGER, value);
    }
    writer.boolean(Tag::BOOLEAN, true);
    writer.null(Tag::NULL);
    writer.bits(Tag::BIT_STRING, &[0xFF, 0xFF], 5);
    let wanted = "020100 02017F 02020080 020180 0202FF7F 02087FFFFFFFFFFFFFFF 02088000000000000000
        0101FF 0500 030203F8";
    assert_eq!(writer.as_slice(), hex(wanted));
}

/// What a stream consists of, fed in pieces of this size: one line per element, contents in hex.
fn skim(octets: &[u8], piece: usize, levels: usize) -> Result<Vec<String>, x400::ber::BerError> {
    let mut skimmer = Skimmer::new(levels);
    let mut lines = Vec::new();
    let mut contents = String::new();
    for piece in octets.chunks(piece) {
        let mut rest = piece;
        loop {
            let step = skimmer.step(rest)?;
            let (taken, behind) = rest.split_at(step.consumed);
            rest = behind;
            match step.what {
                Skimmed::Octets => {
                    contents.extend(taken.iter().map(|octet| format!("{octet:02x}")))
                }
                Skimmed::NeedInput => break,
                Skimmed::Begin(begin) => {
                    lines.push(format!("{} < {begin:?}", std::mem::take(&mut contents)))
                }
                Skimmed::End { depth, at } => {
                    lines.push(format!("{} > {depth} {at}", std::mem::take(&mut contents)));
                }
            }
        }
        assert!(rest.is_empty());
    }
    skimmer.finish()?;
    assert!(skimmer.is_idle());
    assert_eq!(skimmer.at(), octets.len() as u64);
    Ok(lines)
}

#[test]
fn a_stream_is_skimmed_the_same_however_it_is_cut() {
    let octets = hex(
        "A0 80 31 0A 24 80 04 02 6162 0000 0500 24 80 04 01 61 24 03 04 01 62 0000 0000 bf8148 03 040161",
    );
    let whole = skim(&octets, usize::MAX, 2).unwrap();
    let wanted = [
        " < Begin { tag: [0], constructed: true, length: None, depth: 1, at: 0, contents_at: 2 }",
        " < Begin { tag: [UNIVERSAL 17], constructed: true, length: Some(10), depth: 2, at: 2, contents_at: 4 }",
        "248004026162000005 00 > 2 14",
        " < Begin { tag: [UNIVERSAL 4], constructed: true, length: None, depth: 2, at: 14, contents_at: 16 }",
    ];
    assert_eq!(whole[0], wanted[0]);
    assert_eq!(whole[1], wanted[1]);
    assert_eq!(whole[2], wanted[2].replacen("05 00", "0500", 1));
    assert_eq!(whole[3], wanted[3]);
    assert_eq!(whole[4], "0401612403040162 > 2 26");
    for levels in 1..5 {
        let whole = skim(&octets, usize::MAX, levels).unwrap();
        for piece in 1..octets.len() {
            assert_eq!(skim(&octets, piece, levels).unwrap(), whole, "{piece} {levels}");
        }
    }
}

#[test]
fn a_broken_stream_is_told_at_its_octet() {
    let past = |length, available| BerFault::PastEnd { length, available };
    let rows: &[(&str, BerFault, u64)] = &[
        ("30 80 04 01 01", BerFault::NeverClosed, 0),
        ("30 80 04 01 01 00", BerFault::HeaderCut, 5),
        ("30 05 04 04 010203", past(4, 3), 2),
        ("30 03 04 01", past(3, 2), 0),
        ("30 02 30 80 0000", BerFault::NeverClosed, 2),
        ("30 02 0000", BerFault::StrayEnd, 2),
        ("0000", BerFault::StrayEnd, 0),
        ("30 80 00 81 00", BerFault::StrayEnd, 2),
        ("04 80", BerFault::IndefinitePrimitive, 0),
    ];
    for (text, fault, at) in rows {
        let octets = hex(text);
        for piece in 1..=octets.len() {
            let error =
                skim(&octets, piece, 1).and_then(|_| skim(&octets, piece, 4)).expect_err(text);
            assert_eq!((&error.fault, error.at), (fault, *at), "{text} by {piece}");
        }
    }
}

/// A tree of elements, encoded with lengths of every kind.
fn tree() -> impl Strategy<Value = Vec<u8>> {
    let tag = (0_u8..4, prop_oneof![1_u32..31, 31_u32..40_000, Just(u32::MAX)]).prop_map(
        |(class, number)| {
            let class = [Class::Universal, Class::Application, Class::Context, Class::Private]
                [usize::from(class)];
            Tag { class, number }
        },
    );
    let leaf =
        (tag.clone(), proptest::collection::vec(any::<u8>(), 0..200)).prop_map(|(tag, octets)| {
            let mut writer = Writer::new();
            writer.primitive(tag, &octets);
            writer.into_vec()
        });
    leaf.prop_recursive(6, 64, 5, move |inner| {
        (tag.clone(), any::<bool>(), proptest::collection::vec(inner, 0..5)).prop_map(
            |(tag, is_definite, parts)| {
                let parts = parts.concat();
                let mut writer = Writer::new();
                if is_definite {
                    writer.constructed(tag, |inner| inner.raw(&parts));
                } else {
                    let mut front = Writer::new();
                    front.header(tag, true, 0);
                    let front = front.into_vec();
                    writer.raw(&front[..front.len() - 1]);
                    writer.raw(&[0x80]);
                    writer.raw(&parts);
                    writer.raw(&[0, 0]);
                }
                writer.into_vec()
            },
        )
    })
}

proptest! {
    #[test]
    fn reader_and_skimmer_agree(octets in tree(), piece in 1_usize..300, levels in 1_usize..9) {
        let count = walk(Reader::new(&octets)).unwrap();
        let all = skim(&octets, piece, NESTING_MAX).unwrap();
        prop_assert_eq!(all.len(), 2 * count);
        prop_assert_eq!(skim(&octets, piece, levels).unwrap(), skim(&octets, usize::MAX, levels).unwrap());
    }

    #[test]
    fn anything_is_read_without_harm(octets in proptest::collection::vec(any::<u8>(), 0..300), piece in 1_usize..20) {
        let read = walk(Reader::new(&octets)).is_ok();
        // What is read to the last element can be skimmed to the last.
        let skimmed = skim(&octets, piece, NESTING_MAX).is_ok();
        prop_assert_eq!(read, skimmed);
        for element in Reader::new(&octets).flatten() {
            let _ = (element.integer(), element.bits().is_ok(), element.octets().is_ok(), element.oid().is_ok());
        }
    }
}
