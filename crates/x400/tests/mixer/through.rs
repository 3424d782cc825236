//! Mail → X.400 → mail: what the RFCs keep is there again.

use crate::{World, mail_envelope, recipient};
use bytes::Bytes;
use mail::Notify;
use x400::content;
use x400::content::{BodyPart, Content, FileTransfer};
use x400::mixer::entity::{Entity, FIELDS_MAX};
use x400::mixer::to_x400::{priority_to_mail, priority_to_x400};
use x400::mixer::{
    CONTENT_BYTES_MAX, DEPTH_MAX, MailEnvelope, MailRecipient, Party, to_mail, to_x400,
};
use x400::mts::recipient::ReportRequest;
use x400::mts::{ContentType, Priority, message_indicator};
use x400::reasons::Cause;

/// Through two gateways: the message that comes out.
fn through(message: &str) -> (Vec<u8>, ContentType) {
    let world = World::new();
    let (envelope, content) = world.to_x400(message.as_bytes());
    let mail = to_mail(&world.here(), &envelope, &[0], &content).expect("converted back");
    assert_eq!(mail.originator.as_deref(), Some("alice@example.com"));
    assert_eq!(mail.recipients[0].address.as_deref(), Some("Bob@beta.example"));
    let longest = mail.message.split(|&b| b == b'\n').map(<[u8]>::len).max();
    assert!(longest.is_some_and(|bytes| bytes <= 999), "{longest:?}");
    (mail.message, envelope.content_type)
}

const HEADER: &str = "Received: from a.example by mx.beta.example with ESMTP id 1;\r\n\tWed, 25 Nov 2026 08:59:00 +0100\r\n\
Received: from pc by a.example with ESMTP id 0; Wed, 25 Nov 2026 08:58:59 +0100\r\n\
Date: Wed, 25 Nov 2026 08:58:58 +0100\r\n\
From: Alice Example <alice@example.com>\r\n\
To: \"Bob, the Builder\" <Bob@beta.example>, =?utf-8?q?J=C3=BCrgen?= <j@example.net>\r\n\
Cc: Carol <carol@example.org>\r\n\
Reply-To: replies@example.com\r\n\
Message-ID: <odd(1)_x$y@example.com>\r\n\
In-Reply-To: <first@example.org>\r\n\
References: <zero@example.org> <first@example.org>\r\n\
Subject: =?utf-8?q?K=C3=A4se_und?= more\r\n\
Importance: high\r\n\
Sensitivity: Private\r\n\
Expires: Thu, 24 Dec 2026 00:00:00 +0100\r\n\
Content-Language: en, de\r\n\
Keywords: one, two\r\n\
X-Mailer: a program; with (all) sorts \"of\" things\r\n\
List-Id: <list.example.com>\r\n";

#[test]
fn a_header() {
    let (message, content_type) = through(&format!("{HEADER}\r\nHello\r\n"));
    assert_eq!(content_type, ContentType::P22);
    let before = Entity::parse(HEADER.as_bytes());
    let after = Entity::parse(&message);
    for name in [
        "Date",
        "From",
        "To",
        "Cc",
        "Reply-To",
        "Message-ID",
        "In-Reply-To",
        "References",
        "Importance",
        "Sensitivity",
        "Expires",
        "Content-Language",
        "Keywords",
        "X-Mailer",
        "List-Id",
    ] {
        let decode = |entity: &Entity<'_>| entity.field(name).map(x400::mixer::words::decode);
        assert_eq!(decode(&after), decode(&before), "{name}");
    }
    assert_eq!(
        after.field("Subject").map(x400::mixer::words::decode).as_deref(),
        Some("Käse und more")
    );
    assert_eq!(after.body, b"Hello\r\n");
    let trace: Vec<&str> = after.all("X400-Received").collect();
    // The gateway, mx and a; and the first element, which has no MTA.
    assert_eq!(trace.len(), 4, "{trace:?}");
    assert!(trace[0].starts_with("by mta \"relay\" in /PRMD=Example/ADMD= /C=GB/; converted (IA5-Text, (1)(3)(6)(1)(7)(1)(3)(5)); Relayed;"), "{}", trace[0]);
    assert_eq!(
        trace[1],
        "by mta \"mx.beta.example\" in /PRMD=TestB/ADMD= /C=GB/; Relayed; Wed, 25 Nov 2026 08:59:00 +0100"
    );
    assert!(after.field("Received").is_some_and(|value| value.contains("MIXER Conversion")));
    assert_eq!(after.field("X400-Content-Type"), Some("P2-1988 (22)"));
    assert_eq!(after.field("X400-MTS-Identifier"), Some("[/PRMD=Example/ADMD= /C=GB/;id-1]"));
    assert_eq!(after.field("X400-Content-Identifier"), Some("K?se und more"));
}

