//! A small log and what is put into it.

use bytes::Bytes;
use mail::{BodyType, ContentFacts, Envelope, Mailbox, MessageId, Notify, Recipient, Wall};
use spool::{
    Accept, Attempt, BlobId, Body, Completion, Disk, Meta, Record, RecoveredMessage,
    RecoveryReport, Request, Settle, SettleKind, Spool, SpoolConfig, SpoolError, Ticket,
};
use std::sync::Arc;

/// Segments of 64 KiB.
pub(crate) fn small() -> SpoolConfig {
    SpoolConfig {
        salt: 99,
        segment_bytes: 64 << 10,
        first_segment_bytes: 64 << 10,
        block_bytes: 512,
        reserve_bytes: 0,
        index_every_bytes: 8 << 10,
        batch_bytes_max: 16 << 10,
        ..SpoolConfig::default()
    }
}

pub(crate) type Opened = (Spool, RecoveryReport, Vec<RecoveredMessage>);

pub(crate) fn open(disk: &dyn Disk, config: SpoolConfig) -> Result<Opened, SpoolError> {
    let mut found = Vec::new();
    let (spool, report) = Spool::open(disk, config, &mut |message| found.push(message))?;
    found.sort_by_key(|message| message.id);
    Ok((spool, report, found))
}

/// Performs all that is to be done.
pub(crate) fn run(spool: &mut Spool, disk: &dyn Disk) -> Vec<(Ticket, Completion)> {
    while let Some(io) = spool.poll_io() {
        let done = io.perform(disk);
        spool.handle_io_done(done);
    }
    std::iter::from_fn(|| spool.poll_completion()).collect()
}

/// Whether the records became durable.
pub(crate) fn submit(spool: &mut Spool, disk: &dyn Disk, records: Vec<Record>) -> bool {
    spool.handle_request(Request::Submit { ticket: Ticket(1), records });
    matches!(run(spool, disk)[..], [(_, Completion::Durable { .. })])
}

pub(crate) fn id(sequence: u64) -> MessageId {
    MessageId::new(0, 0, sequence)
}

/// A message from `a@x.example` to one recipient.
fn message(sequence: u64, body: Body, body_bytes: u64) -> Accept {
    let mailbox = |text: &str| Mailbox::parse(text, true).expect("a good address");
    let to = Recipient { mailbox: mailbox("b@example.net"), notify: Notify::NEVER, orcpt: None };
    Accept {
        id: id(sequence),
        received_at: Wall(sequence),
        envelope: Arc::new(Envelope {
            reverse_path: Some(mailbox("a@x.example")),
            recipients: vec![to],
            body: BodyType::SevenBit,
            smtputf8: false,
            ret: None,
            envid: None,
        }),
        meta: Meta::default(),
        prefix: Bytes::new(),
        body,
        facts: ContentFacts { body_bytes, ..ContentFacts::default() },
    }
}

/// The same with so many octets of memory.
pub(crate) fn plain(sequence: u64, bytes: usize) -> Accept {
    let body = Body::Memory(vec![Bytes::from(vec![sequence as u8; bytes])]);
    message(sequence, body, bytes as u64)
}

pub(crate) fn accept(sequence: u64, bytes: usize) -> Record {
    Record::Accept(Box::new(plain(sequence, bytes)))
}

pub(crate) const BLOB_BYTES: u64 = 5_000;

/// Writes a blob; after this an accept may name it.
pub(crate) fn blob(spool: &mut Spool, disk: &dyn Disk) -> BlobId {
    let blob = BlobId(spool.next_blob());
    let data = Bytes::from(vec![7; BLOB_BYTES as usize]);
    spool.handle_request(Request::BlobAppend { ticket: Ticket(5), blob, data });
    spool.handle_request(Request::BlobSeal { ticket: Ticket(6), blob });
    let answers = run(spool, disk);
    assert!(answers.iter().all(|(_, a)| matches!(a, Completion::BlobDone)), "{answers:?}");
    blob
}

pub(crate) fn accept_blob(sequence: u64, blob: BlobId) -> Record {
    let body = Body::Blob { blob, body_bytes: BLOB_BYTES };
    Record::Accept(Box::new(message(sequence, body, BLOB_BYTES)))
}

pub(crate) fn settle(sequence: u64, how: SettleKind) -> Record {
    settle_one(sequence, 0, how)
}

pub(crate) fn settle_one(sequence: u64, index: u32, how: SettleKind) -> Record {
    Record::Settle(Settle { id: id(sequence), at: Wall(1), recipients: vec![(index, how)] })
}

pub(crate) fn attempt(sequence: u64, attempts: u16) -> Record {
    Record::Attempt(Attempt {
        id: id(sequence),
        at: Wall(1),
        recipients: vec![0],
        attempts,
        next_try: Wall(5),
        reason: "451 4.7.1 mx.example.net said: greylisted, come back later".into(),
    })
}
