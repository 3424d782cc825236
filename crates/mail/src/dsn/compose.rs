//! Composition of a report: multipart/report with a text for people, the delivery status for programs, and the returned
//! part of the message (RFC 6522, RFC 3464, RFC 6533).

use super::original::OriginalPart;
use super::text::{Text, cut};
use super::{DsnOutcome, RECIPIENTS_MAX, RecipientReport, Report, xtext};
use crate::{Culprit, EnhancedStatus, Failure, Mailbox, header};
use memchr::memmem;
use std::net::IpAddr;
use std::time::Duration;

/// Maximum length of the Subject quoted to the sender.
const SUBJECT_BYTES_MAX: usize = 200;
/// Maximum length of a Message-ID that is referred to.
const MESSAGE_ID_BYTES_MAX: usize = 250;
/// Size of a part at which no further recipient is listed.
const PART_BYTES_MAX: usize = 256 * 1024;

impl Report<'_> {
    /// The content of the report: header and body, with CRLF line ends, lines of up to 998 octets and up to
    /// [`super::REPORT_BYTES_MAX`] in total. It is ASCII unless an address is internationalised, so that it can pass a
    /// host without 8BITMIME.
    #[must_use]
    pub fn compose(&self) -> Vec<u8> {
        let original_header = self.original.header();
        let global = self.is_global();
        let named = self.named();
        let parts = [
            self.explanation(&named, &original_header, global),
            self.status(&named, global),
            self.original.part(&original_header, global),
        ];
        let boundary = self.boundary(&parts);
        let has_8bit = parts.iter().any(|part| !part.body.is_ascii());

        let mut text = Text::new(global);
        text.out.reserve(1_024 + parts.iter().map(|part| part.body.len()).sum::<usize>());
        self.header(&mut text, &original_header);
        text.line("Content-Type: multipart/report; report-type=delivery-status;");
        text.line(&format!("\tboundary=\"{boundary}\""));
        // RFC 2045 §6.4: a multipart has the widest encoding label of its parts.
        text.line(&format!(
            "Content-Transfer-Encoding: {}",
            if has_8bit { "8bit" } else { "7bit" }
        ));
        text.line("");
        text.line("This is a report in MIME format.");
        for part in &parts {
            text.line("");
            text.line(&format!("--{boundary}"));
            text.line(&format!("Content-Type: {}", part.content_type));
            text.line(&format!("Content-Transfer-Encoding: {}", part.encoding));
            text.line(&format!("Content-Description: {}", part.description));
            text.line("");
            text.out.extend_from_slice(&part.body);
        }
        text.line("");
        text.line(&format!("--{boundary}--"));
        text.out
    }

    /// Returns true if the report can be sent only with SMTPUTF8: its own header is internationalised.
    #[must_use]
    pub fn needs_smtputf8(&self) -> bool {
        self.to.needs_smtputf8()
    }

    /// RFC 6533 §4: the internationalised form is for internationalised addresses. Other non-ASCII text is encoded,
    /// because many programs read only the ASCII form.
    fn is_global(&self) -> bool {
        let is_wide = |r: &RecipientReport| {
            r.recipient.mailbox.needs_smtputf8()
                || (self.smtputf8 && r.recipient.orcpt.as_ref().is_some_and(|o| !o.is_ascii()))
        };
        self.to.needs_smtputf8() || self.recipients.iter().any(is_wide)
    }

    /// The named recipients, failed ones first.
    fn named(&self) -> Vec<&RecipientReport<'_>> {
        let mut named: Vec<&RecipientReport<'_>> = self.recipients.iter().collect();
        if named.len() > RECIPIENTS_MAX {
            // Stable sort: recipients of the same kind remain in the order of the envelope.
            named.sort_by_key(|r| section(&r.outcome));
            named.truncate(RECIPIENTS_MAX);
        }
        named
    }

    fn header(&self, text: &mut Text, original_header: &[u8]) {
        let hostname = self.hostname;
        text.exact_field("From", &format!("Mail Delivery System <MAILER-DAEMON@{hostname}>"));
        text.exact_field("To", &format!("<{}>", self.full_address(self.to)));
        text.field("Subject", self.subject());
        text.field("Date", &self.now.rfc5322());
        // The id alone could be repeated after a spool is created anew.
        text.exact_field(
            "Message-ID",
            &format!("<{}.{:x}@{hostname}>", self.report_id, self.now.0),
        );
        if let Some(id) = message_id(original_header) {
            // RFC 3834 §3.1.5.
            text.exact_field("In-Reply-To", &id);
            text.exact_field("References", &id);
        }
        text.line("Auto-Submitted: auto-replied");
        text.line("MIME-Version: 1.0");
    }

    fn subject(&self) -> &'static str {
        let has =
            |wanted: fn(&DsnOutcome) -> bool| self.recipients.iter().any(|r| wanted(&r.outcome));
        if has(|o| o.action() == "failed") {
            "Your message could not be delivered"
        } else if has(|o| matches!(o, DsnOutcome::Delayed { .. })) {
            "Your message is delayed"
        } else if has(|o| matches!(o, DsnOutcome::Delivered(_))) {
            "Your message was delivered"
        } else {
            "Your message was relayed"
        }
    }

    /// In RFC 5322 every address has a domain.
    fn full_address(&self, mailbox: &Mailbox) -> String {
        if !mailbox.has_domain() {
            format!("{mailbox}@{}", self.hostname)
        } else {
            mailbox.to_string()
        }
    }

    /// The part for people.
    fn explanation(
        &self,
        named: &[&RecipientReport<'_>],
        original_header: &[u8],
        global: bool,
    ) -> OriginalPart {
        let mut text = Text::new(global);
        text.paragraph("", &format!("This is the mail server {}.", self.hostname));
        for number in 0..SECTIONS {
            let is_here = |r: &RecipientReport| section(&r.outcome) == number;
            let count = self.recipients.iter().filter(|r| is_here(r)).count();
            let Some(first) = self.recipients.iter().find(|r| is_here(r)) else { continue };
            text.line("");
            text.paragraph("", introduction(&first.outcome));
            let mut shown = 0;
            for recipient in named.iter().filter(|r| is_here(r)) {
                if text.out.len() > PART_BYTES_MAX {
                    break;
                }
                explain_recipient(&mut text, recipient);
                shown += 1;
            }
            if count > shown {
                text.line("");
                let and = if shown > 0 { "and " } else { "" };
                let more = if shown > 0 { "more " } else { "" };
                let rest = count - shown;
                text.paragraph("", &format!("({and}{rest} {more}recipients not listed)"));
            }
        }
        self.describe_message(&mut text, original_header, global);
        text.line("");
        text.paragraph(
            "",
            &format!(
                "If you need help, write to postmaster@{} and include this report.",
                self.hostname
            ),
        );
        OriginalPart {
            content_type: if global {
                "text/plain; charset=utf-8"
            } else {
                "text/plain; charset=us-ascii"
            },
            encoding: if text.out.is_ascii() { "7bit" } else { "8bit" },
            description: "Notification",
            body: text.out,
        }
    }

    /// Describes the reported message for people.
    fn describe_message(&self, text: &mut Text, original_header: &[u8], global: bool) {
        text.line("");
        text.paragraph("", "The message:");
        text.line("");
        if let Some(subject) = header::find(original_header, "Subject") {
            let subject = String::from_utf8_lossy(&subject.unfolded()).into_owned();
            // An encoded subject (RFC 2047), or one that cannot be written here, is of no use to people.
            if !subject.contains("=?") && (global || subject.is_ascii()) {
                text.paragraph("    ", &format!("Subject: {}", cut(&subject, SUBJECT_BYTES_MAX)));
            }
        }
        if let Some(id) = message_id(original_header) {
            text.paragraph("    ", &format!("Message-ID: {id}"));
        }
        text.paragraph("    ", &format!("Received here: {}", self.arrived.rfc5322()));
        text.paragraph("    ", &format!("Reference: {}", self.id));
    }

    /// The part for programs (RFC 3464 §2).
    fn status(&self, named: &[&RecipientReport<'_>], global: bool) -> OriginalPart {
        let mut text = Text::new(global);
        if let Some(envid) = self.envid.and_then(xtext::decode_envid) {
            text.exact_field("Original-Envelope-Id", &envid);
        }
        text.exact_field("Reporting-MTA", &format!("dns; {}", self.hostname));
        text.field("Arrival-Date", &self.arrived.rfc5322());
        text.exact_field("X-Postrider-Id", &self.id.to_string());
        for recipient in named {
            if text.out.len() > PART_BYTES_MAX {
                break;
            }
            text.line("");
            recipient_status(&mut text, recipient);
        }
        let is_ascii = text.out.is_ascii();
        OriginalPart {
            // RFC 6533 §3: the other form is for text that this one cannot hold.
            content_type: if is_ascii {
                "message/delivery-status"
            } else {
                "message/global-delivery-status"
            },
            encoding: if is_ascii { "7bit" } else { "8bit" },
            description: "Delivery status",
            body: text.out,
        }
    }

    /// A boundary that occurs in none of the parts, whatever the sender wrote into the message.
    fn boundary(&self, parts: &[OriginalPart]) -> String {
        let prefix = format!("postrider-{}-", self.report_id);
        let mut taken: Vec<u32> = Vec::new();
        for part in parts {
            for at in memmem::find_iter(&part.body, prefix.as_bytes()) {
                let digits = part.body.get(at + prefix.len()..at + prefix.len() + 8);
                let digits = digits.and_then(|d| std::str::from_utf8(d).ok());
                taken.extend(digits.and_then(|d| u32::from_str_radix(d, 16).ok()));
            }
        }
        taken.sort_unstable();
        taken.dedup();
        // The smallest number that is free.
        let free =
            taken.iter().zip(0..).find(|&(&n, i)| n != i).map_or(taken.len() as u32, |f| f.1);
        format!("{prefix}{free:08x}")
    }
}

/// Number of sections of the text.
const SECTIONS: u8 = 5;

fn section(outcome: &DsnOutcome) -> u8 {
    match outcome {
        DsnOutcome::Failed(_) | DsnOutcome::Expired { .. } => 0,
        DsnOutcome::Delayed { .. } => 1,
        DsnOutcome::Delivered(_) => 2,
        DsnOutcome::Relayed(_) => 3,
        DsnOutcome::Expanded => 4,
    }
}

fn introduction(outcome: &DsnOutcome) -> &'static str {
    match outcome {
        DsnOutcome::Failed(_) | DsnOutcome::Expired { .. } => {
            "Your message could not be delivered to the following recipient(s). No more attempts \
             will be made."
        }
        DsnOutcome::Delayed { .. } => {
            "Your message has not been delivered yet to the following recipient(s). You need not \
             send it again: this server will keep trying."
        }
        DsnOutcome::Delivered(_) => "Your message was delivered to the following recipient(s).",
        DsnOutcome::Relayed(_) => {
            "Your message was relayed for the following recipient(s) to a server that does not \
             report deliveries. You may get no further report."
        }
        DsnOutcome::Expanded => {
            "Your message was sent to the members of the following mailing list(s). You may get \
             no further report."
        }
    }
}

