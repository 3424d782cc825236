//! Makes the recovered data durable and seals every segment; the log continues in a new one.

use super::read::Recovery;
use crate::batch::BatchHeader;
use crate::block::{SECTOR_BYTES, u64_at};
use crate::buffer::WriteBuffer;
use crate::catalog::Catalog;
use crate::codec::{self, RawRecord, kind};
use crate::config::SpoolConfig;
use crate::disk::{Disk, DiskError, read_around};
use crate::io::SealWrite;
use crate::name::{SegmentKey, damaged_name};
use crate::scan::{self, ScanItem};
use crate::segment::{Footer, SegmentEnd};
use std::collections::BTreeSet;
use std::io::IoSlice;

impl Recovery {
    /// Makes the recovered data durable and seals every segment. The log can continue in a new one after this.
    pub(crate) fn make_durable(
        &mut self,
        disk: &dyn Disk,
        config: &SpoolConfig,
        sync: bool,
    ) -> Result<(), DiskError> {
        for name in std::mem::take(&mut self.unfinished) {
            disk.remove(&name)?;
        }
        for &key in &self.missing {
            // An empty file in its place: the next start does not report it missing, and the loss stays on record.
            disk.create(&damaged_name(key))?;
        }
        if sync {
            self.write_again(disk)?;
        }
        // All segments first: the index that seals one segment leaves out messages that another one settles.
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

    /// Rewrites data that was read but may never have been synced. If a sync failed and only the process ended, the
    /// system still returns the unwritten data and treats it as clean: another sync alone would have no effect.
    fn write_again(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        let Some(segment) = self.live.segments.get(self.last.generation) else { return Ok(()) };
        let file = &segment.file;
        let footer = if self.doubtful.with_footer { SECTOR_BYTES } else { 0 };
        for (mut from, to) in [
            (self.doubtful.from, self.last.end),
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

    /// Writes the missing last index batch and footer of a segment after a crash, so that the next start need not read
    /// the whole segment. Then it cuts the file after them: on a full disk this frees space for the next segment. Only
    /// the torn tail is overwritten.
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
        let (length, footer_offset) = (segment.length, segment.footer_offset());
        let Some((catalog, previous_index)) = unindexed(disk, &file, (key, length), end)? else {
            return Ok(());
        };
        if end + catalog.bytes_max() + config.block_bytes > footer_offset {
            return Ok(());
        }
        // A cut batch may be whole after a torn index batch: an equal index written here would make it valid again.
        scan::cut(disk, &file, (key, length), end, sync)?;
        let seal = self.last_index(config, (key, end), catalog, previous_index);
        seal.write(disk, sync)?;
        let sealed = SegmentEnd { generation: key.generation, end: seal.footer_offset };
        let length = sealed.end + SECTOR_BYTES;
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
        if self.last == (SegmentEnd { end, ..sealed }) {
            self.last = sealed;
        }
        Ok(())
    }

    /// The index batch over `catalog` for the end of a segment's data, and the footer directly after it.
    fn last_index(
        &mut self,
        config: &SpoolConfig,
        (key, end): (SegmentKey, u64),
        mut catalog: Catalog,
        previous_index: u64,
    ) -> SealWrite {
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
        self.next_batch += 1;
        let mut buffer = WriteBuffer::default();
        let bytes =
            catalog.write(&mut buffer, &self.live.index, (key, end), header, config.block_bytes);
        let footer = Footer { end: end + bytes, index_offset: end };
        SealWrite {
            file: key.name(),
            index_offset: end,
            index: buffer.small,
            footer_offset: footer.end,
            footer: footer.encode(key, footer.end).to_vec(),
        }
    }
}

/// The unindexed records of a segment, and the start of its last index batch (0 for none); `None` if there is damage.
/// The segment was readable earlier in this start: an index of the records readable now would hide the rest.
fn unindexed(
    disk: &dyn Disk,
    file: &str,
    (key, length): (SegmentKey, u64),
    end: u64,
) -> Result<Option<(Catalog, u64)>, DiskError> {
    let mut catalog = Catalog::default();
    let mut previous_index = 0;
    let walked = scan::scan(disk, file, key, length, Some(end), &mut |found| match found {
        ScanItem::Batch(offset, header) if header.is_index => {
            previous_index = offset;
            catalog.clear();
        }
        ScanItem::Record(record) => note_record(&mut catalog, &record),
        // With damage none is written.
        ScanItem::Batch(..) | ScanItem::LoneCopy(_) | ScanItem::Damage { .. } => {}
    })?;
    Ok((!walked.damaged).then_some((catalog, previous_index)))
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
            let id = u64_at(record.body, 0).unwrap_or(0);
            catalog.add_small(id, small, record.body);
        }
    }
}

/// Writes data at `offset` except the unreadable sectors found by [`read_around`].
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
