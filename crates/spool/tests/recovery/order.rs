//! What recovery does to the disk, and when: nothing goes before what allows it is durable.

use crate::setup::{accept, accept_blob, blob, open, settle, small, submit};
use spool::SettleKind;
use spool::memdisk::{Faults, MemDisk};

#[test]
fn a_blob_goes_only_when_the_settle_of_its_message_is_durable() {
    for seed in 0..400 {
        let disk = MemDisk::new(seed, 1 << 30);
        let (mut spool, _, _) = open(&disk, small()).expect("opens");
        let blob = blob(&mut spool, &disk);
        assert!(submit(&mut spool, &disk, vec![accept_blob(1, blob)]));
        // It bounces; the disk can't sync that, neither now nor when the process is restarted.
        disk.set_faults(Faults { sync_permille: 1_000, ..Faults::default() });
        let report = vec![settle(1, SettleKind::Failed), accept(2, 300)];
        assert!(!submit(&mut spool, &disk, report));
        disk.kill();
        assert!(open(&disk, small()).is_err());
        disk.set_faults(Faults::default());
        disk.crash();
        let (_, report, found) = open(&disk, small()).expect("opens");
        let damage = (report.damaged_count, report.damage);
        assert!(damage.0 == 0 && found.len() == 1, "seed {seed}: {found:?} {damage:?}");
    }
}
