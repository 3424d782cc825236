//! The addresses of a header field (RFC 5322 §3.4), read in the one way in which all readers read them.
//!
//! Mail programs and libraries differ about what is no address by the grammar: one takes the first of two, another
//! the last, a third what stands behind the brackets. Whoever is shown to a person must be who was checked. So only
//! those forms are read that can be derived from the grammar in one way: a phrase and an address in angle brackets
//! with nothing but comments behind, or an address alone. Of what the grammar does not have, only what misleads
//! nobody is read: dots, `@` and square brackets in a phrase (RFC 5322 §4.1), and parts of a name that an unquoted
//! comma has cut off (`Doe, Jo <jo@example.org>`).

use std::str::CharIndices;

/// One address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The local part without quotes and quoted pairs.
    pub local: String,
    /// As it is written. Empty: there is none.
    pub domain: String,
}

/// The addresses in the value of a field, those of groups too; `None`: readers would differ about them.
#[must_use]
pub fn read(value: &[u8]) -> Option<Vec<Address>> {
    let text = String::from_utf8_lossy(value);
    let tokens = tokens(&text)?;
    let mut list = List::default();
    let mut start = 0;
    for (at, token) in tokens.iter().enumerate() {
        let Token::Special(special) = token else { continue };
        let member = &tokens[start..at];
        match special {
            '<' if !list.is_in_angle => list.is_in_angle = true,
            '<' => return None,
            '>' if list.is_in_angle => list.is_in_angle = false,
            '>' => return None,
            _ if list.is_in_angle => continue,
            ',' => list.end_member(member)?,
            ';' => {
                list.end_member(member)?;
                list.is_in_group = false;
            }
            ':' => list.begin_group(member)?,
            _ => continue,
        }
        if matches!(special, ',' | ';' | ':') {
            start = at + 1;
        }
    }
    if list.is_in_angle {
        return None;
    }
    list.end_member(&tokens[start..])?;
    list.finish()
}

/// A domain of this length is none (RFC 5321 §4.5.3.1.2); nobody looks further for the end of one in brackets.
const LITERAL_BYTES_MAX: usize = 255;

#[derive(Debug, PartialEq)]
enum Token<'t> {
    /// Blanks and folds.
    Blank,
    /// Its text.
    Comment(&'t str),
    /// What stands in the quotes, without quoted pairs.
    Quoted(String),
    /// A domain literal, or words in square brackets.
    Literal(&'t str),
    Atom(&'t str),
    Special(char),
}

/// RFC 5322 §3.2.3, less those that begin a token of their own.
const SPECIALS: &str = "<>[]:;@\\,.";

/// `None`: a quote or a comment has no end, or there is a control character.
fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        tokens.push(match c {
            ' ' | '\t' | '\r' | '\n' => Token::Blank,
            '(' => Token::Comment(comment(text, &mut chars)?),
            ')' => return None,
            '"' => Token::Quoted(quoted(&mut chars)?),
            '[' => match literal(&text[at..]) {
                Some(literal) => {
                    skip_to(&mut chars, at + literal.len());
                    Token::Literal(literal)
                }
                None => Token::Special('['),
            },
            c if SPECIALS.contains(c) => Token::Special(c),
            c if c.is_ascii_control() => return None,
            _ => {
                let rest = &text[at..];
                let ends =
                    |c: char| c.is_ascii_control() || " ()\"".contains(c) || SPECIALS.contains(c);
                let length = rest.find(ends).unwrap_or(rest.len());
                skip_to(&mut chars, at + length);
                Token::Atom(&rest[..length])
            }
        });
    }
    Some(tokens)
}

fn skip_to(chars: &mut CharIndices<'_>, offset: usize) {
    while chars.offset() < offset && chars.next().is_some() {}
}

/// The text of a comment whose first parenthesis has been read (RFC 5322 §3.2.2).
fn comment<'t>(text: &'t str, chars: &mut CharIndices<'_>) -> Option<&'t str> {
    let start = chars.offset();
    let mut depth = 1_u32;
    loop {
        let (at, c) = chars.next()?;
        match c {
            '\\' => drop(chars.next()?),
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.get(start..at);
        }
    }
}

