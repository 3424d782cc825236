//! APDUs by name: those that nobody should send, and the ones beside them that anybody may.

use crate::time::WALL_MS;
use mail::Wall;
use x400::ber::{Reader, Tag, Writer};
use x400::mts::envelope::message_prefix;
use x400::mts::extension::criticality;
use x400::mts::recipient::ReportRequest;
use x400::mts::report::{ReportType, ReportedRecipient, report_prefix};
use x400::mts::trace::{RoutingAction, Supplied};
use x400::mts::{
    ContentType, EnvelopeKind, Extension, Flags, GlobalDomain, InternalTraceElement, MtsIdentifier,
    Recipient, RecipientIndicators, ReportContent, ReportEnvelope, TraceElement, TransferEnvelope,
    UtcTime,
};
use x400::or_name::{OrAddress, OrName, PersonalName, Value};

/// The number of an extension that X.411 does not have.
const FIRST_UNKNOWN: u32 = 1_000;
/// What is in a message that nothing else is said of.
const CONTENT: &[u8] = b"What is sent.";

/// The APDU of this name. `NAME-N`: the number says how many, or how long.
pub(crate) fn apdu(name: &str) -> Vec<u8> {
    let (kind, number) = match name.rsplit_once('-').map(|(kind, n)| (kind, n.parse::<usize>())) {
        Some((kind, Ok(number))) => (kind, number),
        _ => (name, 0),
    };
    match kind {
        "witness" => witness(number),
        "content" => message(&envelope("odd").encode(), &vec![b'x'; number]),
        "segments" => segments(number),
        "beyond" => beyond(number),
        "envelope-beyond" => envelope_beyond(),
        "never-closed" => [&[0xa0, 0x80, 0x31, 0x80][..], &fields()].concat(),
        "content-cut" => cut(message(&envelope("odd").encode(), CONTENT), 4),
        "behind" => [message(&envelope("odd").encode(), CONTENT), vec![4, 1, 0]].concat(),
        "no-content" => cut(message(&envelope("odd").encode(), b""), 2),
        "octet" => vec![0xa0],
        "empty" => vec![0xa0, 0],
        "tag" => tagged(number),
        "nested" => nested(number),
        "octets" => vec![0; number],
        "probe" => probe().encode(),
        "probe-nowhere" => {
            let mut envelope = probe();
            envelope.recipients[0].name = name_of("ZZ", "nobody");
            envelope.encode()
        }
        "report" => report(&report_envelope("GB"), &report_content().encode()),
        "report-nowhere" => report(&report_envelope("ZZ"), &report_content().encode()),
        "report-rubbish" => report(&report_envelope("GB"), &[0x31, 2, 5, 0]),
        "report-trace" => {
            let mut envelope = report_envelope("GB");
            envelope.trace = (0..number).map(visit_of).collect();
            report(&envelope, &report_content().encode())
        }
        _ => changed(kind, number).unwrap_or_else(|| altered(name)),
    }
}

/// A message that is well-formed, but for one thing. `None`: no such name.
fn changed(kind: &str, number: usize) -> Option<Vec<u8>> {
    let mut envelope = envelope("odd");
    match kind {
        "message" => {}
        "recipients" => envelope.recipients = recipients(number),
        "deferred" => {
            envelope.recipients = recipients(number);
            envelope.deferred_delivery = Some(UtcTime::from(Wall(WALL_MS + 3_600_000)));
        }
        "others" => envelope.recipients = of_others(number),
        "number" => envelope.recipients[0].number = number as u32,
        "trace" => envelope.trace = (0..number).map(visit_of).collect(),
        "neighbours" => envelope.trace = vec![visit("Odd"); number],
        "visits" => {
            let here = InternalTraceElement {
                domain: domain("Ours"),
                mta: "relay".into(),
                supplied: Supplied::default(),
            };
            envelope.extensions.set(Extension::internal_trace(&vec![here; number]));
        }
        "extensions" => {
            let unknown = |n| Extension::standard(FIRST_UNKNOWN + n, Flags::default(), nothing);
            envelope.extensions.0 = (0..number as u32).map(unknown).collect();
        }
        "critical" => {
            let critical = Flags::of(&[criticality::FOR_TRANSFER]);
            envelope.extensions.set(Extension::standard(FIRST_UNKNOWN, critical, nothing));
        }
        "returned" => envelope.trace = vec![visit("Ours"), visit("Odd")],
        "rerouted" => {
            let mut last = visit("Odd");
            last.supplied.action = RoutingAction::Rerouted;
            envelope.trace = vec![visit("Ours"), last];
        }
        "organization" => {
            let long = Value::printable("x".repeat(number));
            envelope.recipients[0].name.address.organization = long;
        }
        "originator" => {
            envelope.originator.address.organization = Value::printable("x".repeat(number));
            envelope.recipients[0].name = name_of("ZZ", "nobody");
        }
        "nowhere" => envelope.recipients[0].name = name_of("ZZ", "nobody"),
        "controls" => {
            envelope.recipients[0].name = name_of("ZZ", "a\r\n250 ok\u{1b}[2J");
        }
        "local" => envelope.identifier.local = "x".repeat(number).into(),
        _ => return None,
    }
    Some(message(&envelope.encode(), CONTENT))
}

