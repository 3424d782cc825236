use super::*;
use mail::envelope::{BodyType, Envelope, Recipient};
use mail::{ContentFacts, MessageId, Notify, Wall};
use spool::{Loaded, LoadedBody, Meta};
use std::sync::Arc;
use x400::mts::ApduEvent;
use x400::mts::reader::read_whole;

const CONTENT: &[u8] = b"From: a@example.com\r\n\r\nbody\r\n";

fn config() -> Config {
    let text = "[[listener]]\nkind = \"p1\"\naddress = \"127.0.0.1:0\"\n[x400]\nmta = \"relay\"\n\
         domain = \"/PRMD=Example/ADMD= /C=GB/\"\n\
         gateway = { address = \"/O=gw/PRMD=Example/ADMD= /C=GB/\", domain = \"gw.example.org\" }\n\
         [[x400.peer]]\nname = \"hub\"\nhosts = [\"127.0.0.1\"]\ntheir_name = \"hub\"\n\
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
    to_apdu(&message(recipients), CONTENT, indexes, config.x400.as_ref().unwrap()).unwrap()
}

fn refused(departure: &Departure) -> Vec<(u32, String)> {
    departure.refused.iter().map(|(index, why)| (*index, why.status.to_string())).collect()
}

/// Surname or mail of each recipient, its number, and whether the next MTA answers for it.
fn sent(departure: Departure) -> Vec<(u32, bool)> {
    let Content::Made(content) = departure.content else { unreachable!("it is made") };
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
