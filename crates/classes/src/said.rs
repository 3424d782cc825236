//! The parts of a reply that rules use.

use crate::addresses::without_addresses;
use mail::EnhancedStatus;

/// Maximum octets of a reply's text that rules match. It bounds the work for one reply, whatever its
/// length.
pub const REPLY_BYTES_MAX: usize = 512;

/// A reply of a peer.
#[derive(Clone, Copy, Debug)]
pub struct PeerReply<'a> {
    /// The three digits.
    pub code: u16,
    /// The enhanced status code, if it follows the code.
    pub status: Option<EnhancedStatus>,
    /// The provider of the peer, by its name in rules.
    pub provider: Option<&'a str>,
    /// The text after the codes. Addresses in it are ignored, because senders and recipients could choose
    /// the class with them.
    pub text: &'a str,
}

impl PeerReply<'_> {
    /// Returns true for 4yz and 5yz.
    pub(crate) fn is_failure(&self) -> bool {
        (400..600).contains(&self.code)
    }

    /// The status code, also from within the text, as qmail writes it: `(#5.1.1)`.
    #[must_use]
    pub fn status_in(&self, words: &str) -> Option<EnhancedStatus> {
        self.status.or_else(|| {
            let (_, behind) = words.split_once('#')?;
            let end = behind.find(|c: char| c != '.' && !c.is_ascii_digit());
            let (status, _) = EnhancedStatus::parse_prefix(&behind[..end.unwrap_or(behind.len())])?;
            (u16::from(status.class) == self.code / 100).then_some(status)
        })
    }
}

/// Appends the text in one line, without addresses and repeated blanks, at most [`REPLY_BYTES_MAX`] octets.
pub(crate) fn push_words(text: &str, out: &mut String) {
    let limit = out.len() + REPLY_BYTES_MAX;
    let start = out.len();
    let text = without_addresses(text);
    for c in text.chars() {
        let c = if c.is_whitespace() || c.is_control() { ' ' } else { c };
        if c == ' ' && (out.len() == start || out.ends_with(' ')) {
            continue;
        }
        if out.len() + c.len_utf8() > limit {
            break;
        }
        out.push(c);
    }
    if out.len() > start && out.ends_with(' ') {
        out.pop();
    }
}

/// Reads a reply as people paste it: `550 5.1.1 No such user`, or several lines, each with its code.
/// Returns code, status and text, or `None` if it does not begin with a code.
#[must_use]
pub fn read_reply(text: &str) -> Option<(u16, Option<EnhancedStatus>, String)> {
    let text = text.trim_start();
    let code = code_of(text)?;
    let mut status = None;
    let mut words = String::new();
    for (number, line) in text.lines().enumerate() {
        let mut line = line.trim_start();
        if code_of(line) == Some(code) {
            line = line[3..].trim_start_matches(['-', ' ', '\t']);
        }
        // RFC 2034 §4: the same status on each line.
        if let Some((found, rest)) = EnhancedStatus::parse_prefix(line)
            && (number == 0 || status == Some(found))
        {
            status = Some(found);
            line = rest;
        }
        if !words.is_empty() {
            words.push('\n');
        }
        words.push_str(line);
    }
    Some((code, status, words))
}

/// The code that a line begins with.
fn code_of(line: &str) -> Option<u16> {
    let (code, rest) = line.split_at_checked(3)?;
    let is_code = code.bytes().all(|byte| byte.is_ascii_digit());
    let is_whole = rest.is_empty() || rest.starts_with([' ', '-', '\t', '\n', '\r']);
    let code = code.parse().ok().filter(|_| is_code && is_whole)?;
    (200..600).contains(&code).then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        let mut out = String::from("before ");
        push_words(text, &mut out);
        out.split_off("before ".len())
    }

    #[test]
    fn words_are_one_line_of_a_bounded_length() {
        assert_eq!(words("  No\n such\t\tuser \r\n"), "No such user");
        assert_eq!(words(""), "");
        assert_eq!(words("<spamhaus@x.test>: user unknown"), "<>: user unknown");
        assert_eq!(words(&"x".repeat(REPLY_BYTES_MAX)).len(), REPLY_BYTES_MAX);
        assert_eq!(words(&"x".repeat(REPLY_BYTES_MAX + 1)).len(), REPLY_BYTES_MAX);
        assert_eq!(words(&"é".repeat(REPLY_BYTES_MAX)).len(), REPLY_BYTES_MAX);
        assert_eq!(words(&format!("x{}", "é".repeat(300))).len(), REPLY_BYTES_MAX - 1);
    }

    #[test]
    fn replies_are_read_as_they_are_pasted() {
        let read =
            |text| read_reply(text).map(|(code, s, words)| (code, s.map(|s| s.to_string()), words));
        let one = Some((550, Some("5.1.1".to_owned()), "no such user".to_owned()));
        assert_eq!(read("550 5.1.1 no such user"), one);
        assert_eq!(read("550-5.1.1 no\r\n550 5.1.1 such user\n").unwrap().2, "no\nsuch user");
        assert_eq!(read("421 4.7.0"), Some((421, Some("4.7.0".to_owned()), String::new())));
        assert_eq!(read("554 gmx.net\nNo SMTP service").unwrap().2, "gmx.net\nNo SMTP service");
        assert_eq!(read("550"), Some((550, None, String::new())));
        for none in ["", "hello", "55", "5501 x", "999 x", "550x", "5é0 x", "+50 x"] {
            assert_eq!(read(none), None, "{none}");
        }
    }

    #[test]
    fn a_status_among_the_words_counts_where_none_came_before() {
        let status = |code, text| {
            let said = PeerReply { code, status: None, provider: None, text };
            said.status_in(text).map(|status| status.to_string())
        };
        assert_eq!(status(550, "sorry (#5.1.1 - chkuser)").as_deref(), Some("5.1.1"));
        assert_eq!(status(550, "#5.1.0 Address rejected").as_deref(), Some("5.1.0"));
        assert_eq!(status(550, "x (#5.7.1)").as_deref(), Some("5.7.1"));
        for none in ["x (#4.1.1)", "see http://a.test/#5", "nothing", "#"] {
            assert_eq!(status(550, none), None, "{none}");
        }
    }
}
