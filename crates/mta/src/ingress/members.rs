//! Splits list members in tables and files (aliases, sender lists) at commas and whitespace outside quotes. Only text
//! written by the operator is split. A value that came from the key, possibly chosen by an unauthenticated client,
//! always stays within one member and is quoted if necessary.

use lookup::Entry;
use mail::{Domain, Mailbox, is_dot_string};
use std::borrow::Cow;
use std::ops::Range;

/// Prefix of a member that names a file with members.
pub(super) const LIST: &str = ":include:";

/// One member.
#[derive(Debug, PartialEq, Eq)]
pub enum MemberToken<'e> {
    /// An address, `@domain`, a name without a domain, or an unusable text.
    Address(Cow<'e, str>),
    /// The path of a file with members.
    List(Cow<'e, str>),
    /// Invalid: a value from the key would name a file or a domain.
    Bad(Cow<'e, str>),
}

/// Completes a member: `@example.org` keeps the local part of the alias, and a name without a domain gets `origin`. `None`
/// if it is no address.
#[must_use]
pub fn completed(text: &str, local: &str, origin: &Domain) -> Option<Mailbox> {
    let text = match text.strip_prefix('@') {
        Some(domain) => format!("{local}@{domain}"),
        // A command, file or directive of a sendmail alias file, never an address.
        None if text.starts_with(['"', '|', '/', ':']) && !text.contains('@') => return None,
        None if !text.contains('@') => format!("{text}@{origin}"),
        None => text.to_owned(),
    };
    Mailbox::parse(&text, true).ok()
}

/// The members of a text without values from a key.
pub fn members(text: &str) -> impl Iterator<Item = MemberToken<'_>> {
    let mut quotes = Quotes::default();
    let parts = text.split(move |c: char| quotes.handle(c) && is_separator(c));
    parts.filter(|part| !part.is_empty()).map(written)
}

/// The members of an entry. With `is_built`, the text may contain values from a key that needs quoting, at unknown
/// positions. It is then valid only as a single address.
pub(super) fn members_of(entry: &Entry, is_built: bool) -> Vec<MemberToken<'_>> {
    if !entry.filled.is_empty() {
        let all = split_filled(&entry.text, &entry.filled).into_iter();
        return all.map(|(written, _)| written).collect();
    }
    let all: Vec<MemberToken<'_>> = members(&entry.text).collect();
    match (is_built, &*all) {
        (false, _) | (true, [] | [MemberToken::Address(_)]) => all,
        (true, _) => vec![MemberToken::Bad((&*entry.text).into())],
    }
}

/// An alias with more members is a list.
const LIST_MIN: usize = 50;

/// Returns true if an entry is a list: it includes a file or has many members, and contains no values from the key.
pub(super) fn is_list(entry: &Entry) -> bool {
    entry.filled.is_empty()
        && (entry.text.contains(LIST) || members(&entry.text).nth(LIST_MIN).is_some())
}

/// The addresses and domains in an entry, each possibly a whole domain (`@example.org`, `example.org`). `is_built` is
/// as for [`members_of`]. A value from the key is a domain only after the operator's `@`, otherwise a user could choose
/// the domain by its own name.
#[must_use]
pub fn granted_by(entry: &Entry, is_built: bool) -> Vec<Cow<'_, str>> {
    let address = |written: MemberToken<'_>| match written {
        MemberToken::Address(text) => Some(text.into_owned().into()),
        MemberToken::List(_) | MemberToken::Bad(_) => None,
    };
    if !entry.filled.is_empty() {
        let all = split_filled(&entry.text, &entry.filled).into_iter();
        let all = all.filter_map(|(written, has_values)| Some((address(written)?, has_values)));
        let is_granted =
            |(text, has_values): &(Cow<'_, str>, bool)| !has_values || text.contains('@');
        return all.filter(is_granted).map(|(text, _)| text).collect();
    }
    if !is_built {
        return members(&entry.text).filter_map(address).collect();
    }
    // Each value must be exactly one member.
    let named = entry.fields.iter().flat_map(|(_, values)| values.iter());
    let text = entry.fields.is_empty().then_some(&entry.text);
    named.chain(text).filter_map(|value| only_member(value).and_then(address)).collect()
}

