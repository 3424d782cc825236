//! What goes on is what came, but for what this MTA did.

use crate::{file, message};
use x400::mts::envelope::message_prefix;
use x400::mts::extension::{Extension, NameAndTime, Redirection, RedirectionReason};
use x400::mts::relay::{EnvelopeRewrite, RecipientChange, relay, relay_report};
use x400::mts::trace::Supplied;
use x400::mts::{GlobalDomain, InternalTraceElement, TraceElement, UtcTime};
use x400::or_name::OrAddress;

fn domain() -> GlobalDomain {
    GlobalDomain { country: "GB".into(), admd: " ".into(), prmd: Some("Ours".into()) }
}

fn supplied() -> Supplied {
    let arrival = UtcTime::parse(b"261125080000Z").expect("a time");
    Supplied { arrival, ..Supplied::default() }
}

#[test]
fn without_changes_every_octet_stays() {
    for name in [
        "py_message",
        "py_message_shuf",
        "message_extensions",
        "message_unknown_noncritical",
        "probe",
    ] {
        let (_, octets, _) = message(&file(name));
        assert_eq!(relay(&octets, &EnvelopeRewrite::default()).expect(name), octets, "{name}");
    }
    // Only the lengths around what came are written anew.
    let (envelope, octets, _) = message(&file("pp_message"));
    let again = relay(&octets, &EnvelopeRewrite::default()).expect("an envelope");
    let (again, ..) = message(&[message_prefix(&again, 0)].concat());
    assert_eq!(again, envelope);
}

#[test]
fn a_visit_is_added_and_all_else_stays() {
    let trace = TraceElement { domain: domain(), supplied: supplied() };
    let internal =
        InternalTraceElement { domain: domain(), mta: "relay".into(), supplied: supplied() };
    for name in ["py_message", "pp_message", "message_extensions", "py_message_shuf", "probe"] {
        let (before, octets, _) = message(&file(name));
        let changes = EnvelopeRewrite {
            trace: Some(&trace),
            internal_trace: Some(&internal),
            ..EnvelopeRewrite::default()
        };
        let changed = relay(&octets, &changes).expect(name);
        let apdu = if name == "probe" { changed } else { message_prefix(&changed, 0) };
        let (mut after, ..) = message(&apdu);
        assert_eq!(after.trace.pop().as_ref(), Some(&trace), "{name}");
        let mut visits = after.internal_trace();
        assert_eq!(visits.pop().as_ref(), Some(&internal), "{name}");
        assert_eq!(visits, before.internal_trace(), "{name}");
        let others = |extensions: &x400::mts::Extensions| {
            let is_other = |e: &&Extension| e.kind != x400::mts::ExtensionKind::Standard(38);
            extensions.0.iter().filter(is_other).cloned().collect::<Vec<_>>()
        };
        assert_eq!(others(&after.extensions), others(&before.extensions), "{name}");
        after.extensions.clone_from(&before.extensions);
        assert_eq!(after, before, "{name}");
    }
}

#[test]
fn responsibility_moves_and_nothing_else_of_a_recipient_does() {
    let (before, octets, _) = message(&file("message_extensions"));
    let changes = [RecipientChange::Responsibility(false), RecipientChange::Responsibility(true)];
    let changed =
        relay(&octets, &EnvelopeRewrite { recipients: &changes, ..EnvelopeRewrite::default() })
            .expect("changed");
    assert_eq!(changed.len(), octets.len());
    let differ = changed.iter().zip(&octets).filter(|(a, b)| a != b).count();
    assert_eq!(differ, 2, "one octet for each of two recipients");
    let (after, ..) = message(&message_prefix(&changed, 0));
    let bits = |e: &x400::mts::TransferEnvelope| {
        e.recipients.iter().map(|r| r.indicators.is_responsible()).collect::<Vec<_>>()
    };
    assert_eq!((bits(&before), bits(&after)), (vec![true, false, true], vec![false, true, true]));
    // Another MTA's seven unused bits and zeros behind.
    let (_, octets, _) = message(&file("pp_message"));
    let changes = [RecipientChange::Responsibility(false)];
    let changed =
        relay(&octets, &EnvelopeRewrite { recipients: &changes, ..EnvelopeRewrite::default() })
            .expect("changed");
    let (after, ..) = message(&message_prefix(&changed, 0));
    assert!(!after.recipients[0].indicators.is_responsible());
}

#[test]
fn a_recipient_is_redirected_and_another_left_out() {
    let (before, octets, _) = message(&file("message_extensions"));
    let mut new = before.recipients[0].clone();
    let mut history = new.extensions.redirection_history().expect("readable");
    history.push(Redirection {
        intended: NameAndTime { name: new.name.clone(), time: supplied().arrival },
        reason: RedirectionReason::OriginatorRequested,
    });
    new.extensions.set(Extension::redirection_history(&history));
    new.name = OrAddress::parse("/CN=Duty/O=Beta/PRMD=TestB/C=GB/").expect("an address").into();
    let changes = [RecipientChange::Replace(Box::new(new.clone())), RecipientChange::Drop];
    let changed =
        relay(&octets, &EnvelopeRewrite { recipients: &changes, ..EnvelopeRewrite::default() })
            .expect("changed");
    let (after, ..) = message(&message_prefix(&changed, 0));
    assert_eq!(after.recipients, [new, before.recipients[2].clone()]);
    assert_eq!(after.recipients[0].extensions.redirection_history().expect("readable"), history);
    assert!(after.recipients[0].extensions.alternate_recipient().expect("readable").is_some());
}

#[test]
fn an_extension_is_replaced_in_its_place() {
    let (before, octets, _) = message(&file("message_extensions"));
    let new = [Extension::content_correlator("another"), Extension::history(26, &[])];
    let changed =
        relay(&octets, &EnvelopeRewrite { extensions: &new, ..EnvelopeRewrite::default() })
            .expect("changed");
    let (after, ..) = message(&message_prefix(&changed, 0));
    let place =
        |e: &x400::mts::TransferEnvelope| e.extensions.0.iter().position(|x| x.kind == new[0].kind);
    assert_eq!(place(&before), place(&after));
    assert_eq!(after.extensions.0.last(), Some(&new[1]));
    assert_eq!(after.extensions.0.len(), before.extensions.0.len() + 1);
}

#[test]
fn a_report_gets_its_visit_too() {
    let (before, octets, _) = crate::report(&file("report_delivery_and_nondelivery"));
    let trace = TraceElement { domain: domain(), supplied: supplied() };
    let internal =
        InternalTraceElement { domain: domain(), mta: "relay".into(), supplied: supplied() };
    let changes = EnvelopeRewrite {
        trace: Some(&trace),
        internal_trace: Some(&internal),
        ..EnvelopeRewrite::default()
    };
    let changed = relay_report(&octets, &changes).expect("changed");
    let after = x400::mts::ReportEnvelope::read(&changed).expect("an envelope");
    assert_eq!(after.trace.len(), before.trace.len() + 1);
    assert_eq!(after.extensions.internal_trace().expect("readable").len(), 2);
    assert_eq!(relay_report(&octets, &EnvelopeRewrite::default()).expect("same"), octets);
}
