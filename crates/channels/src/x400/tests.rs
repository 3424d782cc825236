//! What an MTA does with APDUs, on octets that nobody here has made.

use super::acceptance::{self, Acceptance, AcceptanceContext};
use super::departure::departure;
use super::kept;
use super::kept::ApduContent;
use crate::x400::section::{X400, X400Mode};
use bytes::Bytes;
use config::Config;
use mail::dsn::{DsnOutcome, RecipientReport, Success};
use mail::{ContentFacts, MessageId, Notify, Refusal, Wall};
use mta::delivery::ReportQuestion;
use mta::message::Message;
use mta::overrides::Overrides;
use spool::record::tag;
use spool::{Loaded, LoadedBody, Meta};
use std::sync::Arc;
use x400::mts::reader::read_whole;
use x400::mts::trace::{RoutingAction, other_action};
use x400::mts::{ApduEvent, EnvelopeKind, Limits, ReportContent, ReportEnvelope, TransferEnvelope};

const EXTENSIONS: &[u8] = include_bytes!("../../tests/x400/message_extensions.ber");
const CRITICAL: &[u8] = include_bytes!("../../tests/x400/message_unknown_critical.ber");
const NOT_CRITICAL: &[u8] = include_bytes!("../../tests/x400/message_unknown_noncritical.ber");
const PROBE: &[u8] = include_bytes!("../../tests/x400/probe.ber");
const REPORT: &[u8] = include_bytes!("../../tests/x400/report_delivery_and_nondelivery.ber");

/// 2026-11-22 06:30 UTC: before the deferred delivery time of the vectors.
const NOW: Wall = Wall(1_795_329_000_000);

fn config(routes: &str) -> Config {
    let text = format!(
        "[[listener]]\nkind = \"p1\"\naddress = \"127.0.0.1:0\"\n[x400]\nmta = \"relay\"\n\
         domain = \"/PRMD=Ours/ADMD= /C=GB/\"\n[[x400.peer]]\nname = \"hub\"\nhosts = [\"127.0.0.1\"]\n\
         their_name = \"hub\"\ntheir_password = \"x\"\n[[route]]\nor_addresses = [{routes}]\nx400 = {{ peer = \"hub\" }}\n"
    );
    crate::schema().parse(&text, "f.toml").unwrap()
}

/// A route that takes all of GB.
fn everything() -> Config {
    config("\"/C=GB/\"")
}

fn accept(apdu: &[u8], config: &Config, recipients_max: usize) -> (Acceptance, Bytes) {
    let (event, content) = read_whole(apdu, Limits::default()).unwrap();
    let x400 = config.of::<X400>().unwrap();
    let terms = AcceptanceContext { x400, config, recipients_max, now: NOW };
    let accepted = match event {
        ApduEvent::Envelope { octets, envelope, .. } => {
            acceptance::of_transfer(&envelope.unwrap(), &octets, &terms)
        }
        ApduEvent::Report { octets, envelope } => {
            acceptance::of_report(&envelope.unwrap(), &octets, &terms)
        }
        ApduEvent::Content(_) => unreachable!("an envelope comes first"),
    };
    (accepted, content)
}

fn addresses(accepted: &Acceptance) -> Vec<&str> {
    accepted.envelope.recipients.iter().map(|recipient| recipient.mailbox.as_str()).collect()
}

fn refused(accepted: &Acceptance) -> Vec<(u32, String)> {
    let status = |(index, why): &(u32, Refusal)| (*index, why.status.to_string());
    accepted.foreign.refused.iter().map(status).collect()
}

/// As it comes back from the spool.
fn message(accepted: Acceptance, content: Bytes) -> Message {
    Message::from_loaded(Loaded {
        id: MessageId::new(1, 0, 7),
        received_at: NOW,
        envelope: Arc::new(accepted.envelope),
        meta: Meta { fields: vec![(tag::X400, accepted.foreign.kept)] },
        prefix: Bytes::new(),
        facts: ContentFacts { body_bytes: content.len() as u64, ..ContentFacts::default() },
        body: LoadedBody::Memory(content),
        last_reason: None,
        overrides: None,
    })
}

