//! What Postrider says on a connection, in words. That it is well-formed is part of every row: what is not can't be
//! put into words.

use x400::acse::Apdu;
use x400::mts::reader::read_whole;
use x400::mts::report::ReportType;
use x400::mts::{ApduEvent, EnvelopeKind, Limits, ReportContent};
use x400::presentation::{AbortPdu, RefusePdu};
use x400::rtse::{read_abort, read_abort_fields, read_refusal, read_refusal_fields};
use x400::session::Spdu;
use x400::testing::said::{Said, name, said};

/// All that these octets say.
pub(crate) fn words(octets: &[u8]) -> Vec<String> {
    let word = |said: &Said| {
        let why = match said {
            Said::Spdu(Spdu::Refuse(refuse)) => refusal(&refuse.user_data),
            Said::Spdu(Spdu::Abort { user_data, .. }) => abort(user_data),
            Said::Tpdu(_) | Said::Spdu(_) | Said::Data(_) => None,
        };
        match why {
            Some(why) => format!("{}: {why}", name(said)),
            None => name(said),
        }
    };
    said(octets).iter().map(word).collect()
}

fn refusal(user_data: &[u8]) -> Option<String> {
    let error = match RefusePdu::read(user_data).ok()? {
        RefusePdu::Normal { provider_reason: Some(reason), .. } => {
            return Some(format!("presentation provider's reason {reason}"));
        }
        RefusePdu::Normal { user_data, .. } => match Apdu::read(user_data?.value) {
            Ok(Apdu::Response(response)) => match response.user_information {
                Some(rtorj) => read_refusal(rtorj.value),
                None => return Some(format!("ACSE's diagnostic {}", response.diagnostic?.1)),
            },
            other => panic!("{other:?}"),
        },
        RefusePdu::X410(fields) => read_refusal_fields(fields),
    };
    match error.expect("RTORJ") {
        Some(error) => Some(format!("{error:?}")),
        None => Some("RTORJ without a reason".to_owned()),
    }
}

fn abort(user_data: &[u8]) -> Option<String> {
    let reason = match AbortPdu::read(user_data).ok()? {
        AbortPdu::Provider(reason) => {
            return Some(format!("presentation provider's reason {}", reason.unwrap_or(-1)));
        }
        AbortPdu::User(pdv) => match Apdu::read(pdv?.value) {
            Ok(Apdu::Abort { user_information: Some(rtab), .. }) => read_abort(rtab.value),
            Ok(Apdu::Abort { user_information: None, .. }) => return Some("ACSE".to_owned()),
            other => panic!("{other:?}"),
        },
        AbortPdu::X410(fields) => read_abort_fields(fields),
    };
    Some(format!("RTSE {:?}", reason.expect("RTAB")?))
}

/// What an APDU is that Postrider has sent.
pub(crate) fn apdu(octets: &[u8]) -> String {
    let (event, content) = read_whole(octets, Limits::default()).expect("an APDU");
    match event {
        ApduEvent::Envelope { envelope: Ok(envelope), .. } => match envelope.kind {
            EnvelopeKind::Message => {
                let ours = envelope.recipients.iter().filter(|r| r.indicators.is_responsible());
                format!("message of {} octets for {}", content.len(), ours.count())
            }
            EnvelopeKind::Probe => "probe".to_owned(),
        },
        ApduEvent::Report { envelope: Ok(_), .. } => {
            let Ok(report) = ReportContent::read(&content, &Limits::default()) else {
                return "report whose content makes no sense".to_owned();
            };
            let outcome = |outcome: &ReportType| match outcome {
                ReportType::Delivered { .. } => "delivered".to_owned(),
                ReportType::Failed { reason, diagnostic: Some(diagnostic) } => {
                    format!("{reason}/{diagnostic}")
                }
                ReportType::Failed { reason, diagnostic: None } => format!("{reason}/-"),
            };
            let mut recipients: Vec<String> =
                report.recipients.iter().map(|recipient| outcome(&recipient.outcome)).collect();
            let count = recipients.len();
            recipients.dedup();
            format!("report on {count}: {}", recipients.join(", "))
        }
        other => panic!("{other:?}"),
    }
}
