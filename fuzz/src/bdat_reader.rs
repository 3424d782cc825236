//! The reader of BDAT against a reference that looks at the whole content at once.

use crate::stream::{Cut, Item, in_pieces, items};
use smtp::server::BareNewline;
use smtp::testing::escape::escape;
use smtp::testing::{content, model};

/// The first byte chooses the mode and the cut; an order begins the next chunk.
pub fn run(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let mode = if choice & 1 == 0 { BareNewline::Reject } else { BareNewline::Normalize };
    let mut chunks: Vec<Vec<u8>> = vec![Vec::new()];
    for item in items(rest) {
        match item {
            Item::Bytes(bytes) => chunks.last_mut().expect("never empty").extend_from_slice(bytes),
            Item::Order(..) => chunks.push(Vec::new()),
        }
    }
    let verdict = model::bdat(&chunks.concat());
    let mut wire = Vec::new();
    for (number, chunk) in chunks.iter().enumerate() {
        let last = if number + 1 == chunks.len() { " LAST" } else { "" };
        wire.extend_from_slice(format!("BDAT {}{last}\r\n", chunk.len()).as_bytes());
        wire.extend_from_slice(chunk);
    }
    wire.extend_from_slice(b"NOOP\r\n");
    let mut traces = Vec::new();
    for cut in [Cut::Whole, Cut::Bytes, Cut::Seeded(choice)] {
        let mut driver = content::ready(mode, false);
        in_pieces(&wire, cut, |piece| driver.feed(piece));
        let stored: Vec<_> = driver.stored.iter().map(|stored| &stored.content).collect();
        let refused = verdict.bare && mode == BareNewline::Reject;
        let expected: &[&Vec<u8>] = if refused { &[] } else { &[&verdict.stored] };
        assert_eq!(stored, expected, "{}", escape(&wire));
        let said = |start: &str| driver.trace.iter().filter(|l| l.starts_with(start)).count();
        assert_eq!(said("S: 550 5.6.0"), usize::from(refused));
        assert_eq!(said("S: "), chunks.len() + 1, "a reply to each chunk and to NOOP");
        assert_eq!(driver.trace.last().map(String::as_str), Some("S: 250 2.0.0 Ok"));
        traces.push(driver.trace);
    }
    assert!(traces.iter().all(|trace| *trace == traces[0]), "{traces:?}");
}