fn explain_recipient(text: &mut Text, report: &RecipientReport) {
    text.line("");
    let address = text.clean(report.recipient.mailbox.as_str());
    text.line(&format!("<{address}>"));
    if let Some(failure) = report.outcome.failure() {
        if let Some(hint) = hint(failure) {
            text.paragraph("    ", hint);
        }
        match &failure.reply {
            Some(reply) => {
                text.paragraph("    ", &format!("The server {} replied:", failure.culprit));
                text.paragraph("        ", &reply.to_string());
                text.paragraph("    ", &format!("({})", failure.text));
            }
            None => text.paragraph("    ", &format!("{}: {}", failure.culprit, failure.text)),
        }
    }
    if let DsnOutcome::Delayed { retry_until, .. } = report.outcome {
        text.paragraph(
            "    ",
            &format!("Delivery will be attempted until {}.", retry_until.rfc5322()),
        );
    }
    if let DsnOutcome::Expired { after, .. } = report.outcome {
        text.paragraph("    ", &format!("Delivery was attempted for {}.", in_words(after)));
    }
    if let Some(success) = report.outcome.success() {
        match (success.peer, success.reply) {
            (Some(peer), Some(reply)) => {
                text.paragraph("    ", &format!("The server {peer} replied:"));
                text.paragraph("        ", &reply.to_string());
            }
            (Some(peer), None) => text.paragraph("    ", &format!("Accepted by {peer}.")),
            (None, _) => {}
        }
    }
}

