use super::*;
use crate::mta_sts;
use crate::tlsa::Tlsa;
use mail::Wall;
use proptest::prelude::*;
use serde_json::{Value, json};

/// 2016-04-01, as in the RFC.
const DAY: u64 = 1_459_468_800_000;

fn shown(records: &[&str]) -> Vec<String> {
    let shown = |destination: Destination| match destination {
        Destination::Mailbox(mailbox) => mailbox.as_str().to_owned(),
        Destination::Web(address) => address.to_string(),
    };
    destinations(records).into_iter().map(shown).collect()
}

#[test]
fn records_of_the_rfc_are_understood() {
    assert_eq!(record_name("example.com"), "_smtp._tls.example.com");
    for (records, expected) in [
        (&["v=TLSRPTv1;rua=mailto:reports@example.com"][..], &["reports@example.com"][..]),
        (
            &["v=TLSRPTv1; rua=https://reporting.example.com/v1/tlsrpt"],
            &["https://reporting.example.com:443/v1/tlsrpt"],
        ),
        (
            &[
                "v=TLSRPTv1 ;\trua=mailto:a%2Bb@c.test , HTTPS://R.Example.Com:8443?x=%2c ; other=1;",
            ],
            &["a+b@c.test", "https://r.example.com:8443/?x=%2c"],
        ),
        // What begins otherwise is no such record; of `rua` the first counts.
        (&["v=spf1 -all", "v=TLSRPTv1;rua=mailto:a@b.test;rua=mailto:c@d.test"], &["a@b.test"]),
        (&["v=TLSRPTv1;x=y;rua=mailto:a@b.test?cc=c@d.test,mailto:a@B.test"], &["a@b.test"]),
        (&["v=TLSRPTv1;rua=http://x.test/,ftp://x.test,mailto:a@b.test"], &["a@b.test"]),
    ] {
        assert_eq!(shown(records), expected, "{records:?}");
    }
}

#[test]
fn what_is_no_record_or_one_of_several_leads_nowhere() {
    for records in [
        &[][..],
        &["v=TLSRPTv1"],
        &["v=TLSRPTv1;"],
        &["v=TLSRPTv1;rua="],
        &["v=TLSRPTv1;x=mailto:a@b.test"],
        &["v=TLSRPTv2;rua=mailto:a@b.test"],
        &["V=TLSRPTv1;rua=mailto:a@b.test"],
        &[" v=TLSRPTv1;rua=mailto:a@b.test"],
        &["rua=mailto:a@b.test;v=TLSRPTv1"],
        &["v=TLSRPTv1;rua=mailto:a@b.test", "v=TLSRPTv1;rua=mailto:a@b.test"],
        &["v=TLSRPTv1;rua=http://reports.test/"],
        &["v=TLSRPTv1;rua=mailto:a@[127.0.0.1]"],
        &["v=TLSRPTv1;rua=mailto:a%0d%0aBcc:b@c.test"],
        &["v=TLSRPTv1;rua=mailto:a%4@c.test"],
        &["v=TLSRPTv1;rua=https://"],
        &["v=TLSRPTv1;rua=https://localhost/"],
        &["v=TLSRPTv1;rua=https://127.0.0.1/"],
        &["v=TLSRPTv1;rua=https://127.1/"],
        &["v=TLSRPTv1;rua=https://[::1]/"],
        &["v=TLSRPTv1;rua=https://user@reports.test/"],
        &["v=TLSRPTv1;rua=https://reports.test:0/"],
        &["v=TLSRPTv1;rua=https://reports.test:65536/"],
        &["v=TLSRPTv1;rua=https://reports.test:+443/"],
        &["v=TLSRPTv1;rua=https:/reports.test/"],
        &["v=TLSRPTv1;rua=https://reports.test/a b"],
        &["v=TLSRPTv1;rua=https://reports.test/\"<x>"],
    ] {
        assert_eq!(shown(records), [""; 0], "{records:?}");
    }
    assert!(destinations(&[b"v=TLSRPTv1;rua=mailto:a@b.test;x=\xff"]).is_empty());
}

#[test]
fn records_and_uris_have_limits() {
    let head = "v=TLSRPTv1";
    let of = |length: usize| {
        let fields = ";rua=mailto:a@b.test;x=".to_owned();
        let filler = "y".repeat(length - head.len() - fields.len());
        shown(&[&format!("{head}{fields}{filler}")]).len()
    };
    assert_eq!((of(RECORD_BYTES_MAX), of(RECORD_BYTES_MAX + 1)), (1, 0));
    let web = |length: usize| {
        let start = "https://r.test/";
        let uri = format!("{start}{}", "z".repeat(length - start.len()));
        shown(&[&format!("{head};rua={uri}")]).len()
    };
    assert_eq!((web(URI_BYTES_MAX), web(URI_BYTES_MAX + 1)), (1, 0));
    let many = |count: usize| {
        let all: Vec<String> = (0..count).map(|n| format!("mailto:a{n}@b.test")).collect();
        shown(&[&format!("{head};rua={}", all.join(","))]).len()
    };
    let counts = [DESTINATIONS_MAX - 1, DESTINATIONS_MAX, DESTINATIONS_MAX + 1].map(many);
    assert_eq!(counts, [DESTINATIONS_MAX - 1, DESTINATIONS_MAX, DESTINATIONS_MAX]);
}

