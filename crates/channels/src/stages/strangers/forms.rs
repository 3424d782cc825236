//! Forms of HELO names, senders and transactions: checks without a lookup.

use mail::{Domain, Mailbox, Refusal};

/// Postfix's `reject_non_fqdn_helo_hostname`.
const HELO_NAME: Refusal =
    Refusal::permanent((5, 2), "Helo command rejected: need fully-qualified hostname")
        .with_code(504);

/// The same for brackets without an address.
const HELO_LITERAL: Refusal =
    Refusal::permanent((5, 2), "Helo command rejected: invalid ip address").with_code(501);

/// Postfix's `reject_non_fqdn_sender`.
const SENDER: Refusal =
    Refusal::permanent((5, 2), "Sender address rejected: need fully-qualified address")
        .with_code(504);

/// Postfix's `reject_multi_recipient_bounce`. A bounce is for one sender (RFC 5321 §4.5.5).
const BOUNCE: Refusal =
    Refusal::permanent((5, 3), "Data command rejected: Multi-recipient bounce").with_code(550);

/// Checks a name in EHLO or HELO.
///
/// # Errors
/// It is neither a name of several labels nor an address literal (RFC 5321 §4.1.4).
pub(super) fn check_helo(helo: &str) -> Result<(), Refusal> {
    if helo.starts_with('[') {
        let literal = Domain::parse(helo).ok().and_then(|domain| domain.literal());
        return literal.map(|_| ()).ok_or(HELO_LITERAL);
    }
    if is_qualified(helo) { Ok(()) } else { Err(HELO_NAME) }
}

/// Checks a sender's domain. The null sender passes.
///
/// # Errors
/// It is neither a name of several labels nor an address literal.
pub(super) fn check_sender(sender: Option<&Mailbox>) -> Result<(), Refusal> {
    let Some(domain) = sender.map(Mailbox::domain_str) else { return Ok(()) };
    if domain.starts_with('[') || is_qualified(domain) { Ok(()) } else { Err(SENDER) }
}

/// Checks the number of recipients of a message with the null sender.
///
/// # Errors
/// There are several.
pub(super) fn check_bounce(sender: Option<&Mailbox>, recipients: usize) -> Result<(), Refusal> {
    if sender.is_none() && recipients > 1 { Err(BOUNCE) } else { Ok(()) }
}

/// Returns true for a name of several labels, not all of digits. A final dot is ignored.
fn is_qualified(name: &str) -> bool {
    let name = match name.strip_suffix('.') {
        Some(rest) if !rest.ends_with('.') => rest,
        _ => name,
    };
    let Some(name) = Domain::dns_name(name) else { return false };
    let is_numeric = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    name.contains('.') && !is_numeric
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Reply;

    /// The codes of Postfix 3.7 for the same names.
    #[test]
    fn names_are_qualified_as_in_postfix() {
        for (helo, code) in [
            ("mail.example.org", 0),
            ("mail.example.org.", 0),
            ("Mail_1.example", 0),
            ("[192.0.2.1]", 0),
            ("[IPv6:2001:db8::1]", 0),
            ("1.2.3.4.example", 0),
            ("desktop", 504),
            ("desktop.", 504),
            ("localhost", 504),
            ("127.0.1.2", 504),
            ("2001:db8::1", 504),
            ("mail..example", 504),
            ("mail.example..", 504),
            (".example", 504),
            ("-mail.example", 504),
            ("mail-.example", 504),
            ("mail.exa!mple", 504),
            ("[192.0.2]", 501),
            ("[]", 501),
            ("[192.0.2.1", 501),
        ] {
            let refusal = check_helo(helo).err();
            let found = refusal.map_or(0, |refusal| Reply::from(refusal).code);
            assert_eq!(found, code, "{helo}");
        }
        for (sender, is_right) in [
            ("jo@example.org", true),
            ("jo@[192.0.2.1]", true),
            ("jo@localhost", false),
            ("jo@127.0.0.1", false),
            ("jo@1.2", false),
        ] {
            let mailbox = Mailbox::parse(sender, true).expect("an address");
            assert_eq!(check_sender(Some(&mailbox)).is_ok(), is_right, "{sender}");
        }
        assert!(check_sender(None).is_ok());
    }

    #[test]
    fn only_bounces_have_one_recipient() {
        let sender = Mailbox::parse("jo@example.org", true).expect("an address");
        assert!(check_bounce(Some(&sender), 2).is_ok() && check_bounce(None, 1).is_ok());
        let reply = check_bounce(None, 2).map_err(|refusal| Reply::from(refusal).to_string());
        let expected = "550 5.5.3 Data command rejected: Multi-recipient bounce";
        assert_eq!(reply, Err(expected.to_owned()));
    }
}
