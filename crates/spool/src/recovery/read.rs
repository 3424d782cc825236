//! The first pass: reads the directory and all segments, without changes.

use crate::batch::BatchHeader;
use crate::block::VERSION;
use crate::codec::{self, RawRecord, kind};
use crate::config::{Damage, RecoveryReport, SpoolError};
use crate::disk::{Disk, DiskError};
use crate::live::Live;
use crate::name::{Name, REGISTER, SegmentKey, blob_name};
use crate::record::BlobId;
use crate::register::Register;
use crate::scan::{self, Extent, ScanEnd, ScanItem};
use crate::segment::{Header, Marks, SegmentEnd};
use crate::table::Segment;
use mail::MessageId;
use std::collections::{BTreeMap, BTreeSet};

/// The state recovered from a directory.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub live: Live,
    pub report: RecoveryReport,
    /// Files that are ready for use.
    pub spares: Vec<Spare>,
    /// Above all generations that were ever used.
    pub next_generation: u32,
    /// Of the next batch.
    pub next_batch: u64,
    /// Of the next record.
    pub next_position: u64,
    pub last: SegmentEnd,
    pub(super) doubtful: Doubtful,
    pub(super) unfinished: Vec<String>,
    /// Segments set aside because of damage, or missing and already reported.
    aside: BTreeSet<SegmentKey>,
    /// Segments that should exist and are missing.
    pub(super) missing: Vec<SegmentKey>,
    /// The content of the register.
    pub register: Register,
    pub(super) blob_files: BTreeSet<u64>,
    /// Messages with a missing blob or one of the wrong length.
    pub lost_bodies: BTreeSet<u64>,
    /// Generations of segments that may have held more than is readable.
    pub(super) lossy: BTreeSet<u32>,
    /// For each segment with a header, the first blob number not used when it was started.
    pub(super) blob_marks: BTreeMap<u32, u64>,
    /// End of the data of each segment, for the second pass.
    pub(super) ends: BTreeMap<u32, u64>,
    pub(super) indexed: BTreeSet<u32>,
    /// See [`crate::SpoolConfig::trusts_torn_tail`].
    #[cfg(feature = "planted")]
    trusts_torn_tail: bool,
}

/// A file that is ready to become a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spare {
    pub generation: u32,
    /// Of the file, in bytes.
    pub length: u64,
}

/// The possibly unsynced part of the last segment, from here to its end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Doubtful {
    pub from: u64,
    /// The footer may never have been synced, either.
    pub with_footer: bool,
}

