//! Finds out what the log says after a restart. Reads in two passes, so that the memory it needs
//! is that of the live index: the first tells what is live, the second hands it over.

use crate::batch::BatchHeader;
use crate::catalog::Catalog;
use crate::codec::{self, AcceptHead, RawRecord, Summary, kind};
use crate::config::{Damage, RecoveryReport, SpoolConfig, SpoolError};
use crate::disk::{Disk, DiskError, read_around};
use crate::io::{SealWrite, WriteBuffer};
use crate::live::Live;
use crate::record::BlobId;
use crate::register::{REGISTER, Register};
use crate::request::{RecoveredMessage, RecoveredRecipient};
use crate::scan::{self, Extent, Found};
use crate::segment::{
    Footer, Header, Marks, Name, SECTOR_BYTES, Segment, SegmentKey, VERSION, blob_name,
    damaged_name,
};
use mail::{Domain, Mailbox, MessageId};
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;

/// What recovery makes of a directory.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub live: Live,
    pub report: RecoveryReport,
    /// Generations and lengths of files that are ready for use.
    pub spares: Vec<(u32, u64)>,
    /// Above all generations that were ever used.
    pub next_generation: u32,
    /// Of the next batch.
    pub next_batch: u64,
    /// Of the next record.
    pub next_position: u64,
    /// The last segment and where its data ends.
    pub last: (u32, u64),
    /// From where on nothing says that the last segment was ever synced; and whether that
    /// includes its footer.
    doubtful: (u64, bool),
    unfinished: Vec<String>,
    /// Segments that were put aside because of damage, or are missing and were told of.
    aside: BTreeSet<(u32, u64)>,
    /// Segments that must be there and are not.
    missing: Vec<SegmentKey>,
    /// What the register said.
    pub register: Register,
    blob_files: BTreeSet<u64>,
    /// Messages whose blob is missing or of another length.
    pub lost_bodies: BTreeSet<u64>,
    /// Generations of segments that may have held more than can be read of them.
    lossy: BTreeSet<u32>,
    /// Of each segment with a header: the first blob number that was not used when it was begun.
    blob_marks: BTreeMap<u32, u64>,
    /// How each segment is to be read in the second pass.
    ends: BTreeMap<u32, u64>,
    indexed: BTreeSet<u32>,
    /// See [`SpoolConfig::trusts_torn_tail`].
    #[cfg(feature = "planted")]
    trusts_torn_tail: bool,
}

impl Recovery {
    pub(crate) fn new() -> Recovery {
        Recovery { next_generation: 1, ..Recovery::default() }
    }

    #[cfg(feature = "planted")]
    pub(crate) fn trusting(self, torn_tail: bool) -> Recovery {
        Recovery { trusts_torn_tail: torn_tail, ..self }
    }

