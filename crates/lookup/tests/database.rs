//! The constant database as a whole: what was written is found, and nothing else; what is damaged says
//! so.

use lookup::database::{
    Database, DatabaseOptions, DatabaseSummary, DatabaseWriter, Duplicate, Unusable,
};
use lookup::{Entry, LookupErrorKind, Table};
use mail::Wall;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

const MAKING: DatabaseOptions =
    DatabaseOptions { salt: *b"0123456789abcdef", made: Wall(1_000), folds_case: false };

/// Entries that were left out: key, line, line of the first.
type Told = Vec<(String, u64, u64)>;

fn build<'a>(
    making: DatabaseOptions,
    entries: impl IntoIterator<Item = (&'a str, Entry)>,
) -> (Vec<u8>, DatabaseSummary, Told) {
    let (file, spill) = (Cursor::new(Vec::new()), Cursor::new(Vec::new()));
    let mut writer = DatabaseWriter::new(file, spill, making).expect("memory");
    for (n, (key, entry)) in entries.into_iter().enumerate() {
        writer.push(key, &entry, n as u64 + 1).expect("not too long");
    }
    let mut told = Vec::new();
    let mut tell = |Duplicate { key, first_line, line }: Duplicate<'_>| {
        told.push((key.to_owned(), line, first_line));
    };
    let (file, summary) = writer.finish(&mut tell).expect("memory");
    told.sort();
    (file.into_inner(), summary, told)
}

fn open(bytes: Vec<u8>) -> Result<Database, Unusable> {
    Database::open("users.db", Arc::new(bytes))
}

fn text(key: &str) -> (&str, Entry) {
    (key, Entry::text(format!("value of {key}")))
}

#[test]
fn an_empty_database_has_nothing() {
    let (bytes, summary, _) = build(MAKING, []);
    assert_eq!(summary, DatabaseSummary { keys_count: 0, duplicates_count: 0, file_bytes: 192 });
    assert_eq!(bytes.len(), 192);
    let database = open(bytes).unwrap();
    assert_eq!(database.find("a").unwrap(), None);
    assert_eq!(database.keys_count(), Some(0));
    assert_eq!(database.made(), Wall(1_000));
}

#[test]
fn of_entries_with_one_key_the_first_counts() {
    let entries = ["a", "b", "A", "a", "c", "a"].map(text);
    let (bytes, summary, told) = build(MAKING, entries.clone());
    assert_eq!((summary.keys_count, summary.duplicates_count), (4, 2));
    assert_eq!(told, [("a".to_owned(), 4, 1), ("a".to_owned(), 6, 1)]);
    let database = open(bytes).unwrap();
    assert_eq!(&*database.find("A").unwrap().unwrap().text, "value of A");
    // Without regard to case there are fewer.
    let (bytes, summary, told) = build(DatabaseOptions { folds_case: true, ..MAKING }, entries);
    assert_eq!((summary.keys_count, told[0].1), (3, 3));
    let database = open(bytes).unwrap();
    for key in ["a", "A"] {
        assert_eq!(&*database.find(key).unwrap().unwrap().text, "value of a");
    }
}

#[test]
fn all_entries_come_in_their_order_up_to_what_is_damaged() {
    let all = |bytes: Vec<u8>| {
        let database = open(bytes).unwrap();
        let entries = database.entries();
        entries.map(|read| read.map(|(key, entry)| (key.into_string(), entry))).collect::<Vec<_>>()
    };
    let entries = ["a", "b", "A", "a"].map(text);
    let (mut bytes, ..) = build(MAKING, entries.clone());
    let wanted = entries.map(|(key, entry)| Ok((key.to_owned(), entry)));
    assert_eq!(all(bytes.clone()), wanted);
    assert_eq!(all(build(MAKING, []).0), []);
    // Each takes 16 bytes, the key and the value.
    bytes[128 + 27 + 20] ^= 1;
    let read = all(bytes);
    assert_eq!((read.len(), &read[0]), (2, &wanted[0]));
    assert!(read[1].as_ref().is_err_and(|trouble| trouble.kind == LookupErrorKind::Wrong));
}

#[test]
fn many_keys_are_found_and_others_are_not() {
    let keys: Vec<String> = (0..300_000).map(|n| format!("user{n}@example.test")).collect();
    let (bytes, summary, _) = build(MAKING, keys.iter().map(|key| text(key)));
    assert_eq!(summary.keys_count, 300_000);
    assert_eq!(summary.file_bytes, bytes.len() as u64);
    let database = open(bytes).unwrap();
    for key in &keys {
        assert_eq!(database.find(key).unwrap(), Some(text(key).1), "{key}");
    }
    for n in 0..300_000 {
        assert_eq!(database.find(&format!("user{n}@example.tes")).unwrap(), None);
    }
}

