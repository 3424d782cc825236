//! BER (X.690), as much of it as load needs: written with definite lengths, read tolerantly.

/// Indefinite lengths within each other are followed so deep.
const DEPTH_MAX: u32 = 32;

/// Appends identifier and length of an element whose contents follow.
pub(super) fn push_header(out: &mut Vec<u8>, tag: u8, length: usize) {
    out.push(tag);
    if let Ok(short @ 0..=0x7f) = u8::try_from(length) {
        return out.push(short);
    }
    let bytes = length.to_be_bytes();
    let skipped = bytes.iter().take_while(|&&byte| byte == 0).count();
    out.push(0x80 | (bytes.len() - skipped) as u8);
    out.extend(bytes.iter().skip(skipped));
}

/// An element with these contents.
pub(super) fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(length + 6);
    push_header(&mut out, tag, length);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// An INTEGER (or what is encoded like one) that isn't negative.
pub(super) fn integer(tag: u8, value: u32) -> Vec<u8> {
    let bytes = u64::from(value).to_be_bytes();
    // The first bit is the sign (X.690 §8.3).
    let skipped = bytes.iter().take_while(|&&byte| byte == 0).count().min(bytes.len() - 1);
    let negative = bytes.get(skipped).is_some_and(|byte| byte & 0x80 != 0);
    let skipped = skipped - usize::from(negative && skipped > 0);
    element(tag, &[bytes.get(skipped..).unwrap_or_default()])
}

/// An element: the first octet of its identifier, and its contents (without the end-of-contents octets).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BerElement<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
}

impl BerElement<'_> {
    /// Calls `piece` with the octets of a string, of each of its segments if it is constructed (X.690 §8.7.3).
    pub(super) fn for_each_piece(self, piece: &mut impl FnMut(&[u8])) {
        self.pieces_down_to(DEPTH_MAX, piece);
    }

    fn pieces_down_to(self, depth: u32, piece: &mut impl FnMut(&[u8])) {
        if self.tag & 0x20 == 0 {
            return piece(self.content);
        }
        let Some(depth) = depth.checked_sub(1) else { return };
        children(self.content).for_each(|segment| segment.pieces_down_to(depth, piece));
    }
}

/// The first element, and what is behind it.
pub(super) fn read(bytes: &[u8]) -> Option<(BerElement<'_>, &[u8])> {
    read_down_to(bytes, DEPTH_MAX)
}

fn read_down_to(bytes: &[u8], depth: u32) -> Option<(BerElement<'_>, &[u8])> {
    let (&tag, mut rest) = bytes.split_first()?;
    if tag & 0x1f == 0x1f {
        // A number above 30 takes more octets, all but the last with the first bit set (X.690 §8.1.2.4).
        let more = rest.iter().take_while(|&&byte| byte & 0x80 != 0).count();
        rest = rest.get(more + 1..)?;
    }
    let (&first, rest) = rest.split_first()?;
    if first == 0x80 {
        return indefinite(tag, rest, depth.checked_sub(1)?);
    }
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        _ => {
            let (octets, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let length = octets.iter().try_fold(0_usize, |length, &octet| {
                length.checked_mul(256)?.checked_add(usize::from(octet))
            });
            (length?, rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((BerElement { tag, content }, rest))
}

/// Contents that end with end-of-contents octets (X.690 §8.1.5), which only constructed ones can.
fn indefinite(tag: u8, contents: &[u8], depth: u32) -> Option<(BerElement<'_>, &[u8])> {
    let mut rest = contents;
    if tag & 0x20 == 0 {
        return None;
    }
    loop {
        if let Some(behind) = rest.strip_prefix(&[0, 0]) {
            let content = contents.get(..contents.len() - rest.len())?;
            return Some((BerElement { tag, content }, behind));
        }
        rest = read_down_to(rest, depth)?.1;
    }
}

/// The elements one after the other; ends early where one can't be read.
pub(super) fn children(content: &[u8]) -> impl Iterator<Item = BerElement<'_>> {
    let mut rest = content;
    std::iter::from_fn(move || {
        let (element, behind) = read(rest)?;
        rest = behind;
        Some(element)
    })
}

/// The contents of the first child with each of these tags in turn, from the outermost in.
pub(super) fn find<'a>(content: &'a [u8], path: &[u8]) -> Option<&'a [u8]> {
    path.iter().try_fold(content, |content, &tag| {
        children(content).find(|child| child.tag == tag).map(|child| child.content)
    })
}

