use super::*;
use std::fs::{self, File};

type Held = Vec<(Vec<u8>, Vec<u8>)>;

/// All of a file.
fn all(path: &Path) -> Result<(RecordFile, Held), Unreadable> {
    let mut held = Held::new();
    let file = RecordFile::open(path, |key, record| held.push((key.to_vec(), record.to_vec())))?;
    Ok((file, held))
}

fn opened(path: &Path) -> (RecordFile, Held) {
    all(path).unwrap_or_else(|why| panic!("{why}"))
}

fn records(count: u32) -> Held {
    (0..count).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 30])).collect()
}

fn add(file: &mut RecordFile, held: &Held) -> Result<(), String> {
    file.write(held.iter().map(|(key, record)| (key, Some(record))))
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn what_is_written_is_read_and_what_is_removed_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    let (mut file, held) = opened(&path);
    assert!(held.is_empty());
    let written = records(2_000);
    add(&mut file, &written).unwrap();
    assert!(matches!(all(&path), Err(Unreadable::NotNow(_))), "it is in use");
    drop(file);
    let (mut file, held) = opened(&path);
    assert_eq!(held, written);
    file.write(written[1..].iter().map(|(key, _)| (key, None::<&[u8]>))).unwrap();
    drop(file);
    assert_eq!(opened(&path).1, written[..1]);
}

#[test]
fn what_is_no_such_file_is_damaged_and_what_is_no_file_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    for bytes in [b"no records".to_vec(), vec![0xA5; 100_000], Vec::new()] {
        fs::write(&path, bytes).unwrap();
        assert!(matches!(all(&path), Err(Unreadable::Damaged(_))));
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(all(&path), Err(Unreadable::NotNow(_))));
    fs::remove_dir(&path).unwrap();
    std::os::unix::fs::symlink("nowhere", &path).unwrap();
    assert!(matches!(all(&path), Err(Unreadable::NotNow(_))));
    fs::remove_file(&path).unwrap();
    let (file, _) = opened(&path);
    drop(file);
    let mut later = fs::read(&path).unwrap();
    later[7] = b'3';
    fs::write(&path, later).unwrap();
    let why = all(&path).unwrap_err();
    assert!(
        matches!(why, Unreadable::NotNow(_)) && why.to_string() == "unsupported version 3",
        "{why}"
    );
}

#[test]
fn half_a_batch_is_left_out_and_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    let (mut file, _) = opened(&path);
    add(&mut file, &records(1)).unwrap();
    let whole = length(&path);
    add(&mut file, &records(100)).unwrap();
    let salt = file.salt;
    drop(file);
    let cut = File::options().write(true).open(&path).unwrap();
    cut.set_len(length(&path) - 1).unwrap();
    let why = all(&path).unwrap_err();
    assert!(matches!(why, Unreadable::Damaged(_)), "all of it was synced: {why}");
    // As a crash leaves it that comes before the mark.
    cut.write_all_at(&format::mark(&salt, whole), format::MARK_AT).unwrap();
    let (mut file, held) = opened(&path);
    assert!(file.has_rest());
    assert_eq!(held, records(1));
    assert!(length(&path) > whole + 100, "nothing is cut off by who only reads");
    // A batch that is torn again, with what was there before behind it, would be damage.
    add(&mut file, &records(2)).unwrap();
    assert_eq!(length(&path), file.end);
    drop(file);
    assert_eq!(opened(&path).1, records(2));
}

/// As when a write failed half-way: the next one takes its place.
#[test]
fn what_a_failed_write_left_is_no_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    let (mut file, _) = opened(&path);
    add(&mut file, &records(3)).unwrap();
    let lost = format::batch(&file.salt, file.end, [("lost", Some("x"))].into_iter()).unwrap();
    file.file.write_all_at(&[lost.clone(), lost].concat(), file.end).unwrap();
    file.has_rest = true;
    file.write([("k", Some("v"))].into_iter()).unwrap();
    assert_eq!(length(&path), file.end);
    drop(file);
    let (_, held) = opened(&path);
    assert_eq!((held.len(), &held[3].1[..]), (4, &b"v"[..]));
}

#[test]
fn a_file_does_not_grow_without_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    let (mut file, _) = opened(&path);
    let written = records(1_000);
    let mut longest = 0;
    for _ in 0..100 {
        add(&mut file, &written).unwrap();
        longest = length(&path).max(longest);
    }
    // A batch has 42,012 octets.
    assert!((REWRITTEN_BYTES_MIN..REWRITTEN_BYTES_MIN + 42_012).contains(&longest), "{longest}");
    assert!(matches!(all(&path), Err(Unreadable::NotNow(_))), "the new one is in use, too");
    drop(file);
    assert_eq!(opened(&path).1, written);
    let names = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 1);
}

