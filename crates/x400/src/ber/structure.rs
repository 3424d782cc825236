//! Octets that are elements down to the last one, each in the form of its type.

use super::header::Header;
use super::oid::check_oid;
use super::strings::is_string;
use super::{BerError, BerFault, Class, NESTING_MAX, Tag};

/// A constructed element that has not ended.
#[derive(Clone, Copy)]
struct OpenElement {
    at: usize,
    /// End of the element; an upper bound for an indefinite length.
    limit: usize,
    is_indefinite: bool,
    is_string: bool,
}

/// Checks that these octets are elements on every level, and that those of ASN.1's own types have the form of their type
/// (X.690 §8.2 to §8.23). Each octet is looked at once at most, and values that are opaque not at all.
///
/// # Errors
/// With the first element that is broken.
pub fn check_structure(octets: &[u8]) -> Result<(), BerError> {
    let mut around: Vec<OpenElement> = Vec::with_capacity(NESTING_MAX);
    let whole = OpenElement { at: 0, limit: octets.len(), is_indefinite: false, is_string: false };
    let (mut open, mut at) = (whole, 0);
    loop {
        while at == open.limit && !open.is_indefinite {
            match around.pop() {
                Some(outer) => open = outer,
                None => return Ok(()),
            }
        }
        let rest = octets.get(at..open.limit).unwrap_or_default();
        // Most elements are short values of unknown type.
        if let [first, length, ..] = *rest
            && (is_opaque(first) && length < 0x80 && usize::from(length) + 2 <= rest.len())
            && (!open.is_string && around.len() < NESTING_MAX)
        {
            at += usize::from(length) + 2;
            continue;
        }
        let header = match short(rest) {
            Some(header) => header,
            None => match Header::parse(rest) {
                Ok(Some(header)) => header,
                Ok(None) if rest.is_empty() => return Err(BerFault::NeverClosed.at(open.at as u64)),
                Ok(None) => return Err(BerFault::HeaderCut.at(at as u64)),
                Err(fault) => return Err(fault.at(at as u64)),
            },
        };
        let behind = rest.get(header.bytes..).unwrap_or_default();
        if header.is_end() {
            // The outermost element is inside a definite length.
            let outer = around.pop().filter(|_| open.is_indefinite);
            open = outer.ok_or_else(|| BerFault::StrayEnd.at(at as u64))?;
            at += header.bytes;
            continue;
        }
        let contents = contents(&header, behind).map_err(|fault| fault.at(at as u64))?;
        if open.is_string && !is_string(header.tag) {
            return Err(BerFault::Segment { found: header.tag }.at(at as u64));
        }
        if header.tag.class == Class::Universal {
            check_form(&header, contents).map_err(|fault| fault.at(at as u64))?;
        }
        let begins = at + header.bytes;
        if around.len() >= NESTING_MAX {
            return Err(BerFault::TooDeep.at(at as u64));
        }
        if header.constructed {
            around.push(open);
            let (limit, is_indefinite) = (begins + contents.len(), header.length.is_none());
            open = OpenElement { at, limit, is_indefinite, is_string: is_string(header.tag) };
            at = begins;
        } else {
            at = begins + contents.len();
        }
    }
}

/// An identifier of one octet, of a primitive element without a form that it must have: a character string, or of a
/// tagged type.
#[inline]
fn is_opaque(identifier: u8) -> bool {
    let number = identifier & 0x1f;
    identifier & 0x20 == 0 && number != 0x1f && (identifier >= 0x40 || number >= 18)
}

/// The header that most elements have: one octet each of identifier and length.
#[inline]
fn short(octets: &[u8]) -> Option<Header> {
    let [first, length, ..] = *octets else { return None };
    let number = first & 0x1f;
    if number == 0x1f || length >= 0x80 {
        return None;
    }
    let class = match first >> 6 {
        0 => Class::Universal,
        1 => Class::Application,
        2 => Class::Context,
        _ => Class::Private,
    };
    let tag = Tag { class, number: u32::from(number) };
    // X.690 §8.1.5: an end has the identifier 0, in this form only.
    (tag != Tag::universal(0)).then_some(Header {
        tag,
        constructed: first & 0x20 != 0,
        length: Some(u64::from(length)),
        bytes: 2,
    })
}