fn nothing(value: &mut Writer) {
    value.null(Tag::NULL);
}

/// A message of the association beside: its number tells it from others.
fn witness(number: usize) -> Vec<u8> {
    let mut envelope = envelope(&format!("witness {number}"));
    envelope.recipients[0].name = name_of("FR", "witness");
    message(&envelope.encode(), CONTENT)
}

/// `without-TAG`, `twice-TAG`, `broken-TAG`, `rubbish-TAG`: a field of the envelope, by its first octet, is left out,
/// occurs twice, has no contents, or has contents that make no sense; `probe-…`, `report-…` likewise.
fn altered(name: &str) -> Vec<u8> {
    let (kind, name) = match name.split_once('-') {
        Some((kind @ ("probe" | "report"), rest)) => (kind, rest),
        _ => ("message", name),
    };
    let (how, tag) = name.split_once('-').unwrap_or_else(|| panic!("no APDU: {name}"));
    let tag = u8::from_str_radix(tag, 16).expect("an octet");
    let alter = |field: &[u8]| match how {
        "without" => Vec::new(),
        "twice" => field.repeat(2),
        "broken" => vec![tag, 0],
        "rubbish" => vec![tag, 3, 0x1f, 0xff, 0xff],
        other => panic!("no APDU: {other}"),
    };
    let is_it = |octets: &[u8]| octets.first() == Some(&tag);
    let edit = |envelope: &[u8]| {
        let set = Reader::new(envelope).any().expect("an envelope");
        let mut fields = Vec::new();
        for field in set.children().expect("fields") {
            let encoded = field.expect("a field").encoded;
            fields.extend(if is_it(encoded) { alter(encoded) } else { encoded.to_vec() });
        }
        let mut writer = Writer::new();
        writer.constructed(set.tag, |set| set.raw(&fields));
        writer.into_vec()
    };
    match kind {
        "probe" => edit(&probe().encode()),
        "report" => {
            let content = report_content().encode();
            let envelope = edit(&report_envelope("GB").encode());
            [report_prefix(&envelope, content.len() as u64), content].concat()
        }
        _ => message(&edit(&envelope("odd").encode()), CONTENT),
    }
}

fn name_of(country: &str, surname: &str) -> OrName {
    OrName::from(OrAddress {
        country: Some(country.into()),
        admd: Some(" ".into()),
        prmd: Some("Test".into()),
        personal_name: PersonalName {
            surname: Value::printable(surname),
            ..PersonalName::default()
        },
        ..OrAddress::default()
    })
}

fn domain(prmd: &str) -> GlobalDomain {
    GlobalDomain { country: "GB".into(), admd: " ".into(), prmd: Some(prmd.into()) }
}

fn visit(prmd: &str) -> TraceElement {
    TraceElement { domain: domain(prmd), supplied: Supplied::default() }
}

fn visit_of(number: usize) -> TraceElement {
    visit(&format!("d{number}"))
}

fn recipients(count: usize) -> Vec<Recipient> {
    let recipient = |number: usize| Recipient {
        name: name_of("GB", &format!("r{number}")),
        number: number as u32,
        indicators: RecipientIndicators::new(true, ReportRequest::NonDelivery),
        ..Recipient::default()
    };
    (1..=count).map(recipient).collect()
}

/// Recipients whom others answer for.
fn of_others(count: usize) -> Vec<Recipient> {
    let indicators = RecipientIndicators::new(false, ReportRequest::NonDelivery);
    recipients(count).into_iter().map(|one| Recipient { indicators, ..one }).collect()
}

