//! The domains of those whom a header names as authors (RFC 5322 §3.6.2).

use crate::scan::Scanned;
use mail::header;
use std::borrow::Cow;

/// Authors of one message that are looked at.
const AUTHORS_MAX: usize = 100;

/// Why it can't be told in whose name a message speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAuthor {
    /// Nobody is named, or not in a way that all would read alike.
    None,
    /// There are several From fields.
    Several,
}

/// The domain of the (first) author of a message, in ASCII and lower case. `added`: whole fields that go above
/// those of the message.
///
/// # Errors
/// It has not one From field with an address that can be read.
pub fn domain_of_author(added: &[u8], message: &Scanned) -> Result<String, NoAuthor> {
    if message.unreadable.is_some() {
        return Err(NoAuthor::None);
    }
    let parts = [added, &message.header];
    let mut fields = parts.iter().flat_map(|part| header::fields(part));
    let mut authors = fields.by_ref().filter(|field| field.is("From"));
    let Some(first) = authors.next() else { return Err(NoAuthor::None) };
    if authors.next().is_some() {
        return Err(NoAuthor::Several);
    }
    domains(first.value).into_iter().next().flatten().ok_or(NoAuthor::None)
}

/// The domains in the value of a From field, in ASCII and lower case, in their order. An author whose
/// domain can't be read is `None`.
pub(crate) fn domains(value: &[u8]) -> Vec<Option<String>> {
    let text = String::from_utf8_lossy(value);
    let Some(addresses) = addresses(&text) else { return vec![None] };
    let mut authors = Vec::new();
    for address in addresses.into_iter().take(AUTHORS_MAX) {
        authors.push(domain_of(&address));
    }
    // What people may take for an address is none by the rules: who that is can't be told.
    if authors.is_empty() && text.contains('@') { vec![None] } else { authors }
}

fn domain_of(address: &str) -> Option<String> {
    mail::Domain::dns_name(address.rsplit_once('@')?.1)
}

/// The addresses of a list, without names, comments and blanks; `None` where readers would differ: two addresses
/// in brackets for one author, a bracket or a comment without end, an address for a group's name.
fn addresses(text: &str) -> Option<Vec<Cow<'_, str>>> {
    let mut addresses = Vec::new();
    // What stands outside of angle brackets, and what stands within the last ones.
    let (mut plain, mut angle) = (String::new(), None::<String>);
    let (mut is_in_angle, mut depth) = (false, 0_u32);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '\\' if depth > 0 => drop(chars.next()),
            _ if depth > 0 => {}
            '"' => {
                let quoted = quoted(&mut chars);
                match &mut angle {
                    Some(angle) if is_in_angle => angle.push_str(&quoted),
                    _ => plain.push_str(&quoted),
                }
            }
            '<' if !is_in_angle => {
                if angle.is_some() {
                    return None;
                }
                is_in_angle = true;
                angle = Some(String::new());
            }
            '>' => is_in_angle = false,
            // A group's name is no author, and its end is that of an address.
            ':' if !is_in_angle && plain.contains('@') => return None,
            ':' if !is_in_angle => plain.clear(),
            ',' | ';' if !is_in_angle => {
                end(&mut plain, &mut angle, &mut addresses);
            }
            c if c.is_whitespace() => {}
            c => match &mut angle {
                Some(angle) if is_in_angle => angle.push(c),
                _ => plain.push(c),
            },
        }
    }
    end(&mut plain, &mut angle, &mut addresses);
    (!is_in_angle && depth == 0).then_some(addresses)
}

/// A quoted string's text, as far as it can matter: no quote, no at sign.
fn quoted(chars: &mut std::str::Chars<'_>) -> String {
    let mut text = String::new();
    while let Some(c) = chars.next() {
        match c {
            '"' => break,
            '\\' => drop(chars.next()),
            '@' | '<' | '>' | ',' => {}
            c => text.push(c),
        }
    }
    text.push('_');
    text
}

fn end<'a>(plain: &mut String, angle: &mut Option<String>, out: &mut Vec<Cow<'a, str>>) {
    let plain = std::mem::take(plain);
    match angle.take() {
        // A route stands before the address proper (RFC 5322 §4.4).
        Some(address) => {
            let address = address.rsplit_once(':').map_or(&*address, |(_, address)| address);
            out.push(Cow::Owned(address.to_owned()));
        }
        None if plain.is_empty() => {}
        None => out.push(Cow::Owned(plain)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_one_author_field() {
        let author = |added: &str, message: &str| {
            let mut scan = crate::scan::Scan::new(crate::scan::Wanted::default());
            scan.push(message.as_bytes());
            domain_of_author(added.as_bytes(), &scan.finish())
        };
        let one = Ok("a.test".to_owned());
        assert_eq!(author("", "To: x\r\nfrom : Jo <jo@A.test>, al@b.test\r\n\r\n"), one);
        assert_eq!(author("From: jo@a.test\r\n", "To: x\r\n\r\nFrom: al@b.test\r\n"), one);
        assert_eq!(author("", "To: x\r\n\r\n"), Err(NoAuthor::None));
        assert_eq!(author("", "From: jo\r\n\r\n"), Err(NoAuthor::None));
        assert_eq!(
            author("", "From: a@b.test\r\nno field\r\nFrom: c@d.test\r\n\r\n"),
            Err(NoAuthor::None)
        );
        assert_eq!(author("From: a@a.test\r\n", "FROM: a@a.test\r\n\r\n"), Err(NoAuthor::Several));
    }

    #[test]
    fn authors_are_found_among_names_comments_and_groups() {
        for (value, expected) in [
            (" jo@Example.org", vec![Some("example.org")]),
            (" Jo <jo@example.org>", vec![Some("example.org")]),
            (" \"a@evil.org, <b@evil.org>\" <jo@example.org>", vec![Some("example.org")]),
            (" a@evil.org <jo@example.org>", vec![Some("example.org")]),
            (" jo (x@evil.org, (y)\\)) @ example.org", vec![Some("example.org")]),
            (" <@relay.org:jo@example.org>", vec![Some("example.org")]),
            (" Us: jo@a.org, Al <al@b.org>;", vec![Some("a.org"), Some("b.org")]),
            (" \"j o\"@example.org", vec![Some("example.org")]),
            (" jo@b\u{fc}cher.example", vec![Some("xn--bcher-kva.example")]),
            (" jo", vec![None]),
            (" <>", vec![None]),
            (" Nobody:;", vec![]),
            // What some readers show is not what others do.
            (" jo@example.org:", vec![None]),
            (" jo@example.org:;", vec![None]),
            (" (<jo@example.org>", vec![None]),
            (" <jo@example.org", vec![None]),
            (" <jo@example.org> <al@evil.org>", vec![None]),
            (" (jo@example.org)", vec![None]),
            ("", vec![]),
        ] {
            let found = domains(value.as_bytes());
            let found: Vec<Option<&str>> = found.iter().map(Option::as_deref).collect();
            assert_eq!(found, expected, "{value}");
        }
        assert_eq!(domains("a@b.org,".repeat(1_000).as_bytes()).len(), AUTHORS_MAX);
    }
}