fn sts() -> Policy {
    let text = "version: STSv1\nmode: testing\nmx: *.mail.company-y.example\nmax_age: 86400\n";
    Policy::sts(Some(&mta_sts::Policy::parse(text.as_bytes()).unwrap()))
}

fn session(policy: Policy, failure: Option<Details>) -> TlsSession {
    TlsSession { domain: "company-y.example".into(), policy, failure }
}

fn failed(result_type: ResultType, host: &str) -> Details {
    Details { receiving_mx_hostname: Some(host.into()), ..Details::new(result_type) }
}

/// The report of the RFC's appendix B, with a third failure.
fn expected() -> Value {
    json!({
        "organization-name": "Company-X",
        "date-range": {
            "start-datetime": "2016-04-01T00:00:00Z",
            "end-datetime": "2016-04-01T23:59:59Z"
        },
        "contact-info": "sts-reporting@company-x.example",
        "report-id": "5065427c-23d3-47ca-b6e0-946ea0e8c4be",
        "policies": [{
            "policy": {
                "policy-type": "sts",
                "policy-string": [
                    "version: STSv1", "mode: testing", "mx: *.mail.company-y.example",
                    "max_age: 86400"
                ],
                "policy-domain": "company-y.example",
                "mx-host": ["*.mail.company-y.example"]
            },
            "summary": {
                "total-successful-session-count": 5326,
                "total-failure-session-count": 303
            },
            "failure-details": [{
                "result-type": "certificate-expired",
                "sending-mta-ip": "2001:db8:abcd:12::1",
                "receiving-mx-hostname": "mx1.mail.company-y.example",
                "failed-session-count": 100
            }, {
                "result-type": "starttls-not-supported",
                "sending-mta-ip": "2001:db8:abcd:13::1",
                "receiving-mx-hostname": "mx2.mail.company-y.example",
                "receiving-ip": "203.0.113.56",
                "failed-session-count": 200
            }, {
                "result-type": "validation-failure",
                "receiving-mx-hostname": "mx3",
                "receiving-mx-helo": "mx?",
                "failure-reason-code": "X?509",
                "failed-session-count": 3
            }]
        }]
    })
}

#[test]
fn a_report_has_the_shape_of_the_rfcs_example() {
    let mut counts = Counts::default();
    let expired = Details {
        sending_mta_ip: Some("2001:db8:abcd:12::1".parse().unwrap()),
        ..failed(ResultType::CertificateExpired, "mx1.mail.company-y.example")
    };
    let refused = Details {
        sending_mta_ip: Some("2001:db8:abcd:13::1".parse().unwrap()),
        receiving_ip: Some("203.0.113.56".parse().unwrap()),
        ..failed(ResultType::StarttlsNotSupported, "mx2.mail.company-y.example")
    };
    let other =
        failed(ResultType::ValidationFailure, "mx3").because("X\u{7}509").said_by("mx\u{e9}");
    for (failure, count) in
        [(None, 5_326), (Some(expired), 100), (Some(refused), 200), (Some(other), 3)]
    {
        for _ in 0..count {
            assert_ne!(counts.add(&session(sts(), failure.clone()), 10_000), Added::Nothing);
        }
    }
    let report = TlsReport {
        organization: "Company-X",
        contact: "sts-reporting@company-x.example",
        id: "5065427c-23d3-47ca-b6e0-946ea0e8c4be",
        range: (Wall(DAY), Wall(DAY + 86_399_000)),
        domain: "company-y.example",
        counts: &counts,
    };
    assert_eq!(serde_json::from_slice::<Value>(&report.json()).unwrap(), expected());
    // What is kept is what was counted.
    let kept = serde_json::to_string(&counts).unwrap();
    assert_eq!(serde_json::from_str::<Counts>(&kept).unwrap(), counts);
    assert_eq!(counts.sessions(), (5_326, 303));
}

