//! Mapping of trace in both directions (RFC 2156 §5.1.6, §5.3.7): Received and X400-Received fields, trace and internal
//! trace.

use super::ConversionContext;
use super::entity::Entity;
use crate::content::EIT_MIXER;
use crate::mts::trace::{Attempted, RoutingAction, Supplied, other_action};
use crate::mts::{
    EITS_MAX, Eits, Extension, Flags, GlobalDomain, InternalTraceElement, TRACE_MAX, TraceElement,
    UtcTime,
};
use crate::or_name::OrAddress;
use mail::Wall;

/// Conversions by gateways in one direction at most; with more the message is in a loop (RFC 2156 §5.1.5).
pub const CONVERSIONS_MAX: usize = 5;
/// The comment by which a gateway knows its own kind.
const COMMENT: &str = "(MIXER Conversion following RFC 2156)";

/// Names of the built-in information types, by bit (RFC 2156 §5.3.3.1).
const EITS: [&str; 10] = [
    "Undefined",
    "Telex",
    "IA5-Text",
    "G3-Fax",
    "TIF0",
    "Teletex",
    "Videotex",
    "Voice",
    "SFD",
    "TIF1",
];

/// The trace of a message from the internet.
pub(super) struct Trace {
    pub external: Vec<TraceElement>,
    pub internal: Vec<InternalTraceElement>,
}

/// Number of gateway conversions in a message from X.400.
#[must_use]
pub fn conversions(trace: &[TraceElement]) -> usize {
    let is_gateway = |eits: &Eits| eits.extended.iter().any(|oid| oid == EIT_MIXER);
    trace.iter().filter(|t| t.supplied.converted.as_ref().is_some_and(is_gateway)).count()
}

/// Number of gateway conversions in a message from the internet.
#[must_use]
pub fn conversions_to_mail(message: &Entity<'_>) -> usize {
    message.all("Received").filter(|value| value.contains("(MIXER Conversion")).count()
}

/// Makes the trace of a header, and adds the gateway's own element (§5.1.6).
pub(super) fn of_header(
    message: &Entity<'_>,
    originator: &OrAddress,
    converted: Eits,
    here: &ConversionContext<'_>,
) -> Trace {
    let mut trace = Trace { external: Vec::new(), internal: Vec::new() };
    let fields: Vec<&(String, String)> = message.fields.iter().rev().collect();
    let has_x400 = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("X400-Received"));
    let date = message.field("Resent-Date").or_else(|| message.field("Date")).and_then(parse_date);
    if let Some(date) = date.filter(|_| !has_x400) {
        let domain = GlobalDomain::of_address(originator).unwrap_or_else(|| here.domain.clone());
        trace.external.push(TraceElement { domain, supplied: arrived(date) });
    }
    for (name, value) in fields {
        // The newest trace is beyond the limit; a loop is detected by then.
        if trace.external.len().max(trace.internal.len()) + 2 > TRACE_MAX {
            break;
        }
        if name.eq_ignore_ascii_case("X400-Received") {
            if let Some((mta, element)) = parse_x400_received(value) {
                trace.push(mta, element);
            }
        } else if name.eq_ignore_ascii_case("Received")
            && let Some((by, date)) = parse_received(value)
        {
            let domain = here.domain_of(by).unwrap_or_else(|| here.domain.clone());
            let mta = by.chars().take(32).collect::<String>();
            trace.push(Some(mta), TraceElement { domain, supplied: arrived(date) });
        }
    }
    let supplied = Supplied { converted: Some(converted), ..arrived(here.now) };
    trace.external.push(TraceElement { domain: here.domain.clone(), supplied: supplied.clone() });
    trace.internal.push(InternalTraceElement {
        domain: here.domain.clone(),
        mta: here.mta.into(),
        supplied,
    });
    trace
}

impl Trace {
    /// External trace has one element for each stay in a domain, internal trace one for each MTA.
    fn push(&mut self, mta: Option<String>, element: TraceElement) {
        if let Some(mta) = &mta {
            self.internal.push(InternalTraceElement {
                domain: element.domain.clone(),
                mta: mta.as_str().into(),
                supplied: element.supplied.clone(),
            });
        }
        let is_new = self.external.last().is_none_or(|last| !last.domain.is_same(&element.domain));
        if is_new || mta.is_none() {
            self.external.push(element);
        }
    }

