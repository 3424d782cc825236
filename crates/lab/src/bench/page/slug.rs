//! Names in file names and links.

/// A name as part of a file's name or of a link.
pub(super) fn slug(name: impl AsRef<str>) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    name.as_ref().chars().map(keep).collect()
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn what_a_file_name_can_not_have_becomes_a_dash() {
        assert_eq!(slug("50ms, 0.1 %/x"), "50ms--0.1---x");
    }
}
