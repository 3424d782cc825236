//! SMTP replies and enhanced status codes (RFC 5321 §4.2, RFC 3463).

use std::borrow::Cow;
use std::fmt;

/// An enhanced mail system status code (RFC 3463), for example 4.3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnhancedStatus {
    /// 2 success, 4 persistent transient failure, 5 permanent failure.
    pub class: u8,
    /// The subject (RFC 3463 §3).
    pub subject: u16,
    /// The detail within the subject.
    pub detail: u16,
}

impl EnhancedStatus {
    /// Composes a status.
    #[must_use]
    pub const fn new(class: u8, subject: u16, detail: u16) -> EnhancedStatus {
        EnhancedStatus { class, subject, detail }
    }

    /// Parses a status at the start of `text`, and returns the text after it, without leading blanks.
    #[must_use]
    pub fn parse_prefix(text: &str) -> Option<(EnhancedStatus, &str)> {
        let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
        let (code, rest) = text.split_at(end);
        if !rest.is_empty() && !rest.starts_with([' ', '\t']) {
            return None;
        }
        let mut parts = code.split('.');
        // RFC 3463 §2: the class is one digit, subject and detail are one to three.
        let class = match parts.next()? {
            "2" => 2,
            "4" => 4,
            "5" => 5,
            _ => return None,
        };
        let mut number = || -> Option<u16> {
            let part = parts.next()?;
            if part.is_empty() || part.len() > 3 { None } else { part.parse().ok() }
        };
        let (subject, detail) = (number()?, number()?);
        if parts.next().is_some() {
            return None;
        }
        Some((EnhancedStatus::new(class, subject, detail), rest.trim_start()))
    }
}

impl fmt::Display for EnhancedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.class, self.subject, self.detail)
    }
}

/// A reply: a code, a status, and text with lines separated by `\n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Three digits, 200 to 599.
    pub code: u16,
    /// The enhanced status, if any, sent before the text of each line (RFC 2034 §4).
    pub enhanced: Option<EnhancedStatus>,
    /// The text without codes.
    pub text: Cow<'static, str>,
}

impl Reply {
    /// A reply with an enhanced status as a triple.
    #[must_use]
    pub fn new(
        code: u16,
        (class, subject, detail): (u8, u16, u16),
        text: impl Into<Cow<'static, str>>,
    ) -> Reply {
        Reply {
            code,
            enhanced: Some(EnhancedStatus::new(class, subject, detail)),
            text: text.into(),
        }
    }

    /// A reply without enhanced status: greeting, EHLO, 354 (RFC 2034 §3 keeps them bare).
    #[must_use]
    pub fn bare(code: u16, text: impl Into<Cow<'static, str>>) -> Reply {
        Reply { code, enhanced: None, text: text.into() }
    }

    /// 2yz.
    #[must_use]
    pub fn is_positive(&self) -> bool {
        self.code / 100 == 2
    }

    /// 4yz.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.code / 100 == 4
    }

    /// 5yz.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        self.code / 100 == 5
    }

    /// Appends the reply in wire form, multi-line if the text has several lines. Control characters in the text are
    /// sent as blanks: the text may quote untrusted input.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let mut text = &*self.text;
        loop {
            let (line, more) = match text.split_once('\n') {
                Some((line, more)) => (line, Some(more)),
                None => (text, None),
            };
            let code = [
                b'0' + (self.code / 100 % 10) as u8,
                b'0' + (self.code / 10 % 10) as u8,
                b'0' + (self.code % 10) as u8,
                if more.is_some() { b'-' } else { b' ' },
            ];
            out.extend_from_slice(&code);
            if let Some(e) = self.enhanced {
                write_decimal(out, u16::from(e.class));
                out.push(b'.');
                write_decimal(out, e.subject);
                out.push(b'.');
                write_decimal(out, e.detail);
                out.push(b' ');
            }
            let start = out.len();
            out.extend_from_slice(line.as_bytes());
            for byte in out.iter_mut().skip(start) {
                *byte = if byte.is_ascii_control() { b' ' } else { *byte };
            }
            out.extend_from_slice(b"\r\n");
            match more {
                Some(more) => text = more,
                None => return,
            }
        }
    }
}

