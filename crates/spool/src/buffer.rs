//! The content of one batch, assembled without copying large pieces.

use crate::disk::{Disk, DiskError};
use bytes::Bytes;
use std::io::IoSlice;

pub(crate) static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The content of one batch: small pieces copied into one buffer, large ones by reference.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    pub small: Vec<u8>,
    pub parts: Vec<BufferPart>,
    /// Length of the part of `small` that is already in `parts`.
    marked: usize,
    /// Bytes of all parts, without the rest of `small` that is not in a part yet.
    length: u64,
}

#[derive(Debug)]
pub(crate) enum BufferPart {
    /// From and to in [`WriteBuffer::small`].
    Small(usize, usize),
    Large(Bytes),
}

impl WriteBuffer {
    /// Bytes in all parts.
    pub(crate) fn length(&self) -> u64 {
        self.length + (self.small.len() - self.marked) as u64
    }

    /// Adds a piece without copying it.
    pub(crate) fn push_large(&mut self, piece: Bytes) {
        self.mark();
        self.length += piece.len() as u64;
        self.parts.push(BufferPart::Large(piece));
    }

    /// Appends zeros without copying.
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
            self.parts.push(BufferPart::Small(self.marked, self.small.len()));
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

    /// Writes all parts in one call.
    pub(crate) fn write(&self, disk: &dyn Disk, file: &str, offset: u64) -> Result<(), DiskError> {
        let mut slices: Vec<IoSlice<'_>> = self
            .parts
            .iter()
            .map(|part| match part {
                BufferPart::Small(from, to) => {
                    IoSlice::new(self.small.get(*from..*to).unwrap_or(&[]))
                }
                BufferPart::Large(piece) => IoSlice::new(piece),
            })
            .collect();
        disk.write_at(file, offset, &mut slices)
    }
}
