//! Constant replies, and the output of variable ones.

use super::ServerConfig;
use super::command::Verb;
use crate::wishes::{BY_SECONDS_MIN, HoldMax};
use mail::Reply;

pub(super) const MAIL_OK: &[u8] = b"250 2.1.0 Sender ok\r\n";
pub(super) const RCPT_OK: &[u8] = b"250 2.1.5 Recipient ok\r\n";
pub(super) const DATA_GO: &[u8] = b"354 End the message with <CRLF>.<CRLF>\r\n";
pub(super) const RESET: &[u8] = b"250 2.0.0 Reset\r\n";
pub(super) const NOOP: &[u8] = b"250 2.0.0 Ok\r\n";
pub(super) const VRFY: &[u8] = b"252 2.5.0 Cannot VRFY user; will attempt delivery\r\n";
pub(super) const LOGGED_IN: &[u8] = b"235 2.7.0 Authentication successful\r\n";
pub(super) const TLS_GO: &[u8] = b"220 2.0.0 Ready to start TLS\r\n";

/// A line of a reply, code and CRLF included, has 512 octets (RFC 5321 §4.5.3.1.5).
const TEXT_LINE_BYTES_MAX: usize = 480;

/// Writes a reply, the text of which may contain data from a peer. A control character or one beyond ASCII becomes `?`,
/// and long lines are cut.
pub(super) fn write(out: &mut Vec<u8>, reply: &Reply) {
    // To the end even if one is found early: so the compiler looks at many at a time.
    let is_visible = |text: &str| {
        text.bytes().fold(true, |so_far, b| so_far & (matches!(b, b' '..=b'~') | (b == b'\n')))
    };
    let fits = |text: &str| {
        text.len() <= TEXT_LINE_BYTES_MAX
            || text.split('\n').all(|line| line.len() <= TEXT_LINE_BYTES_MAX)
    };
    if is_visible(&reply.text) && fits(&reply.text) {
        return reply.write_to(out);
    }
    let lines: Vec<String> = reply.text.split('\n').map(sanitized).collect();
    Reply { text: lines.join("\n").into(), ..reply.clone() }.write_to(out);
}

fn sanitized(line: &str) -> String {
    let visible = |c| if matches!(c, ' '..='~') { c } else { '?' };
    line.chars().take(TEXT_LINE_BYTES_MAX).map(visible).collect()
}

/// The greeting of a session that may proceed (RFC 5321 §4.2, §4.3.1).
pub(super) fn write_greeting(out: &mut Vec<u8>, config: &ServerConfig) {
    for part in ["220 ", &config.hostname, " ", &config.banner, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Extensions that depend on the state of the session.
pub(super) struct Offers<'a> {
    pub(super) starttls: bool,
    pub(super) require_tls: bool,
    pub(super) mechanisms: &'a [&'static str],
    /// The line, or empty.
    pub(super) xclient: &'a str,
}

