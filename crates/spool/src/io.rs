//! Disk operations as values: made by the spool, performed by whoever drives it.

use crate::checksums::{self, Piece};
use crate::disk::{Disk, DiskError, DiskErrorKind, read_full};
use crate::register;
use crate::scan::IdRanges;
use crate::segment::SegmentKey;
use bytes::Bytes;
use std::io::IoSlice;
use std::sync::Arc;

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
    pub(crate) result: Result<Outcome, DiskError>,
}

/// File names are shared, not copied, on the way.
pub(crate) type FileName = Arc<str>;

#[derive(Debug)]
pub(crate) enum Op {
    /// Write a batch and make it durable; before that, finish the segment that is full.
    Commit { seal: Option<SealWrite>, file: FileName, offset: u64, data: WriteBuffer, sync: bool },
    /// Read one range.
    Read { file: FileName, offset: u64, bytes: usize },
    /// Read a piece of a blob and check it.
    ReadPiece { file: FileName, offset: u64, piece: Piece },
    /// Read several ranges of one file.
    ReadMany { file: FileName, ranges: Vec<(u64, u32)> },
    /// Find which messages a segment says more about than its own accepts.
    Scan { file: FileName, key: SegmentKey, ranges: IdRanges },
    /// Make a file of a segment's length: allocated, or if that can't be its first step of zeros.
    Make { file: FileName, length: u64, bytes: u64, sync: bool },
    /// Write zeros, one step of preparing a segment.
    Zero { file: FileName, offset: u64, bytes: u64, sync: bool },
    /// Rename durably.
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

#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    /// The file has its length; nothing was written to it.
    Allocated,
    Written(WriteBuffer),
    Data(Bytes),
    /// What was read is not what was written; in words.
    Wrong(Box<str>),
    Many(Vec<Bytes>),
    /// Ids, ascending, and whether something that may end recipients is said of them.
    Scanned(Vec<(u64, bool)>),
    Free(u64),
    /// Whether there still is a register.
    Registered(bool),
    /// It can't be done now; the same operation, whole, may be later.
    PutOff(Box<Op>, DiskError),
}

/// What one batch writes: small things copied into one buffer, large ones by reference.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    pub small: Vec<u8>,
    pub parts: Vec<Part>,
    /// How much of `small` is in `parts` already.
    marked: usize,
    /// Bytes in all.
    length: u64,
}

#[derive(Debug)]
pub(crate) enum Part {
    Small(usize, usize),
    Large(Bytes),
}

impl WriteBuffer {
    /// Bytes in all.
    pub(crate) fn length(&self) -> u64 {
        self.length + (self.small.len() - self.marked) as u64
    }

    /// Adds a piece without copying it.
    pub(crate) fn push_large(&mut self, piece: Bytes) {
        self.mark();
        self.length += piece.len() as u64;
        self.parts.push(Part::Large(piece));
    }

    /// Adds zeros.
    pub(crate) fn push_zeros(&mut self, bytes: u64) {
        let mut left = bytes;
        while left > 0 {
            let part = left.min(ZEROS.len() as u64);
            self.push_large(Bytes::from_static(ZEROS.get(..part as usize).unwrap_or(&ZEROS)));
            left -= part;
        }
    }

    /// Closes the run of copied bytes.
    pub(crate) fn mark(&mut self) {
        if self.marked < self.small.len() {
            self.parts.push(Part::Small(self.marked, self.small.len()));
            self.length += (self.small.len() - self.marked) as u64;
            self.marked = self.small.len();
        }
    }

    /// Empties it for the next batch and keeps a moderate allocation.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.small.clear();
        self.small.shrink_to(8 << 20);
        self.marked = 0;
        self.length = 0;
    }

    fn write(&self, disk: &dyn Disk, file: &str, offset: u64) -> Result<(), DiskError> {
        let mut slices: Vec<IoSlice<'_>> = self
            .parts
            .iter()
            .map(|part| match part {
                Part::Small(from, to) => IoSlice::new(self.small.get(*from..*to).unwrap_or(&[])),
                Part::Large(piece) => IoSlice::new(piece),
            })
            .collect();
        disk.write_at(file, offset, &mut slices)
    }
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

    /// Its name.
    #[must_use]
    pub fn ticket(&self) -> IoTicket {
        self.ticket
    }

    /// Does it. The real driver, the simulator and the tests share this.
    #[must_use]
    pub fn perform(self, disk: &dyn Disk) -> IoDone {
        IoDone { ticket: self.ticket, result: self.op.perform(disk) }
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
            Ok(Outcome::PutOff(_, error)) | Err(error) => Some(error),
            Ok(_) => None,
        }
    }
}