#[test]
fn recipients_with_the_responsibility_bit_are_ours() {
    let (accepted, _) = accept(EXTENSIONS, &everything(), 100);
    let mailboxes = addresses(&accepted);
    assert_eq!(mailboxes.len(), 2, "{mailboxes:?}");
    assert!(mailboxes[0].contains("/PRMD=TestB/") && mailboxes[1].contains("DD.RFC-822="));
    let wishes: Vec<Notify> = accepted.envelope.recipients.iter().map(|r| r.notify).collect();
    assert_eq!(wishes, [Notify::FAILURE, Notify(1 | 2)]);
    assert_eq!(refused(&accepted), []);
    assert_eq!(accepted.steering.priority.map(mail::Priority::value), Some(acceptance::URGENT));
    let after = |minutes: u64| Some(Wall(NOW.0 + minutes * 60_000));
    assert_eq!(accepted.steering.not_before, after(30));
    // 2027-11-22 06:00.
    assert_eq!(accepted.steering.expires, after(365 * 24 * 60 - 30));
    let told: Vec<&str> = accepted.foreign.told.iter().map(|(_, value)| &**value).collect();
    assert_eq!(told[0], "message");
    assert!(told[1].ends_with(";v1]") && told[2].contains("22"), "{told:?}");
}

#[test]
fn each_cause_is_refused_with_its_status() {
    let (accepted, _) = accept(CRITICAL, &everything(), 100);
    assert_eq!(refused(&accepted), [(0, "5.5.5".to_owned())]);
    let (accepted, _) = accept(NOT_CRITICAL, &everything(), 100);
    assert_eq!(refused(&accepted), []);
    let (accepted, _) = accept(EXTENSIONS, &everything(), 1);
    assert_eq!(refused(&accepted), [(0, "5.5.3".to_owned()), (1, "5.5.3".to_owned())]);
    let (accepted, _) = accept(EXTENSIONS, &config("\"/PRMD=TestB/C=GB/\""), 100);
    assert_eq!(refused(&accepted), [(1, "5.1.1".to_owned())]);
    let (mut accepted, _) = accept(EXTENSIONS, &config("\"/PRMD=TestB/C=GB/\""), 100);
    accepted.refuse_all(&acceptance::TOO_LONG);
    assert_eq!(refused(&accepted), [(0, "5.2.3".to_owned()), (1, "5.1.1".to_owned())]);
}

#[test]
fn a_message_leaves_as_it_came_but_for_bits_and_trace() {
    let config = everything();
    let x400 = config.of::<X400>().unwrap();
    let (accepted, content) = accept(EXTENSIONS, &config, 100);
    let message = message(accepted, content.clone());
    let sent = departure(&message, &[1], x400, X400Mode::Normal).unwrap();
    assert_eq!(sent.content, ApduContent::Kept);
    let apdu = [&sent.prefix[..], &content].concat();
    let (event, again) = read_whole(&apdu, Limits::default()).unwrap();
    assert_eq!(again, content);
    let ApduEvent::Envelope { envelope, .. } = event else { unreachable!("it is a message") };
    let envelope = envelope.unwrap();
    let bits: Vec<bool> =
        envelope.recipients.iter().map(|r| r.indicators.is_responsible()).collect();
    assert_eq!(bits, [false, false, true]);
    let domains: Vec<String> =
        envelope.trace.iter().map(|visit| visit.domain.to_string()).collect();
    assert_eq!(domains.len(), 3);
    assert!(domains[2].contains("Ours"), "{domains:?}");
    let internal = envelope.internal_trace();
    assert_eq!(internal.last().map(|visit| &*visit.mta), Some("relay"));
    assert_eq!(
        departure(&message, &[1], x400, X400Mode::Normal).unwrap(),
        sent,
        "each attempt sends the same"
    );
    let ours = |envelope: &TransferEnvelope| envelope.extensions.0.len();
    let (before, _) = read_whole(EXTENSIONS, Limits::default()).unwrap();
    let ApduEvent::Envelope { envelope: Ok(before), .. } = before else { unreachable!() };
    assert_eq!(ours(&envelope), ours(&before), "no extension is lost");
}