    /// Reads the directory and all segments; changes nothing on disk.
    pub(crate) fn read(
        self,
        disk: &dyn Disk,
        owner: Option<(u16, u8)>,
    ) -> Result<Recovery, SpoolError> {
        let mut recovery = self;
        let keys = recovery.read_names(disk)?;
        let survey = scan::survey(disk, keys.into_values(), &recovery.aside)?;
        let extents = survey.extents;
        for key in survey.missing {
            recovery.damage(&key.name(), 0, 0, MISSING);
            recovery.use_generation(key.generation);
            recovery.lossy.insert(key.generation);
            recovery.missing.push(key);
        }
        if let Some(error) = survey.register_error {
            recovery.damage(REGISTER, 0, 0, &error.text);
        }
        recovery.use_marks(survey.register.marks);
        recovery.register = survey.register;
        for extent in &extents {
            if let Some(header) = extent.header {
                check_header(&extent.key.name(), header, owner)?;
                recovery.use_marks(header.marks);
                recovery.blob_marks.insert(extent.key.generation, header.marks.blob);
            }
            let mut segment = Segment::new(extent.key, extent.length);
            segment.sealed = true;
            recovery.live.segments.map.insert(extent.key.generation, segment);
            recovery.use_generation(extent.key.generation);
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

    /// What the names in the directory say, and all segments.
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
                    self.spares.push((generation, disk.length(&name)?));
                    generation
                }
                Name::Unfinished(generation) => {
                    self.unfinished.push(name.clone());
                    generation
                }
                Name::Damaged(key) => {
                    self.aside.insert((key.generation, key.salt));
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
        if let Some(footer) = extent.footer {
            if let Some(index) = scan::find_index(disk, &file, key, footer)? {
                for place in &index {
                    self.note_batch(&place.header);
                    place.visit(disk, &file, key, &mut |record| {
                        self.apply(key.generation, record);
                    })?;
                }
                self.report.indexed_segments_count += 1;
                self.indexed.insert(key.generation);
                self.last = (key.generation, footer.end);
                self.doubtful = (footer.index_offset, true);
                return Ok(());
            }
            if extent.is_confirmed() {
                self.damage(&file, footer.index_offset, 0, "the segment's index is damaged");
            }
        }
        let (length, known_end) = (extent.length, extent.known_end());
        let mut damages = Vec::new();
        let mut is_used = false;
        #[cfg(not(feature = "planted"))]
        let scan = scan::scan;
        #[cfg(feature = "planted")]
        let scan = if self.trusts_torn_tail { scan::scan_trusting } else { scan::scan };
        let end = scan(disk, &file, key, length, known_end, &mut |found| match found {
            Found::Batch(_, header) => {
                is_used = true;
                self.note_batch(&header);
            }
            Found::Record(record) => {
                if !self.apply(key.generation, &record) {
                    damages.push((record.offset, u64::from(record.length), "malformed".into()));
                }
            }
            Found::LoneCopy(record) => match codec::read_head(&record) {
                Some(head) => self.live.accept_lone_copy(key.generation, &head),
                None => damages.push((record.offset, u64::from(record.length), "malformed".into())),
            },
            Found::Damage { offset, bytes, what } => damages.push((offset, bytes, what)),
        })?;
        self.report.scanned_segments_count += 1;
        self.report.torn_count += u64::from(end.torn);
        let is_damaged = end.damaged || !damages.is_empty();
        for (offset, bytes, what) in damages {
            self.damage(&file, offset, bytes, &what);
        }
        self.ends.insert(key.generation, end.end);
        if is_used {
            self.last = (key.generation, end.end);
            self.doubtful = (end.proven, false);
        }
        if is_damaged && let Some(segment) = self.live.segments.get_mut(key.generation) {
            segment.damaged = true;
            self.lossy.insert(key.generation);
        }
        Ok(())
    }

    fn note_batch(&mut self, header: &BatchHeader) {
        self.next_batch = self.next_batch.max(header.sequence.saturating_add(1));
        let records = if header.is_index { 0 } else { u64::from(header.records_count) };
        self.next_position = self.next_position.max(header.position.saturating_add(records));
        self.live.next_sequence = self.live.next_sequence.max(header.next_sequence);
        self.live.next_blob = self.live.next_blob.max(header.next_blob);
    }

    /// `false` when the record's checksum is right and its content is not.
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

    fn damage(&mut self, file: &str, offset: u64, bytes: u64, what: &str) {
        self.report.damaged_count += 1;
        if self.report.damage.len() < RecoveryReport::DAMAGE_MAX {
            self.report.damage.push(Damage { file: file.into(), offset, bytes, what: what.into() });
        }
    }

    /// Messages whose blob is not there are handed over like any other: they are listed, wait for a
    /// body that can be read, and are reported at their age.
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

    fn note_lost_body(&mut self, id: u64, blob: BlobId, what: &str) {
        self.damage(&blob_name(blob.0), 0, 0, what);
        self.lost_bodies.insert(id);
    }

    /// The next of each number.
    pub(crate) fn marks(&self) -> Marks {
        Marks {
            batch: self.next_batch,
            position: self.next_position,
            sequence: self.live.next_sequence,
            blob: self.live.next_blob,
        }
    }

    /// Makes what was read durable, and seals every segment: after this the log can go on in a new
    /// one.
    pub(crate) fn settle_disk(
        &mut self,
        disk: &dyn Disk,
        config: &SpoolConfig,
        sync: bool,
    ) -> Result<(), DiskError> {
        for name in std::mem::take(&mut self.unfinished) {
            disk.remove(&name)?;
        }
        for &key in &self.missing {
            // An empty file in its place: the next start won't miss it, and shall not forget it.
            disk.create(&damaged_name(key))?;
        }
        if sync {
            self.write_again(disk)?;
        }
        // All of it first: the index that seals one segment leaves out what another one settles.
        for segment in self.live.segments.map.values() {
            if sync && self.ends.contains_key(&segment.key.generation) {
                disk.sync_data(&segment.file)?;
            }
        }
        for (generation, end) in self.ends.clone() {
            let Some(segment) = self.live.segments.get(generation) else { continue };
            let goes = self.live.segments.is_releasable(generation);
            if !goes && !segment.damaged {
                self.seal(disk, config, segment.key, end, sync)?;
            }
        }
        if sync {
            disk.sync_dir()?;
        }
        Ok(())
    }

    /// Removes the blobs that no record names, last of all: a settle that was read may have been in
    /// memory only until [`Recovery::settle_disk`] came to its end, and until the new segment's
    /// header is durable the next start may see the log as this one did.
    pub(crate) fn remove_orphans(&mut self, disk: &dyn Disk) -> Result<(), DiskError> {
        let named: BTreeSet<u64> = self.live.blobs.values().map(|blob| blob.0).collect();
        let kept_below = self.orphans_kept_below();
        for &blob in self.blob_files.difference(&named) {
            self.report.orphan_blobs_count += 1;
            if blob < kept_below {
                self.report.kept_blobs_count += 1;
            } else {
                disk.remove(&blob_name(blob))?;
            }
        }
        self.blob_files = named;
        Ok(())
    }

    /// What was lost may have named blobs that were begun before the segment after it: they are kept
    /// for the operator.
    fn orphans_kept_below(&self) -> u64 {
        let Some(last) = self.lossy.last() else { return 0 };
        let after = self.blob_marks.range(last.saturating_add(1)..).next();
        after.map_or(u64::MAX, |(_, &mark)| mark)
    }

    /// Writes once more what was accepted and never known to be synced. If a sync failed and only
    /// the process came to its end, the system still shows what it failed to write, and holds it
    /// for clean: another sync alone would do nothing.
    fn write_again(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        let Some(segment) = self.live.segments.get(self.last.0) else { return Ok(()) };
        let file = &segment.file;
        let footer = if self.doubtful.1 { SECTOR_BYTES } else { 0 };
        for (mut from, to) in [
            (self.doubtful.0, self.last.1),
            (segment.footer_offset(), segment.footer_offset() + footer),
        ] {
            while from < to {
                let mut buffer = vec![0; (to - from).min(1 << 20) as usize];
                let mut unreadable = BTreeSet::new();
                let count = read_around(disk, file, from, &mut buffer, &mut unreadable)?;
                let Some(part) = buffer.get(..count).filter(|part| !part.is_empty()) else { break };
                write_around(disk, file, from, part, &unreadable)?;
                from += count as u64;
            }
        }
        disk.sync_data(file)
    }

    /// Writes the last index batch and the footer of a segment that a crash left without, so that
    /// the next start need not read all of it, and cuts the file behind them: on a full disk that is
    /// room for the segment that the log goes on in. Only the torn tail is overwritten.
    fn seal(
        &mut self,
        disk: &dyn Disk,
        config: &SpoolConfig,
        key: SegmentKey,
        end: u64,
        sync: bool,
    ) -> Result<(), DiskError> {
        let file = key.name();
        let Some(segment) = self.live.segments.get(key.generation) else { return Ok(()) };
        let length = segment.length;
        let mut catalog = Catalog::default();
        let mut previous_index = 0;
        let walked = scan::scan(disk, &file, key, length, Some(end), &mut |found| match found {
            Found::Batch(offset, header) if header.is_index => {
                previous_index = offset;
                catalog.clear();
            }
            Found::Record(record) => note_record(&mut catalog, &record),
            // With damage none is written.
            Found::Batch(..) | Found::LoneCopy(_) | Found::Damage { .. } => {}
        })?;
        if walked.damaged {
            // It could be read a moment ago: an index of what can be read now would hide the rest.
            return Ok(());
        }
        let header = BatchHeader {
            node: config.node,
            log: config.log,
            is_index: true,
            sequence: self.next_batch,
            position: self.next_position,
            synced_offset: end,
            next_sequence: self.live.next_sequence,
            next_blob: self.live.next_blob,
            previous_index,
            ..BatchHeader::default()
        };
        if end + catalog.bytes_max() + config.block_bytes > segment.footer_offset() {
            return Ok(());
        }
        // A batch that was cut may be whole behind an index batch that was torn: the same index
        // written here once more would make it valid again.
        scan::cut(disk, &file, (key, length), end, sync)?;
        let mut buffer = WriteBuffer::default();
        let bytes =
            catalog.write(&mut buffer, &self.live.index, (key, end), header, config.block_bytes);
        self.next_batch += 1;
        let footer = Footer { end: end + bytes, index_offset: end };
        let footer_offset = footer.end;
        let seal = SealWrite {
            file,
            index_offset: end,
            index: buffer.small,
            footer_offset,
            footer: footer.encode(key, footer_offset).to_vec(),
        };
        seal.write(disk, sync)?;
        let length = footer_offset + SECTOR_BYTES;
        disk.truncate(&seal.file, length)?;
        if sync {
            disk.sync_data(&seal.file)?;
        }
        if let Some(segment) = self.live.segments.get_mut(key.generation) {
            segment.length = length;
        }
        if let Some(entry) = self.register.get_mut(key) {
            entry.length = length;
        }
        if self.last == (key.generation, end) {
            self.last.1 = footer.end;
        }
        Ok(())
    }

    /// The second pass: hands over each live message, segment by segment.
    pub(crate) fn hand_over(
        &mut self,
        disk: &dyn Disk,
        recovered: &mut dyn FnMut(RecoveredMessage),
    ) -> Result<(), DiskError> {
        let mut domains = Domains::default();
        let generations: Vec<u32> = self.live.segments.map.keys().copied().collect();
        for generation in generations {
            let Some(segment) = self.live.segments.get(generation) else { continue };
            if segment.live_count == 0 {
                continue;
            }
            let (key, length) = (segment.key, segment.length);
            let mut count = 0;
            let (mut malformed, mut short_blobs) = (Vec::new(), Vec::new());
            let mut visit = |record: &RawRecord<'_>| match self.message(record, key, &mut domains) {
                Some(Some(message)) => {
                    short_blobs.extend(self.short_blob(disk, &message));
                    count += 1;
                    recovered(message);
                }
                Some(None) => {}
                None => malformed.push(record.offset),
            };
            let file = key.name();
            let (_, footer) = scan::read_ends(disk, &file, key, length)?;
            let index = match footer.filter(|_| self.indexed.contains(&generation)) {
                Some(footer) => scan::find_index(disk, &file, key, footer)?,
                None => None,
            };
            if let Some(index) = index {
                for place in &index {
                    place.visit(disk, &file, key, &mut visit)?;
                }
            } else {
                let end = self.ends.get(&generation).copied();
                scan::scan(disk, &file, key, length, end, &mut |found| {
                    if let Found::Record(record) | Found::LoneCopy(record) = found {
                        visit(&record);
                    }
                })?;
            }
            self.report.live_count += count;
            for offset in malformed {
                self.damage(&file, offset, 0, "an accept record is malformed");
            }
            for (id, blob, what) in short_blobs {
                self.note_lost_body(id, blob, &what);
            }
        }
        Ok(())
    }