fn write_decimal(out: &mut Vec<u8>, n: u16) {
    if n >= 10 {
        write_decimal(out, n / 10);
    }
    out.push(b'0' + (n % 10) as u8);
}

/// A single line for logs and DSNs, `550 5.1.1 no such user`, with further lines joined by blanks.
impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some(e) = self.enhanced {
            write!(f, " {e}")?;
        }
        for line in self.text.split('\n') {
            write!(f, " {line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wire_form_of_one_and_many_lines() {
        let mut out = Vec::new();
        Reply::new(452, (4, 3, 1), "Spool is full").write_to(&mut out);
        Reply::bare(250, "relay.example\nPIPELINING").write_to(&mut out);
        assert_eq!(out, b"452 4.3.1 Spool is full\r\n250-relay.example\r\n250 PIPELINING\r\n");
    }

    #[test]
    fn no_text_makes_a_second_reply() {
        let mut out = Vec::new();
        Reply::bare(550, "no such user\r250 ok\0").write_to(&mut out);
        assert_eq!(out, b"550 no such user 250 ok \r\n");
    }

    #[test]
    fn kinds_and_the_form_in_one_line() {
        let reply = Reply::new(550, (5, 7, 1), "not\nhere");
        assert!(reply.is_permanent() && !reply.is_transient() && !reply.is_positive());
        assert_eq!(reply.to_string(), "550 5.7.1 not here");
        assert_eq!(Reply::bare(250, "ok").to_string(), "250 ok");
        assert!(Reply::bare(250, "").is_positive() && Reply::bare(421, "").is_transient());
    }

    proptest! {
        #[test]
        fn each_line_of_the_wire_form_has_the_code(code in 200..600u16, text: String) {
            let mut out = Vec::new();
            Reply::new(code, (4, 3, 999), text.clone()).write_to(&mut out);
            let out = String::from_utf8(out).unwrap();
            let lines: Vec<_> = out.strip_suffix("\r\n").unwrap().split("\r\n").collect();
            prop_assert_eq!(lines.len(), text.split('\n').count());
            let (last, rest) = lines.split_last().unwrap();
            let last_start = format!("{code} 4.3.999 ");
            prop_assert!(last.starts_with(&last_start));
            let rest_start = format!("{code}-4.3.999 ");
            prop_assert!(rest.iter().all(|line| line.starts_with(&rest_start)));
            prop_assert!(!lines.concat().contains(|c: char| c.is_ascii_control()));
        }

        #[test]
        fn a_status_that_is_read_is_written_alike(text in "[245]\\.[0-9]{1,3}\\.[1-9][0-9]{0,2} x") {
            let (status, rest) = EnhancedStatus::parse_prefix(&text).unwrap();
            prop_assert_eq!(rest, "x");
            let again = status.to_string();
            prop_assert_eq!(EnhancedStatus::parse_prefix(&again), Some((status, "")));
        }

        #[test]
        fn reading_a_status_takes_anything(text in any::<String>()) {
            if let Some((status, rest)) = EnhancedStatus::parse_prefix(&text) {
                prop_assert!(matches!(status.class, 2 | 4 | 5));
                prop_assert!(text.ends_with(rest));
            }
        }
    }

    #[test]
    fn status_is_read_only_where_it_is_one() {
        let parse = |s| EnhancedStatus::parse_prefix(s).map(|(e, rest)| (e.to_string(), rest));
        assert_eq!(parse("5.1.10 no MX"), Some(("5.1.10".into(), "no MX")));
        assert_eq!(parse("2.0.0"), Some(("2.0.0".into(), "")));
        for bad in ["3.1.1 x", "5.1 x", "5.1.1.1 x", "5..1 x", "5.1.1000 x", "5.1.1x", "", "x"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
