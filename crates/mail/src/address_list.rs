//! The addresses of a header field (RFC 5322 §3.4), accepted only if all readers agree on them.
//!
//! Mail programs and libraries differ about text outside the grammar. One uses the first of two addresses, another the
//! last, a third the text after the brackets. The address shown to a person must be the one that was checked. Therefore
//! only forms with a unique derivation in the grammar are accepted: a phrase and an address in angle brackets with only
//! comments after it, or an address alone. Two harmless forms outside the grammar are accepted too. One is dots, `@`
//! and square brackets in a phrase (RFC 5322 §4.1). The other is parts of a name cut off by an unquoted comma (`Doe, Jo
//! <jo@example.org>`).

use crate::is_dot_string;
use std::str::CharIndices;

/// One address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The local part without quotes and quoted pairs.
    pub local: String,
    /// As written. Empty: none.
    pub domain: String,
}

impl Address {
    /// The address as written in a header field: the local part is quoted if needed (RFC 5322 §3.4.1).
    #[must_use]
    pub fn to_text(&self) -> String {
        let Address { local, domain } = self;
        if is_dot_string(local) {
            return format!("{local}@{domain}");
        }
        let mut quoted = String::with_capacity(local.len() + 2);
        for c in local.chars() {
            if matches!(c, '"' | '\\') {
                quoted.push('\\');
            }
            quoted.push(c);
        }
        format!("\"{quoted}\"@{domain}")
    }
}

/// A member of an address list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The phrase before the address, followed by comments in parentheses; or the name of a group.
    pub name: Option<String>,
    /// `None`: an empty group.
    pub address: Option<Address>,
}

/// Limits for parsing a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub members: usize,
    /// Words, comments and specials of a member.
    pub tokens: usize,
}

/// The addresses in the value of a field, including those of groups. `None` if readers would not agree on them.
#[must_use]
pub fn read(value: &[u8]) -> Option<Vec<Address>> {
    let text = String::from_utf8_lossy(value);
    let limits = Limits { members: usize::MAX, tokens: usize::MAX };
    let list = AddressListParser::of(&text, limits, false)?;
    // A program that decodes encoded text before it splits at commas finds an address here.
    if list.has_shady_name {
        return None;
    }
    let mut addresses: Vec<Address> =
        list.members.into_iter().filter_map(|member| member.address).collect();
    if addresses.is_empty() && list.has_name {
        addresses.push(Address { local: String::new(), domain: String::new() });
    }
    Some(addresses)
}

/// The same with names, for a program that rewrites the list. Also `None` where the rewrite would lose data: a name
/// without an address, an unterminated group, an empty address; and beyond `limits`.
#[must_use]
pub fn members(text: &str, limits: Limits) -> Option<Vec<Member>> {
    let list = AddressListParser::of(text, limits, true)?;
    let is_nobody = |address: &Address| address.local.is_empty() || address.domain.is_empty();
    let mut addresses = list.members.iter().filter_map(|member| member.address.as_ref());
    let is_lossy = list.has_name
        || list.has_shady_name
        || list.has_stray_end
        || list.group.is_some()
        || addresses.any(is_nobody);
    (!is_lossy).then_some(list.members)
}

/// Longer text is not a domain (RFC 5321 §4.5.3.1.2), so the search for a closing bracket ends here.
const LITERAL_BYTES_MAX: usize = 255;

