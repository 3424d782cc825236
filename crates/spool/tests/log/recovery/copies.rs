//! Copies that compaction made, with damage in what was written along with them.

use crate::setup::{accept, id, open, run, settle, small, submit};
use spool::memdisk::MemDisk;
use spool::{Disk, Record, SettleKind, State};

const WHY: &str = "asked by the postmaster";

fn segments(disk: &MemDisk) -> Vec<String> {
    let mut names = disk.list().expect("lists");
    names.retain(|name| name.ends_with(".segment"));
    names
}

#[test]
fn a_held_message_whose_state_is_damaged_is_not_sent() {
    for is_back in [false, true] {
        let disk = MemDisk::new(1, 1 << 30);
        let (mut spool, _, _) = open(&disk, small()).expect("opens");
        assert!(submit(&mut spool, &disk, vec![accept(1, 300)]));
        let hold = State {
            id: id(1),
            hold: Some(Some(WHY.into())),
            next_try: None,
            overrides: None,
            delay_notice_sent: None,
        };
        assert!(submit(&mut spool, &disk, vec![Record::State(hold)]));
        let old = segments(&disk).remove(0);
        let mut content = Vec::new();
        // Until the first segment was compacted: the copy of the message is the newest thing of it.
        for n in 2..200 {
            content = disk.content(&old).unwrap_or(content);
            if !segments(&disk).contains(&old) {
                break;
            }
            assert!(submit(&mut spool, &disk, vec![accept(n, 3_000)]));
            assert!(submit(&mut spool, &disk, vec![settle(n, SettleKind::Relayed)]));
        }
        assert!(spool.status().compacted_bytes > 0 && !segments(&disk).contains(&old));
        run(&mut spool, &disk);
        let holds_why =
            |content: &[u8]| content.windows(WHY.len()).position(|window| window == WHY.as_bytes());
        let (name, at) = segments(&disk)
            .into_iter()
            .find_map(|name| holds_why(&disk.content(&name)?).map(|at| (name, at as u64)))
            .expect("the state was copied");
        assert!(disk.flip_bit(&name, at * 8));
        if is_back {
            // As if the power had failed before the name went.
            disk.put(&old, content);
        }
        disk.crash();
        let verified = spool::verify(&disk).expect("verifies");
        assert!(verified.damage.iter().all(|damage| *damage.file == *name), "{verified:?}");
        let (_, report, found) = open(&disk, small()).expect("opens");
        assert!(report.damaged_count > 0);
        let message = found.iter().find(|message| message.id == id(1)).expect("it is there");
        let why = message.hold.as_deref().expect("it is held");
        // What its older place says is known; if that is gone, only that something is not.
        assert_eq!(why == WHY, is_back, "{why}");
    }
}
