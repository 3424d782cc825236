//! Search filters: RFC 4515 as they are written, RFC 4511 §4.5.1.7 as they are sent.

use crate::ber::{BOOLEAN, BerWriter, OCTETS, SEQUENCE};
use crate::key::{Cursor, Key, Template, TemplateError, attribute};

mod keyed;
pub use keyed::Keyed;

/// Filters within filters.
const DEPTH_MAX: usize = 32;

/// A filter with places for parts of the key (`%s`, `%u`, `%d`, `%1` to `%9`; `%%` is `%`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(Node);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    /// `=`, `>=`, `<=`, `~=`: the tag, the attribute and the value.
    Compare(u8, String, Template),
    /// Attribute, prefix, infixes in order, and suffix; prefix and suffix may be empty.
    Substrings(String, Template, Vec<Template>, Template),
    Present(String),
    /// A rule of comparison: RFC 4511 §4.5.1.7.7.
    Matching {
        rule: Option<String>,
        attribute: Option<String>,
        in_name: bool,
        value: Template,
    },
}

const EQUAL: u8 = 0xa3;
const AT_LEAST: u8 = 0xa5;
const AT_MOST: u8 = 0xa6;
const ABOUT: u8 = 0xa8;

impl Filter {
    /// `(objectClass=*)`: every entry.
    #[must_use]
    pub fn any() -> Filter {
        Filter(Node::Present("objectClass".to_owned()))
    }

    /// Reads a filter. Parentheses around the whole may be left out.
    ///
    /// # Errors
    /// It breaks the syntax, and where.
    pub fn parse(text: &str) -> Result<Filter, TemplateError> {
        let mut cursor = Cursor::new(text);
        let node = if cursor.peek() == Some('(') {
            filter(&mut cursor, 0)?
        } else {
            component(&mut cursor, 0)?
        };
        match cursor.peek() {
            None => Ok(Filter(node)),
            Some(_) => Err(cursor.error("text after the end of the filter")),
        }
    }

    /// Returns true if it has placeholders for parts of the key.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        self.0.has_parts()
    }

    /// Returns true if the key has all required parts.
    #[must_use]
    pub fn fits(&self, key: &Key<'_>) -> bool {
        self.0.templates().all(|template| template.fits(key))
    }

    /// As it is sent.
    pub(crate) fn write(&self, key: &Key<'_>, writer: &mut BerWriter) {
        self.0.write(key, writer);
    }
}

impl Node {
    fn has_parts(&self) -> bool {
        self.templates().any(Template::has_parts)
    }

    fn templates(&self) -> Box<dyn Iterator<Item = &Template> + '_> {
        match self {
            Node::And(nodes) | Node::Or(nodes) => Box::new(nodes.iter().flat_map(Node::templates)),
            Node::Not(node) => node.templates(),
            Node::Compare(_, _, value) | Node::Matching { value, .. } => {
                Box::new(std::iter::once(value))
            }
            Node::Substrings(_, first, any, last) => Box::new(any.iter().chain([first, last])),
            Node::Present(_) => Box::new(std::iter::empty()),
        }
    }

    fn write(&self, key: &Key<'_>, writer: &mut BerWriter) {
        match self {
            Node::And(nodes) => writer.nested(0xa0, |w| nodes.iter().for_each(|n| n.write(key, w))),
            Node::Or(nodes) => writer.nested(0xa1, |w| nodes.iter().for_each(|n| n.write(key, w))),
            Node::Not(node) => writer.nested(0xa2, |w| node.write(key, w)),
            Node::Compare(tag, attribute, value) => writer.nested(*tag, |w| {
                w.bytes(OCTETS, attribute.as_bytes());
                w.bytes(OCTETS, &value.value(key));
            }),
            Node::Substrings(attribute, first, any, last) => writer.nested(0xa4, |w| {
                w.bytes(OCTETS, attribute.as_bytes());
                w.nested(SEQUENCE, |w| {
                    let any = any.iter().map(|template| (0x81, template));
                    for (tag, template) in
                        [(0x80, first)].into_iter().chain(any).chain([(0x82, last)])
                    {
                        if !template.is_empty() {
                            w.bytes(tag, &template.value(key));
                        }
                    }
                });
            }),
            Node::Present(attribute) => writer.bytes(0x87, attribute.as_bytes()),
            Node::Matching { rule, attribute, in_name, value } => writer.nested(0xa9, |w| {
                if let Some(rule) = rule {
                    w.bytes(0x81, rule.as_bytes());
                }
                if let Some(attribute) = attribute {
                    w.bytes(0x82, attribute.as_bytes());
                }
                w.bytes(0x83, &value.value(key));
                if *in_name {
                    w.boolean(0x83 + BOOLEAN, true);
                }
            }),
        }
    }
}

