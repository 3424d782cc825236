//! The format of a record file: a header, then batches, each of which is valid as a whole or not at all.
//!
//! The header has [`MAGIC`], [`VERSION`], a salt, and the CRC-32C of these. Then follows the mark, the only octets ever
//! overwritten: the length of the synced part (u64), and its CRC-32C. A batch has the length of its changes (u32),
//! their CRC-32C (u32), the CRC-32C of these two (u32), and the changes. A change has the length of the key (u32), the
//! length of the record (u32; [`REMOVED`] for a removal), the key and the record. Numbers are little-endian. Checksums
//! of batches start from the salt and the offset in the file, so that no key chosen by an attacker can look like a
//! batch.
//!
//! Invalid octets behind the mark and the last valid batch are the rest of an unacknowledged batch after a crash. The
//! mark is written after the sync of a batch, and synced with the next one. So it reveals a file that was truncated, or
//! damaged before its end. For the last batch before a crash it does so only if another batch follows, even an empty
//! one. A file that is closed in good order ends with an empty batch, its seal. Files of the previous version have no
//! mark.

use std::collections::BTreeMap;
use std::fmt;

/// Start of every file.
const MAGIC: [u8; 7] = *b"PRrecor";

/// Of this format.
const VERSION: u8 = b'2';

/// Without a mark.
const VERSION_BEFORE: u8 = b'1';

/// Magic, version, salt and their checksum.
const IDENTITY_BYTES: usize = 7 + 1 + 16 + 4;

/// A place in the file, and its checksum.
const MARK_BYTES: usize = 8 + 4;

/// Offset of the mark.
pub(super) const MARK_AT: u64 = IDENTITY_BYTES as u64;

/// In octets, mark included.
pub(super) const HEADER_BYTES: usize = IDENTITY_BYTES + MARK_BYTES;

/// Size of a batch's head in octets.
const HEAD_BYTES: usize = 12;

/// Size of a change's head in octets.
const LENGTHS_BYTES: usize = 8;

/// In place of a record's length.
const REMOVED: u32 = u32::MAX;

/// Seed of a file's checksums, different for each file.
pub(super) type Salt = [u8; 16];

/// Contents of a file: records by key.
pub(super) type Live<'a> = BTreeMap<&'a [u8], &'a [u8]>;

/// The reason why a file is unusable: synced data has changed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// The header is not that of a record file.
    Header,
    /// It may be valid in this unknown version.
    Version(u8),
    /// The batch at this octet of the file is wrong, and was synced.
    Batch(u64),
    /// The file has the first number of octets, and had the second.
    Cut(u64, u64),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Header => f.write_str("not a record file, or its header is damaged"),
            Damage::Version(version) => write!(f, "unsupported version {}", version.escape_ascii()),
            Damage::Batch(at) => write!(f, "damaged record at octet {at}"),
            Damage::Cut(length, end) => write!(f, "{length} octets instead of at least {end}"),
        }
    }
}

/// The contents of an empty file.
pub(super) fn header(salt: &Salt) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..IDENTITY_BYTES].copy_from_slice(&identity(VERSION, salt));
    header[IDENTITY_BYTES..].copy_from_slice(&mark(salt, HEADER_BYTES as u64));
    header
}

fn identity(version: u8, salt: &Salt) -> [u8; IDENTITY_BYTES] {
    let mut identity = [0; IDENTITY_BYTES];
    identity[..7].copy_from_slice(&MAGIC);
    identity[7] = version;
    identity[8..24].copy_from_slice(salt);
    let checksum = crc32c::crc32c(&identity[..24]);
    identity[24..].copy_from_slice(&checksum.to_le_bytes());
    identity
}

/// Says that all is synced up to here.
pub(super) fn mark(salt: &Salt, end: u64) -> [u8; MARK_BYTES] {
    let mut mark = [0; MARK_BYTES];
    mark[..8].copy_from_slice(&end.to_le_bytes());
    mark[8..].copy_from_slice(&seed(salt, end).to_le_bytes());
    mark
}

/// The value of the mark; `None` if it is damaged.
fn marked(salt: &Salt, file: &[u8]) -> Option<u64> {
    let read = file.get(IDENTITY_BYTES..HEADER_BYTES)?;
    let end = u64::from_le_bytes(*read.first_chunk()?);
    (read == mark(salt, end)).then_some(end)
}

