//! Address lists of header fields (RFC 5322 §3.4).

/// Words, comments and delimiters of one mailbox at most; a name of more is none that somebody has.
pub const MAILBOX_TOKENS_MAX: usize = 1_000;

/// An address of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedMailbox {
    /// Name and comments, as they are written but for quotes.
    pub display: Option<String>,
    /// `local@domain`, quotes included; `None`: a group with nobody in it.
    pub address: Option<String>,
}

/// What a field consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// Atoms, dots and at signs.
    Word(String),
    /// A quoted string: as it means, and as it is written.
    Quoted(String, String),
    Comment(String),
    Special(char),
}

/// Reads a list of at most `max` addresses. `None`: it is none, or longer, and must be carried as it is.
#[must_use]
pub fn parse_list(text: &str, max: usize) -> Option<Vec<ListedMailbox>> {
    let mut all = Vec::new();
    let mut current: Vec<Token> = Vec::new();
    let mut group: Option<String> = None;
    let mut members = 0;
    let mut is_in_angle = false;
    for token in tokens(text) {
        match token? {
            Token::Special(',') if !is_in_angle => {
                members += finish(&mut current, &mut all)?;
            }
            Token::Special(':') if group.is_none() && !is_in_angle => {
                group = Some(phrase(&std::mem::take(&mut current)));
                members = 0;
            }
            Token::Special(';') => {
                is_in_angle = false;
                let name = group.take()?;
                members += finish(&mut current, &mut all)?;
                if members == 0 {
                    all.push(ListedMailbox { display: Some(name), address: None });
                }
            }
            token => {
                match token {
                    Token::Special('<') => is_in_angle = true,
                    Token::Special('>') => is_in_angle = false,
                    _ => {}
                }
                current.push(token);
            }
        }
        if all.len() > max || current.len() > MAILBOX_TOKENS_MAX {
            return None;
        }
    }
    finish(&mut current, &mut all)?;
    (group.is_none() && all.len() <= max).then_some(all)
}

/// One mailbox of these tokens; none of none.
fn finish(tokens: &mut Vec<Token>, all: &mut Vec<ListedMailbox>) -> Option<usize> {
    let tokens = std::mem::take(tokens);
    if tokens.is_empty() {
        return Some(0);
    }
    let comments: Vec<&str> = tokens
        .iter()
        .filter_map(
            |token| if let Token::Comment(text) = token { Some(text.as_str()) } else { None },
        )
        .collect();
    let plain: Vec<&Token> = tokens.iter().filter(|t| !matches!(t, Token::Comment(_))).collect();
    let start = plain.iter().position(|token| **token == Token::Special('<'));
    let (front, spec) = match start {
        Some(start) => {
            let end = plain.iter().position(|token| **token == Token::Special('>'))?;
            if end + 1 != plain.len() || end < start {
                return None;
            }
            let front: Vec<Token> = plain.get(..start)?.iter().map(|t| (*t).clone()).collect();
            (phrase(&front), plain.get(start + 1..end)?)
        }
        None => (String::new(), &plain[..]),
    };
    let mut address = String::new();
    for token in spec {
        match token {
            Token::Word(word) => address.push_str(word),
            Token::Quoted(_, written) => address.push_str(written),
            Token::Special(c @ (':' | ',')) => address.push(*c),
            Token::Special(_) | Token::Comment(_) => return None,
        }
    }
    // A source route is dropped (RFC 5322 §4.4).
    let address = match address.strip_prefix('@') {
        Some(route) => route.split_once(':')?.1.to_owned(),
        None => address,
    };
    let (local, domain) = address.rsplit_once('@')?;
    if local.is_empty() || domain.is_empty() || domain.contains('"') {
        return None;
    }
    let mut display = front;
    for comment in comments {
        if !display.is_empty() {
            display.push(' ');
        }
        display.push_str(&format!("({comment})"));
    }
    let display = (!display.is_empty()).then_some(display);
    all.push(ListedMailbox { display, address: Some(address) });
    Some(1)
}

fn phrase(tokens: &[Token]) -> String {
    let words: Vec<&str> = tokens
        .iter()
        .filter_map(|token| match token {
            Token::Word(word) => Some(word.as_str()),
            Token::Quoted(text, _) => Some(text.as_str()),
            Token::Comment(_) | Token::Special(_) => None,
        })
        .collect();
    words.join(" ")
}

/// The tokens, one after the other, so that a long field takes no more than what is read of it; `None` where none begins.
fn tokens(text: &str) -> impl Iterator<Item = Option<Token>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n']);
        let first = rest.chars().next()?;
        let token = token(first, rest);
        rest = token.as_ref().and_then(|(_, length)| rest.get(*length..)).unwrap_or_default();
        Some(token.map(|(token, _)| token))
    })
}

/// The token that `rest` begins with, and how long it is.
fn token(first: char, rest: &str) -> Option<(Token, usize)> {
    Some(match first {
        '"' => {
            let (inner, length) = delimited(rest, '"', '"')?;
            (Token::Quoted(inner, rest.get(..length)?.to_owned()), length)
        }
        '(' => {
            let (inner, length) = delimited(rest, '(', ')')?;
            (Token::Comment(inner), length)
        }
        ',' | ':' | ';' | '<' | '>' => (Token::Special(first), 1),
        ')' | '\\' => return None,
        // An address literal may have a colon in it.
        _ => {
            let mut depth = false;
            let end = rest
                .find(|c: char| {
                    depth = (depth || c == '[') && c != ']';
                    !depth && " \t\r\n\"(),:;<>\\".contains(c)
                })
                .unwrap_or(rest.len());
            (Token::Word(rest.get(..end)?.to_owned()), end)
        }
    })
}

