//! Reports: composed from anything, they have the form of one and say what they were told; read
//! from anything, they make no trouble.

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use mail::dsn::{DsnOutcome, Original, RecipientReport, Report, Success, parse, xtext};
use mail::{
    Class, Culprit, EnhancedStatus, Failure, Mailbox, MessageId, Notify, Recipient, Reply, Step,
    Wall, header,
};

/// The bytes are somebody's report, a text in xtext, and the choices that make a report of ours.
pub fn run(data: &[u8]) {
    read(data);
    if let Ok(text) = std::str::from_utf8(data) {
        escapes(text);
    }
    // Too few bytes make no report.
    let _ = composed(&mut Unstructured::new(data));
}

fn read(data: &[u8]) {
    let status = parse(data);
    let groups = std::iter::once(&status.message).chain(&status.recipients);
    for group in groups {
        let _ = group.status();
        for (name, value) in &group.fields {
            assert!(!value.contains(['\r', '\n']));
            assert!(group.get(name).is_some());
            let _ = group.typed(name);
        }
    }
}

fn escapes(text: &str) {
    assert_eq!(xtext::decode(&xtext::encode(text)).as_deref(), Some(text));
    if let Some(plain) = xtext::decode(text) {
        assert_eq!(xtext::decode(&xtext::encode(&plain)), Some(plain));
    }
    if let Some(envid) = xtext::decode_envid(text) {
        assert!(!envid.contains(['\r', '\n']));
        assert_eq!(xtext::decode_envid(&xtext::encode(&envid)), Some(envid));
    }
    if let Some(original) = xtext::decode_orcpt(text) {
        assert!(!original.address.contains(char::is_control));
        assert!(xtext::is_orcpt(text, true) || text.len() > xtext::ORCPT_BYTES_MAX);
        let encoded = if original.kind.eq_ignore_ascii_case("utf-8") {
            xtext::encode_utf8_address(&original.address)
        } else {
            xtext::encode(&original.address)
        };
        let again = format!("{};{encoded}", original.kind);
        assert!(again.is_ascii());
        assert_eq!(xtext::decode_orcpt(&again), Some(original));
    }
    let address = xtext::encode_utf8_address(text);
    if !text.is_empty() && !text.contains(char::is_control) {
        let decoded = xtext::decode_orcpt(&format!("utf-8;{address}"));
        assert_eq!(decoded.map(|original| original.address).as_deref(), Some(text));
    }
}

fn mailbox(choices: &mut Unstructured) -> Result<Mailbox> {
    let text: &str = choices.arbitrary()?;
    let usual = || Mailbox::parse("ann@a.example", false).expect("a good address");
    Ok(Mailbox::parse(text, true).unwrap_or_else(|_| usual()))
}

fn reply(choices: &mut Unstructured) -> Result<Reply> {
    let text: String = choices.arbitrary()?;
    let code = choices.int_in_range(200..=599)?;
    let enhanced = EnhancedStatus::new(
        *choices.choose(&[2, 4, 5])?,
        choices.int_in_range(0..=999)?,
        choices.int_in_range(0..=999)?,
    );
    let enhanced = choices.arbitrary::<bool>()?.then_some(enhanced);
    Ok(Reply { code, enhanced, text: text.into() })
}

fn failure(choices: &mut Unstructured) -> Result<Failure> {
    let who: Box<str> = choices.arbitrary::<&str>()?.into();
    let culprit = match choices.int_in_range(0..=3)? {
        0 => Culprit::Peer(who),
        1 => Culprit::Network(who),
        2 => Culprit::Dns(who),
        _ => Culprit::Local,
    };
    let class = *choices.choose(&[Class::Transient, Class::Permanent])?;
    let first = if class == Class::Permanent { 5 } else { 4 };
    let status =
        EnhancedStatus::new(first, choices.int_in_range(0..=9)?, choices.arbitrary::<u8>()?.into());
    let reply = if choices.arbitrary()? { Some(reply(choices)?) } else { None };
    let step = if choices.arbitrary()? { Some(Step::RcptTo) } else { None };
    let text = choices.arbitrary::<&str>()?.into();
    Ok(Failure { class, culprit, status, reply, step, text, heard: None })
}

/// What one recipient's report is made of.
struct Parts {
    recipient: Recipient,
    failure: Failure,
    reply: Reply,
    kind: u8,
    time: Wall,
}

fn parts(choices: &mut Unstructured) -> Result<Parts> {
    let orcpt: Option<&str> = choices.arbitrary()?;
    let orcpt = orcpt.filter(|text| xtext::is_orcpt(text, true)).map(Box::from);
    let recipient = Recipient { mailbox: mailbox(choices)?, notify: Notify::FAILURE, orcpt };
    Ok(Parts {
        recipient,
        failure: failure(choices)?,
        reply: reply(choices)?,
        kind: choices.int_in_range(0..=4)?,
        time: wall(choices)?,
    })
}

