//! GeneralText (X.420 annex B, RFC 2157 §6.2): text in ISO 8859 parts 1 to 9, with the escape sequences that ISO 2022
//! wants before it.

use super::body::{Extended, ExtendedData};
use super::{GENERAL_TEXT_DATA, GENERAL_TEXT_PARAMETERS};
use crate::ber::{Reader, Tag, Writer};
use bytes::Bytes;

/// Number of the part of ISO 8859, of its registration, and the last octet of the escape sequence that puts it into G1.
const SETS: [(u8, u32, u8); 9] = [
    (1, 100, b'A'),
    (2, 101, b'B'),
    (3, 109, b'C'),
    (4, 110, b'D'),
    (5, 144, b'L'),
    (6, 127, b'G'),
    (7, 126, b'F'),
    (8, 138, b'H'),
    (9, 148, b'M'),
];
const ESC: u8 = 0x1b;
/// ASCII's registration.
const ASCII: u32 = 6;

/// A text and which part of ISO 8859 it is in; `None` is ASCII.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneralText {
    /// From 1 to 9.
    pub part: Option<u8>,
    /// Without escape sequences.
    pub text: Bytes,
}

impl GeneralText {
    /// Reads a part that is GeneralText in one of these sets throughout. `None`: it isn't, and must be carried as it
    /// is.
    #[must_use]
    pub fn read(extended: &Extended) -> Option<GeneralText> {
        let ExtendedData::Element(data) = &extended.data else { return None };
        if extended.oid != GENERAL_TEXT_DATA {
            return None;
        }
        let (oid, parameters) = extended.parameters.as_ref()?;
        if oid != GENERAL_TEXT_PARAMETERS {
            return None;
        }
        let mut sets: Vec<u32> = Reader::new(parameters)
            .next()?
            .ok()?
            .children()
            .ok()?
            .map(|number| number.ok()?.unsigned(u32::MAX).ok())
            .collect::<Option<_>>()?;
        sets.retain(|&set| set != ASCII && set != 1 && set != 2);
        let part = match sets[..] {
            [] => None,
            [set] => Some(SETS.iter().find(|(_, registration, _)| *registration == set)?.0),
            _ => return None,
        };
        let element = Reader::new(data).next()?.ok()?;
        let octets = element.octets().ok()?;
        Some(GeneralText { part, text: Bytes::from(plain(&octets, part)?) })
    }

    /// Converts it to a body part; `None` for an unknown set.
    #[must_use]
    pub fn to_extended(&self) -> Option<Extended> {
        let set = match self.part {
            Some(part) => Some(SETS.iter().find(|(known, ..)| *known == part)?),
            None => None,
        };
        let mut parameters = Writer::new();
        parameters.constructed(Tag::SET, |numbers| {
            numbers.integer(Tag::INTEGER, i64::from(ASCII));
            if let Some((_, registration, _)) = set {
                numbers.integer(Tag::INTEGER, i64::from(*registration));
            }
        });
        // ASCII in G0, the set in G1, the C1 controls, and G1 on the right.
        let mut text = vec![ESC, b'(', b'B'];
        if let Some((_, _, last)) = set {
            text.extend([ESC, b'-', *last, ESC, b'!', b'A', ESC, b'~']);
        }
        text.extend_from_slice(&self.text);
        let parameters = Some((GENERAL_TEXT_PARAMETERS, parameters.into_vec()));
        Some(Extended::new(GENERAL_TEXT_DATA, parameters, |data| {
            data.primitive(Tag::GENERAL_STRING, &text);
        }))
    }

    /// The octets of the object identifiers of the information types that it has: id-cs-eit-authority and a number of
    /// each set.
    #[must_use]
    pub fn eits(&self) -> Vec<Bytes> {
        let set = SETS.iter().find(|(part, ..)| Some(*part) == self.part);
        [Some(ASCII), set.map(|(_, registration, _)| *registration)]
            .into_iter()
            .flatten()
            .filter_map(|number| crate::ber::oid_from_text(&format!("1.0.10021.7.1.0.{number}")))
            .map(Bytes::from)
            .collect()
    }
}

/// The text without sequences that designate and invoke the sets in force; `None` if it switches to another set.
fn plain(text: &[u8], part: Option<u8>) -> Option<Vec<u8>> {
    let right = part.and_then(|part| SETS.iter().find(|(known, ..)| *known == part));
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        rest = match (first, behind) {
            // ASCII or its international reference version.
            (ESC, [b'(', b'B' | b'@', more @ ..]) => more,
            (ESC, [b'-' | b'.' | b'/', last, more @ ..])
                if right.is_some_and(|(.., l)| l == last) =>
            {
                more
            }
            // Control sets, and the shifts of G1 to the right and of G0 to the left.
            (ESC, [b'!' | b'"', _, more @ ..]) => more,
            (ESC, [b'~', more @ ..]) => more,
            (0x0f, more) => more,
            (ESC | 0x0e, _) => return None,
            (0x80.., _) if right.is_none() => return None,
            (octet, more) => {
                plain.push(octet);
                more
            }
        };
    }
    Some(plain)
}
