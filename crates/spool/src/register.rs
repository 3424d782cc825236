//! The register: the list of segments that must exist, so that a removed one is noticed.
//!
//! A segment is entered once its name is durable, and removed from the register durably before its file is renamed or
//! removed. A segment that is entered but missing was therefore not removed by the spool. After an orderly stop the
//! register also holds the end of the data in the last segment.
//!
//! The file has two copies, written and synced one after the other, in place. A crash tears at most one copy, and on a
//! full disk segments can still be freed. The file gets its name when both are whole. A start creates it anew: a failed
//! sync may have left one copy torn, and a crash during the next write in place would tear the other.

use crate::block::{VERSION, u16_at, u32_at, u64_at};
use crate::disk::{Disk, DiskError, DiskErrorKind, read_full};
use crate::name::{REGISTER, SegmentKey};
use crate::segment::Marks;
use std::collections::BTreeMap;
use std::io::IoSlice;

const MAGIC: &[u8; 4] = b"PRRG";
/// Of one copy.
const COPY_BYTES: usize = 16 << 10;
/// Magic, version, node, log, count, sequence.
const HEAD_BYTES: usize = 24;
/// Generation, salt, length, end.
const ENTRY_BYTES: usize = 20;
/// Batch, position, message sequence and blob, with a separate checksum: builds without marks read only up to the
/// checksum of the entries.
const MARKS_BYTES: usize = 36;
/// Maximum number of entries; the oldest segments beyond it are left out.
const ENTRIES_MAX: usize = (COPY_BYTES - HEAD_BYTES - 4 - MARKS_BYTES) / ENTRY_BYTES;

/// Name of the file during creation.
const FRESH: &str = "register.new";

/// Damage text of a register that is readable but unusable.
pub(crate) const UNUSABLE: &str = "both copies are damaged: all segments found are used, and a \
 missing segment cannot be detected";

/// A segment's entry in the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegisterEntry {
    pub salt: u64,
    /// Of the file, in bytes.
    pub length: u64,
    /// Lower bound of the end of its data; 0: unknown.
    pub end: u64,
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Register {
    /// Rises with each write.
    pub sequence: u64,
    /// By generation.
    pub entries: BTreeMap<u32, RegisterEntry>,
    /// Lower limits of the unused numbers, known even without any segment.
    pub marks: Marks,
}

impl Register {
    /// Returns the newer of the two copies that are valid, of any log; `None` if neither is. Also returns the reason if
    /// the file exists but is unusable.
    pub(crate) fn read(
        disk: &dyn Disk,
    ) -> Result<(Option<Register>, Option<DiskError>), DiskError> {
        let mut newest: Option<Register> = None;
        let mut failed = None;
        for copy in 0..2 {
            let mut bytes = vec![0; COPY_BYTES];
            let offset = (copy * COPY_BYTES) as u64;
            let count = match read_full(disk, REGISTER, offset, &mut bytes) {
                Ok(count) => count,
                Err(error) if error.kind == DiskErrorKind::NotFound => return Ok((None, None)),
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            };
            let found = bytes.get(..count).and_then(Register::decode);
            newest = match (newest, found) {
                (Some(one), Some(two)) if two.sequence > one.sequence => Some(two),
                (one, two) => one.or(two),
            };
        }
        let unusable = || failed.unwrap_or_else(|| DiskError::new(DiskErrorKind::Failed, UNUSABLE));
        let why = newest.is_none().then(unusable);
        Ok((newest, why))
    }