/// The reply to EHLO and LHLO (RFC 5321 §4.1.1.1).
pub(super) fn write_extensions(out: &mut Vec<u8>, config: &ServerConfig, offers: &Offers<'_>) {
    out.extend_from_slice(b"250-");
    out.extend_from_slice(config.hostname.as_bytes());
    out.extend_from_slice(b"\r\n");
    let mut offer = |offered: bool, line: &[u8]| {
        if offered {
            out.extend_from_slice(line);
        }
    };
    offer(config.pipelining, b"250-PIPELINING\r\n");
    offer(true, b"250-SIZE ");
    let mut digits = [0; 20];
    offer(true, decimal(config.message_bytes_max, &mut digits));
    offer(true, b"\r\n250-8BITMIME\r\n");
    offer(config.smtputf8, b"250-SMTPUTF8\r\n");
    offer(config.chunking, b"250-CHUNKING\r\n");
    offer(true, b"250-ENHANCEDSTATUSCODES\r\n");
    offer(config.dsn, b"250-DSN\r\n");
    offer(offers.starttls, b"250-STARTTLS\r\n");
    offer(offers.require_tls, b"250-REQUIRETLS\r\n");
    offer(config.mt_priority, b"250-MT-PRIORITY\r\n");
    if config.deliver_by {
        offer(true, b"250-DELIVERBY ");
        offer(true, decimal(BY_SECONDS_MIN.unsigned_abs(), &mut digits));
        offer(true, b"\r\n");
    }
    if let Some(max) = &config.future_release {
        write_future_release(out, max);
    }
    if !offers.mechanisms.is_empty() {
        out.extend_from_slice(b"250-AUTH");
        for mechanism in offers.mechanisms {
            out.push(b' ');
            out.extend_from_slice(mechanism.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(offers.xclient.as_bytes());
    out.extend_from_slice(b"250 HELP\r\n");
}

fn write_future_release(out: &mut Vec<u8>, max: &HoldMax) {
    let mut digits = [0; 20];
    out.extend_from_slice(b"250-FUTURERELEASE ");
    out.extend_from_slice(decimal(max.interval.as_secs(), &mut digits));
    out.push(b' ');
    max.until.write_rfc3339(out);
    // RFC 4865 §3: a time without fractions of a second.
    out.truncate(out.len() - ".000Z".len());
    out.extend_from_slice(b"Z\r\n");
}

/// A chunk was taken (RFC 3030 §2).
pub(super) fn write_chunk_ok(out: &mut Vec<u8>, octets: u64) {
    let mut digits = [0; 20];
    out.extend_from_slice(b"250 2.0.0 ");
    out.extend_from_slice(decimal(octets, &mut digits));
    out.extend_from_slice(b" octets received\r\n");
}

fn decimal(mut n: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut start = digits.len();
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (n % 10) as u8;
        start = at;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    digits.get(start..).unwrap_or_default()
}

/// 503: the command does not belong here.
pub(super) fn sequence(text: &'static str) -> Reply {
    Reply::new(503, (5, 5, 1), text)
}

/// 501: the argument is wrong.
pub(super) fn argument(text: &'static str) -> Reply {
    Reply::new(501, (5, 5, 4), text)
}

/// 500: the line is wrong.
pub(super) fn line(text: &'static str) -> Reply {
    Reply::new(500, (5, 5, 2), text)
}

/// 502: a command that is known, and not performed here.
pub(super) fn unimplemented() -> Reply {
    Reply::new(502, (5, 5, 1), "Command not implemented")
}

/// 421: the session ends. The text begins with the host's name (RFC 5321 §4.2.2).
pub(super) fn closing(config: &ServerConfig, status: (u8, u16, u16), why: &str) -> Reply {
    Reply::new(421, status, format!("{} {why}", config.hostname))
}

/// The reply to HELP (RFC 5321 §4.1.1.8).
pub(super) fn help(config: &ServerConfig, starttls: bool) -> Reply {
    let hello = if config.lmtp { "LHLO" } else { "EHLO HELO" };
    let bdat = if config.chunking { " BDAT" } else { "" };
    let tls = if starttls { " STARTTLS" } else { "" };
    let auth = if config.logins.is_some() { " AUTH" } else { "" };
    let text =
        format!("Commands: {hello} MAIL RCPT DATA{bdat} RSET NOOP VRFY HELP{tls}{auth} QUIT");
    Reply::new(214, (2, 0, 0), text)
}

/// Maximum length of a stored address that could not be parsed.
const SHOWN_BYTES_MAX: usize = 256;

/// A command, a recipient, a content or the session itself that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// `AUTH`, `MAIL`, `RCPT`, `DATA`, `content`; `command` for all other commands.
    pub step: &'static str,
    /// The reverse-path of the transaction, or the argument of MAIL; empty for `<>`.
    pub sender: Option<Box<str>>,
    /// The refused recipient, if any; as received if it could not be parsed.
    pub recipient: Option<Box<str>>,
    /// The reply that the client got.
    pub reply: Reply,
}

/// The step, sender and recipient that a refusal concerns.
#[derive(Clone, Copy, Debug)]
pub(super) struct About<'a> {
    pub(super) step: &'static str,
    pub(super) sender: Option<&'a str>,
    pub(super) recipient: Option<&'a str>,
}

impl<'a> About<'a> {
    pub(super) fn step(step: &'static str) -> About<'a> {
        About { step, sender: None, recipient: None }
    }

    /// A command that was refused before its argument was parsed.
    pub(super) fn command(verb: Verb, argument: &'a str) -> About<'a> {
        match verb {
            Verb::Mail => About { sender: Some(shown(argument)), ..About::step("MAIL") },
            Verb::Rcpt => About { recipient: Some(shown(argument)), ..About::step("RCPT") },
            Verb::Data | Verb::Bdat => About::step("DATA"),
            Verb::Auth => About::step("AUTH"),
            _ => About::step("command"),
        }
    }
}

/// The address in the argument of MAIL or RCPT, as far as recognisable.
fn shown(argument: &str) -> &str {
    let address = match argument.split_once(':') {
        Some((_, path)) => path.trim_start_matches([' ', '\t']),
        None => argument,
    };
    let address = match address.strip_prefix('<') {
        Some(inner) => inner.rsplit_once('>').map_or(inner, |(inner, _)| inner),
        None => address,
    };
    address.get(..address.floor_char_boundary(SHOWN_BYTES_MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_sent_cannot_forge_a_reply() {
        let mut out = Vec::new();
        write(&mut out, &Reply::new(550, (5, 1, 1), "no\r250 fine\0\u{e9}\nnext"));
        assert_eq!(out, b"550-5.1.1 no?250 fine??\r\n550 5.1.1 next\r\n");
        out.clear();
        write(&mut out, &Reply::bare(550, "x".repeat(2_000)));
        assert_eq!(out.len(), 4 + 480 + 2);
    }

    #[test]
    fn decimals() {
        let mut digits = [0; 20];
        assert_eq!(decimal(0, &mut digits), b"0");
        assert_eq!(decimal(10, &mut digits), b"10");
        assert_eq!(decimal(u64::MAX, &mut digits), b"18446744073709551615");
    }

    #[test]
    fn an_address_that_was_not_understood_is_shown_as_it_was_given() {
        assert_eq!(shown("TO:<a b@c> NOTIFY=X"), "a b@c");
        assert_eq!(shown("FROM: <a@b"), "a@b");
        assert_eq!(shown("FROM:<>"), "");
        assert_eq!(shown("a@b"), "a@b");
        assert_eq!(shown(&format!("TO:<{}>", "\u{e9}".repeat(200))).len(), 256);
    }
}
