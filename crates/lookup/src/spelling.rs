//! Spellings of user names. Servers accept several: a directory prepares strings for comparison (RFC 4518), a database
//! compares by a collation. A user found by one spelling must be the same user by another.

use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// A name as compared by directories (RFC 4518 §2): ignores case, width, ligatures, surrounding and repeated blanks,
/// and invisible characters.
#[must_use]
pub fn prepared(name: &str) -> Cow<'_, str> {
    if is_plain(name) {
        return name.into();
    }
    words(&fold(&name.chars().filter(|c| !is_unseen(*c)).nfkc().collect::<String>())).into()
}

/// The same without accents, as many collations have it.
#[must_use]
pub fn plainest(name: &str) -> Cow<'_, str> {
    if is_plain(name) {
        return name.into();
    }
    let bare = name.chars().filter(|c| !is_unseen(*c)).nfkd().filter(|c| !is_combining_mark(*c));
    words(&fold(&bare.collect::<String>())).into()
}

/// Most names are.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase())
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// RFC 4518 §2.2: characters that are removed.
fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{1806}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffc}' | '\u{e0000}'..='\u{e0fff}'
    ) || c.is_control() && !c.is_whitespace()
}

/// A key as tables of fixed texts keep it, so that `User@Example.org` finds `user@example.org`: ASCII
/// in lower case, other letters as Unicode's case folding has them (`Straße` is `strasse`).
#[must_use]
pub fn fold(key: &str) -> Cow<'_, str> {
    if key.is_ascii() {
        if key.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return key.to_ascii_lowercase().into();
        }
        return key.into();
    }
    // Lower case alone would leave ß, and the two small sigmas, apart from their other forms.
    let upper = key.chars().flat_map(char::to_uppercase);
    upper.flat_map(char::to_lowercase).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_alike_is_one_name() {
        assert!(matches!(prepared("jo+x@example.org"), Cow::Borrowed(_)));
        for spelled in [
            "jo smith",
            "Jo Smith",
            " jo  smith ",
            "jo\u{a0}smith\t",
            "\u{ff4a}\u{ff4f} smith",
            "\u{1d5c3}o smith",
            "jo\u{200b} smi\u{ad}th\u{feff}",
            "\u{202e}jo smith",
        ] {
            assert_eq!(prepared(spelled), "jo smith", "{spelled:?}");
            assert_eq!(plainest(spelled), "jo smith", "{spelled:?}");
        }
        for (spelled, of_directory, of_database) in [
            ("J\u{f6}rg", "j\u{f6}rg", "jorg"),
            ("jo\u{308}rg", "j\u{f6}rg", "jorg"),
            ("\u{fb01}na", "fina", "fina"),
            ("stra\u{df}e", "strasse", "strasse"),
            ("\u{391}\u{3bd}", "\u{3b1}\u{3bd}", "\u{3b1}\u{3bd}"),
        ] {
            assert_eq!(prepared(spelled), of_directory);
            assert_eq!(plainest(spelled), of_database);
            assert_eq!(prepared(&prepared(spelled)), of_directory);
        }
        // A letter of another script is another letter.
        assert_ne!(prepared("j\u{43e}"), "jo");
    }

    #[test]
    fn letters_are_folded_whatever_their_script() {
        assert!(matches!(fold("user+x@example.org"), Cow::Borrowed(_)));
        assert_eq!(fold("User@EXAMPLE.org"), "user@example.org");
        assert_eq!(fold("Straße@É"), "strasse@é");
        assert_eq!(fold("ΟΔΟΣ"), fold("οδος"));
        assert_eq!(fold(&fold("ΟΔΟς")), fold("οδος"));
    }
}
