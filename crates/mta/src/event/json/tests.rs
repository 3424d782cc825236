//! Every kind is valid JSON with the documented fields, whatever clients put into addresses.

mod page;

use super::*;
use crate::event::{AttemptTimes, Labels, Position, Recipients};
use mail::{Class, Culprit, Envelope, Mailbox, MessageId, Notify, Recipient, RequireTls};
use std::sync::Arc;

fn envelope(recipients: &[&str]) -> Arc<Envelope> {
    Arc::new(Envelope {
        reverse_path: Some(Mailbox::parse("a@sender.example", false).unwrap()),
        recipients: recipients
            .iter()
            .map(|r| Recipient {
                mailbox: Mailbox::parse(r, false).unwrap(),
                notify: Notify::UNSPECIFIED,
                orcpt: None,
            })
            .collect(),
        body: mail::BodyType::SevenBit,
        smtputf8: false,
        ret: None,
        envid: None,
    })
}

fn event(kind: Kind, recipients: &[u32]) -> Event {
    Event {
        at: Wall(1_795_255_872_345),
        message: Some(EventMessage {
            id: MessageId(42),
            position: Some(Position::new(1, 7)),
            envelope: Some(envelope(&["\"q\\\"uote\"@one.example", "b@two.example"])),
            received_at: Wall(1_795_255_872_000),
            body_bytes: 400,
            labels: Some(Box::new(labels())),
        }),
        recipients: Recipients::from_slice(recipients),
        kind,
    }
}

fn labels() -> Labels {
    let (tenant, campaign) = (Some("ac\"me".into()), Some("spring".into()));
    Labels { tenant, campaign, pool: None }
}

fn lines(event: &Event) -> Vec<serde_json::Value> {
    let mut out = Vec::new();
    write_lines(event, &mut out);
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn client() -> Arc<Client> {
    Arc::new(Client {
        address: "[::ffff:192.0.2.7]:4711".parse().unwrap(),
        proxy: Some("::ffff:10.0.0.2".parse().unwrap()),
        name: auth::iprev::IprevCheck::of_name("mail.example").into(),
        helo: "ev\u{1b}[2Jil\u{9b}\"\\".into(),
        listener: "relay".into(),
        protocol: "ESMTP",
        tls: None,
        certified: Some("jo@x.test".into()),
        login: Some("jo".into()),
        mechanism: None,
        uid: None,
    })
}

fn hop() -> Arc<Hop> {
    Arc::new(Hop {
        route: "example.net".into(),
        channel: "smtp",
        provider: None,
        source: None,
        peer: "mx.example.net[192.0.2.1]:25".into(),
        tls: None,
        tls_policy: None,
    })
}

#[test]
fn received_lists_all_recipients_on_one_line() {
    let checked = AuthSummary {
        spf: Some(auth::spf::SpfResult::SoftFail),
        dmarc: Some(auth::dmarc::DmarcResult::Pass),
        ..AuthSummary::default()
    };
    let require_tls = RequireTls::Yes;
    let signed: crate::event::Signed =
        Some(Arc::new(vec!["s1._domainkey.one.example".into(), "s2._domainkey.x.test".into()]));
    let headers: crate::event::Headers =
        Some(Arc::new(vec![("Subject".into(), "\"on\u{1b}e\"".into()), ("X".into(), "".into())]));
    let client = client();
    let given = None;
    let received = Kind::Received { client, checked, require_tls, signed, headers, given };
    let seen = lines(&event(received, &[]));
    assert_eq!(seen.len(), 1);
    let line = &seen[0];
    assert_eq!(line["time"], "2026-11-21T10:11:12.345Z");
    assert_eq!(line["event"], "received");
    assert_eq!(line["id"], "000000000000002a");
    assert_eq!((&line["log"], &line["sequence"]), (&1.into(), &7.into()));
    assert_eq!(line["recipients"][0], "\"q\\\"uote\"@one.example");
    assert_eq!(line["recipients"][1], "b@two.example");
    assert_eq!((&line["client"], &line["login"]), (&"192.0.2.7".into(), &"jo".into()));
    assert_eq!(
        (&line["proxy"], &line["client_name"]),
        (&"10.0.0.2".into(), &"mail.example".into())
    );
    assert_eq!(line["tls_client"], "jo@x.test");
    assert_eq!(line["helo"], "ev\u{1b}[2Jil\u{9b}\"\\");
    assert_eq!(line["size"], 400);
    assert_eq!((&line["tenant"], &line["campaign"]), (&"ac\"me".into(), &"spring".into()));
    assert_eq!(line.get("pool"), None);
    assert_eq!((&line["spf"], &line["dmarc"]), (&"softfail".into(), &"pass".into()));
    assert_eq!(line["require_tls"], "yes");
    assert_eq!(line["signed"][1], "s2._domainkey.x.test");
    assert_eq!(line["signed"].as_array().map(Vec::len), Some(2));
    assert_eq!(line["headers"], serde_json::json!({ "Subject": "\"on\u{1b}e\"", "X": "" }));
    assert!(line.get("delay_ms").is_none() && line.get("dkim").is_none());
}

#[test]
fn terminal_controls_never_reach_the_log_raw() {
    let mut out = Vec::new();
    write_lines(
        &event(
            Kind::Received {
                client: client(),
                checked: AuthSummary::default(),
                require_tls: RequireTls::Unsaid,
                signed: None,
                headers: None,
                given: None,
            },
            &[],
        ),
        &mut out,
    );
    let text = String::from_utf8(out).unwrap();
    assert!(!text.trim_end().chars().any(char::is_control), "{text:?}");
}

#[test]
fn each_recipient_gets_a_line_of_its_own() {
    let done = Done {
        hop: hop(),
        reply: Some(Reply::new(250, (2, 0, 0), "Ok:\nqueued \"x\"")),
        attempts: 2,
        times: AttemptTimes::default(),
    };
    let seen = lines(&event(Kind::Relayed(Box::new(done)), &[0, 1]));
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0]["recipient"], "\"q\\\"uote\"@one.example");
    assert_eq!(seen[1]["recipient"], "b@two.example");
    assert_eq!(seen[1]["recipient_index"], 1);
    assert_eq!(seen[1]["delay_ms"], 345);
    assert_eq!(seen[1]["reply"], "250 2.0.0 Ok: queued \"x\"");
    assert_eq!(seen[1]["status"], "2.0.0");
    assert_eq!(seen[1]["next_hop"], "mx.example.net[192.0.2.1]:25");
}

