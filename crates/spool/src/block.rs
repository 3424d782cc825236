//! Blocks: the write unit of disks, and the decoding of numbers.

/// The only format version.
pub(crate) const VERSION: u16 = 1;
/// The write unit of disks; headers and footers have this size.
pub(crate) const SECTOR_BYTES: u64 = 512;

/// Offset of a block's checksum.
const BLOCK_CRC: usize = SECTOR_BYTES as usize - 4;

/// `n` bytes rounded up to a multiple of `block`.
pub(crate) fn align(n: u64, block: u64) -> u64 {
    n.div_ceil(block.max(1)).saturating_mul(block.max(1))
}

/// Writes the checksum, seeded with `seed`, into an otherwise complete block.
pub(crate) fn finish_block(mut block: [u8; 512], seed: u32) -> [u8; 512] {
    let crc = crc32c::crc32c_append(seed, &block[..BLOCK_CRC]);
    block[BLOCK_CRC..].copy_from_slice(&crc.to_le_bytes());
    block
}

/// A block that begins with `magic` and has the right checksum.
pub(crate) fn check_block<'a>(block: &'a [u8], magic: &[u8; 4], seed: u32) -> Option<&'a [u8]> {
    let block = block.get(..SECTOR_BYTES as usize)?;
    let crc = crc32c::crc32c_append(seed, block.get(..BLOCK_CRC)?);
    (block.starts_with(magic) && u32_at(block, BLOCK_CRC)? == crc).then_some(block)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
