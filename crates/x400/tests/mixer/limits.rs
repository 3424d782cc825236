//! What one message costs at most, whatever it consists of. Where time is meant, a test would take minutes if each octet
//! were looked at once for each other one.

use crate::{World, apdu, mail_envelope, recipient};
use bytes::Bytes;
use x400::content::{
    BODY_PARTS_MAX, BodyPart, Content, Heading, Ipm, RecipientSpecifier, file_transfer,
};
use x400::mixer::{ALL_PARTS_MAX, ELEMENTS_MAX, ITEMS_MAX, to_mail, to_x400};
use x400::reasons::Cause;

const MEGABYTES: usize = 4_000_000;

fn read(message: &str) -> Ipm {
    let (_, content) = World::new().to_x400(message.as_bytes());
    match Content::read(&content) {
        Ok(Content::Message(ipm)) => *ipm,
        other => panic!("{other:?}"),
    }
}

/// Addresses and identifiers of all its headings.
fn items(ipm: &Ipm) -> usize {
    let heading = &ipm.heading;
    let within = ipm.body.iter().map(|part| match part {
        BodyPart::Message(message) => items(&message.ipm),
        _ => 0,
    });
    heading.primary_recipients.len()
        + heading.copy_recipients.len()
        + heading.reply_recipients.len()
        + heading.related.len()
        + heading.obsoleted.len()
        + within.sum::<usize>()
}

/// Fields that went along as text.
fn fields_of(heading: &Heading) -> Vec<String> {
    heading.extensions.iter().filter_map(file_transfer::read_field_list).flatten().collect()
}

fn cause(message: &str) -> Option<Cause> {
    let recipients = [recipient("Bob@beta.example", true)];
    let world = World::new();
    let made = to_x400(&world.here(), &mail_envelope(&recipients), message.as_bytes());
    made.err().map(|error| error.cause)
}

#[test]
fn addresses_and_identifiers_are_counted_over_all_fields() {
    let to = format!("To: {}\r\n", vec!["a@b.example"; 1_000].join(","));
    let references = format!("References: {}\r\n", "<a@b.example>".repeat(1_000));
    for field in [&to, &references, &to.replace("To:", "Reply-To:")] {
        let ipm = read(&format!("{}\r\nbody\r\n", field.repeat(12)));
        assert_eq!(items(&ipm), ITEMS_MAX);
        let rest = fields_of(&ipm.heading);
        assert_eq!(rest.len(), 2);
        assert!(rest.iter().all(|kept| *kept == field.trim_end()), "carried whole");
    }
}

#[test]
fn addresses_of_messages_within_count_too() {
    let to = format!("To: {}\r\n", vec!["a@b.example"; 1_000].join(","));
    let inner = format!("--x\r\nContent-Type: message/rfc822\r\n\r\n{to}\r\nbody\r\n");
    let message = format!(
        "{to}Content-Type: multipart/mixed; boundary=x\r\n\r\n{}--x--\r\n",
        inner.repeat(12)
    );
    let ipm = read(&message);
    assert_eq!(items(&ipm), ITEMS_MAX);
    let Some(BodyPart::Message(last)) = ipm.body.last() else { panic!("a message") };
    assert_eq!(fields_of(&last.ipm.heading), [to.trim_end()]);
}

#[test]
fn body_parts_are_counted_over_all_multiparts() {
    let message = |of_the_last: usize| {
        let inner = |parts: usize| {
            let parts = "--y\r\n\r\nz\r\n".repeat(parts);
            format!("--x\r\nContent-Type: multipart/mixed; boundary=y\r\n\r\n{parts}--y--\r\n")
        };
        let all = [inner(999).repeat(9), inner(of_the_last)].concat();
        format!("Content-Type: multipart/mixed; boundary=x\r\n\r\n{all}--x--\r\n")
    };
    assert_eq!(ALL_PARTS_MAX, 10_000, "the numbers of this test");
    assert_eq!(cause(&message(999)), None);
    assert_eq!(cause(&message(1_000)), Some(Cause::ConversionImpractical));
}

