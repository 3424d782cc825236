//! Notifications as texts (RFC 2156 §5.3.5).

use super::output::{MimeHeader, MimePart, finished};
use super::{ConversionContext, body_to_mail, heading_to_mail, message_id, trace};
use crate::ber::oid_text;
use crate::content::{Ipm, Ipn, IpnKind};

/// Writes the header and the body of a notification to these addresses.
pub(super) fn write(
    ipn: &Ipn,
    here: &ConversionContext<'_>,
    to: &[&str],
    out: &mut MimeHeader,
) -> MimePart {
    let is_receipt = matches!(ipn.kind, IpnKind::Receipt { .. });
    if let Some(originator) = &ipn.originator {
        out.field("From", &heading_to_mail::descriptor(originator, here));
    } else {
        out.field("From", &format!("postmaster@{}", here.gateway.domain));
    }
    let shown = if to.is_empty() { "list:;".to_owned() } else { to.join(", ") };
    out.field("To", &shown);
    let subject = "X.400 Inter-Personal Notification";
    let failure = if is_receipt { "" } else { " (failure)" };
    out.field("Subject", &format!("{subject}{failure}"));
    out.field("Message-Type", "InterPersonal Notification");
    out.field("Auto-Submitted", "auto-replied");
    out.field("Message-ID", &format!("<{}.ipn@{}>", here.local_id, here.gateway.domain));
    out.field("References", &format!("<{}>", message_id::to_mail(&ipn.subject_ipm)));
    if !ipn.extensions.is_empty() {
        let all: Vec<String> = ipn.extensions.iter().map(|e| oid_text(&e.oid)).collect();
        out.field("Discarded-X400-IPMS-Extensions", &all.join(", "));
    }
    let (text, returned) = text(ipn, here);
    let explanation = MimePart::text("text/plain; charset=us-ascii", text.as_bytes());
    match returned {
        Some(ipm) => {
            let message = returned_message(ipm, here);
            MimePart::multipart("mixed", "", &[explanation, message], here.local_id)
        }
        None => explanation,
    }
}

fn text<'n>(ipn: &'n Ipn, here: &ConversionContext<'_>) -> (String, Option<&'n Ipm>) {
    let recipient = ipn.preferred_recipient.as_ref().or(ipn.originator.as_ref());
    let recipient = recipient.map(|one| heading_to_mail::descriptor(one, here)).unwrap_or_default();
    let mut text = format!("Your message to: {recipient}\r\n");
    let mut returned = None;
    match &ipn.kind {
        IpnKind::Receipt { time, is_automatic, supplementary } => {
            text.push_str(&format!("was received at {}\r\n\r\n", time.to_rfc5322()));
            let how = if *is_automatic { "Automatically" } else { "Manually" };
            text.push_str(&format!("This notification was generated {how}\r\n"));
            if let Some(more) = supplementary {
                text.push_str(&format!("The following extra information was given:\r\n{more}\r\n"));
            }
        }
        IpnKind::NonReceipt { reason: 1, comment, returned: ipm, .. } => {
            text.push_str("was automatically forwarded.\r\n");
            if let Some(comment) = comment {
                text.push_str(&format!("The following comment was made:\r\n{comment}\r\n"));
            }
            returned = ipm.as_deref();
        }
        IpnKind::NonReceipt { discard, returned: ipm, .. } => {
            let why = match discard {
                Some(0) => "Expired",
                Some(1) => "Obsoleted",
                Some(2) => "User Subscription Terminated",
                _ => "IPM Deleted",
            };
            text.push_str(&format!("was discarded for the following reason: {why}\r\n"));
            returned = ipm.as_deref();
        }
        IpnKind::Other(_) => text.push_str("was handled in a manner unknown to this gateway.\r\n"),
    }
    if let Some(eits) = &ipn.conversion_eits {
        let eits = trace::encoded_info(eits);
        text.push_str(&format!("The following information types were converted: {eits}\r\n"));
    }
    if let IpnKind::NonReceipt { .. } = ipn.kind {
        text.push_str(match returned {
            Some(_) => "\r\nThe Original Message follows:\r\n",
            None => "\r\nThe Original Message is not available\r\n",
        });
    }
    (text, returned)
}

fn returned_message(ipm: &Ipm, here: &ConversionContext<'_>) -> MimePart {
    let mut part = MimePart { is_message: true, ..MimePart::default() };
    part.fields.field("Content-Type", "message/rfc822");
    let mut inner = MimeHeader::default();
    heading_to_mail::write(&ipm.heading, here, true, &mut inner);
    let (body, _) = body_to_mail::body(ipm, here);
    part.body = finished(inner, body);
    part
}
