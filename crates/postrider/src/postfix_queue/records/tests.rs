//! Queue files as octets.

use super::*;
use proptest::prelude::*;

/// A record with its length.
fn record(kind: u8, data: &[u8]) -> Vec<u8> {
    let (mut out, mut length) = (vec![kind], data.len());
    loop {
        let low = (length & 0x7f) as u8;
        length >>= 7;
        out.push(if length > 0 { low | 0x80 } else { low });
        if length == 0 {
            break;
        }
    }
    out.extend_from_slice(data);
    out
}

fn file(records: &[(u8, &str)]) -> Vec<u8> {
    records.iter().flat_map(|(kind, data)| record(*kind, data.as_bytes())).collect()
}

const SIZE: (u8, &str) = (
    b'C',
    "             30             600               2               0              30               1",
);

fn whole() -> Vec<u8> {
    file(&[
        SIZE,
        (b'T', "1700000000 250999"),
        (b'A', "log_helo_name=client.test"),
        (b'A', "log_client_address=192.0.2.1"),
        (b'A', "encoding=8bit"),
        (b'A', "envelope_id=a+b"),
        (b'A', "ret_flags=2"),
        (b'S', "jo@a.test"),
        (b'W', "              0"),
        (b'A', "dsn_orig_rcpt=rfc822;first@b.test"),
        (b'A', "notify_flags=6"),
        (b'O', "first@b.test"),
        (b'R', "one@b.test"),
        (b'O', "done@b.test"),
        (b'D', "done@b.test"),
        (b'R', "two words@b.test"),
        (b'p', "              0"),
        (b'M', ""),
        (b'N', "Subject: a"),
        (b'w', "deleted"),
        (b'N', ""),
        (b'L', "long "),
        (b'N', "line"),
        (b'X', ""),
        (b'R', "added@b.test"),
        (b'E', ""),
    ])
}

#[test]
fn queue_file_is_read_whole() {
    let mail = read(&whole()).unwrap();
    assert_eq!((mail.sender.as_str(), mail.arrived_at), ("jo@a.test", Wall(1_700_000_000_250)));
    let addresses: Vec<&str> = mail.open.iter().map(|one| one.address.as_str()).collect();
    assert_eq!(addresses, ["one@b.test", "two words@b.test", "added@b.test"]);
    assert_eq!((mail.open[0].notify, mail.done_count), (Some(6), 1));
    assert_eq!(mail.open[0].orcpt.as_deref(), Some("rfc822;first@b.test"));
    // What belongs to a recipient that is done does not pass to the next.
    assert_eq!(mail.open[1].original, None);
    assert_eq!(mail.content, b"Subject: a\r\n\r\nlong line\r\n");
    assert_eq!((mail.options, mail.is_8bit, mail.is_warned), (SMTPUTF8, true, true));
    assert_eq!((mail.ret, mail.envid.as_deref()), (Some(Ret::Headers), Some("a+b")));
    assert_eq!(mail.client_address.as_deref(), Some("192.0.2.1"));
}

#[test]
fn pointers_are_followed_and_their_loops_end() {
    let mut pointed =
        file(&[SIZE, (b'T', "1700000000"), (b'S', ""), (b'R', "a@b.test"), (b'M', "")]);
    let old = file(&[(b'N', "Subject: old"), (b'N', ""), (b'X', ""), (b'E', "")]);
    let to_new = pointed.len() + record(b'p', &[b'0'; 15]).len() + old.len();
    pointed.extend(record(b'p', format!("{to_new:15}").as_bytes()));
    let back = pointed.len() + file(&[(b'N', "Subject: old")]).len();
    pointed.extend(&old);
    pointed.extend(record(b'N', b"Subject: new"));
    pointed.extend(record(b'p', format!("{back:15}").as_bytes()));
    assert_eq!(read(&pointed).unwrap().content, b"Subject: new\r\n\r\n");

    let start = file(&[SIZE, (b'T', "1"), (b'S', ""), (b'M', "")]);
    let looped = [start.clone(), record(b'p', start.len().to_string().as_bytes())].concat();
    assert_eq!(read(&looped).unwrap_err().what, "its pointers form a loop");
    let beyond = [start, record(b'p', b"999999999")].concat();
    assert_eq!(read(&beyond).unwrap_err().what, "it ends within the message");
}

#[test]
fn faults_are_named_with_their_place() {
    let end = [(b'M', ""), (b'N', "x"), (b'X', ""), (b'E', "")];
    let wrong = |first: &[(u8, &str)]| read(&file(&[first, &end].concat())).unwrap_err();
    let time = (b'T', "1700000000");
    for (records, offset, what) in [
        (&[(b'T', "1")][..], 0, "it does not begin with its size: it is no queue file"),
        (&[(b'C', "    ")], 0, "its size is missing: Postfix had not finished it"),
        (&[(b'C', "0 0 0")], 0, "its size is missing: Postfix had not finished it"),
        (&[(b'C', "5"), time], 22, "it has no sender"),
        (&[(b'C', "5"), (b'S', "a")], 13, "it has no time of arrival"),
        (&[(b'C', "5"), (b'T', "now")], 3, "its time is no number"),
        (&[(b'C', "5"), (b'A', "nothing")], 3, "no attribute"),
        (&[(b'C', "5"), (b'Z', "")], 3, "a record of unknown type"),
        (&[(b'C', "5"), (b'R', "a\0")], 3, "a text is not UTF-8"),
        (&[(b'C', "5"), (b'p', "x")], 3, "a pointer is no number"),
        (&[(b'C', "5"), (b'M', ""), (b'R', "a")], 5, "the content has a foreign record"),
        (&[(b'C', "5"), (b'E', "")], 3, "it has no content"),
    ] {
        assert_eq!(wrong(records), CorruptFile { offset, what }, "{records:?}");
    }
    assert_eq!(
        read(b"").unwrap_err(),
        CorruptFile { offset: 0, what: "it ends within the message" }
    );
    assert_eq!(read(b"C").unwrap_err().what, "no length");
    assert_eq!(read(b"C\xff\xff\xff\xff\xff").unwrap_err().what, "no length");
    assert_eq!(read(b"C\xff\xff\xff\xff\x7f").unwrap_err().what, "it ends within a record");
}

#[test]
fn cut_file_is_never_taken_for_a_message() {
    let whole = whole();
    for length in 0..whole.len() {
        assert!(read(&whole[..length]).is_err(), "{length}");
    }
}

proptest! {
    #[test]
    fn any_octets_are_read_or_refused(octets: Vec<u8>) {
        let _ = read(&octets);
    }

    #[test]
    fn changed_files_are_read_or_refused(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)
    ) {
        let mut file = whole();
        for (at, octet) in changes {
            let at = at.index(file.len());
            file[at] = octet;
        }
        if let Ok(mail) = read(&file) {
            prop_assert!(mail.content.len() <= 2 * file.len());
        }
    }

    #[test]
    fn content_is_read_as_it_was_stored(lines in prop::collection::vec("[^\n]{0,300}", 0..20)) {
        let mut file = file(&[SIZE, (b'T', "1"), (b'S', ""), (b'R', "a@b.test"), (b'M', "")]);
        for line in &lines {
            file.extend(record(b'N', line.as_bytes()));
        }
        file.extend(record(b'X', b""));
        file.extend(record(b'E', b""));
        let expected: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        prop_assert_eq!(read(&file).unwrap().content, expected.into_bytes());
    }
}