#[derive(Debug, PartialEq)]
enum Token<'t> {
    /// Blanks and folds.
    Blank,
    /// Its text.
    Comment(&'t str),
    /// The text in the quotes, without quoted pairs.
    Quoted(String),
    /// A domain literal, or text in square brackets.
    Literal(&'t str),
    Atom(&'t str),
    Special(char),
}

/// RFC 5322 §3.2.3, without the characters that begin a token.
const SPECIALS: &str = "<>[]:;@\\,.";

/// The next token. `Some(None)` if a quoted string or comment is not closed, or there is a control character.
fn token<'t>(text: &'t str, chars: &mut CharIndices<'t>) -> Option<Option<Token<'t>>> {
    let (at, c) = chars.next()?;
    Some(Some(match c {
        ' ' | '\t' | '\r' | '\n' => Token::Blank,
        '(' => return Some(comment(text, chars).map(Token::Comment)),
        ')' => return Some(None),
        '"' => return Some(quoted(chars).map(Token::Quoted)),
        '[' => match literal(&text[at..]) {
            Some(literal) => {
                skip_to(chars, at + literal.len());
                Token::Literal(literal)
            }
            None => Token::Special('['),
        },
        c if SPECIALS.contains(c) => Token::Special(c),
        c if c.is_ascii_control() => return Some(None),
        _ => {
            let rest = &text[at..];
            let ends =
                |c: char| c.is_ascii_control() || " ()\"".contains(c) || SPECIALS.contains(c);
            let length = rest.find(ends).unwrap_or(rest.len());
            skip_to(chars, at + length);
            Token::Atom(&rest[..length])
        }
    }))
}

fn skip_to(chars: &mut CharIndices<'_>, offset: usize) {
    while chars.offset() < offset && chars.next().is_some() {}
}

/// The text of a comment after its opening parenthesis (RFC 5322 §3.2.2).
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

/// The text of a quoted string after its opening quote (RFC 5322 §3.2.4).
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

/// Square brackets and their content, unless it could be read as an address.
fn literal(text: &str) -> Option<&str> {
    let near = text.get(..text.floor_char_boundary(LITERAL_BYTES_MAX))?;
    let end = near.find(']')?;
    let literal = text.get(..=end)?;
    let is_plain = |c: char| !c.is_control() && !"<>@\\\",;()".contains(c);
    let within = literal.get(1..end)?;
    (within.chars().all(is_plain) && !within.contains('[')).then_some(literal)
}

#[derive(Default)]
struct AddressListParser {
    members: Vec<Member>,
    is_in_angle: bool,
    /// The name of the group, and the number of members before it.
    group: Option<(Option<String>, usize)>,
    /// A member consisted of text without an address.
    has_name: bool,
    /// The name contained text that people may read as an address.
    has_shady_name: bool,
    /// The end of a group appeared outside of one.
    has_stray_end: bool,
    wants_names: bool,
}

impl AddressListParser {
    /// Parses the text token by token, so that the memory for a long text is that of its members.
    fn of(text: &str, limits: Limits, wants_names: bool) -> Option<AddressListParser> {
        let mut list = AddressListParser { wants_names, ..AddressListParser::default() };
        let mut chars = text.char_indices();
        let (mut member, mut count) = (Vec::new(), 0);
        while let Some(token) = token(text, &mut chars) {
            let token = token?;
            if list.ends_member(&token, &member)? {
                (member, count) = (Vec::new(), 0);
            } else if token != Token::Blank {
                member.push(token);
                count += 1;
            } else if member.last() != Some(&Token::Blank) {
                member.push(token);
            }
            if list.members.len() > limits.members || count > limits.tokens {
                return None;
            }
        }
        if list.is_in_angle {
            return None;
        }
        list.end_member(&member)?;
        (list.members.len() <= limits.members).then_some(list)
    }

    /// Returns true if a token ends the member before it, or the name of a group.
    fn ends_member(&mut self, token: &Token<'_>, member: &[Token<'_>]) -> Option<bool> {
        let Token::Special(special) = token else { return Some(false) };
        match special {
            '<' | '>' if self.is_in_angle == (*special == '<') => return None,
            '<' | '>' => self.is_in_angle = !self.is_in_angle,
            _ if self.is_in_angle => {}
            ',' => return self.end_member(member).map(|()| true),
            ';' => {
                self.end_member(member)?;
                self.end_group();
                return Some(true);
            }
            ':' => return self.begin_group(member).map(|()| true),
            _ => {}
        }
        Some(false)
    }

    /// RFC 5322 §3.4: `display-name ":" [group-list] ";"`.
    fn begin_group(&mut self, name: &[Token<'_>]) -> Option<()> {
        let has_word = name.iter().any(Token::is_word);
        let has_address = name.iter().any(|token| matches!(token, Token::Special('@' | '<' | '>')));
        if self.group.is_some() || !has_word || has_address || !is_phrase(name) {
            return None;
        }
        self.group = Some((self.name(name, &[]), self.members.len()));
        Some(())
    }

    fn end_group(&mut self) {
        match self.group.take() {
            Some((name, before)) if before == self.members.len() && self.wants_names => {
                self.members.push(Member { name, address: None });
            }
            Some(_) => {}
            None => self.has_stray_end = true,
        }
    }

    fn end_member(&mut self, member: &[Token<'_>]) -> Option<()> {
        let angle = |wanted| member.iter().position(|token| *token == Token::Special(wanted));
        if let (Some(start), Some(end)) = (angle('<'), angle('>')) {
            let (phrase, behind) = (&member[..start], &member[end + 1..]);
            if !is_phrase(phrase) || !behind.iter().all(Token::is_aside) {
                return None;
            }
            let address = Some(in_angle(&member[start + 1..end])?);
            self.members.push(Member { name: self.name(phrase, &member[start..]), address });
            return Some(());
        }
        if member.contains(&Token::Special('@')) {
            let address = Some(address(member)?);
            self.members.push(Member { name: self.name(&[], member), address });
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

    /// The name: a phrase, its comments and those of the tokens after it.
    fn name(&self, phrase: &[Token<'_>], behind: &[Token<'_>]) -> Option<String> {
        if !self.wants_names {
            return None;
        }
        let mut name = String::new();
        for token in phrase {
            match token {
                Token::Blank | Token::Comment(_) if name.ends_with(' ') => {}
                Token::Blank | Token::Comment(_) => name.push(' '),
                Token::Quoted(text) => name.push_str(text),
                Token::Atom(text) | Token::Literal(text) => name.push_str(text),
                Token::Special(special) => name.push(*special),
            }
        }
        let mut name = name.trim().to_owned();
        for token in phrase.iter().chain(behind) {
            if let Token::Comment(text) = token {
                let is_first = name.is_empty();
                name.push_str(if is_first { "(" } else { " (" });
                unquote(text, &mut name);
                name.push(')');
            }
        }
        (!name.is_empty()).then_some(name)
    }
}

/// Appends the text without quoted pairs (RFC 5322 §3.2.1) and line ends.
fn unquote(text: &str, out: &mut String) {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.extend(chars.next()),
            '\r' | '\n' => {}
            c => out.push(c),
        }
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

    /// Returns true if some readers may find an address in a token that has none.
    fn may_mislead(&self) -> bool {
        match self {
            Token::Comment(text) => text.contains('@'),
            Token::Quoted(text) => text.contains('@') || text.contains(ENCODED),
            Token::Atom(text) => text.contains(ENCODED),
            Token::Literal(_) | Token::Blank | Token::Special(_) => false,
        }
    }
}

/// Returns true if the tokens may precede an address in brackets and are read alike by all: RFC 5322 §4.1
/// (`obs-phrase`), and text that many programs write without quotes.
fn is_phrase(tokens: &[Token<'_>]) -> bool {
    tokens.iter().enumerate().all(|(at, token)| match token {
        // For example a Windows domain and user: it does not quote a special.
        Token::Special('\\') => {
            let next = tokens.get(at + 1);
            matches!(next, Some(Token::Atom(text)) if text.starts_with(char::is_alphanumeric))
        }
        Token::Special(special) => matches!(special, '.' | '@' | '[' | ']'),
        _ => true,
    })
}

/// The content of angle brackets: an address, optionally after a route (RFC 5322 §4.4).
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

/// `addr-spec` (RFC 5322 §3.4.1), with blanks and comments only around its parts.
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

/// Start of encoded text (RFC 2047 §2), which is not allowed in an address (§5). Some readers decode it all the same,
/// and find a different address.
const ENCODED: &str = "=?";

/// Returns true if no reader would find a blank or encoded text in it.
fn is_plain(text: &str) -> bool {
    !text.chars().any(|c| c.is_whitespace() || c.is_control()) && !text.contains(ENCODED)
}

fn trimmed<'s, 't>(tokens: &'s [Token<'t>]) -> &'s [Token<'t>] {
    let start = tokens.iter().take_while(|token| token.is_aside()).count();
    let end = tokens.iter().rev().take_while(|token| token.is_aside()).count();
    tokens.get(start..tokens.len() - end).unwrap_or_default()
}

#[cfg(test)]
mod tests;
