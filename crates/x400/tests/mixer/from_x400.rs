//! Messages that X.400 users sent, as mail.

use crate::{World, apdu};
use bytes::Bytes;
use x400::content;
use x400::content::heading::{HeadingExtension, IpmIdentifier, OrDescriptor, RecipientSpecifier};
use x400::content::{BodyPart, Content, Forwarded, Heading, Ipm, file_transfer};
use x400::mixer::entity::Entity;
use x400::mixer::{to_mail, trace};
use x400::mts::{ContentType, Eits, ExtensionKind, Flags, TransferEnvelope};
use x400::or_name::{ExtensionAttribute, OrAddress, OrName, Value};
use x400::reasons::Cause;

/// The header of the vector with every extension and every part.
const FIELDS: [(&str, &str); 18] = [
    ("Date", "Sun, 22 Nov 2026 05:59:00 +0000"),
    ("From", "Carol Sender <\"/G=Carol/S=Sender/O=Gamma/PRMD=TestC/ADMD= /C=GB/\"@gw.example.org>"),
    (
        "To",
        "Bob <bob@beta.example> (Receipt Notification Requested) (Non Receipt Notification Requested)",
    ),
    ("Subject", "Vectors"),
    ("Importance", "high"),
    ("Priority", "urgent"),
    ("X-Mailer", "vec"),
    ("Comments", "two"),
    ("X400-MTS-Identifier", "[/PRMD=TestC/ADMD= /C=GB/;v1]"),
    ("X400-Content-Type", "P2-1988 (22)"),
    ("X400-Content-Identifier", "Vectors"),
    ("Original-Encoded-Information-Types", "IA5-Text"),
    ("Latest-Delivery-Time", "Mon, 22 Nov 2027 06:00:00 +0000"),
    ("Deferred-Delivery", "Sun, 22 Nov 2026 07:00:00 +0000"),
    ("Conversion-With-Loss", "Prohibited"),
    ("Discarded-X400-MTS-Extensions", "1.3.6.1.4.1.99999.1"),
    ("Message-ID", "<\"v1*/G=Carol/S=Sender/O=Gamma/PRMD=TestC/ADMD= /C=GB/\"@MHS>"),
    ("MIME-Version", "1.0"),
];

#[test]
fn a_message_with_every_part() {
    let world = World::new();
    let (envelope, content) = apdu("message_extensions");
    let mail = to_mail(&world.here(), &envelope, &[0, 2], &content).expect("converted");
    assert_eq!(
        mail.originator.as_deref(),
        Some("\"/G=Carol/S=Sender/O=Gamma/PRMD=TestC/ADMD= /C=GB/\"@gw.example.org")
    );
    let to: Vec<_> = mail.recipients.iter().map(|to| (to.index, to.address.as_deref())).collect();
    assert_eq!(to, [(0, Some("bob@beta.example")), (2, Some("tom_h@cs.widget.example"))]);
    let entity = Entity::parse(&mail.message);
    for (name, value) in FIELDS {
        assert_eq!(entity.field(name), Some(value), "{name}");
    }
    let trace: Vec<&str> = entity.all("X400-Received").collect();
    assert_eq!(
        trace,
        [
            "by mta \"mta.c\" in /PRMD=TestC/ADMD= /C=GB/; attempted MTA \"mta.b\"; Rerouted; Sun, 22 Nov 2026 06:00:00 +0000",
            "by /PRMD=TestC/ADMD= /C=GB/; Relayed, Redirected; Sun, 22 Nov 2026 06:00:00 +0000",
            "by mta \"mta.d\" in /PRMD=TestD/ADMD=GOLD 400/C=GB/; Relayed; Sun, 22 Nov 2026 06:00:00 +0000",
            "by /PRMD=TestD/ADMD=GOLD 400/C=GB/; Relayed; Sun, 22 Nov 2026 05:59:00 +0000",
        ]
    );
    let parts = entity.parts().expect("parts");
    let kinds: Vec<String> =
        parts.iter().map(|p| p.field("Content-Type").unwrap_or_default().to_owned()).collect();
    assert_eq!(
        kinds,
        [
            "text/plain; charset=us-ascii",
            "text/plain; charset=iso-8859-1",
            "application/octet-stream",
            "application/octet-stream",
            "message/rfc822",
            "text/html; charset=\"us-ascii\"",
        ]
    );
    assert_eq!(parts[0].body, b"plain text\r\n");
    assert_eq!(parts[1].decoded().as_deref(), Some(&b"caf\xe9\r\n"[..]));
    assert_eq!(parts[2].decoded().as_deref(), Some(&b"\x00\x01binary\xff"[..]));
    assert_eq!(
        parts[3].field("Content-Disposition"),
        Some("attachment; filename=\"budget.xls\"; size=9")
    );
    assert_eq!(parts[3].field("Content-Description"), Some("a spreadsheet"));
    let inner = Entity::parse(parts[4].body);
    assert_eq!(
        (inner.field("Subject"), inner.field("Delivery-Date")),
        (Some("inner"), Some("Sun, 22 Nov 2026 06:00:00 +0000"))
    );
    assert_eq!(parts[5].decoded().as_deref(), Some(&b"<html>x</html>"[..]));
}

