//! BER from anything: the reader and the skimmer agree, errors have a place within, and how a stream is cut
//! changes nothing.

use crate::stream::{Cut, in_pieces};
use x400::ber::{BerError, NESTING_MAX, Reader, Skimmed, Skimmer};

/// The first byte is how deep elements are reported, and how the stream is cut.
pub fn run(data: &[u8]) {
    let Some((&order, octets)) = data.split_first() else { return };
    let read = walk(Reader::new(octets), 1);
    if let Err(error) = &read {
        assert!(error.at <= octets.len() as u64, "{error} beyond the end");
    }
    let all = skim(octets, NESTING_MAX, Cut::Whole);
    assert_eq!(read.is_ok(), all.is_ok(), "{read:?} {all:?}");
    if let (Ok(elements), Ok(skimmed)) = (&read, &all) {
        assert_eq!(2 * elements, skimmed.marks.len());
    }
    let levels = usize::from(order & 0x1F) + 1;
    let whole = skim(octets, levels, Cut::Whole);
    for cut in [Cut::Bytes, Cut::Seeded(order)] {
        assert_eq!(whole, skim(octets, levels, cut), "{cut:?} makes a difference");
    }
}

/// Reads everything, and every value of everything; how many elements there are.
fn walk(reader: Reader<'_>, depth: usize) -> Result<usize, BerError> {
    assert!(depth <= NESTING_MAX + 1);
    let mut count = 0;
    for element in reader {
        let element = element?;
        count += 1;
        let _ = (element.integer(), element.boolean(), element.null(), element.oid());
        if let Ok(string) = element.octets() {
            let pieces: usize =
                element.segments().map(|piece| piece.expect("as before").len()).sum();
            assert_eq!(pieces, string.len());
        }
        if let Ok(bits) = element.bits() {
            let set = (0..bits.len()).filter(|&bit| bits.has(bit)).count();
            assert!(set <= bits.len() && !bits.has(bits.len()));
        }
        if element.constructed {
            count += walk(element.children()?, depth + 1)?;
        }
    }
    Ok(count)
}

#[derive(Debug, PartialEq)]
struct Skim {
    /// Begins and ends with what came before each.
    marks: Vec<(Vec<u8>, Skimmed)>,
}

fn skim(octets: &[u8], levels: usize, cut: Cut) -> Result<Skim, BerError> {
    let mut skimmer = Skimmer::new(levels);
    let mut skim = Skim { marks: Vec::new() };
    let (mut contents, mut fault) = (Vec::new(), None);
    in_pieces(octets, cut, |piece| {
        let mut rest = piece;
        while fault.is_none() {
            match skimmer.step(rest) {
                Err(error) => fault = Some(error),
                Ok(step) => {
                    let (taken, behind) = rest.split_at(step.consumed);
                    rest = behind;
                    match step.what {
                        Skimmed::NeedInput => {
                            assert!(rest.is_empty());
                            break;
                        }
                        Skimmed::Octets => contents.extend_from_slice(taken),
                        what => skim.marks.push((std::mem::take(&mut contents), what)),
                    }
                }
            }
        }
    });
    // A header or an end at the very end may have been taken without having been told.
    while fault.is_none() {
        match skimmer.step(&[]) {
            Err(error) => fault = Some(error),
            Ok(step) if step.what == Skimmed::NeedInput => break,
            Ok(step) => skim.marks.push((std::mem::take(&mut contents), step.what)),
        }
    }
    match fault {
        Some(error) => Err(error),
        None => skimmer.finish().map(|()| skim),
    }
}
