//! Interpersonal messages and notifications: what others made, and what comes back.

use crate::file;
use bytes::Bytes;
use x400::content;
use x400::content::general_text::GeneralText;
use x400::content::heading::{
    Heading, HeadingExtension, Importance, IpmIdentifier, OrDescriptor, RecipientSpecifier,
    Sensitivity,
};
use x400::content::{
    BodyPart, Content, Extended, FileTransfer, Forwarded, Ipm, IpnKind, file_transfer,
};
use x400::mts::{Flags, UtcTime};
use x400::or_name::{OrAddress, OrName};

fn read(name: &str) -> Content {
    Content::read(&Bytes::from(file(name))).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_body_part() {
    let Content::Message(ipm) = read("p22_parts.content") else { panic!("a message") };
    let heading = &ipm.heading;
    assert_eq!((&*heading.this_ipm.relative, heading.importance), ("v1", Importance::High));
    assert_eq!(heading.subject.as_deref(), Some(&b"Vectors"[..]));
    assert_eq!(heading.primary_recipients[0].notification_requests, Flags::of(&[0, 1]));
    let fields =
        file_transfer::read_field_list(heading.extension(content::FIELD_LIST).expect("the list"));
    assert_eq!(fields.expect("fields"), ["X-Mailer: vec", "Comments: two"]);
    let [ia5, general, bilateral, ftbp, forwarded, mime] = &ipm.body[..] else {
        panic!("six parts")
    };
    assert_eq!(*ia5, BodyPart::Ia5 { repertoire: None, text: "plain text\r\n".into() });
    let BodyPart::Extended(general) = general else { panic!("{general:?}") };
    let text = GeneralText::read(general).expect("GeneralText");
    assert_eq!((text.part, &text.text[..]), (Some(1), &b"caf\xe9\r\n"[..]));
    assert_eq!(*bilateral, BodyPart::Bilateral(Bytes::from_static(b"\x00\x01binary\xff")));
    let BodyPart::Extended(ftbp) = ftbp else { panic!("{ftbp:?}") };
    let found = FileTransfer::read(ftbp).expect("a file");
    assert_eq!(
        (found.pathname.as_deref(), found.description.as_deref(), found.size, &found.data[..]),
        (Some("budget.xls"), Some("a spreadsheet"), Some(9), &b"\x00\x01binary\xff"[..])
    );
    assert_eq!(found.application.as_deref(), Some(content::UNKNOWN_ATTACHMENT));
    let BodyPart::Message(forwarded) = forwarded else { panic!("{forwarded:?}") };
    assert_eq!(forwarded.ipm.heading.subject.as_deref(), Some(&b"inner"[..]));
    assert_eq!(forwarded.delivery_time.map(|t| t.to_text()).as_deref(), Some("261122060000Z"));
    let BodyPart::Extended(mime) = mime else { panic!("{mime:?}") };
    assert_eq!(mime.oid, content::MIME_DATA);
    // Octets of large parts are those of the content, not copies.
    let content = Bytes::from(file("p22_parts.content"));
    let Ok(Content::Message(ipm)) = Content::read(&content) else { panic!("a message") };
    let BodyPart::Bilateral(octets) = &ipm.body[2] else { panic!("octets") };
    assert!(content.as_ptr_range().contains(&octets.as_ptr()));
}

#[test]
fn notifications() {
    let Content::Notification(receipt) = read("ipn_rn.content") else { panic!("a notification") };
    assert_eq!(&*receipt.subject_ipm.relative, "v1");
    let IpnKind::Receipt { time, is_automatic, supplementary } = receipt.kind else {
        panic!("a receipt")
    };
    assert_eq!(
        (time.to_text().as_str(), is_automatic, supplementary),
        ("261122060000Z", true, None)
    );
    let Content::Notification(other) = read("ipn_nrn.content") else { panic!("a notification") };
    assert!(matches!(other.kind, IpnKind::NonReceipt { reason: 0, discard: Some(1), .. }));
    let originator = other.originator.and_then(|o| o.formal_name).expect("who notifies");
    assert_eq!(originator.address.to_string(), "/S=bob/O=Beta/PRMD=TestB/ADMD= /C=GB/");
}

#[test]
fn contents_come_back() {
    for name in ["p22_parts.content", "ipn_rn.content", "ipn_nrn.content"] {
        let content = read(name);
        let again = content.encode();
        assert_eq!(Content::read(&Bytes::from(again)).expect(name), content, "{name}");
    }
    for apdu in ["py_message", "pp_message"] {
        let (_, _, octets) = crate::message(&file(apdu));
        let content = Content::read(&octets).expect(apdu);
        assert_eq!(Content::read(&Bytes::from(content.encode())).expect(apdu), content);
    }
}

#[test]
fn every_field_of_a_heading_comes_back() {
    let name = || OrName::from(OrAddress::parse("/S=x/O=y/C=gb/").expect("an address"));
    let identifier = |user: bool| IpmIdentifier { user: user.then(name), relative: "id 1".into() };
    let descriptor = || OrDescriptor {
        formal_name: Some(name()),
        free_form_name: Some(Bytes::from_static(b"J\xc8urgen")),
        telephone: Some("+44 1".into()),
    };
    let recipient = || RecipientSpecifier {
        recipient: descriptor(),
        notification_requests: Flags::of(&[1]),
        is_reply_requested: true,
    };
    let time = UtcTime::parse(b"261122060000+0100");
    let heading = Heading {
        this_ipm: identifier(true),
        originator: Some(descriptor()),
        authorizing_users: vec![descriptor()],
        primary_recipients: vec![recipient(), RecipientSpecifier::default()],
        copy_recipients: vec![recipient()],
        blind_copy_recipients: Some(Vec::new()),
        replied_to: Some(identifier(false)),
        obsoleted: vec![identifier(true)],
        related: vec![identifier(false), identifier(true)],
        subject: Some(Bytes::from_static(b"subject")),
        expiry: time,
        reply_by: time,
        reply_recipients: vec![descriptor()],
        importance: Importance::Low,
        sensitivity: Some(Sensitivity::Private),
        is_auto_forwarded: true,
        extensions: vec![HeadingExtension {
            oid: Bytes::from_static(content::LANGUAGES),
            value: None,
        }],
    };
    let file = FileTransfer {
        application: Some(Bytes::from_static(content::MIME_FILE)),
        description: Some("caf\u{e9}".into()),
        pathname: Some("../a/b".into()),
        created: UtcTime::parse(b"261122060000Z"),
        modified: UtcTime::parse(b"991122060000Z"),
        read: None,
        size: Some(5),
        fields: vec!["Content-Type: text/x".into()],
        data: Bytes::from_static(b"12345"),
    };
    let general = GeneralText { part: Some(5), text: Bytes::from_static(b"\xd0\xd1") };
    let body = vec![
        BodyPart::Teletex(vec![Bytes::from_static(b"page"), Bytes::new()]),
        BodyPart::Extended(file.to_extended()),
        BodyPart::Extended(general.to_extended().expect("part 5")),
        BodyPart::Other(Bytes::from_static(&[0xa3, 2, 0x31, 0])),
        BodyPart::Message(Box::new(Forwarded {
            ipm: Ipm { heading: heading.clone(), body: vec![] },
            ..Forwarded::default()
        })),
    ];
    let content = Content::Message(Box::new(Ipm { heading, body }));
    let again = Content::read(&Bytes::from(content.encode())).expect("a content");
    assert_eq!(again, content);
    let Content::Message(ipm) = again else { panic!("a message") };
    let extended = |index: usize| match &ipm.body[index] {
        BodyPart::Extended(extended) => extended.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(FileTransfer::read(&extended(1)), Some(file));
    assert_eq!(GeneralText::read(&extended(2)), Some(general));
}

#[test]
fn general_text_that_is_in_other_sets_is_not_touched() {
    let text = |octets: &'static [u8]| {
        let mut part =
            GeneralText { part: Some(1), text: Bytes::new() }.to_extended().expect("part 1");
        let data = Extended::new(content::GENERAL_TEXT_DATA, None, |data| {
            data.primitive(x400::ber::Tag::GENERAL_STRING, octets);
        });
        part.data = data.data;
        GeneralText::read(&part).map(|text| text.text)
    };
    assert_eq!(text(b"a\x1b-Ab\x1b~c\xe9").as_deref(), Some(&b"abc\xe9"[..]));
    for foreign in [&b"\x1b-Bx"[..], b"\x1b$Bx", b"\x0ex", b"\x1b"] {
        assert_eq!(text(foreign), None, "{foreign:?}");
    }
    assert_eq!(GeneralText { part: Some(10), text: Bytes::new() }.to_extended(), None);
    let eits = GeneralText { part: Some(2), text: Bytes::new() }.eits();
    assert_eq!(
        eits.iter().map(|o| x400::ber::oid_text(o)).collect::<Vec<_>>(),
        ["1.0.10021.7.1.0.6", "1.0.10021.7.1.0.101"]
    );
}

#[test]
fn cut_and_changed_contents_never_panic() {
    for name in ["p22_parts.content", "ipn_rn.content", "ipn_nrn.content"] {
        let octets = file(name);
        for at in 0..octets.len() {
            assert!(
                Content::read(&Bytes::copy_from_slice(&octets[..at])).is_err(),
                "{name} cut at {at}"
            );
            for change in [0x00, 0x80, 0xff, octets[at] ^ 0x20] {
                let mut broken = octets.clone();
                broken[at] = change;
                if let Ok(Content::Message(ipm)) = Content::read(&Bytes::from(broken)) {
                    for part in &ipm.body {
                        if let BodyPart::Extended(extended) = part {
                            let _ = (GeneralText::read(extended), FileTransfer::read(extended));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn messages_in_messages_are_bounded() {
    let mut ipm = Ipm::default();
    for _ in 0..7 {
        ipm = Ipm {
            body: vec![BodyPart::Message(Box::new(Forwarded { ipm, ..Forwarded::default() }))],
            ..Ipm::default()
        };
    }
    Content::read(&Bytes::from(Content::Message(Box::new(ipm.clone())).encode())).expect("seven");
    for _ in 0..8 {
        ipm = Ipm {
            body: vec![BodyPart::Message(Box::new(Forwarded { ipm, ..Forwarded::default() }))],
            ..Ipm::default()
        };
    }
    let error =
        Content::read(&Bytes::from(Content::Message(Box::new(ipm)).encode())).expect_err("fifteen");
    assert!(error.to_string().contains("nested deeper than 32"), "{error}");
    let parts = |count| {
        Content::Message(Box::new(Ipm {
            body: vec![BodyPart::Bilateral(Bytes::new()); count],
            ..Ipm::default()
        }))
    };
    let max = x400::content::BODY_PARTS_MAX;
    Content::read(&Bytes::from(parts(max).encode())).expect("all parts");
    Content::read(&Bytes::from(parts(max + 1).encode())).expect_err("one more");
}