    /// The blob of a message that has not the length that its record says, and how that is told.
    fn short_blob(
        &self,
        disk: &dyn Disk,
        message: &RecoveredMessage,
    ) -> Option<(u64, BlobId, String)> {
        let id = message.id;
        let &blob = self.live.blobs.get(&id.0)?;
        let found = disk.length(&blob_name(blob.0)).ok()?;
        let what = wrong_length(id, message.body_bytes, found)?;
        Some((id.0, blob, what))
    }

    /// The message whose newest accept this record is, if it is one; the outer `None` is damage.
    fn message(
        &self,
        record: &RawRecord<'_>,
        key: SegmentKey,
        domains: &mut Domains,
    ) -> Option<Option<RecoveredMessage>> {
        if !matches!(record.kind, kind::ACCEPT | kind::COPY | kind::INDEXED) {
            return Some(None);
        }
        let head = codec::read_head(record)?;
        let Some(entry) = self.live.index.get(head.id.0) else { return Some(None) };
        let is_newest = (entry.segment, u64::from(entry.offset)) == (key.generation, head.offset);
        if !is_newest {
            return Some(None);
        }
        let summary = codec::read_summary(record, &mut |text| domains.get(text))?;
        Some(Some(recovered_message(&head, summary, entry, &self.live)))
    }
}

