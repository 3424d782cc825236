//! What a spool is told at the start, and what it tells of itself.

use crate::disk::DiskError;
use std::fmt;

/// What an answer of [`crate::Completion::Durable`] promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Written and fdatasynced: survives power loss.
    #[default]
    Sync,
    /// Written, not synced: survives the process, not the machine.
    Os,
    /// Kept in memory: survives nothing.
    Memory,
}

/// How a log is kept. [`SpoolConfig::default`] is right for production but for `node`, `log` and
/// `salt`.
#[derive(Clone, Debug)]
pub struct SpoolConfig {
    /// This machine, the upper 16 bits of the ids in this log.
    pub node: u16,
    /// This log directory, the next 8 bits.
    pub log: u8,
    /// A random number, fresh at each start: mixed into all checksums, so that no sender can
    /// put records into the log by guessing what they look like.
    pub salt: u64,
    /// What a completion promises.
    pub durability: Durability,
    /// Size of a segment file.
    pub segment_bytes: u64,
    /// Size of the segment that is made at the first start, while the caller waits.
    pub first_segment_bytes: u64,
    /// Batches begin at multiples of this, so that a torn write hurts no other batch; a multiple
    /// of 512.
    pub block_bytes: u64,
    /// A batch takes no further submit beyond this size.
    pub batch_bytes_max: usize,
    /// Free disk space below which accepts are refused.
    pub reserve_bytes: u64,
    /// How much log is between two index blocks.
    pub index_every_bytes: u64,
    /// Zero-written segments kept ready; one of them is the reserve that settles and compaction may
    /// use when the disk is full. At least 2.
    pub spare_segments_max: usize,
    /// A segment is compacted when less than this share of it is needed.
    pub compact_below_percent: u8,
    /// How much compaction reads and writes in one step.
    pub compact_step_bytes: usize,
    /// A planted fault: recovery takes a torn batch for a whole one.
    #[cfg(feature = "planted")]
    pub trusts_torn_tail: bool,
    /// A planted fault: recovery removes orphan blobs before anything else.
    #[cfg(feature = "planted")]
    pub removes_orphans_first: bool,
    /// A planted fault: want of a descriptor poisons.
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

/// Why a log could not be opened or verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpoolError {
    /// A file operation failed, and the log can't do without it.
    Disk(DiskError),
    /// A segment was written by a version of the program that this one does not know.
    Version {
        /// The segment's file name.
        file: Box<str>,
        /// What its header says.
        found: u16,
    },
    /// The directory holds the log of another node or log number.
    OtherLog {
        /// The segment's file name.
        file: Box<str>,
        /// What its header says.
        node: u16,
        /// What its header says.
        log: u8,
    },
    /// Two segments have one generation: a copy was put back beside a log that went on.
    Twice {
        /// The file names of the two segments.
        files: [Box<str>; 2],
    },
    /// A file's generation leaves none for later ones.
    Generation { file: Box<str> },
    /// The configuration makes no sense.
    Config(&'static str),
}

impl fmt::Display for SpoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpoolError::Disk(error) => write!(f, "spool: {error}"),
            SpoolError::Version { file, found } => {
                write!(f, "spool: {file} has format version {found}, which is unknown here")
            }
            SpoolError::OtherLog { file, node, log } => {
                write!(f, "spool: {file} belongs to node {node}, log {log}")
            }
            SpoolError::Twice { files: [one, other] } => write!(
                f,
                "spool: {one} and {other} have the same generation, so they are of two spools: start \
                 each in a directory of its own, and nothing of either is lost"
            ),
            SpoolError::Generation { file } => write!(
                f,
                "spool: after {file} there are no numbers for new segments: if it is not of this \
                 spool, take it away"
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

/// Something on disk is not what was once synced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file it was found in.
    pub file: Box<str>,
    /// Byte in the file at which it begins.
    pub offset: u64,
    /// How much of the file is unreadable (0: not known, or nothing).
    pub bytes: u64,
    /// What is wrong, for people.
    pub what: Box<str>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.file, self.offset, self.what)
    }
}

/// What a start found in the log: see [`crate::Opening::finish`].
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
    /// The first of them, at most [`RecoveryReport::DAMAGE_MAX`].
    pub damage: Vec<Damage>,
    /// Blobs that no message names; removed but for those that are kept.
    pub orphan_blobs_count: u64,
    /// Of these, those that may belong to a message whose record is lost; kept for the operator.
    pub kept_blobs_count: u64,
    /// Segments that hold nothing any more, freed.
    pub freed_segments_count: u64,
}

impl RecoveryReport {
    /// At most so many damages are described.
    pub const DAMAGE_MAX: usize = 1_000;
}

/// How a log is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpoolStatus {
    /// Messages with open recipients.
    pub live_count: u64,
    /// Messages whose blob was lost at the start and that have open recipients still.
    pub damaged_count: u64,
    /// Segments that hold records.
    pub segments_count: u64,
    /// Segments that are ready for use.
    pub spares_count: u64,
    /// Size of all of these files.
    pub segment_file_bytes: u64,
    /// Bytes of accept records of live messages.
    pub live_bytes: u64,
    /// Bodies in files of their own.
    pub blobs_count: u64,
    /// Free disk space when last asked.
    pub free_bytes: Option<u64>,
    /// Accepts are refused for lack of space.
    pub full: bool,
    /// What failed; nothing is made durable any more.
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
