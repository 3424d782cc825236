//! Keys without regard to case.

use std::borrow::Cow;

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
    fn letters_are_folded_whatever_their_script() {
        assert!(matches!(fold("user+x@example.org"), Cow::Borrowed(_)));
        assert_eq!(fold("User@EXAMPLE.org"), "user@example.org");
        assert_eq!(fold("Straße@É"), "strasse@é");
        assert_eq!(fold("ΟΔΟΣ"), fold("οδος"));
        assert_eq!(fold(&fold("ΟΔΟς")), fold("οδος"));
    }
}
