//! `docs/events.md` names every event, and every field of an event.

use super::*;
use crate::encryption::Encryption;
use crate::event::{AttemptTimes, Discarded, Suspension};
use crate::rate_limits::settings::{LimitBy, Maximum, Over, Unit};
use auth::{arc, dkim, dmarc, dnsbl, iprev, spf};
use std::collections::BTreeSet;

const TLS: Option<Encryption> =
    Some(Encryption { version: "TLSv1.3", cipher: "TLS_AES_128_GCM_SHA256" });

fn full_client() -> Arc<Client> {
    Arc::new(Client { tls: TLS, ..Client::clone(&client()) })
}

fn full_hop() -> Arc<Hop> {
    let (provider, source, tls_policy) = (Some("big".into()), Some("ip-1".into()), Some("dane"));
    Arc::new(Hop { provider, source, tls: TLS, tls_policy, ..Hop::clone(&hop()) })
}

fn received() -> Kind {
    let checked = AuthSummary {
        iprev: Some(iprev::IprevResult::Pass),
        spf: Some(spf::SpfResult::Pass),
        dkim: Some(dkim::DkimResult::Pass),
        dmarc: Some(dmarc::DmarcResult::Pass),
        arc: Some(arc::ArcResult::Pass),
        sealed: Some(arc::ArcResult::Pass),
        dnsbl: Some(dnsbl::DnsblResult::Listed),
    };
    Kind::Received {
        client: full_client(),
        checked,
        require_tls: RequireTls::Yes,
        signed: Some(Arc::new(vec!["s1._domainkey.one.example".into()])),
        headers: Some(Arc::new(vec![("Subject".into(), "one".into())])),
        given: None,
    }
}

fn refused() -> Kind {
    Kind::Refused(Box::new(Refusal {
        client: full_client(),
        step: "AUTH",
        sender: Some("a@x.example".into()),
        recipient: Some("b@y.example".into()),
        login: Some("jo".into()),
        mechanism: None,
        reply: Reply::new(535, (5, 7, 8), "No"),
        unlogged: 1,
    }))
}

fn from_source() -> SuspendedTarget {
    SuspendedTarget { next_hop: "smtp mx.example.net".into(), source: "ip-1".into() }
}

fn suspended(failure: &Arc<Failure>) -> Kind {
    Kind::Suspended(Box::new(Suspension {
        target: from_source(),
        step: 1,
        recipients: 3,
        failure: Some(Arc::clone(failure)),
        next_try: Wall(0),
    }))
}

fn limited() -> Kind {
    let rate = config::shaping::Rate::parse("200/h").unwrap();
    Kind::Limited(Box::new(LimitEvent {
        by: LimitBy::Login,
        value: "jo".into(),
        maximum: Maximum { unit: Unit::Messages, rate },
        over: Over::Defer,
        client: full_client(),
    }))
}

/// An event of each kind, with all fields.
fn one_of_each() -> Vec<Kind> {
    let reply = Some(Reply::new(250, (2, 0, 0), "Ok"));
    let times = AttemptTimes::default();
    let done = || Box::new(Done { hop: full_hop(), reply: reply.clone(), attempts: 1, times });
    let trouble = FailedAttempt { hop: Some(full_hop()), ..trouble() };
    let failed = || Box::new(trouble.clone());
    let failure = trouble.failure.as_ref().expect("it failed");
    let moved = Overrides::parse("ours\npool p\ncampaign c\npriority 5");
    let whom = || Some("x".to_owned());
    let all_shaped = || {
        let (next_hop, source, campaign) = (whom(), whom(), whom());
        Box::new(ShapingEvent { next_hop, source, campaign, ..shaped() })
    };
    vec![
        received(),
        Kind::Delivered(done()),
        Kind::Relayed(done()),
        Kind::Deferred(failed()),
        Kind::Failed(failed()),
        Kind::Expired(failed()),
        Kind::Delayed(failed()),
        Kind::Discarded(Box::new(Discarded { client: full_client(), reason: "rule".into() })),
        Kind::Held { reason: "spam?".into() },
        Kind::Released,
        Kind::Removed,
        Kind::Moved(Box::new(moved)),
        Kind::DsnQueued { dsn: MessageId(43), action: "failed" },
        Kind::DsnSuppressed { action: "failed", why: "off" },
        refused(),
        suspended(failure),
        Kind::Resumed { target: Box::new(from_source()), step: 1 },
        Kind::Shaped(all_shaped()),
        Kind::Unshaped(all_shaped(), "lifted"),
        Kind::Problem(Box::default()),
        Kind::ProblemCleared(Box::default()),
        limited(),
        Kind::Lost { count: 1, first: Some(Position::new(1, 6)) },
    ]
}

#[test]
fn every_event_and_field_is_documented() {
    let page = include_str!("../../../../../../docs/events.md");
    let rows = page.lines().skip_while(|line| !line.starts_with("## Events")).skip(1);
    let rows = rows.take_while(|line| !line.starts_with("## "));
    let documented = rows.filter_map(|row| row.strip_prefix("| `")?.split('`').next());
    let documented: Vec<&str> = documented.filter(|name| *name != "event").collect();
    assert_eq!(documented, Kind::NAMES);

    let (mut names, mut fields) = (Vec::new(), BTreeSet::new());
    for kind in one_of_each() {
        names.push(kind.name());
        let labels = Labels { pool: Some("p".into()), ..labels() };
        let mut event = event(kind, &[1]);
        event.message.as_mut().expect("has one").labels = Some(Box::new(labels));
        for line in lines(&event) {
            fields.extend(line.as_object().expect("an object").keys().cloned());
        }
    }
    assert_eq!(names, Kind::NAMES);
    let missing: Vec<_> = fields.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/events.md lacks {missing:?}");
    // Fields of a message, a client, a hop, a failure, a rule: all are present.
    assert!(fields.len() >= 60, "{} fields: {fields:?}", fields.len());
}
