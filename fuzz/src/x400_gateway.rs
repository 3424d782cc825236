//! The gateway between X.400 and internet mail: contents, messages and addresses from anything.

use bytes::Bytes;
use x400::content::Content;
use x400::mixer::{
    ConversionContext, Gateway, MailEnvelope, MailRecipient, Mappings, Party, TableKind, Use,
    dsn_to_report, report_to_mail, to_mail, to_x400,
};
use x400::mts::{ContentType, GlobalDomain, Recipient, TransferEnvelope, UtcTime};
use x400::or_name::ber::{OR_NAME, read_name};
use x400::or_name::text::TEXT_BYTES_MAX;
use x400::or_name::{OrAddress, OrName, Value};

fn gateway() -> Gateway {
    let mut mappings = Mappings::default();
    let table = "b.example#O$Beta.PRMD$B.ADMD$ .C$GB#\nO$Beta.PRMD$B.ADMD$ .C$GB#b.example#\n";
    mappings.read(table, TableKind::Mapping).expect("a table");
    let address = OrAddress::parse("/O=gw/PRMD=Example/ADMD= /C=GB/").expect("an address");
    Gateway { address, domain: "gw.example".into(), mappings }
}

fn with_here(check: impl FnOnce(&ConversionContext<'_>)) {
    let gateway = gateway();
    let domain = GlobalDomain { country: "GB".into(), admd: " ".into(), prmd: Some("E".into()) };
    let now = UtcTime::parse(b"261125080000Z").expect("a time");
    check(&ConversionContext {
        gateway: &gateway,
        domain: &domain,
        mta: "relay",
        now,
        local_id: "id",
    });
}

/// Any octets as a content: what is read is written so that it reads the same, and as mail it has one header.
pub fn run_contents(data: &[u8]) {
    let content = Bytes::copy_from_slice(data);
    let Ok(read) = Content::read(&content) else { return };
    let written = Bytes::from(read.encode());
    let again = Content::read(&written).expect("what was written");
    assert_eq!(again.encode(), written);
    with_here(|here| {
        let name = OrName::from(here.gateway.address.clone());
        let recipient = Recipient { name: name.clone(), number: 1, ..Recipient::default() };
        let envelope = TransferEnvelope {
            originator: name,
            content_type: ContentType::P22,
            recipients: vec![recipient],
            ..TransferEnvelope::default()
        };
        let mail = to_mail(here, &envelope, &[0], &content).expect("converted");
        check_mail(&mail.message);
        let _ = to_x400(here, &mail_envelope(&[]), &mail.message);
    });
}

/// A header whose lines are fields, with one MIME-Version, and lines that fit.
fn check_mail(message: &[u8]) {
    let header = mail::header::end(message).expect("a header");
    let fields = &message[..header.fields_end];
    let mut versions = 0;
    for field in mail::header::fields(fields) {
        versions += usize::from(field.is("MIME-Version"));
        let value = field.value;
        assert!(value.is_ascii());
    }
    assert_eq!(versions, 1);
    for line in fields.split(|&octet| octet == b'\n') {
        assert!(line.len() <= 1_000, "{}", line.len());
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

/// Any octets as a message of the internet: what comes of it is a content, and mail again behind another gateway.
pub fn run_mail(message: &[u8]) {
    with_here(|here| {
        let recipients = [MailRecipient {
            party: Party::Mail("bob@b.example"),
            notify: mail::Notify::UNSPECIFIED,
            orcpt: None,
            is_responsible: true,
        }];
        if let Ok((envelope, content)) = to_x400(here, &mail_envelope(&recipients), message) {
            let content = Bytes::from(content);
            Content::read(&content).expect("a content");
            let written = envelope.encode();
            TransferEnvelope::read(&written, envelope.kind, &x400::mts::Limits::default())
                .expect("an envelope");
            // Trace that came with it may say that it is in a loop.
            if let Ok(mail) = to_mail(here, &envelope, &[0], &content) {
                check_mail(&mail.message);
            }
        }
        let dsn = dsn_to_report(here, &here.gateway.address, message);
        if let Some((envelope, content)) = dsn.and_then(|dsn| dsn.report) {
            check_mail(&report_to_mail(here, &envelope, &content).message);
        }
    });
}

/// Any text as an O/R address: what is read is written so that it reads the same, as text and as octets.
pub fn run_addresses(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let gateway = gateway();
    if let Ok(address) = OrAddress::parse(text) {
        let written = address.to_string();
        assert!(!written.chars().any(char::is_control));
        // What is quoted takes more room than it took in octets.
        if written.len() > TEXT_BYTES_MAX {
            return;
        }
        let again = OrAddress::parse(&written).unwrap_or_else(|error| panic!("{written}: {error}"));
        assert_eq!(again.to_string(), written);
        assert!(again.is_same(&address));
        let mut writer = x400::ber::Writer::new();
        OrName::from(address.clone()).encode(&mut writer, OR_NAME);
        // Of two attributes of one type nothing says which has the teletex form.
        let kinds: Vec<_> = address.domain_defined.iter().map(|a| a.kind.to_text()).collect();
        let is_clear = kinds.iter().all(|kind| kinds.iter().filter(|k| *k == kind).count() == 1);
        // Nor which of several units has which forms.
        let forms = |unit: &Value| (unit.printable.is_some(), unit.teletex.is_some());
        let is_whole = address.units.windows(2).all(|pair| forms(&pair[0]) == forms(&pair[1]));
        if let Ok(name) = read_name(writer.as_slice())
            && is_clear
            && is_whole
        {
            assert_eq!(name.address.to_string(), written);
        }
        if let Some(mail) = gateway.to_mail(&address) {
            assert!(mail.bytes().all(|octet| (b' '..0x7f).contains(&octet)));
        }
    }
    if let Some(address) = gateway.to_or_address(text, Use::Other)
        && let Some(mail) = gateway.to_mail(&address)
    {
        let again = gateway.to_or_address(&mail, Use::Other).expect("an address");
        assert_eq!(gateway.to_mail(&again).as_ref(), Some(&mail), "{text}");
    }
}
