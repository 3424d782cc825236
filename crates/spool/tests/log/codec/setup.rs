//! A small log on a disk in memory, and messages for it.

pub(crate) use crate::setup::{plain, run, small};
use mail::MessageId;
use spool::memdisk::MemDisk;
use spool::{
    Completion, Disk, Record, RecoveredMessage, RecoveryReport, Request, Spool, SpoolConfig, Ticket,
};

pub(crate) fn open(
    disk: &MemDisk,
    config: SpoolConfig,
) -> (Spool, RecoveryReport, Vec<RecoveredMessage>) {
    let mut found = Vec::new();
    let (spool, report) = Spool::open(disk, config, &mut |m| found.push(m)).expect("opens");
    found.sort_by_key(|m| m.id);
    (spool, report, found)
}

pub(crate) fn submit(spool: &mut Spool, disk: &MemDisk, records: Vec<Record>) {
    assert!(crate::setup::submit(spool, disk, records));
}

pub(crate) fn load(spool: &mut Spool, disk: &MemDisk, id: MessageId) -> Completion {
    spool.handle_request(Request::Load { ticket: Ticket(2), id, bytes_max: u64::MAX });
    run(spool, disk).pop().expect("an answer").1
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
