//! Reading of segments: distinguishes whole batches, damage and a torn tail.

mod index;
mod survey;
mod walk;
mod window;

pub(crate) use index::find_index;
pub(crate) use survey::{Extent, mentioned_ids, read_ends, survey};
#[cfg(feature = "planted")]
pub(crate) use walk::scan_trusting;
pub(crate) use walk::{ScanEnd, ScanItem, cut, scan};