#[test]
fn probes_and_reports_pass_too() {
    let config = everything();
    let x400 = config.of::<X400>().unwrap();
    let (accepted, content) = accept(PROBE, &config, 100);
    assert_eq!((accepted.envelope.recipients.len(), content.len()), (2, 0));
    let sent = departure(&message(accepted, content), &[0, 1], x400, X400Mode::Normal).unwrap();
    assert_eq!(sent.content, ApduContent::None);
    let (event, _) = read_whole(&sent.prefix, Limits::default()).unwrap();
    let ApduEvent::Envelope { envelope: Ok(envelope), .. } = event else { unreachable!() };
    assert_eq!((envelope.kind, envelope.content_length), (EnvelopeKind::Probe, Some(10_000)));

    let (accepted, content) = accept(REPORT, &config, 100);
    assert_eq!(accepted.envelope.reverse_path, None);
    assert_eq!(accepted.envelope.recipients[0].notify, Notify::NEVER);
    let sent =
        departure(&message(accepted, content.clone()), &[0], x400, X400Mode::Normal).unwrap();
    let apdu = [&sent.prefix[..], &content].concat();
    let (event, again) = read_whole(&apdu, Limits::default()).unwrap();
    let ApduEvent::Report { envelope: Ok(envelope), .. } = event else { unreachable!() };
    assert_eq!((again, envelope.trace.len()), (content, 2));
}

#[test]
fn what_leaves_as_no_envelope_can_not_be_sent() {
    let config = everything();
    let (accepted, content) = accept(PROBE, &config, 100);
    let mut message = message(accepted, content);
    message.meta = Meta { fields: vec![(tag::X400, Bytes::from_static(b"mxx"))] };
    let failure =
        departure(&message, &[0], config.of::<X400>().unwrap(), X400Mode::Normal).unwrap_err();
    assert_eq!(failure.status.to_string(), "5.6.0");
}

#[test]
fn a_failure_is_reported_to_the_originator() {
    let config = everything();
    let (accepted, content) = accept(EXTENSIONS, &config, 100);
    let original = message(accepted, content.clone());
    let status = mail::EnhancedStatus::new(5, 4, 6);
    let failure = mail::Failure::local(mail::Class::Permanent, status, "it loops");
    let report = RecipientReport {
        recipient: &original.envelope.recipients[1],
        outcome: DsnOutcome::Failed(&failure),
        last_attempt: None,
    };
    let question = ReportQuestion {
        original: &original,
        report_id: MessageId::new(1, 0, 8),
        now: NOW,
        config: &config,
        recipients: &[(1, report)],
        content: &content,
    };
    let made = super::report::report(&question).unwrap();
    assert_eq!(made.to, *original.envelope.reverse_path.as_ref().unwrap());
    let (_, envelope) = kept::read(&made.kept).unwrap();
    let envelope = ReportEnvelope::read(&envelope).unwrap();
    assert!(envelope.identifier.domain.to_string().contains("Ours"));
    let said = ReportContent::read(&made.content, &Limits::default()).unwrap();
    assert_eq!(&*said.subject.local, "v1");
    assert_eq!(said.returned_content.as_ref(), Some(&content), "it was wanted back");
    let [recipient] = &said.recipients[..] else { unreachable!("one is reported") };
    let expected = x400::mts::report::ReportType::Failed { reason: 1, diagnostic: Some(3) };
    assert_eq!((recipient.outcome, recipient.number), (expected, 3));
}

#[test]
fn who_has_no_route_is_redirected_to_the_alternate_unless_that_is_prohibited() {
    // The first recipient names the second as its alternate, which is in TestB, too: only OU or O tells them apart.
    let (event, _) = read_whole(EXTENSIONS, Limits::default()).unwrap();
    let ApduEvent::Envelope { envelope: Ok(envelope), .. } = event else { unreachable!() };
    let mut envelope = *envelope;
    let alternate = envelope.recipients[0].extensions.alternate_recipient().unwrap().unwrap();
    envelope.recipients[0].name.address.prmd = Some("Nowhere".into());
    let config = config("\"/PRMD=TestB/C=GB/\"");
    let x400 = config.of::<X400>().unwrap();
    let terms = AcceptanceContext { x400, config: &config, recipients_max: 100, now: NOW };
    let accepted = acceptance::of_transfer(&envelope, &envelope.encode(), &terms);
    assert_eq!(
        refused(&accepted),
        [(0, "5.1.1".to_owned()), (1, "5.1.1".to_owned())],
        "prohibited"
    );
    let prohibited = x400::mts::extension::number::RECIPIENT_REASSIGNMENT_PROHIBITED;
    let kind = x400::mts::ExtensionKind::Standard(prohibited);
    envelope.extensions.0.retain(|extension| extension.kind != kind);
    envelope.trace.pop();
    let accepted = acceptance::of_transfer(&envelope, &envelope.encode(), &terms);
    assert_eq!(refused(&accepted), [(1, "5.1.1".to_owned())]);
    let redirected = super::names::mailbox(&alternate).unwrap();
    assert!(accepted.envelope.recipients[0].mailbox.is_same(&redirected));
    let sent =
        departure(&message(accepted, Bytes::from_static(b"x")), &[0], x400, X400Mode::Normal)
            .unwrap();
    let apdu = [&sent.prefix[..], b"x"].concat();
    let (event, _) = read_whole(&apdu, Limits::default()).unwrap();
    let ApduEvent::Envelope { envelope: Ok(envelope), .. } = event else { unreachable!() };
    let history = envelope.recipients[0].extensions.redirection_history().unwrap();
    assert_eq!(history.len(), 2, "one that it had, and ours");
    let ours = envelope.trace.last().unwrap();
    assert!(ours.supplied.other_actions.has(other_action::REDIRECTED));
}