impl Op {
    fn perform(self, disk: &dyn Disk) -> Result<Outcome, DiskError> {
        match self {
            Op::Commit { seal, file, offset, data, sync } => {
                let written = commit(disk, seal.as_ref(), (&file, offset), &data, sync);
                match written {
                    Ok(()) => Ok(Outcome::Written(data)),
                    Err(error) if is_passing(error.kind) => {
                        let op = Op::Commit { seal, file, offset, data, sync };
                        Ok(Outcome::PutOff(Box::new(op), error))
                    }
                    Err(error) => Err(error),
                }
            }
            Op::Read { file, offset, bytes } => {
                Ok(Outcome::Data(read_bytes(disk, &file, offset, bytes)?))
            }
            Op::ReadPiece { file, offset, piece } => {
                let data = read_bytes(disk, &file, offset, piece.bytes)?;
                Ok(if checksums::is_right(&data, piece) {
                    Outcome::Data(data)
                } else {
                    Outcome::Wrong(format!("{file} at {offset}: bad length or checksum").into())
                })
            }
            Op::ReadMany { file, ranges } => ranges
                .into_iter()
                .map(|(offset, bytes)| read_bytes(disk, &file, offset, bytes as usize))
                .collect::<Result<_, _>>()
                .map(Outcome::Many),
            Op::Scan { file, key, ranges } => {
                crate::scan::mentioned_ids(disk, &file, key, &ranges).map(Outcome::Scanned)
            }
            Op::Make { file, length, bytes, sync } => {
                if make(disk, &file, length, sync)? {
                    return Ok(Outcome::Allocated);
                }
                zero(disk, &file, 0, bytes, sync)
            }
            Op::Zero { file, offset, bytes, sync } => zero(disk, &file, offset, bytes, sync),
            Op::Rename { from, to, sync } => match disk.rename(&from, &to) {
                Ok(()) => sync_dir(disk, sync),
                Err(error) if error.kind == DiskErrorKind::Scarce => {
                    Ok(Outcome::PutOff(Box::new(Op::Rename { from, to, sync }), error))
                }
                Err(error) => Err(error),
            },
            Op::Remove { file, sync } => match disk.remove(&file) {
                Ok(()) => sync_dir(disk, sync),
                Err(error) if error.kind == DiskErrorKind::Scarce => {
                    Ok(Outcome::PutOff(Box::new(Op::Remove { file, sync }), error))
                }
                Err(error) => Err(error),
            },
            Op::BlobWrite { file, offset, data, create } => {
                if create {
                    disk.create(&file)?;
                }
                disk.write_at(&file, offset, &mut [IoSlice::new(&data)])?;
                Ok(Outcome::Done)
            }
            Op::BlobSync { file, sync } => {
                if sync {
                    disk.sync_data(&file)?;
                }
                sync_dir(disk, sync)
            }
            Op::Register { bytes, sync } => match register::write(disk, &bytes, sync) {
                Ok(kept) => Ok(Outcome::Registered(kept)),
                Err(error) if error.kind == DiskErrorKind::Scarce => {
                    Ok(Outcome::PutOff(Box::new(Op::Register { bytes, sync }), error))
                }
                Err(error) => Err(error),
            },
            Op::Space => disk.free_bytes().map(Outcome::Free),
        }
    }
}

/// What ends by itself or when somebody makes room. All of a commit is written again then, so that
/// it does not matter how much of it arrived, nor which pages a sync that found no room has
/// forgotten: everything before it was synced.
fn is_passing(kind: DiskErrorKind) -> bool {
    matches!(kind, DiskErrorKind::Full | DiskErrorKind::Scarce)
}

fn commit(
    disk: &dyn Disk,
    seal: Option<&SealWrite>,
    (file, offset): (&str, u64),
    data: &WriteBuffer,
    sync: bool,
) -> Result<(), DiskError> {
    if let Some(seal) = seal {
        seal.write(disk, sync)?;
    }
    data.write(disk, file, offset)?;
    if sync { disk.sync_data(file) } else { Ok(()) }
}

impl SealWrite {
    pub(crate) fn write(&self, disk: &dyn Disk, sync: bool) -> Result<(), DiskError> {
        if !self.index.is_empty() {
            disk.write_at(&self.file, self.index_offset, &mut [IoSlice::new(&self.index)])?;
        }
        disk.write_at(&self.file, self.footer_offset, &mut [IoSlice::new(&self.footer)])?;
        if sync { disk.sync_data(&self.file) } else { Ok(()) }
    }
}

fn sync_dir(disk: &dyn Disk, sync: bool) -> Result<Outcome, DiskError> {
    if sync {
        disk.sync_dir()?;
    }
    Ok(Outcome::Done)
}

fn read_bytes(disk: &dyn Disk, file: &str, offset: u64, bytes: usize) -> Result<Bytes, DiskError> {
    let mut buffer = vec![0; bytes];
    let count = read_full(disk, file, offset, &mut buffer)?;
    buffer.truncate(count);
    Ok(Bytes::from(buffer))
}

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Makes a file and takes room for it. `false`: zeros must be written instead.
pub(crate) fn make(
    disk: &dyn Disk,
    file: &str,
    length: u64,
    sync: bool,
) -> Result<bool, DiskError> {
    disk.create(file)?;
    let allocated = disk.allocate(file, length)?;
    if allocated && sync {
        disk.sync_data(file)?;
    }
    Ok(allocated)
}

/// Writes zeros from `offset` on; used by the bulk lane in steps and by recovery at once.
pub(crate) fn zero(
    disk: &dyn Disk,
    file: &str,
    offset: u64,
    bytes: u64,
    sync: bool,
) -> Result<Outcome, DiskError> {
    let mut done = 0;
    while done < bytes {
        // A mebibyte a call: few calls, and no large buffer to hold the zeros.
        let mut slices = Vec::with_capacity(16);
        let mut step = 0;
        while step < 1 << 20 && done + step < bytes {
            let part = (bytes - done - step).min(ZEROS.len() as u64);
            slices.push(IoSlice::new(ZEROS.get(..part as usize).unwrap_or(&ZEROS)));
            step += part;
        }
        disk.write_at(file, offset + done, &mut slices)?;
        done += step;
    }
    if sync {
        disk.sync_data(file)?;
    }
    Ok(Outcome::Done)
}
