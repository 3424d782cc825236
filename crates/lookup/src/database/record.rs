//! One key and its entry, as they stand in the file.
//!
//! | at | bytes | record |
//! |---|---|---|
//! | 0 | 4 | checksum of its place in the file and all that follows |
//! | 4 | 2 | length of the key |
//! | 6 | 2 | fields |
//! | 8 | 4 | length of the text |
//! | 12 | 4 | length of all fields |
//! | 16 | | key, text, fields |
//!
//! A field: length of its name (2), its values (4), the name; for each value its length (4) and the
//! value.

use super::format::{KEY_BYTES_MAX, Salted, VALUE_BYTES_MAX, WriteError, u16_at, u32_at};
use crate::{Entry, Field};

/// Bytes of a record before the key.
pub(super) const HEAD_BYTES: usize = 16;

/// The longest record.
pub(super) const RECORD_BYTES_MAX: usize = HEAD_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX;

/// Adds a record for position `offset`.
pub(super) fn write(
    out: &mut Vec<u8>,
    salted: &Salted,
    offset: u64,
    key: &str,
    entry: &Entry,
) -> Result<(), WriteError> {
    let begin = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(entry.text.as_bytes());
    let fields_begin = out.len();
    for (name, values) in &entry.fields {
        let long = |_| WriteError::ValueTooLong(entry.bytes());
        out.extend_from_slice(&u16::try_from(name.len()).map_err(long)?.to_le_bytes());
        out.extend_from_slice(&u32::try_from(values.len()).map_err(long)?.to_le_bytes());
        out.extend_from_slice(name.as_bytes());
        for value in values {
            out.extend_from_slice(&u32::try_from(value.len()).map_err(long)?.to_le_bytes());
            out.extend_from_slice(value.as_bytes());
        }
    }
    let fields_bytes = out.len() - fields_begin;
    let value_bytes = entry.text.len() + fields_bytes;
    let Ok(key_bytes) = u16::try_from(key.len()) else {
        return Err(WriteError::KeyTooLong(key.len()));
    };
    let (Ok(fields_count), true) =
        (u16::try_from(entry.fields.len()), value_bytes <= VALUE_BYTES_MAX)
    else {
        return Err(WriteError::ValueTooLong(value_bytes));
    };
    let record = &mut out[begin..];
    record[4..6].copy_from_slice(&key_bytes.to_le_bytes());
    record[6..8].copy_from_slice(&fields_count.to_le_bytes());
    // Neither is longer than VALUE_BYTES_MAX.
    record[8..12].copy_from_slice(&(entry.text.len() as u32).to_le_bytes());
    record[12..16].copy_from_slice(&(fields_bytes as u32).to_le_bytes());
    let checksum = salted.checksum(offset, &record[4..]);
    record[..4].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// A record with a valid checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) key: &'a [u8],
    text: &'a [u8],
    fields_count: u16,
    fields: &'a [u8],
}

/// The length of the record at the start of `bytes`, according to its header.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let key_bytes = usize::from(u16_at(bytes, 4)?);
    let text_bytes = u32_at(bytes, 8)? as usize;
    let fields_bytes = u32_at(bytes, 12)? as usize;
    HEAD_BYTES.checked_add(key_bytes)?.checked_add(text_bytes)?.checked_add(fields_bytes)
}

/// Reads the record at the start of `bytes`, at `offset` of the file; `None` if none was written there.
pub(super) fn read<'a>(bytes: &'a [u8], offset: u64, salted: &Salted) -> Option<Record<'a>> {
    let bytes = bytes.get(..length(bytes)?)?;
    if u32_at(bytes, 0)? != salted.checksum(offset, bytes.get(4..)?) {
        return None;
    }
    let (key, rest) = bytes.get(HEAD_BYTES..)?.split_at_checked(usize::from(u16_at(bytes, 4)?))?;
    let (text, fields) = rest.split_at_checked(u32_at(bytes, 8)? as usize)?;
    Some(Record { key, text, fields_count: u16_at(bytes, 6)?, fields })
}

