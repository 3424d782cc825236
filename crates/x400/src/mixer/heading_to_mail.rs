//! A heading to header fields (RFC 2156 §5.3.4).

use super::output::{MimeHeader, is_name};
use super::{ConversionContext, mailbox, message_id, words};
use crate::ber::{Reader, oid_text};
use crate::content;
use crate::content::heading::{
    Heading, HeadingExtension, Importance, OrDescriptor, RecipientSpecifier, Sensitivity,
};
use crate::content::{file_transfer, teletex};

/// Fields of a field list that would contradict the gateway's own fields, or the structure of the message.
const RESERVED: [&str; 6] = [
    "Received",
    "X400-Received",
    "Return-Path",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
];

/// Fields that would change the apparent trace, signer or further recipients of the message. Authentication-Results
/// (RFC 8601 §5) are examined by the caller, since the gateway does not know the authserv-id.
const TRACE: [&str; 7] = [
    "Received-SPF",
    "Delivered-To",
    "DKIM-Signature",
    "DomainKey-Signature",
    "ARC-Seal",
    "ARC-Message-Signature",
    "ARC-Authentication-Results",
];
/// Prefix of fields of a resender (RFC 5322 §3.6.6).
const RESENT: &str = "resent-";

/// Fields that occur once in a header (RFC 5322 §3.6): one from a list is used only if the heading has no value.
const ONCE: [&str; 11] = [
    "Date",
    "From",
    "Sender",
    "Reply-To",
    "To",
    "Cc",
    "Bcc",
    "Message-ID",
    "In-Reply-To",
    "References",
    "Subject",
];

/// Writes the fields of a heading. In a message that lies within another, the list may have the date.
pub(super) fn write(
    heading: &Heading,
    here: &ConversionContext<'_>,
    is_nested: bool,
    out: &mut MimeHeader,
) {
    let list = heading.extension(content::FIELD_LIST).and_then(file_transfer::read_field_list);
    let list = list.unwrap_or_default();
    // An identifier too long for X.400 is carried in full.
    let kept = |name: &str| list.iter().find(|field| is_field(field, name)).map(String::as_str);
    match kept("Message-ID") {
        Some(field) => out.raw(field),
        None => out.field("Message-ID", &format!("<{}>", message_id::to_mail(&heading.this_ipm))),
    }
    writers(heading, here, out);
    recipients("To", &heading.primary_recipients, here, out);
    recipients("Cc", &heading.copy_recipients, here, out);
    if let Some(blind) = heading.blind_copy_recipients.as_ref().filter(|blind| !blind.is_empty()) {
        recipients("Bcc", blind, here, out);
    }
    descriptors("Reply-To", &heading.reply_recipients, here, out);
    if let Some(replied) = &heading.replied_to {
        out.field("In-Reply-To", &format!("<{}>", message_id::to_mail(replied)));
    }
    for (name, identifiers) in
        [("References", &heading.related), ("Supersedes", &heading.obsoleted)]
    {
        if !identifiers.is_empty() {
            let all: Vec<String> =
                identifiers.iter().map(|id| format!("<{}>", message_id::to_mail(id))).collect();
            out.field(name, &all.join(" "));
        }
    }
    if let Some(subject) = heading.subject.as_ref().filter(|_| kept("Subject").is_none()) {
        out.field("Subject", &words::encode(&teletex::to_text(subject)));
    }
    simple(heading, out);
    listed(&list, is_nested, out);
    extensions(&heading.extensions, out);
}

/// Writes fields carried as text, except for those of the gateway or already in `out`.
pub(super) fn listed(list: &[String], is_nested: bool, out: &mut MimeHeader) {
    // Looked for once: the header may be long, and the list, too.
    let mut said = ONCE.map(|name| mail::header::find(&out.0, name).is_some());
    for field in list {
        let is_reserved = RESERVED.iter().any(|reserved| is_field(field, reserved));
        if is_reserved || !is_nested && is_of_envelope(field) {
            continue;
        }
        let once = said.iter_mut().zip(ONCE).find(|(_, name)| is_field(field, name));
        if once.is_none_or(|(is_said, _)| !std::mem::replace(is_said, true)) {
            out.raw(field);
        }
    }
}

