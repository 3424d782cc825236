use super::*;
use crate::x400::acceptance::{self, AcceptanceContext};
use mail::envelope::{BodyType, Envelope, Recipient};
use mail::{ContentFacts, MessageId, Notify, Wall};
use mta::message::Message;
use spool::{Loaded, LoadedBody, Meta};
use std::sync::Arc;
use x400::mts::ApduEvent;
use x400::mts::reader::read_whole;

const CONTENT: &[u8] = b"From: a@example.com\r\n\r\nbody\r\n";

fn config() -> Config {
    let text = "[[listener]]\nkind = \"p1\"\naddress = \"127.0.0.1:0\"\n[x400]\nmta = \"relay\"\n\
         domain = \"/PRMD=Example/ADMD= /C=GB/\"\n\
         gateway = { address = \"/O=gw/PRMD=Example/ADMD= /C=GB/\", domain = \"gw.example.org\" }\n\
         [[x400.peer]]\nname = \"hub\"\nhosts = [\"127.0.0.1\"]\ntheir_name = \"hub\"\ntheir_password = \"x\"\n\
         [[route]]\ndomains = [\"gw.example.org\"]\nx400 = { peer = \"hub\" }\n";
    crate::schema().parse(text, "f.toml").unwrap()
}

fn message(recipients: &[&str]) -> Message {
    let recipient = |text: &&str| Recipient {
        mailbox: Mailbox::parse(text, true).unwrap(),
        notify: Notify::UNSPECIFIED,
        orcpt: None,
    };
    Message::from_loaded(Loaded {
        id: MessageId::new(1, 0, 7),
        received_at: Wall(1_795_329_000_000),
        envelope: Arc::new(Envelope {
            reverse_path: Some(Mailbox::parse("a@example.com", true).unwrap()),
            recipients: recipients.iter().map(recipient).collect(),
            body: BodyType::SevenBit,
            smtputf8: false,
            ret: None,
            envid: None,
        }),
        meta: Meta { fields: Vec::new() },
        prefix: Bytes::new(),
        facts: ContentFacts { body_bytes: CONTENT.len() as u64, ..ContentFacts::default() },
        body: LoadedBody::Memory(Bytes::from_static(CONTENT)),
        last_reason: None,
        overrides: None,
    })
}

const BACK: &str =
    "\"/rfc-822=victim(a)example.com/O=gw/PRMD=Example/ADMD= /C=GB/\"@gw.example.org";
const GOOD: &str = "\"/S=bob/O=far/PRMD=Far/ADMD= /C=GB/\"@gw.example.org";

fn made(recipients: &[&str], indexes: &[u32]) -> Departure {
    let config = config();
    to_apdu(&message(recipients).original(), CONTENT, indexes, config.of::<X400>().unwrap())
        .unwrap()
}

fn refused(departure: &Departure) -> Vec<(u32, String)> {
    departure.refused.iter().map(|(index, why)| (*index, why.status.to_string())).collect()
}

/// Surname or mail of each recipient, its number, and whether the next MTA answers for it.
fn sent(departure: Departure) -> Vec<(u32, bool)> {
    let ApduContent::Made(content) = departure.content else { unreachable!("it is made") };
    let apdu = [&departure.prefix[..], &content].concat();
    let (event, _) = read_whole(&apdu, Limits::default()).unwrap();
    let ApduEvent::Envelope { envelope: Ok(envelope), .. } = event else { unreachable!() };
    envelope.recipients.iter().map(|r| (r.number, r.indicators.is_responsible())).collect()
}

#[test]
fn who_would_come_back_as_internet_mail_is_refused() {
    let departure = made(&[BACK], &[0]);
    assert_eq!(refused(&departure), [(0, "5.7.1".to_owned())]);
}

#[test]
fn who_has_no_or_address_fails_alone() {
    let far = format!("{}@gw.example.org", "_".repeat(200));
    let departure = made(&[&far, GOOD, BACK, "c@gw.example.org"], &[0, 1, 2]);
    assert_eq!(refused(&departure), [(0, "5.5.2".to_owned()), (2, "5.7.1".to_owned())]);
    assert_eq!(sent(departure), [(2, true), (4, false)], "numbers stay");
    // Others' recipients are no matter of this copy.
    let departure = made(&[&far, GOOD], &[1]);
    assert_eq!(refused(&departure), []);
    assert_eq!(sent(departure), [(2, true)]);
}

const MESSAGE: &[u8] = include_bytes!("../../../tests/x400/message_unknown_noncritical.ber");
const USER: &str = "\"/S=bob/O=far/PRMD=Far/ADMD= /C=GB/\"@gw.example.org";