#[test]
fn fields_that_can_not_be_read_come_back_as_they_were() {
    let long = "word ".repeat(60);
    let text = format!(
        "From: a broken <field\r\nTo: Bob@beta.example\r\nCc: also broken\r\nDate: no date\r\nSubject: {long}\r\nMessage-ID: <{}@example.com>\r\n\r\n",
        "x".repeat(70)
    );
    let (message, _) = through(&text);
    let (before, after) = (Entity::parse(text.as_bytes()), Entity::parse(&message));
    for name in ["From", "To", "Cc", "Subject", "Message-ID"] {
        let all = |entity: &Entity<'_>| entity.all(name).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(all(&after), all(&before), "{name}");
    }
}

#[test]
fn a_plain_message_is_p2() {
    let text = "From: alice@example.com\r\nTo: Bob@beta.example\r\nSubject: s\r\nMessage-ID: <1@example.com>\r\n\r\nHello\r\n";
    let (message, content_type) = through(text);
    assert_eq!(content_type, ContentType::P2);
    assert_eq!(Entity::parse(&message).body, b"Hello\r\n");
}

#[test]
fn more_than_one_author() {
    let text =
        "From: a@example.com, b@example.com\r\nSender: s@example.com\r\nBcc: x@example.com\r\n\r\n";
    let (message, _) = through(text);
    let entity = Entity::parse(&message);
    assert_eq!(entity.field("From"), Some("a@example.com, b@example.com"));
    assert_eq!(
        (entity.field("Sender"), entity.field("Bcc")),
        (Some("s@example.com"), Some("x@example.com"))
    );
    assert_eq!(entity.field("To"), None);
}

/// Types, names and decoded bodies of all leaves.
fn leaves(entity: &Entity<'_>, all: &mut Vec<(String, Vec<u8>)>) {
    if let Some(parts) = entity.parts() {
        all.push((
            format!("{}/{}", entity.content_type.kind, entity.content_type.subtype),
            Vec::new(),
        ));
        parts.iter().for_each(|part| leaves(part, all));
        return;
    }
    let decoded = entity.decoded().expect("a known encoding");
    let kind = format!("{}/{}", entity.content_type.kind, entity.content_type.subtype);
    if entity.content_type.is("message", "rfc822") {
        all.push((kind, Vec::new()));
        leaves(&Entity::parse(&decoded), all);
    } else {
        all.push((kind, decoded));
    }
}

const MULTIPART: &str = "From: alice@example.com\r\nMIME-Version: 1.0\r\n\
Content-Type: multipart/mixed; boundary=b1\r\n\r\n\
--b1\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nK=C3=A4se\r\n\r\n\
--b1\r\nContent-Type: text/plain; charset=iso-8859-5\r\nContent-Transfer-Encoding: base64\r\n\r\n0NHSDQo=\r\n\
--b1\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n0JrQvtGC\r\n\
--b1\r\nContent-Type: application/octet-stream; name=x\r\nContent-ID: <part@example.com>\r\nContent-Disposition: attachment; filename=\"../budget 1.xls\"; size=3\r\nContent-Description: a sheet\r\nContent-Transfer-Encoding: base64\r\n\r\nAP8B\r\n\
--b1\r\nContent-Type: image/gif\r\nContent-Disposition: inline; filename=a.gif\r\nContent-Transfer-Encoding: base64\r\n\r\nR0lG\r\n\
--b1\r\nContent-Type: multipart/alternative; boundary=b2\r\n\r\n\
--b2\r\n\r\nplain\r\n\
--b2\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<b>\u{e9}</b>\r\n\
--b2--\r\n\
--b1\r\nContent-Type: message/rfc822\r\n\r\n\
From: inner@example.com\r\nDate: Tue, 24 Nov 2026 08:00:00 +0000\r\nSubject: inner\r\nX-Inner: yes\r\nMessage-ID: <inner@example.com>\r\n\r\ninner body\r\n\r\n\
--b1\r\nContent-Type: multipart/signed; boundary=b3; protocol=\"application/pgp-signature\"; micalg=pgp-sha256\r\n\r\n\
--b3\r\nContent-Type: text/plain\r\n\r\nsigned  \r\n\
--b3\r\nContent-Type: application/pgp-signature\r\n\r\nsignature\r\n\
--b3--\r\n\
--b1--\r\n";

