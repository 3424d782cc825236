//! MIXER: mail through X.400 and back, messages of X.400 as mail, reports both ways (RFC 2156, RFC 2157).

mod from_x400;
mod limits;
mod reports;
mod through;

use bytes::Bytes;
use mail::Notify;
use x400::content::Content;
use x400::mixer::{
    ConversionContext, Gateway, MailEnvelope, MailRecipient, Mappings, Party, TableKind, to_x400,
};
use x400::mts::reader::read_whole;
use x400::mts::{ApduEvent, GlobalDomain, Limits, TransferEnvelope, UtcTime};
use x400::or_name::OrAddress;

/// A gateway, and what it needs to convert.
struct World {
    gateway: Gateway,
    domain: GlobalDomain,
}

impl World {
    fn new() -> World {
        let mut mappings = Mappings::default();
        let table = "beta.example#O$Beta.PRMD$TestB.ADMD$ .C$GB#\nO$Beta.PRMD$TestB.ADMD$ .C$GB#beta.example#\n";
        mappings.read(table, TableKind::Mapping).expect("a table");
        let address = OrAddress::parse("/O=gw/PRMD=Example/ADMD= /C=GB/").expect("an address");
        World {
            gateway: Gateway { address, domain: "gw.example.org".into(), mappings },
            domain: GlobalDomain {
                country: "GB".into(),
                admd: " ".into(),
                prmd: Some("Example".into()),
            },
        }
    }

    fn here(&self) -> ConversionContext<'_> {
        let now = UtcTime::parse(b"261125080000Z").expect("a time");
        ConversionContext {
            gateway: &self.gateway,
            domain: &self.domain,
            mta: "relay",
            now,
            local_id: "id-1",
        }
    }

    /// A message to bob and to somebody of the internet, of whom the gateway has only bob.
    fn to_x400(&self, message: &[u8]) -> (TransferEnvelope, Bytes) {
        let recipients =
            [recipient("Bob@beta.example", true), recipient("other@example.net", false)];
        let (envelope, content) =
            to_x400(&self.here(), &mail_envelope(&recipients), message).expect("converted");
        Content::read(&Bytes::from(content.clone())).expect("a content");
        (envelope, content.into())
    }
}

fn recipient(mail: &str, is_responsible: bool) -> MailRecipient<'_> {
    MailRecipient {
        party: Party::Mail(mail),
        notify: Notify::UNSPECIFIED,
        orcpt: None,
        is_responsible,
    }
}

fn mail_envelope<'a>(recipients: &'a [MailRecipient<'a>]) -> MailEnvelope<'a> {
    MailEnvelope {
        originator: Some(Party::Mail("alice@example.com")),
        recipients,
        envid: None,
        returns_content: true,
        priority: mail::Priority::NORMAL,
    }
}

/// What others made.
#[allow(clippy::disallowed_methods)]
fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/apdus/golden/{name}.ber", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn apdu(name: &str) -> (TransferEnvelope, Bytes) {
    match read_whole(&file(name), Limits::default()) {
        Ok((ApduEvent::Envelope { envelope: Ok(envelope), .. }, content)) => (*envelope, content),
        other => panic!("{name}: {other:?}"),
    }
}
