//! Encodes the commands of a transaction (RFC 5321 §4.1.1.2 to §4.1.1.4).

use super::{Capabilities, Outgoing, OutgoingRecipient, RequireTls};
use mail::dsn::xtext;
use mail::{BodyType, Mailbox, Notify, Ret};
use std::borrow::Cow;

/// Requirements of the MAIL command: 8BITMIME content, and SMTPUTF8.
#[derive(Clone, Copy, Debug)]
pub(super) struct MailNeeds {
    pub(super) eight_bit: bool,
    pub(super) smtputf8: bool,
}

impl MailNeeds {
    pub(super) fn of(outgoing: &Outgoing) -> MailNeeds {
        MailNeeds {
            eight_bit: outgoing.facts.has_8bit || outgoing.body == BodyType::EightBit,
            smtputf8: message_needs_smtputf8(outgoing)
                || outgoing.recipients.iter().any(|r| needs_smtputf8(&r.mailbox)),
        }
    }
}

/// True if the address can't be written in ASCII: a local part has no other form, a domain has (RFC 5890).
pub(super) fn needs_smtputf8(mailbox: &Mailbox) -> bool {
    !mailbox.as_str().is_ascii()
        && (!mailbox.local().is_ascii() || mailbox.domain().to_ascii().is_err())
}

/// RFC 6531 §3.2: the message needs SMTPUTF8 for its sender or an 8-bit header field, whatever its recipients. An 8-bit
/// body needs only 8BITMIME.
pub(super) fn message_needs_smtputf8(outgoing: &Outgoing) -> bool {
    outgoing.reverse_path.as_ref().is_some_and(needs_smtputf8)
        || (outgoing.smtputf8 && outgoing.header_is_8bit)
}

/// With U-labels if the transaction has SMTPUTF8, otherwise with A-labels.
fn push_address(out: &mut Vec<u8>, mailbox: &Mailbox, is_smtputf8: bool) {
    if !is_smtputf8
        && !mailbox.as_str().is_ascii()
        && let Ok(domain) = mailbox.domain().to_ascii()
    {
        out.extend_from_slice(mailbox.local().as_bytes());
        out.push(b'@');
        out.extend_from_slice(domain.as_bytes());
    } else {
        out.extend_from_slice(mailbox.as_str().as_bytes());
    }
}

/// Octets of the content as counted by the peer (RFC 1870 §4: without stuffed dots).
pub(super) fn content_bytes(outgoing: &Outgoing) -> u64 {
    outgoing.prefix_bytes.saturating_add(outgoing.facts.body_bytes)
}

/// Returns true if no text for commands contains a line end. Mailboxes and parameters were checked at their source; one
/// that slipped through must not become a command.
pub(super) fn is_free_of_line_ends(outgoing: &Outgoing) -> bool {
    let is_free = |text: &str| memchr::memchr3(b'\r', b'\n', 0, text.as_bytes()).is_none();
    outgoing.reverse_path.as_ref().is_none_or(|m| is_free(m.as_str()))
        && outgoing
            .recipients
            .iter()
            .all(|r| is_free(r.mailbox.as_str()) && r.orcpt.as_deref().is_none_or(is_free))
}

