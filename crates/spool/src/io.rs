//! Disk operations as values: created by the spool, performed by its driver.

use crate::buffer::WriteBuffer;
use crate::checksums::Piece;
use crate::disk::DiskError;
use crate::name::{FileName, SegmentKey};
use crate::table::IdRange;
use bytes::Bytes;

/// Identifies a pending [`Io`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoTicket(pub u64);

/// Concurrency class of an [`Io`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// One at a time: the next is returned only after this one is done.
    Log,
    /// Several at once, on any thread, in any order.
    Bulk,
    /// As [`Lane::Bulk`], with a caller waiting: run it ahead of long operations.
    Read,
}

/// A disk operation to perform.
#[derive(Debug)]
pub struct Io {
    pub(crate) ticket: IoTicket,
    pub(crate) op: Op,
}

/// A disk operation that was performed; for [`crate::Spool::handle_io_done`].
#[derive(Debug)]
pub struct IoDone {
    pub(crate) ticket: IoTicket,
    pub(crate) result: Result<OpResult, DiskError>,
}

/// The operation of an [`Io`].
#[derive(Debug)]
pub(crate) enum Op {
    /// Write a batch and sync it; before that, write the end of the full segment, if any.
    Commit { seal: Option<SealWrite>, file: FileName, offset: u64, data: WriteBuffer, sync: bool },
    /// Read `bytes` bytes, or up to the end of the file.
    Read { file: FileName, offset: u64, bytes: usize },
    /// Read a piece of a blob and check it.
    ReadPiece { file: FileName, offset: u64, piece: Piece },
    /// Read several ranges of one file.
    ReadMany { file: FileName, ranges: Vec<(u64, u32)> },
    /// Find the messages about which a segment has records besides its own accepts.
    Scan { file: FileName, key: SegmentKey, ranges: Vec<IdRange> },
    /// Create a file of a segment's length: allocated, or if that is impossible, the first step of writing zeros.
    Make { file: FileName, length: u64, bytes: u64, sync: bool },
    /// Write zeros, one step of preparing a segment.
    Zero { file: FileName, offset: u64, bytes: u64, sync: bool },
    /// Rename, durably if `sync`.
    Rename { from: FileName, to: FileName, sync: bool },
    /// Rename a segment to a spare, or remove it if a backup shares it, durably if `sync`.
    Recycle { from: FileName, to: FileName, sync: bool },
    /// Remove, durably if `sync`.
    Remove { file: FileName, sync: bool },
    /// A piece of a blob.
    BlobWrite { file: FileName, offset: u64, data: Bytes, create: bool },
    /// Blob content and name to stable storage.
    BlobSync { file: FileName, sync: bool },
    /// Write both copies of the register.
    Register { bytes: Vec<u8>, sync: bool },
    /// Query the free space.
    Space,
}

/// The end of a segment that is full.
#[derive(Debug)]
pub(crate) struct SealWrite {
    pub file: FileName,
    pub index_offset: u64,
    pub index: Vec<u8>,
    pub footer_offset: u64,
    pub footer: Vec<u8>,
}

/// A segment has a record about a message other than its accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    pub id: u64,
    /// True if it may end recipients; attempts and states never do.
    pub may_end: bool,
}

/// Result of a successful [`Op`].
#[derive(Debug)]
pub(crate) enum OpResult {
    Done,
    /// The file has its length; no data was written.
    Allocated,
    /// The segment was removed, because a backup shares it.
    Unshared,
    Written(WriteBuffer),
    Data(Bytes),
    /// The data read differs from the data written; explained in text.
    Wrong(Box<str>),
    Many(Vec<Bytes>),
    /// Result of a scan, by ascending id.
    Scanned(Vec<Mention>),
    Free(u64),
    /// True if the register still exists.
    Registered(bool),
    /// It could not be done now; the same operation can be retried as a whole.
    PutOff(Box<Op>, DiskError),
}

impl Io {
    /// The lane for this operation.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match self.op {
            Op::Commit { .. } => Lane::Log,
            Op::Read { .. } | Op::ReadPiece { .. } => Lane::Read,
            _ => Lane::Bulk,
        }
    }

    /// The ticket of its result.
    #[must_use]
    pub fn ticket(&self) -> IoTicket {
        self.ticket
    }
}

impl IoDone {
    /// The ticket of the operation.
    #[must_use]
    pub fn ticket(&self) -> IoTicket {
        self.ticket
    }

    /// The error, if any; the spool handles it itself.
    #[must_use]
    pub fn error(&self) -> Option<&DiskError> {
        match &self.result {
            Ok(OpResult::PutOff(_, error)) | Err(error) => Some(error),
            Ok(_) => None,
        }
    }
}
