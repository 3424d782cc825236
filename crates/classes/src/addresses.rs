//! Removes echoes from a peer's reply: addresses, and names that it got from us. Senders and recipients
//! choose these, and could choose the class of a reply with them.

use std::borrow::Cow;
use std::ops::Range;

/// Minimum length in octets of a name to remove; shorter ones match no rule.
const WORD_BYTES_MIN: usize = 3;

/// Returns true if an octet ends an address outside quotes.
fn is_delimiter(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte.is_ascii_control() || b"<>()[],;:\"".contains(&byte)
}

/// Returns the text without mail addresses: everything around an `@`, up to blanks, brackets, quotes and
/// punctuation of lists.
pub(crate) fn without_addresses(text: &str) -> Cow<'_, str> {
    if !text.contains('@') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let (mut out, mut from) = (String::with_capacity(text.len()), 0);
    while let Some(found) = bytes.get(from..).and_then(|rest| rest.iter().position(|b| *b == b'@'))
    {
        let Range { start, end } = address_around(bytes, from, from + found);
        out.push_str(text.get(from..start).unwrap_or_default());
        from = end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    Cow::Owned(out)
}

/// Returns the range of the address with its `@` at `at`; it starts at `from` or later.
fn address_around(bytes: &[u8], from: usize, at: usize) -> Range<usize> {
    let is_quoted = at > from && bytes[at - 1] == b'"';
    let start = if is_quoted {
        // RFC 5321 §4.1.2: a quoted local part may have blanks and any text.
        let open = bytes[from..at - 1].iter().rposition(|b| *b == b'"');
        open.map_or(from, |open| from + open)
    } else {
        let before = bytes[from..at].iter().rposition(|b| is_delimiter(*b));
        before.map_or(from, |before| from + before + 1)
    };
    let domain = at + 1;
    let end = if bytes.get(domain) == Some(&b'[') {
        let close = bytes[domain..].iter().position(|b| *b == b']');
        close.map_or(bytes.len(), |close| domain + close + 1)
    } else {
        let behind = bytes[domain..].iter().position(|b| is_delimiter(*b));
        behind.map_or(bytes.len(), |behind| domain + behind)
    };
    start..end
}

/// Returns the text without these names, where they are whole tokens, in any case. Names of one or two
/// octets stay.
#[must_use]
pub fn without_words(text: &str, words: &[&str]) -> String {
    let mut left = text.to_owned();
    let lower = text.to_ascii_lowercase();
    let words = words.iter().filter(|word| word.len() >= WORD_BYTES_MIN);
    for word in words.map(|word| word.to_ascii_lowercase()).filter(|word| lower.contains(word)) {
        left = without_word(&left, &word);
    }
    left
}

/// The same for one name, in lower case.
fn without_word(text: &str, word: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let bytes = lower.as_bytes();
    let (mut out, mut from, mut search) = (String::with_capacity(text.len()), 0, 0);
    while let Some(found) = lower.get(search..).and_then(|rest| rest.find(word)) {
        let (start, end) = (search + found, search + found + word.len());
        let goes_on = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric());
        // A dot or a hyphen with more behind it makes it a part of another name.
        let joins = |near: Option<&u8>, far: Option<&u8>| {
            near.is_some_and(|b| b"-._".contains(b)) && goes_on(far)
        };
        let before = |back: usize| start.checked_sub(back).and_then(|at| bytes.get(at));
        let is_alone = !goes_on(before(1))
            && !joins(before(1), before(2))
            && !goes_on(bytes.get(end))
            && !joins(bytes.get(end), bytes.get(end + 1));
        if is_alone {
            out.push_str(text.get(from..start).unwrap_or_default());
            from = end;
        }
        search = end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_no_words_of_the_peer() {
        for (text, left) in [
            ("<spamhaus@x.test>: user unknown", "<>: user unknown"),
            ("Recipient 5.7.606@contoso.test not found", "Recipient  not found"),
            ("rcpt=s3140@a.test, blocked", ", blocked"),
            ("<\"listed at spamhaus\"@x.test>: no", "<>: no"),
            ("<virus@[192.0.2.1]>, <b@[IPv6:2001:db8::1]> no", "<>, <> no"),
            ("<@relay.test:spam@x.test> no", "<:> no"),
            ("spam@x.test@y.test", ""),
            ("r\u{e4}te@x.test limit", " limit"),
            ("no address here", "no address here"),
            ("@", ""),
            ("a @ b", "a  b"),
            ("\"@", ""),
            ("x@[", ""),
        ] {
            assert_eq!(without_addresses(text), left, "{text}");
        }
    }

    #[test]
    fn names_that_we_gave_are_no_words_of_the_peer_where_they_stand_alone() {
        let ours = ["5.7.606", "Spamhaus", "t-online.de", "mx", "rate"];
        for (text, left) in [
            ("5.7.606: no such user", ": no such user"),
            ("spamhaus unknown, SPAMHAUS!", " unknown, !"),
            ("see rx.t-online.de, t-online.de", "see rx.t-online.de, "),
            ("mx says separate rate-limits, prorated", "mx says separate rate-limits, prorated"),
            ("rate.", "."),
            ("(rate)", "()"),
        ] {
            assert_eq!(without_words(text, &ours), left, "{text}");
        }
    }

    proptest! {
        /// Nothing of an address is left, wherever it stands among words, and nothing else goes.
        #[test]
        fn any_text_is_survived(text in "\\PC*", word in "[a-z0-9.]{0,8}") {
            let left = without_addresses(&text);
            prop_assert!(!left.contains('@'), "{}", left);
            let _ = without_words(&text, &[&word]);
        }

        #[test]
        fn whatever_the_local_part_is(local in "[a-z0-9.=+_-]{1,30}", domain in "[a-z]{1,9}\\.test") {
            let reply = format!("5.1.1 <{local}@{domain}>: Recipient address rejected");
            prop_assert_eq!(without_addresses(&reply), "5.1.1 <>: Recipient address rejected");
        }
    }
}