/// A filter in parentheses.
fn filter(cursor: &mut Cursor<'_>, depth: usize) -> Result<Node, TemplateError> {
    if !cursor.take('(') {
        return Err(cursor.error("expected ("));
    }
    let node = component(cursor, depth)?;
    if cursor.take(')') { Ok(node) } else { Err(cursor.error("expected )")) }
}

/// Parses a filter between its parentheses.
fn component(cursor: &mut Cursor<'_>, depth: usize) -> Result<Node, TemplateError> {
    if depth >= DEPTH_MAX {
        return Err(cursor.error(format!("more than {DEPTH_MAX} nested filters")));
    }
    match cursor.peek() {
        Some('&') => Ok(Node::And(list(cursor, depth)?)),
        Some('|') => Ok(Node::Or(list(cursor, depth)?)),
        Some('!') => {
            cursor.next();
            Ok(Node::Not(Box::new(filter(cursor, depth + 1)?)))
        }
        _ => item(cursor),
    }
}

fn list(cursor: &mut Cursor<'_>, depth: usize) -> Result<Vec<Node>, TemplateError> {
    cursor.next();
    let mut nodes = vec![filter(cursor, depth + 1)?];
    while cursor.peek() == Some('(') {
        nodes.push(filter(cursor, depth + 1)?);
    }
    Ok(nodes)
}

fn item(cursor: &mut Cursor<'_>) -> Result<Node, TemplateError> {
    if cursor.peek() == Some(':') {
        return matching(cursor, None);
    }
    let attribute = attribute(cursor)?;
    let tag = match cursor.peek() {
        Some(':') => return matching(cursor, Some(attribute)),
        Some('=') => {
            cursor.next();
            return equal(cursor, attribute);
        }
        Some('>') => AT_LEAST,
        Some('<') => AT_MOST,
        Some('~') => ABOUT,
        _ => return Err(cursor.error("expected =, >=, <=, ~= or :=")),
    };
    cursor.next();
    if !cursor.take('=') {
        return Err(cursor.error("expected ="));
    }
    let (value, star) = value(cursor)?;
    if star {
        Err(cursor.error("* is not allowed here; write the character as \\2a"))
    } else {
        Ok(Node::Compare(tag, attribute, value))
    }
}

/// Parses the text after `=`: a value, `*`, or pieces with `*` between them.
fn equal(cursor: &mut Cursor<'_>, attribute: String) -> Result<Node, TemplateError> {
    let (first, mut star) = value(cursor)?;
    if !star {
        return Ok(Node::Compare(EQUAL, attribute, first));
    }
    let mut pieces = Vec::new();
    while star {
        cursor.next();
        let (piece, next) = value(cursor)?;
        pieces.push(piece);
        star = next;
    }
    let last = pieces.pop().unwrap_or_default();
    if first.is_empty() && last.is_empty() && pieces.is_empty() {
        return Ok(Node::Present(attribute));
    }
    if pieces.iter().any(Template::is_empty) {
        return Err(cursor.error("** is not allowed"));
    }
    Ok(Node::Substrings(attribute, first, pieces, last))
}

/// `attr:dn:rule:=value`, from the first colon.
fn matching(cursor: &mut Cursor<'_>, left: Option<String>) -> Result<Node, TemplateError> {
    let mut in_name = false;
    let mut rule = None;
    while cursor.take(':') {
        if cursor.take('=') {
            let (value, star) = value(cursor)?;
            if star {
                return Err(cursor.error("* is not allowed here; write the character as \\2a"));
            }
            if left.is_none() && rule.is_none() {
                return Err(cursor.error("neither an attribute nor a matching rule"));
            }
            return Ok(Node::Matching { rule, attribute: left, in_name, value });
        }
        let name = attribute(cursor)?;
        if rule.is_some() {
            return Err(cursor.error("a second matching rule"));
        }
        if name.eq_ignore_ascii_case("dn") && !in_name {
            in_name = true;
        } else {
            rule = Some(name);
        }
    }
    Err(cursor.error("expected :="))
}

/// A value up to `)`, `*` or the end, and whether it was `*`, which is not read.
fn value(cursor: &mut Cursor<'_>) -> Result<(Template, bool), TemplateError> {
    let mut out = Template::default();
    while let Some(c) = cursor.peek() {
        match c {
            ')' => break,
            '*' => return Ok((out, true)),
            '(' => return Err(cursor.error("write ( in a value as \\28")),
            '\0' => return Err(cursor.error("write NUL in a value as \\00")),
            '\\' => {
                cursor.next();
                out.push_byte(cursor.hex()?);
            }
            '%' => {
                cursor.next();
                cursor.placeholder(&mut out)?;
            }
            c => {
                cursor.next();
                out.push_char(c);
            }
        }
    }
    Ok((out, false))
}

#[cfg(test)]
mod tests;
