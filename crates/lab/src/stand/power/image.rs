//! A disk with a volatile cache: what was not flushed is lost, whole or in part, when the power is
//! cut.

use load::random::Random;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// What a drive writes at once, and what most of them write at once.
const SECTOR_BYTES: usize = 512;
const BLOCK_BYTES: usize = 4096;

/// What becomes of unflushed writes at a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Loss {
    /// All of them are lost.
    All,
    /// Some are on the disk, in any order, in pieces of 4 KiB.
    Blocks,
    /// The same in pieces of 512 bytes.
    Sectors,
}

impl Loss {
    pub(super) fn draw(random: &mut Random) -> Loss {
        match random.below(3) {
            0 => Loss::All,
            1 => Loss::Blocks,
            _ => Loss::Sectors,
        }
    }
}

/// What a power cut came upon.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Cut {
    pub(crate) loss: Loss,
    /// Writes that were not flushed.
    pub(crate) unflushed_writes: usize,
    /// The bytes of them.
    pub(crate) unflushed_bytes: usize,
    /// Bytes of them that are on the disk all the same.
    pub(crate) kept_bytes: usize,
}

/// The contents of a disk: a file for what is durable, memory for the rest.
#[derive(Debug)]
pub(super) struct Image {
    durable: File,
    bytes: u64,
    /// Since the last flush, in their order: offset and data.
    unflushed: Vec<(u64, Box<[u8]>)>,
    /// Blocks as they would be if all was written, by number.
    latest: BTreeMap<u64, Box<[u8; BLOCK_BYTES]>>,
    /// The power is off: nothing reaches the file any more.
    off: bool,
}

impl Image {
    pub(super) fn new(durable: File) -> io::Result<Image> {
        let bytes = durable.metadata()?.len();
        Ok(Image { durable, bytes, unflushed: Vec::new(), latest: BTreeMap::new(), off: false })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads what was last written, durable or not; shorter at the end of the disk.
    pub(super) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let length = length.min(usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(0));
        let mut data = vec![0; length];
        self.durable.read_exact_at(&mut data, offset)?;
        for (number, from, range) in blocks(offset, length) {
            if let Some(block) = self.latest.get(&number) {
                let count = range.len();
                data[range].copy_from_slice(&block[from..from + count]);
            }
        }
        Ok(data)
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset + data.len() as u64 > self.bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        for (number, from, range) in blocks(offset, data.len()) {
            if !self.latest.contains_key(&number) {
                let mut block = Box::new([0; BLOCK_BYTES]);
                let at = number * BLOCK_BYTES as u64;
                let length = BLOCK_BYTES.min((self.bytes - at) as usize);
                self.durable.read_exact_at(&mut block[..length], at)?;
                self.latest.insert(number, block);
            }
            if let Some(block) = self.latest.get_mut(&number) {
                block[from..from + range.len()].copy_from_slice(&data[range]);
            }
        }
        if !self.off {
            self.unflushed.push((offset, data.into()));
        }
        Ok(())
    }

    /// Makes durable what was written. Without power it fails: nobody may be told that anything
    /// is durable.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.off {
            return Err(io::Error::other("the power is off"));
        }
        for (offset, data) in self.unflushed.drain(..) {
            self.durable.write_all_at(&data, offset)?;
        }
        self.latest.clear();
        Ok(())
    }

    /// Whether anything could be lost now.
    pub(super) fn has_unflushed(&self) -> bool {
        !self.unflushed.is_empty()
    }

    /// Cuts the power. Whoever still has the disk may go on reading and writing: nothing of it is
    /// kept.
    pub(super) fn cut(&mut self, loss: Loss, random: &mut Random) -> io::Result<Cut> {
        self.off = true;
        let piece_bytes = match loss {
            Loss::All | Loss::Blocks => BLOCK_BYTES,
            Loss::Sectors => SECTOR_BYTES,
        };
        let mut writes = std::mem::take(&mut self.unflushed);
        let unflushed_bytes = writes.iter().map(|(_, data)| data.len()).sum();
        let unflushed_writes = writes.len();
        let mut kept_bytes = 0;
        if loss != Loss::All {
            // Fisher and Yates.
            for last in (1..writes.len()).rev() {
                writes.swap(last, random.below(last as u64 + 1) as usize);
            }
            for (offset, data) in writes {
                // Whole, lost, or torn: every share occurs.
                let permille = [0, 1000, 500, 100, 900][random.below(5) as usize];
                for (number, piece) in data.chunks(piece_bytes).enumerate() {
                    if random.permille(permille) {
                        kept_bytes += piece.len();
                        let at = offset + (number * piece_bytes) as u64;
                        self.durable.write_all_at(piece, at)?;
                    }
                }
            }
        }
        Ok(Cut { loss, unflushed_writes, unflushed_bytes, kept_bytes })
    }
}

