//! Macros (RFC 7208 §7).

use super::SpfQuery;
use std::fmt::Write as _;
use std::net::IpAddr;

/// Maximum length of a name; a longer expansion loses labels on the left (RFC 7208 §7.3).
const NAME_BYTES_MAX: usize = 253;

/// A longer expansion is cut, and is no longer a name.
const EXPANDED_BYTES_MAX: usize = 4 * 1024;

/// Text with macros in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MacroString(Vec<MacroPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum MacroPart {
    Text(String),
    Macro(Macro),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Macro {
    /// In lower case.
    letter: u8,
    is_escaped: bool,
    /// Number of labels kept on the right; 0: all.
    keep: usize,
    is_reversed: bool,
    delimiters: String,
}

/// Values of the macros.
pub(super) struct Values<'a> {
    pub(super) question: &'a SpfQuery<'a>,
    /// Local part and domain of the sender.
    pub(super) sender: (&'a str, &'a str),
    /// The domain of the record.
    pub(super) domain: &'a str,
    /// The validated name of the client, where `p` occurs.
    pub(super) client_name: Option<&'a str>,
}

impl MacroString {
    /// Reads a `macro-string`; `is_any_letter`: with those too that make sense only in
    /// explanations.
    pub(super) fn parse(text: &str, is_any_letter: bool) -> Option<MacroString> {
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if first != '%' {
                // Explanations have blanks.
                let is_text = matches!(first, '!'..='~') || is_any_letter && first == ' ';
                if !is_text {
                    return None;
                }
                plain.push(first);
                rest = &rest[1..];
                continue;
            }
            match rest.as_bytes().get(1)? {
                b'%' => plain.push('%'),
                b'_' => plain.push(' '),
                b'-' => plain.push_str("%20"),
                b'{' => {
                    let end = rest.find('}')?;
                    let letters: &[u8] = if is_any_letter { b"slodipvhcrt" } else { b"slodipvh" };
                    let parsed = Macro::parse(&rest[2..end], letters)?;
                    if !plain.is_empty() {
                        parts.push(MacroPart::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(MacroPart::Macro(parsed));
                    rest = &rest[end + 1..];
                    continue;
                }
                _ => return None,
            }
            rest = &rest[2..];
        }
        if !plain.is_empty() {
            parts.push(MacroPart::Text(plain));
        }
        Some(MacroString(parts))
    }

    /// Reads a `domain-spec`: it ends in a macro or in a label that a top-level domain could have
    /// (RFC 7208 §7.1).
    pub(super) fn domain(text: &str) -> Option<MacroString> {
        let template = MacroString::parse(text, false)?;
        match template.0.last()? {
            MacroPart::Macro(_) => Some(template),
            MacroPart::Text(_) => is_top_label(text).then_some(template),
        }
    }

    pub(super) fn needs_client_name(&self) -> bool {
        self.0.iter().any(|part| matches!(part, MacroPart::Macro(Macro { letter: b'p', .. })))
    }

    pub(super) fn expand(&self, values: &Values<'_>) -> String {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                MacroPart::Text(plain) => text.push_str(plain),
                MacroPart::Macro(of) => of.expand(values, &mut text),
            }
            if text.len() > EXPANDED_BYTES_MAX {
                break;
            }
        }
        text
    }

    /// The same, as the name of a domain: without a dot at its end, and cut from the left.
    pub(super) fn expand_domain(&self, values: &Values<'_>) -> String {
        let mut name = self.expand(values);
        if name.ends_with('.') {
            name.pop();
        }
        let Some(cut) = name.len().checked_sub(NAME_BYTES_MAX).filter(|cut| *cut > 0) else {
            return name;
        };
        // The rest begins after a dot, and has a valid length.
        match name.bytes().skip(cut - 1).position(|byte| byte == b'.') {
            Some(dot) if name.len() <= EXPANDED_BYTES_MAX => name.split_off(cut + dot),
            _ => name,
        }
    }
}