/// The member, if the text is exactly one.
fn only_member(text: &str) -> Option<MemberToken<'_>> {
    let mut all = members(text);
    all.next().filter(|_| all.next().is_none())
}

/// Returns true if a text always stays a single member.
#[must_use]
pub fn is_one_member(text: &str) -> bool {
    !text.contains(|c: char| is_separator(c) || matches!(c, '"' | '\\'))
}

fn written(part: &str) -> MemberToken<'_> {
    // In sendmail's alias files the whole member may be quoted.
    let bare = part.strip_prefix('"').and_then(|part| part.strip_suffix('"')).unwrap_or(part);
    match bare.strip_prefix(LIST) {
        Some(path) => MemberToken::List(path.into()),
        None => MemberToken::Address(part.into()),
    }
}

fn is_separator(c: char) -> bool {
    c == ',' || c.is_ascii_whitespace()
}

/// Tracks whether the text is inside quotes.
#[derive(Default)]
struct Quotes {
    is_quoted: bool,
    is_escaped: bool,
}

impl Quotes {
    /// Processes a character and returns true if it is outside quotes.
    fn handle(&mut self, c: char) -> bool {
        if self.is_escaped {
            self.is_escaped = false;
        } else if c == '\\' {
            self.is_escaped = self.is_quoted;
        } else if c == '"' {
            self.is_quoted = !self.is_quoted;
        }
        !self.is_quoted
    }
}

/// The member being parsed.
#[derive(Default)]
struct Member {
    text: String,
    /// Position of the last `@` written by the operator.
    at: Option<usize>,
    /// Length of the operator's text at the start.
    written_bytes: usize,
    has_values: bool,
    /// A value from the key contains a slash.
    has_slash: bool,
}

/// The members, each with true if it contains values from the key.
fn split_filled<'e>(text: &str, filled: &[Range<u32>]) -> Vec<(MemberToken<'e>, bool)> {
    let (mut all, mut member, mut quotes) = (Vec::new(), Member::default(), Quotes::default());
    let mut ranges = filled.iter().peekable();
    for (place, c) in text.char_indices() {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        while ranges.next_if(|range| range.end <= place).is_some() {}
        if ranges.peek().is_some_and(|range| range.contains(&place)) {
            member.fill(c, quotes.is_quoted);
        } else if quotes.handle(c) && is_separator(c) {
            all.extend(std::mem::take(&mut member).finish());
        } else {
            member.write(c);
        }
    }
    all.extend(member.finish());
    all
}

impl Member {
    fn write(&mut self, c: char) {
        if c == '@' {
            self.at = Some(self.text.len());
        }
        self.text.push(c);
        if !self.has_values {
            self.written_bytes = self.text.len();
        }
    }

    fn fill(&mut self, c: char, is_quoted: bool) {
        self.has_values = true;
        self.has_slash |= c == '/';
        if is_quoted && matches!(c, '"' | '\\') {
            self.text.push('\\');
        }
        self.text.push(c);
    }

    fn finish(self) -> Option<(MemberToken<'static>, bool)> {
        let has_values = self.has_values;
        self.written().map(|written| (written, has_values))
    }