/// An MTA of 1984 drops no internal trace, for it gets none: only external trace counts how often a message was here.
#[test]
fn a_loop_with_an_mta_of_1984_in_our_domain_ends() {
    let config = everything();
    let x400 = config.of::<X400>().unwrap();
    let (mut accepted, mut content) = accept(NOT_CRITICAL, &config, 100);
    let mut rounds = 0;
    while refused(&accepted).is_empty() {
        rounds += 1;
        assert!(rounds < 100, "it would go on for ever");
        let sent = departure(&message(accepted, content.clone()), &[0], x400, X400Mode::X4101984);
        let apdu = [&sent.unwrap().prefix[..], &content].concat();
        (accepted, content) = accept(&apdu, &config, 100);
    }
    assert_eq!(refused(&accepted), [(0, "5.4.6".to_owned())]);
    assert!(rounds > 40, "{rounds}: some MTAs write an element for each recipient");
}

#[test]
fn an_mta_of_1984_gets_no_extension_and_what_it_can_not_have_is_refused() {
    let config = everything();
    let x400 = config.of::<X400>().unwrap();
    let (accepted, content) = accept(NOT_CRITICAL, &config, 100);
    let sent = departure(&message(accepted, content.clone()), &[0], x400, X400Mode::X4101984);
    let apdu = [&sent.unwrap().prefix[..], &content].concat();
    let (event, again) = read_whole(&apdu, Limits::default()).unwrap();
    assert_eq!(again, content);
    let ApduEvent::Envelope { envelope: Ok(envelope), .. } = event else { unreachable!() };
    assert!(envelope.extensions.0.is_empty());
    assert!(envelope.recipients.iter().all(|recipient| recipient.extensions.0.is_empty()));
    assert!(envelope.trace.last().unwrap().domain.to_string().contains("Ours"));
    // One of 1988 alone, and one that another MTA answers for, too.
    let (event, content) = read_whole(NOT_CRITICAL, Limits::default()).unwrap();
    let ApduEvent::Envelope { envelope: Ok(envelope), .. } = event else { unreachable!() };
    let mut envelope = *envelope;
    let mut bad = envelope.recipients[0].clone();
    bad.name.address.organization =
        x400::or_name::Value { printable: None, teletex: Some(Bytes::from_static(b"Beta")) };
    let request = bad.indicators.user_request();
    let mut others = bad.clone();
    others.indicators = x400::mts::RecipientIndicators::new(false, request);
    envelope.recipients.splice(0..0, [others, bad]);
    (1..).zip(&mut envelope.recipients).for_each(|(number, one)| one.number = number);
    let terms = AcceptanceContext { x400, config: &config, recipients_max: 100, now: NOW };
    let accepted = acceptance::of_transfer(&envelope, &envelope.encode(), &terms);
    let sent = departure(&message(accepted, content.clone()), &[0, 1], x400, X400Mode::X4101984);
    let sent = sent.unwrap();
    let statuses: Vec<_> =
        sent.refused.iter().map(|(index, why)| (*index, why.status.to_string())).collect();
    assert_eq!(statuses, [(0, "5.6.5".to_owned())]);
    let (event, _) = read_whole(&[&sent.prefix[..], &content].concat(), Limits::default()).unwrap();
    let ApduEvent::Envelope { envelope: Ok(envelope), .. } = event else { unreachable!() };
    assert_eq!(envelope.recipients.iter().map(|one| one.number).collect::<Vec<_>>(), [3]);
    // Reassignment prohibited is critical.
    let (accepted, content) = accept(EXTENSIONS, &config, 100);
    let sent = departure(&message(accepted, content), &[0], x400, X400Mode::X4101984);
    assert_eq!(sent.unwrap_err().status.to_string(), "5.6.5");

    let (accepted, content) = accept(REPORT, &config, 100);
    let report = message(accepted, content.clone());
    assert!(super::departure::is_report(&report));
    let sent = super::departure::report_to_1984(&report.original(), &content, x400).unwrap();
    let ApduContent::Made(content) = sent.content else { unreachable!("it is made anew") };
    let apdu = [&sent.prefix[..], &content].concat();
    let (event, content) = read_whole(&apdu, Limits::default()).unwrap();
    let ApduEvent::Report { envelope: Ok(envelope), .. } = event else { unreachable!() };
    assert!(envelope.extensions.0.is_empty());
    let said = ReportContent::read(&content, &Limits::default()).unwrap();
    assert!(said.extensions.0.is_empty() && !said.recipients.is_empty());
}

