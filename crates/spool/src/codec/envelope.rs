//! Envelope and meta inside an accept record.

use super::field::{
    Reader, optional_bytes, put_optional, put_text, put_varint, text_bytes, varint_bytes,
};
use crate::record::Meta;
use bytes::Bytes;
use mail::{BodyType, Envelope, Mailbox, Notify, Recipient, Ret};
use smallvec::SmallVec;

pub(super) fn put_envelope(out: &mut Vec<u8>, envelope: &Envelope) {
    let ret = match envelope.ret {
        None => 0,
        Some(Ret::Full) => 1,
        Some(Ret::Headers) => 2,
    };
    let eight_bit = u8::from(envelope.body == BodyType::EightBit);
    out.push(eight_bit | u8::from(envelope.smtputf8) << 1 | ret << 2);
    put_optional(out, envelope.reverse_path.as_ref().map(Mailbox::as_str));
    put_optional(out, envelope.envid.as_deref());
    for recipient in &envelope.recipients {
        out.push(recipient.notify.0);
        put_text(out, recipient.mailbox.as_str());
        put_optional(out, recipient.orcpt.as_deref());
    }
}

pub(super) fn envelope_bytes(envelope: &Envelope) -> usize {
    let fixed = 1
        + optional_bytes(envelope.reverse_path.as_ref().map(Mailbox::as_str))
        + optional_bytes(envelope.envid.as_deref());
    envelope.recipients.iter().fold(fixed, |sum, recipient| {
        sum + 1
            + text_bytes(recipient.mailbox.as_str())
            + optional_bytes(recipient.orcpt.as_deref())
    })
}

pub(super) fn read_envelope(bytes: &[u8], count: u32) -> Option<Envelope> {
    let mut r = Reader { rest: bytes };
    let flags = r.u8()?;
    let mailbox = |text: &str| Mailbox::parse(text, true).ok();
    let reverse_path = match r.optional()? {
        Some(text) => Some(mailbox(text)?),
        None => None,
    };
    let envid = r.optional()?.map(Box::from);
    let mut recipients = Vec::with_capacity((count as usize).min(bytes.len()));
    for _ in 0..count {
        let notify = Notify(r.u8()?);
        let mailbox = mailbox(r.text()?)?;
        recipients.push(Recipient { mailbox, notify, orcpt: r.optional()?.map(Box::from) });
    }
    Some(Envelope {
        reverse_path,
        recipients,
        body: if flags & 1 != 0 { BodyType::EightBit } else { BodyType::SevenBit },
        smtputf8: flags & 2 != 0,
        ret: match flags >> 2 & 3 {
            1 => Some(Ret::Full),
            2 => Some(Ret::Headers),
            _ => None,
        },
        envid,
    })
}

/// The text after the last `@` of each recipient, without building the mailboxes.
pub(super) fn envelope_domains(envelope: &[u8], count: u32) -> Option<SmallVec<[&str; 4]>> {
    let mut r = Reader { rest: envelope };
    r.u8()?;
    r.optional()?;
    r.optional()?;
    let mut domains = SmallVec::new();
    for _ in 0..count {
        r.u8()?;
        let mailbox = r.text()?;
        // No domain or address literal contains an `@`.
        domains.push(mailbox.rsplit_once('@').map_or("", |(_, domain)| domain));
        r.optional()?;
    }
    Some(domains)
}

pub(super) fn put_meta(out: &mut Vec<u8>, meta: &Meta) {
    for (tag, value) in &meta.fields {
        out.extend_from_slice(&tag.to_le_bytes());
        put_varint(out, value.len() as u64);
        out.extend_from_slice(value);
    }
}

pub(super) fn meta_bytes(meta: &Meta) -> usize {
    meta.fields.iter().map(|(_, value)| 2 + varint_bytes(value.len()) + value.len()).sum()
}

pub(super) fn read_meta(bytes: &[u8]) -> Option<Meta> {
    let mut r = Reader { rest: bytes };
    let mut fields = Vec::new();
    while !r.rest.is_empty() {
        let tag = r.u16()?;
        let length = usize::try_from(r.varint()?).ok()?;
        fields.push((tag, Bytes::copy_from_slice(r.take(length)?)));
    }
    Some(Meta { fields })
}