    fn written(self) -> Option<MemberToken<'static>> {
        let Member { text, at, written_bytes, has_values, has_slash } = self;
        if text.is_empty() {
            return None;
        }
        if !has_values {
            return Some(match written(&text) {
                MemberToken::List(path) => MemberToken::List(path.into_owned().into()),
                MemberToken::Address(text) | MemberToken::Bad(text) => {
                    MemberToken::Address(text.into_owned().into())
                }
            });
        }
        if let Some(path) = text.strip_prefix(LIST) {
            return Some(match written_bytes >= LIST.len() && !has_slash {
                true => MemberToken::List(path.to_owned().into()),
                false => MemberToken::Bad(text.into()),
            });
        }
        let at = at.or_else(|| text.rfind('@'));
        let (local, domain) = text.split_at(at.unwrap_or(text.len()));
        if local.is_empty() {
            // The operator's `@example.org` keeps the local part. Written by a client, it would choose the domain.
            return Some(match written_bytes > 0 {
                true => MemberToken::Address(text.into()),
                false => MemberToken::Bad(text.into()),
            });
        }
        if local.starts_with('"') || is_dot_string(local) {
            return Some(MemberToken::Address(text.into()));
        }
        let mut quoted = String::with_capacity(text.len() + 2);
        quoted.push('"');
        for c in local.chars() {
            if matches!(c, '"' | '\\') {
                quoted.push('\\');
            }
            quoted.push(c);
        }
        quoted.push('"');
        quoted.push_str(domain);
        Some(MemberToken::Address(quoted.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(written: &MemberToken<'_>) -> String {
        match written {
            MemberToken::Address(text) => text.to_string(),
            MemberToken::List(path) => format!("list {path}"),
            MemberToken::Bad(text) => format!("bad {text}"),
        }
    }

    #[test]
    fn members_stand_between_commas_and_blanks() {
        let all = |text| members(text).map(|one| shown(&one)).collect::<Vec<_>>();
        assert_eq!(all("a@x.test, b@x.test\tc@x.test,,"), ["a@x.test", "b@x.test", "c@x.test"]);
        assert_eq!(
            all("\"a, \\\" b\"@x.test,c@x.test"),
            ["\"a, \\\" b\"@x.test", "c@x.test"],
            "not within quotes"
        );
        assert!(all(" , ").is_empty());
        assert_eq!(all(":include:/l/a, \":include:/l/b c\" x"), ["list /l/a", "list /l/b c", "x"]);
    }

    /// `{}` in a template stands for a value from the key.
    fn filled(template: &str, value: &str) -> Entry {
        let (mut text, mut filled) = (String::new(), Vec::new());
        for (n, part) in template.split("{}").enumerate() {
            if n > 0 {
                let start = text.len() as u32;
                text.push_str(value);
                filled.push(start..text.len() as u32);
            }
            text.push_str(part);
        }
        Entry::filled(text, filled)
    }

    fn split(template: &str, value: &str) -> Vec<String> {
        members_of(&filled(template, value), false).iter().map(shown).collect()
    }

    #[test]
    fn a_value_of_the_key_makes_no_second_member() {
        for value in [
            "victim@far.test,y",
            "victim@far.test y",
            "victim@far.test\ty",
            ",victim@far.test,",
            "a\"b, victim@far.test",
            "\\\", victim@far.test, \\\"",
            "x\" victim@far.test \"y",
            "@far.test",
            "a@far.test",
            ":include:/etc/passwd,victim@far.test",
        ] {
            let all = split("{}@x.test, list@y.test", value);
            assert_eq!(all.len(), 2, "{value:?}: {all:?}");
            assert!(all[0].ends_with("@x.test") && all[1] == "list@y.test", "{value:?}: {all:?}");
            let quoted = split("\"{}\"@x.test,{}-2@y.test", value);
            assert_eq!(quoted.len(), 2, "{value:?}: {quoted:?}");
            for written in all.iter().chain(&quoted) {
                let parsed = mail::Mailbox::parse(written, true);
                let domain = parsed.map(|mailbox| mailbox.domain_str().to_owned());
                // What can't be an address refuses the alias.
                assert!(domain.is_err() || domain.as_deref() != Ok("far.test"), "{written}");
            }
        }
        assert_eq!(split("{}@x.test", "a b"), ["\"a b\"@x.test"]);
        assert_eq!(split("{}@x.test", "a\\ \"b"), ["\"a\\\\ \\\"b\"@x.test"]);
        assert_eq!(split("x-{}@x.test", "jo"), ["x-jo@x.test"]);
        assert_eq!(split("{}", "jo@x.test"), ["jo@x.test"]);
        assert_eq!(split("@{}", "x.test"), ["@x.test"]);
        assert_eq!(split("{}", "@far.test"), ["bad @far.test"]);
    }

    #[test]
    fn a_value_of_the_key_grants_nobody_elses_address() {
        let of_key =
            |template: &str, value: &str| granted_by(&filled(template, value), false).join("|");
        assert_eq!(of_key("{}@x.test, list@y.test", "jo"), "jo@x.test|list@y.test");
        assert_eq!(of_key("{} y.test", "jo@x.test"), "jo@x.test|y.test");
        assert_eq!(of_key("@{}", "x.test"), "@x.test");
        for value in ["ceo@x.test,a", "ceo@x.test a", "a,ceo@x.test", "\",ceo@x.test,\"", "@x.test"]
        {
            for template in ["{}@y.test", "\"{}\"@y.test", "{}-2@y.test"] {
                let granted = of_key(template, value);
                assert!(granted.ends_with("@y.test") || granted.is_empty(), "{granted}");
                let parsed = mail::Mailbox::parse(&granted, true);
                let domain = parsed.map(|mailbox| mailbox.domain_str().to_owned());
                assert!(domain.map_or(true, |domain| domain == "y.test"), "{granted}");
            }
        }
        // Whoever is called so is not the owner of the domain.
        for value in ["x.test", "@x.test", "a,x.test", "x.test y"] {
            assert_eq!(of_key("{}", value), "", "{value}");
        }
        // Of a server that may have put its question into its answer each value is one.
        let values: Box<[Box<str>]> = ["ceo@x.test,a@y.test".into(), "b@y.test".into()].into();
        let entry = Entry::fields([(Box::from("address"), values)]);
        assert_eq!(granted_by(&entry, true), ["b@y.test"]);
        assert_eq!(granted_by(&entry, false), ["ceo@x.test", "a@y.test", "b@y.test"]);
        assert!(granted_by(&Entry::text("ceo@x.test,a@y.test"), true).is_empty());
        assert!(is_one_member("jo@x.test") && is_one_member("j\u{f6}"));
        for several in ["a,b", "a b", "a\tb", "\"a", "a\\"] {
            assert!(!is_one_member(several), "{several}");
        }
    }

    #[test]
    fn a_value_of_the_key_names_no_file() {
        assert_eq!(split(":include:/lists/{}", "staff"), ["list /lists/staff"]);
        for value in ["../passwd", "a/b", "/etc/passwd"] {
            assert_eq!(
                split(":include:/lists/{}", value),
                [format!("bad :include:/lists/{value}")]
            );
        }
        assert_eq!(split("{}", ":include:/lists/a"), ["bad :include:/lists/a"]);
        assert_eq!(split("{}include:/lists/a", ":"), ["bad :include:/lists/a"]);
    }

    #[test]
    fn what_may_be_built_of_a_key_is_one_member() {
        let built = |text: &str, is_built| {
            members_of(&Entry::text(text), is_built).iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(built("a@x.test", true), ["a@x.test"]);
        assert_eq!(built("\"a b\"@x.test", true), ["\"a b\"@x.test"]);
        assert_eq!(built("a@x.test,b@x.test", false), ["a@x.test", "b@x.test"]);
        for text in ["a@x.test,b@x.test", "a@x.test b@x.test", ":include:/lists/a"] {
            assert_eq!(built(text, true), [format!("bad {text}")]);
        }
        let of_key = std::iter::once(0..3).collect();
        let parts = [Entry::filled("a,b@x.test", of_key), Entry::text("c@x.test")];
        let union = Entry::join(&parts);
        let all: Vec<String> = members_of(&union, false).iter().map(shown).collect();
        assert_eq!(all, ["\"a,b\"@x.test", "c@x.test"]);
    }
}
