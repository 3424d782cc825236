//! Envelopes for MTAs of 1984 (X.419 annex B, RFC 1328): the same fields without extensions, names without the
//! attributes of
//! 1988. The content is unchanged.

use super::extension::{Extension, criticality};
use super::trace::Supplied;
use super::{
    ContentType, Eits, Extensions, Flags, Recipient, ReportContent, ReportEnvelope, TraceElement,
    TransferEnvelope,
};
use crate::or_name::{DOMAIN_DEFINED_MAX, DomainDefined, OrName, Value};
use std::fmt;

/// The type of the domain-defined attribute that has a common name (RFC 1328 §3).
const COMMON: &str = "Common";

/// The reason why a downgrade is impossible: reports have reason 2, diagnostic 47 (unable-to-downgrade).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDowngraded {
    /// An extension that may not be left out.
    Extension,
    /// A name with attributes that 1984 has not.
    Name,
}

impl fmt::Display for NotDowngraded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotDowngraded::Extension => "X.400 (1984) does not support a critical extension",
            NotDowngraded::Name => "X.400 (1984) does not support an attribute of a name",
        })
    }
}

impl std::error::Error for NotDowngraded {}

/// An envelope in the form of 1984.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Downgraded {
    /// With the recipients that have a place in it, under their numbers.
    pub envelope: TransferEnvelope,
    /// Recipients under the next MTA's responsibility that cannot be downgraded, by index.
    pub refused: Vec<(usize, NotDowngraded)>,
}

/// The envelope of a message or a probe as 1984 has it. A recipient that has no place in it keeps no other from getting
/// the message.
///
/// # Errors
/// What is critical for all, or the originator, has no place in it.
pub fn to_1984(envelope: &TransferEnvelope) -> Result<Downgraded, NotDowngraded> {
    check(&envelope.extensions)?;
    let mut recipients = Vec::with_capacity(envelope.recipients.len());
    let mut refused = Vec::new();
    for (index, one) in envelope.recipients.iter().enumerate() {
        match recipient(one) {
            Ok(made) => recipients.push(made),
            Err(why) if one.indicators.is_responsible() => refused.push((index, why)),
            // Others send to it.
            Err(_) => {}
        }
    }
    let envelope = TransferEnvelope {
        originator: name(&envelope.originator)?,
        original_eits: envelope.original_eits.as_ref().map(eits),
        content_type: content_type(&envelope.content_type),
        trace: trace(&envelope.trace),
        extensions: Extensions::default(),
        recipients,
        ..envelope.clone()
    };
    Ok(Downgraded { envelope, refused })
}

fn recipient(recipient: &Recipient) -> Result<Recipient, NotDowngraded> {
    check(&recipient.extensions)?;
    let name = name(&recipient.name)?;
    Ok(Recipient { name, extensions: Extensions::default(), ..recipient.clone() })
}

/// Downgrades a report.
///
/// # Errors
/// Returns an error if a name cannot be downgraded. Extensions of a report are left out, even critical ones: no party
/// can be notified.
pub fn report_to_1984(
    envelope: &ReportEnvelope,
    content: &ReportContent,
) -> Result<(ReportEnvelope, ReportContent), NotDowngraded> {
    let mut content = content.clone();
    content.extensions = Extensions::default();
    content.original_eits = content.original_eits.as_ref().map(eits);
    // No field exists for it.
    content.content_type = None;
    content.subject_trace = trace(&content.subject_trace);
    for recipient in &mut content.recipients {
        recipient.actual = name(&recipient.actual)?;
        recipient.intended = recipient.intended.as_ref().map(name).transpose()?;
        recipient.converted = recipient.converted.as_ref().map(eits);
        recipient.extensions = Extensions::default();
    }
    let envelope = ReportEnvelope {
        destination: name(&envelope.destination)?,
        trace: trace(&envelope.trace),
        extensions: Extensions::default(),
        ..envelope.clone()
    };
    Ok((envelope, content))
}

fn check(extensions: &Extensions) -> Result<(), NotDowngraded> {
    let is_critical = |extension: &Extension| {
        [criticality::FOR_TRANSFER, criticality::FOR_DELIVERY]
            .iter()
            .any(|bit| extension.criticality.has(*bit))
    };
    if extensions.0.iter().any(is_critical) { Err(NotDowngraded::Extension) } else { Ok(()) }
}

/// A name without its teletex forms, the common name as a domain-defined attribute.
fn name(name: &OrName) -> Result<OrName, NotDowngraded> {
    let mut address = name.address.clone();
    if !address.extensions.is_empty() {
        return Err(NotDowngraded::Name);
    }
    let common = std::mem::take(&mut address.common_name);
    let mut values = vec![&mut address.organization];
    values.extend(address.personal_name.parts_mut());
    values.extend(&mut address.units);
    for attribute in &mut address.domain_defined {
        values.extend([&mut attribute.kind, &mut attribute.value]);
    }
    for value in values {
        plain(value)?;
    }
    if !common.is_empty() {
        let mut value = common;
        plain(&mut value)?;
        address.domain_defined.push(DomainDefined { kind: Value::printable(COMMON), value });
    }
    if address.domain_defined.len() > DOMAIN_DEFINED_MAX {
        return Err(NotDowngraded::Name);
    }
    Ok(address.into())
}

fn plain(value: &mut Value) -> Result<(), NotDowngraded> {
    if value.printable.is_none() && value.teletex.is_some() {
        return Err(NotDowngraded::Name);
    }
    value.teletex = None;
    Ok(())
}

fn content_type(content_type: &ContentType) -> ContentType {
    match content_type {
        ContentType::Extended(_) => ContentType::EXTERNAL,
        built_in @ ContentType::BuiltIn(_) => built_in.clone(),
    }
}

/// Types with object identifiers are unknown there: bit 0.
fn eits(eits: &Eits) -> Eits {
    let is_unknown = !eits.extended.is_empty();
    Eits {
        built_in: if is_unknown { eits.built_in.with(0, true) } else { eits.built_in },
        extended: Vec::new(),
        parameters: eits.parameters.clone(),
    }
}

fn trace(trace: &[TraceElement]) -> Vec<TraceElement> {
    trace
        .iter()
        .map(|element| TraceElement {
            domain: element.domain.clone(),
            supplied: Supplied {
                other_actions: Flags::default(),
                converted: element.supplied.converted.as_ref().map(eits),
                ..element.supplied.clone()
            },
        })
        .collect()
}