#[test]
fn what_an_operator_has_moved_leaves_as_rerouted() {
    let config = everything();
    let x400 = config.of::<X400>().unwrap();
    for (route, action) in [(None, RoutingAction::Relayed), (Some("far"), RoutingAction::Rerouted)]
    {
        let (accepted, content) = accept(NOT_CRITICAL, &config, 100);
        let mut original = message(accepted, content.clone());
        let mut overrides = Overrides::default();
        overrides.route = route.map(ToOwned::to_owned);
        original.overrides = Some(Box::new(overrides));
        let sent = departure(&original, &[0], x400, X400Mode::Normal).unwrap();
        let (event, _) =
            read_whole(&[&sent.prefix[..], &content].concat(), Limits::default()).unwrap();
        let ApduEvent::Envelope { envelope: Ok(envelope), .. } = event else { unreachable!() };
        let last = envelope.trace.last().unwrap();
        assert_eq!(last.supplied.action, action, "{route:?}");
        let internal = envelope.internal_trace();
        assert_eq!(internal.last().unwrap().supplied.action, action, "{route:?}");
    }
}

#[test]
fn who_probes_is_told_that_nobody_was_asked() {
    let config = everything();
    let (accepted, _) = accept(PROBE, &config, 100);
    let original = message(accepted, Bytes::new());
    let report = RecipientReport {
        recipient: &original.envelope.recipients[0],
        outcome: DsnOutcome::Delivered(Success::default()),
        last_attempt: None,
    };
    let question = ReportQuestion {
        original: &original,
        report_id: MessageId::new(1, 0, 8),
        now: NOW,
        config: &config,
        recipients: &[(0, report)],
        content: &[],
    };
    let made = super::report::report(&question).unwrap();
    let said = ReportContent::read(&made.content, &Limits::default()).unwrap();
    let text = said.recipients[0].supplementary.as_deref().unwrap();
    assert!(text.contains("No MTA beyond this one was queried"), "{text}");
    // X.411, SupplementaryInformation: a PrintableString of 256 characters.
    assert!(
        text.len() <= 256 && text.chars().all(|c| c.is_ascii_alphanumeric() || " .".contains(c))
    );
}

#[test]
fn an_operator_sees_identifier_kind_and_content_type() {
    let config = everything();
    for (apdu, kind, has_type) in
        [(EXTENSIONS, "message", true), (PROBE, "probe", true), (REPORT, "report", false)]
    {
        let (accepted, content) = accept(apdu, &config, 100);
        let fields = super::departure::describe(&message(accepted, content));
        let value =
            |name: &str| fields.iter().find(|(known, _)| &**known == name).map(|(_, v)| &**v);
        assert_eq!(value("X400-APDU"), Some(kind));
        assert!(value("X400-MTS-Identifier").is_some_and(|text| text.starts_with("[/")), "{kind}");
        assert_eq!(value("X400-Content-Type").is_some(), has_type, "{kind}");
    }
    let mut internet = message(accept(PROBE, &config, 9).0, Bytes::new());
    internet.meta = Meta::default();
    assert!(super::departure::describe(&internet).is_empty());
}