#[test]
fn notifications_are_texts() {
    let world = World::new();
    let (envelope, content) = apdu("message_receipt_notification");
    let mail = to_mail(&world.here(), &envelope, &[0], &content).expect("converted");
    assert_eq!(mail.originator, None);
    let entity = Entity::parse(&mail.message);
    assert_eq!(entity.field("From"), Some("bob@beta.example"));
    assert_eq!(entity.field("Subject"), Some("X.400 Inter-Personal Notification"));
    assert_eq!(entity.field("Message-Type"), Some("InterPersonal Notification"));
    assert!(entity.field("References").is_some_and(|value| value.contains("@MHS>")));
    let text = String::from_utf8_lossy(entity.body);
    assert!(text.contains("was received at Sun, 22 Nov 2026 06:00:00 +0000\r\n"), "{text}");
    assert!(text.contains("This notification was generated Automatically\r\n"), "{text}");
    let (envelope, content) = apdu("message_nonreceipt_notification");
    let mail = to_mail(&world.here(), &envelope, &[0], &content).expect("converted");
    let entity = Entity::parse(&mail.message);
    assert_eq!(entity.field("Subject"), Some("X.400 Inter-Personal Notification (failure)"));
    let text = String::from_utf8_lossy(entity.body);
    assert!(text.contains("was discarded for the following reason: Obsoleted\r\n"), "{text}");
    assert!(text.contains("The Original Message is not available\r\n"), "{text}");
}

#[test]
fn what_can_not_be_converted() {
    let world = World::new();
    let cause = |envelope: &TransferEnvelope, content: &Bytes| {
        to_mail(&world.here(), envelope, &[0], content).err().map(|error| error.cause)
    };
    let (envelope, content) = apdu("message_oid_content");
    assert_eq!(cause(&envelope, &content), Some(Cause::ContentTypeUnsupported));
    let (mut envelope, content) = apdu("message_unknown_critical");
    assert_eq!(cause(&envelope, &content), Some(Cause::UnsupportedCriticalFunction));
    envelope.extensions.0.clear();
    assert_eq!(cause(&envelope, &content), None);
    assert_eq!(cause(&envelope, &Bytes::from_static(b"no content")), Some(Cause::ContentSyntax));
    let mut gateway = envelope.trace[0].clone();
    gateway.supplied.converted =
        Some(Eits { extended: vec![Bytes::from_static(content::EIT_MIXER)], ..Eits::default() });
    envelope.trace = vec![gateway.clone(); trace::CONVERSIONS_MAX];
    assert_eq!(cause(&envelope, &content), None);
    envelope.trace.push(gateway);
    assert_eq!(cause(&envelope, &content), Some(Cause::Loop));
    envelope.content_type = ContentType::UNIDENTIFIED;
    envelope.trace.clear();
    assert_eq!(cause(&envelope, &content), Some(Cause::ContentTypeUnsupported));
    assert!(matches!(
        apdu("message_extensions").0.extensions.0.last().map(|e| &e.kind),
        Some(ExtensionKind::Private(_))
    ));
}

