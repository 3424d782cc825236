//! Rewriting of an envelope for relaying: fields that this MTA acts on are written anew, every other octet stays as
//! received, in order. That keeps data signed by other parties, and fields of later editions.

use super::envelope::{EXTENSIONS, RECIPIENTS};
use super::extension::{Extension, ExtensionKind, number};
use super::fields::TRACE;
use super::recipient::{INDICATOR_BITS, INDICATORS};
use super::{InternalTraceElement, Recipient, TraceElement};
use crate::ber::{Element, Reader, Tag, Writer};
use crate::decode::{DecodeError, InField};

/// Treatment of a recipient in this copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RecipientChange {
    /// It stays as it is.
    #[default]
    Keep,
    /// The next MTA answers for it, or does not.
    Responsibility(bool),
    /// Another one in its place: it was redirected.
    Replace(Box<Recipient>),
    /// It is left out.
    Drop,
}

/// Changes to an envelope.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvelopeRewrite<'a> {
    /// Appended to trace-information: our visit, once for each domain.
    pub trace: Option<&'a TraceElement>,
    /// Appended to internal-trace-information: our MTA.
    pub internal_trace: Option<&'a InternalTraceElement>,
    /// Treatment of each recipient, in order; further ones stay.
    pub recipients: &'a [RecipientChange],
    /// Extensions of the message that are set: one of its kind is replaced, a new one comes last.
    pub extensions: &'a [Extension],
}

/// The octets of an envelope (of a message, a probe or a report) with these changes.
///
/// # Errors
/// The octets are no envelope.
pub fn relay(envelope: &[u8], changes: &EnvelopeRewrite<'_>) -> Result<Vec<u8>, DecodeError> {
    rewrite(envelope, changes, EXTENSIONS)
}

/// The same for the envelope of a report, which has no recipients.
///
/// # Errors
/// The octets are no envelope.
pub fn relay_report(
    envelope: &[u8],
    changes: &EnvelopeRewrite<'_>,
) -> Result<Vec<u8>, DecodeError> {
    rewrite(
        envelope,
        &EnvelopeRewrite { recipients: &[], ..*changes },
        super::report::ENVELOPE_EXTENSIONS,
    )
}

fn rewrite(
    envelope: &[u8],
    changes: &EnvelopeRewrite<'_>,
    extensions_tag: Tag,
) -> Result<Vec<u8>, DecodeError> {
    const FIELD: &str = "envelope";
    let mut reader = Reader::new(envelope);
    let set = reader.any().field(FIELD)?;
    reader.end().field(FIELD)?;
    let mut out = Writer::with_capacity(envelope.len() + 256);
    let mut has_extensions = false;
    for part in set.children().field(FIELD)? {
        let part = part.field(FIELD)?;
        match part.tag {
            TRACE => append_trace(&part, changes, &mut out)?,
            tag if tag == extensions_tag => {
                has_extensions = true;
                extensions(Some(&part), changes, extensions_tag, &mut out)?;
            }
            RECIPIENTS if !changes.recipients.is_empty() => {
                recipients(&part, changes.recipients, &mut out)?;
            }
            _ => out.raw(part.encoded),
        }
    }
    if !has_extensions {
        extensions(None, changes, extensions_tag, &mut out)?;
    }
    let contents = out.into_vec();
    let mut whole = Writer::with_capacity(contents.len() + 8);
    whole.header(set.tag, true, contents.len() as u64);
    whole.raw(&contents);
    Ok(whole.into_vec())
}

fn append_trace(
    part: &Element<'_>,
    changes: &EnvelopeRewrite<'_>,
    out: &mut Writer,
) -> Result<(), DecodeError> {
    let Some(element) = changes.trace else {
        out.raw(part.encoded);
        return Ok(());
    };
    part.children().field("trace-information")?;
    out.constructed(TRACE, |trace| {
        trace.raw(part.contents);
        element.encode(trace);
    });
    Ok(())
}