/// An INTEGER that isn't negative and fits.
pub(super) fn unsigned(content: &[u8]) -> Option<u32> {
    let (&first, _) = content.split_first()?;
    if first & 0x80 != 0 {
        return None;
    }
    content
        .iter()
        .try_fold(0_u32, |value, &octet| value.checked_mul(256)?.checked_add(u32::from(octet)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_minimal_and_read_again() {
        for length in [0, 1, 127, 128, 255, 256, 65_535, 65_536, 1 << 24] {
            let content = vec![7; length];
            let bytes = element(0x04, &[&content]);
            let header = match length {
                0..=127 => 2,
                128..=255 => 3,
                256..=65_535 => 4,
                65_536..=0xff_ffff => 5,
                _ => 6,
            };
            assert_eq!(bytes.len(), header + length);
            let (read, rest) = read(&bytes).unwrap();
            assert_eq!((read.tag, read.content.len(), rest.len()), (4, length, 0));
            for cut in 0..header {
                assert_eq!(super::read(&bytes[..cut]), None);
            }
        }
    }

    #[test]
    fn integers_keep_their_sign_bit_clear() {
        for (value, octets) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0, 128]),
            (256, &[1, 0]),
            (65_535, &[0, 255, 255]),
        ] {
            assert_eq!(integer(2, value)[2..], *octets);
            assert_eq!(unsigned(octets), Some(value));
        }
        assert_eq!(integer(2, u32::MAX), [2, 5, 0, 255, 255, 255, 255]);
        assert_eq!(unsigned(&[0, 255, 255, 255, 255]), Some(u32::MAX));
        for bad in [&[][..], &[0x80], &[1, 0, 0, 0, 0]] {
            assert_eq!(unsigned(bad), None);
        }
    }

    #[test]
    fn indefinite_lengths_and_long_tags_are_followed() {
        let bytes =
            [0x31, 0x80, 0xbf, 0x81, 0x01, 0x80, 0x04, 0x01, 9, 0, 0, 0x02, 1, 5, 0, 0, 0xff];
        let (set, rest) = read(&bytes).unwrap();
        assert_eq!(rest, [0xff]);
        let tags: Vec<u8> = children(set.content).map(|child| child.tag).collect();
        assert_eq!(tags, [0xbf, 0x02]);
        assert_eq!(find(&bytes, &[0x31, 0xbf, 0x04]), Some(&[9][..]));
        assert_eq!(find(&bytes, &[0x31, 0x05]), None);
        for cut in 0..bytes.len() - 1 {
            assert_eq!(read(&bytes[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn what_is_nested_too_deep_or_primitive_without_a_length_is_not_read() {
        let nested = |depth: usize| {
            let mut bytes = [0x30, 0x80].repeat(depth);
            bytes.extend(vec![0; 2 * depth]);
            bytes
        };
        assert!(read(&nested(DEPTH_MAX as usize)).is_some());
        assert!(read(&nested(DEPTH_MAX as usize + 1)).is_none());
        assert!(read(&[0x04, 0x80, 0, 0]).is_none());
        assert!(read(&[0x04, 0x89, 1, 1, 1, 1, 1, 1, 1, 1, 1]).is_none());
    }

    #[test]
    fn constructed_strings_come_in_pieces() {
        let bytes = [0x24, 0x80, 0x04, 2, b'a', b'b', 0x24, 3, 0x04, 1, b'c', 0x04, 0, 0, 0];
        let mut text = Vec::new();
        read(&bytes).unwrap().0.for_each_piece(&mut |piece| text.extend_from_slice(piece));
        assert_eq!(text, b"abc");
    }
}