/// Nothing that an X.400 user writes adds a field, or ends the header.
#[test]
fn no_text_breaks_out_of_its_field() {
    let world = World::new();
    let evil = "x\r\nEvil: yes\r\n\r\nbody";
    let octets = Bytes::copy_from_slice(evil.as_bytes());
    let descriptor = OrDescriptor {
        formal_name: None,
        free_form_name: Some(octets.clone()),
        telephone: Some(evil.into()),
    };
    let fields = [
        "X-Ok: a\r\nEvil: yes".to_owned(),
        "Received: from evil".into(),
        "Content-Type: text/evil".into(),
        "no field".into(),
        "Bad Name: x".into(),
        "\r\nEvil: x".into(),
    ];
    let heading = Heading {
        this_ipm: IpmIdentifier { user: None, relative: evil.into() },
        originator: Some(descriptor.clone()),
        reply_recipients: vec![descriptor],
        subject: Some(octets.clone()),
        extensions: vec![
            file_transfer::field_list(&fields),
            HeadingExtension::new(content::MULTIPART, |v| {
                v.constructed(x400::ber::Tag::SEQUENCE, |s| {
                    s.text(x400::ber::Tag::IA5_STRING, "x;\r\nEvil: y")
                })
            }),
        ],
        ..Heading::default()
    };
    let part = file_transfer::FileTransfer {
        pathname: Some(evil.into()),
        description: Some(evil.into()),
        fields: fields.to_vec(),
        data: octets,
        ..Default::default()
    };
    let ipm = Ipm { heading, body: vec![BodyPart::Extended(part.to_extended())] };
    let content = Bytes::from(Content::Message(Box::new(ipm)).encode());
    let (mut envelope, _) = apdu("py_message");
    envelope.content_identifier = Some("x\r\nEvil: yes".into());
    let mail = to_mail(&world.here(), &envelope, &[0], &content).expect("converted");
    let entity = Entity::parse(&mail.message);
    assert_eq!(entity.field("Evil"), None, "{}", String::from_utf8_lossy(&mail.message));
    assert_eq!(entity.all("Content-Type").count(), 1);
    assert!(entity.all("Received").all(|value| !value.contains("evil")));
    assert!(entity.field("X-Ok").is_some());
    assert_eq!(entity.decoded().as_deref(), Some(evil.as_bytes()));
}

/// RFC 2156 §4.7.2: what is asked of a recipient stands behind it.
#[test]
fn requests_for_notifications_are_comments() {
    let bob = "/DD.RFC-822=bob(a)beta.example/O=Gate/ADMD= /C=GB/".parse().expect("an address");
    let formal_name = Some(OrName { address: bob, directory_name: None });
    let one = |bits: &[u8], is_reply_requested| RecipientSpecifier {
        recipient: OrDescriptor { formal_name: formal_name.clone(), ..OrDescriptor::default() },
        notification_requests: Flags::of(bits),
        is_reply_requested,
    };
    let heading = Heading {
        primary_recipients: vec![one(&[0, 1], true), one(&[], false), one(&[2], false)],
        ..Heading::default()
    };
    let content = Content::Message(Box::new(Ipm { heading, body: vec![ia5("x")] })).encode();
    let (envelope, _) = apdu("py_message");
    let mail = to_mail(&World::new().here(), &envelope, &[0], &content.into()).expect("converted");
    assert_eq!(
        Entity::parse(&mail.message).field("To"),
        Some(
            "bob@beta.example (Receipt Notification Requested) (Non Receipt Notification Requested) \
             (Reply requested), bob@beta.example, bob@beta.example (IPM Return Requested)"
        )
    );
}

fn ia5(text: &str) -> BodyPart {
    BodyPart::Ia5 { repertoire: Some(5), text: Bytes::copy_from_slice(text.as_bytes()) }
}

fn as_mail(body: Vec<BodyPart>) -> Vec<u8> {
    let heading = Heading { subject: Some(Bytes::from_static(b"true")), ..Heading::default() };
    let content = Content::Message(Box::new(Ipm { heading, body })).encode();
    let (envelope, _) = apdu("py_message");
    to_mail(&World::new().here(), &envelope, &[0], &content.into()).expect("converted").message
}

/// RFC 2156 appendix B: fields in a first part are filtered like those in a field list.
#[test]
fn a_part_of_fields_forges_none() {
    let fields = "RFC-822-Headers:\r\nX-Long: one\r\n two\r\n\tthree\r\nSubject: forged\r\n\
        From: forged@example.com\r\nFROM : again@example.com\r\nContent-Type: text/html\r\nMIME-Version: 2.0\r\n\
        Received: from evil\r\nReturn-Path: <evil@example.com>\r\nDate: Thu, 1 Jan 1970 00:00:00 +0000\r\n";
    let plain = as_mail(vec![ia5(fields), ia5("text")]);
    let forwarded = Ipm {
        heading: Heading { subject: Some(Bytes::from_static(b"true")), ..Heading::default() },
        body: vec![ia5(fields), ia5("text")],
    };
    let forwarded = Forwarded { ipm: forwarded, ..Forwarded::default() };
    let outer = as_mail(vec![BodyPart::Message(Box::new(forwarded))]);
    let inner = Entity::parse(&outer).body.to_vec();
    for message in [plain, inner] {
        let entity = Entity::parse(&message);
        let shown = String::from_utf8_lossy(&message);
        assert_eq!(entity.field("X-Long"), Some("one two three"), "{shown}");
        assert_eq!(entity.all("Subject").collect::<Vec<_>>(), ["true"]);
        for name in ["From", "Content-Type", "MIME-Version", "Date"] {
            assert_eq!(entity.all(name).count(), 1, "{name}: {shown}");
        }
        assert!(entity.all("Received").all(|value| !value.contains("evil")));
        assert_eq!(entity.field("Return-Path"), None);
        assert_eq!(entity.decoded().as_deref(), Some(&b"text"[..]));
    }
}