/// What stands between two delimiters, which may nest if they differ, and how long all of it is.
fn delimited(text: &str, open: char, close: char) -> Option<(String, usize)> {
    let mut inner = String::new();
    let mut depth = 0_u32;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => inner.extend(chars.next().map(|(_, quoted)| quoted)),
            c if c == close && at > 0 => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some((inner, at + 1));
                }
                inner.push(c);
            }
            c if c == open => {
                if depth > 0 {
                    inner.push(c);
                }
                depth += 1;
            }
            '\r' | '\n' => {}
            c => inner.push(c),
        }
    }
    None
}

/// A mailbox as a field has it.
#[must_use]
pub fn write(display: Option<&str>, address: &str) -> String {
    let Some(display) = display.map(str::trim).filter(|display| !display.is_empty()) else {
        return address.to_owned();
    };
    // Comments that came with the name stay ones, if every reader finds nothing else there.
    if are_comments(display) {
        return format!("{address} {display}");
    }
    format!("{} <{address}>", written_phrase(display))
}

/// Whether a text is comments and nothing else, balanced without a look at what is quoted in them: some readers look at
/// that, others don't.
fn are_comments(text: &str) -> bool {
    let mut depth = 0_u32;
    let is_inside = |c: char| c.is_ascii_graphic() && !matches!(c, '\\' | '"') || c == ' ';
    let is_right = text.chars().all(|c| match c {
        '(' => {
            depth += 1;
            true
        }
        ')' if depth > 0 => {
            depth -= 1;
            true
        }
        c => c == ' ' || depth > 0 && is_inside(c) && c != ')',
    });
    is_right && depth == 0
}

/// A phrase as a field has it.
#[must_use]
pub fn written_phrase(text: &str) -> String {
    let encoded = super::words::encode(text);
    let is_word = |word: &str| {
        word.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b))
    };
    if encoded.split(' ').all(|word| !word.is_empty() && is_word(word)) {
        return encoded;
    }
    let mut quoted = String::from('"');
    for c in encoded.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = 100;

    fn listed(display: Option<&str>, address: Option<&str>) -> ListedMailbox {
        ListedMailbox { display: display.map(Into::into), address: address.map(Into::into) }
    }

    #[test]
    fn lists() {
        for (text, expected) in [
            ("", vec![]),
            ("a@b", vec![listed(None, Some("a@b"))]),
            ("A B <a@b>, c@d", vec![listed(Some("A B"), Some("a@b")), listed(None, Some("c@d"))]),
            ("\"B, A\" <a@b> (c(d))", vec![listed(Some("B, A (c(d))"), Some("a@b"))]),
            ("\"a b\"@c (x)", vec![listed(Some("(x)"), Some("\"a b\"@c"))]),
            ("<@r,@s:a@b>", vec![listed(None, Some("a@b"))]),
            (
                "g: a@b, c@d;, e@f",
                vec![
                    listed(None, Some("a@b")),
                    listed(None, Some("c@d")),
                    listed(None, Some("e@f")),
                ],
            ),
            ("nobody:;", vec![listed(Some("nobody"), None)]),
            ("\"/S=x/O=a b/\"@gw", vec![listed(None, Some("\"/S=x/O=a b/\"@gw"))]),
            ("x@[IPv6:::1]", vec![listed(None, Some("x@[IPv6:::1]"))]),
            ("=?utf-8?q?a?= <a@b>", vec![listed(Some("=?utf-8?q?a?="), Some("a@b"))]),
        ] {
            assert_eq!(parse_list(text, MANY), Some(expected), "{text}");
        }
        for bad in ["a", "a@", "@b", "<a@b", "a@b>", "\"a", "(a", "a@b <c@d>x", "g: a@b"] {
            assert_eq!(parse_list(bad, MANY), None, "{bad}");
        }
        let many = "a@b,".repeat(MANY);
        assert_eq!(parse_list(&many, MANY).map(|all| all.len()), Some(MANY));
        assert_eq!(parse_list(&(many + "a@b"), MANY), None);
        let name = |words: usize| "A ".repeat(words) + "<a@b>";
        assert!(parse_list(&name(MAILBOX_TOKENS_MAX - 3), MANY).is_some());
        assert_eq!(parse_list(&name(MAILBOX_TOKENS_MAX - 2), MANY), None);
    }

    #[test]
    fn a_name_in_brackets_is_no_address() {
        for display in [
            "(x) <evil@x> (y)",
            "(a) ) evil@x.test, (b)",
            "(a\\)",
            "(a\\) <evil@x> (b)",
            "(a) (b",
            "(\"a)",
            "(a) evil@x (b)",
            "(a), evil@x, (b)",
        ] {
            let written = write(Some(display), "bob@b.test");
            assert!(written.starts_with('"') && written.ends_with("\" <bob@b.test>"), "{written}");
            let read = parse_list(&written, MANY).unwrap_or_else(|| panic!("{written}"));
            assert_eq!(read.len(), 1, "{written}");
            assert_eq!(read[0].address.as_deref(), Some("bob@b.test"));
        }
        for display in ["(x)", "(x) (y)", "(x(y)z)", "(Tel +49 1)"] {
            assert_eq!(write(Some(display), "a@b"), format!("a@b {display}"));
        }
    }

    #[test]
    fn mailboxes_are_written_so_that_they_come_back() {
        for display in ["A B", "B, A", "q\"uo\\te", "(comment)", "Jürgen K."] {
            let written = write(Some(display), "a@b");
            let read = parse_list(&written, MANY).unwrap_or_else(|| panic!("{written}"));
            assert_eq!(
                super::super::words::decode(read[0].display.as_deref().unwrap_or_default()),
                display
            );
        }
    }
}