/// A DSN of a stranger, in which Original-Envelope-Id and the returned message name these.
fn dsn(envid: Option<&str>, returned: Option<&str>) -> Vec<u8> {
    let envid = envid.map(|it| format!("Original-Envelope-Id: X400-MTS-Identifier: {it}\r\n"));
    let returned = returned.map(|it| format!("X400-MTS-Identifier: {it}\r\nSubject: Back\r\n"));
    format!(
        "From: <>\r\nContent-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n\
         --b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; x.test\r\n{}\r\n\
         Final-Recipient: rfc822; a@example.com\r\nAction: delivered\r\nStatus: 2.0.0\r\n\r\n\
         --b\r\nContent-Type: text/rfc822-headers\r\n\r\n{}\r\n--b--\r\n",
        envid.unwrap_or_default(),
        returned.unwrap_or_default()
    )
    .into_bytes()
}

/// Whether a DSN to this address becomes a report.
fn is_report(config: &Config, to: &str, dsn: &[u8]) -> bool {
    let mut message = message(&[to]);
    let envelope = Arc::make_mut(&mut message.envelope);
    envelope.reverse_path = None;
    let made = to_apdu(&message.original(), dsn, &[0], config.of::<X400>().unwrap()).unwrap();
    // MTS-APDU ::= CHOICE { message [0] …, probe [2] …, report [1] … }
    made.prefix.first() == Some(&0xa1)
}

#[test]
fn a_dsn_is_a_report_where_it_is_about_what_was_sent_from_here() {
    let config = config();
    let x400 = config.of::<X400>().unwrap();
    x400.gateway.as_ref().unwrap().set_secret([7; 16]);
    let here = ReturnPaths::new(&[7; 16]);
    let (id, other) = ("[/PRMD=Far/ADMD= /C=GB/;1]", "[/PRMD=Far/ADMD= /C=GB/;2]");
    let to = |paths: &ReturnPaths| {
        paths.make(&Mailbox::parse(USER, true).unwrap(), id).unwrap().as_str().to_owned()
    };
    let ours = to(&here);
    assert_eq!(refusal(x400, &Mailbox::parse(&ours, true).unwrap(), false), None);
    assert!(is_report(&config, &ours, &dsn(Some(id), None)));
    assert!(is_report(&config, &ours, &dsn(None, Some(id))), "by a server without DSN");
    // It says what anybody could say.
    for (to, dsn) in [
        (&ours, dsn(Some(other), None)),
        (&ours, dsn(Some(other), Some(id))),
        (&ours, dsn(None, Some(other))),
        (&ours, dsn(None, None)),
        (&USER.to_owned(), dsn(Some(id), Some(id))),
    ] {
        assert!(!is_report(&config, to, &dsn), "{to} {}", String::from_utf8_lossy(&dsn));
    }
    let forged = Mailbox::parse(&to(&ReturnPaths::new(b"other")), true).unwrap();
    assert_eq!(
        refusal(x400, &forged, false).map(|why| why.status.to_string()),
        Some("5.1.3".into())
    );
}

#[test]
fn what_becomes_mail_has_a_return_path_of_ours_and_an_envid_that_every_server_takes() {
    let config = Arc::new(config());
    config.of::<X400>().unwrap().gateway.as_ref().unwrap().set_secret([7; 16]);
    let (event, content) = read_whole(MESSAGE, Limits::default()).unwrap();
    let ApduEvent::Envelope { envelope: Ok(envelope), .. } = event else { unreachable!() };
    for (local, has_envid) in [("a".repeat(32), true), ("=".repeat(32), false)] {
        let identifier = mts::MtsIdentifier { local: local.into(), ..envelope.identifier.clone() };
        let envelope = TransferEnvelope { identifier, ..(*envelope).clone() };
        let original = message(&[USER]).original();
        let question =
            ConversionRequest { original, content: content.clone(), config: Arc::clone(&config) };
        let mail = made_mail(ApduKind::Message, &envelope.encode(), &question).unwrap();
        let MailConversion::Message(mail) = mail else { unreachable!() };
        let path = mail.reverse_path.unwrap();
        let returned = ReturnPaths::new(&[7; 16]).read(&path).expect("it is ours");
        assert!(returned.address.as_str().ends_with("@gw.example.org"), "{path}");
        assert_eq!(mail.envid.is_some(), has_envid, "{:?}", mail.envid);
        let header = String::from_utf8_lossy(&mail.content).into_owned();
        assert!(header.contains("X400-MTS-Identifier: "), "{header}");
    }
}

#[test]
fn another_gateway_s_addresses_are_that_gateway_s() {
    let config = config();
    let x400 = config.of::<X400>().unwrap();
    let to = |text: &str| {
        let name = OrName::from(OrAddress::parse(text).unwrap());
        mailbox(&name, x400).map(|mailbox| mailbox.as_str().to_owned())
    };
    let bob = Some("bob@example.org".to_owned());
    assert_eq!(to("/DD.RFC-822=bob(a)example.org/O=gw/PRMD=Example/ADMD= /C=GB/"), bob);
    assert_eq!(to("/DD.RFC-822=bob(a)example.org/OU1=x/O=GW/PRMD=example/C=gb/"), bob);
    for other in ["/O=zz/PRMD=Whatever/ADMD= /C=GB/", "/O=gw/ADMD=MCI/C=US/", "/PRMD=Example/C=GB/"]
    {
        assert_eq!(to(&format!("/DD.RFC-822=bob(a)example.org{other}")), None, "{other}");
    }
}