impl Record<'_> {
    /// Its length in the file.
    pub(super) fn bytes(&self) -> usize {
        HEAD_BYTES + self.key.len() + self.text.len() + self.fields.len()
    }

    /// `None`: it makes no sense.
    pub(super) fn entry(&self) -> Option<Entry> {
        let mut rest = self.fields;
        let mut fields = Vec::new();
        for _ in 0..self.fields_count {
            fields.push(take_field(&mut rest)?);
        }
        Some(Entry { text: text(self.text)?, fields: fields.into(), ..Entry::default() })
    }
}

fn take_field(rest: &mut &[u8]) -> Option<Field> {
    let name_bytes = u16::from_le_bytes(*rest.split_off(..2)?.first_chunk()?);
    let values_count = u32::from_le_bytes(*rest.split_off(..4)?.first_chunk()?);
    let name = text(rest.split_off(..usize::from(name_bytes))?)?;
    // Each takes four bytes at least: a number that is too high ends with them.
    let mut values = Vec::new();
    for _ in 0..values_count {
        let bytes = u32::from_le_bytes(*rest.split_off(..4)?.first_chunk()?);
        values.push(text(rest.split_off(..bytes as usize)?)?);
    }
    Some((name, values.into()))
}

fn text(bytes: &[u8]) -> Option<Box<str>> {
    Some(std::str::from_utf8(bytes).ok()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn salted() -> Salted {
        Salted::new(b"0123456789abcdef")
    }

    fn boxes(values: &[&str]) -> Box<[Box<str>]> {
        values.iter().map(|value| Box::from(*value)).collect()
    }

    #[test]
    fn an_entry_is_read_whole() {
        let fields = [
            ("mail".into(), boxes(&["a", ""])),
            ("".into(), boxes(&[])),
            ("ü".into(), boxes(&["ö"])),
        ];
        for entry in [Entry::text(""), Entry::text("x, y"), Entry::fields(fields)] {
            let mut file = vec![7; 100];
            write(&mut file, &salted(), 100, "key", &entry).unwrap();
            let record = read(&file[100..], 100, &salted()).unwrap();
            assert_eq!(record.key, b"key");
            assert_eq!(record.entry(), Some(entry));
            assert!(read(&file[99..], 99, &salted()).is_none());
            assert!(read(&file[100..file.len() - 1], 100, &salted()).is_none());
            // The same bytes elsewhere, or in another file, are not this record.
            assert!(read(&file[100..], 99, &salted()).is_none());
            assert!(read(&file[100..], 100, &Salted::new(&[0; 16])).is_none());
        }
    }

    #[test]
    fn keys_and_values_have_their_longest() {
        let mut out = Vec::new();
        let longest = "k".repeat(KEY_BYTES_MAX);
        write(&mut out, &salted(), 0, &longest, &Entry::text("v")).unwrap();
        assert_eq!(read(&out, 0, &salted()).unwrap().key.len(), KEY_BYTES_MAX);
        let longer = "k".repeat(KEY_BYTES_MAX + 1);
        let error = write(&mut out, &salted(), 0, &longer, &Entry::text("v")).unwrap_err();
        assert!(matches!(error, WriteError::KeyTooLong(65_536)));
        let mut out = Vec::new();
        let entry = Entry::text("v".repeat(VALUE_BYTES_MAX));
        write(&mut out, &salted(), 0, "k", &entry).unwrap();
        assert_eq!(read(&out, 0, &salted()).unwrap().entry(), Some(entry));
        let longer = Entry::text("v".repeat(VALUE_BYTES_MAX + 1));
        let error = write(&mut out, &salted(), 0, "k", &longer).unwrap_err();
        assert!(matches!(error, WriteError::ValueTooLong(16_777_217)));
    }
}
