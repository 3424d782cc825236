//! A small log, driven to rest after each request.

use crate::setup::plain;
pub(crate) use crate::setup::{attempt, run, settle, settle_one, small, submit};
use spool::memdisk::MemDisk;
use spool::{
    Accept, BlobId, Body, Disk, DiskError, DiskErrorKind, Record, RecoveredMessage, Spool,
    SpoolConfig,
};
use std::io::IoSlice;
use std::sync::{Arc, Mutex, PoisonError};

/// The same, on a disk that will be full.
pub(crate) fn tight() -> SpoolConfig {
    SpoolConfig {
        reserve_bytes: 80 << 10,
        index_every_bytes: 16 << 10,
        compact_step_bytes: 16 << 10,
        ..small()
    }
}

/// Opens the log; which messages were found.
pub(crate) fn open(disk: &dyn Disk, config: SpoolConfig) -> (Spool, Vec<u64>) {
    let mut found = Vec::new();
    let opened = Spool::open(disk, config, &mut |m| found.push(m.id.sequence()));
    found.sort_unstable();
    (opened.expect("opens").0, found)
}

/// Opens the log; what was found.
pub(crate) fn open_all(disk: &dyn Disk, config: SpoolConfig) -> (Spool, Vec<RecoveredMessage>) {
    let mut found = Vec::new();
    let opened = Spool::open(disk, config, &mut |message| found.push(message));
    (opened.expect("opens").0, found)
}

pub(crate) fn accept(n: u64, bytes: usize) -> Vec<Record> {
    vec![Record::Accept(Box::new(plain(n, bytes)))]
}

/// As [`accept`], to so many recipients.
pub(crate) fn accept_many(n: u64, recipients: u32, bytes: usize) -> Vec<Record> {
    let mut accept = plain(n, bytes);
    let envelope = Arc::make_mut(&mut accept.envelope);
    let to = envelope.recipients[0].clone();
    envelope.recipients = vec![to; recipients as usize];
    vec![Record::Accept(Box::new(accept))]
}

pub(crate) fn with_blob(n: u64, blob: BlobId) -> Vec<Record> {
    let body = Body::Blob { blob, body_bytes: 5000 };
    vec![Record::Accept(Box::new(Accept { body, ..plain(n, 5000) }))]
}

/// A log full of mail on a disk without a free byte; how many messages.
pub(crate) fn full(config: &SpoolConfig) -> (MemDisk, Spool, u64) {
    const BYTES: u64 = 600 << 10;
    let disk = MemDisk::new(5, BYTES);
    let (mut spool, _) = open(&disk, config.clone());
    let mut n = 0;
    while submit(&mut spool, &disk, accept(n + 1, 2500)) {
        n += 1;
    }
    disk.set_capacity_bytes(BYTES - disk.free_bytes().expect("a number"));
    (disk, spool, n)
}

/// A disk on which no file may grow while it tells of free space: a quota.
pub(crate) struct Quota<'a> {
    pub(crate) disk: &'a MemDisk,
    pub(crate) told_bytes: Mutex<Option<u64>>,
}

impl<'a> Quota<'a> {
    pub(crate) fn none(disk: &'a MemDisk) -> Quota<'a> {
        Quota { disk, told_bytes: Mutex::default() }
    }

    /// From now on nothing grows, and so much is said to be free.
    pub(crate) fn set(&self, told_bytes: Option<u64>) {
        *self.told_bytes.lock().unwrap_or_else(PoisonError::into_inner) = told_bytes;
    }

    fn told(&self) -> Option<u64> {
        *self.told_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for Quota<'_> {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.disk.list()
    }
    fn length(&self, name: &str) -> Result<u64, DiskError> {
        self.disk.length(name)
    }
    fn create(&self, name: &str) -> Result<(), DiskError> {
        self.disk.create(name)
    }
    fn write_at(&self, name: &str, at: u64, p: &mut [IoSlice<'_>]) -> Result<(), DiskError> {
        let end = at + p.iter().map(|p| p.len() as u64).sum::<u64>();
        if self.told().is_some() && end > self.disk.length(name)? {
            return Err(DiskError::new(DiskErrorKind::Full, "quota exceeded"));
        }
        self.disk.write_at(name, at, p)
    }
    fn read_at(&self, name: &str, at: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        self.disk.read_at(name, at, buffer)
    }
    fn truncate(&self, name: &str, bytes: u64) -> Result<(), DiskError> {
        self.disk.truncate(name, bytes)
    }
    fn sync_data(&self, name: &str) -> Result<(), DiskError> {
        self.disk.sync_data(name)
    }
    fn sync_dir(&self) -> Result<(), DiskError> {
        self.disk.sync_dir()
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.disk.rename(from, to)
    }
    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.disk.remove(name)
    }
    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.told().map_or_else(|| self.disk.free_bytes(), Ok)
    }
}