/// Writes at `offset` what is not unreadable, as [`read_around`] noted it.
fn write_around(
    disk: &dyn Disk,
    file: &str,
    offset: u64,
    part: &[u8],
    unreadable: &BTreeSet<u64>,
) -> Result<(), DiskError> {
    let mut from = offset;
    let end = offset + part.len() as u64;
    for stop in unreadable.iter().copied().chain([end]) {
        let to = stop.clamp(from, end);
        let good = part.get((from - offset) as usize..(to - offset) as usize).unwrap_or(&[]);
        if !good.is_empty() {
            disk.write_at(file, from, &mut [IoSlice::new(good)])?;
        }
        from = (stop + SECTOR_BYTES).clamp(from, end);
    }
    Ok(())
}

/// Of four thousand million generations, sixteen millions are left for the log to go on in.
const GENERATION_MAX: u32 = u32::MAX - (1 << 24);

/// What is told of a segment that the register names and that is not there.
pub(crate) const MISSING: &str = "the segment is missing";

/// What is wrong with a blob of `found` bytes, if anything is.
pub(crate) fn wrong_length(id: MessageId, body_bytes: u64, found: u64) -> Option<String> {
    (found != body_bytes)
        .then(|| format!("the body of message {id} has {found} bytes instead of {body_bytes}"))
}

