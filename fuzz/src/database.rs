//! Constant databases: what was written is found, and what is made of it by turning bytes, with right
//! checksums and with wrong ones, is refused or read without harm.

use lookup::database::{Database, DatabaseOptions, DatabaseWriter, fuzzing};
use lookup::{Entry, Table};
use mail::Wall;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

/// Lines before an empty one are keys, which have themselves as value and as field; behind it three
/// bytes each turn a byte of the file: two for the place, one for what is added to it.
pub fn run(data: &[u8]) {
    let _ = Database::open("raw", Arc::new(data.to_vec())).map(|raw| raw.find("key"));
    let middle = data.windows(2).position(|two| two == b"\n\n").unwrap_or(data.len());
    let (lines, turns) = data.split_at(middle);
    let mut entries = BTreeMap::new();
    for line in lines.split(|&byte| byte == b'\n') {
        let key = String::from_utf8_lossy(line).into_owned();
        let values: Box<[Box<str>]> = key.split(' ').map(Box::from).collect();
        entries.insert(key.clone(), Entry::fields([(key.as_str().into(), values)]));
    }
    let bytes = written(&entries);
    let database = Database::open("right", Arc::new(bytes.clone())).expect("as it was written");
    for (key, entry) in &entries {
        assert_eq!(database.find(key).expect("right").as_ref(), Some(entry));
    }
    let mut turned = bytes;
    for turn in turns.get(2..).unwrap_or_default().chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([turn[0], turn[1]])) % turned.len();
        turned[at] = turned[at].wrapping_add(turn[2]);
    }
    // Checksums as they are: no wrong answer.
    if let Ok(database) = Database::open("turned", Arc::new(turned.clone())) {
        for (key, entry) in &entries {
            if let Ok(answer) = database.find(key) {
                assert_eq!(answer.as_ref(), Some(entry));
            }
        }
    }
    // Right checksums: any answer, but one.
    fuzzing::seal(&mut turned);
    if let Ok(database) = Database::open("sealed", Arc::new(turned)) {
        for key in entries.keys() {
            let _ = database.find(key);
        }
    }
}

fn written(entries: &BTreeMap<String, Entry>) -> Vec<u8> {
    let making = DatabaseOptions { salt: *b"0123456789abcdef", made: Wall(0), folds_case: false };
    let (file, spill) = (Cursor::new(Vec::new()), Cursor::new(Vec::new()));
    let mut writer = DatabaseWriter::new(file, spill, making).expect("memory");
    for (key, entry) in entries {
        writer.push(key, entry, 0).expect("not too long");
    }
    let (file, summary) = writer.finish(&mut |twice| panic!("{twice:?}")).expect("memory");
    assert_eq!(summary.keys_count, entries.len() as u64);
    file.into_inner()
}