fn envelope(local: &str) -> TransferEnvelope {
    TransferEnvelope {
        kind: EnvelopeKind::Message,
        identifier: MtsIdentifier { domain: domain("Odd"), local: local.into() },
        originator: name_of("GB", "sender"),
        content_type: ContentType::P22,
        priority: x400::mts::Priority::Urgent,
        trace: vec![visit("Odd")],
        recipients: recipients(1),
        ..TransferEnvelope::default()
    }
}

fn probe() -> TransferEnvelope {
    TransferEnvelope { kind: EnvelopeKind::Probe, ..envelope("odd probe") }
}

fn message(envelope: &[u8], content: &[u8]) -> Vec<u8> {
    [&message_prefix(envelope, content.len() as u64)[..], content].concat()
}

/// The fields of an envelope without what is around them.
fn fields() -> Vec<u8> {
    let envelope = envelope("odd").encode();
    let set = Reader::new(&envelope).any().expect("an envelope");
    set.children().expect("fields").rest().to_vec()
}

/// A message whose content comes in so many segments of one octet, of indefinite length.
fn segments(count: usize) -> Vec<u8> {
    let mut octets = vec![0xa0, 0x80];
    octets.extend(envelope("odd").encode());
    octets.extend([0x24, 0x80]);
    octets.extend([4, 1, b'x'].repeat(count));
    octets.extend([0, 0, 0, 0]);
    octets
}

/// A message that says it has so many octets more than it has.
fn beyond(more: usize) -> Vec<u8> {
    let whole = message(&envelope("odd").encode(), CONTENT);
    let element = Reader::new(&whole).any().expect("an APDU");
    let inside = element.children().expect("parts").rest();
    let mut writer = Writer::new();
    writer.header(Tag::context(0), true, (inside.len() + more) as u64);
    writer.raw(inside);
    writer.into_vec()
}

/// A message whose envelope says that it goes on behind the message.
fn envelope_beyond() -> Vec<u8> {
    let fields = fields();
    let mut set = Writer::new();
    set.header(Tag::SET, true, fields.len() as u64 + 1_000);
    set.raw(&fields);
    let mut writer = Writer::new();
    writer.constructed(Tag::context(0), |apdu| apdu.raw(set.as_slice()));
    writer.into_vec()
}

fn cut(mut octets: Vec<u8>, bytes: usize) -> Vec<u8> {
    octets.truncate(octets.len() - bytes);
    octets
}

/// A message with another tag.
fn tagged(number: usize) -> Vec<u8> {
    let mut octets = message(&envelope("odd").encode(), CONTENT);
    octets[0] = 0xa0 + u8::try_from(number).expect("a low tag");
    octets
}

/// A message with a field that nobody knows, in which so many elements of indefinite length are nested.
fn nested(levels: usize) -> Vec<u8> {
    let (begins, ends) = ([0x30, 0x80].repeat(levels), [0, 0].repeat(levels + 1));
    let fields = [&[0xbf, 0x63, 0x80][..], &begins, &ends, &fields()].concat();
    let mut writer = Writer::new();
    writer.constructed(Tag::SET, |set| set.raw(&fields));
    message(writer.as_slice(), CONTENT)
}

fn report_envelope(country: &str) -> ReportEnvelope {
    ReportEnvelope {
        identifier: MtsIdentifier { domain: domain("Odd"), local: "odd report".into() },
        destination: name_of(country, "sender"),
        trace: vec![visit("Odd")],
        ..ReportEnvelope::default()
    }
}

fn report_content() -> ReportContent {
    let recipient = recipients(1).remove(0);
    let reported = ReportedRecipient {
        actual: recipient.name,
        number: recipient.number,
        indicators: recipient.indicators,
        arrival: Supplied::default().arrival,
        converted: None,
        outcome: ReportType::Failed { reason: 1, diagnostic: Some(0) },
        intended: None,
        supplementary: None,
        extensions: Default::default(),
    };
    ReportContent {
        subject: MtsIdentifier { domain: domain("Ours"), local: "a report".into() },
        recipients: vec![reported],
        ..ReportContent::default()
    }
}

fn report(envelope: &ReportEnvelope, content: &[u8]) -> Vec<u8> {
    [&report_prefix(&envelope.encode(), content.len() as u64)[..], content].concat()
}