/// The salt in the header, and whether the file has a mark.
fn salt_in(file: &[u8]) -> Result<(Salt, bool), Damage> {
    match file.strip_prefix(&MAGIC).and_then(<[u8]>::split_first) {
        Some((version @ (&VERSION | &VERSION_BEFORE), rest)) => {
            let salt = rest.first_chunk().ok_or(Damage::Header)?;
            let has_mark = *version == VERSION;
            let is_whole = !has_mark || file.len() >= HEADER_BYTES;
            match file.starts_with(&identity(*version, salt)) && is_whole {
                true => Ok((*salt, has_mark)),
                false => Err(Damage::Header),
            }
        }
        Some((version, _)) if version.is_ascii_graphic() => Err(Damage::Version(*version)),
        _ => Err(Damage::Header),
    }
}

/// Returns true if a valid file has a mark.
pub(super) fn has_mark(file: &[u8]) -> bool {
    salt_in(file).is_ok_and(|(_, has_mark)| has_mark)
}

/// Length of a file with only these records, without the heads of batches.
pub(super) fn bytes_for(live: &Live<'_>) -> u64 {
    let bytes = live.iter().map(|(key, record)| LENGTHS_BYTES + key.len() + record.len());
    (HEADER_BYTES + bytes.sum::<usize>()) as u64
}

/// A batch that will lie at octet `at`. `None`: it is too long for one (4 GiB).
pub(super) fn batch<K: AsRef<[u8]>, R: AsRef<[u8]>>(
    salt: &Salt,
    at: u64,
    changes: impl Iterator<Item = (K, Option<R>)>,
) -> Option<Vec<u8>> {
    let mut bytes = vec![0; HEAD_BYTES];
    for (key, record) in changes {
        let (key, record) = (key.as_ref(), record.as_ref().map(AsRef::as_ref));
        let length = record.map_or(Some(REMOVED), |record| u32::try_from(record.len()).ok())?;
        bytes.extend_from_slice(&u32::try_from(key.len()).ok()?.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(record.unwrap_or_default());
    }
    let (head, body) = bytes.split_at_mut(HEAD_BYTES);
    head.copy_from_slice(&head_of(salt, at, body)?);
    Some(bytes)
}

/// The head of a batch with these changes at this offset.
fn head_of(salt: &Salt, at: u64, body: &[u8]) -> Option<[u8; HEAD_BYTES]> {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&u32::try_from(body.len()).ok()?.to_le_bytes());
    head[4..8].copy_from_slice(&crc32c::crc32c_append(seed(salt, at), body).to_le_bytes());
    let own = head_checksum(seed(salt, at), &head);
    head[8..].copy_from_slice(&own.to_le_bytes());
    Some(head)
}

/// Seed of the checksums at this offset.
fn seed(salt: &Salt, at: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(salt), &at.to_le_bytes())
}

fn head_checksum(seed: u32, head: &[u8; HEAD_BYTES]) -> u32 {
    crc32c::crc32c_append(seed, &head[..8])
}

/// Parses a file. Returns its salt, its records, and the end of the last complete batch; data after that was never
/// synced.
pub(super) fn read(file: &[u8]) -> Result<(Salt, Live<'_>, usize), Damage> {
    let (salt, has_mark) = salt_in(file)?;
    let synced = marked(&salt, file).filter(|_| has_mark).unwrap_or(0);
    if (file.len() as u64) < synced {
        return Err(Damage::Cut(file.len() as u64, synced));
    }
    let begin = if has_mark { HEADER_BYTES } else { IDENTITY_BYTES };
    let (mut live, mut at) = (Live::new(), begin);
    while let Some(rest) = file.get(at..).filter(|rest| !rest.is_empty()) {
        let damage = || Damage::Batch(at as u64);
        let Some(body) = body_of(&salt, at, rest) else {
            if (at as u64) < synced || is_followed(&salt, at, rest) {
                return Err(damage());
            }
            break;
        };
        take(body, &mut live).ok_or_else(damage)?;
        at += HEAD_BYTES + body.len();
    }
    Ok((salt, live, at))
}

/// The changes of the batch at the front of `rest`, if it is whole.
fn body_of<'a>(salt: &Salt, at: usize, rest: &'a [u8]) -> Option<&'a [u8]> {
    let length = length_at(salt, at, rest)?;
    let (head, body) = rest.split_at_checked(HEAD_BYTES)?;
    let body = body.get(..length)?;
    (head == head_of(salt, at as u64, body)?).then_some(body)
}

