//! Extensions offered by a peer in its reply to EHLO or LHLO (RFC 5321 §4.1.1.1).

use super::reply::RawReply;

/// The service extensions of a peer that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// SIZE (RFC 1870): the maximum in bytes; 0 if the peer names no limit. `None`: not offered.
    pub size: Option<u64>,
    /// 8BITMIME (RFC 6152).
    pub eight_bit_mime: bool,
    /// SMTPUTF8 (RFC 6531).
    pub smtputf8: bool,
    /// CHUNKING (RFC 3030).
    pub chunking: bool,
    /// PIPELINING (RFC 2920).
    pub pipelining: bool,
    /// DSN (RFC 3461).
    pub dsn: bool,
    /// ENHANCEDSTATUSCODES (RFC 2034).
    pub enhanced_status_codes: bool,
    /// STARTTLS (RFC 3207).
    pub starttls: bool,
    /// REQUIRETLS (RFC 8689).
    pub require_tls: bool,
    /// MT-PRIORITY (RFC 6710).
    pub mt_priority: bool,
    /// DELIVERBY (RFC 2852 §2): the minimum in seconds; 0 if the peer names none. `None`: not offered.
    pub deliver_by: Option<i64>,
    /// LIMITS MAILMAX (RFC 9422 §4): transactions in one session.
    pub mail_max: Option<u32>,
    /// LIMITS RCPTMAX: recipients in one transaction.
    pub recipients_max: Option<u32>,
    /// LIMITS RCPTDOMAINMAX: recipient domains per transaction.
    pub domains_max: Option<u32>,
}

impl Capabilities {
    /// Parses all lines but the first, which contains the peer's name and greeting.
    pub(super) fn parse(reply: &RawReply<'_>) -> Capabilities {
        let mut offered = Capabilities::default();
        for line in reply.lines().skip(1) {
            offered.take_line(line);
        }
        offered
    }

    /// RFC 5321 §4.1.1.1: keywords are not case-sensitive.
    fn take_line(&mut self, line: &[u8]) {
        let mut words = line.split(|b| matches!(b, b' ' | b'\t')).filter(|word| !word.is_empty());
        let Some(keyword) = words.next() else { return };
        let is = |name: &str| keyword.eq_ignore_ascii_case(name.as_bytes());
        if is("SIZE") {
            let limit = words.next().and_then(|w| std::str::from_utf8(w).ok()?.parse().ok());
            self.size = Some(limit.unwrap_or(0));
        } else if is("8BITMIME") {
            self.eight_bit_mime = true;
        } else if is("SMTPUTF8") {
            self.smtputf8 = true;
        } else if is("CHUNKING") {
            self.chunking = true;
        } else if is("PIPELINING") {
            self.pipelining = true;
        } else if is("DSN") {
            self.dsn = true;
        } else if is("ENHANCEDSTATUSCODES") {
            self.enhanced_status_codes = true;
        } else if is("STARTTLS") {
            self.starttls = true;
        } else if is("REQUIRETLS") {
            self.require_tls = true;
        } else if is("MT-PRIORITY") {
            self.mt_priority = true;
        } else if is("DELIVERBY") {
            let least = words.next().and_then(|w| std::str::from_utf8(w).ok()?.parse().ok());
            self.deliver_by = Some(least.unwrap_or(0));
        } else if is("LIMITS") {
            words.for_each(|word| self.take_limit(word));
        }
    }

    /// RFC 9422 §3: `NAME=VALUE`; unknown limits are ignored.
    fn take_limit(&mut self, word: &[u8]) {
        let Some(equals) = memchr::memchr(b'=', word) else { return };
        let (name, value) = (&word[..equals], &word[equals + 1..]);
        // 1 to 6 digits, and never 0.
        let value = std::str::from_utf8(value).ok().filter(|text| text.len() <= 6);
        let value = value.and_then(|text| text.parse().ok()).filter(|limit| *limit > 0);
        if name.eq_ignore_ascii_case(b"MAILMAX") {
            self.mail_max = value;
        } else if name.eq_ignore_ascii_case(b"RCPTMAX") {
            self.recipients_max = value;
        } else if name.eq_ignore_ascii_case(b"RCPTDOMAINMAX") {
            self.domains_max = value;
        }
    }
}

/// The mechanisms after AUTH (RFC 4954 §3), or after `AUTH=` of older servers.
pub(super) fn login_mechanisms(reply: &RawReply<'_>) -> Box<str> {
    let mut mechanisms = String::new();
    for line in reply.lines().skip(1) {
        let is_auth = line.get(..5).is_some_and(|start| {
            start[..4].eq_ignore_ascii_case(b"AUTH") && matches!(start[4], b' ' | b'=')
        });
        if is_auth {
            mechanisms.push_str(&String::from_utf8_lossy(line.get(5..).unwrap_or_default()));
            mechanisms.push(' ');
        }
    }
    mechanisms.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_far_as_they_are_understood() {
        for (line, mail_max, recipients_max, domains_max) in [
            ("LIMITS MAILMAX=20 RCPTMAX=50", Some(20), Some(50), None),
            ("limits RCPTDOMAINMAX=1 rcptmax=999999", None, Some(999_999), Some(1)),
            ("LIMITS MAILMAX=0 RCPTMAX=1000000 RCPTDOMAINMAX=0", None, None, None),
            ("LIMITS MAILMAX= RCPTMAX =5 =7 RCPTDOMAINMAX X", None, None, None),
            ("LIMITS", None, None, None),
        ] {
            let mut offered = Capabilities::default();
            offered.take_line(line.as_bytes());
            let found = (offered.mail_max, offered.recipients_max, offered.domains_max);
            assert_eq!(found, (mail_max, recipients_max, domains_max), "{line}");
        }
    }
}