#[test]
fn commas_within_angle_brackets_are_looked_at_once() {
    let commas = ",".repeat(MEGABYTES);
    for list in
        [commas.clone(), format!("<{commas}"), format!("<{commas}>"), ":<".repeat(MEGABYTES / 2)]
    {
        let ipm = read(&format!("To: {list}\r\n\r\nbody\r\n"));
        assert_eq!(items(&ipm), 0);
    }
}

#[test]
fn encoded_words_without_an_end_are_looked_at_once() {
    let ipm = read(&format!("Subject: {}\r\n\r\nbody\r\n", "=?a?q? ".repeat(MEGABYTES / 7)));
    assert!(ipm.heading.subject.is_some());
}

fn as_mail(ipm: Ipm) -> Result<Vec<u8>, Cause> {
    let world = World::new();
    let content = Bytes::from(Content::Message(Box::new(ipm)).encode());
    let (envelope, _) = apdu("py_message");
    let made = to_mail(&world.here(), &envelope, &[0], &content);
    made.map(|mail| mail.message).map_err(|error| error.cause)
}

/// What is written can be read: the same bound holds both ways.
#[test]
fn a_body_has_as_many_parts_as_may_be_read_again() {
    let part = BodyPart::Ia5 { repertoire: Some(5), text: Bytes::from_static(b"x") };
    for (parts, is_read) in
        [(1_024, true), (1_025, true), (BODY_PARTS_MAX, true), (BODY_PARTS_MAX + 1, false)]
    {
        let body = vec![part.clone(); parts];
        let made = as_mail(Ipm { heading: Heading::default(), body });
        assert_eq!(made.is_ok(), is_read, "{parts}: {:?}", made.err());
    }
    let inner = format!(
        "--x\r\nContent-Type: multipart/mixed; boundary=y\r\n\r\n{}--y--\r\n",
        "--y\r\n\r\nz\r\n".repeat(999)
    );
    let most =
        format!("Content-Type: multipart/mixed; boundary=x\r\n\r\n{}--x--\r\n", inner.repeat(9));
    assert!(as_mail(read(&most)).is_ok());
}

#[test]
fn blanks_of_a_subject_are_looked_at_once() {
    let subject = format!("a{}b", " ".repeat(MEGABYTES));
    let heading = Heading { subject: Some(subject.into()), ..Heading::default() };
    as_mail(Ipm { heading, body: Vec::new() }).expect("converted");
}

#[test]
fn boundaries_that_somebody_guessed_cost_two_looks() {
    let guessed: String = (0..MEGABYTES / 16).map(|n| format!("=_id1.{n}\r\n")).collect();
    let text = BodyPart::Ia5 { repertoire: Some(5), text: Bytes::from(guessed) };
    as_mail(Ipm { heading: Heading::default(), body: vec![text.clone(), text] })
        .expect("converted");
}

#[test]
fn a_content_of_too_many_elements_is_not_converted() {
    let specifier = RecipientSpecifier::default();
    let list = vec![specifier; 32_767];
    let heading = |lists: usize| Heading {
        primary_recipients: list.clone(),
        copy_recipients: if lists > 1 { list.clone() } else { Vec::new() },
        ..Heading::default()
    };
    as_mail(Ipm { heading: heading(2), body: Vec::new() }).expect("converted");
    let within = |heading: Heading| {
        let ipm = Ipm { heading, body: Vec::new() };
        BodyPart::Message(Box::new(x400::content::Forwarded { ipm, ..Default::default() }))
    };
    let many = vec![within(heading(2)); ELEMENTS_MAX / 65_000];
    let made = as_mail(Ipm { heading: Heading::default(), body: many });
    assert_eq!(made.err(), Some(Cause::ConversionImpractical));
}

#[test]
fn what_is_no_element_within_a_part_that_nobody_reads_hinders_nothing() {
    // A constructed element with octets in it that end nothing.
    let part = BodyPart::Other(Bytes::from_static(&[0xBD, 4, 0x24, 2, 0, 0]));
    as_mail(Ipm { heading: Heading::default(), body: vec![part] }).expect("converted");
}
