//! What a segment says about messages that other segments hold.

use super::ends::{Extent, read_ends};
use super::index::find_index;
use super::walk::{Found, scan};
use crate::block::u64_at;
use crate::codec::{RawRecord, kind, read_head};
use crate::disk::{Disk, DiskError, DiskErrorKind};
use crate::io::Mention;
use crate::name::SegmentKey;
use crate::table::IdRange;
use std::collections::BTreeMap;

/// Messages within `ranges` that the segment says something about beside accepting them, by
/// ascending id.
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
            if let Found::Record(record) | Found::LoneCopy(record) = found {
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