fn recovered_message(
    head: &AcceptHead,
    summary: Summary,
    entry: &crate::index::Entry,
    live: &Live,
) -> RecoveredMessage {
    let open = entry
        .open()
        .filter_map(|index| {
            let domain = summary.domains.get(index as usize)?.clone();
            let retry = entry.retry(index);
            let (attempts, next_try) = (retry.attempts, retry.next_try);
            Some(RecoveredRecipient { index, domain, attempts, next_try })
        })
        .collect();
    RecoveredMessage {
        id: head.id,
        received_at: summary.received_at,
        meta: summary.meta,
        reverse_path_is_null: summary.reverse_path_is_null,
        open,
        hold: entry.hold(&live.reasons).map(Box::from),
        route_override: entry.route_override().map(Box::from),
        delay_notice_sent: entry.delay_notice_sent(),
        last_reason: entry.reason(&live.reasons).map(Box::from),
        body_bytes: summary.body_bytes,
    }
}

fn note_record(catalog: &mut Catalog, record: &RawRecord<'_>) {
    match record.kind {
        kind::ACCEPT | kind::COPY => {
            if let (Some(head), Some(source)) =
                (codec::read_head(record), codec::index_source(record.body))
            {
                catalog.add_accept(&head, &source);
            }
        }
        small => {
            let id = crate::segment::u64_at(record.body, 0).unwrap_or(0);
            catalog.add_small(id, small, record.body);
        }
    }
}

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

/// Domains by the text after the `@`, each allocated once.
#[derive(Default)]
struct Domains(BTreeMap<Box<str>, Domain>);

impl Domains {
    fn get(&mut self, text: &str) -> Option<Domain> {
        if let Some(domain) = self.0.get(text) {
            return Some(domain.clone());
        }
        // Only the bare postmaster has no domain.
        let domain = if text.is_empty() {
            Mailbox::parse("postmaster", false).ok()?.domain()
        } else {
            Mailbox::parse(&format!("x@{text}"), true).ok()?.domain()
        };
        self.0.insert(text.into(), domain.clone());
        Some(domain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memdisk::MemDisk;

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
            previous: (0, 0),
            marks: Marks::default(),
        };
        disk.put(&key.name(), header.encode(key).to_vec());
        let before = disk.list();
        let error = crate::Spool::open(&disk, SpoolConfig::default(), &mut |_| ()).expect_err("no");
        assert_eq!(error, SpoolError::Version { file: key.name().as_ref().into(), found: 2 });
        assert_eq!(disk.list(), before);
        assert!(error.to_string().contains("format version 2"));
    }
}