/// `5 days`, `1 hour`: whole units, of the largest unit that fits twice or exactly.
fn in_words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let fits = |&&(size, _): &&(u64, &str)| seconds >= 2 * size || seconds / size * size == seconds;
    let (size, name) =
        units.iter().filter(|(size, _)| seconds >= *size).find(fits).unwrap_or(&units[3]);
    let count = seconds / size;
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

/// Explains a status to people unfamiliar with it (RFC 3463 §3).
fn hint(failure: &Failure) -> Option<&'static str> {
    let EnhancedStatus { class, subject, detail } = failure.status;
    let is_peer = matches!(failure.culprit, Culprit::Peer(_));
    Some(match (class, subject, detail) {
        (5, 1, 1 | 3 | 6) => "The mailbox does not exist. Please check the address.",
        (5, 1, 2 | 10) => "The domain does not accept mail. Please check the part after the @.",
        (_, 1, 7 | 8) => "The recipient's server does not accept your address.",
        (_, 2, 1) => "The mailbox is disabled.",
        (_, 2, 2) => "The mailbox is full.",
        (_, 2, 3) | (_, 3, 4) => "The message is too large.",
        (4, 4, _) => "The recipient's server could not be reached.",
        (5, 4, 4) => "No mail server was found for the recipient's domain.",
        (_, 4, 6) | (_, 4, 8) => "The message was caught in a loop between mail servers.",
        (_, 4, 7) => "The recipient's server could not be reached in time.",
        (_, 6, 3 | 7 | 9) => "The recipient's server cannot accept messages of this type.",
        (5, 7, _) if is_peer => {
            "The recipient's server rejected the message because of its policy."
        }
        _ => return None,
    })
}