pub(super) fn push_mail(
    out: &mut Vec<u8>,
    outgoing: &Outgoing,
    offered: &Capabilities,
    is_smtputf8: bool,
) {
    let needs = MailNeeds::of(outgoing);
    out.extend_from_slice(b"MAIL FROM:<");
    if let Some(mailbox) = &outgoing.reverse_path {
        push_address(out, mailbox, is_smtputf8);
    }
    out.push(b'>');
    if offered.size.is_some() {
        out.extend_from_slice(b" SIZE=");
        push_decimal(out, content_bytes(outgoing));
    }
    if offered.eight_bit_mime && needs.eight_bit {
        out.extend_from_slice(b" BODY=8BITMIME");
    }
    if is_smtputf8 {
        out.extend_from_slice(b" SMTPUTF8");
    }
    if offered.require_tls && outgoing.require_tls != RequireTls::Off {
        out.extend_from_slice(b" REQUIRETLS");
    }
    if let (true, Some(priority)) = (offered.mt_priority, outgoing.priority) {
        out.extend_from_slice(format!(" MT-PRIORITY={}", priority.value()).as_bytes());
    }
    if let (Some(least), Some(by)) = (offered.deliver_by, outgoing.deliver_by)
        && by.is_taken(least)
    {
        by.write_to(out);
    }
    if offered.dsn {
        // RFC 3461 §4.3, §4.4.
        match outgoing.ret {
            Some(Ret::Full) => out.extend_from_slice(b" RET=FULL"),
            Some(Ret::Headers) => out.extend_from_slice(b" RET=HDRS"),
            None => {}
        }
        if let Some(envid) = &outgoing.envid {
            out.extend_from_slice(b" ENVID=");
            out.extend_from_slice(envid.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}

pub(super) fn push_rcpt(
    out: &mut Vec<u8>,
    recipient: &OutgoingRecipient,
    offered: &Capabilities,
    is_smtputf8: bool,
) {
    out.extend_from_slice(b"RCPT TO:<");
    push_address(out, &recipient.mailbox, is_smtputf8);
    out.push(b'>');
    if offered.dsn {
        // RFC 3461 §4.1, §4.2.
        if recipient.notify.is_specified() {
            push_notify(out, recipient.notify);
        }
        if let Some(orcpt) = recipient.orcpt.as_deref().and_then(ascii_orcpt) {
            out.extend_from_slice(b" ORCPT=");
            out.extend_from_slice(orcpt.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// RFC 6533 §3: the value as received, or in the form without SMTPUTF8. The
/// addresses decide if the transaction uses SMTPUTF8. `None` if that form is too long: the parameter is optional.
fn ascii_orcpt(orcpt: &str) -> Option<Cow<'_, str>> {
    if orcpt.is_ascii() {
        return Some(Cow::Borrowed(orcpt));
    }
    let original = xtext::decode_orcpt(orcpt)?;
    let address = xtext::encode_utf8_address(&original.address);
    let ascii = format!("{};{address}", original.kind);
    (ascii.len() <= xtext::ORCPT_BYTES_MAX).then_some(Cow::Owned(ascii))
}

fn push_notify(out: &mut Vec<u8>, notify: Notify) {
    out.extend_from_slice(b" NOTIFY=");
    let mut separator: &[u8] = b"";
    for (event, name) in [
        (Notify::SUCCESS, b"SUCCESS".as_slice()),
        (Notify::FAILURE, b"FAILURE"),
        (Notify::DELAY, b"DELAY"),
    ] {
        if notify.wants(event) {
            out.extend_from_slice(separator);
            out.extend_from_slice(name);
            separator = b",";
        }
    }
    if separator.is_empty() {
        out.extend_from_slice(b"NEVER");
    }
}

/// RFC 3030 §2.
pub(super) fn push_bdat_last(out: &mut Vec<u8>, bytes: u64) {
    out.extend_from_slice(b"BDAT ");
    push_decimal(out, bytes);
    out.extend_from_slice(b" LAST\r\n");
}

fn push_decimal(out: &mut Vec<u8>, number: u64) {
    // u64::MAX has 20 digits.
    let mut digits = [0u8; 20];
    let mut start = digits.len();
    let mut rest = number;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals() {
        for number in [0, 7, 10, 1234, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }

    #[test]
    fn an_internationalised_orcpt_needs_no_smtputf8() {
        let rcpt = |orcpt: &str| {
            let recipient = OutgoingRecipient {
                mailbox: Mailbox::parse("c@d", false).unwrap(),
                notify: Notify::UNSPECIFIED,
                orcpt: Some(orcpt.into()),
            };
            let mut out = Vec::new();
            push_rcpt(
                &mut out,
                &recipient,
                &Capabilities { dsn: true, ..Default::default() },
                false,
            );
            String::from_utf8(out).unwrap()
        };
        assert_eq!(rcpt("utf-8;j\u{f6}rg+40x"), "RCPT TO:<c@d> ORCPT=utf-8;j\\x{F6}rg@x\r\n");
        assert_eq!(rcpt("rfc822;a+2Bb@x"), "RCPT TO:<c@d> ORCPT=rfc822;a+2Bb@x\r\n");
        let long = format!("utf-8;{}", "\u{f6}".repeat(200));
        assert!(xtext::is_orcpt(&long, true));
        assert_eq!(rcpt(&long), "RCPT TO:<c@d>\r\n");
    }

    #[test]
    fn notify_is_a_list_or_never() {
        for (notify, text) in [
            (Notify::NEVER, " NOTIFY=NEVER"),
            (Notify::FAILURE, " NOTIFY=FAILURE"),
            (Notify(7), " NOTIFY=SUCCESS,FAILURE,DELAY"),
        ] {
            let mut out = Vec::new();
            push_notify(&mut out, notify);
            assert_eq!(out, text.as_bytes());
        }
    }
}
