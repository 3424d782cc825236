//! The trace field Received (RFC 5321 §4.4).

use crate::{MessageId, Wall};
use std::net::{IpAddr, Ipv4Addr};

/// The data of a Received field.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// The client's name in EHLO or HELO.
    pub helo: &'a str,
    /// The client's address; `None` hides it.
    pub client: Option<IpAddr>,
    /// The client's DNS name, if verified forward.
    pub client_name: Option<&'a str>,
    /// This server's name.
    pub by: &'a str,
    /// `ESMTP`, `SMTP`, `UTF8SMTP`, … (RFC 3848, RFC 6531 §4.3).
    pub with: &'a str,
    /// The message's id.
    pub id: MessageId,
    /// The recipient, given only if it is the only one: several would disclose each other.
    pub for_recipient: Option<&'a str>,
    /// The cipher suite, if the connection was encrypted (RFC 8314 §4.3).
    pub tls: Option<&'a str>,
    /// The client's identity by its certificate.
    pub certified: Option<&'a str>,
    /// The user id of a local client, named as by Postfix. Such a message comes from no network.
    pub uid: Option<u32>,
    /// Time of reception.
    pub at: Wall,
}

/// Lines are folded before this length (RFC 5322 §2.1.1), where the grammar allows it.
const LINE_BYTES_MAX: usize = 77;
/// Maximum length of a name: no Domain is longer (RFC 5321 §4.5.3.1.2).
const NAME_BYTES_MAX: usize = 255;
/// `Sat, 21 Nov 2026 10:11:12 +0000`.
const DATE_BYTES: usize = 31;

impl Received<'_> {
    /// Appends the field, folded, with its CRLF.
    ///
    /// The client's name for itself is untrusted text: characters not allowed in a Domain or an address literal are
    /// replaced by `?`, and an empty name by `unknown`.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(256);
        let mut line = TraceLine { start: out.len(), out };
        line.out.extend_from_slice(b"Received: ");
        if let Some(client) = self.client {
            line.out.extend_from_slice(b"from");
            line.space(self.helo.len());
            write_name(line.out, self.helo);
            line.client(client, self.client_name);
            line.fold();
        }
        line.out.extend_from_slice(b"by ");
        write_name(line.out, self.by);
        match self.uid {
            Some(uid) => line.word(format!("(Postrider, from userid {uid})").as_bytes()),
            None => {
                line.word(b"(Postrider)");
                line.space("with ".len() + self.with.len());
                line.out.extend_from_slice(b"with ");
                write_text(line.out, self.with);
            }
        }
        line.space("id ".len() + 16 + 1);
        line.out.extend_from_slice(b"id ");
        line.out.extend_from_slice(&self.id.hex());

        if let Some(recipient) = self.for_recipient {
            line.fold();
            line.out.extend_from_slice(b"for <");
            write_text(line.out, recipient);
            line.out.push(b'>');
        }
        if let Some(cipher) = self.tls {
            line.fold();
            line.out.extend_from_slice(b"tls ");
            write_text(line.out, cipher);
        }
        if let Some(name) = self.certified {
            line.fold();
            line.out.extend_from_slice(b"(certificate of ");
            write_comment(line.out, name);
            line.out.push(b')');
        }
        line.out.push(b';');
        if self.for_recipient.is_some() || self.tls.is_some() {
            line.space(DATE_BYTES);
        } else {
            line.fold();
        }
        self.at.write_rfc5322(line.out);
        line.out.extend_from_slice(b"\r\n");
    }
}

/// The line of the field that is being written.
struct TraceLine<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl TraceLine<'_> {
    fn fold(&mut self) {
        self.out.extend_from_slice(b"\r\n\t");
        self.start = self.out.len() - 1;
    }

    /// Writes a blank, or a fold if `next_bytes` more would exceed the line length.
    fn space(&mut self, next_bytes: usize) {
        if self.out.len() - self.start + 1 + next_bytes > LINE_BYTES_MAX {
            self.fold();
        } else {
            self.out.push(b' ');
        }
    }

    fn word(&mut self, word: &[u8]) {
        self.space(word.len());
        self.out.extend_from_slice(word);
    }

    /// TCP-info: `([192.0.2.1])`, `([IPv6:2001:db8::1])`, or either with a name before it.
    fn client(&mut self, client: IpAddr, name: Option<&str>) {
        let begin = |line: &mut Self, address_bytes: usize| {
            let name_bytes = name.map_or(0, |name| name.len() + 1);
            line.space("([])".len() + name_bytes + address_bytes);
            line.out.push(b'(');
            if let Some(name) = name {
                write_name(line.out, name);
                line.out.push(b' ');
            }
        };
        // An IPv4 client of a dual-stack socket is shown as IPv4.
        match client.to_canonical() {
            IpAddr::V4(ip) => {
                begin(self, "255.255.255.255".len());
                self.out.push(b'[');
                write_ipv4(self.out, ip);
            }
            IpAddr::V6(ip) => {
                let text = ip.to_string();
                begin(self, "IPv6:".len() + text.len());
                self.out.extend_from_slice(b"[IPv6:");
                self.out.extend_from_slice(text.as_bytes());
            }
        }
        self.out.extend_from_slice(b"])");
    }
}

