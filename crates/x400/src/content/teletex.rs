//! Teletex strings in texts for people (RFC 2156 §3.3.4): T.61, with a diacritic before its letter. Many programs write
//! Latin-1 instead, so invalid T.61 is read as that.

use std::sync::LazyLock;

/// Octets of T.61 and the characters that they are, where those differ from ASCII and stand alone.
const SINGLE: [(u8, char); 46] = [
    (0xa1, '¡'),
    (0xa2, '¢'),
    (0xa3, '£'),
    (0xa4, '$'),
    (0xa5, '¥'),
    (0xa6, '#'),
    (0xa7, '§'),
    (0xa8, '¤'),
    (0xab, '«'),
    (0xb0, '°'),
    (0xb1, '±'),
    (0xb2, '²'),
    (0xb3, '³'),
    (0xb4, '×'),
    (0xb5, 'µ'),
    (0xb6, '¶'),
    (0xb7, '·'),
    (0xb8, '÷'),
    (0xbb, '»'),
    (0xbc, '¼'),
    (0xbd, '½'),
    (0xbe, '¾'),
    (0xbf, '¿'),
    (0xe0, 'Ω'),
    (0xe1, 'Æ'),
    (0xe2, 'Ð'),
    (0xe3, 'ª'),
    (0xe4, 'Ħ'),
    (0xe6, 'Ĳ'),
    (0xe7, 'Ŀ'),
    (0xe8, 'Ł'),
    (0xe9, 'Ø'),
    (0xea, 'Œ'),
    (0xeb, 'º'),
    (0xec, 'Þ'),
    (0xed, 'Ŧ'),
    (0xee, 'Ŋ'),
    (0xef, 'ŉ'),
    (0xf1, 'æ'),
    (0xf3, 'ð'),
    (0xf8, 'ł'),
    (0xf9, 'ø'),
    (0xfa, 'œ'),
    (0xfb, 'ß'),
    (0xfc, 'þ'),
    (0xf5, 'ı'),
];

/// The same, by the octet.
const ALONE: [Option<char>; 256] = {
    let mut alone = [None; 256];
    let mut at = 0;
    while at < SINGLE.len() {
        alone[SINGLE[at].0 as usize] = Some(SINGLE[at].1);
        at += 1;
    }
    alone
};

/// Diacritics, the letters that they combine with, and the results.
const DIACRITICS: [(u8, &str, &str); 9] = [
    (0xc1, "AEIOUaeiou", "ÀÈÌÒÙàèìòù"),
    (0xc2, "AEIOUYaeiouyCLNRSZclnrsz", "ÁÉÍÓÚÝáéíóúýĆĹŃŔŚŹćĺńŕśź"),
    (0xc3, "AEIOUaeiouCGHJSWYcghjswy", "ÂÊÎÔÛâêîôûĈĜĤĴŜŴŶĉĝĥĵŝŵŷ"),
    (0xc4, "ANOano", "ÃÑÕãñõ"),
    (0xc8, "AEIOUYaeiouy", "ÄËÏÖÜŸäëïöüÿ"),
    (0xca, "AUau", "ÅŮåů"),
    (0xcb, "CGKLNRSTcklnrst", "ÇĢĶĻŅŖŞŢçķļņŗşţ"),
    (0xcd, "OUou", "ŐŰőű"),
    (0xcf, "CDENRSTZcdenrstz", "ČĎĚŇŘŠŤŽčďěňřšťž"),
];

/// The text of teletex octets; every string has one. Controls become blanks.
#[must_use]
pub fn to_text(octets: &[u8]) -> String {
    let text = from_t61(octets).unwrap_or_else(|| octets.iter().map(|&o| char::from(o)).collect());
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Decodes T.61; `None` if it is invalid. A diacritic before an unsuitable letter indicates Latin-1. So does a small
/// letter of Latin-1, at a code where T.61 has mostly other characters.
fn from_t61(octets: &[u8]) -> Option<String> {
    let has_diacritic = octets.iter().any(|octet| (0xc1..=0xcf).contains(octet));
    let mut text = String::with_capacity(octets.len());
    let mut rest = octets;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            0..0x80 => text.push(char::from(first)),
            0xc1..=0xcf => {
                let (&letter, behind) = behind.split_first()?;
                text.push((*COMBINED.get(pair(first, letter))?)?);
                rest = behind;
            }
            // Alone, these are more often Latin-1 than T.61, but for the German letter.
            0xe0..=0xff if !has_diacritic && first != 0xfb => return None,
            _ => text.push(ALONE[usize::from(first)]?),
        }
    }
    Some(text)
}

/// [`combinations`], made once: texts may be long, and have many lines.
static COMBINED: LazyLock<Vec<Option<char>>> = LazyLock::new(combinations);

/// Combinations of diacritic and letter, by [`pair`].
fn combinations() -> Vec<Option<char>> {
    let mut all = vec![None; pair(0xcf, 0xff) + 1];
    for (diacritic, letters, combined) in DIACRITICS {
        for (letter, combined) in letters.bytes().zip(combined.chars()) {
            if let Some(place) = all.get_mut(pair(diacritic, letter)) {
                *place = Some(combined);
            }
        }
    }
    all
}

fn pair(diacritic: u8, letter: u8) -> usize {
    usize::from(diacritic & 0xf) << 8 | usize::from(letter)
}

/// The text in teletex octets that [`to_text`] decodes to the same text; `None` if impossible.
#[must_use]
pub fn from_text(text: &str) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() && !c.is_ascii_control() {
            octets.push(c as u8);
        } else if let Some((octet, _)) = SINGLE.iter().find(|(_, known)| *known == c) {
            octets.push(*octet);
        } else {
            let (octet, letter) = DIACRITICS.iter().find_map(|(octet, letters, all)| {
                let letter = letters.chars().zip(all.chars()).find(|(_, known)| *known == c)?.0;
                Some((*octet, letter as u8))
            })?;
            octets.extend([octet, letter]);
        }
    }
    if to_text(&octets) == text {
        return Some(octets);
    }
    // A letter that T.61 has alone, and that alone looks like Latin-1: then it may be just that.
    let latin1: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    latin1.filter(|octets| to_text(octets) == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for text in [
            "",
            "plain",
            "Käse und Brötchen",
            "Straße",
            "élève Ÿ",
            "naïve Ω",
            "Ærø",
            "søren",
            "fjord ø",
        ] {
            let octets = from_text(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(to_text(&octets), text);
        }
        assert_eq!(from_text("Кот"), None);
        assert_eq!(from_text("a\nb"), None);
    }

    #[test]
    fn both_ways_to_write_are_read() {
        assert_eq!(to_text(b"K\xc8ase"), "Käse");
        assert_eq!(to_text(b"K\xe4se"), "Käse");
        assert_eq!(to_text(b"caf\xc2e"), "café");
        assert_eq!(to_text(b"caf\xe9"), "café");
        assert_eq!(to_text(b"\xc4pfel"), "Äpfel");
        assert_eq!(to_text(b"Stra\xfbe"), "Straße");
        assert_eq!(to_text(b"a\r\nb"), "a  b");
        assert_eq!(to_text(b"\xc1"), "Á");
    }
}
