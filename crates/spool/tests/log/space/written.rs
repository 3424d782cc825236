//! How much is written for what is kept.

use super::log::{accept, open, run, small, submit};
use spool::memdisk::MemDisk;
use spool::{Request, SpoolConfig, Ticket};

fn large() -> SpoolConfig {
    SpoolConfig {
        segment_bytes: 4 << 20,
        first_segment_bytes: 4 << 20,
        block_bytes: 4096,
        index_every_bytes: 4 << 20,
        batch_bytes_max: 4 << 20,
        ..small()
    }
}

#[test]
fn a_growing_queue_writes_little_more_than_its_content() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _) = open(&disk, large());
    let (mut n, mut content) = (0, 0);
    for _ in 0..80 {
        for _ in 0..10 {
            n += 1;
            content += 10_000;
            let records = accept(n, 10_000);
            spool.handle_request(Request::Submit { ticket: Ticket(n), records });
        }
        let _ = run(&mut spool, &disk);
    }
    assert_eq!(spool.status().live_count, n);
    let written = disk.written_bytes();
    assert!(written * 100 <= content * 115, "{written} for {content}");
}

#[test]
fn small_batches_are_written_over_zeros_that_came_with_an_earlier_one() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _) = open(&disk, large());
    assert!(submit(&mut spool, &disk, accept(1, 100)));
    let first = disk.written_bytes();
    assert!(first >= 256 << 10, "zeros came along: {first}");
    for n in 2..=50 {
        assert!(submit(&mut spool, &disk, accept(n, 100)));
    }
    assert_eq!(disk.written_bytes() - first, 49 * 4096);
    for n in 51..=100 {
        assert!(submit(&mut spool, &disk, accept(n, 100)));
    }
    assert_eq!(disk.written_bytes() - first, 99 * 4096 + (256 << 10), "and again");
}

#[test]
fn a_first_start_writes_no_zeros_where_room_can_be_taken_without() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _) = open(&disk, large());
    let _ = run(&mut spool, &disk);
    assert!(spool.status().spares_count > 0);
    assert!(disk.written_bytes() < 256 << 10, "{}", disk.written_bytes());
}
