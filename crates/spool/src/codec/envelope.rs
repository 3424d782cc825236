//! Envelope and meta inside an accept record.

use super::field::{
    FieldReader, optional_bytes, put_optional, put_text, put_varint, text_bytes, varint_bytes,
};
use crate::record::{Meta, tag};
use bytes::Bytes;
use mail::dsn::xtext::Envid;
use mail::{BodyType, Envelope, Mailbox, Notify, Recipient, Ret};
use smallvec::SmallVec;
use std::borrow::Cow;

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
    let mut r = FieldReader { rest: bytes };
    let flags = r.u8()?;
    let mailbox = |text: &str| Mailbox::parse_any(text).ok();
    let reverse_path = match r.optional()? {
        Some(text) => Some(mailbox(text)?),
        None => None,
    };
    // Earlier versions stored ENVIDs of their own that no server accepts.
    let envid = r.optional()?.and_then(Envid::parse);
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

/// The domain in the text of each recipient; does not parse the mailboxes.
pub(super) fn envelope_domains(envelope: &[u8], count: u32) -> Option<SmallVec<[&str; 4]>> {
    let mut r = FieldReader { rest: envelope };
    r.u8()?;
    r.optional()?;
    r.optional()?;
    let mut domains = SmallVec::new();
    for _ in 0..count {
        r.u8()?;
        domains.push(Mailbox::domain_part(r.text()?));
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

/// The fields of a meta that the queue needs: all except those used only by a channel, which may be long.
pub(super) fn meta_of_queue(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut r = FieldReader { rest: bytes };
    let mut others = Vec::new();
    let mut is_kept = false;
    loop {
        let before = r.rest;
        if before.is_empty() {
            break;
        }
        let Some(field) = r.u16() else { return Cow::Borrowed(bytes) };
        let length = r.varint().and_then(|length| usize::try_from(length).ok());
        // A malformed meta is kept unchanged.
        if length.and_then(|length| r.take(length)).is_none() {
            return Cow::Borrowed(bytes);
        }
        if field == tag::X400 && !is_kept {
            is_kept = true;
            others.extend_from_slice(&bytes[..bytes.len() - before.len()]);
        } else if field != tag::X400 && is_kept {
            others.extend_from_slice(&before[..before.len() - r.rest.len()]);
        }
    }
    if is_kept { Cow::Owned(others) } else { Cow::Borrowed(bytes) }
}

pub(super) fn read_meta(bytes: &[u8]) -> Option<Meta> {
    let mut r = FieldReader { rest: bytes };
    let mut fields = Vec::new();
    while !r.rest.is_empty() {
        let tag = r.u16()?;
        let length = usize::try_from(r.varint()?).ok()?;
        fields.push((tag, Bytes::copy_from_slice(r.take(length)?)));
    }
    Some(Meta { fields })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_gets_all_of_a_meta_but_what_a_channel_keeps() {
        let field = |tag: u16, text: &'static str| (tag, Bytes::from_static(text.as_bytes()));
        let written = |meta: &Meta| {
            let mut out = Vec::new();
            put_meta(&mut out, meta);
            out
        };
        let others = vec![field(4, "p"), field(27, "refused")];
        let mut all = others.clone();
        all.insert(1, field(tag::X400, "an envelope"));
        let (others, all) = (Meta { fields: others }, Meta { fields: all });
        assert_eq!(*meta_of_queue(&written(&all)), *written(&others));
        assert!(matches!(meta_of_queue(&written(&others)), Cow::Borrowed(_)));
        let whole = written(&all);
        for end in 0..whole.len() {
            let read = read_meta(&meta_of_queue(&whole[..end])).is_some();
            assert_eq!(read, read_meta(&whole[..end]).is_some(), "cut at {end}");
        }
    }
}