/// The existing extensions, in order, followed by the new ones.
fn extensions(
    part: Option<&Element<'_>>,
    changes: &EnvelopeRewrite<'_>,
    tag: Tag,
    out: &mut Writer,
) -> Result<(), DecodeError> {
    const FIELD: &str = "extensions";
    if changes.internal_trace.is_none() && changes.extensions.is_empty() {
        if let Some(part) = part {
            out.raw(part.encoded);
        }
        return Ok(());
    }
    let mut all = Writer::new();
    let mut is_written = vec![false; changes.extensions.len()];
    let mut has_trace = false;
    let mut known = part.map(Element::children).transpose().field(FIELD)?;
    for field in known.iter_mut().flatten() {
        let field = field.field(FIELD)?;
        let extension = Extension::decode(&field)?;
        let replaced = changes.extensions.iter().position(|new| new.kind == extension.kind);
        if let Some(index) = replaced {
            if let (Some(new), Some(written)) =
                (changes.extensions.get(index), is_written.get_mut(index))
            {
                new.encode(&mut all);
                *written = true;
            }
        } else if is_internal_trace(&extension)
            && let Some(element) = changes.internal_trace
        {
            has_trace = true;
            append_internal(&extension, element)?.encode(&mut all);
        } else {
            all.raw(field.encoded);
        }
    }
    for (new, _) in changes.extensions.iter().zip(is_written).filter(|(_, written)| !written) {
        new.encode(&mut all);
    }
    if let Some(element) = changes.internal_trace.filter(|_| !has_trace) {
        Extension::internal_trace(std::slice::from_ref(element)).encode(&mut all);
    }
    out.constructed(tag, |set| set.raw(all.as_slice()));
    Ok(())
}

fn is_internal_trace(extension: &Extension) -> bool {
    extension.kind == ExtensionKind::Standard(number::INTERNAL_TRACE_INFORMATION)
}

/// The existing elements stay octet for octet.
fn append_internal(
    extension: &Extension,
    element: &InternalTraceElement,
) -> Result<Extension, DecodeError> {
    const FIELD: &str = "internal-trace-information";
    let value = extension.value.as_deref().unwrap_or(&[0x30, 0]);
    let known = Reader::new(value).any().field(FIELD)?;
    known.children().field(FIELD)?;
    let mut appended =
        Extension::standard(number::INTERNAL_TRACE_INFORMATION, extension.criticality, |writer| {
            writer.constructed(known.tag, |list| {
                list.raw(known.contents);
                element.encode(list);
            });
        });
    appended.kind.clone_from(&extension.kind);
    Ok(appended)
}

fn recipients(
    part: &Element<'_>,
    changes: &[RecipientChange],
    out: &mut Writer,
) -> Result<(), DecodeError> {
    const FIELD: &str = super::fields::RECIPIENTS_FIELD;
    let mut all = Writer::with_capacity(part.contents.len());
    let mut changes = changes.iter();
    for recipient in part.children().field(FIELD)? {
        let recipient = recipient.field(FIELD)?;
        match changes.next().unwrap_or(&RecipientChange::Keep) {
            RecipientChange::Keep => all.raw(recipient.encoded),
            RecipientChange::Responsibility(on) => responsibility(&recipient, *on, &mut all)?,
            RecipientChange::Replace(new) => new.encode(&mut all),
            RecipientChange::Drop => {}
        }
    }
    out.constructed(RECIPIENTS, |list| list.raw(all.as_slice()));
    Ok(())
}

/// The first bit changes, and every other octet stays.
fn responsibility(recipient: &Element<'_>, on: bool, out: &mut Writer) -> Result<(), DecodeError> {
    const FIELD: &str = "per-recipient-indicators";
    let mut parts = Writer::with_capacity(recipient.contents.len() + 4);
    for part in recipient.children().field(FIELD)? {
        let part = part.field(FIELD)?;
        if part.tag != INDICATORS {
            parts.raw(part.encoded);
            continue;
        }
        let bits = part.bits().field(FIELD)?;
        if bits.has(0) == on {
            parts.raw(part.encoded);
            continue;
        }
        let mut octets = bits.octets().to_vec();
        if octets.is_empty() {
            octets.push(0);
        }
        if let Some(first) = octets.first_mut() {
            *first = *first & 0x7f | if on { 0x80 } else { 0 };
        }
        parts.bits(INDICATORS, &octets, bits.len().max(INDICATOR_BITS));
    }
    out.constructed(recipient.tag, |set| set.raw(parts.as_slice()));
    Ok(())
}
