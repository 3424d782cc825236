use super::*;

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
}

#[test]
fn half_a_batch_is_left_out_and_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    let (mut file, _) = opened(&path);
    add(&mut file, &records(1)).unwrap();
    let whole = length(&path);
    add(&mut file, &records(100)).unwrap();
    drop(file);
    File::options().write(true).open(&path).unwrap().set_len(length(&path) - 1).unwrap();
    let (mut file, held) = opened(&path);
    assert_eq!(held, records(1));
    assert!(length(&path) > whole + 100, "nothing is cut off by who only reads");
    add(&mut file, &records(2)).unwrap();
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
}

/// A file that can't be written anew goes on as it is.
#[test]
fn without_room_for_two_it_grows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.records");
    let (mut file, _) = opened(&path);
    let written = records(1_000);
    fs::create_dir(directory.path().join("x.records.new")).unwrap();
    for _ in 0..30 {
        add(&mut file, &written).unwrap();
    }
    assert!(length(&path) > REWRITTEN_BYTES_MIN + 100_000);
    drop(file);
    assert_eq!(opened(&path).1, written);
}