fn trouble() -> FailedAttempt {
    let failure = Failure {
        class: Class::Transient,
        culprit: Culprit::Peer("mx.example.net[192.0.2.1]:25".into()),
        status: EnhancedStatus::new(4, 2, 2),
        reply: Some(Reply::new(452, (4, 2, 2), "full")),
        heard: None,
        step: None,
        text: "in reply to RCPT TO".into(),
    };
    FailedAttempt {
        hop: Some(hop()),
        failure: Some(Arc::new(failure)),
        class: Some(::classes::ReplyClassification {
            class: ::classes::ReplyClass::MailboxFull,
            kind: ::classes::FailureKind::Soft,
            rule: None,
        }),
        attempts: 3,
        next_try: Some(Wall(0)),
        times: AttemptTimes::default(),
    }
}

#[test]
fn trouble_says_who_and_why() {
    let trouble = trouble();
    for (kind, name) in [
        (Kind::Deferred(Box::new(trouble.clone())), "deferred"),
        (Kind::Failed(Box::new(trouble.clone())), "failed"),
        (Kind::Expired(Box::new(trouble.clone())), "expired"),
        (Kind::Delayed(Box::new(trouble)), "delayed"),
    ] {
        let line = lines(&event(kind, &[1])).remove(0);
        assert_eq!(line["event"], name);
        assert_eq!(line["culprit"], "peer");
        assert_eq!(line["culprit_name"], "mx.example.net[192.0.2.1]:25");
        assert_eq!(line["status"], "4.2.2");
        assert_eq!(line["reply"], "452 4.2.2 full");
        assert_eq!(line["reason"], "in reply to RCPT TO");
        assert_eq!(line["class"], "mailbox_full");
        assert_eq!(line["kind"], "soft");
        assert_eq!(line["next_try"], "1970-01-01T00:00:00.000Z");
        assert_eq!(line["attempts"], 3);
    }
}

#[test]
fn a_reason_has_a_limit_and_ends_at_a_character() {
    let reason = |text: &str| {
        let line = lines(&event(Kind::Held { reason: text.into() }, &[])).remove(0);
        line["reason"].as_str().expect("text").to_owned()
    };
    let full = "x".repeat(REASON_BYTES_MAX);
    assert_eq!(reason(&full), full);
    let cut = format!("{} …", "x".repeat(REASON_BYTES_MAX - 4));
    assert_eq!(reason(&(full + "x")), cut);
    // Each has two octets; the cut must not split a character.
    let odd = format!("y{}", "ä".repeat(REASON_BYTES_MAX / 2));
    let cut = format!("y{} …", "ä".repeat(REASON_BYTES_MAX / 2 - 3));
    assert_eq!(reason(&odd), cut);
    assert_eq!(cut.len(), REASON_BYTES_MAX - 1);
}