fn is_top_label(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let Some((_, label)) = text.rsplit_once('.') else { return false };
    let is_letter_or_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = label.as_bytes();
    is_letter_or_digit(bytes.first())
        && is_letter_or_digit(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        && bytes.iter().any(|byte| !byte.is_ascii_digit())
}

impl Macro {
    fn parse(text: &str, letters: &[u8]) -> Option<Macro> {
        let first = *text.as_bytes().first()?;
        let letter = first.to_ascii_lowercase();
        if !letters.contains(&letter) {
            return None;
        }
        let rest = &text[1..];
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let digits = &rest[..rest.len() - after.len()];
        let keep = match digits {
            "" => 0,
            // More labels than a name can have select all labels.
            _ => digits.parse::<u64>().map_or(128, |n| usize::try_from(n.min(128)).unwrap_or(128)),
        };
        if !digits.is_empty() && keep == 0 {
            return None;
        }
        let is_reversed = after.starts_with(['r', 'R']);
        let delimiters = &after[usize::from(is_reversed)..];
        let is_delimiter = |c: char| matches!(c, '.' | '-' | '+' | ',' | '/' | '_' | '=');
        delimiters.chars().all(is_delimiter).then(|| Macro {
            letter,
            is_escaped: first.is_ascii_uppercase(),
            keep,
            is_reversed,
            delimiters: if delimiters.is_empty() { ".".into() } else { delimiters.into() },
        })
    }

    fn expand(&self, values: &Values<'_>, out: &mut String) {
        let value = self.value(values);
        let mut pieces: Vec<&str> = value.split(|c| self.delimiters.contains(c)).collect();
        if self.is_reversed {
            pieces.reverse();
        }
        if self.keep > 0 {
            pieces.drain(..pieces.len().saturating_sub(self.keep));
        }
        let text = pieces.join(".");
        if !self.is_escaped {
            out.push_str(&text);
            return;
        }
        for byte in text.bytes() {
            match byte {
                b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' | b'~' => {
                    out.push(char::from(byte));
                }
                _ => drop(write!(out, "%{byte:02X}")),
            }
        }
    }

    /// RFC 7208 §7.2.
    fn value(&self, values: &Values<'_>) -> String {
        let (local, domain) = values.sender;
        match self.letter {
            b's' => format!("{local}@{domain}"),
            b'l' => local.to_owned(),
            b'o' => domain.to_owned(),
            b'd' => values.domain.to_owned(),
            b'i' => dotted(values.question.client),
            b'p' => values.client_name.unwrap_or("unknown").to_owned(),
            b'v' if values.question.client.is_ipv4() => "in-addr".to_owned(),
            b'v' => "ip6".to_owned(),
            b'h' => values.question.helo.to_owned(),
            b'c' => values.question.client.to_string(),
            b'r' => values.question.receiver.to_owned(),
            _ => values.question.now.to_string(),
        }
    }
}

/// RFC 7208 §7.3: IPv6 addresses by their nibbles.
fn dotted(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
            nibbles.map(|nibble| format!("{nibble:x}")).collect::<Vec<_>>().join(".")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spf::Sender;

    fn expand(text: &str, client: &str) -> Option<String> {
        let sender = Sender { local: "strong-bad", domain: "email.example.com" };
        let question = SpfQuery {
            client: client.parse().unwrap(),
            sender: Some(sender),
            helo: "mx.example.com",
            receiver: "us.example.org",
            now: 12,
        };
        let (sender, domain) = ((sender.local, sender.domain), sender.domain);
        let values = Values { question: &question, sender, domain, client_name: None };
        Some(MacroString::parse(text, true)?.expand(&values))
    }

    /// The examples of RFC 7208 §7.4.
    #[test]
    fn macros_expand_as_the_standard_shows() {
        for (text, expected) in [
            ("%{s}", "strong-bad@email.example.com"),
            ("%{d}", "email.example.com"),
            ("%{d4}", "email.example.com"),
            ("%{d2}", "example.com"),
            ("%{d1}", "com"),
            ("%{dr}", "com.example.email"),
            ("%{d2r}", "example.email"),
            ("%{l-}", "strong.bad"),
            ("%{lr-}", "bad.strong"),
            ("%{l1r-}", "strong"),
            ("%{ir}.%{v}._spf.%{d2}", "3.2.0.192.in-addr._spf.example.com"),
            ("%{S}%%%_%-", "strong-bad%40email.example.com% %20"),
        ] {
            assert_eq!(expand(text, "192.0.2.3").as_deref(), Some(expected), "{text}");
        }
        let nibbles = "1.0.b.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6";
        assert_eq!(expand("%{ir}.%{v}", "2001:db8::cb01").as_deref(), Some(nibbles));
    }

    #[test]
    fn long_names_lose_labels_on_the_left() {
        let label = "x".repeat(50);
        let long = |labels: usize| format!("{label}.").repeat(labels) + "%{d1}";
        let sender = Sender { local: "a", domain: "b.test" };
        let question = SpfQuery {
            client: "192.0.2.1".parse().unwrap(),
            sender: Some(sender),
            helo: "h",
            receiver: "r",
            now: 0,
        };
        let values = Values {
            question: &question,
            sender: (sender.local, sender.domain),
            domain: sender.domain,
            client_name: None,
        };
        let expand = |text: &str| MacroString::domain(text).unwrap().expand_domain(&values).len();
        assert_eq!(expand(&long(4)), 4 * 51 + 4);
        assert_eq!(expand(&long(5)), 4 * 51 + 4);
        assert_eq!(expand(&long(40)), 4 * 51 + 4);
        assert!(expand(&"%{d}".repeat(60_000)) > NAME_BYTES_MAX);
        let fits = "y".repeat(NAME_BYTES_MAX - 7) + ".b.test";
        assert_eq!([&fits, &format!("q.{fits}")].map(|text| expand(text)), [NAME_BYTES_MAX; 2]);
    }

    #[test]
    fn what_is_no_macro_is_refused() {
        for bad in ["%", "%a", "%{", "%{}", "%{x}", "%{d0}", "%{d,x}", "%{dr1}", "\u{e9}", "\t"] {
            assert_eq!(expand(bad, "192.0.2.3"), None, "{bad}");
        }
        assert_eq!(MacroString::parse("%{c}", false), None);
        for (domain, is) in [("a.b-c", true), ("a.12", false), ("a", false), ("%{d}", true)] {
            assert_eq!(MacroString::domain(domain).is_some(), is, "{domain}");
        }
    }
}