/// The length of the changes of the batch at the front of `rest`, if its head is right.
fn length_at(salt: &Salt, at: usize, rest: &[u8]) -> Option<usize> {
    let head = rest.first_chunk::<HEAD_BYTES>()?;
    let own = head_checksum(seed(salt, at as u64), head);
    (head[8..] == own.to_le_bytes()).then(|| u32_at(head, 0))?
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let number = u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
    usize::try_from(number).ok()
}

/// Makes the changes of a batch. `None`: its lengths make no sense.
fn take<'a>(body: &'a [u8], live: &mut Live<'a>) -> Option<()> {
    let mut rest = body;
    while !rest.is_empty() {
        let (key, record) = (u32_at(rest, 0)?, u32_at(rest, 4)?);
        let (changed, behind) = rest.get(LENGTHS_BYTES..)?.split_at_checked(key)?;
        if record == REMOVED as usize {
            live.remove(changed);
            rest = behind;
        } else {
            let (record, behind) = behind.split_at_checked(record)?;
            live.insert(changed, record);
            rest = behind;
        }
    }
    Some(())
}

/// Returns true if data follows the incomplete batch at the front of `rest`: then the batch was synced, and is damaged.
/// Otherwise it is the last batch, and was never acknowledged as durable.
fn is_followed(salt: &Salt, at: usize, rest: &[u8]) -> bool {
    if let Some(length) = length_at(salt, at, rest) {
        return rest.len() > HEAD_BYTES + length;
    }
    (1..rest.len()).any(|n| body_of(salt, at + n, &rest[n..]).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: Salt = *b"sixteen octets..";

    /// Three batches; the second removes what the first has.
    fn three() -> (Vec<u8>, [usize; 3]) {
        let mut file = header(&SALT).to_vec();
        let mut ends = [0; 3];
        let batches: [&[(&str, Option<&str>)]; 3] = [
            &[("a", Some("1")), ("b", Some("2"))],
            &[("a", None), ("", Some(""))],
            &[("b", Some("a longer one"))],
        ];
        for (end, changes) in ends.iter_mut().zip(batches) {
            let batch = batch(&SALT, file.len() as u64, changes.iter().copied()).unwrap();
            file.extend(batch);
            *end = file.len();
        }
        (file, ends)
    }

    fn texts(live: &Live<'_>) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        live.iter().map(|(key, record)| (text(key), text(record))).collect()
    }

    #[test]
    fn the_last_word_on_a_key_counts() {
        let (file, ends) = three();
        let (salt, live, end) = read(&file).unwrap();
        let expected = [("", ""), ("b", "a longer one")];
        assert_eq!(texts(&live), expected.map(|(key, record)| (key.into(), record.into())));
        assert_eq!((salt, end), (SALT, ends[2]));
        let empty = header(&SALT);
        assert_eq!(read(&empty), Ok((SALT, Live::new(), HEADER_BYTES)));
    }

    /// Cut anywhere it holds what was whole before.
    #[test]
    fn a_batch_that_breaks_off_never_was() {
        let (file, ends) = three();
        for length in 0..HEADER_BYTES {
            assert_eq!(read(&file[..length]), Err(Damage::Header));
        }
        for length in HEADER_BYTES..=file.len() {
            let whole = ends.iter().rev().find(|end| **end <= length).unwrap_or(&HEADER_BYTES);
            let (_, live, end) = read(&file[..length]).unwrap();
            let (_, expected, _) = read(&file[..*whole]).unwrap();
            assert_eq!((live, end), (expected, *whole), "{length}");
        }
    }

    /// As when the disk had written some sectors of the last batch and others not.
    #[test]
    fn octets_of_the_last_batch_that_never_came_to_the_disk_make_no_damage() {
        let (file, ends) = three();
        for from in ends[1]..file.len() {
            for to in from + 1..=file.len() {
                let mut torn = file.clone();
                torn[from..to].fill(0);
                if torn == file {
                    continue;
                }
                let (_, live, end) = read(&torn).unwrap();
                assert_eq!((end, live.len()), (ends[1], 2), "{from}..{to}");
            }
        }
    }

    /// Any bit of what was synced, with a batch behind it, tells.
    #[test]
    fn a_bit_that_turns_is_found() {
        let (file, ends) = three();
        for bit in 0..ends[1] * 8 {
            let mut turned = file.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            if (IDENTITY_BYTES..HEADER_BYTES).contains(&(bit / 8)) {
                // Of the mark nothing else depends.
                assert_eq!(read(&turned).map(|(_, _, end)| end), Ok(ends[2]), "{bit}");
                continue;
            }
            let at = [HEADER_BYTES, ends[0]].into_iter().rev().find(|at| *at <= bit / 8);
            let damage = match (at, bit / 8) {
                (Some(at), _) => Damage::Batch(at as u64),
                // All but the last bit make another visible character.
                (None, 7) if turned[7].is_ascii_graphic() => Damage::Version(turned[7]),
                (None, _) => Damage::Header,
            };
            assert_eq!(read(&turned).map(|_| ()), Err(damage), "{bit}");
        }
    }

    /// So it is with the last batch, once a seal follows it.
    #[test]
    fn a_seal_tells_of_damage_to_what_is_before_it() {
        let (mut file, ends) = three();
        let nothing = std::iter::empty::<(&str, Option<&str>)>();
        file.extend(batch(&SALT, file.len() as u64, nothing).unwrap());
        assert_eq!(read(&file).map(|(_, live, _)| live.len()), Ok(2));
        for octet in ends[1]..ends[2] {
            let mut turned = file.clone();
            turned[octet] ^= 0x40;
            assert_eq!(read(&turned).map(|_| ()), Err(Damage::Batch(ends[1] as u64)), "{octet}");
        }
    }

    /// Whatever is missing or wrong before the mark was there once.
    #[test]
    fn a_mark_tells_of_damage_to_the_last_batch_and_of_what_was_cut_off() {
        let (mut file, ends) = three();
        let at = MARK_AT as usize;
        file[at..at + MARK_BYTES].copy_from_slice(&mark(&SALT, ends[2] as u64));
        assert_eq!(read(&file).map(|(_, _, end)| end), Ok(ends[2]));
        for length in HEADER_BYTES..ends[2] {
            let cut = Damage::Cut(length as u64, ends[2] as u64);
            assert_eq!(read(&file[..length]).map(|_| ()), Err(cut));
        }
        for bit in ends[1] * 8..ends[2] * 8 {
            let mut turned = file.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&turned).map(|_| ()), Err(Damage::Batch(ends[1] as u64)), "{bit}");
        }
        // What follows may be half a batch.
        file.extend(&file.clone()[HEADER_BYTES..HEADER_BYTES + 20]);
        assert_eq!(read(&file).map(|(_, _, end)| end), Ok(ends[2]));
    }

    #[test]
    fn a_file_of_the_version_before_is_read() {
        let mut file = identity(VERSION_BEFORE, &SALT).to_vec();
        let at = file.len() as u64;
        file.extend(batch(&SALT, at, [("a", Some("1"))].into_iter()).unwrap());
        let (salt, live, end) = read(&file).unwrap();
        assert_eq!((salt, live.len(), end), (SALT, 1, file.len()));
        assert!(!has_mark(&file) && has_mark(&header(&SALT)));
    }

    /// What is a batch somewhere else, or in another file, is none.
    #[test]
    fn a_key_that_looks_like_a_batch_is_a_key() {
        let end = HEADER_BYTES + HEAD_BYTES;
        let other: Salt = *b"another salt....";
        for (salt, at) in [(&SALT, 0), (&other, end as u64 + 8)] {
            let posed = batch(salt, at, [("x", Some("y"))].into_iter()).unwrap();
            let mut file = header(&SALT).to_vec();
            let at = file.len() as u64;
            file.extend(batch(&SALT, at, [(&posed, Some("1"))].into_iter()).unwrap());
            file[HEADER_BYTES] ^= 1;
            let (_, live, whole) = read(&file).unwrap();
            assert_eq!((live.len(), whole), (0, HEADER_BYTES));
        }
    }

    /// A batch whose checksums are right and whose lengths are not was written by something else.
    #[test]
    fn lengths_that_lead_beyond_the_batch_are_damage() {
        for (key, record) in [(9, 1), (1, 9), (u32::MAX, 0), (2, REMOVED - 1)] {
            let mut body = Vec::new();
            body.extend(u32::to_le_bytes(key));
            body.extend(u32::to_le_bytes(record));
            body.extend(b"ab");
            let mut file = header(&SALT).to_vec();
            file.extend(head_of(&SALT, HEADER_BYTES as u64, &body).unwrap());
            file.extend(body);
            assert_eq!(read(&file), Err(Damage::Batch(HEADER_BYTES as u64)));
        }
    }
}
