//! Survey of all segments and the register: existing and missing segments.

use super::index::find_index;
use super::walk::{ScanItem, scan};
use super::window::read_range;
use crate::block::{SECTOR_BYTES, u64_at};
use crate::codec::{RawRecord, kind, read_head};
use crate::disk::{Disk, DiskError, DiskErrorKind};
use crate::io::Mention;
use crate::name::SegmentKey;
use crate::register::{Register, RegisterEntry, UNUSABLE};
use crate::segment::{Footer, Header};
use crate::table::IdRange;
use std::collections::{BTreeMap, BTreeSet};

/// All segments at a glance.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Existing segments, in ascending order.
    pub extents: Vec<Extent>,
    /// Missing segments.
    pub missing: Vec<SegmentKey>,
    /// The content of the register; empty if unusable.
    pub register: Register,
    /// Error of reading the register.
    pub register_error: Option<DiskError>,
}

/// Reads both ends of all segments, given in ascending order, and the register. The segments in `aside` were set aside
/// because of damage.
pub(crate) fn survey(
    disk: &dyn Disk,
    keys: impl Iterator<Item = SegmentKey>,
    aside: &BTreeSet<SegmentKey>,
) -> Result<Survey, DiskError> {
    let mut extents: Vec<Extent> = Vec::new();
    let mut said = BTreeMap::new();
    for key in keys {
        let file = key.name();
        let length = disk.length(&file)?;
        let (header, footer) = read_ends(disk, &file, key, length)?;
        if let Some(header) = header {
            said.insert(header.previous.generation, header.previous.end);
        }
        extents.push(Extent { key, length, header, footer, said_end: None });
    }
    let (register, register_error) = Register::read(disk)?;
    // Older builds did not create the register atomically. A crash at the first start left an incomplete one, with
    // nothing lost.
    let was_made = extents.iter().any(|extent| extent.header.is_some_and(|h| h.registered));
    let register_error = register_error.filter(|error| was_made || *error.text != *UNUSABLE);
    let mut register = register.unwrap_or_default();
    if goes_on_without(&register, &extents) {
        register.entries.clear();
    }
    let mut missing = register.entries.clone();
    for extent in &mut extents {
        let said_end = said.get(&extent.key.generation).copied();
        let entered = register.get_mut(extent.key).and_then(|entry| {
            missing.remove(&extent.key.generation);
            entered_end(entry, extent, said_end)
        });
        extent.said_end = said_end.max(entered);
    }
    let missing = missing
        .into_iter()
        .map(|(generation, entry)| SegmentKey { generation, salt: entry.salt })
        .filter(|key| !aside.contains(key))
        .collect();
    Ok(Survey { extents, missing, register, register_error })
}

/// Returns true if a version without a register ran since the register was written: segments that it freed are still
/// entered.
fn goes_on_without(register: &Register, extents: &[Extent]) -> bool {
    let newest = register.entries.keys().max().copied();
    extents.iter().any(|extent| {
        let begun_without = extent.header.is_some_and(|header| !header.registered);
        begun_without && Some(extent.key.generation) > newest
    })
}

/// End of the data of `extent` according to the register, if known. `said_end` is the end in the next segment's header.
fn entered_end(entry: &mut RegisterEntry, extent: &Extent, said_end: Option<u64>) -> Option<u64> {
    let is_cut = extent.footer.is_none() && extent.length < entry.length;
    if entry.end == 0 && said_end.is_none() && is_cut {
        // Files are created in full length, and cut only after their footer: the missing part may have been data.
        entry.end = entry.length.saturating_sub(SECTOR_BYTES);
    }
    (entry.end > 0).then_some(entry.end)
}

/// A segment file and its known end, from the file, the next one and the register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub key: SegmentKey,
    pub length: u64,
    pub header: Option<Header>,
    pub footer: Option<Footer>,
    /// End of its data according to the next segment's header, or the register.
    pub said_end: Option<u64>,
}

impl Extent {
    /// The footer and the index before it were synced for sure.
    pub(crate) fn is_confirmed(&self) -> bool {
        match (self.footer, self.said_end) {
            (Some(footer), Some(end)) => footer.end <= end,
            _ => false,
        }
    }

    /// Everything before this offset was synced. A footer may have arrived without the index written with it; data
    /// before that index was synced earlier.
    pub(crate) fn known_end(&self) -> Option<u64> {
        match self.footer {
            Some(footer) if self.is_confirmed() => Some(footer.end),
            Some(footer) => Some(footer.index_offset),
            None => self.said_end,
        }
    }
}

/// The header and footer of a segment file.
pub(crate) fn read_ends(
    disk: &dyn Disk,
    file: &str,
    key: SegmentKey,
    length: u64,
) -> Result<(Option<Header>, Option<Footer>), DiskError> {
    let mut block = [0; SECTOR_BYTES as usize];
    let count = read_range(disk, file, 0, &mut block)?.unwrap_or(0);
    let header = block.get(..count).and_then(|block| Header::decode(block, key));
    let offset = length.saturating_sub(SECTOR_BYTES);
    let count = read_range(disk, file, offset, &mut block)?.unwrap_or(0);
    let end = block.get(..count).unwrap_or(&[]);
    let footer = Footer::decode(end, key, offset);
    // A recycled segment has its header at the end until one is written at the start.
    Ok((header.or_else(|| Header::decode(end, key)), footer))
}

/// Messages within `ranges` about which the segment has records other than their accepts, by ascending id.
pub(crate) fn mentioned_ids(
    disk: &dyn Disk,
    file: &str,
    key: SegmentKey,
    ranges: &[IdRange],
) -> Result<Vec<Mention>, DiskError> {
    let length = disk.length(file)?;
    let mut ids: BTreeMap<u64, bool> = BTreeMap::new();
    let mut note = |record: &RawRecord<'_>| {
        let id = match record.kind {
            kind::ACCEPT => None,
            kind::COPY | kind::INDEXED => {
                read_head(record).filter(|head| head.copied).map(|head| head.id.0)
            }
            _ => u64_at(record.body, 0),
        };
        let may_end = !matches!(record.kind, kind::ATTEMPT | kind::STATE);
        if let Some(id) = id.filter(|&id| ranges.iter().any(|range| range.contains(id))) {
            *ids.entry(id).or_default() |= may_end;
        }
    };
    let (header, footer) = read_ends(disk, file, key, length)?;
    let extent = Extent { key, length, header, footer, said_end: None };
    let index = match footer {
        Some(footer) => find_index(disk, file, key, footer)?,
        None => None,
    };
    if let Some(index) = index {
        for place in &index {
            place.visit(disk, file, key, &mut note)?;
        }
    } else {
        let end = scan(disk, file, key, length, extent.known_end(), &mut |found| {
            if let ScanItem::Record(record) | ScanItem::LoneCopy(record) = found {
                note(&record);
            }
        })?;
        if end.unreadable {
            return Err(DiskError::new(
                DiskErrorKind::Failed,
                format!("cannot read all of {file}"),
            ));
        }
    }
    Ok(ids.into_iter().map(|(id, may_end)| Mention { id, may_end }).collect())
}
