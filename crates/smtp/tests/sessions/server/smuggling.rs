//! Sequences with which two servers could disagree about where a message ends: the corpus in
//! `tests/smuggling`, and all short ones.

use smtp::server::BareNewline;
use smtp::testing::content;
use smtp::testing::escape::{escape, unescape};
use smtp::testing::model::{self, Verdict};
use smtp::testing::server::Driver;

const MODES: [BareNewline; 2] = [BareNewline::Reject, BareNewline::Normalize];

struct Case {
    clean: bool,
    wire: Vec<u8>,
    data: Vec<u8>,
    bdat: Vec<u8>,
}

fn corpus() -> Vec<Case> {
    let text = include_str!("../../smuggling/sequences.txt");
    let blocks = text.split("\n\n").filter(|block| block.contains("wire "));
    blocks
        .map(|block| {
            let field = |name: &str| {
                let mut lines = block.lines().filter_map(|line| line.strip_prefix(name));
                unescape(lines.next().unwrap_or_else(|| panic!("{name}missing in {block}")))
            };
            let clean = block.lines().any(|line| line == "clean");
            Case { clean, wire: field("wire "), data: field("data "), bdat: field("bdat ") }
        })
        .collect()
}

/// Whole, by bytes, and in two at each place.
fn splits(length: usize) -> impl Iterator<Item = Vec<usize>> {
    let bytes = std::iter::once((1..length).collect());
    bytes.chain((0..length).map(|at| vec![at]))
}

fn feed_split(driver: &mut Driver, input: &[u8], cuts: &[usize]) {
    let mut start = 0;
    for &cut in cuts {
        driver.feed(&input[start..cut]);
        start = cut;
    }
    driver.feed(&input[start..]);
}

#[test]
fn corpus_in_data() {
    let cases = corpus();
    assert!(cases.len() >= 30, "{} sequences", cases.len());
    for (case, mode) in cases.iter().flat_map(|case| MODES.map(|mode| (case, mode))) {
        let input = [&case.wire[..], b"\r\n.\r\nNOOP\r\n"].concat();
        // The last sequence byte and the CRLF may make a CR bare; `clean` speaks of both.
        let verdict =
            Verdict { taken: case.wire.len() + 5, bare: !case.clean, stored: case.data.clone() };
        for cuts in splits(input.len()) {
            let mut driver = content::ready(mode, true);
            feed_split(&mut driver, &input, &cuts);
            content::check(&driver, &verdict, mode, &escape(&case.wire));
        }
    }
}

#[test]
fn corpus_in_bdat() {
    for (case, mode) in corpus().iter().flat_map(|case| MODES.map(|mode| (case, mode))) {
        let length = case.wire.len();
        let mut input = format!("BDAT {length} LAST\r\n").into_bytes();
        input.extend_from_slice(&case.wire);
        input.extend_from_slice(b"NOOP\r\n");
        let verdict = Verdict { taken: length, bare: !case.clean, stored: case.bdat.clone() };
        for cuts in splits(input.len()) {
            let mut driver = content::ready(mode, false);
            feed_split(&mut driver, &input, &cuts);
            content::check(&driver, &verdict, mode, &escape(&case.wire));
        }
    }
}

/// A chunk border between any two octets changes nothing but the number of replies, and, where
/// the first chunk is refused already, which of them says so.
#[test]
fn corpus_across_chunks() {
    for case in corpus() {
        for at in 0..=case.wire.len() {
            let (first, second) = case.wire.split_at(at);
            let mut driver = content::ready(BareNewline::Normalize, false);
            feed_chunks(&mut driver, first, second);
            let stored: Vec<_> = driver.stored.iter().map(|stored| &stored.content).collect();
            assert_eq!(stored, [&case.bdat], "{} | {}", escape(first), escape(second));

            let mut driver = content::ready(BareNewline::Reject, false);
            feed_chunks(&mut driver, first, second);
            assert_eq!(driver.stored.len(), usize::from(case.clean), "{}", escape(&case.wire));
            let refused = driver.trace.iter().filter(|line| line.starts_with("S: 550 5.6.0"));
            assert_eq!(refused.count(), usize::from(!case.clean), "{}", escape(&case.wire));
            assert_eq!(driver.trace.last().map(String::as_str), Some("S: 250 2.0.0 Ok"));
        }
    }
}

fn feed_chunks(driver: &mut Driver, first: &[u8], second: &[u8]) {
    driver.feed(format!("BDAT {}\r\n", first.len()).as_bytes());
    driver.feed(first);
    driver.feed(format!("BDAT {} LAST\r\n", second.len()).as_bytes());
    driver.feed(second);
    driver.feed(b"NOOP\r\n");
}

/// Every string of up to seven of CR, LF, dot and a letter, as it stands and behind a line, agrees
/// with the model about the end, whether it is refused, and what is stored.
#[test]
fn all_short_sequences() {
    let mut compared = 0;
    for length in 0..=7_u32 {
        for number in 0..4_usize.pow(length) {
            let letter = |at: u32| b"\r\n.a"[number / 4_usize.pow(at) % 4];
            let wire: Vec<u8> = (0..length).map(letter).collect();
            let mode = MODES[number % 2];
            compare_data(&wire, mode);
            compare_bdat(&wire, mode);
            compared += 1;
        }
    }
    assert_eq!(compared, (4_usize.pow(8) - 1) / 3);
}

fn compare_data(wire: &[u8], mode: BareNewline) {
    let stream = [b"x\r\n", wire, b"\r\n.\r\n"].concat();
    let verdict = model::data(&stream).expect("an end");
    let mut driver = content::ready(mode, true);
    let (content, _) = stream.split_at(verdict.taken);
    let middle = content.len() / 2;
    driver.feed(&content[..middle]);
    driver.feed(&content[middle..]);
    driver.feed(b"NOOP\r\n");
    content::check(&driver, &verdict, mode, &escape(&stream));
}

fn compare_bdat(wire: &[u8], mode: BareNewline) {
    let mut driver = content::ready(mode, false);
    driver.feed(format!("BDAT {} LAST\r\n", wire.len()).as_bytes());
    let middle = wire.len() / 2;
    driver.feed(&wire[..middle]);
    driver.feed(&wire[middle..]);
    driver.feed(b"NOOP\r\n");
    content::check(&driver, &model::bdat(wire), mode, &escape(wire));
}
