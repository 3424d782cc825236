//! All segments at a glance, and the register: what is there, and what is missing.

use super::ends::{Extent, read_ends};
use crate::block::SECTOR_BYTES;
use crate::disk::{Disk, DiskError};
use crate::name::SegmentKey;
use crate::register::{Entry, Register, UNUSABLE};
use std::collections::{BTreeMap, BTreeSet};

/// All segments at a glance.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Those that are there, in ascending order.
    pub extents: Vec<Extent>,
    /// Those that must be there and are not.
    pub missing: Vec<SegmentKey>,
    /// What the register says; empty if it says nothing of use.
    pub register: Register,
    /// Why the register can't be read.
    pub register_error: Option<DiskError>,
}

/// Looks at both ends of all segments, which come in ascending order, and at the register. Those
/// in `aside` were put aside because of damage.
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
    // A build from before there was one until it was whole made it at a first start; nothing is lost.
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

/// Whether a program that keeps no register was here since the register was written: what it freed is
/// still entered.
fn goes_on_without(register: &Register, extents: &[Extent]) -> bool {
    let newest = register.entries.keys().max().copied();
    extents.iter().any(|extent| {
        let begun_without = extent.header.is_some_and(|header| !header.registered);
        begun_without && Some(extent.key.generation) > newest
    })
}

/// Where the register says that the data of `extent` ends, if it says so. `said_end` is what the
/// segment after it says.
fn entered_end(entry: &mut Entry, extent: &Extent, said_end: Option<u64>) -> Option<u64> {
    let is_cut = extent.footer.is_none() && extent.length < entry.length;
    if entry.end == 0 && said_end.is_none() && is_cut {
        // Files are made in their full length, and cut only behind their footer: all that is gone
        // may have been data.
        entry.end = entry.length.saturating_sub(SECTOR_BYTES);
    }
    (entry.end > 0).then_some(entry.end)
}