#[test]
fn mail_is_signed_where_all_its_authors_are_of_x400() {
    let config = config();
    let gateway = gateway_of(config.of::<X400>().unwrap()).unwrap();
    let of = |from: &str| has_own_authors(format!("{from}\r\n\r\n").as_bytes(), gateway);
    assert!(of(&format!("From: Bob <{USER}>")));
    assert!(of(&format!("From: {USER},\r\n {GOOD}")));
    for other in [
        "From: ceo@example.org".to_owned(),
        format!("From: {USER}, ceo@example.org"),
        format!("From: {USER} <ceo@example.org>"),
        "From: nobody:;".to_owned(),
        "Subject: x".to_owned(),
    ] {
        assert!(!of(&other), "{other}");
    }
}

#[test]
fn results_of_others_don_t_bear_our_name() {
    let ours = Domain::parse("relay.example.org").unwrap();
    let clean =
        |text: &str| String::from_utf8(without_our_name(text.as_bytes().to_vec(), &ours)).unwrap();
    let forged = "Authentication-Results: relay.example.org; dkim=pass\r\n\r\nbody\r\n";
    assert!(
        !clean(forged).contains("\nAuthentication-Results") && clean(forged).ends_with("body\r\n")
    );
    assert!(!clean(forged).starts_with("Authentication-Results"));
    let theirs = "Authentication-Results: other.test; dkim=pass\r\n\r\nbody\r\n";
    assert_eq!(clean(theirs), theirs);
}

#[test]
fn conversions_that_the_gateway_does_not_do_are_refused_where_they_are_asked_for() {
    let text = "[[listener]]\nkind = \"p1\"\naddress = \"127.0.0.1:0\"\n[x400]\nmta = \"relay\"\n\
         domain = \"/PRMD=Example/ADMD= /C=GB/\"\n\
         gateway = { address = \"/O=gw/PRMD=Example/ADMD= /C=GB/\", domain = \"gw.example.org\" }\n\
         [[x400.peer]]\nname = \"hub\"\nhosts = [\"127.0.0.1\"]\ntheir_name = \"hub\"\ntheir_password = \"x\"\n\
         [[route]]\nor_addresses = [\"/PRMD=Far/C=GB/\"]\nx400 = { peer = \"hub\" }\n\
         [[route]]\nor_addresses = [\"/PRMD=Here/C=GB/\"]\ndiscard = {}\n\
         [[route]]\ndomains = [\"example.org\"]\nsmtp = { hosts = [\"127.0.0.1\"] }\n";
    let config = crate::schema().parse(text, "f.toml").unwrap();
    let (event, _) = read_whole(MESSAGE, Limits::default()).unwrap();
    let ApduEvent::Envelope { envelope: Ok(envelope), .. } = event else { unreachable!() };
    let terms = AcceptanceContext {
        x400: config.of::<X400>().unwrap(),
        config: &config,
        recipients_max: 9,
        now: Wall(1_795_329_000_000),
    };
    let refused = |to: &str, explicit_conversion: Option<u32>| {
        let recipient = mts::Recipient {
            name: OrAddress::parse(to).unwrap().into(),
            explicit_conversion,
            ..envelope.recipients[0].clone()
        };
        let envelope = TransferEnvelope { recipients: vec![recipient], ..(*envelope).clone() };
        let accepted = acceptance::of_transfer(&envelope, &envelope.encode(), &terms);
        accepted.foreign.refused.first().map(|(_, why)| why.status.to_string())
    };
    let mail = "/DD.RFC-822=bob(a)example.org/O=gw/PRMD=Example/ADMD= /C=GB/";
    // Teletex to IA5 text is what the gateway does with teletex.
    for done in [None, Some(11)] {
        assert_eq!(refused(mail, done), None, "{done:?}");
    }
    for other in [0, 8, 10, 12, 16, 17, 255] {
        assert_eq!(refused(mail, Some(other)).as_deref(), Some("5.6.3"), "{other}");
        // RFC 2156 §5.1.8.4 makes conversion-impractical of it.
        let why = x400::mixer::status::to_reason(EnhancedStatus::new(5, 6, 3));
        assert_eq!(why, NonDelivery::new(2, 8));
        // Other MTAs may do it, and what is thrown away needs none.
        assert_eq!(refused("/S=x/PRMD=Far/ADMD= /C=GB/", Some(other)), None, "{other}");
        assert_eq!(refused("/S=x/PRMD=Here/ADMD= /C=GB/", Some(other)), None, "{other}");
    }
}
