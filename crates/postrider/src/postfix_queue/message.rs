//! A message of Postfix's queue as one of this server's.

use super::records::{QueuedMail, QueuedRecipient, REQUIRETLS, SMTPUTF8, TLS_NOT_REQUIRED};
use mail::dsn::xtext::{self, Envid};
use mail::{
    BodyType, ContentFacts, ContentScanner, Envelope, Mailbox, Notify, Recipient, RequireTls,
};
use spool::RECIPIENTS_MAX;

/// The envelope of a message, and the facts beside it.
#[derive(Debug)]
pub(super) struct Conversion {
    pub(super) envelope: Envelope,
    pub(super) facts: ContentFacts,
    pub(super) require_tls: RequireTls,
    /// The reason for which the message stays on hold.
    pub(super) hold: Option<String>,
}

/// Converts a message of the queue.
///
/// # Errors
/// Returns the reason why it can't be sent from here as Postfix would send it, and the remedy.
pub(super) fn convert(mail: &QueuedMail, is_held: bool) -> Result<Conversion, String> {
    if mail.open.is_empty() {
        let done = mail.done_count;
        return Err(format!(
            "no recipient is open ({done} done): Postfix has only a report left to send"
        ));
    }
    if mail.open.len() > RECIPIENTS_MAX {
        return Err(format!(
            "it has more than {RECIPIENTS_MAX} recipients: let Postfix deliver it"
        ));
    }
    if let Some(target) = &mail.redirect {
        return Err(format!("it is redirected to {target}: let Postfix deliver it"));
    }
    if let Some(delimiters) = &mail.verp {
        return Err(format!(
            "it has a return path for each recipient (XVERP {delimiters}): let Postfix deliver it"
        ));
    }
    let mut scanner = ContentScanner::default();
    scanner.push(&mail.content);
    let envelope = envelope_of(mail)?;
    let filter = mail.filter.as_ref();
    let hold = filter.map(|filter| format!("has not passed content_filter {filter} in Postfix"));
    let hold = hold.or_else(|| is_held.then(|| "held in Postfix".to_owned()));
    let has = |bit: u32| mail.options & bit != 0;
    let require_tls = RequireTls::of(has(REQUIRETLS), has(TLS_NOT_REQUIRED));
    Ok(Conversion { envelope, facts: scanner.finish(), require_tls, hold })
}

fn envelope_of(mail: &QueuedMail) -> Result<Envelope, String> {
    let reverse_path = match mail.sender.as_str() {
        "" => None,
        sender => Some(mailbox(sender).map_err(|why| format!("its sender {sender}: {why}"))?),
    };
    let recipients: Result<Vec<Recipient>, String> = mail.open.iter().map(recipient_of).collect();
    let recipients = recipients?;
    let is_unicode = |mailbox: &Mailbox| mailbox.needs_smtputf8();
    let smtputf8 = mail.options & SMTPUTF8 != 0
        || reverse_path.as_ref().is_some_and(is_unicode)
        || recipients.iter().any(|recipient| is_unicode(&recipient.mailbox));
    Ok(Envelope {
        reverse_path,
        recipients,
        body: if mail.is_8bit { BodyType::EightBit } else { BodyType::SevenBit },
        smtputf8,
        ret: mail.ret,
        envid: mail.envid.as_deref().and_then(Envid::of_text),
    })
}

fn recipient_of(recipient: &QueuedRecipient) -> Result<Recipient, String> {
    let QueuedRecipient { address, original, orcpt, notify } = recipient;
    let mailbox = mailbox(address).map_err(|why| format!("its recipient {address}: {why}"))?;
    // Postfix names the recipient before its aliases to the next hop, if the client named none.
    let rewritten = original.as_ref().filter(|original| !original.is_empty());
    let rewritten = rewritten.filter(|original| *original != address && orcpt.is_none());
    let orcpt = orcpt.clone().or_else(|| rewritten.map(|original| format!("rfc822;{original}")));
    Ok(Recipient {
        mailbox,
        notify: notify.map_or(Notify::UNSPECIFIED, wishes),
        orcpt: orcpt.as_deref().and_then(encoded),
    })
}

/// Postfix's bits of NOTIFY.
fn wishes(bits: u32) -> Notify {
    let known = [(2, Notify::SUCCESS), (4, Notify::FAILURE), (8, Notify::DELAY)];
    let wanted = known.into_iter().filter(|(bit, _)| bits & bit != 0);
    Notify(wanted.fold(Notify::NEVER.0, |all, (_, wish)| all | wish.0))
}