/// RFC 3464 §2.3.
fn recipient_status(text: &mut Text, report: &RecipientReport) {
    if let Some(original) = report.recipient.orcpt.as_deref().and_then(xtext::decode_orcpt) {
        let address = if text.global || original.address.is_ascii() {
            original.address
        } else {
            xtext::encode_utf8_address(&original.address)
        };
        text.exact_field("Original-Recipient", &format!("{};{address}", original.kind));
    }
    let mailbox = &report.recipient.mailbox;
    let kind = if mailbox.needs_smtputf8() { "utf-8" } else { "rfc822" };
    text.exact_field("Final-Recipient", &format!("{kind};{mailbox}"));
    text.exact_field("Action", report.outcome.action());
    text.exact_field("Status", &report.outcome.status().to_string());
    let (peer, reply) = match (report.outcome.failure(), report.outcome.success()) {
        (Some(Failure { culprit: Culprit::Peer(peer), reply, .. }), _) => {
            (Some(&**peer), reply.as_ref())
        }
        (None, Some(success)) => (success.peer, success.reply),
        _ => (None, None),
    };
    if let Some(peer) = peer {
        text.exact_field("Remote-MTA", &format!("dns; {}", host_name(peer)));
    }
    // No SMTP server was involved in a refusal of a local mailbox (RFC 3464 §2.3.6).
    if let (Some(reply), Some(_)) = (reply, peer) {
        text.field("Diagnostic-Code", &format!("smtp; {reply}"));
    } else if let Some(failure) = report.outcome.failure() {
        // RFC 3464 §2.3.6: a type for text that is not from a protocol.
        text.field(
            "Diagnostic-Code",
            &format!("x-postrider; {}: {}", failure.culprit, failure.text),
        );
    }
    if let Some(last_attempt) = report.last_attempt {
        text.field("Last-Attempt-Date", &last_attempt.rfc5322());
    }
    if let DsnOutcome::Delayed { retry_until, .. } = report.outcome {
        text.field("Will-Retry-Until", &retry_until.rfc5322());
    }
}

/// The name within `mx.example.com[192.0.2.1]:25`, or the address as a literal.
fn host_name(peer: &str) -> String {
    let (name, rest) = peer.split_at(peer.find('[').unwrap_or(peer.len()));
    let name = match name.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => name,
    };
    let address = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let host = if name.is_empty() { address.map_or("unknown", |a| a.0) } else { name };
    match host.parse() {
        Ok(IpAddr::V4(ip)) => format!("[{ip}]"),
        Ok(IpAddr::V6(ip)) => format!("[IPv6:{ip}]"),
        Err(_) => host.to_owned(),
    }
}

/// The Message-ID, if it is well-formed.
fn message_id(header: &[u8]) -> Option<String> {
    let field = header::find(header, "Message-ID")?;
    let id = String::from_utf8(field.unfolded().into_owned()).ok()?;
    let is_clean = id.len() <= MESSAGE_ID_BYTES_MAX
        && id.starts_with('<')
        && id.find('>') == Some(id.len() - 1)
        && id.bytes().all(|b| matches!(b, b'!'..=b'~'));
    is_clean.then_some(id)
}
