//! Parts of a content that are stored as received, but never sent.

use std::ops::Range;

/// Ranges of a content, in order and not adjacent, that are not delivered, signed or returned to the sender.
///
/// Octets of the content are counted in two forms: as *stored*, and as *sent*.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Omitted(Vec<Range<u64>>);

impl Omitted {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of octets that are stored and not sent.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// Adds a range, as stored; it may be adjacent to existing ones.
    pub fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        self.0.push(range);
        self.0.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::with_capacity(self.0.len());
        for range in self.0.drain(..) {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        self.0 = joined;
    }

    /// The stored position of the octet at `sent`, up to the next omitted range.
    #[must_use]
    pub fn stored(&self, sent: u64) -> Range<u64> {
        let mut stored = sent;
        for range in &self.0 {
            if range.start > stored {
                return stored..range.start;
            }
            stored += range.end - range.start;
        }
        stored..u64::MAX
    }

    /// The sent parts of a piece that is stored at `offset`, as ranges of the piece.
    pub fn sent_of(&self, offset: u64, bytes: usize) -> impl Iterator<Item = Range<usize>> {
        let end = offset + bytes as u64;
        let starts = std::iter::once(offset).chain(self.0.iter().map(move |range| range.end));
        let ends = self.0.iter().map(|range| range.start).chain(std::iter::once(end));
        starts.zip(ends).filter_map(move |(from, to)| {
            let (from, to) = (from.max(offset), to.min(end));
            // Bounded by the length of the piece.
            (from < to).then(|| (from - offset) as usize..(to - offset) as usize)
        })
    }

    /// The form in records: start and end of each range, 8 octets each, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = self.0.iter().flat_map(|range| [range.start, range.end]);
        numbers.flat_map(u64::to_le_bytes).collect()
    }

    /// The reverse of [`Omitted::to_bytes`]; ranges outside a content of this length are ignored.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], content_bytes: u64) -> Omitted {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let mut omitted = Omitted::default();
        for pair in bytes.chunks_exact(16) {
            let (start, end) = pair.split_at(8);
            let range = number(start)..number(end).min(content_bytes);
            omitted.add(range);
        }
        omitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn omitted(ranges: &[Range<u64>]) -> Omitted {
        let mut omitted = Omitted::default();
        ranges.iter().for_each(|range| omitted.add(range.clone()));
        omitted
    }

    #[test]
    fn ranges_are_joined_and_kept() {
        let all = omitted(&[5..7, 1..2, 2..3, 6..9, 4..4]);
        assert_eq!(all.0, [1..3, 5..9]);
        assert_eq!(all.bytes(), 6);
        assert_eq!(Omitted::from_bytes(&all.to_bytes(), 100), all);
        assert_eq!(Omitted::from_bytes(&all.to_bytes(), 6).0, [1..3, 5..6]);
        // Of a damaged record nothing is left out that is not there.
        let reversed = [9u64.to_le_bytes(), 5u64.to_le_bytes()].concat();
        assert!(Omitted::from_bytes(&reversed, 100).is_empty());
        assert!(Omitted::from_bytes(&reversed[..15], 100).is_empty());
        assert_eq!(all.stored(0), 0..1);
        assert_eq!(all.stored(1), 3..5);
        assert_eq!(all.stored(3), 9..u64::MAX);
        assert_eq!(omitted(&[0..2, 2..4]).stored(0), 4..u64::MAX);
    }

    proptest! {
        #[test]
        fn what_is_sent_is_the_rest_however_it_is_asked_for(
            ranges in prop::collection::vec((0u64..40, 0u64..10), 0..5),
            cut in 1usize..12,
        ) {
            let content: Vec<u8> = (0..40).collect();
            let mut all = Omitted::default();
            let mut left: Vec<u8> = content.clone();
            for (start, length) in ranges {
                let end = (start + length).min(40);
                all.add(start..end);
                left.retain(|octet| !(start..end).contains(&u64::from(*octet)));
            }
            let mut by_pieces = Vec::new();
            for (n, piece) in content.chunks(cut).enumerate() {
                for range in all.sent_of((n * cut) as u64, piece.len()) {
                    by_pieces.extend_from_slice(&piece[range]);
                }
            }
            prop_assert_eq!(&by_pieces, &left);
            let by_offsets: Vec<u8> = (0..40 - all.bytes())
                .map(|sent| content[all.stored(sent).start as usize])
                .collect();
            prop_assert_eq!(&by_offsets, &left);
        }
    }
}