/// RFC 2157 §3.1.3: what a text has of MIME goes out in lines that mail can have.
#[test]
fn mime_in_a_text_has_the_line_ends_of_mail() {
    let front = "MIME-Version: 1.0\nContent-Type: ";
    let is_fit = |message: &[u8]| {
        let lines = message.split(|&octet| octet == b'\n');
        let all = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let bare = message
            .iter()
            .zip([0].iter().chain(message))
            .any(|(&octet, &last)| octet == b'\n' && last != b'\r');
        !bare
            && all
                .into_iter()
                .all(|line| line.len() <= 998 && !line.contains(&b'\r') && !line.contains(&0))
    };
    let long = "x".repeat(999);
    for (kind, body, expected) in [
        ("text/plain", "a\nb\r\n", Some("a\r\nb\r\n")),
        ("text/plain", "a\rb", Some("a\rb")),
        ("text/plain", "a\0b", Some("a\0b")),
        ("text/plain", long.as_str(), Some(long.as_str())),
        ("text/plain\nContent-Transfer-Encoding: quoted-printable", "a=3D\rb", Some("a=\rb")),
        ("multipart/signed; boundary=x", "--x\n\na\rb\n--x--\n", None),
        ("text/plain\nContent-Transfer-Encoding: x-odd", "a\rb", None),
    ] {
        let text = format!("{front}{kind}\n\n{body}");
        let message = as_mail(vec![ia5(&text)]);
        assert!(is_fit(&message), "{kind} {body:?}: {:?}", String::from_utf8_lossy(&message));
        let entity = Entity::parse(&message);
        let expected = expected.map_or(text.as_bytes(), str::as_bytes);
        assert_eq!(entity.decoded().as_deref(), Some(expected), "{kind} {body:?}");
    }
}

/// An attribute in letters that no internet address can have names somebody: whoever is written without it is another.
#[test]
fn who_has_letters_that_no_internet_address_can_have_is_nobody_else() {
    let base: OrAddress = "/O=G/PRMD=TestC/ADMD= /C=GB/".parse().expect("an address");
    let universal = |number: u32, text: &str| {
        let octets: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let length = u8::try_from(octets.len()).expect("short");
        let value = [&[0x31, length + 2, 0x1e, length][..], &octets].concat();
        let extensions = vec![ExtensionAttribute { number, value: value.into() }];
        OrAddress { extensions, ..base.clone() }
    };
    // Against the rules of PrintableString.
    let printable = |surname: &str| {
        let surname = Value { printable: Some(surname.into()), teletex: None };
        let mut address = base.clone();
        address.personal_name.surname = surname;
        address
    };
    let mut seen = vec!["\"/O=G/PRMD=TestC/ADMD= /C=GB/\"@gw.example".to_owned()];
    for (address, has_one) in [
        (universal(24, "Dima"), true),
        (universal(24, "Дима"), false),
        (universal(24, "Zoë"), true),
        (universal(26, "Дима"), false),
        (universal(27, "Дима"), false),
        (universal(28, "Дима"), false),
        (printable("Müller"), true),
        (printable("Muller"), true),
    ] {
        let shown = format!("{address:?}");
        let (mut envelope, content) = apdu("py_message");
        envelope.originator = OrName { address, directory_name: None };
        let mail = to_mail(&World::new().here(), &envelope, &[0], &content).expect("converted");
        assert_eq!(mail.originator.is_some(), has_one, "{shown}: {:?}", mail.originator);
        let Some(originator) = mail.originator else { continue };
        assert!(!seen.contains(&originator), "{originator} is somebody else: {shown}");
        seen.push(originator);
    }
}
