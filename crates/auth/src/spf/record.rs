//! Records as they are written (RFC 7208 §4.6.1, §5, §6, §12).

use super::SpfResult;
use super::expansion::MacroString;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) directives: Vec<Directive>,
    pub(super) redirect: Option<MacroString>,
    pub(super) explanation: Option<MacroString>,
}

/// A mechanism, and the result of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directive {
    pub(super) verdict: SpfResult,
    pub(super) mechanism: Mechanism,
    /// As it is written.
    pub(super) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    All,
    Include(MacroString),
    /// `None`: of the domain itself, here and below.
    A(Option<MacroString>, Prefixes),
    Mx(Option<MacroString>, Prefixes),
    Ptr(Option<MacroString>),
    Ip4(Ipv4Addr, u8),
    Ip6(Ipv6Addr, u8),
    Exists(MacroString),
}

/// Number of significant address bits, by family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefixes {
    pub(super) v4: u8,
    pub(super) v6: u8,
}

/// An invalid term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TermError(pub(super) String);

/// Returns true if a TXT record is a policy (RFC 7208 §4.5).
pub(super) fn is_policy(txt: &[u8]) -> bool {
    let Some((version, rest)) = txt.split_at_checked(6) else { return false };
    version.eq_ignore_ascii_case(b"v=spf1") && rest.first().is_none_or(|byte| *byte == b' ')
}

impl Record {
    /// Reads a TXT record of which [`is_policy`] holds.
    ///
    /// # Errors
    /// The first term that is none (RFC 7208 §4.6).
    pub(super) fn parse(txt: &[u8]) -> Result<Record, TermError> {
        let text = std::str::from_utf8(txt).ok().filter(|text| text.is_ascii());
        let text = text.ok_or_else(|| TermError("a record that is not ASCII".into()))?;
        let mut record = Record::default();
        for term in text[6..].split(' ').filter(|term| !term.is_empty()) {
            let wrong = || TermError(format!("\"{}\" is not a term", term.escape_default()));
            record.take(term).ok_or_else(wrong)?;
        }
        Ok(record)
    }

    fn take(&mut self, term: &str) -> Option<()> {
        let is_name = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_alphabetic())
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        };
        if let Some((name, value)) = term.split_once('=').filter(|(name, _)| is_name(name)) {
            return self.take_modifier(name, value);
        }
        let (verdict, mechanism) = match term.as_bytes().first()? {
            b'+' => (SpfResult::Pass, &term[1..]),
            b'-' => (SpfResult::Fail, &term[1..]),
            b'~' => (SpfResult::SoftFail, &term[1..]),
            b'?' => (SpfResult::Neutral, &term[1..]),
            _ => (SpfResult::Pass, term),
        };
        let mechanism = Mechanism::parse(mechanism)?;
        self.directives.push(Directive { verdict, mechanism, text: term.to_owned() });
        Some(())
    }

    /// RFC 7208 §6: known modifiers appear once, unknown ones are ignored.
    fn take_modifier(&mut self, name: &str, value: &str) -> Option<()> {
        let place = match name.to_ascii_lowercase().as_str() {
            "redirect" => &mut self.redirect,
            "exp" => &mut self.explanation,
            _ => return MacroString::parse(value, true).map(|_| ()),
        };
        if place.is_some() {
            return None;
        }
        *place = Some(MacroString::domain(value)?);
        Some(())
    }
}

impl Mechanism {
    fn parse(text: &str) -> Option<Mechanism> {
        let end = text.find([':', '/']).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let argument = rest.strip_prefix(':');
        match name.to_ascii_lowercase().as_str() {
            "all" if rest.is_empty() => Some(Mechanism::All),
            "include" => Some(Mechanism::Include(MacroString::domain(argument?)?)),
            "exists" => Some(Mechanism::Exists(MacroString::domain(argument?)?)),
            "ptr" if rest.is_empty() => Some(Mechanism::Ptr(None)),
            "ptr" => Some(Mechanism::Ptr(Some(MacroString::domain(argument?)?))),
            "a" => hosts(rest).map(|(domain, prefixes)| Mechanism::A(domain, prefixes)),
            "mx" => hosts(rest).map(|(domain, prefixes)| Mechanism::Mx(domain, prefixes)),
            "ip4" => {
                let (address, bits) = network(argument?, 32)?;
                Some(Mechanism::Ip4(address.parse().ok()?, bits))
            }
            "ip6" => {
                let (address, bits) = network(argument?, 128)?;
                Some(Mechanism::Ip6(address.parse().ok()?, bits))
            }
            _ => None,
        }
    }
}

fn network(text: &str, bits_max: u8) -> Option<(&str, u8)> {
    match text.split_once('/') {
        Some((address, bits)) => Some((address, number_of_bits(bits, bits_max)?)),
        None => Some((text, bits_max)),
    }
}

/// `":" domain-spec`, prefix lengths, both or neither (RFC 7208 §5.3, §5.4).
fn hosts(rest: &str) -> Option<(Option<MacroString>, Prefixes)> {
    let mut prefixes = Prefixes { v4: 32, v6: 128 };
    let mut domain = rest;
    if let Some((before, bits)) = split_bits(domain, "//") {
        (domain, prefixes.v6) = (before, number_of_bits(bits, 128)?);
    }
    if let Some((before, bits)) = split_bits(domain, "/") {
        (domain, prefixes.v4) = (before, number_of_bits(bits, 32)?);
    }
    match domain {
        "" => Some((None, prefixes)),
        _ => Some((Some(MacroString::domain(domain.strip_prefix(':')?)?), prefixes)),
    }
}

/// The text before the final `slashes` and digits, and the digits.
fn split_bits<'a>(text: &'a str, slashes: &str) -> Option<(&'a str, &'a str)> {
    let before = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let bits = &text[before.len()..];
    if bits.is_empty() {
        return None;
    }
    Some((before.strip_suffix(slashes)?, bits))
}

fn number_of_bits(text: &str, max: u8) -> Option<u8> {
    let is_plain = text == "0" || text.starts_with(|first: char| ('1'..='9').contains(&first));
    let bits = text.parse::<u8>().ok().filter(|_| is_plain)?;
    (bits <= max).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_lengths_stand_behind_what_they_are_of() {
        let read =
            |text: &str| hosts(text).map(|(domain, bits)| (domain.is_some(), bits.v4, bits.v6));
        assert_eq!(read(""), Some((false, 32, 128)));
        assert_eq!(read("/24"), Some((false, 24, 128)));
        assert_eq!(read("//64"), Some((false, 32, 64)));
        assert_eq!(read(":a.example/0//0"), Some((true, 0, 0)));
        for bad in ["/33", "//129", "/024", "/", ":", ":a.example/", "/24/24", "//64/24", ":/24"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_policy_is_told_by_its_first_word() {
        for (txt, is) in [
            (&b"v=spf1"[..], true),
            (b"V=SPF1 -all", true),
            (b"v=spf10 -all", false),
            (b"v=spf", false),
            (b" v=spf1", false),
        ] {
            assert_eq!(is_policy(txt), is, "{txt:?}");
        }
    }

    #[test]
    fn terms_that_are_none_are_named() {
        for bad in ["a\tb", "all.", "redirect=a.b redirect=c.d", "ip4:1.2.3", "moo", "-", "1x=y"] {
            let record = format!("v=spf1 {bad}");
            assert!(Record::parse(record.as_bytes()).is_err(), "{bad}");
        }
        assert!(Record::parse(b"v=spf1 x-unknown=%{d} ~all").is_ok());
    }
}