    pub(super) fn extension(&self) -> Extension {
        Extension::internal_trace(&self.internal)
    }
}

fn arrived(arrival: UtcTime) -> Supplied {
    Supplied { arrival, ..Supplied::default() }
}

/// Parses a date of a field with its zone; comments after it are ignored.
#[must_use]
pub fn parse_date(text: &str) -> Option<UtcTime> {
    let plain = text.split('(').next()?.trim();
    let wall = Wall::parse_rfc5322(plain)?;
    let zone = plain.rsplit(' ').next()?;
    let digits = zone.get(1..).filter(|digits| digits.len() == 4)?.parse::<i16>();
    let ahead = match (zone.as_bytes().first(), digits) {
        (Some(b'+'), Ok(digits)) => digits / 100 * 60 + digits % 100,
        (Some(b'-'), Ok(digits)) => -(digits / 100 * 60 + digits % 100),
        _ => 0,
    };
    Some(UtcTime { ahead_minutes: ahead, ..UtcTime::from(wall) })
}

/// Receiver and time of a Received field.
fn parse_received(value: &str) -> Option<(&str, UtcTime)> {
    let (clauses, date) = value.rsplit_once(';')?;
    let mut words = clauses.split_whitespace();
    words.find(|word| word.eq_ignore_ascii_case("by"))?;
    Some((words.next()?, parse_date(date)?))
}

/// The fields of trace, the most recent one first (§5.3.7): one for each element of internal trace, and one for each
/// element of external trace that no internal one repeats.
#[must_use]
pub fn to_fields(external: &[TraceElement], internal: &[InternalTraceElement]) -> Vec<String> {
    let mut fields = Vec::with_capacity(external.len() + internal.len());
    let mut rest = internal.iter().peekable();
    for element in external {
        // The MTAs of a domain follow its own element, which is omitted if one repeats it.
        let mut mtas = Vec::new();
        while let Some(mta) = rest.next_if(|mta| mta.domain.is_same(&element.domain)) {
            mtas.push(mta);
        }
        if !mtas.iter().any(|mta| mta.supplied == element.supplied) {
            fields.push(x400_received(None, &element.domain, &element.supplied));
        }
        fields.extend(
            mtas.iter().map(|mta| x400_received(Some(&mta.mta), &mta.domain, &mta.supplied)),
        );
    }
    // Those of domains that external trace does not name, or not in this order.
    fields.extend(rest.map(|mta| x400_received(Some(&mta.mta), &mta.domain, &mta.supplied)));
    fields.reverse();
    fields
}

/// The field of the gateway itself.
#[must_use]
pub fn gateway_field(domain: &str, now: UtcTime) -> String {
    format!("Received: by {domain} {COMMENT}; {}", now.to_rfc5322())
}

fn x400_received(mta: Option<&str>, domain: &GlobalDomain, supplied: &Supplied) -> String {
    let mut field = String::from("X400-Received: by ");
    if let Some(mta) = mta {
        field.push_str(&format!("mta \"{}\" in ", mta.replace(['"', '\\'], "?")));
    }
    field.push_str(&format!("{domain};"));
    if let Some(time) = supplied.deferred {
        field.push_str(&format!(" deferred until {};", time.to_rfc5322()));
    }
    if let Some(eits) = &supplied.converted {
        field.push_str(&format!(" converted ({});", encoded_info(eits)));
    }
    match &supplied.attempted {
        Some(Attempted::Domain(domain)) => field.push_str(&format!(" attempted MD {domain};")),
        Some(Attempted::Mta(mta)) => {
            field.push_str(&format!(" attempted MTA \"{}\";", mta.replace(['"', '\\'], "?")));
        }
        None => {}
    }
    let mut actions = vec![match supplied.action {
        RoutingAction::Relayed => "Relayed",
        RoutingAction::Rerouted => "Rerouted",
    }];
    if supplied.other_actions.has(other_action::DL_OPERATION) {
        actions.push("Expanded");
    }
    if supplied.other_actions.has(other_action::REDIRECTED) {
        actions.push("Redirected");
    }
    field.push_str(&format!(" {}; {}", actions.join(", "), supplied.arrival.to_rfc5322()));
    field
}

