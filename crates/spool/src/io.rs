//! Disk operations as values: made by the spool, performed by whoever drives it.

use crate::buffer::WriteBuffer;
use crate::checksums::Piece;
use crate::disk::DiskError;
use crate::name::{FileName, SegmentKey};
use crate::table::IdRange;
use bytes::Bytes;

/// Names an [`Io`] while it is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IoTicket(pub u64);

/// Where an [`Io`] may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// One at a time: the next comes out only after this one is done.
    Log,
    /// Several at once, on any thread, in any order.
    Bulk,
    /// As [`Lane::Bulk`], and somebody waits for it: it should not stand behind what takes long.
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

/// What an [`Io`] does.
#[derive(Debug)]
pub(crate) enum Op {
    /// Write a batch and make it durable; before that, finish the segment that is full.
    Commit { seal: Option<SealWrite>, file: FileName, offset: u64, data: WriteBuffer, sync: bool },
    /// Read `bytes` bytes, or up to the end of the file.
    Read { file: FileName, offset: u64, bytes: usize },
    /// Read a piece of a blob and check it.
    ReadPiece { file: FileName, offset: u64, piece: Piece },
    /// Read several ranges of one file.
    ReadMany { file: FileName, ranges: Vec<(u64, u32)> },
    /// Find which messages a segment says more about than its own accepts.
    Scan { file: FileName, key: SegmentKey, ranges: Vec<IdRange> },
    /// Make a file of a segment's length: allocated, or if that can't be its first step of zeros.
    Make { file: FileName, length: u64, bytes: u64, sync: bool },
    /// Write zeros, one step of preparing a segment.
    Zero { file: FileName, offset: u64, bytes: u64, sync: bool },
    /// Rename, durably if `sync`.
    Rename { from: FileName, to: FileName, sync: bool },
    /// Remove, durably if `sync`.
    Remove { file: FileName, sync: bool },
    /// A piece of a blob.
    BlobWrite { file: FileName, offset: u64, data: Bytes, create: bool },
    /// Blob content and name to stable storage.
    BlobSync { file: FileName, sync: bool },
    /// Write both copies of the register.
    Register { bytes: Vec<u8>, sync: bool },
    /// Ask for free space.
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

/// A segment says something about a message beside accepting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    pub id: u64,
    /// It may end recipients, as attempts and states never do.
    pub may_end: bool,
}

/// What an [`Op`] that did not fail came to.
#[derive(Debug)]
pub(crate) enum OpResult {
    Done,
    /// The file has its length; nothing was written to it.
    Allocated,
    Written(WriteBuffer),
    Data(Bytes),
    /// What was read is not what was written; in words.
    Wrong(Box<str>),
    Many(Vec<Bytes>),
    /// What a scan found, by ascending id.
    Scanned(Vec<Mention>),
    Free(u64),
    /// Whether there still is a register.
    Registered(bool),
    /// It can't be done now; the same operation, whole, may be later.
    PutOff(Box<Op>, DiskError),
}

impl Io {
    /// Where it may run.
    #[must_use]
    pub fn lane(&self) -> Lane {
        match self.op {
            Op::Commit { .. } => Lane::Log,
            Op::Read { .. } | Op::ReadPiece { .. } => Lane::Read,
            _ => Lane::Bulk,
        }
    }

    /// The ticket under which its result is expected.
    #[must_use]
    pub fn ticket(&self) -> IoTicket {
        self.ticket
    }
}

impl IoDone {
    /// Which operation it was.
    #[must_use]
    pub fn ticket(&self) -> IoTicket {
        self.ticket
    }

    /// What went wrong, if anything; the spool acts on it by itself.
    #[must_use]
    pub fn error(&self) -> Option<&DiskError> {
        match &self.result {
            Ok(OpResult::PutOff(_, error)) | Err(error) => Some(error),
            Ok(_) => None,
        }
    }
}
