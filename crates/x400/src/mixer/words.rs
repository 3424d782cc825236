//! Encoding of texts in header fields (RFC 2047).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Maximum length of one encoded part in octets (RFC 2047 §2).
const WORD_BYTES_MAX: usize = 75;

/// The text of a field, with encoded parts decoded if their character set is known here: US-ASCII, UTF-8, ISO-8859-1.
/// Parts in other sets stay unchanged.
#[must_use]
pub fn decode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut is_behind_word = false;
    while let Some(start) = rest.find("=?") {
        let (front, word) = rest.split_at(start);
        if !(is_behind_word && front.trim().is_empty()) {
            out.push_str(front);
        }
        let Some((decoded, length)) = word_at(word) else {
            out.push_str("=?");
            rest = word.get(2..).unwrap_or_default();
            is_behind_word = false;
            continue;
        };
        out.push_str(&decoded);
        rest = word.get(length..).unwrap_or_default();
        is_behind_word = true;
    }
    out.push_str(rest);
    out
}

/// Maximum length accepted when decoding: that of a line (RFC 5322 §2.1.1). Some programs exceed the limit for
/// encoding.
const WORD_READ_MAX: usize = 998;

/// The encoded part at the front: its text and length.
fn word_at(text: &str) -> Option<(String, usize)> {
    let front = text.get(..text.floor_char_boundary(WORD_READ_MAX))?;
    let inner = front.strip_prefix("=?")?;
    let (charset, behind) = inner.split_once('?')?;
    let (encoding, behind) = behind.split_once('?')?;
    let (encoded, _) = behind.split_once("?=")?;
    if encoded.contains([' ', '?']) {
        return None;
    }
    let length = 2 + charset.len() + 1 + encoding.len() + 1 + encoded.len() + 2;
    let octets = match encoding {
        "B" | "b" => STANDARD.decode(encoded).ok()?,
        "Q" | "q" => quoted(encoded)?,
        _ => return None,
    };
    // RFC 2231 §5: a language may follow the character set.
    let charset = charset.split_once('*').map_or(charset, |(charset, _)| charset);
    let decoded = match charset.to_ascii_lowercase().as_str() {
        "utf-8" | "us-ascii" => String::from_utf8(octets).ok()?,
        "iso-8859-1" => octets.iter().map(|&octet| char::from(octet)).collect(),
        _ => return None,
    };
    // A control character would be a line end, or worse.
    (!decoded.chars().any(char::is_control)).then_some((decoded, length))
}

fn quoted(text: &str) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        octets.push(match byte {
            b'_' => b' ',
            b'=' => {
                let pair = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&pair).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    Some(octets)
}

/// A text as ASCII: unchanged, or encoded; in ISO-8859-1 if that suffices (RFC 2156 §3.3.4), otherwise in UTF-8.
#[must_use]
pub fn encode(text: &str) -> String {
    if text.bytes().all(|byte| (b' '..0x7f).contains(&byte)) {
        return text.to_owned();
    }
    let is_latin1 = text.chars().all(|c| u32::from(c) < 0x100 && !c.is_control());
    let charset = if is_latin1 { "iso-8859-1" } else { "utf-8" };
    let front = format!("=?{charset}?Q?");
    let mut words: Vec<String> = vec![front.clone()];
    for c in text.chars() {
        let mut buffer = [0; 4];
        let octets = match u8::try_from(u32::from(c)) {
            Ok(octet) if is_latin1 => vec![octet],
            _ => c.encode_utf8(&mut buffer).as_bytes().to_vec(),
        };
        let piece: String = octets.iter().map(|&octet| quote(octet)).collect();
        let is_full = words.last().is_none_or(|w| w.len() + piece.len() + 2 > WORD_BYTES_MAX);
        if is_full {
            words.push(front.clone());
        }
        if let Some(word) = words.last_mut() {
            word.push_str(&piece);
        }
    }
    words.iter().map(|word| format!("{word}?=")).collect::<Vec<_>>().join(" ")
}

fn quote(octet: u8) -> String {
    match octet {
        b' ' => "_".to_owned(),
        octet if octet.is_ascii_alphanumeric() => char::from(octet).to_string(),
        octet => format!("={octet:02X}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for text in [
            "plain",
            "Käse = gut?",
            "Кот и собака, а также ещё одно длинное предложение",
            "",
            "a\u{1f600}",
        ] {
            let encoded = encode(text);
            assert!(
                encoded.is_ascii() && encoded.split(' ').all(|word| word.len() <= 75),
                "{encoded}"
            );
            assert_eq!(decode(&encoded), text);
        }
        assert_eq!(encode("Käse"), "=?iso-8859-1?Q?K=E4se?=");
        assert_eq!(decode("a =?utf-8?B?w6k=?= =?utf-8?q?=C3=A9_?= b"), "a éé  b");
        for kept in
            ["=?koi8-r?Q?x?=", "=?utf-8?Q?=0A?=", "=?utf-8?Q?=G1?=", "=?x", "=?utf-8?Q?a b?="]
        {
            assert_eq!(decode(kept), kept);
        }
    }
}
