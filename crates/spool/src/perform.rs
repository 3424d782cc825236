//! Disk operations are performed here, on whatever thread.

use crate::buffer::{WriteBuffer, ZEROS};
use crate::checksums::{self, Piece};
use crate::disk::{Disk, DiskError, DiskErrorKind, read_full};
use crate::io::{Io, IoDone, Op, OpResult, SealWrite};
use crate::name::FileName;
use crate::{register, scan};
use bytes::Bytes;
use std::io::IoSlice;

impl Io {
    /// Does it. The real driver, the simulator and the tests share this.
    #[must_use]
    pub fn perform(self, disk: &dyn Disk) -> IoDone {
        IoDone { ticket: self.ticket, result: self.op.perform(disk) }
    }
}

impl Op {
    fn perform(self, disk: &dyn Disk) -> Result<OpResult, DiskError> {
        match self {
            Op::Commit { seal, file, offset, data, sync } => {
                perform_commit(disk, seal, file, offset, data, sync)
            }
            Op::Read { file, offset, bytes } => {
                Ok(OpResult::Data(read_bytes(disk, &file, offset, bytes)?))
            }
            Op::ReadPiece { file, offset, piece } => read_piece(disk, &file, offset, piece),
            Op::ReadMany { file, ranges } => ranges
                .into_iter()
                .map(|(offset, bytes)| read_bytes(disk, &file, offset, bytes as usize))
                .collect::<Result<_, _>>()
                .map(OpResult::Many),
            Op::Scan { file, key, ranges } => {
                scan::mentioned_ids(disk, &file, key, &ranges).map(OpResult::Scanned)
            }
            Op::Make { file, length, bytes, sync } => {
                if make(disk, &file, length, sync)? {
                    return Ok(OpResult::Allocated);
                }
                zero(disk, &file, 0, bytes, sync)
            }
            Op::Zero { file, offset, bytes, sync } => zero(disk, &file, offset, bytes, sync),
            Op::Rename { from, to, sync } => match disk.rename(&from, &to) {
                Ok(()) => sync_dir(disk, sync),
                Err(error) => put_off_if_scarce(error, Op::Rename { from, to, sync }),
            },
            Op::Recycle { from, to, sync } => recycle(disk, from, to, sync),
            Op::Remove { file, sync } => match disk.remove(&file) {
                Ok(()) => sync_dir(disk, sync),
                Err(error) => put_off_if_scarce(error, Op::Remove { file, sync }),
            },
            Op::BlobWrite { file, offset, data, create } => {
                if create {
                    disk.create(&file)?;
                }
                disk.write_at(&file, offset, &mut [IoSlice::new(&data)])?;
                Ok(OpResult::Done)
            }
            Op::BlobSync { file, sync } => {
                if sync {
                    disk.sync_data(&file)?;
                }
                sync_dir(disk, sync)
            }
            Op::Register { bytes, sync } => match register::write(disk, &bytes, sync) {
                Ok(kept) => Ok(OpResult::Registered(kept)),
                Err(error) => put_off_if_scarce(error, Op::Register { bytes, sync }),
            },
            Op::Space => disk.free_bytes().map(OpResult::Free),
        }
    }
}

/// Makes a spare of a segment. A spare is written to in place, which would change the file in a backup, too.
fn recycle(
    disk: &dyn Disk,
    from: FileName,
    to: FileName,
    sync: bool,
) -> Result<OpResult, DiskError> {
    let is_shared = disk.is_shared(&from);
    let done = match &is_shared {
        Ok(true) => disk.remove(&from),
        Ok(false) => disk.rename(&from, &to),
        Err(error) => Err(error.clone()),
    };
    match done {
        Ok(()) => {
            sync_dir(disk, sync)?;
            Ok(if is_shared == Ok(true) { OpResult::Unshared } else { OpResult::Done })
        }
        Err(error) => put_off_if_scarce(error, Op::Recycle { from, to, sync }),
    }
}

/// Operations that ran out of descriptors or memory are retried later as a whole.
fn put_off_if_scarce(error: DiskError, op: Op) -> Result<OpResult, DiskError> {
    if error.kind == DiskErrorKind::Scarce {
        Ok(OpResult::PutOff(Box::new(op), error))
    } else {
        Err(error)
    }
}

fn perform_commit(
    disk: &dyn Disk,
    seal: Option<SealWrite>,
    file: FileName,
    offset: u64,
    data: WriteBuffer,
    sync: bool,
) -> Result<OpResult, DiskError> {
    match commit(disk, seal.as_ref(), (&file, offset), &data, sync) {
        Ok(()) => Ok(OpResult::Written(data)),
        Err(error) if is_passing(error.kind) => {
            let op = Op::Commit { seal, file, offset, data, sync };
            Ok(OpResult::PutOff(Box::new(op), error))
        }
        Err(error) => Err(error),
    }
}

/// Errors that end by themselves or after space is freed. The whole commit is written again then. A partly arrived
/// write does not matter, nor do dirty pages dropped by a failed sync: everything before the commit was synced.
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

fn sync_dir(disk: &dyn Disk, sync: bool) -> Result<OpResult, DiskError> {
    if sync {
        disk.sync_dir()?;
    }
    Ok(OpResult::Done)
}

fn read_bytes(disk: &dyn Disk, file: &str, offset: u64, bytes: usize) -> Result<Bytes, DiskError> {
    let mut buffer = vec![0; bytes];
    let count = read_full(disk, file, offset, &mut buffer)?;
    buffer.truncate(count);
    Ok(Bytes::from(buffer))
}

fn read_piece(
    disk: &dyn Disk,
    file: &str,
    offset: u64,
    piece: Piece,
) -> Result<OpResult, DiskError> {
    let data = read_bytes(disk, file, offset, piece.bytes)?;
    Ok(if checksums::is_right(&data, piece) {
        OpResult::Data(data)
    } else {
        OpResult::Wrong(format!("{file} at {offset}: bad length or checksum").into())
    })
}

/// Creates a file and allocates its space. Returns `false` if zeros must be written instead.
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

/// Writes zeros from `offset` on: in steps on the bulk lane, at once during recovery.
pub(crate) fn zero(
    disk: &dyn Disk,
    file: &str,
    offset: u64,
    bytes: u64,
    sync: bool,
) -> Result<OpResult, DiskError> {
    let mut done = 0;
    while done < bytes {
        // One call per mebibyte: few calls and no large buffer of zeros.
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
    Ok(OpResult::Done)
}
