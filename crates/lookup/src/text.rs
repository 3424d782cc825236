//! Tables of fixed texts: `key white-space value` in a file, or pairs from the configuration.

use super::lines::{Line, Lines, is_space, trim_end};
use super::mistake::{Mistakes, TableFileError, too_large};
use super::spelling::fold;
use super::table::{EntryText, Flaw, Judge};
use super::{Entry, LookupError, Table, table};
use mail::map::FixedHasher;
use std::hash::Hasher;

/// Bytes that a file of fixed texts may have.
pub const TEXT_BYTES_MAX: usize = 256 << 20;

/// Constant texts without regard to case. One buffer has all keys and values, one index has their positions. A million
/// addresses take little more memory than their file.
#[derive(Debug, Default)]
pub struct TextTable {
    /// Entry after entry: length of the key, key, length of the value, value.
    texts: Vec<u8>,
    /// Start of an entry in `texts`, plus 1; 0: free. A key is at the position given by its hash, or after it. The
    /// number of slots is a power of two, or 0.
    slots: Vec<u32>,
    count: usize,
    warnings: Vec<TableFileError>,
}

impl TextTable {
    /// A table of these pairs. Of equal keys the first counts.
    #[must_use]
    pub fn inline<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> TextTable {
        let mut table = TextTable::default();
        for (key, value) in pairs {
            table.insert(&fold(key), value);
        }
        table
    }

    /// Reads a file of Postfix (postmap(1), "INPUT FILE FORMAT"): the common format of `texthash`, `hash`, `virtual`,
    /// `transport` and `access`. Lines that Postfix would omit are omitted and reported ([`Table::warnings`]).
    ///
    /// # Errors
    /// Returns an error if the file has more than [`TEXT_BYTES_MAX`].
    pub fn read(content: &[u8]) -> Result<TextTable, Vec<TableFileError>> {
        TextTable::read_judged(content, &table::any)
    }

    /// The same, of entries that can be used.
    ///
    /// # Errors
    /// Likewise, and all entries that can't.
    pub fn read_judged(content: &[u8], judge: Judge<'_>) -> Result<TextTable, Vec<TableFileError>> {
        TextTable::read_within(content, TEXT_BYTES_MAX, judge)
    }

    fn read_within(
        content: &[u8],
        bytes_max: usize,
        judge: Judge<'_>,
    ) -> Result<TextTable, Vec<TableFileError>> {
        if content.len() > bytes_max {
            return Err(too_large(content.len(), bytes_max));
        }
        let mut table =
            TextTable { texts: Vec::with_capacity(content.len()), ..Default::default() };
        let (mut warnings, mut mistakes) = (Mistakes::default(), Mistakes::default());
        for line in Lines::new(content) {
            match table.read_line(&line, &mut warnings) {
                Ok((offset, written)) => {
                    match judge(&EntryText { so_far: Some(&table), ..written }) {
                        Ok(()) => {}
                        Err(Flaw::Unusable(why)) => mistakes.push(line.place(offset), why),
                        Err(Flaw::Key(why)) => warnings.push(line.place(0), why),
                        Err(Flaw::Text(why)) => warnings.push(line.place(offset), why),
                    }
                }
                Err((offset, text)) => {
                    warnings.push(line.place(offset), format!("{text}; the line is ignored"));
                }
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes.into_list());
        }
        table.texts.shrink_to_fit();
        table.warnings = warnings.into_list();
        Ok(table)
    }