    fn decode(bytes: &[u8]) -> Option<Register> {
        if !bytes.starts_with(MAGIC) || u16_at(bytes, 4)? != VERSION {
            return None;
        }
        let count = u32_at(bytes, 8)? as usize;
        let end = count.checked_mul(ENTRY_BYTES)?.checked_add(HEAD_BYTES)?;
        if u32_at(bytes, end)? != crc32c::crc32c(bytes.get(..end)?) {
            return None;
        }
        let mut register = Register { sequence: u64_at(bytes, 16)?, ..Register::default() };
        for entry in bytes.get(HEAD_BYTES..end)?.chunks_exact(ENTRY_BYTES) {
            let (salt, length) = (u64_at(entry, 4)?, u64::from(u32_at(entry, 12)?));
            let end = u64::from(u32_at(entry, 16)?);
            register.entries.insert(u32_at(entry, 0)?, RegisterEntry { salt, length, end });
        }
        register.marks = bytes.get(end..).and_then(decode_marks).unwrap_or_default();
        Some(register)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEAD_BYTES];
        let left_out = self.entries.len().saturating_sub(ENTRIES_MAX);
        let number = |n: u64| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
        let mut count = 0_u32;
        for (generation, entry) in self.entries.iter().skip(left_out) {
            out.extend_from_slice(&generation.to_le_bytes());
            out.extend_from_slice(&entry.salt.to_le_bytes());
            out.extend_from_slice(&number(entry.length));
            out.extend_from_slice(&number(entry.end));
            count += 1;
        }
        out[..4].copy_from_slice(MAGIC);
        out[4..6].copy_from_slice(&VERSION.to_le_bytes());
        out[8..12].copy_from_slice(&count.to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        let crc = crc32c::crc32c(&out);
        let from = out.len();
        out.extend_from_slice(&crc.to_le_bytes());
        let marks = self.marks;
        for mark in [marks.batch, marks.position, marks.sequence, marks.blob] {
            out.extend_from_slice(&mark.to_le_bytes());
        }
        // Includes the checksum of the entries: marks of an earlier, longer register are invalid here.
        let crc = crc32c::crc32c(out.get(from..).unwrap_or(&[]));
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// The entry of exactly this segment.
    pub(crate) fn get(&self, key: SegmentKey) -> Option<&RegisterEntry> {
        self.entries.get(&key.generation).filter(|entry| entry.salt == key.salt)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, key: SegmentKey) -> Option<&mut RegisterEntry> {
        self.entries.get_mut(&key.generation).filter(|entry| entry.salt == key.salt)
    }

    /// Encodes its next version.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        self.sequence += 1;
        self.encode()
    }

    /// Removes a segment from the register, if entered, before its file is reused at a start.
    pub(crate) fn strike(
        &mut self,
        disk: &dyn Disk,
        generation: u32,
        sync: bool,
    ) -> Result<(), DiskError> {
        if self.entries.remove(&generation).is_some() {
            renew(disk, &self.next(), sync)?;
        }
        Ok(())
    }
}

/// Decodes the marks after the entries and their checksum; checks the checksum over both.
fn decode_marks(bytes: &[u8]) -> Option<Marks> {
    let end = MARKS_BYTES;
    if u32_at(bytes, end)? != crc32c::crc32c(bytes.get(..end)?) {
        return None;
    }
    Some(Marks {
        batch: u64_at(bytes, 4)?,
        position: u64_at(bytes, 12)?,
        sequence: u64_at(bytes, 20)?,
        blob: u64_at(bytes, 28)?,
    })
}

