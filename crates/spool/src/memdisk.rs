//! A disk in memory that fails as disks do, for tests and the simulator.
//!
//! It keeps written and synced data apart. A crash decides for each sector written since the last sync if it arrived,
//! and for the names how many of the last changes did. Sectors of 512 bytes arrive whole or not at all. All decisions
//! come from a seed.

mod sectors;

use crate::disk::{Disk, DiskError, DiskErrorKind};
use mail::Random;
use sectors::Sectors;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SECTOR: usize = 512;

/// Fault rates, in thousandths of the operations of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A sync fails; a random part of its data is on the disk anyway.
    pub sync_permille: u32,
    /// A write fails after a random part.
    pub write_permille: u32,
    /// Permille of reads that fail; a repeated read may succeed.
    pub read_permille: u32,
    /// A read returns less than requested.
    pub short_read_permille: u32,
    /// A write or sync finds the disk full, as on copy-on-write file systems; a random part may have arrived.
    pub full_permille: u32,
    /// A file cannot be opened, made, renamed or removed because descriptors or memory are exhausted.
    pub scarce_permille: u32,
}

/// A directory of files in memory.
#[derive(Debug)]
pub struct MemDisk {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Names as the running system sees them.
    names: BTreeMap<String, Arc<Mutex<Inode>>>,
    /// Names on stable storage.
    durable: BTreeMap<String, Arc<Mutex<Inode>>>,
    /// Changes of names since the last sync of the directory, in order.
    changes: Vec<DirectoryChange>,
    random: Random,
    faults: Faults,
    capacity_bytes: u64,
    /// Operations until the lights go out.
    fuse: Option<u64>,
    /// Operations before the next failure, its kind, and true if all later operations fail too.
    failure: Option<(u64, DiskErrorKind, bool)>,
    operations_count: u64,
    syncs_count: u64,
    written_bytes: u64,
}

#[derive(Debug)]
enum DirectoryChange {
    Link(String, Arc<Mutex<Inode>>),
    Rename(String, String),
    Remove(String),
}

#[derive(Debug, Default)]
struct Inode {
    /// As visible to the running system.
    content: Vec<u8>,
    /// As on stable storage.
    synced: Vec<u8>,
    /// Sectors written since the last sync.
    dirty: Sectors,
    /// It was cut since the last sync.
    is_cut: bool,
    /// Sectors that are unreadable until they are written.
    unreadable: BTreeSet<usize>,
}

fn failed(what: &str) -> DiskError {
    DiskError::new(DiskErrorKind::Failed, what)
}

fn full() -> DiskError {
    DiskError::new(DiskErrorKind::Full, "no space left on device")
}