#[test]
fn every_kind_of_body() {
    let (message, _) = through(MULTIPART);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    leaves(&Entity::parse(MULTIPART.as_bytes()), &mut before);
    leaves(&Entity::parse(&message), &mut after);
    // UTF-8 that Latin-1 can say comes back as that.
    let kase =
        before.iter_mut().find(|(_, body)| body.starts_with("Käse".as_bytes())).expect("the text");
    kase.1 = b"K\xe4se\r\n".to_vec();
    for ((before, body), (after, other)) in before.iter().zip(&after) {
        assert_eq!(
            (before, String::from_utf8_lossy(body)),
            (after, String::from_utf8_lossy(other))
        );
    }
    assert_eq!(before, after);
    let text = String::from_utf8_lossy(&message).into_owned();
    for kept in [
        "charset=iso-8859-5",
        "filename=\"../budget 1.xls\"; size=3",
        "Content-Description: a sheet",
        "Content-ID: <part@example.com>",
        "Content-Disposition: inline; filename=a.gif",
        "X-Inner: yes",
        "Date: Tue, 24 Nov 2026 08:00:00 +0000",
        "protocol=\"application/pgp-signature\"",
        // The octets that were signed.
        "--b3\r\nContent-Type: text/plain\r\n\r\nsigned  \r\n--b3\r\n",
    ] {
        assert!(text.contains(kept), "{kept}\n{text}");
    }
}

#[test]
fn what_x400_users_get() {
    let world = World::new();
    let (envelope, content) = world.to_x400(MULTIPART.as_bytes());
    let Ok(Content::Message(ipm)) = Content::read(&content) else { panic!("a message") };
    let file = ipm.body.iter().find_map(|part| match part {
        BodyPart::Extended(extended) => FileTransfer::read(extended),
        _ => None,
    });
    let file = file.expect("a file");
    assert_eq!(file.pathname, None, "the first is the text in Cyrillic");
    assert_eq!(file.application.as_deref(), Some(content::MIME_FILE));
    assert!(
        matches!(&ipm.body[7], BodyPart::Ia5 { text, .. } if text.starts_with(b"MIME-Version: 1.0"))
    );
    let BodyPart::Message(alternative) = &ipm.body[5] else { panic!("a message") };
    assert_eq!(
        alternative.ipm.heading.subject.as_deref(),
        Some(&b"Alternative Body Parts containing the same information"[..])
    );
    let eits = envelope.original_eits.expect("types");
    assert!(eits.built_in.has(2) && eits.extended.iter().any(|oid| oid == content::EIT_MIXER));
    assert!(eits.extended.iter().any(|oid| x400::ber::oid_text(oid) == "1.0.10021.7.1.0.144"));
}

