//! Where the path of MAIL and RCPT ends and the parameters begin (RFC 5321 §4.1.1.2, §4.1.1.3).

/// Splits what follows `FROM:` or `TO:` into the text between the brackets and the parameters.
///
/// Two liberties that old clients need and that change no meaning: blanks before the path, and a
/// path without brackets when it has no quote, backslash or bracket, so that it must end at the
/// first blank. Postfix takes both, too.
///
/// # Errors
/// What is wrong, for people.
pub(super) fn split(text: &str) -> Result<(&str, &str), &'static str> {
    let text = text.trim_start_matches([' ', '\t']);
    let Some(inner) = text.strip_prefix('<') else {
        let (path, rest) = text.split_once([' ', '\t']).unwrap_or((text, ""));
        if path.is_empty() {
            return Err("address missing");
        }
        if path.contains(['<', '>', '"', '\\']) {
            return Err("address must stand in < >");
        }
        return Ok((path, rest));
    };
    let end = closing_bracket(inner.as_bytes()).ok_or("> missing behind the address")?;
    let (path, rest) = inner.split_at(end);
    let rest = rest.get(1..).unwrap_or("");
    if rest.is_empty() || rest.starts_with([' ', '\t']) {
        Ok((path, rest))
    } else {
        Err("blank missing behind >")
    }
}

/// The first `>` that is not within a quoted string (RFC 5321 §4.1.2).
fn closing_bracket(bytes: &[u8]) -> Option<usize> {
    let plain = memchr::memchr2(b'>', b'"', bytes)?;
    if bytes.get(plain) == Some(&b'>') {
        return Some(plain);
    }
    let (mut quoted, mut escaped) = (false, false);
    bytes.iter().position(|&byte| {
        let literal = std::mem::take(&mut escaped);
        match byte {
            b'\\' if quoted && !literal => escaped = true,
            b'"' if !literal => quoted = !quoted,
            b'>' if !quoted => return true,
            _ => {}
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_quotes_and_blanks() {
        assert_eq!(split("<a@b>"), Ok(("a@b", "")));
        assert_eq!(split(" \t<a@b> SIZE=1"), Ok(("a@b", " SIZE=1")));
        assert_eq!(split("<>"), Ok(("", "")));
        assert_eq!(split(r#"<"a>b"@c> X"#), Ok((r#""a>b"@c"#, " X")));
        assert_eq!(split(r#"<"a\">"@c>"#), Ok((r#""a\">"@c"#, "")));
        assert_eq!(split(r#"<"a\\">x"#), Err("blank missing behind >"));
        assert_eq!(split("a@b SIZE=1"), Ok(("a@b", "SIZE=1")));
        assert_eq!(split(""), Err("address missing"));
        assert_eq!(split("<a@b"), Err("> missing behind the address"));
        assert_eq!(split(r#"<"a@b>"#), Err("> missing behind the address"));
        assert_eq!(split("a@b>"), Err("address must stand in < >"));
        assert_eq!(split(r#""a b"@c"#), Err("address must stand in < >"));
        assert_eq!(split("<a@b>SIZE=1"), Err("blank missing behind >"));
    }
}