/// Before the year 10000.
fn wall(choices: &mut Unstructured) -> Result<Wall> {
    Ok(Wall(choices.int_in_range(0..=250_000_000_000_000)?))
}

fn composed(choices: &mut Unstructured) -> Result<()> {
    let to = mailbox(choices)?;
    let smtputf8 = choices.arbitrary()?;
    let envid: Option<&str> = choices.arbitrary()?;
    let envid = envid.filter(|text| xtext::Envid::parse(text).is_some());
    let (arrived, now) = (wall(choices)?, wall(choices)?);
    let (id, report_id) = (MessageId(choices.arbitrary()?), MessageId(choices.arbitrary()?));
    let mut all = vec![parts(choices)?];
    while all.len() < 4 && choices.arbitrary()? {
        all.push(parts(choices)?);
    }
    let recipients: Vec<_> = all.iter().map(recipient_report).collect();
    let full = choices.arbitrary()?;
    let cut: usize = choices.arbitrary::<u8>()?.into();
    let content = choices.bytes(choices.len())?;
    let (start, end) = content.split_at(cut.min(content.len()));
    let pieces = [start, end];
    let original = if full { Original::Full(&pieces) } else { Original::Headers(content) };
    let recipients = &recipients;
    let hostname = "relay.example";
    let report = Report {
        hostname,
        id,
        report_id,
        to: &to,
        envid,
        smtputf8,
        arrived,
        now,
        recipients,
        original,
    };
    check(&report.compose(), &report);
    Ok(())
}

fn recipient_report(parts: &Parts) -> RecipientReport<'_> {
    let success = Success { peer: Some("mx.example[192.0.2.1]:25"), reply: Some(&parts.reply) };
    let outcome = match parts.kind {
        0 => DsnOutcome::Failed(&parts.failure),
        1 => DsnOutcome::Delayed { failure: &parts.failure, retry_until: parts.time },
        2 => DsnOutcome::Delivered(success),
        3 => DsnOutcome::Relayed(success),
        _ => DsnOutcome::Expanded,
    };
    RecipientReport { recipient: &parts.recipient, outcome, last_attempt: Some(parts.time) }
}

fn check(content: &[u8], report: &Report) {
    let text = String::from_utf8_lossy(content);
    for line in content.split_inclusive(|b| *b == b'\n') {
        let line = line.strip_suffix(b"\r\n").unwrap_or_else(|| panic!("no CRLF in {text}"));
        assert!(line.len() <= 998, "a line of {} bytes in {text}", line.len());
        assert!(!line.contains(&b'\r') && !line.contains(&0), "{text}");
    }
    let end = header::end(content).expect("a header");
    let names: Vec<_> = header::fields(content).map(|field| field.name.to_vec()).collect();
    for name in ["From", "To", "Subject", "Date", "Message-ID", "Content-Type", "MIME-Version"] {
        let count = names.iter().filter(|n| n.eq_ignore_ascii_case(name.as_bytes())).count();
        assert_eq!(count, 1, "{name} in {text}");
    }
    assert!(content[..end.fields_end].is_ascii() || report.needs_smtputf8() || report.smtputf8);
    let kind = header::find(content, "Content-Type").expect("there").unfolded().into_owned();
    let kind = String::from_utf8(kind).expect("ASCII");
    let boundary = kind.split('"').nth(1).expect("a boundary");
    let delimiter = format!("\r\n--{boundary}");
    let parts: Vec<&[u8]> = split(content, delimiter.as_bytes());
    assert_eq!(parts.len(), 5, "preamble, three parts and the end in {text}");
    assert_eq!(parts[4], b"--\r\n");
    let part = parts[2].strip_prefix(b"\r\n").expect("a line end");
    let end = header::end(part).expect("a header");
    let status = parse(&part[end.body_start..]);
    assert_eq!(status.message.get("X-Postrider-Id"), Some(&*report.id.to_string()), "{text}");
    assert_eq!(status.recipients.len(), report.recipients.len(), "{text}");
    for (group, told) in status.recipients.iter().zip(report.recipients) {
        assert_eq!(group.get("Action"), Some(told.outcome.action()), "{text}");
        assert_eq!(group.status(), Some(told.outcome.status()), "{text}");
        let (_, address) = group.typed("Final-Recipient").expect("an address");
        assert_eq!(address, told.recipient.mailbox.as_str(), "{text}");
    }
}

fn split<'a>(content: &'a [u8], delimiter: &[u8]) -> Vec<&'a [u8]> {
    let (mut parts, mut rest) = (Vec::new(), content);
    while let Some(at) = rest.windows(delimiter.len()).position(|window| window == delimiter) {
        parts.push(&rest[..at]);
        rest = &rest[at + delimiter.len()..];
    }
    parts.push(rest);
    parts
}