#[test]
fn whatever_byte_is_wrong_no_answer_is() {
    let keys: Vec<String> = (0..40).map(|n| format!("key {n}")).collect();
    let (bytes, ..) = build(MAKING, keys.iter().map(|key| text(key)));
    let mut unusable = 0;
    let mut troubles = 0;
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut wrong = bytes.clone();
            wrong[at] ^= flip;
            let Ok(database) = open(wrong) else {
                unusable += 1;
                continue;
            };
            for key in &keys {
                match database.find(key) {
                    Ok(answer) => assert_eq!(answer, Some(text(key).1), "byte {at}, {key}"),
                    Err(trouble) => {
                        assert_eq!(trouble.kind, LookupErrorKind::Wrong);
                        assert!(trouble.text.starts_with("users.db is damaged ("), "{trouble}");
                        troubles += 1;
                    }
                }
            }
            assert!(!matches!(database.find("key 40"), Ok(Some(_))));
        }
    }
    assert_eq!(unusable, 128 * 3);
    // A record's byte is one key's trouble, a bucket's that of all that it may have.
    assert!(troubles > (bytes.len() - 200) * 3, "{troubles} in {} bytes", bytes.len());
}

#[test]
fn a_file_that_was_cut_is_not_opened() {
    let (bytes, ..) = build(MAKING, ["a", "b", "c"].map(text));
    for end in 0..bytes.len() {
        let error = open(bytes[..end].to_vec()).unwrap_err();
        let foreign = end < 8;
        assert_eq!(error == Unusable::Foreign, foreign, "{end}: {error}");
    }
}

#[test]
fn a_file_whose_making_was_not_finished_is_not_opened() {
    let mut file = Cursor::new(Vec::new());
    let mut writer = DatabaseWriter::new(&mut file, Cursor::new(Vec::new()), MAKING).unwrap();
    let value = Entry::text("v".repeat(1_000));
    for n in 0..2_000 {
        writer.push(&n.to_string(), &value, n).unwrap();
    }
    drop(writer);
    assert!(file.get_ref().len() > 1_000_000);
    assert_eq!(open(file.into_inner()).unwrap_err(), Unusable::Foreign);
}

fn entry() -> impl Strategy<Value = Entry> {
    let value = ".{0,20}".prop_map(Box::<str>::from);
    let values = prop::collection::vec(value.clone(), 0..4).prop_map(Box::from);
    let fields = prop::collection::vec((value.clone(), values), 0..4);
    (value, fields).prop_map(|(text, fields)| Entry {
        text,
        fields: fields.into(),
        ..Entry::default()
    })
}

proptest! {
    #[test]
    fn any_map_comes_back(
        entries in prop::collection::btree_map(".{0,12}", entry(), 0..200),
        others in prop::collection::vec(".{0,12}", 0..50),
        salt: [u8; 16],
    ) {
        let making = DatabaseOptions { salt, ..MAKING };
        let pairs = entries.iter().map(|(key, entry)| (key.as_str(), entry.clone()));
        let (bytes, summary, told) = build(making, pairs);
        prop_assert_eq!(summary.keys_count, entries.len() as u64);
        prop_assert!(told.is_empty());
        let database = open(bytes).unwrap();
        for key in entries.keys().chain(&others) {
            prop_assert_eq!(database.find(key).unwrap(), entries.get(key).cloned());
        }
    }

    #[test]
    fn without_case_any_map_comes_back_by_any_case(
        entries in prop::collection::btree_map("[a-zà-ö]{0,6}", entry(), 0..50),
    ) {
        let making = DatabaseOptions { folds_case: true, ..MAKING };
        let upper: BTreeMap<String, Entry> =
            entries.iter().map(|(key, entry)| (key.to_uppercase(), entry.clone())).collect();
        let pairs = upper.iter().map(|(key, entry)| (key.as_str(), entry.clone()));
        let (bytes, ..) = build(making, pairs);
        let database = open(bytes).unwrap();
        for (key, entry) in entries.iter().chain(&upper) {
            prop_assert_eq!(database.find(key).unwrap(), Some(entry.clone()));
        }
    }

    #[test]
    fn random_bytes_are_no_database(
        mut bytes in prop::collection::vec(any::<u8>(), 0..600),
        begins_right: bool,
    ) {
        if begins_right {
            let (right, ..) = build(MAKING, []);
            let begin = bytes.len().min(16);
            bytes[..begin].copy_from_slice(&right[..begin]);
        }
        prop_assert!(open(bytes).is_err());
    }

    #[test]
    fn a_damaged_database_never_answers_wrongly(
        entries in prop::collection::btree_map("[a-c]{0,4}", entry(), 1..60),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let pairs = entries.iter().map(|(key, entry)| (key.as_str(), entry.clone()));
        let (mut bytes, ..) = build(MAKING, pairs);
        for (at, byte) in damage {
            let at = 128 + at.index(bytes.len() - 128);
            bytes[at] = byte;
        }
        let database = open(bytes).unwrap();
        for key in entries.keys() {
            if let Ok(answer) = database.find(key) {
                prop_assert_eq!(answer.as_ref(), entries.get(key));
            }
        }
    }
}