/// A quoted string's text, whose first quote has been read (RFC 5322 §3.2.4).
fn quoted(chars: &mut CharIndices<'_>) -> Option<String> {
    let mut text = String::new();
    loop {
        match chars.next()?.1 {
            '"' => return Some(text),
            '\\' => text.push(chars.next()?.1),
            c => text.push(c),
        }
    }
}

/// Square brackets and what stands in them, if nothing there could be taken for an address.
fn literal(text: &str) -> Option<&str> {
    let near = text.get(..text.floor_char_boundary(LITERAL_BYTES_MAX))?;
    let end = near.find(']')?;
    let literal = text.get(..=end)?;
    let is_plain = |c: char| !c.is_control() && !"<>@\\\",;()".contains(c);
    let within = literal.get(1..end)?;
    (within.chars().all(is_plain) && !within.contains('[')).then_some(literal)
}

#[derive(Default)]
struct List {
    addresses: Vec<Address>,
    is_in_angle: bool,
    is_in_group: bool,
    /// Words that are no address stood for one.
    has_name: bool,
    /// And what people may take for an address stood in them.
    has_shady_name: bool,
}

impl List {
    /// RFC 5322 §3.4: `display-name ":" [group-list] ";"`.
    fn begin_group(&mut self, name: &[Token<'_>]) -> Option<()> {
        let has_word = name.iter().any(Token::is_word);
        let has_address = name.iter().any(|token| matches!(token, Token::Special('@' | '<' | '>')));
        if self.is_in_group || !has_word || has_address || !is_phrase(name) {
            return None;
        }
        self.is_in_group = true;
        Some(())
    }

    fn end_member(&mut self, member: &[Token<'_>]) -> Option<()> {
        let angle = |wanted| member.iter().position(|token| *token == Token::Special(wanted));
        if let (Some(start), Some(end)) = (angle('<'), angle('>')) {
            let behind = &member[end + 1..];
            if !is_phrase(&member[..start]) || !behind.iter().all(Token::is_aside) {
                return None;
            }
            self.addresses.push(in_angle(&member[start + 1..end])?);
            return Some(());
        }
        if member.contains(&Token::Special('@')) {
            self.addresses.push(address(member)?);
            return Some(());
        }
        if !is_phrase(member) {
            return None;
        }
        let is_named = member.iter().any(Token::is_word);
        self.has_name |= is_named;
        self.has_shady_name |= member.iter().any(Token::may_mislead);
        Some(())
    }

    fn finish(mut self) -> Option<Vec<Address>> {
        // A program that decodes words before it looks for commas finds an address in them.
        if self.has_shady_name {
            return None;
        }
        if self.addresses.is_empty() && self.has_name {
            self.addresses.push(Address { local: String::new(), domain: String::new() });
        }
        Some(self.addresses)
    }
}

impl Token<'_> {
    /// Blanks and comments (RFC 5322 §3.2.2).
    fn is_aside(&self) -> bool {
        matches!(self, Token::Blank | Token::Comment(_))
    }

    fn is_word(&self) -> bool {
        matches!(self, Token::Quoted(_) | Token::Atom(_) | Token::Literal(_))
    }

    /// Whether some may find an address in it where there is none.
    fn may_mislead(&self) -> bool {
        match self {
            Token::Comment(text) => text.contains('@'),
            Token::Quoted(text) => text.contains('@') || text.contains(ENCODED),
            Token::Atom(text) => text.contains(ENCODED),
            Token::Literal(_) | Token::Blank | Token::Special(_) => false,
        }
    }
}

/// Whether it may stand before an address in brackets, and is read alike there: RFC 5322 §4.1 (`obs-phrase`), and
/// what many programs write without quotes.
fn is_phrase(tokens: &[Token<'_>]) -> bool {
    tokens.iter().enumerate().all(|(at, token)| match token {
        // Of a domain of Windows and its user, say: no special is taken away by it.
        Token::Special('\\') => {
            let next = tokens.get(at + 1);
            matches!(next, Some(Token::Atom(text)) if text.starts_with(char::is_alphanumeric))
        }
        Token::Special(special) => matches!(special, '.' | '@' | '[' | ']'),
        _ => true,
    })
}

/// What stands in angle brackets: an address, perhaps behind a route (RFC 5322 §4.4).
fn in_angle(tokens: &[Token<'_>]) -> Option<Address> {
    let tokens = trimmed(tokens);
    if tokens.is_empty() {
        return Some(Address { local: String::new(), domain: String::new() });
    }
    if tokens[0] != Token::Special('@') {
        return address(tokens);
    }
    let colon = tokens.iter().position(|token| *token == Token::Special(':'))?;
    let (route, rest) = (&tokens[..colon], &tokens[colon + 1..]);
    for hop in route.split(|token| *token == Token::Special(',')) {
        match trimmed(hop) {
            [] => {}
            [Token::Special('@'), hop @ ..] => drop(domain(hop)?),
            _ => return None,
        }
    }
    address(rest)
}

/// `addr-spec` (RFC 5322 §3.4.1), without blanks and comments but around its parts.
fn address(tokens: &[Token<'_>]) -> Option<Address> {
    let mut parts = tokens.split(|token| *token == Token::Special('@'));
    let (before, behind) = (trimmed(parts.next()?), trimmed(parts.next()?));
    if parts.next().is_some() || before.is_empty() {
        return None;
    }
    let mut local = String::new();
    let mut is_behind_word = false;
    for token in before {
        let is_word = match token {
            Token::Atom(text) if is_plain(text) => {
                local.push_str(text);
                true
            }
            Token::Quoted(text) if !text.contains(ENCODED) => {
                local.push_str(text);
                true
            }
            Token::Special('.') => {
                local.push('.');
                false
            }
            _ => return None,
        };
        if is_word && is_behind_word {
            return None;
        }
        is_behind_word = is_word;
    }
    Some(Address { local, domain: domain(behind)? })
}

fn domain(tokens: &[Token<'_>]) -> Option<String> {
    if let [Token::Literal(literal)] = trimmed(tokens) {
        return Some((*literal).to_owned());
    }
    let mut domain = String::new();
    for token in trimmed(tokens) {
        match token {
            Token::Atom(text) if is_plain(text) => domain.push_str(text),
            Token::Special('.') => domain.push('.'),
            _ => return None,
        }
    }
    (!domain.is_empty()).then_some(domain)
}

/// What begins an encoded word (RFC 2047 §2), which none may be in an address (§5): some decode it all the same, and
/// find another address in it.
const ENCODED: &str = "=?";

/// Whether no reader would find a blank in it, or a word to be decoded.
fn is_plain(text: &str) -> bool {
    !text.chars().any(|c| c.is_whitespace() || c.is_control()) && !text.contains(ENCODED)
}

fn trimmed<'s, 't>(tokens: &'s [Token<'t>]) -> &'s [Token<'t>] {
    let start = tokens.iter().take_while(|token| token.is_aside()).count();
    let end = tokens.iter().rev().take_while(|token| token.is_aside()).count();
    tokens.get(start..tokens.len() - end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The domains of the addresses in their order, or why there are none.
    fn domains(value: &str) -> String {
        match read(value.as_bytes()) {
            None => "?".into(),
            Some(found) => {
                found.iter().map(|address| &*address.domain).collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn forms_of_the_grammar_are_read() {
        for (value, expected) in [
            (" u@a.test", "a.test"),
            ("Jo Doe <u@a.test>", "a.test"),
            ("\"x@b.test, <y@b.test>\" <u@a.test>", "a.test"),
            ("Jo Q. Doe <u@a.test> (work)", "a.test"),
            ("J\u{f6} <u@a.test>", "a.test"),
            ("=?utf-8?q?u=40b.test?= <u@a.test>", "a.test"),
            ("(c) u (d) @ (e) a.test (f)", "a.test"),
            ("u@a.test (x@b.test)", "a.test"),
            ("<@x.test,,@y.test:u@a.test>", "a.test"),
            ("\"x@b.test\"@a.test", "a.test"),
            ("\"a b\".c@a.test", "a.test"),
            ("u@[192.0.2.1]", "[192.0.2.1]"),
            ("<u@[IPv6:2001:db8::1]>", "[IPv6:2001:db8::1]"),
            ("u@a.test,\r\n\tv@b.test", "a.test b.test"),
            ("u@a.test,,", "a.test"),
            ("Us: u@a.test, V <v@b.test>;", "a.test b.test"),
            ("a: u@a.test;, b: v@b.test;", "a.test b.test"),
            ("Nobody:;", ""),
            ("", ""),
            ("<>", ""),
        ] {
            assert_eq!(domains(value), expected, "{value}");
        }
        let found = read(b"\"a \\\"b\"@a.test").unwrap();
        assert_eq!(found[0].local, "a \"b");
    }

    #[test]
    fn what_misleads_nobody_is_read() {
        for (value, expected) in [
            ("x@b.test <u@a.test>", "a.test"),
            ("[List] Jo <u@a.test>", "a.test"),
            ("[x@b.test] <u@a.test>", "a.test"),
            ("CORP\\jo <u@a.test>", "a.test"),
            ("Doe, Jo <u@a.test>", "a.test"),
            ("Doe, J\u{f6}, Dr. <u@a.test>", "a.test"),
            ("Jo; x <u@a.test>", "a.test"),
            ("Doe <u@a.test>, Inc.", "a.test"),
            ("u@a.test;", "a.test"),
            ("u..v.@a.test", "a.test"),
            ("jo", ""),
        ] {
            assert_eq!(domains(value), expected, "{value}");
        }
    }

    #[test]
    fn what_readers_read_differently_is_not_read() {
        for value in [
            "u@b.test u@a.test",
            "u@b.test\r\n\tu@a.test",
            "u@b.test@a.test",
            "<u@b.test@a.test>",
            "<u@b.test u@a.test>",
            "<u@b.test:u@a.test>",
            "<u@b.test,u@a.test>",
            "<u@b.test;u@a.test>",
            "<u@b.test<u@a.test>>",
            "<<u@b.test>>",
            "<u@b.test><u@a.test>",
            "<u@b.test>:u@a.test",
            "<u@a.test>u@b.test",
            "<u@a.test> \"u@b.test\"",
            "<u@a.test>\\,<u@b.test>",
            "<> u@a.test",
            "u@b.test <> u@a.test",
            "u@b.test\"x\"u@a.test",
            "\"u\"@b.test \"v\"@a.test",
            "\"u@b.test\" u@a.test",
            "u@b.test =?utf-8?q?x?= u@a.test",
            "u@b.test) u@a.test",
            "(u@b.test)) u@a.test",
            "u@a.test (u@b.test",
            "u@b.test > u@a.test",
            "u@b.test < u@a.test",
            "u@b.test\\@a.test",
            "u@b.test\\,u@a.test",
            "\\<u@b.test> <u@a.test>",
            "(c)u@b.test(c)u@a.test",
            "u@b.test [u@a.test]",
            "u@[b.test]@a.test",
            "u@b .test",
            "u@b.(c)test",
            "u v@a.test",
            "u . v@a.test",
            "\"u\"v@a.test",
            "u@b.test\u{b}",
            "u\u{a0}@a.test",
            "u@b.test\u{2028}x",
            "u@b.test:",
            "u@b.test:;",
            ":;u@b.test <u@a.test>",
            "a: b: u@a.test;",
            "=?utf-8?B?dUBiLnRlc3Q=?=,<u@a.test>",
            "\"=?utf-8?B?dUBiLnRlc3Q=?=\",<u@a.test>",
            "\"u@b.test\",<u@a.test>",
            "(u@b.test),<u@a.test>",
            "(u@b.test)",
            "<=?utf-8?q?u=40b.test?=@a.test>",
            "=?utf-8?q?u=40b.test=2C?=@a.test",
            "\"=?utf-8?q?u=40b.test?=\"@a.test",
            "u.=?utf-8?q?x?=@a.test",
            "<u@=?utf-8?q?b.test?=.a.test>",
            "\"u@a.test",
            "@a.test",
            "u@",
            "<@x.test>",
            "<x.test:u@a.test>",
        ] {
            assert_eq!(domains(value), "?", "{value}");
        }
    }

    #[test]
    fn nothing_makes_it_panic_or_slow() {
        for value in ["[", "[]", "\"\\", "(\\", "<", "@", ":", "[\u{e9}]<a@b>", "\u{e9}\\"] {
            let _ = read(value.as_bytes());
            let _ = read(value.repeat(20_000).as_bytes());
        }
        let _ = read(&[0xff, b'<', 0xfe, b'@', 0xfd]);
    }
}