/// Returns true if a field describes the surrounding message, which only the gateway or no system may do.
fn is_of_envelope(field: &str) -> bool {
    let is_resent =
        field.get(..RESENT.len()).is_some_and(|front| front.eq_ignore_ascii_case(RESENT));
    is_resent || ["Date", "Bcc"].iter().chain(&TRACE).any(|reserved| is_field(field, reserved))
}

/// Returns true if `Name: value` is a field of this name.
fn is_field(field: &str, name: &str) -> bool {
    field
        .split_once(':')
        .is_some_and(|(known, _)| is_name(known) && known.eq_ignore_ascii_case(name))
}

/// Authors: the originator, or the authorizing users with the originator as Sender.
fn writers(heading: &Heading, here: &ConversionContext<'_>, out: &mut MimeHeader) {
    if heading.authorizing_users.is_empty() {
        if let Some(originator) = &heading.originator {
            out.field("From", &descriptor(originator, here));
        }
        return;
    }
    descriptors("From", &heading.authorizing_users, here, out);
    if let Some(originator) = &heading.originator {
        out.field("Sender", &descriptor(originator, here));
    }
}

fn simple(heading: &Heading, out: &mut MimeHeader) {
    for (name, time) in [("Expires", heading.expiry), ("Reply-By", heading.reply_by)] {
        if let Some(time) = time {
            out.field(name, &time.to_rfc5322());
        }
    }
    match heading.importance {
        Importance::Low => out.field("Importance", "low"),
        Importance::High => out.field("Importance", "high"),
        Importance::Normal => {}
    }
    if let Some(sensitivity) = heading.sensitivity {
        let word = match sensitivity {
            Sensitivity::Personal => "Personal",
            Sensitivity::Private => "Private",
            Sensitivity::CompanyConfidential => "Company-Confidential",
        };
        out.field("Sensitivity", word);
    }
    if heading.is_auto_forwarded {
        out.field("Autoforwarded", "TRUE");
    }
}

/// Maps extensions to fields, and returns the names of unmapped ones.
fn extensions(all: &[HeadingExtension], out: &mut MimeHeader) {
    let mut discarded = Vec::new();
    for extension in all {
        if extension.oid == content::LANGUAGES {
            out.field("Content-Language", &languages(extension).join(", "));
        } else if extension.oid == content::INCOMPLETE_COPY {
            out.field("Incomplete-Copy", "");
        } else if extension.oid == content::AUTO_SUBMITTED {
            out.field("Autosubmitted", auto_submitted(extension));
        } else if extension.oid == content::FIELD_LIST {
            // A malformed one is reported like an unknown one.
            let is_read = file_transfer::read_field_list(extension).is_some();
            discarded.extend((!is_read).then(|| oid_text(&extension.oid)));
        } else if extension.oid != content::MULTIPART {
            discarded.push(oid_text(&extension.oid));
        }
    }
    if !discarded.is_empty() {
        out.field("Discarded-X400-IPMS-Extensions", &discarded.join(", "));
    }
}

fn languages(extension: &HeadingExtension) -> Vec<String> {
    let value = extension.value.as_deref().unwrap_or_default();
    let Some(Ok(set)) = Reader::new(value).next() else { return Vec::new() };
    let codes = set.children().into_iter().flatten().filter_map(Result::ok);
    codes
        .filter_map(|code| String::from_utf8(code.octets().ok()?.into_owned()).ok())
        .filter(|code| code.bytes().all(|octet| octet.is_ascii_alphabetic()))
        .collect()
}

fn auto_submitted(extension: &HeadingExtension) -> &'static str {
    let value = extension.value.as_deref().unwrap_or_default();
    match Reader::new(value).next().and_then(|v| v.ok()?.integer().ok()) {
        Some(1) => "auto-generated",
        Some(2) => "auto-replied",
        _ => "not-auto-submitted",
    }
}

