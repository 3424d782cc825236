//! A small log on a disk in memory, and messages for it.

use bytes::Bytes;
use mail::{BodyType, ContentFacts, Envelope, Mailbox, MessageId, Notify, Recipient, Wall};
use spool::memdisk::MemDisk;
use spool::{
    Accept, Body, Completion, Disk, Meta, Record, RecoveredMessage, RecoveryReport, Request, Spool,
    SpoolConfig, Ticket,
};
use std::sync::Arc;

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

pub(crate) fn open(
    disk: &MemDisk,
    config: SpoolConfig,
) -> (Spool, RecoveryReport, Vec<RecoveredMessage>) {
    let mut found = Vec::new();
    let (spool, report) = Spool::open(disk, config, &mut |m| found.push(m)).expect("opens");
    found.sort_by_key(|m| m.id);
    (spool, report, found)
}

pub(crate) fn run(spool: &mut Spool, disk: &MemDisk) -> Vec<(Ticket, Completion)> {
    let mut all = Vec::new();
    while let Some(io) = spool.poll_io() {
        let done = io.perform(disk);
        spool.handle_io_done(done);
    }
    while let Some(answer) = spool.poll_completion() {
        all.push(answer);
    }
    all
}

pub(crate) fn submit(spool: &mut Spool, disk: &MemDisk, records: Vec<Record>) {
    spool.handle_request(Request::Submit { ticket: Ticket(1), records });
    let answers = run(spool, disk);
    assert!(matches!(answers[..], [(Ticket(1), Completion::Durable { .. })]), "{answers:?}");
}

pub(crate) fn load(spool: &mut Spool, disk: &MemDisk, id: MessageId) -> Completion {
    spool.handle_request(Request::Load { ticket: Ticket(2), id, bytes_max: u64::MAX });
    run(spool, disk).pop().expect("an answer").1
}

pub(crate) fn plain(sequence: u64, bytes: usize) -> Accept {
    let mailbox = |text: &str| Mailbox::parse(text, true).expect("good");
    let to = Recipient { mailbox: mailbox("b@example.net"), notify: Notify::NEVER, orcpt: None };
    Accept {
        id: MessageId::new(0, 0, sequence),
        received_at: Wall(sequence),
        envelope: Arc::new(Envelope {
            reverse_path: None,
            recipients: vec![to],
            body: BodyType::SevenBit,
            smtputf8: false,
            ret: None,
            envid: None,
        }),
        meta: Meta::default(),
        prefix: Bytes::new(),
        body: Body::Memory(vec![Bytes::from(vec![sequence as u8; bytes])]),
        facts: ContentFacts { body_bytes: bytes as u64, ..ContentFacts::default() },
    }
}

/// Sixty messages in several segments, one to a batch.
pub(crate) fn filled(seed: u64) -> (MemDisk, usize) {
    let disk = MemDisk::new(seed, 1 << 30);
    let (mut spool, _, _) = open(&disk, small());
    for sequence in 1..=60 {
        submit(&mut spool, &disk, vec![Record::Accept(Box::new(plain(sequence, 3_000)))]);
    }
    assert!(spool.status().segments_count >= 3);
    (disk, 60)
}

pub(crate) fn segment_names(disk: &MemDisk) -> Vec<String> {
    let mut names = disk.list().expect("lists");
    names
        .retain(|name| name.ends_with(".segment") && disk.content(name).is_some_and(|c| c[0] != 0));
    names
}
