//! What `postrider spool verify` says.

use serde::{Deserialize, Serialize};

/// What `postrider spool verify` said.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Verified {
    pub(crate) segments: u64,
    pub(crate) live_messages: u64,
    pub(crate) copied_messages: u64,
    pub(crate) torn_batches: u64,
    pub(crate) orphan_blobs: u64,
    pub(crate) damaged: u64,
}