/// Writes an address in its `Display` form. IPv4 addresses avoid the cost of formatting, because every message has one.
pub fn write_address(out: &mut Vec<u8>, address: IpAddr) {
    use std::io::Write as _;
    match address {
        IpAddr::V4(address) => write_ipv4(out, address),
        // Writing to a Vec cannot fail.
        IpAddr::V6(address) => write!(out, "{address}").unwrap_or_default(),
    }
}

fn write_ipv4(out: &mut Vec<u8>, ip: Ipv4Addr) {
    let (mut text, mut length) = ([0; 16], 0);
    for octet in ip.octets() {
        for digit in [octet / 100, octet / 10, octet] {
            text[length] = b'0' + digit % 10;
            // Zeros in front are written over.
            length += usize::from(digit > 0);
        }
        length += usize::from(octet == 0);
        text[length] = b'.';
        length += 1;
    }
    out.extend_from_slice(&text[..length - 1]);
}

/// Writes a domain or address literal of unknown origin.
fn write_name(out: &mut Vec<u8>, name: &str) {
    if name.is_empty() {
        out.extend_from_slice(b"unknown");
        return;
    }
    let name = &name.as_bytes()[..name.len().min(NAME_BYTES_MAX)];
    // The underscore is not allowed in a Domain, but common, and harmless in place of an atom.
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    if name.iter().all(|&b| is_plain(b)) {
        out.extend_from_slice(name);
        return;
    }
    let is_literal = name.len() > 2 && name.starts_with(b"[") && name.ends_with(b"]");
    let last = name.len() - 1;
    out.extend(name.iter().enumerate().map(|(i, &b)| match b {
        b if is_plain(b) => b,
        b':' if is_literal => b,
        b'[' if is_literal && i == 0 => b,
        b']' if is_literal && i == last => b,
        _ => b'?',
    }));
}

/// Writes a text that was checked when it was parsed. Control characters are still replaced.
fn write_text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().map(|b| if b.is_ascii_control() { b'?' } else { b }));
}