fn descriptors(
    name: &str,
    all: &[OrDescriptor],
    here: &ConversionContext<'_>,
    out: &mut MimeHeader,
) {
    if !all.is_empty() {
        let all: Vec<String> = all.iter().map(|one| descriptor(one, here)).collect();
        out.field(name, &all.join(", "));
    }
}

/// Requests to a recipient, as comments (RFC 2156 §4.7.2): no mail program answers them in a form that X.400 knows.
const REQUESTS: [(u8, &str); 3] = [
    (0, " (Receipt Notification Requested)"),
    (1, " (Non Receipt Notification Requested)"),
    (2, " (IPM Return Requested)"),
];

fn recipients(
    name: &str,
    all: &[RecipientSpecifier],
    here: &ConversionContext<'_>,
    out: &mut MimeHeader,
) {
    if all.is_empty() {
        return;
    }
    let one = |recipient: &RecipientSpecifier| {
        let mut text = descriptor(&recipient.recipient, here);
        for (bit, request) in REQUESTS {
            if recipient.notification_requests.has(bit) {
                text.push_str(request);
            }
        }
        if recipient.is_reply_requested {
            text.push_str(" (Reply requested)");
        }
        text
    };
    out.field(name, &all.iter().map(one).collect::<Vec<_>>().join(", "));
}

/// A mailbox (§4.7.2).
pub(super) fn descriptor(descriptor: &OrDescriptor, here: &ConversionContext<'_>) -> String {
    let display = descriptor.free_form_name.as_ref().map(|octets| {
        // Encoded text may come from another gateway, for characters missing in teletex.
        words::decode(&teletex::to_text(octets))
    });
    let address =
        descriptor.formal_name.as_ref().and_then(|name| here.gateway.to_mail(&name.address));
    let mut text = match (&address, &display) {
        (Some(address), display) => mailbox::write(display.as_deref(), address),
        (None, Some(display)) => format!("{}:;", mailbox::written_phrase(display)),
        (None, None) => {
            let name = descriptor.formal_name.as_ref().map(|name| name.address.to_string());
            format!("{}:;", mailbox::written_phrase(&name.unwrap_or_else(|| "nobody".to_owned())))
        }
    };
    if let Some(telephone) = &descriptor.telephone {
        let number: String = telephone.chars().filter(|c| !"()\\".contains(*c)).collect();
        text.push_str(&format!(" (Tel {number})"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_fields_says_nothing_of_the_envelope_of_what_leaves_here() {
        let trace = "Received: x|received : x|X400-Received: x|Return-Path: <a@b>|Received-SPF: pass|\
            DKIM-Signature: v=1|dkim-signature: v=1|ARC-Seal: i=1|ARC-Message-Signature: i=1|\
            ARC-Authentication-Results: i=1|Resent-From: a@b|RESENT-ANYTHING: x|Delivered-To: a@b|\
            Bcc: a@b|Date: now|DomainKey-Signature: x";
        let list: Vec<String> = trace.split('|').map(str::to_owned).collect();
        let mut out = MimeHeader::default();
        listed(&list, false, &mut out);
        // What is no name of a field is none.
        assert_eq!(String::from_utf8_lossy(&out.0), "");
        let others = ["List-Id: <x.y>", "X-Mailer: z", "Comments: Resent-From: a@b"];
        listed(&others.map(str::to_owned), false, &mut out);
        assert_eq!(String::from_utf8_lossy(&out.0).lines().count(), others.len());
        // A message within another keeps what it had.
        let mut nested = MimeHeader::default();
        listed(&list, true, &mut nested);
        let kept = String::from_utf8_lossy(&nested.0).into_owned();
        assert!(kept.contains("DKIM-Signature") && kept.contains("Date: now"), "{kept}");
        assert!(!kept.contains("Return-Path"), "{kept}");
    }
}
