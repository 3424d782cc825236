//! Keeps the register up to date while the log runs: a segment is removed from the register before it is removed from
//! the directory.

use crate::disk::{Disk, DiskError};
use crate::io::Op;
use crate::name::SegmentKey;
use crate::register::{self, Register, RegisterEntry};
use crate::segment::Marks;
use crate::table::Segment;
use std::mem::take;

/// The register, and the segments waiting to be removed from it.
#[derive(Debug, Default)]
pub(crate) struct Registrar {
    register: Register,
    /// No register exists: segments are not entered, and may leave at once.
    pub off: bool,
    busy: bool,
    changed: bool,
    leaving: Vec<Leaving>,
    /// Segments removed by the pending write.
    struck: Vec<Leaving>,
}

/// A segment that is needed no more.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub generation: u32,
    /// It becomes a spare.
    pub spare: bool,
    /// The operation that disposes of the file.
    pub op: Op,
}

impl Registrar {
    /// Enters all existing segments, with their known lengths and ends; `sequence` continues.
    pub(crate) fn recovered<'a>(
        known: Register,
        segments: impl Iterator<Item = &'a Segment>,
    ) -> Registrar {
        let mut registrar = Registrar::default();
        registrar.register.sequence = known.sequence;
        registrar.register.marks = known.marks;
        for segment in segments {
            let (length, end) = known.get(segment.key).map_or((0, 0), |e| (e.length, e.end));
            registrar.insert(segment.key, length.max(segment.length), end);
        }
        registrar
    }

    fn insert(&mut self, key: SegmentKey, length: u64, end: u64) {
        let entry = RegisterEntry { salt: key.salt, length, end };
        self.register.entries.insert(key.generation, entry);
        self.changed = true;
    }

    /// Sets the marks of used numbers for the next write.
    pub(crate) fn note_marks(&mut self, marks: Marks) {
        self.register.marks = marks;
    }

    /// Writes a new register at a start.
    pub(crate) fn write_now(&mut self, disk: &dyn Disk, sync: bool) -> Result<(), DiskError> {
        self.changed = false;
        self.off = !register::renew(disk, &self.register.next(), sync)?;
        Ok(())
    }

    /// A segment has its name durably.
    pub(crate) fn enter(&mut self, key: SegmentKey, length: u64) {
        self.insert(key, length, 0);
    }

    /// A segment is needed no more.
    pub(crate) fn leave(&mut self, leaving: Leaving) {
        self.register.entries.remove(&leaving.generation);
        self.changed = true;
        self.leaving.push(leaving);
    }

    /// Segments that can be removed at once.
    pub(crate) fn take_struck(&mut self) -> Vec<Leaving> {
        let mut gone = if self.busy { Vec::new() } else { take(&mut self.struck) };
        if self.off {
            gone.append(&mut self.leaving);
        }
        gone
    }

    /// Returns the content to write, if it has changed and no write is pending.
    pub(crate) fn poll_write(&mut self) -> Option<Vec<u8>> {
        if self.off || self.busy || !self.changed {
            return None;
        }
        (self.busy, self.changed) = (true, false);
        self.struck.append(&mut self.leaving);
        Some(self.register.next())
    }

    /// A write was performed; `kept` is false if the register could not be kept.
    pub(crate) fn handle_written(&mut self, kept: bool) {
        self.busy = false;
        self.off = !kept;
    }

    /// Content of the register after an orderly stop: includes the end of the active segment's data.
    pub(crate) fn closing(&mut self, generation: u32, end: u64) -> Option<Vec<u8>> {
        if self.off {
            return None;
        }
        self.register.entries.get_mut(&generation)?.end = end;
        Some(self.register.next())
    }
}