    /// Parses one line into the entry and the start of its text, or returns the reason and position for omitting it.
    fn read_line<'l>(
        &mut self,
        line: &'l Line<'_>,
        warnings: &mut Mistakes,
    ) -> Result<(usize, EntryText<'l>), (usize, String)> {
        let (key, value) = pair(&line.text)?;
        if key.ends_with(':') {
            let text = "the colon is part of the key: this is not the syntax of aliases";
            warnings.push(line.place(key.len() - 1), text);
        }
        if !self.insert(&fold(key), value) {
            return Err((0, format!("\"{key}\" already has a value")));
        }
        let behind = line.text.iter().skip(key.len());
        let offset = key.len() + behind.take_while(|byte| is_space(**byte)).count();
        Ok((offset, EntryText { key: Some(key), text: value, goes_on: false, so_far: None }))
    }

    /// Adds a folded key; `false`: it is there already.
    fn insert(&mut self, key: &str, value: &str) -> bool {
        // A quarter of the slots stays free.
        if (self.count + 1).saturating_mul(4) > self.slots.len().saturating_mul(3) {
            self.grow();
        }
        let Err(free) = self.search(key) else { return false };
        let Ok(at) = u32::try_from(self.texts.len() + 1) else { return false };
        put(&mut self.texts, key);
        put(&mut self.texts, value);
        if let Some(slot) = self.slots.get_mut(free) {
            *slot = at;
            self.count += 1;
        }
        true
    }

    /// Twice as many slots.
    fn grow(&mut self) {
        let slots = vec![0; (self.slots.len() * 2).max(8)];
        for at in std::mem::replace(&mut self.slots, slots) {
            let Some((key, _)) = self.entry(at) else { continue };
            // All keys are different: the search ends at a free slot.
            if let Err(free) = self.search(key)
                && let Some(slot) = self.slots.get_mut(free)
            {
                *slot = at;
            }
        }
    }

    /// The value of a folded key, or the slot that is free for it.
    fn search(&self, key: &str) -> Result<&str, usize> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut index = hash(key) as usize & mask;
        loop {
            match self.entry(self.slots.get(index).copied().unwrap_or_default()) {
                Some((known, value)) if known == key => return Ok(value),
                Some(_) => index = (index + 1) & mask,
                None => return Err(index),
            }
        }
    }

    /// Key and value of the entry that a slot refers to.
    fn entry(&self, slot: u32) -> Option<(&str, &str)> {
        let mut rest = self.texts.get(slot.checked_sub(1)? as usize..)?;
        Some((take(&mut rest)?, take(&mut rest)?))
    }

    /// Bytes of memory used.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.texts.capacity() + self.slots.capacity() * size_of::<u32>()
    }
}

/// Key and value of a logical line, which includes its continuations but no comments.
///
/// # Errors
/// Returns the byte of the line and the error as half a sentence.
pub fn pair(line: &[u8]) -> Result<(&str, &str), (usize, String)> {
    if line.first().is_some_and(|byte| is_space(*byte)) {
        return Err((0, "it begins with white space, but continues no line".to_owned()));
    }
    let text =
        std::str::from_utf8(line).map_err(|error| (error.valid_up_to(), "not UTF-8".to_owned()))?;
    if let Some(offset) = text.find('\0') {
        return Err((offset, "a NUL".to_owned()));
    }
    let (key, value) = text.split_at(key_end(text)?);
    let value = value.trim_matches(|c: char| c.is_ascii() && is_space(c as u8));
    if value.is_empty() {
        return Err((key.len(), format!("\"{key}\" has no value")));
    }
    Ok((key, value))
}

impl Table for TextTable {
    fn find(&self, key: &str) -> Result<Option<Entry>, LookupError> {
        if self.slots.is_empty() {
            return Ok(None);
        }
        Ok(self.search(&fold(key)).ok().map(Entry::text))
    }

    fn keys_count(&self) -> Option<u64> {
        Some(self.count as u64)
    }

    fn warnings(&self) -> &[TableFileError] {
        &self.warnings
    }
}

/// End of the key: the first white space that is not between quotes or after a backslash. Quotes and backslashes stay
/// part of the key, since Postfix looks up quoted local parts.
fn key_end(text: &str) -> Result<usize, (usize, String)> {
    let mut quote = None;
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'"' => quote = if quote.is_some() { None } else { Some(at) },
            _ if is_space(byte) && quote.is_none() => return Ok(at),
            _ => {}
        }
    }
    match quote {
        Some(at) => Err((at, "quote not closed".to_owned())),
        None => Ok(trim_end(text.as_bytes()).len()),
    }
}

fn hash(key: &str) -> u64 {
    let mut hasher = FixedHasher::default();
    hasher.write(key.as_bytes());
    hasher.write_usize(key.len());
    hasher.finish()
}