/// Reads a whole segment, as [`scan::scan`].
type Scanner = fn(
    &dyn Disk,
    &str,
    SegmentKey,
    u64,
    Option<u64>,
    &mut dyn FnMut(ScanItem<'_>),
) -> Result<ScanEnd, DiskError>;

impl Recovery {
    pub(crate) fn new() -> Recovery {
        Recovery { next_generation: 1, ..Recovery::default() }
    }

    #[cfg(feature = "planted")]
    pub(crate) fn trusting(self, torn_tail: bool) -> Recovery {
        Recovery { trusts_torn_tail: torn_tail, ..self }
    }

    /// Reads the directory and all segments, without changes on disk.
    pub(crate) fn read(
        self,
        disk: &dyn Disk,
        owner: Option<(u16, u8)>,
    ) -> Result<Recovery, SpoolError> {
        let mut recovery = self;
        let keys = recovery.read_names(disk)?;
        let survey = scan::survey(disk, keys.into_values(), &recovery.aside)?;
        let extents = survey.extents;
        recovery.note_missing(survey.missing);
        if let Some(error) = survey.register_error {
            recovery.damage(REGISTER, 0, 0, &error.text);
        }
        recovery.use_marks(survey.register.marks);
        recovery.register = survey.register;
        for extent in &extents {
            recovery.enter(extent, owner)?;
        }
        for extent in &extents {
            recovery.read_segment(disk, extent)?;
        }
        recovery.check_blobs();
        recovery.live.next_sequence = recovery.live.next_sequence.max(1);
        recovery.live.next_blob = recovery.live.next_blob.max(1);
        recovery.next_position = recovery.next_position.max(1);
        Ok(recovery)
    }

    /// Records segments that should exist and are missing.
    fn note_missing(&mut self, missing: Vec<SegmentKey>) {
        for key in missing {
            self.damage(&key.name(), 0, 0, MISSING);
            self.use_generation(key.generation);
            self.lossy.insert(key.generation);
            self.missing.push(key);
        }
    }

    /// Enters a segment, from its header and footer only.
    fn enter(&mut self, extent: &Extent, owner: Option<(u16, u8)>) -> Result<(), SpoolError> {
        let generation = extent.key.generation;
        if let Some(header) = extent.header {
            check_header(&extent.key.name(), header, owner)?;
            self.use_marks(header.marks);
            self.blob_marks.insert(generation, header.marks.blob);
        }
        let mut segment = Segment::new(extent.key, extent.length);
        segment.sealed = true;
        self.live.segments.map.insert(generation, segment);
        self.use_generation(generation);
        Ok(())
    }

    /// Reads the names in the directory and all segments.
    fn read_names(&mut self, disk: &dyn Disk) -> Result<BTreeMap<u32, SegmentKey>, SpoolError> {
        let mut keys: BTreeMap<u32, SegmentKey> = BTreeMap::new();
        for name in disk.list()? {
            let generation = match Name::parse(&name) {
                Name::Segment(key) => {
                    if let Some(other) = keys.insert(key.generation, key) {
                        let files = [other.name().as_ref().into(), name.into()];
                        return Err(SpoolError::Twice { files });
                    }
                    key.generation
                }
                Name::Spare(generation) => {
                    self.spares.push(Spare { generation, length: disk.length(&name)? });
                    generation
                }
                Name::Unfinished(generation) => {
                    self.unfinished.push(name.clone());
                    generation
                }
                Name::Damaged(key) => {
                    self.aside.insert(key);
                    self.lossy.insert(key.generation);
                    key.generation
                }
                Name::Blob(blob) => {
                    self.live.next_blob = self.live.next_blob.max(blob.saturating_add(1));
                    self.blob_files.insert(blob);
                    continue;
                }
                Name::Other => continue,
            };
            if generation > GENERATION_MAX {
                return Err(SpoolError::Generation { file: name.into() });
            }
            self.use_generation(generation);
        }
        self.spares.sort_unstable();
        Ok(keys)
    }

    fn use_generation(&mut self, generation: u32) {
        self.next_generation = self.next_generation.max(generation.saturating_add(1));
    }

    fn use_marks(&mut self, marks: Marks) {
        self.next_batch = self.next_batch.max(marks.batch);
        self.next_position = self.next_position.max(marks.position);
        self.live.next_sequence = self.live.next_sequence.max(marks.sequence);
        self.live.next_blob = self.live.next_blob.max(marks.blob);
    }

    fn read_segment(&mut self, disk: &dyn Disk, extent: &Extent) -> Result<(), SpoolError> {
        let key = extent.key;
        let file = key.name();
        if self.read_index(disk, &file, extent)? {
            return Ok(());
        }
        let (length, known_end) = (extent.length, extent.known_end());
        let mut damages = Vec::new();
        let mut is_used = false;
        let scan = self.scanner();
        let end = scan(disk, &file, key, length, known_end, &mut |found| match found {
            ScanItem::Batch(_, header) => {
                is_used = true;
                self.note_batch(&header);
            }
            ScanItem::Record(record) => {
                if !self.apply(key.generation, &record) {
                    damages.push(malformed(&record));
                }
            }
            ScanItem::LoneCopy(record) => match codec::read_head(&record) {
                Some(head) => self.live.accept_lone_copy(key.generation, &head),
                None => damages.push(malformed(&record)),
            },
            ScanItem::Damage { offset, bytes, what } => damages.push((offset, bytes, what)),
        })?;
        self.report.scanned_segments_count += 1;
        self.report.torn_count += u64::from(end.torn);
        let is_damaged = end.damaged || !damages.is_empty();
        for (offset, bytes, what) in damages {
            self.damage(&file, offset, bytes, &what);
        }
        self.ends.insert(key.generation, end.end);
        if is_used {
            self.last = SegmentEnd { generation: key.generation, end: end.end };
            self.doubtful = Doubtful { from: end.proven, with_footer: false };
        }
        if is_damaged && let Some(segment) = self.live.segments.get_mut(key.generation) {
            segment.damaged = true;
            self.lossy.insert(key.generation);
        }
        Ok(())
    }

    /// Reads a segment by its index; returns `false` if it has no valid index.
    fn read_index(
        &mut self,
        disk: &dyn Disk,
        file: &str,
        extent: &Extent,
    ) -> Result<bool, SpoolError> {
        let (key, generation) = (extent.key, extent.key.generation);
        let Some(footer) = extent.footer else { return Ok(false) };
        let Some(index) = scan::find_index(disk, file, key, footer)? else {
            if extent.is_confirmed() {
                self.damage(file, footer.index_offset, 0, "the segment's index is damaged");
            }
            return Ok(false);
        };
        for place in &index {
            self.note_batch(&place.header);
            place.visit(disk, file, key, &mut |record| {
                self.apply(generation, record);
            })?;
        }
        self.report.indexed_segments_count += 1;
        self.indexed.insert(generation);
        self.last = SegmentEnd { generation, end: footer.end };
        self.doubtful = Doubtful { from: footer.index_offset, with_footer: true };
        Ok(true)
    }

    /// The function that reads a segment from end to end; a planted fault accepts a torn batch as a whole one.
    fn scanner(&self) -> Scanner {
        #[cfg(feature = "planted")]
        if self.trusts_torn_tail {
            return scan::scan_trusting;
        }
        scan::scan
    }

    fn note_batch(&mut self, header: &BatchHeader) {
        self.next_batch = self.next_batch.max(header.sequence.saturating_add(1));
        let records = if header.is_index { 0 } else { u64::from(header.records_count) };
        self.next_position = self.next_position.max(header.position.saturating_add(records));
        self.live.next_sequence = self.live.next_sequence.max(header.next_sequence);
        self.live.next_blob = self.live.next_blob.max(header.next_blob);
    }

    /// Returns `false` if the record's checksum is right but its content is invalid.
    fn apply(&mut self, generation: u32, record: &RawRecord<'_>) -> bool {
        match record.kind {
            kind::ACCEPT | kind::COPY | kind::INDEXED => {
                let Some(head) = codec::read_head(record) else { return false };
                self.live.accept(generation, &head);
            }
            other => {
                let Some(small) = codec::read_small(other, record.body) else { return false };
                self.live.small(generation, &small, u64::from(record.length));
            }
        }
        true
    }

    pub(super) fn damage(&mut self, file: &str, offset: u64, bytes: u64, what: &str) {
        self.report.damaged_count += 1;
        if self.report.damage.len() < RecoveryReport::DAMAGE_MAX {
            self.report.damage.push(Damage { file: file.into(), offset, bytes, what: what.into() });
        }
    }

    /// Messages with a missing blob are handed over like any other message: they are listed, wait for a readable body,
    /// and expire by age.
    fn check_blobs(&mut self) {
        let missing: Vec<(u64, BlobId)> = self
            .live
            .blobs
            .iter()
            .filter(|(_, blob)| !self.blob_files.contains(&blob.0))
            .map(|(&id, &blob)| (id, blob))
            .collect();
        for (id, blob) in missing {
            let what = format!("the body of message {} is missing", MessageId(id));
            self.note_lost_body(id, blob, &what);
        }
    }

    pub(super) fn note_lost_body(&mut self, id: u64, blob: BlobId, what: &str) {
        self.damage(&blob_name(blob.0), 0, 0, what);
        self.lost_bodies.insert(id);
    }

    /// The next unused numbers.
    pub(crate) fn marks(&self) -> Marks {
        Marks {
            batch: self.next_batch,
            position: self.next_position,
            sequence: self.live.next_sequence,
            blob: self.live.next_blob,
        }
    }
}

/// Offset, length and description of a record with malformed content.
fn malformed(record: &RawRecord<'_>) -> (u64, u64, String) {
    (record.offset, u64::from(record.length), "malformed".into())
}

/// Of four thousand million generations, sixteen millions are left for the log to go on in.
const GENERATION_MAX: u32 = u32::MAX - (1 << 24);

/// Damage text of a segment that is in the register but missing.
pub(crate) const MISSING: &str = "the segment is missing";

fn check_header(file: &str, header: Header, owner: Option<(u16, u8)>) -> Result<(), SpoolError> {
    if header.version != VERSION {
        return Err(SpoolError::Version { file: file.into(), found: header.version });
    }
    let (node, log) = (header.node, header.log);
    match owner {
        Some(owner) if owner != (node, log) => {
            Err(SpoolError::OtherLog { file: file.into(), node, log })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memdisk::MemDisk;
    use crate::{Spool, SpoolConfig};

    #[test]
    fn a_later_version_is_not_touched() {
        let disk = MemDisk::new(1, 1 << 20);
        let key = SegmentKey { generation: 3, salt: 4 };
        let header = Header {
            version: VERSION + 1,
            node: 0,
            log: 0,
            registered: false,
            first_offset: 4096,
            previous: SegmentEnd::default(),
            marks: Marks::default(),
        };
        disk.put(&key.name(), header.encode(key).to_vec());
        let before = disk.list();
        let error = Spool::open(&disk, SpoolConfig::default(), &mut |_| ()).expect_err("no");
        assert_eq!(error, SpoolError::Version { file: key.name().as_ref().into(), found: 2 });
        assert_eq!(disk.list(), before);
        assert!(error.to_string().contains("format version 2"));
    }
}
