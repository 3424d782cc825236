//! What `postrider spool verify` says.

use serde::{Deserialize, Serialize};

/// What `postrider spool verify` said.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Verified {
    pub(super) segments: u64,
    pub(super) live_messages: u64,
    pub(super) copied_messages: u64,
    pub(super) torn_batches: u64,
    pub(super) orphan_blobs: u64,
    pub(super) damaged: u64,
}
