//! Input that is mostly a stream of bytes, as a peer sends it, with orders to the driver in
//! between: so that seeds and findings can be read, and a dictionary of commands helps.

/// Bytes from here on give orders; the next byte is their argument. UTF-8 has none of them.
const ORDERS_FROM: u8 = 0xf8;

/// A piece of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'a> {
    /// What the peer sends at once.
    Bytes(&'a [u8]),
    /// What happens then: a number from 0 to 7, and an argument.
    Order(u8, u8),
}

/// The items of an input, in order.
pub(crate) fn items(input: &[u8]) -> impl Iterator<Item = Item<'_>> {
    let mut rest = input;
    std::iter::from_fn(move || {
        let (&first, behind) = rest.split_first()?;
        if first >= ORDERS_FROM {
            let argument = behind.first().copied().unwrap_or(0);
            rest = behind.get(1..).unwrap_or_default();
            return Some(Item::Order(first - ORDERS_FROM, argument));
        }
        let end = rest.iter().position(|&b| b >= ORDERS_FROM).unwrap_or(rest.len());
        let (bytes, behind) = rest.split_at(end);
        rest = behind;
        Some(Item::Bytes(bytes))
    })
}

/// Calls `feed` with the pieces of `bytes`: whole, byte by byte, or with lengths made of `cut`.
pub(crate) fn in_pieces(bytes: &[u8], cut: Cut, mut feed: impl FnMut(&[u8])) {
    let mut rest = bytes;
    let mut state = u64::from(match cut {
        Cut::Seeded(seed) => seed,
        _ => 0,
    }) + 1;
    while !rest.is_empty() {
        let length = match cut {
            Cut::Whole => rest.len(),
            Cut::Bytes => 1,
            Cut::Seeded(_) => {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                1 + (state % 17) as usize
            }
        };
        let (piece, behind) = rest.split_at(length.min(rest.len()));
        feed(piece);
        rest = behind;
    }
}

/// How input is cut into pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    Whole,
    Bytes,
    Seeded(u8),
}