fn not_found(name: &str) -> DiskError {
    DiskError::new(DiskErrorKind::NotFound, format!("{name}: file not found"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Appends zeros up to that length. An empty file gets them from the allocator, without a write.
fn grow(content: &mut Vec<u8>, length: usize) {
    if content.is_empty() {
        *content = vec![0; length];
    } else if content.len() < length {
        content.extend_from_slice(&vec![0; length - content.len()]);
    }
}

impl Inode {
    fn sync(&mut self) {
        self.synced.truncate(self.content.len());
        grow(&mut self.synced, self.content.len());
        self.is_cut = false;
        for run in std::mem::take(&mut self.dirty).into_runs() {
            self.keep(run);
        }
    }

    /// These sectors arrive.
    fn keep(&mut self, sectors: Range<usize>) {
        let from = sectors.start * SECTOR;
        let to = (sectors.end * SECTOR).min(self.content.len());
        grow(&mut self.synced, to);
        if let (Some(to), Some(from)) = (self.synced.get_mut(from..to), self.content.get(from..to))
        {
            to.copy_from_slice(from);
        }
    }

    /// A random part of the unsynced data arrives: a run from the front, single sectors, nothing, or all.
    fn keep_part(&mut self, random: &mut Random) {
        let dirty: Vec<usize> = std::mem::take(&mut self.dirty).into_runs().flatten().collect();
        let run = random.below(dirty.len() as u64 + 1) as usize;
        let how = random.below(4);
        if std::mem::take(&mut self.is_cut) && random.below(2) == 0 {
            self.synced.truncate(self.content.len());
        }
        for (at, sector) in dirty.into_iter().enumerate() {
            let arrives = match how {
                0 => false,
                1 => true,
                2 => at < run,
                _ => random.below(2) == 0,
            };
            if arrives {
                self.keep(sector..sector + 1);
            }
        }
        self.content = self.synced.clone();
    }
}

impl State {
    fn step(&mut self) -> Result<(), DiskError> {
        self.operations_count += 1;
        if let Some((left, kind, forever)) = &mut self.failure {
            if *left == 0 {
                let kind = *kind;
                if !*forever {
                    self.failure = None;
                }
                return Err(DiskError::new(kind, "injected failure"));
            }
            *left -= 1;
        }
        match &mut self.fuse {
            Some(0) => Err(failed("the machine has crashed")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns an error if no descriptor is free.
    fn open(&mut self) -> Result<(), DiskError> {
        if self.random.hits(self.faults.scarce_permille) {
            return Err(DiskError::new(DiskErrorKind::Scarce, "too many open files"));
        }
        Ok(())
    }

    fn inode(&self, name: &str) -> Result<Arc<Mutex<Inode>>, DiskError> {
        self.names.get(name).cloned().ok_or_else(|| not_found(name))
    }

    fn used_bytes(&self) -> u64 {
        self.names.values().map(|inode| lock(inode).content.len() as u64).sum()
    }
}

fn apply(names: &mut BTreeMap<String, Arc<Mutex<Inode>>>, change: DirectoryChange) {
    match change {
        DirectoryChange::Link(name, inode) => {
            names.insert(name, inode);
        }
        DirectoryChange::Rename(from, to) => {
            if let Some(inode) = names.remove(&from) {
                names.insert(to, inode);
            }
        }
        DirectoryChange::Remove(name) => {
            names.remove(&name);
        }
    }
}

impl MemDisk {
    /// An empty disk of that size, without faults.
    #[must_use]
    pub fn new(seed: u64, capacity_bytes: u64) -> MemDisk {
        let state = State { random: Random::new(seed), capacity_bytes, ..State::default() };
        MemDisk { state: Mutex::new(state) }
    }

    /// Sets the fault rates from now on.
    pub fn set_faults(&self, faults: Faults) {
        lock(&self.state).faults = faults;
    }

    /// Changes the size of the disk.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        lock(&self.state).capacity_bytes = capacity_bytes;
    }

    /// Lets all operations fail after this many, until [`MemDisk::crash`].
    pub fn set_fuse(&self, operations_count: u64) {
        lock(&self.state).fuse = Some(operations_count);
    }

    /// Lets one operation fail after this many, or with `forever` all.
    pub fn set_failure(&self, operations_count: u64, kind: DiskErrorKind, forever: bool) {
        lock(&self.state).failure = Some((operations_count, kind, forever));
    }

    /// Cancels the requested failure; returns true if it was still pending.
    pub fn clear_failure(&self) -> bool {
        lock(&self.state).failure.take().is_some()
    }

    /// The fuse has blown.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        lock(&self.state).fuse == Some(0)
    }

    /// Number of operations since creation, including failed ones.
    #[must_use]
    pub fn operations_count(&self) -> u64 {
        lock(&self.state).operations_count
    }

    /// Bytes written to files so far.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        lock(&self.state).written_bytes
    }

    /// Successful syncs of files so far.
    #[must_use]
    pub fn syncs_count(&self) -> u64 {
        lock(&self.state).syncs_count
    }

    /// Simulates a power loss: unsynced writes are stored in part, and unsynced names up to some change. The disk works
    /// again afterwards.
    pub fn crash(&self) {
        let state = &mut *lock(&self.state);
        let count = state.random.below(state.changes.len() as u64 + 1) as usize;
        for change in std::mem::take(&mut state.changes).into_iter().take(count) {
            apply(&mut state.durable, change);
        }
        for inode in state.durable.values() {
            lock(inode).keep_part(&mut state.random);
        }
        state.names = state.durable.clone();
        state.fuse = None;
    }

    /// Simulates the death of the process while the machine runs on: all writes are present.
    pub fn kill(&self) {
        lock(&self.state).fuse = None;
    }

    /// Flips a bit in a file, on the disk and in later reads. Returns `false` if the byte does not exist.
    pub fn flip_bit(&self, name: &str, bit: u64) -> bool {
        let state = lock(&self.state);
        let Ok(inode) = state.inode(name) else { return false };
        let mut inode = lock(&inode);
        let (byte, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        let Some(place) = inode.content.get_mut(byte) else { return false };
        *place ^= mask;
        if let Some(place) = inode.synced.get_mut(byte) {
            *place ^= mask;
        }
        true
    }

    /// Makes the sector at `offset` of a file unreadable until it is written. Returns `false` if the file does not
    /// exist.
    pub fn set_unreadable(&self, name: &str, offset: u64) -> bool {
        let Ok(inode) = lock(&self.state).inode(name) else { return false };
        lock(&inode).unreadable.insert(offset as usize / SECTOR)
    }

    /// A file's content, for tests.
    #[must_use]
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let inode = lock(&self.state).inode(name).ok()?;
        let content = lock(&inode).content.clone();
        Some(content)
    }

    /// Creates a synced file.
    pub fn put(&self, name: &str, content: Vec<u8>) {
        let inode = Inode { synced: content.clone(), content, ..Inode::default() };
        let inode = Arc::new(Mutex::new(inode));
        let state = &mut *lock(&self.state);
        state.names.insert(name.into(), inode.clone());
        state.durable.insert(name.into(), inode);
    }
}

impl Disk for MemDisk {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        let mut state = lock(&self.state);
        state.step()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn length(&self, name: &str) -> Result<u64, DiskError> {
        let mut state = lock(&self.state);
        state.step()?;
        let inode = state.inode(name)?;
        let length = lock(&inode).content.len();
        Ok(length as u64)
    }

    fn create(&self, name: &str) -> Result<(), DiskError> {
        let mut state = lock(&self.state);
        state.step()?;
        state.open()?;
        let inode = Arc::new(Mutex::new(Inode::default()));
        state.names.insert(name.into(), inode.clone());
        state.changes.push(DirectoryChange::Link(name.into(), inode));
        Ok(())
    }

    fn allocate(&self, name: &str, bytes: u64) -> Result<bool, DiskError> {
        let state = &mut *lock(&self.state);
        state.step()?;
        let inode = state.inode(name)?;
        let growth = (bytes as usize).saturating_sub(lock(&inode).content.len());
        if state.used_bytes() + growth as u64 > state.capacity_bytes {
            return Err(full());
        }
        let mut inode = lock(&inode);
        let length = inode.content.len() + growth;
        grow(&mut inode.content, length);
        Ok(true)
    }

    fn write_at(
        &self,
        name: &str,
        offset: u64,
        pieces: &mut [IoSlice<'_>],
    ) -> Result<(), DiskError> {
        let state = &mut *lock(&self.state);
        let dies = state.fuse == Some(0);
        let crashed = state.step();
        let inode = state.inode(name)?;
        let mut data: Vec<u8> = Vec::new();
        pieces.iter().for_each(|piece| data.extend_from_slice(piece));
        let offset = offset as usize;
        let growth = (offset + data.len()).saturating_sub(lock(&inode).content.len());
        let mut result = crashed;
        if result.is_ok() && state.used_bytes() + growth as u64 > state.capacity_bytes {
            return Err(full());
        }
        if result.is_ok() {
            state.open()?;
        }
        if result.is_ok() && state.random.hits(state.faults.full_permille) {
            result = Err(full());
        }
        if result.is_ok() && state.random.hits(state.faults.write_permille) {
            result = Err(failed("input/output error (write)"));
        }
        if result.is_err() {
            // After the crash no data arrives; an error may come after half the data.
            let part = if dies { 0 } else { state.random.below(data.len() as u64 + 1) };
            data.truncate(part as usize);
        }
        if data.is_empty() {
            return result;
        }
        state.written_bytes += data.len() as u64;
        let mut inode = lock(&inode);
        let end = offset + data.len();
        grow(&mut inode.content, end);
        if let Some(place) = inode.content.get_mut(offset..end) {
            place.copy_from_slice(&data);
        }
        let sectors = offset / SECTOR..end.div_ceil(SECTOR);
        if !inode.unreadable.is_empty() {
            inode.unreadable.retain(|sector| !sectors.contains(sector));
        }
        inode.dirty.insert(sectors);
        result
    }

    fn truncate(&self, name: &str, length_bytes: u64) -> Result<(), DiskError> {
        let mut state = lock(&self.state);
        state.step()?;
        let inode = state.inode(name)?;
        let mut inode = lock(&inode);
        let length = (length_bytes as usize).min(inode.content.len());
        inode.content.truncate(length);
        inode.dirty.truncate(length.div_ceil(SECTOR));
        inode.is_cut = true;
        Ok(())
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let state = &mut *lock(&self.state);
        state.step()?;
        if state.random.hits(state.faults.read_permille) {
            return Err(failed("input/output error (read)"));
        }
        let inode = state.inode(name)?;
        let inode = lock(&inode);
        let from = (offset as usize).min(inode.content.len());
        let mut count = buffer.len().min(inode.content.len() - from);
        if inode.unreadable.range(from / SECTOR..(from + count).div_ceil(SECTOR)).next().is_some() {
            return Err(failed("input/output error (read)"));
        }
        if count > 1 && state.random.hits(state.faults.short_read_permille) {
            count = 1 + state.random.below(count as u64 - 1) as usize;
        }
        if let (Some(to), Some(from)) =
            (buffer.get_mut(..count), inode.content.get(from..from + count))
        {
            to.copy_from_slice(from);
        }
        Ok(count)
    }

    fn sync_data(&self, name: &str) -> Result<(), DiskError> {
        let state = &mut *lock(&self.state);
        state.step()?;
        let inode = state.inode(name)?;
        let is_full = state.random.hits(state.faults.full_permille);
        if is_full || state.random.hits(state.faults.sync_permille) {
            // The system marks dirty pages as clean: lost data never arrives, though reads may return it until the
            // crash.
            let shown = lock(&inode).content.clone();
            lock(&inode).keep_part(&mut state.random);
            lock(&inode).content = shown;
            return Err(if is_full { full() } else { failed("input/output error (sync)") });
        }
        lock(&inode).sync();
        state.syncs_count += 1;
        Ok(())
    }

    fn sync_dir(&self) -> Result<(), DiskError> {
        let state = &mut *lock(&self.state);
        state.step()?;
        if state.random.hits(state.faults.sync_permille) {
            return Err(failed("input/output error (sync of the directory)"));
        }
        for change in std::mem::take(&mut state.changes) {
            apply(&mut state.durable, change);
        }
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let mut state = lock(&self.state);
        state.step()?;
        state.open()?;
        let inode = state.names.remove(from).ok_or_else(|| not_found(from))?;
        state.names.insert(to.into(), inode);
        state.changes.push(DirectoryChange::Rename(from.into(), to.into()));
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let mut state = lock(&self.state);
        state.step()?;
        state.open()?;
        state.names.remove(name).ok_or_else(|| not_found(name))?;
        state.changes.push(DirectoryChange::Remove(name.into()));
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        let mut state = lock(&self.state);
        state.step()?;
        Ok(state.capacity_bytes.saturating_sub(state.used_bytes()))
    }
}