#[test]
fn the_other_kinds_are_valid_too() {
    let line = lines(&event(Kind::Held { reason: "spam?".into() }, &[])).remove(0);
    assert_eq!((&line["event"], &line["reason"]), (&"held".into(), &"spam?".into()));
    let discarded = super::super::Discarded { client: client(), reason: "unread".into() };
    let line = lines(&event(Kind::Discarded(Box::new(discarded)), &[0])).remove(0);
    assert_eq!((&line["event"], &line["reason"]), (&"discarded".into(), &"unread".into()));
    assert_eq!((&line["recipient_index"], &line["client"]), (&0.into(), &"192.0.2.7".into()));
    assert_eq!(lines(&event(Kind::Released, &[]))[0]["event"], "released");
    assert_eq!(lines(&event(Kind::Removed, &[0]))[0]["event"], "removed");
    let moved = crate::overrides::Overrides::parse("ou\"t\npool \npriority -3");
    let line = lines(&event(Kind::Moved(Box::new(moved)), &[])).remove(0);
    let shown = ["event", "to_route", "to_pool"].map(|key| line[key].as_str().unwrap_or("?"));
    assert_eq!(shown, ["moved", "ou\"t", ""]);
    assert_eq!((&line["to_priority"], line.get("to_campaign")), (&(-3).into(), None));
    let dsn = Kind::DsnQueued { dsn: MessageId(43), action: "failed" };
    assert_eq!(lines(&event(dsn, &[0]))[0]["dsn"], "000000000000002b");
    let refusal = Refusal {
        client: client(),
        step: "RCPT",
        sender: Some("".into()),
        recipient: Some("x@y.example".into()),
        login: None,
        mechanism: None,
        reply: Reply::new(550, (5, 7, 1), "Relaying denied"),
        unlogged: 9,
    };
    let mut refused = event(Kind::Refused(Box::new(refusal)), &[]);
    refused.message = None;
    let line = lines(&refused).remove(0);
    assert_eq!((&line["event"], &line["step"]), (&"refused".into(), &"RCPT".into()));
    assert_eq!((&line["sender"], &line["unlogged"]), (&"".into(), &9.into()));
    assert!(line.get("id").is_none());
    let mut lost = event(Kind::Lost { count: 12, first: Some(Position::new(1, 6)) }, &[]);
    lost.message = None;
    let line = lines(&lost).remove(0);
    assert_eq!((&line["count"], &line["sequence"]), (&12.into(), &6.into()));
}

#[test]
fn a_recipient_that_is_not_in_the_envelope_still_has_its_number() {
    let line = lines(&event(Kind::Removed, &[99])).remove(0);
    assert_eq!(line["recipient_index"], 99);
    assert!(line.get("recipient").is_none());
}

fn shaped() -> ShapingEvent {
    ShapingEvent {
        rule: "slow".to_owned(),
        place: "a \"b\".toml:7".to_owned(),
        action: "suspend_tenant",
        provider: Some("big".to_owned()),
        next_hop: None,
        source: None,
        tenant: Some("ac\"me".to_owned()),
        campaign: None,
        step: 2,
        until: Wall(1_795_255_872_345),
        peer: "mx.big.test[192.0.2.1]:25".to_owned(),
        reply: "421 4.7.0 \u{1b}[2Jslow".to_owned(),
    }
}

#[test]
fn what_rules_do_is_told_with_whom_it_concerns_and_why() {
    let of = |kind| {
        let event = Event { at: Wall(0), message: None, recipients: Recipients::new(), kind };
        lines(&event).remove(0)
    };
    let began = of(Kind::Shaped(Box::new(shaped())));
    assert_eq!(
        began,
        serde_json::json!({
            "time": "1970-01-01T00:00:00.000Z", "event": "shaped", "rule": "slow",
            "place": "a \"b\".toml:7", "action": "suspend_tenant", "provider": "big",
            "tenant": "ac\"me", "step": 2, "until": "2026-11-21T10:11:12.345Z",
            "culprit_name": "mx.big.test[192.0.2.1]:25", "reply": "421 4.7.0 \u{1b}[2Jslow",
        })
    );
    let over = of(Kind::Unshaped(Box::new(shaped()), "lifted"));
    assert_eq!((&over["event"], &over["why"]), (&"unshaped".into(), &"lifted".into()));
}