#[test]
fn result_types_have_their_registered_names() {
    for (result, name) in [
        (ResultType::StarttlsNotSupported, "starttls-not-supported"),
        (ResultType::CertificateHostMismatch, "certificate-host-mismatch"),
        (ResultType::CertificateExpired, "certificate-expired"),
        (ResultType::CertificateNotTrusted, "certificate-not-trusted"),
        (ResultType::ValidationFailure, "validation-failure"),
        (ResultType::TlsaInvalid, "tlsa-invalid"),
        (ResultType::DnssecInvalid, "dnssec-invalid"),
        (ResultType::DaneRequired, "dane-required"),
        (ResultType::StsPolicyFetchError, "sts-policy-fetch-error"),
        (ResultType::StsPolicyInvalid, "sts-policy-invalid"),
        (ResultType::StsWebpkiInvalid, "sts-webpki-invalid"),
    ] {
        assert_eq!(serde_json::to_value(result).unwrap(), name);
    }
}

#[test]
fn policies_say_what_they_are_made_of() {
    let record = |data: Box<[u8]>| Tlsa { usage: 3, selector: 1, matching: 1, data };
    let told = |policy: &Policy| serde_json::to_value(policy).unwrap();
    assert_eq!(
        told(&Policy::tlsa("mx.a.test", &[record([0xab; 2].into())])),
        json!({"policy-type": "tlsa", "policy-string": ["3 1 1 abab"], "mx-host": ["mx.a.test"]})
    );
    assert_eq!(told(&Policy::none()), json!({"policy-type": "no-policy-found"}));
    assert_eq!(told(&Policy::sts(None)), json!({"policy-type": "sts"}));
    // A text is there whole or not at all.
    let of = |bytes: usize| record(vec![1; bytes].into());
    let fits = (POLICY_BYTES_MAX - "3 1 1 ".len()) / 2;
    let strings = |policy: Policy| told(&policy)["policy-string"].as_array().map_or(0, Vec::len);
    assert_eq!(strings(Policy::tlsa("mx", &[of(fits)])), 1);
    assert_eq!(strings(Policy::tlsa("mx", &[of(fits + 1), of(32)])), 1);
}

#[test]
fn no_more_is_counted_than_so_much() {
    let mut counts = Counts::default();
    let room = usize::MAX;
    for n in 0..POLICIES_MAX {
        let policy = Policy::tlsa(&format!("mx{n}.test"), &[]);
        assert!(matches!(counts.add(&session(policy, None), room), Added::Whole(_)));
    }
    assert_eq!(counts.add(&session(sts(), None), room), Added::Nothing);
    let known = || Policy::tlsa("mx0.test", &[]);
    let fails = |n: usize| Some(failed(ResultType::TlsaInvalid, &format!("h{n}")));
    for n in 0..DETAILS_MAX {
        assert!(matches!(counts.add(&session(known(), fails(n)), room), Added::Whole(_)));
    }
    assert_eq!(counts.add(&session(known(), fails(DETAILS_MAX)), room), Added::InPart);
    assert_eq!(counts.add(&session(known(), fails(0)), 0), Added::Whole(0));
    let sum = POLICIES_MAX as u64;
    assert_eq!(counts.sessions(), (sum, DETAILS_MAX as u64 + 2));
    // Where there is no room, what is there already is counted on.
    let mut counts = Counts::default();
    assert_eq!(counts.add(&session(known(), None), 0), Added::Nothing);
    let Added::Whole(bytes) = counts.add(&session(known(), None), 1_000) else { panic!() };
    assert_eq!(bytes, counts.bytes());
    assert_eq!(counts.add(&session(known(), fails(1)), 10), Added::InPart);
    assert_eq!(counts.sessions(), (1, 1));
    let Added::Whole(more) = counts.add(&session(known(), fails(1)), 1_000) else { panic!() };
    assert_eq!(bytes + more, counts.bytes());
}

#[test]
fn what_a_host_says_is_cut_and_printable() {
    let said =
        Details::new(ResultType::ValidationFailure).because(&"\u{e9}".repeat(VALUE_BYTES_MAX));
    let reason = said.failure_reason_code.unwrap();
    assert_eq!(&*reason, "?".repeat(VALUE_BYTES_MAX / 2));
    assert_eq!(Details::new(ResultType::ValidationFailure).because("").failure_reason_code, None);
}

proptest! {
    #[test]
    fn nothing_that_a_domain_publishes_is_too_odd(
        rest in proptest::collection::vec(any::<u8>(), 0..300),
        uri in "(mailto|https)(:|://)[ -~]{0,40}",
    ) {
        let _ = destinations(&[&rest]);
        let record = format!("v=TLSRPTv1;rua={uri}");
        for destination in destinations(&[record]) {
            match destination {
                Destination::Mailbox(to) => prop_assert!(!to.as_str().contains(char::is_control)),
                Destination::Web(to) => {
                    prop_assert!(to.port > 0 && to.path.starts_with('/'));
                    prop_assert!(to.path.bytes().all(|byte| byte.is_ascii_graphic()));
                }
            }
        }
    }
}