/// Reads an X400-Received field.
fn parse_x400_received(value: &str) -> Option<(Option<String>, TraceElement)> {
    let mut parts = value.split(';').map(str::trim);
    let by = parts.next()?.strip_prefix("by ")?.trim();
    let (mta, domain) = match by.strip_prefix("mta ") {
        Some(rest) => {
            let (mta, domain) = rest.split_once(" in ")?;
            (Some(mta.trim().trim_matches('"').to_owned()), domain)
        }
        None => (None, by),
    };
    let parse_domain = |text: &str| GlobalDomain::of_address(&OrAddress::parse(text.trim()).ok()?);
    let domain = parse_domain(domain)?;
    let mut supplied = Supplied::default();
    let mut arrival = None;
    for part in parts {
        if let Some(time) = part.strip_prefix("deferred until") {
            supplied.deferred = parse_date(time.trim());
        } else if let Some(eits) = part.strip_prefix("converted") {
            supplied.converted = Some(parse_encoded_info(eits.trim().trim_matches(['(', ')'])));
        } else if let Some(domain) = part.strip_prefix("attempted MD") {
            supplied.attempted = parse_domain(domain).map(Attempted::Domain);
        } else if let Some(mta) = part.strip_prefix("attempted MTA") {
            supplied.attempted = Some(Attempted::Mta(mta.trim().trim_matches('"').into()));
        } else if let Some(time) = parse_date(part) {
            arrival = Some(time);
        } else {
            for action in part.split(',').map(str::trim) {
                match action.to_ascii_lowercase().as_str() {
                    "rerouted" => supplied.action = RoutingAction::Rerouted,
                    "expanded" => {
                        supplied.other_actions =
                            supplied.other_actions.with(other_action::DL_OPERATION, true);
                    }
                    "redirected" => {
                        supplied.other_actions =
                            supplied.other_actions.with(other_action::REDIRECTED, true);
                    }
                    _ => {}
                }
            }
        }
    }
    supplied.arrival = arrival?;
    Some((mta, TraceElement { domain, supplied }))
}

/// Information types as text (§5.3.3.1).
#[must_use]
pub fn encoded_info(eits: &Eits) -> String {
    let built_in =
        (0..).zip(EITS).filter(|(bit, _)| eits.built_in.has(*bit)).map(|(_, name)| name.to_owned());
    let extended = eits.extended.iter().map(|oid| {
        // Numbers in brackets, each with a name if there is one.
        crate::ber::oid_text(oid).split('.').map(|n| format!("({n})")).collect::<String>()
    });
    built_in.chain(extended).collect::<Vec<_>>().join(", ")
}

/// Parses that text; unknown items are omitted.
#[must_use]
pub fn parse_encoded_info(text: &str) -> Eits {
    let mut eits = Eits::default();
    for item in text.split(',').map(str::trim) {
        if let Some((bit, _)) = (0..).zip(EITS).find(|(_, name)| name.eq_ignore_ascii_case(item)) {
            eits.built_in = eits.built_in.with(bit, true);
            continue;
        }
        // The first bracket or the last may have been taken off with those around the list.
        if eits.extended.len() >= EITS_MAX {
            break;
        }
        let numbers: Vec<&str> =
            item.split(|c: char| !c.is_ascii_digit()).filter(|n| !n.is_empty()).collect();
        if let Some(oid) = crate::ber::oid_from_text(&numbers.join(".")) {
            eits.extended.push(oid.into());
        }
    }
    eits
}

/// Information types for IA5 text and a gateway.
pub(super) fn mixer_eits(has_text: bool, extended: Vec<bytes::Bytes>) -> Eits {
    let mut all = extended;
    all.push(bytes::Bytes::from_static(EIT_MIXER));
    all.dedup();
    Eits { built_in: Flags::default().with(2, has_text), extended: all, parameters: Vec::new() }
}