/// The blocks that a piece of the disk lies in: number, where in the block it begins, and which
/// part of the piece it is.
fn blocks(
    offset: u64,
    length: usize,
) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset + done as u64;
        let from = (at % BLOCK_BYTES as u64) as usize;
        let count = (BLOCK_BYTES - from).min(length - done);
        let range = done..done + count;
        done += count;
        Some((at / BLOCK_BYTES as u64, from, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 64 * 1024;

    fn disk() -> (Image, File) {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(BYTES).expect("room");
        (Image::new(file.try_clone().expect("a handle")).expect("an image"), file)
    }

    fn durable(file: &File) -> Vec<u8> {
        let mut data = vec![0; BYTES as usize];
        file.read_exact_at(&mut data, 0).expect("read");
        data
    }

    #[test]
    fn what_is_written_is_read_and_only_what_is_flushed_is_kept() {
        let (mut image, file) = disk();
        image.write(100, &[1; 9000]).expect("written");
        image.flush().expect("flushed");
        image.write(4000, &[2; 200]).expect("written");
        let read = image.read(3990, 220).expect("read");
        assert_eq!(read, [vec![1; 10], vec![2; 200], vec![1; 10]].concat());
        let cut = image.cut(Loss::All, &mut Random::new(1)).expect("cut");
        assert_eq!((cut.unflushed_writes, cut.unflushed_bytes, cut.kept_bytes), (1, 200, 0));
        // Who still has it sees no difference, and changes nothing.
        assert_eq!(image.read(4000, 200).expect("read"), vec![2; 200]);
        image.write(0, &[3; 50]).expect("written");
        image.flush().expect_err("nothing is durable now");
        assert_eq!(image.read(0, 50).expect("read"), vec![3; 50]);
        let mut expected = vec![0; BYTES as usize];
        expected[100..9100].fill(1);
        assert_eq!(durable(&file), expected);
    }

    #[test]
    fn a_cut_tears_and_reorders_what_was_not_flushed_and_nothing_else() {
        let (mut torn, mut reordered) = (0, 0);
        for seed in 0..40 {
            let (mut image, file) = disk();
            image.write(0, &[1; 32 * 1024]).expect("written");
            image.flush().expect("flushed");
            image.write(8192, &[2; 8192]).expect("written");
            image.write(8192, &[3; 8192]).expect("written");
            let cut = image.cut(Loss::Sectors, &mut Random::new(seed)).expect("cut");
            assert_eq!(cut.unflushed_bytes, 16_384);
            let disk = durable(&file);
            assert!(disk[..8192].iter().chain(&disk[16_384..32_768]).all(|&byte| byte == 1));
            let part = &disk[8192..16_384];
            for sector in part.chunks(SECTOR_BYTES) {
                assert!(sector.iter().all(|&byte| byte == sector[0]), "a sector is never torn");
            }
            let has = |byte| part.contains(&byte);
            torn += usize::from(has(1) && (has(2) || has(3)));
            // The later write is lost, or was overtaken by the earlier one.
            reordered += usize::from(has(2) && has(3));
        }
        assert!(torn > 5 && reordered > 5, "{torn} {reordered}");
    }

    #[test]
    fn beyond_the_end_is_nothing() {
        let (mut image, _) = disk();
        assert!(image.write(BYTES - 1, &[1, 2]).is_err());
        assert_eq!(image.read(BYTES - 1, 10).expect("read").len(), 1);
        assert_eq!(image.read(BYTES + 1, 10).unwrap_or_default().len(), 0);
    }
}
