//! Blobs that no record names.

use super::read::Recovery;
use crate::disk::{Disk, DiskError};
use crate::name::blob_name;
use std::collections::BTreeSet;

impl Recovery {
    /// Removes the blobs that no record names, last of all: a settle that was read may have been in
    /// memory only until [`Recovery::make_durable`] came to its end, and until the new segment's
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
}