/// The contents; for an indefinite length an upper bound.
fn contents<'a>(header: &Header, behind: &'a [u8]) -> Result<&'a [u8], BerFault> {
    let Some(length) = header.length else { return Ok(behind) };
    let bytes = usize::try_from(length).map_err(|_| BerFault::Length)?;
    let available = behind.len() as u64;
    behind.get(..bytes).ok_or(BerFault::PastEnd { length, available })
}

/// Checks the form of ASN.1's universal types. The form of other types depends on their position.
fn check_form(header: &Header, contents: &[u8]) -> Result<(), BerFault> {
    let (needs_primitive, needs_constructed) = match header.tag {
        Tag::BOOLEAN | Tag::INTEGER | Tag::ENUMERATED | Tag::NULL | Tag::OID => (true, false),
        Tag::SEQUENCE | Tag::SET | Tag::EXTERNAL => (false, true),
        _ => (false, false),
    };
    match header.constructed {
        true if needs_primitive => return Err(BerFault::NotPrimitive),
        false if needs_constructed => return Err(BerFault::NotConstructed),
        true => return Ok(()),
        false => {}
    }
    match header.tag {
        Tag::BOOLEAN if contents.len() != 1 => Err(BerFault::Boolean),
        Tag::INTEGER | Tag::ENUMERATED if contents.is_empty() => Err(BerFault::Integer),
        Tag::NULL if !contents.is_empty() => Err(BerFault::Null),
        Tag::OID if !check_oid(contents) => Err(BerFault::Oid),
        // X.690 §8.6.2.2: the first octet counts the unused bits of the last one.
        Tag::BIT_STRING => match contents {
            [0] | [0..=7, _, ..] => Ok(()),
            _ => Err(BerFault::BitString),
        },
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_whole_on_every_level() {
        for right in [
            &b""[..],
            b"\x02\x01\x05\x05\x00",
            b"\x30\x80\x02\x01\x05\x80\x01a\x00\x00",
            b"\x31\x06\xa0\x04\x30\x02\x05\x00",
            b"\x24\x80\x04\x01a\x24\x03\x04\x01b\x00\x00",
            b"\x03\x01\x00\x03\x02\x07\x80",
            b"\xa3\x80\x30\x80\x00\x00\x00\x00",
        ] {
            assert_eq!(check_structure(right), Ok(()), "{right:?}");
        }
        for (broken, at) in [
            (&b"\x30\x03\x02\x02\x05"[..], 2),
            (b"\xa0\x03\xbf\x81\x01", 2),
            (b"\x30\x80\x02\x01\x05", 0),
            (b"\x30\x02\x00\x00", 2),
            (b"\x02\x01\x05\x00", 3),
            (b"\x02\x00", 0),
            (b"\x22\x03\x02\x01\x05", 0),
            (b"\x10\x00", 0),
            (b"\x01\x02\x00\x00", 0),
            (b"\x05\x01\x00", 0),
            (b"\x06\x01\x80", 0),
            (b"\x03\x00", 0),
            (b"\x03\x01\x01", 0),
            (b"\x03\x02\x08\x00", 0),
            (b"\x24\x03\x02\x01\x05", 2),
            (b"\xa0\x04\x24\x02\xa0\x00", 4),
        ] {
            assert_eq!(check_structure(broken).map_err(|error| error.at), Err(at), "{broken:?}");
        }
    }

    #[test]
    fn nesting_ends_at_its_limit() {
        let nested = |levels: usize| {
            (0..levels).fold(Vec::new(), |inner: Vec<u8>, _| {
                let length = u8::try_from(inner.len()).unwrap();
                [&[0xa0, length], &inner[..]].concat()
            })
        };
        assert_eq!(check_structure(&nested(NESTING_MAX)), Ok(()));
        let error = check_structure(&nested(NESTING_MAX + 1)).unwrap_err();
        assert_eq!(error.fault, BerFault::TooDeep);
    }
}
