//! Reports that are made: who is told what.

use crate::{file, message};
use bytes::Bytes;
use x400::mts::extension::{Extension, NameAndTime, number};
use x400::mts::recipient::ReportRequest;
use x400::mts::report::{ReportType, report_prefix};
use x400::mts::{
    GlobalDomain, Limits, RecipientIndicators, ReportContent, TransferEnvelope, UtcTime,
};
use x400::or_name::OrAddress;
use x400::reasons::Cause;
use x400::report::{
    RETURNED_BYTES_MAX, ReportedOutcome, Reporter, SUPPLEMENTARY_CHARS_MAX, Subject, report,
};

fn made(
    envelope: &TransferEnvelope,
    verdicts: &[ReportedOutcome<'_>],
    content: Option<&Bytes>,
) -> Option<(x400::mts::ReportEnvelope, ReportContent)> {
    let domain = GlobalDomain { country: "GB".into(), admd: " ".into(), prmd: Some("Ours".into()) };
    let now = UtcTime::parse(b"261125080000Z").expect("a time");
    let reporter = Reporter { domain: &domain, mta: "relay", local_id: "r-1", now };
    let made = report(&Subject::from(envelope), &reporter, verdicts, content)?;
    // What is made is what a peer reads.
    let content = made.1.encode();
    let apdu = [report_prefix(&made.0.encode(), content.len() as u64), content].concat();
    let (envelope, _, content) = crate::report(&apdu);
    assert_eq!((&envelope, &content), (&made.0, &made.1));
    Some((envelope, content))
}

fn failed(cause: Cause) -> ReportType {
    ReportType::failed(cause.non_delivery())
}

#[test]
fn only_what_was_asked_for() {
    let (mut envelope, ..) = message(&file("py_message"));
    let delivered = ReportType::Delivered { time: mail::Wall(1_795_000_000_000).into(), user: 0 };
    for (request, of_failure, of_delivery) in [
        (ReportRequest::None, false, false),
        (ReportRequest::NonDelivery, true, false),
        (ReportRequest::Both, true, true),
        (ReportRequest::Audited, true, true),
    ] {
        envelope.recipients[0].indicators = RecipientIndicators::new(true, request);
        for (outcome, wanted) in [(failed(Cause::Loop), of_failure), (delivered, of_delivery)] {
            let verdict = ReportedOutcome {
                recipient: &envelope.recipients[0],
                outcome,
                supplementary: None,
            };
            assert_eq!(
                made(&envelope, &[verdict], None).is_some(),
                wanted,
                "{request:?} {outcome:?}"
            );
        }
    }
    assert!(made(&envelope, &[], None).is_none());
}

#[test]
fn both_kinds_in_one_with_what_the_originator_knows_it_by() {
    let (envelope, _, content) = message(&file("message_extensions"));
    let time = UtcTime::parse(b"261125075959Z").expect("a time");
    let verdicts = [
        ReportedOutcome {
            recipient: &envelope.recipients[0],
            outcome: failed(Cause::UnknownName),
            supplementary: Some("550 5.1.1 <bob_x>: \"no\" such user;\r\n\u{e9}"),
        },
        ReportedOutcome {
            recipient: &envelope.recipients[2],
            outcome: ReportType::Delivered { time, user: 2 },
            supplementary: None,
        },
    ];
    let (report, says) = made(&envelope, &verdicts, Some(&content)).expect("a report");
    assert_eq!(report.destination, envelope.originator);
    assert_eq!(report.identifier.to_string(), "[/PRMD=Ours/ADMD= /C=GB/;r-1]");
    assert_eq!(says.subject, envelope.identifier);
    assert_eq!(says.subject_trace, envelope.trace);
    assert_eq!(says.returned_content, Some(content));
    assert_eq!(says.content_identifier, envelope.content_identifier);
    assert_eq!(
        says.extensions.content_correlator().expect("readable").as_deref(),
        Some(&b"Subject: Vectors"[..])
    );
    assert_eq!(report.extensions.internal_trace().expect("readable")[0].mta, "relay".into());
    assert!(report.extensions.standard(number::REPORTING_MTA_NAME).is_some());
    let [bob, mail] = &says.recipients[..] else { panic!("two recipients") };
    assert_eq!(bob.outcome, ReportType::Failed { reason: 1, diagnostic: Some(0) });
    assert_eq!(bob.supplementary.as_deref(), Some("550 5.1.1 'bob x': 'no' such user,  ?"));
    // It was redirected before it came here.
    assert_eq!(bob.intended.as_ref(), Some(&envelope.recipients[2].name));
    assert_eq!((bob.number, mail.number), (1, 3));
    assert_eq!(mail.outcome, ReportType::Delivered { time, user: 2 });
}

#[test]
fn content_comes_back_only_with_failures_and_when_it_is_wanted() {
    let (mut envelope, _, content) = message(&file("message_extensions"));
    envelope.recipients[0].indicators = RecipientIndicators::new(true, ReportRequest::Both);
    let returned = |envelope: &TransferEnvelope, outcome, content: &Bytes| {
        let verdict =
            ReportedOutcome { recipient: &envelope.recipients[0], outcome, supplementary: None };
        made(envelope, &[verdict], Some(content)).expect("a report").1.returned_content.is_some()
    };
    let delivered = ReportType::Delivered { time: mail::Wall(1_795_000_000_000).into(), user: 0 };
    assert!(returned(&envelope, failed(Cause::Loop), &content));
    assert!(!returned(&envelope, delivered, &content));
    assert!(returned(&envelope, failed(Cause::Loop), &Bytes::from(vec![0; RETURNED_BYTES_MAX])));
    assert!(!returned(
        &envelope,
        failed(Cause::Loop),
        &Bytes::from(vec![0; RETURNED_BYTES_MAX + 1])
    ));
    envelope.indicators = x400::mts::Flags::default();
    assert!(!returned(&envelope, failed(Cause::Loop), &content));
}

#[test]
fn a_list_is_told_in_the_place_of_the_originator() {
    let (mut envelope, ..) = message(&file("py_message"));
    let list = |text: &str| NameAndTime {
        name: OrAddress::parse(text).expect("an address").into(),
        time: UtcTime::parse(b"261125070000Z").expect("a time"),
    };
    let lists = [list("/CN=outer/C=GB/"), list("/CN=inner/C=GB/")];
    envelope.extensions.set(Extension::history(number::DL_EXPANSION_HISTORY, &lists));
    let long = "x".repeat(SUPPLEMENTARY_CHARS_MAX + 1);
    let verdict = ReportedOutcome {
        recipient: &envelope.recipients[0],
        outcome: failed(Cause::RestrictedDelivery),
        supplementary: Some(&long),
    };
    let (report, says) = made(&envelope, &[verdict], None).expect("a report");
    assert_eq!(report.destination, lists[1].name);
    let history = report.extensions.originator_and_dl_history().expect("readable");
    assert_eq!(
        history.iter().map(|h| &h.name).collect::<Vec<_>>(),
        [&envelope.originator, &lists[0].name, &lists[1].name]
    );
    assert_eq!(
        says.recipients[0].supplementary.as_ref().map(|s| s.len()),
        Some(SUPPLEMENTARY_CHARS_MAX)
    );
    assert_eq!(says.recipients[0].outcome, ReportType::Failed { reason: 5, diagnostic: None });
}

#[test]
fn a_broken_envelope_is_reported_where_it_can_be() {
    let (envelope, ..) = message(&file("message_extensions"));
    let limits = Limits { recipients_max: 1, ..Limits::default() };
    let broken =
        TransferEnvelope::read(&envelope.encode(), envelope.kind, &limits).expect_err("too many");
    let subject = Subject::of_broken(&broken).expect("somebody to tell");
    assert_eq!(
        (&subject.identifier, &subject.originator),
        (&envelope.identifier, &envelope.originator)
    );
    assert_eq!(subject.content_type, Some(envelope.content_type));
    let nobody = x400::mts::Broken { originator: None, ..*broken };
    assert_eq!(Subject::of_broken(&nobody), None);
}
