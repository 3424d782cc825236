//! Configuration and status of a spool.

use crate::disk::DiskError;
use std::fmt;

/// Guarantee of [`crate::Completion::Durable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Written and fdatasynced: survives power loss.
    #[default]
    Sync,
    /// Written but not synced: survives a crash of the process, not of the machine.
    Os,
    /// In memory only.
    Memory,
}

/// Configuration of a log. [`SpoolConfig::default`] suits production except for `node`, `log` and `salt`.
#[derive(Clone, Debug)]
pub struct SpoolConfig {
    /// This machine, the upper 16 bits of the ids in this log.
    pub node: u16,
    /// This log directory, the next 8 bits.
    pub log: u8,
    /// A random number, fresh at each start. It is mixed into all checksums, so that a sender cannot insert forged
    /// records into the log.
    pub salt: u64,
    /// The guarantee given by a completion.
    pub durability: Durability,
    /// Size of a segment file.
    pub segment_bytes: u64,
    /// Size of the segment created at the first start, while the caller waits.
    pub first_segment_bytes: u64,
    /// Alignment of batches, a multiple of 512; a torn write then damages only one batch.
    pub block_bytes: u64,
    /// Size at which no further submit is added to a batch.
    pub batch_bytes_max: usize,
    /// Free disk space below which accepts are refused.
    pub reserve_bytes: u64,
    /// Bytes of log between two index batches.
    pub index_every_bytes: u64,
    /// Zero-written segments kept ready, at least 2. One is the reserve for settles and compaction on a full disk.
    pub spare_segments_max: usize,
    /// A segment is compacted if less than this share is needed.
    pub compact_below_percent: u8,
    /// Bytes read and written by compaction in one step.
    pub compact_step_bytes: usize,
    /// A planted fault: recovery accepts a torn batch as whole.
    #[cfg(feature = "planted")]
    pub trusts_torn_tail: bool,
    /// A planted fault: recovery removes orphan blobs first.
    #[cfg(feature = "planted")]
    pub removes_orphans_first: bool,
    /// A planted fault: running out of descriptors poisons.
    #[cfg(feature = "planted")]
    pub poisons_when_scarce: bool,
}

impl Default for SpoolConfig {
    fn default() -> SpoolConfig {
        SpoolConfig {
            node: 0,
            log: 0,
            salt: 0,
            durability: Durability::Sync,
            segment_bytes: 256 << 20,
            first_segment_bytes: 32 << 20,
            block_bytes: 4096,
            batch_bytes_max: 4 << 20,
            reserve_bytes: 512 << 20,
            index_every_bytes: 4 << 20,
            spare_segments_max: 2,
            compact_below_percent: 25,
            compact_step_bytes: 256 << 10,
            #[cfg(feature = "planted")]
            trusts_torn_tail: false,
            #[cfg(feature = "planted")]
            removes_orphans_first: false,
            #[cfg(feature = "planted")]
            poisons_when_scarce: false,
        }
    }
}

/// Errors of opening or verifying a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpoolError {
    /// A file operation failed that is vital for the log.
    Disk(DiskError),
    /// A segment was written by an unknown version of the program.
    Version {
        /// The segment's file name.
        file: Box<str>,
        /// The version in its header.
        found: u16,
    },
    /// The directory contains the log of another node, or another log.
    OtherLog {
        /// The segment's file name.
        file: Box<str>,
        /// The node in its header.
        node: u16,
        /// The log in its header.
        log: u8,
    },
    /// Two segments have the same generation: a copy was restored beside a log that was written on.
    Twice {
        /// The file names of the two segments.
        files: [Box<str>; 2],
    },
    /// A file's generation leaves none for later ones.
    Generation { file: Box<str> },
    /// The configuration is invalid.
    Config(&'static str),
}

impl fmt::Display for SpoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpoolError::Disk(error) => write!(f, "spool: {error}"),
            SpoolError::Version { file, found } => {
                write!(f, "spool: {file} has unknown format version {found}")
            }
            SpoolError::OtherLog { file, node, log } => {
                write!(f, "spool: {file} belongs to node {node}, log {log}")
            }
            SpoolError::Twice { files: [one, other] } => write!(
                f,
                "spool: {one} and {other} have the same number, so files of two spools are mixed; \
                 move each spool to its own directory and start a server on each"
            ),
            SpoolError::Generation { file } => write!(
                f,
                "spool: no segment numbers left after {file}: if it does not belong to this \
                 spool, remove it"
            ),
            SpoolError::Config(what) => write!(f, "spool: {what}"),
        }
    }
}

impl std::error::Error for SpoolError {}

impl From<DiskError> for SpoolError {
    fn from(error: DiskError) -> SpoolError {
        SpoolError::Disk(error)
    }
}

/// Synced data on disk that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file it was found in.
    pub file: Box<str>,
    /// Its start offset in the file.
    pub offset: u64,
    /// Unreadable bytes of the file (0: unknown or none).
    pub bytes: u64,
    /// The damage as readable text.
    pub what: Box<str>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.file, self.offset, self.what)
    }
}

/// Result of recovery at a start: see [`crate::Opening::finish`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Messages with open recipients, all handed to the caller.
    pub live_count: u64,
    /// Segments read through their index.
    pub indexed_segments_count: u64,
    /// Segments read from end to end.
    pub scanned_segments_count: u64,
    /// Batches at the end of the log that were never acknowledged and are cut.
    pub torn_count: u64,
    /// Records, gaps and blobs that are damaged.
    pub damaged_count: u64,
    /// The first items, at most [`RecoveryReport::DAMAGE_MAX`].
    pub damage: Vec<Damage>,
    /// Blobs without a message; removed unless kept.
    pub orphan_blobs_count: u64,
    /// Of these, blobs that may belong to a message with a lost record; kept for the operator.
    pub kept_blobs_count: u64,
    /// Freed segments without needed records.
    pub freed_segments_count: u64,
}

impl RecoveryReport {
    /// Maximum number of damages described.
    pub const DAMAGE_MAX: usize = 1_000;
}

/// Status of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolStatus {
    /// Messages with open recipients.
    pub live_count: u64,
    /// Messages with open recipients that lost their blob, found at the start.
    pub damaged_count: u64,
    /// Segments that hold records.
    pub segments_count: u64,
    /// Segments that are ready for use.
    pub spares_count: u64,
    /// Total size of these files.
    pub segment_file_bytes: u64,
    /// Bytes of accept records of live messages.
    pub live_bytes: u64,
    /// Bodies in separate files.
    pub blobs_count: u64,
    /// Free disk space at the last query.
    pub free_bytes: Option<u64>,
    /// Accepts are refused because the disk is full.
    pub full: bool,
    /// The failure after which no record is made durable any more.
    pub poisoned: Option<Box<str>>,
    /// Submits that wait for the next batch.
    pub pending_count: u64,
    /// Batches made durable since the start.
    pub batches_count: u64,
    /// Records made durable since the start.
    pub records_count: u64,
    /// Bytes written to the log since the start.
    pub written_bytes: u64,
    /// Segments freed since the start.
    pub released_count: u64,
    /// Bytes that compaction wrote since the start.
    pub compacted_bytes: u64,
    /// Memory of the live index, approximately.
    pub index_bytes: u64,
}
