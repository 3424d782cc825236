//! Trace: the domains and the MTAs that a message passed (X.411 §12.2.1.1.1, §12.3.1).

use super::fields::{EITS, GLOBAL_DOMAIN, text};
use super::{Eits, Flags, GlobalDomain, MTA_NAME_BYTES_MAX, TRACE_MAX, UtcTime};
use crate::ber::{Element, Tag, Writer};
use crate::decode::{self, DecodeError, Fault, InField, once};

/// Action on a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoutingAction {
    /// Passed on.
    #[default]
    Relayed,
    /// Rerouted after a failed attempt.
    Rerouted,
}

/// Destination before a reroute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempted {
    /// To this domain.
    Domain(GlobalDomain),
    /// To this MTA; only in internal trace.
    Mta(Box<str>),
}

/// Bits of [`Supplied::other_actions`].
pub mod other_action {
    /// It was redirected.
    pub const REDIRECTED: u8 = 0;
    /// A distribution list was expanded.
    pub const DL_OPERATION: u8 = 1;
}

/// The part of a trace element supplied by a domain or an MTA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supplied {
    /// Time of arrival.
    pub arrival: UtcTime,
    /// The action.
    pub action: RoutingAction,
    /// The first destination.
    pub attempted: Option<Attempted>,
    /// Until when it was held.
    pub deferred: Option<UtcTime>,
    /// Information types after a conversion.
    pub converted: Option<Eits>,
    /// Redirections and lists: bits of [`other_action`].
    pub other_actions: Flags,
}

/// A visit to a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceElement {
    /// The domain.
    pub domain: GlobalDomain,
    /// Its action.
    pub supplied: Supplied,
}

/// A visit to an MTA.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InternalTraceElement {
    /// Its domain.
    pub domain: GlobalDomain,
    /// Its name.
    pub mta: Box<str>,
    /// Its action.
    pub supplied: Supplied,
}

const FIELD: &str = "trace-information";

impl Supplied {
    fn decode(element: &Element<'_>) -> Result<Supplied, DecodeError> {
        let mut supplied = Supplied::default();
        let (mut arrival, mut action, mut other) = (None, None, None);
        for part in element.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            let at = part.at;
            match part.tag {
                EITS => once(&mut supplied.converted, Eits::decode(&part)?, FIELD, at)?,
                GLOBAL_DOMAIN => {
                    let domain = Attempted::Domain(GlobalDomain::decode(&part)?);
                    once(&mut supplied.attempted, domain, "attempted", at)?;
                }
                Tag::IA5_STRING => {
                    let mta = Attempted::Mta(text(&part, "attempted", MTA_NAME_BYTES_MAX)?);
                    once(&mut supplied.attempted, mta, "attempted", at)?;
                }
                tag if tag == Tag::context(0) => {
                    once(
                        &mut arrival,
                        UtcTime::decode(&part, "arrival-time")?,
                        "arrival-time",
                        at,
                    )?;
                }
                tag if tag == Tag::context(1) => {
                    let time = UtcTime::decode(&part, "deferred-time")?;
                    once(&mut supplied.deferred, time, "deferred-time", at)?;
                }
                tag if tag == Tag::context(2) => {
                    let number = part.unsigned(u32::MAX).field("routing-action")?;
                    let read =
                        if number == 1 { RoutingAction::Rerouted } else { RoutingAction::Relayed };
                    once(&mut action, read, "routing-action", at)?;
                }
                tag if tag == Tag::context(3) => {
                    once(&mut other, Flags::decode(&part, "other-actions")?, "other-actions", at)?;
                }
                // Additions of later editions cannot hide a loop.
                _ => {}
            }
        }
        supplied.arrival = arrival.ok_or_else(|| Fault::Missing.of("arrival-time", element.at))?;
        supplied.action = action.unwrap_or_default();
        supplied.other_actions = other.unwrap_or_default();
        Ok(supplied)
    }

    fn encode(&self, writer: &mut Writer) {
        writer.constructed(Tag::SET, |set| {
            self.arrival.encode(set, Tag::context(0));
            set.integer(Tag::context(2), i64::from(self.action == RoutingAction::Rerouted));
            match &self.attempted {
                Some(Attempted::Domain(domain)) => domain.encode(set),
                Some(Attempted::Mta(name)) => set.text(Tag::IA5_STRING, name),
                None => {}
            }
            if let Some(time) = self.deferred {
                time.encode(set, Tag::context(1));
            }
            if let Some(eits) = &self.converted {
                eits.encode(set);
            }
            if !self.other_actions.is_empty() {
                self.other_actions.encode(set, Tag::context(3), 0);
            }
        });
    }
}

impl TraceElement {
    fn decode(element: &Element<'_>) -> Result<TraceElement, DecodeError> {
        let mut parts = element.children().field(FIELD)?;
        let domain = GlobalDomain::decode(&parts.read(GLOBAL_DOMAIN).field(FIELD)?)?;
        let supplied = Supplied::decode(&parts.read(Tag::SET).field(FIELD)?)?;
        Ok(TraceElement { domain, supplied })
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.constructed(Tag::SEQUENCE, |element| {
            self.domain.encode(element);
            self.supplied.encode(element);
        });
    }
}

impl InternalTraceElement {
    fn decode(element: &Element<'_>) -> Result<InternalTraceElement, DecodeError> {
        const FIELD: &str = "internal-trace-information";
        let mut parts = element.children().field(FIELD)?;
        let domain = GlobalDomain::decode(&parts.read(GLOBAL_DOMAIN).field(FIELD)?)?;
        let mta = text(&parts.read(Tag::IA5_STRING).field(FIELD)?, "mta-name", MTA_NAME_BYTES_MAX)?;
        let supplied = Supplied::decode(&parts.read(Tag::SET).field(FIELD)?)?;
        Ok(InternalTraceElement { domain, mta, supplied })
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.constructed(Tag::SEQUENCE, |element| {
            self.domain.encode(element);
            super::fields::put_text(element, Tag::IA5_STRING, &self.mta);
            self.supplied.encode(element);
        });
    }
}

/// Reads the elements of trace-information, the oldest first.
pub(crate) fn decode_trace(element: &Element<'_>) -> Result<Vec<TraceElement>, DecodeError> {
    list(element, FIELD, TraceElement::decode)
}

/// Reads the elements of internal-trace-information, the oldest first.
pub(crate) fn decode_internal(
    element: &Element<'_>,
) -> Result<Vec<InternalTraceElement>, DecodeError> {
    list(element, "internal-trace-information", InternalTraceElement::decode)
}

/// Reads the elements of a list of at most [`TRACE_MAX`].
pub(super) fn list<T>(
    element: &Element<'_>,
    field: &'static str,
    decode: impl Fn(&Element<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    decode::list(element, field, TRACE_MAX, decode)
}

/// Writes trace-information with this tag.
pub(crate) fn encode_trace(trace: &[TraceElement], writer: &mut Writer, tag: Tag) {
    writer.constructed(tag, |list| {
        for element in trace {
            element.encode(list);
        }
    });
}