#[test]
fn other_outer_multiparts_and_single_parts() {
    for (text, kind) in [
        (
            "Content-Type: multipart/alternative; boundary=x\r\n\r\n--x\r\n\r\na\r\n--x\r\nContent-Type: text/html\r\n\r\n<b>\r\n--x--\r\n",
            "multipart/alternative",
        ),
        (
            "Content-Type: application/pdf\r\nContent-Description: d\r\nContent-Transfer-Encoding: base64\r\n\r\nJVBE\r\n",
            "application/pdf",
        ),
        ("Content-Type: text/html\r\n\r\n<b>x</b>\r\n", "text/html"),
        (
            "Content-Type: multipart/encrypted; boundary=x\r\n\r\n--x\r\n\r\na\r\n--x--\r\n",
            "multipart/encrypted",
        ),
        ("Content-Type: multipart/mixed\r\n\r\nno boundary\r\n", "multipart/mixed"),
        (
            "Content-Type: application/x400-bp; bp-type=3\r\nContent-Transfer-Encoding: base64\r\n\r\nowIxAA==\r\n",
            "application/x400-bp",
        ),
        ("Content-Type: nonsense\r\n\r\nx\r\n", "text/plain"),
    ] {
        let (message, _) = through(&format!("From: a@example.com\r\n{text}"));
        let entity = Entity::parse(&message);
        assert_eq!(format!("{}/{}", entity.content_type.kind, entity.content_type.subtype), kind);
        let original = Entity::parse(text.as_bytes());
        if kind != "multipart/alternative" {
            assert_eq!(entity.decoded(), original.decoded(), "{text}");
        }
        assert_eq!(
            entity.all("Content-Description").count(),
            original.all("Content-Description").count()
        );
        assert_eq!(entity.all("Content-Type").count(), 1);
    }
}

#[test]
fn the_envelope() {
    let world = World::new();
    let recipients = [
        MailRecipient { notify: Notify::NEVER, ..recipient("a@beta.example", true) },
        MailRecipient { notify: Notify::SUCCESS, ..recipient("b@beta.example", true) },
        MailRecipient {
            notify: Notify::FAILURE,
            orcpt: Some(("rfc822", "first@example.com")),
            ..recipient("c@beta.example", false)
        },
    ];
    let envelope = MailEnvelope {
        envid: Some("QQ314"),
        returns_content: false,
        priority: mail::Priority::new(4).expect("a priority"),
        ..mail_envelope(&recipients)
    };
    let (x400, content) =
        to_x400(&world.here(), &envelope, b"Subject: x\r\n\r\n").expect("converted");
    let requests: Vec<_> = x400
        .recipients
        .iter()
        .map(|r| (r.indicators.user_request(), r.indicators.is_responsible(), r.number))
        .collect();
    assert_eq!(
        requests,
        [
            (ReportRequest::None, true, 1),
            (ReportRequest::Both, true, 2),
            (ReportRequest::NonDelivery, false, 3)
        ]
    );
    assert_eq!(
        x400.extensions.content_correlator().expect("readable").as_deref(),
        Some(&b"SMTP/NOTARY ENVID: QQ314"[..])
    );
    assert!(!x400.indicators.has(message_indicator::CONTENT_RETURN_REQUEST));
    assert!(x400.indicators.has(message_indicator::ALTERNATE_RECIPIENT_ALLOWED));
    assert_eq!(x400.priority, Priority::Urgent);
    let history = x400.recipients[2].extensions.redirection_history().expect("readable");
    assert_eq!(
        history[0].intended.name.address.domain_defined("RFC-822"),
        Some("first(a)example.com")
    );
    let mail = to_mail(&world.here(), &x400, &[0, 1, 2], &Bytes::from(content)).expect("converted");
    let notify: Vec<Notify> = mail.recipients.iter().map(|r| r.notify).collect();
    assert_eq!(notify, [Notify::NEVER, Notify::SUCCESS.union(Notify::FAILURE), Notify::FAILURE]);
    assert_eq!(
        mail.recipients[2].original.as_deref(),
        Some("/RFC-822=first(a)example.com/O=gw/PRMD=Example/ADMD= /C=GB/")
    );
    assert_eq!(mail.envid, "X400-MTS-Identifier: [/PRMD=Example/ADMD= /C=GB/;id-1]");
    assert_eq!((mail.priority.value(), mail.returns_content), (4, false));
    // Several recipients are not told of each other.
    assert!(Entity::parse(&mail.message).field("X400-Recipients").is_none());
    for (value, wanted) in [(-9, -4), (-4, -4), (-3, -4), (-2, 0), (0, 0), (2, 0), (3, 4), (9, 4)] {
        let priority = priority_to_x400(mail::Priority::new(value).expect("a priority"));
        assert_eq!(priority_to_mail(priority).value(), wanted, "{value}");
    }
}

