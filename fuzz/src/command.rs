//! Commands as the server reads them and as the client writes them: what was read is the same
//! when it is written and read again.

use mail::dsn::xtext;
use mail::{Domain, Envelope, Mailbox, Mono, Reply};
use smtp::client::{ClientEvent, ClientSession, Outgoing, OutgoingRecipient, Output};
use smtp::server::{ContentSink, Need, ServerConfig, ServerSession, Transaction};
use smtp::testing::client;
use std::sync::Arc;

const NOW: Mono = Mono(1_000);

/// The bytes are command lines of one transaction; the server takes every address.
pub fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        addresses(text);
    }
    let Some(first) = transaction(data) else { return };
    let wire = written(&first);
    let Some(second) = transaction(&wire) else {
        panic!("refused: {}", String::from_utf8_lossy(&wire));
    };
    // The client asks for SMTPUTF8 only where something needs it.
    let mut expected = first.envelope.clone();
    expected.smtputf8 = second.envelope.smtputf8;
    assert!(first.envelope.smtputf8 || !second.envelope.smtputf8);
    // Without it domains are written as A-labels (RFC 5890 §2.3.2.1).
    if !second.envelope.smtputf8 {
        let after = second.envelope.reverse_path.iter();
        expected.reverse_path.iter_mut().zip(after).for_each(|(before, after)| same(before, after));
        let after = second.envelope.recipients.iter();
        let recipients = expected.recipients.iter_mut().zip(after);
        recipients.for_each(|(before, after)| same(&mut before.mailbox, &after.mailbox));
    }
    // An ORCPT goes in ASCII, if that is not too long.
    for (before, after) in expected.recipients.iter_mut().zip(&second.envelope.recipients) {
        let mean = |orcpt: &Option<Box<str>>| orcpt.as_deref().and_then(xtext::decode_orcpt);
        let is_wide = before.orcpt.as_ref().is_some_and(|orcpt| !orcpt.is_ascii());
        if is_wide && (after.orcpt.is_none() || mean(&before.orcpt) == mean(&after.orcpt)) {
            before.orcpt = after.orcpt.clone();
        }
    }
    assert_eq!(expected, second.envelope, "{}", String::from_utf8_lossy(&wire));
    assert_eq!(wire, written(&second));
}

/// Takes the other way to write it, if it means the same mailbox.
fn same(before: &mut Mailbox, after: &Mailbox) {
    let ascii = |mailbox: &Mailbox| mailbox.domain().to_ascii().ok();
    if before.local() == after.local() && ascii(before).is_some() && ascii(before) == ascii(after) {
        *before = after.clone();
    }
}

/// What is parsed is parsed alike again.
fn addresses(text: &str) {
    for smtputf8 in [false, true] {
        let Ok(mailbox) = Mailbox::parse(text, smtputf8) else { continue };
        assert_eq!(Mailbox::parse(mailbox.as_str(), smtputf8).as_ref(), Ok(&mailbox));
        assert!(mailbox.local().len() + mailbox.domain_str().len() < mailbox.as_str().len() + 1);
        assert!(mailbox.local_unquoted().len() <= mailbox.local().len());
        assert!(!mailbox.as_str().contains(['\r', '\n', '\0']));
        let domain = mailbox.domain();
        if !mailbox.domain_str().is_empty() {
            assert_eq!(Domain::parse(mailbox.domain_str()).as_ref(), Ok(&domain));
        }
    }
    let Ok(domain) = Domain::parse(text) else { return };
    assert_eq!(Domain::parse(domain.as_str()).as_ref(), Ok(&domain));
    if let Ok(ascii) = domain.to_ascii() {
        assert!(ascii.is_ascii());
        let ascii = Domain::parse(&ascii).unwrap_or_else(|e| panic!("{ascii}: {e}"));
        assert_eq!(ascii.to_ascii().as_deref(), Ok(ascii.as_str()));
    }
}

struct Nowhere;

impl ContentSink for Nowhere {
    fn push(&mut self, _piece: &[u8]) {}
}

/// The transaction that these commands make, if they do: content is added to them.
fn transaction(commands: &[u8]) -> Option<Transaction> {
    let config = ServerConfig { hostname: "mx.example".into(), ..ServerConfig::default() };
    let mut session = ServerSession::new(Arc::new(config), NOW);
    let input = [b"EHLO client.example\r\n", commands, b"BDAT 0 LAST\r\n"].concat();
    let mut rest = &input[..];
    loop {
        let progress = session.handle_input(NOW, rest, &mut Nowhere);
        rest = &rest[progress.consumed..];
        match progress.need {
            Need::Mail(_) => session.answer_mail(NOW, Ok(())),
            Need::Rcpt { number, .. } => session.answer_rcpt(NOW, number, Ok(())),
            Need::Data { .. } => session.answer_data(NOW, Ok(())),
            Need::Message(transaction) => {
                session.answer_message(NOW, Reply::new(250, (2, 0, 0), "Queued"));
                return Some(*transaction);
            }
            Need::Abandon | Need::DataRefused => {}
            Need::Input | Need::Answers | Need::StartTls | Need::Close => return None,
            Need::Login(_) | Need::Xclient(_) => return None,
        }
    }
}

/// MAIL and RCPT as our client writes them to a server that can do everything.
fn written(transaction: &Transaction) -> Vec<u8> {
    let mut session = ClientSession::new(Arc::new(client::config()), NOW);
    let mut pieces = Vec::new();
    let mut write = |session: &mut ClientSession| {
        let mut out = Vec::new();
        session.poll_output(&mut pieces);
        for piece in &pieces {
            if let Output::Bytes { start, end } = *piece {
                out.extend_from_slice(&session.buffer()[start..end]);
            }
        }
        session.handle_written(NOW);
        out
    };
    session.handle_input(NOW, b"220 mx\r\n");
    write(&mut session);
    session.handle_input(
        NOW,
        b"250-mx\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-DSN\r\n250 SIZE\r\n",
    );
    assert_eq!(session.poll_event(), Some(ClientEvent::Ready));
    session.start(NOW, outgoing(&transaction.envelope));
    assert_eq!(session.poll_event(), None, "{:?}", transaction.envelope);
    let mut out = write(&mut session);
    let Some(end) = memmem(&out, b"\r\nDATA\r\n") else { panic!("no DATA") };
    out.truncate(end + 2);
    out
}

fn memmem(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn outgoing(envelope: &Envelope) -> Outgoing {
    let recipients = envelope.recipients.iter().map(|recipient| OutgoingRecipient {
        mailbox: recipient.mailbox.clone(),
        notify: recipient.notify,
        orcpt: recipient.orcpt.clone(),
    });
    let facts = mail::ContentFacts { ends_with_crlf: true, ..mail::ContentFacts::default() };
    Outgoing {
        reverse_path: envelope.reverse_path.clone(),
        recipients: recipients.collect(),
        body: envelope.body,
        smtputf8: envelope.smtputf8,
        ret: envelope.ret,
        envid: envelope.envid.clone(),
        ..client::outgoing(0, facts)
    }
}
