//! Reads segments: tells whole batches, damage and a torn tail apart.

mod ends;
mod index;
mod mentions;
mod payload;
mod survey;
mod walk;
mod window;

pub(crate) use ends::{Extent, read_ends};
pub(crate) use index::find_index;
pub(crate) use mentions::mentioned_ids;
pub(crate) use survey::survey;
#[cfg(feature = "planted")]
pub(crate) use walk::scan_trusting;
pub(crate) use walk::{Found, ScanEnd, cut, scan};