/// Writes both copies and creates the file if missing. Returns `false` if the disk was full and the file is gone.
pub(crate) fn write(disk: &dyn Disk, bytes: &[u8], sync: bool) -> Result<bool, DiskError> {
    match write_copies(disk, bytes, sync) {
        Err(error) if error.kind == DiskErrorKind::Full => {
            // An incorrect register is worse than none.
            for name in [REGISTER, FRESH] {
                match disk.remove(name) {
                    Err(error) if error.kind != DiskErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            if sync {
                disk.sync_dir()?;
            }
            Ok(false)
        }
        other => other.map(|()| true),
    }
}

/// Creates the file anew, for the first write of a start; writes in place if a second file does not fit.
pub(crate) fn renew(disk: &dyn Disk, bytes: &[u8], sync: bool) -> Result<bool, DiskError> {
    match make(disk, bytes, sync) {
        Err(error) if error.kind == DiskErrorKind::Full => match disk.remove(FRESH) {
            Err(error) if error.kind != DiskErrorKind::NotFound => Err(error),
            _ => write(disk, bytes, sync),
        },
        other => other.map(|()| true),
    }
}

fn write_copies(disk: &dyn Disk, bytes: &[u8], sync: bool) -> Result<(), DiskError> {
    let length = match disk.length(REGISTER) {
        Ok(length) => length,
        Err(error) if error.kind == DiskErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    if length < 2 * COPY_BYTES as u64 {
        return make(disk, bytes, sync);
    }
    for copy in 0..2 {
        disk.write_at(REGISTER, (copy * COPY_BYTES) as u64, &mut [IoSlice::new(bytes)])?;
        if sync {
            disk.sync_data(REGISTER)?;
        }
    }
    Ok(())
}

/// Creates the file, complete before the rename. An incomplete register under the final name was therefore damaged.
fn make(disk: &dyn Disk, bytes: &[u8], sync: bool) -> Result<(), DiskError> {
    let mut copy = bytes.to_vec();
    copy.resize(COPY_BYTES, 0);
    disk.create(FRESH)?;
    disk.write_at(FRESH, 0, &mut [IoSlice::new(&copy), IoSlice::new(&copy)])?;
    if sync {
        disk.sync_data(FRESH)?;
    }
    disk.rename(FRESH, REGISTER)?;
    if sync {
        disk.sync_dir()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memdisk::MemDisk;

    fn register(count: u32) -> Register {
        let entry =
            |n: u32| (n, RegisterEntry { salt: u64::from(n) << 40, length: 4096, end: n.into() });
        Register {
            sequence: 7,
            entries: (1..=count).map(entry).collect(),
            marks: Marks { batch: 9, position: 8, sequence: 7, blob: 6 },
        }
    }

    #[test]
    fn it_is_read_as_it_was_written_from_either_copy() {
        let disk = MemDisk::new(1, 1 << 20);
        assert_eq!(Register::read(&disk), Ok((None, None)));
        let written = register(5);
        assert_eq!(write(&disk, &written.encode(), true), Ok(true));
        for copy in 0..2 {
            assert!(disk.flip_bit(REGISTER, (copy * COPY_BYTES as u64 + 30) * 8));
            let (register, why) = Register::read(&disk).expect("it can be read");
            assert_eq!(register, (copy == 0).then(|| written.clone()));
            assert_eq!(why.is_some(), copy == 1, "neither is whole");
        }
        let newer = Register { sequence: 8, ..register(4) };
        disk.write_at(REGISTER, 0, &mut [IoSlice::new(&newer.encode())]).expect("written");
        assert_eq!(Register::read(&disk), Ok((Some(newer), None)));
    }

    #[test]
    fn more_segments_than_there_is_room_for_leave_out_the_oldest() {
        let disk = MemDisk::new(1, 1 << 20);
        let mut all = register(ENTRIES_MAX as u32 + 3);
        assert_eq!(write(&disk, &all.encode(), true), Ok(true));
        all.entries.retain(|&generation, _| generation > 3);
        assert_eq!(Register::read(&disk), Ok((Some(all), None)));
    }

    /// As a sync that failed leaves it: the second copy is torn. A copy has several sectors.
    fn torn(seed: u64) -> MemDisk {
        let disk = MemDisk::new(seed, 1 << 20);
        assert_eq!(write(&disk, &register(200).encode(), true), Ok(true));
        assert!(disk.flip_bit(REGISTER, (COPY_BYTES as u64 + 30) * 8));
        disk
    }

    #[test]
    fn a_crash_in_the_first_write_of_a_start_leaves_one_whole() {
        let next = Register { sequence: 8, ..register(199) };
        let (mut crashes, mut lost_in_place) = (0, 0);
        for (seed, fuse) in (1..40).flat_map(|seed| (0..7).map(move |fuse| (seed, fuse))) {
            let disk = torn(seed);
            disk.set_fuse(fuse);
            crashes += u32::from(renew(&disk, &next.encode(), true).is_err());
            disk.crash();
            let (found, why) = Register::read(&disk).expect("it can be read");
            let found = found.expect("one of the two is whole");
            assert!(found == register(200) || found == next, "{why:?}");

            let disk = torn(seed);
            disk.set_fuse(fuse);
            let _ = write(&disk, &next.encode(), true);
            disk.crash();
            lost_in_place += u32::from(Register::read(&disk).expect("can be read").0.is_none());
        }
        assert!(crashes > 100 && lost_in_place > 0, "{crashes}, {lost_in_place}: proves nothing");
    }

    #[test]
    fn without_room_for_a_second_file_a_start_writes_in_place() {
        let disk = MemDisk::new(1, 3 * COPY_BYTES as u64);
        assert_eq!(renew(&disk, &register(5).encode(), true), Ok(true));
        let next = Register { sequence: 8, ..register(4) };
        assert_eq!(renew(&disk, &next.encode(), true), Ok(true));
        assert_eq!(Register::read(&disk), Ok((Some(next), None)));
        assert_eq!(disk.list().map(|names| names.len()), Ok(1), "nothing half made is left");
    }

    #[test]
    fn without_room_there_is_none() {
        let disk = MemDisk::new(1, COPY_BYTES as u64);
        assert_eq!(write(&disk, &register(1).encode(), true), Ok(false));
        assert_eq!(disk.list(), Ok(Vec::new()));
    }

    #[test]
    fn garbage_is_no_register() {
        let disk = MemDisk::new(1, 1 << 20);
        let mut huge = register(1).encode();
        huge[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        for content in [Vec::new(), vec![0; 40_000], b"PRRG".to_vec(), huge] {
            disk.put(REGISTER, content);
            let (register, why) = Register::read(&disk).expect("it can be read");
            assert_eq!(register, None);
            assert_eq!(why.expect("it is there").to_string(), UNUSABLE);
        }
    }
}