/// More than a batch of them, and large enough that twice as much is the limit.
#[test]
fn a_large_file_is_written_anew_when_it_has_doubled() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    let (mut file, _) = opened(&path);
    let written = records(3 * RECORDS_AT_ONCE as u32);
    add(&mut file, &written).unwrap();
    let mut lengths = Vec::new();
    for _ in 0..4 {
        add(&mut file, &written[..RECORDS_AT_ONCE].to_vec()).unwrap();
        lengths.push(length(&path));
    }
    // Written anew before the first, for it had outgrown an empty file's limit, and before the last.
    assert!(lengths[2] > lengths[1] && lengths[1] > lengths[0], "{lengths:?}");
    assert_eq!(lengths[3], lengths[0], "{lengths:?}");
    drop(file);
    assert_eq!(opened(&path).1, written);
}

/// Nothing is said to be durable that the next start would not read.
#[test]
fn a_file_that_was_removed_or_replaced_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    let (mut file, _) = opened(&path);
    for replaced in [false, true] {
        if replaced {
            fs::write(&path, "").unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(add(&mut file, &records(1)), Err("it was removed or replaced".to_owned()));
    }
    // Nor is it put in the place of what somebody else has put there.
    file.rewritten_at = 0;
    assert_eq!(add(&mut file, &records(1)), Err("it was removed or replaced".to_owned()));
    assert_eq!(length(&path), 0);
}

#[test]
fn a_file_that_another_program_has_cut_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    let (mut file, _) = opened(&path);
    add(&mut file, &records(1)).unwrap();
    fs::write(&path, "").unwrap();
    assert_eq!(add(&mut file, &records(2)), Err("another program has written to it".to_owned()));
}

/// A file that can't be written anew goes on as it is, for a while.
#[test]
fn without_room_for_two_it_grows_to_its_limit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    let (mut file, _) = opened(&path);
    let written = records(1_000);
    fs::create_dir(directory.path().join("x.records.new")).unwrap();
    let why = std::iter::repeat_with(|| add(&mut file, &written)).find_map(Result::err);
    assert!(why.as_ref().is_some_and(|why| why.contains("x.records.new")), "{why:?}");
    let limit = GROWTH_MAX * REWRITTEN_BYTES_MIN;
    assert!((limit..limit + 42_012).contains(&length(&path)));
    fs::remove_dir(directory.path().join("x.records.new")).unwrap();
    add(&mut file, &written).unwrap();
    assert!(length(&path) < 100_000, "it is written anew as soon as it can be");
    drop(file);
    assert_eq!(opened(&path).1, written);
}

/// What is damaged is not copied, and nothing more is said to be durable in it.
#[test]
fn damage_that_shows_when_it_is_written_anew_ends_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    let (mut file, _) = opened(&path);
    let written = records(1_000);
    add(&mut file, &written).unwrap();
    let place = file.end - 1;
    file.rewritten_at = file.end;
    file.file.write_all_at(b"?", place).unwrap();
    for _ in 0..2 {
        let why = add(&mut file, &written).unwrap_err();
        assert!(why.contains("damaged record"), "{why}");
    }
    assert_eq!(length(&path), file.end);
}

/// One that was closed in good order or written anew has a seal.
#[test]
fn damage_to_the_last_batch_shows_once_it_is_sealed() {
    for is_rewritten in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.records");
        let (mut file, _) = opened(&path);
        add(&mut file, &records(3)).unwrap();
        match is_rewritten {
            false => file.seal().unwrap(),
            true => file.rewrite().unwrap(),
        }
        drop(file);
        let mut turned = fs::read(&path).unwrap();
        let place = turned.len() - 20;
        turned[place] ^= 1;
        fs::write(&path, turned).unwrap();
        assert!(matches!(all(&path), Err(Unreadable::Damaged(_))), "{is_rewritten}");
    }
}

#[test]
fn a_file_of_the_version_before_gets_a_mark_with_the_next_change() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    let (mut file, _) = opened(&path);
    add(&mut file, &records(3)).unwrap();
    let salt = file.salt;
    drop(file);
    // The identity of that version, and batches at their places behind it.
    let mut old = b"PRrecor1".to_vec();
    old.extend(salt);
    old.extend(crc32c::crc32c(&old).to_le_bytes());
    let at = old.len() as u64;
    let some = records(3);
    let changes = some.iter().map(|(key, record)| (key, Some(record)));
    old.extend(format::batch(&salt, at, changes).unwrap());
    fs::write(&path, &old).unwrap();
    let (mut file, held) = opened(&path);
    assert_eq!(held, records(3));
    assert_eq!(fs::read(&path).unwrap(), old, "nothing is written by who only reads");
    file.seal().unwrap();
    assert!(format::has_mark(&fs::read(&path).unwrap()));
    drop(file);
    assert_eq!(opened(&path).1, records(3));
    for length in 0..fs::metadata(&path).unwrap().len() {
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..length as usize]).unwrap();
        assert!(matches!(all(&path), Err(Unreadable::Damaged(_))), "{length}");
        fs::write(&path, whole).unwrap();
    }
}