/// ORCPT as it is sent (RFC 3461 §4.2, RFC 6533 §3). `None` if it can't be.
fn encoded(orcpt: &str) -> Option<Box<str>> {
    let (kind, address) = orcpt.split_once(';')?;
    let forms = [format!("{kind};{}", xtext::encode(address)), orcpt.to_owned()];
    let valid = forms.into_iter().find(|value| xtext::is_orcpt(value, true));
    valid.map(String::into_boxed_str)
}

/// An address as Postfix stores it: its local part has no quotes (RFC 5321 §4.1.2).
fn mailbox(address: &str) -> Result<Mailbox, String> {
    let (local, domain) = address.rsplit_once('@').ok_or("it has no domain")?;
    let parsed = if mail::is_dot_string(local) {
        Mailbox::parse(address, true)
    } else {
        let quoted = local.replace('\\', "\\\\").replace('"', "\\\"");
        Mailbox::parse(&format!("\"{quoted}\"@{domain}"), true)
    };
    parsed.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued(address: &str) -> QueuedRecipient {
        QueuedRecipient { address: address.to_owned(), ..QueuedRecipient::default() }
    }

    #[test]
    fn addresses_get_quotes_where_they_need_them() {
        for (stored, expected) in [
            ("jo@a.test", "jo@a.test"),
            ("jo doe@a.test", "\"jo doe\"@a.test"),
            ("a\"b\\c@a.test", "\"a\\\"b\\\\c\"@a.test"),
            ("a@b@c.test", "\"a@b\"@c.test"),
            ("@a.test", "\"\"@a.test"),
            ("jo@[192.0.2.1]", "jo@[192.0.2.1]"),
            ("jürgen@exämple.test", "jürgen@exämple.test"),
        ] {
            assert_eq!(mailbox(stored).unwrap().as_str(), expected, "{stored}");
        }
        for bad in ["", "root", "jo@", "jo@a b", "a\nb@c.test"] {
            assert!(mailbox(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn wishes_of_the_sender_are_kept() {
        let full = QueuedRecipient {
            original: Some("old@a.test".to_owned()),
            orcpt: Some("rfc822;jo+x=y@a.test".to_owned()),
            notify: Some(2 | 8),
            ..queued("new@a.test")
        };
        let recipient = recipient_of(&full).unwrap();
        assert_eq!(recipient.orcpt.as_deref(), Some("rfc822;jo+2Bx+3Dy@a.test"));
        assert_eq!(recipient.notify, Notify(Notify::SUCCESS.0 | Notify::DELAY.0));
        let unnamed = QueuedRecipient { orcpt: None, notify: Some(1), ..full };
        let recipient = recipient_of(&unnamed).unwrap();
        assert_eq!(recipient.orcpt.as_deref(), Some("rfc822;old@a.test"));
        assert_eq!(recipient.notify, Notify::NEVER);
        let plain = recipient_of(&queued("new@a.test")).unwrap();
        assert_eq!((plain.orcpt, plain.notify), (None, Notify::UNSPECIFIED));
    }

    #[test]
    fn mail_that_only_postfix_can_send_stays_there() {
        let mail = QueuedMail { open: vec![queued("a@b.test")], ..QueuedMail::default() };
        let held = convert(&mail, true).unwrap();
        assert_eq!(held.hold.as_deref(), Some("held in Postfix"));
        let filtered = QueuedMail { filter: Some("smtp:[::1]:10025".to_owned()), ..mail.clone() };
        let hold = convert(&filtered, false).unwrap().hold.unwrap();
        assert_eq!(hold, "has not passed content_filter smtp:[::1]:10025 in Postfix");
        let text = || Some("+=".to_owned());
        let many = vec![queued("a@b.test"); RECIPIENTS_MAX + 1];
        for (mail, why) in [
            (QueuedMail { redirect: text(), ..mail.clone() }, "it is redirected to +="),
            (QueuedMail { verp: text(), ..mail.clone() }, "it has a return path for each"),
            (QueuedMail { open: vec![queued("root")], ..mail.clone() }, "its recipient root: it"),
            (QueuedMail { sender: "jo".to_owned(), ..mail.clone() }, "its sender jo: it has no"),
            (QueuedMail { open: many, ..mail.clone() }, "it has more than 65535 recipients"),
            (
                QueuedMail { open: Vec::new(), done_count: 2, ..mail },
                "no recipient is open (2 done)",
            ),
        ] {
            let refused = convert(&mail, false).unwrap_err();
            assert!(refused.starts_with(why), "{refused}");
        }
    }
}