#[test]
fn what_can_not_be_converted() {
    let world = World::new();
    let recipients = [recipient("Bob@beta.example", true)];
    let cause = |envelope: &MailEnvelope<'_>, message: &[u8]| {
        to_x400(&world.here(), envelope, message).err().map(|error| error.cause)
    };
    let envelope = mail_envelope(&recipients);
    let field = "Received: by gw.example (MIXER Conversion following RFC 2156); x\r\n";
    assert_eq!(cause(&envelope, field.repeat(5).as_bytes()), None);
    assert_eq!(cause(&envelope, field.repeat(6).as_bytes()), Some(Cause::Loop));
    let long = vec![b'x'; CONTENT_BYTES_MAX + 1];
    assert_eq!(cause(&envelope, &long), Some(Cause::ContentTooLong));
    let far = "_".repeat(200) + "@example.com";
    let recipients = [recipient(&far, true)];
    assert_eq!(cause(&mail_envelope(&recipients), b"\r\n"), Some(Cause::InvalidArguments));
    let null = MailEnvelope { originator: None, ..envelope };
    let (x400, _) = to_x400(&world.here(), &null, b"\r\n").expect("converted");
    assert_eq!(x400.originator.address, world.gateway.address);
    let or_name = x400::or_name::OrAddress::parse("/S=x/C=DE/A=y/").expect("an address");
    let recipients = [MailRecipient { party: Party::X400(&or_name), ..recipient("", true) }];
    let (x400, _) =
        to_x400(&world.here(), &mail_envelope(&recipients), b"\r\n").expect("converted");
    assert_eq!(x400.recipients[0].name.address, or_name);
}

#[test]
fn who_has_no_or_address_keeps_nobody_else_from_the_message() {
    let world = World::new();
    let far = "_".repeat(200) + "@example.com";
    let recipients = |is_theirs| {
        [
            recipient(&far, is_theirs),
            recipient("Bob@beta.example", true),
            recipient("c@d.example", false),
        ]
    };
    for is_theirs in [true, false] {
        let recipients = recipients(is_theirs);
        let envelope = mail_envelope(&recipients);
        let (x400, _) = to_x400(&world.here(), &envelope, b"\r\n").expect("converted");
        let numbers: Vec<u32> = x400.recipients.iter().map(|recipient| recipient.number).collect();
        assert_eq!(numbers, [2, 3]);
        let refused = x400::mixer::to_x400::refused(&world.here(), &envelope);
        let refused: Vec<_> = refused.iter().map(|(index, why)| (*index, why.cause)).collect();
        let expected = [(0, Cause::InvalidArguments)];
        assert_eq!(refused, if is_theirs { &expected[..] } else { &[] });
    }
}

#[test]
fn fields_of_a_header() {
    let world = World::new();
    let recipients = [recipient("Bob@beta.example", true)];
    let message = |count| format!("{}\r\nbody\r\n", "X-Many: yes\r\n".repeat(count));
    let most = message(FIELDS_MAX - 1);
    let (back, _) = through(&most);
    assert_eq!(String::from_utf8_lossy(&back).matches("X-Many: yes").count(), FIELDS_MAX - 1);
    let more = to_x400(&world.here(), &mail_envelope(&recipients), message(FIELDS_MAX).as_bytes());
    assert_eq!(more.err().map(|error| error.cause), Some(Cause::ConversionImpractical));
    // Within another message all of them are kept.
    let (back, _) =
        through(&format!("Content-Type: message/rfc822\r\n\r\n{}", message(FIELDS_MAX + 9)));
    assert_eq!(String::from_utf8_lossy(&back).matches("X-Many: yes").count(), FIELDS_MAX + 9);
}

#[test]
fn what_is_nested_too_deep_is_carried_whole() {
    for depth in [DEPTH_MAX, DEPTH_MAX + 1, 30] {
        let mut text = "Subject: innermost\r\n\r\nthe end\r\n".to_owned();
        for level in 0..depth {
            text = format!("Subject: {level}\r\nContent-Type: message/rfc822\r\n\r\n{text}");
        }
        let (message, _) = through(&format!("From: a@example.com\r\n{text}"));
        let (mut before, mut after) = (Vec::new(), Vec::new());
        leaves(&Entity::parse(text.as_bytes()), &mut before);
        leaves(&Entity::parse(&message), &mut after);
        assert_eq!(after, before, "{depth}");
        assert!(String::from_utf8_lossy(&message).contains("innermost"));
    }
}