/// Characters that would end or begin a comment are not allowed in one (RFC 5322 §3.2.2).
fn write_comment(out: &mut Vec<u8>, text: &str) {
    let is_plain = |b: u8| b.is_ascii_graphic() && !b"()\\".contains(&b);
    out.extend(text.bytes().take(NAME_BYTES_MAX).map(|b| if is_plain(b) { b } else { b'?' }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn field() -> Received<'static> {
        Received {
            helo: "client.example.com",
            client: Some(IpAddr::from([192, 0, 2, 1])),
            client_name: None,
            by: "relay.example.org",
            with: "ESMTP",
            id: MessageId(0x1234_0700_0000_002a),
            for_recipient: Some("user@example.net"),
            tls: None,
            certified: None,
            uid: None,
            at: Wall(1_795_255_872_345),
        }
    }

    fn written(received: Received) -> String {
        let mut out = Vec::new();
        received.write_to(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn addresses_are_written_as_they_print() {
        for n in 0..=255 {
            for ip in [[n, 0, 10, 100], [0, 9, n, n], [255, 255, 255, n]].map(IpAddr::from) {
                let mut out = Vec::new();
                write_address(&mut out, ip);
                assert_eq!(String::from_utf8(out), Ok(ip.to_string()));
            }
        }
        let mut out = Vec::new();
        write_address(&mut out, "2001:db8::1".parse().unwrap());
        assert_eq!(out, b"2001:db8::1");
    }

    #[test]
    fn an_encrypted_connection_is_told_with_its_cipher() {
        let cipher = Some("TLS_AES_256_GCM_SHA384");
        let text = written(Received { tls: cipher, with: "ESMTPS", ..field() });
        assert!(text.contains("with ESMTPS id 123407000000002a\r\n"), "{text}");
        let end = "\tfor <user@example.net>\r\n\ttls TLS_AES_256_GCM_SHA384; ";
        assert!(text.contains(end), "{text}");
        let certified = Some("jo (x)\\@x.test");
        let text = written(Received { tls: cipher, certified, ..field() });
        assert!(text.contains("_SHA384\r\n\t(certificate of jo??x??@x.test); "), "{text}");
        let text = written(Received { tls: cipher, for_recipient: None, ..field() });
        assert!(text.contains("2a\r\n\ttls TLS_AES_256_GCM_SHA384; "), "{text}");
    }

    #[test]
    fn usual_field() {
        assert_eq!(
            written(field()),
            "Received: from client.example.com ([192.0.2.1])\r\n\
             \tby relay.example.org (Postrider) with ESMTP id 123407000000002a\r\n\
             \tfor <user@example.net>; Sat, 21 Nov 2026 10:11:12 +0000\r\n"
        );
    }

    #[test]
    fn several_recipients_ipv6_and_a_literal_helo() {
        assert_eq!(
            written(Received {
                helo: "[IPv6:2001:db8::1]",
                client: Some("2001:db8::1".parse().unwrap()),
                for_recipient: None,
                ..field()
            }),
            "Received: from [IPv6:2001:db8::1] ([IPv6:2001:db8::1])\r\n\
             \tby relay.example.org (Postrider) with ESMTP id 123407000000002a;\r\n\
             \tSat, 21 Nov 2026 10:11:12 +0000\r\n"
        );
        let mapped = Received { client: Some("::ffff:192.0.2.1".parse().unwrap()), ..field() };
        assert_eq!(written(mapped), written(field()));
    }

    #[test]
    fn a_name_that_is_confirmed_stands_before_the_address() {
        let from = |client_name: &str, client: &str| {
            let client = Some(client.parse().unwrap());
            let text = written(Received { client, client_name: Some(client_name), ..field() });
            text[..text.find("by relay").unwrap()].to_owned()
        };
        assert_eq!(
            from("mail.example.com", "192.0.2.1"),
            "Received: from client.example.com (mail.example.com [192.0.2.1])\r\n\t"
        );
        assert_eq!(
            from(&"n".repeat(60), "2001:db8::1"),
            format!(
                "Received: from client.example.com\r\n\t({} [IPv6:2001:db8::1])\r\n\t",
                "n".repeat(60)
            )
        );
        assert!(from("a)\r\nX: b", "192.0.2.1").contains("(a???X??b [192.0.2.1])"));
    }

    #[test]
    fn a_client_may_be_nobodys_business() {
        let text = written(Received { client: None, with: "ESMTPSA", ..field() });
        let start =
            "Received: by relay.example.org (Postrider) with ESMTPSA id 123407000000002a\r\n\t";
        assert!(text.starts_with(start), "{text}");
        assert!(!text.contains("client.example.com") && !text.contains("192.0.2.1"), "{text}");
    }

    #[test]
    fn local_users_are_named_by_number() {
        let text = written(Received { client: None, uid: Some(1000), ..field() });
        let start = "Received: by relay.example.org (Postrider, from userid 1000)\r\n\t\
             id 123407000000002a\r\n\tfor <user@example.net>; ";
        assert!(text.starts_with(start), "{text}");
    }

    #[test]
    fn long_names_are_folded() {
        let name = format!("{}.example.org", "n".repeat(60));
        let text = written(Received {
            helo: &name,
            by: &name,
            client: Some("2001:db8:1111:2222:3333:4444:5555:6666".parse().unwrap()),
            for_recipient: Some("a-rather-long-local-part-of-forty-chars@example.net"),
            ..field()
        });
        for line in text.trim_end().split("\r\n") {
            assert!(line.len() <= 86, "{line}");
        }
        assert_eq!(text.lines().count(), 7);
    }

    #[test]
    fn a_strangers_name_is_defused() {
        let from = |helo| {
            let text = written(Received { helo, ..field() });
            text["Received: from ".len()..text.find(" ([").unwrap()].to_owned()
        };
        assert_eq!(from("a\r\nX: b"), "a??X??b");
        assert_eq!(from("a (b); c"), "a??b???c");
        assert_eq!(from("under_score"), "under_score");
        assert_eq!(from("[192.0.2.1]"), "[192.0.2.1]");
        assert_eq!(from("[[x]]"), "[?x?]");
        assert_eq!(from("a:b"), "a?b");
        assert_eq!(from("ü"), "??");
        assert_eq!(from(""), "unknown");
    }

    proptest! {
        #[test]
        fn always_one_well_formed_field(helo: String, by: String, with: String, to: String) {
            let text = written(Received {
                helo: &helo,
                by: &by,
                with: &with,
                for_recipient: Some(&to),
                ..field()
            });
            prop_assert!(text.ends_with(" +0000\r\n"));
            let unfolded = text[..text.len() - 2].replace("\r\n\t", " ");
            prop_assert!(!unfolded.contains(|c: char| c.is_ascii_control()));
        }
    }
}
