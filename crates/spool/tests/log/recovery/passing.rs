//! A sector that can't be read from some moment of a start on, and can at the next one: what lies in
//! it is not lost, and nothing is handed over twice.

use crate::setup::{accept, open, small, submit};
use spool::memdisk::MemDisk;
use spool::{Disk, DiskError, DiskErrorKind};
use std::collections::BTreeSet;
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};

const MESSAGES: u64 = 40;

/// A disk of which a sector can't be read any more after so many reads.
struct Failing<'a> {
    disk: &'a MemDisk,
    file: &'a str,
    sector: u64,
    after: u64,
    reads: AtomicU64,
}

impl Disk for Failing<'_> {
    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let is_bad = self.reads.fetch_add(1, Ordering::Relaxed) >= self.after;
        let (from, to) = (offset / 512, (offset + buffer.len() as u64).div_ceil(512));
        if is_bad && name == self.file && (from..to).contains(&self.sector) {
            return Err(DiskError::new(DiskErrorKind::Failed, "a sector is bad"));
        }
        self.disk.read_at(name, offset, buffer)
    }

    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.disk.list()
    }

    fn length(&self, name: &str) -> Result<u64, DiskError> {
        self.disk.length(name)
    }

    fn create(&self, name: &str) -> Result<(), DiskError> {
        self.disk.create(name)
    }

    fn write_at(
        &self,
        name: &str,
        offset: u64,
        pieces: &mut [IoSlice<'_>],
    ) -> Result<(), DiskError> {
        self.disk.write_at(name, offset, pieces)
    }

    fn truncate(&self, name: &str, length_bytes: u64) -> Result<(), DiskError> {
        self.disk.truncate(name, length_bytes)
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
        self.disk.free_bytes()
    }
}

fn filled() -> MemDisk {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _, _) = open(&disk, small()).expect("opens");
    for sequence in 1..=MESSAGES {
        assert!(submit(&mut spool, &disk, vec![accept(sequence, 3_000)]));
    }
    disk
}

fn copy_of(disk: &MemDisk) -> MemDisk {
    let copy = MemDisk::new(1, 1 << 30);
    for name in disk.list().expect("lists") {
        copy.put(&name, disk.content(&name).expect("is there"));
    }
    copy
}

#[test]
fn a_sector_that_goes_bad_amid_a_start_costs_nothing_that_can_be_read_again() {
    let filled = filled();
    let mut segments = filled.list().expect("lists");
    let is_used = |name: &String| filled.content(name).is_some_and(|content| content[0] != 0);
    segments.retain(|name| name.ends_with(".segment") && is_used(name));
    segments.sort();
    assert!(segments.len() >= 3);
    let (mut missing_count, mut failed_count) = (0, 0);
    // One that has its index, and the one that the start itself gives one.
    for file in [&segments[0], &segments[segments.len() - 1]] {
        for sector in (0..128).step_by(3) {
            for after in 0.. {
                let disk = copy_of(&filled);
                let reads = AtomicU64::new(0);
                let failing = Failing { disk: &disk, file, sector, after, reads };
                match open(&failing, small()) {
                    Ok((_, report, found)) => {
                        let ids: BTreeSet<u64> = found.iter().map(|m| m.id.0).collect();
                        assert_eq!(ids.len(), found.len(), "{file} {sector} {after}: twice");
                        assert_eq!(report.live_count, found.len() as u64);
                        missing_count += u64::from(found.len() as u64 != MESSAGES);
                    }
                    Err(_) => failed_count += 1,
                }
                let (_, _, found) = open(&disk, small()).expect("opens");
                let ids = found.iter().map(|message| message.id.sequence());
                assert!(ids.eq(1..=MESSAGES), "{file} {sector} {after}: {}", found.len());
                if failing.reads.load(Ordering::Relaxed) <= after {
                    break;
                }
            }
        }
    }
    assert!(missing_count > 10 && failed_count > 10, "{missing_count} {failed_count}");
}
