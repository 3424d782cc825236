//! Walks a segment.
use crate::disk::{Disk, DiskError};
use crate::segment::SegmentKey;
#[derive(Debug)]
pub(crate) struct ScanFilter;
#[derive(Debug)]
pub(crate) struct SmallRecord;
pub(crate) fn small_records(
    _: &dyn Disk,
    _: &str,
    _: SegmentKey,
    _: &ScanFilter,
) -> Result<Vec<SmallRecord>, DiskError> {
    Ok(Vec::new())
}