/// Writes a text, preceded by its length in seven bits per byte.
fn put(texts: &mut Vec<u8>, text: &str) {
    let mut rest = text.len();
    while rest >= 0x80 {
        texts.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    texts.push(rest as u8);
    texts.extend_from_slice(text.as_bytes());
}

/// Reads a text written by [`put`].
fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let mut len = 0_usize;
    for shift in (0..usize::BITS).step_by(7) {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        len |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let text = rest.get(..len)?;
    *rest = rest.get(len..)?;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(table: &TextTable, key: &str) -> Option<String> {
        table.find(key).expect("never damaged").map(|entry| entry.text.into())
    }

    #[test]
    fn what_is_left_out_is_told_of() {
        let content = b"  lost\n\nA 1\nb\n\"c d\" 2 \na 3\ne: 4\nf\" 5\ng \xe4\nh \0\n";
        let table = TextTable::read(content).expect("a table");
        assert_eq!(find(&table, "a").as_deref(), Some("1"));
        assert_eq!(find(&table, "\"C D\"").as_deref(), Some("2"));
        assert_eq!(find(&table, "e:").as_deref(), Some("4"));
        assert_eq!(table.keys_count(), Some(3));
        let told: Vec<String> = table.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "1:1: it begins with white space, but continues no line; the line is ignored",
                "4:2: \"b\" has no value; the line is ignored",
                "6:1: \"a\" already has a value; the line is ignored",
                "7:2: the colon is part of the key: this is not the syntax of aliases",
                "8:2: quote not closed; the line is ignored",
                "9:3: not UTF-8; the line is ignored",
                "10:3: a NUL; the line is ignored",
            ]
        );
    }

    #[test]
    fn warnings_of_entries_have_their_places() {
        // Each entry is judged with those before it and itself.
        let finds = |entry: &EntryText<'_>, key: &str| {
            entry.so_far.is_some_and(|table| table.find(key).is_ok_and(|found| found.is_some()))
        };
        let judge = |entry: &EntryText<'_>| match entry.text {
            _ if finds(entry, "B") != (entry.key != Some("a")) => Err(Flaw::Text("gap".to_owned())),
            "bad" => Err(Flaw::Text("bad text".to_owned())),
            _ if entry.key == Some("b") => Err(Flaw::Key("bad key".to_owned())),
            _ => Ok(()),
        };
        let table = TextTable::read_judged(b"a\tbad\nb 1\nc 2\n", &judge).expect("a table");
        let told: Vec<String> = table.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(told, ["1:3: bad text", "2:1: bad key"]);
        assert_eq!(table.keys_count(), Some(3));
    }

    #[test]
    fn a_file_has_its_limit() {
        let content = b"key value\n";
        assert!(TextTable::read_within(content, content.len(), &table::any).is_ok());
        let mistakes =
            TextTable::read_within(content, content.len() - 1, &table::any).expect_err("too large");
        assert_eq!(mistakes[0].to_string(), "1:1: 10 bytes are too many: at most 9");
    }

    #[test]
    fn lengths_beyond_one_byte_are_kept() {
        for len in [1, 127, 128, 16_383, 16_384, 70_000] {
            let (key, value) = ("k".repeat(len), "v".repeat(len + 1));
            let table = TextTable::inline([(&*key, &*value), ("other", "")]);
            assert_eq!(find(&table, &key), Some(value));
            assert_eq!(find(&table, "other").as_deref(), Some(""));
            assert_eq!(find(&table, "none"), None);
        }
        assert_eq!(find(&TextTable::default(), "none"), None);
    }

    #[test]
    fn a_million_keys_take_little_more_than_their_texts() {
        const COUNT: usize = 1_000_000;
        let mut content = Vec::with_capacity(COUNT * 50);
        for n in 0..COUNT {
            content.extend_from_slice(format!("user{n}@example.org /srv/mail/{n:08}\n").as_bytes());
        }
        let table = TextTable::read(&content).expect("a table");
        assert_eq!(table.keys_count(), Some(COUNT as u64));
        for n in (0..COUNT).step_by(9973) {
            let value = find(&table, &format!("USER{n}@example.org"));
            assert_eq!(value, Some(format!("/srv/mail/{n:08}")));
        }
        assert_eq!(find(&table, "user1000000@example.org"), None);
        assert!(table.bytes() < content.len() + 10 * COUNT, "{} bytes", table.bytes());
        // No key stands far from where its hash puts it.
        let longest = table.slots.split(|slot| *slot == 0).map(<[u32]>::len).max();
        assert!(longest < Some(100), "{longest:?} slots in a row");
    }
}
