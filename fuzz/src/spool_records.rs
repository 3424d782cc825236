//! What the spool reads from disk: records, headers, names, and whole segments in which every
//! checksum is right and nothing else need be.

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use spool::fuzzing::{MadeBatch, check_blocks, check_record, segment};
use spool::memdisk::MemDisk;
use spool::{Completion, Request, Spool, SpoolConfig, Ticket};

/// The first byte says what the others are.
pub fn run(data: &[u8]) {
    let Some((&what, rest)) = data.split_first() else { return };
    match what {
        0 => check_blocks(rest),
        1..=9 => check_record(what, rest),
        _ => drop(segments(&mut Unstructured::new(rest))),
    }
}

/// Up to three segments of up to four batches are recovered, verified and read.
fn segments(choices: &mut Unstructured) -> Result<()> {
    let disk = MemDisk::new(1, 1 << 30);
    for generation in 1..=choices.int_in_range(1..=3)? {
        let mut batches = Vec::new();
        for _ in 0..choices.int_in_range(0..=4)? {
            batches.push(batch(choices)?);
        }
        let (name, content) = segment(generation, &batches, choices.arbitrary()?);
        disk.put(&name, content);
    }
    let config = SpoolConfig {
        node: 7,
        log: 3,
        salt: 1,
        segment_bytes: 32 << 10,
        first_segment_bytes: 32 << 10,
        block_bytes: 512,
        reserve_bytes: 0,
        ..SpoolConfig::default()
    };
    drop(spool::verify(&disk));
    let mut found = Vec::new();
    let opened = Spool::open(&disk, config.clone(), &mut |message| found.push(message));
    let Ok((mut spool, _)) = opened else { return Ok(()) };
    for (ticket, message) in (1..).zip(&found) {
        spool.handle_request(Request::Load {
            ticket: Ticket(ticket),
            id: message.id,
            bytes_max: u64::MAX,
        });
    }
    let answers = crate::spool_recovery::settle(&mut spool, &disk);
    let loads = answers
        .iter()
        .filter(|(_, answer)| matches!(answer, Completion::Loaded(_) | Completion::LoadFailed(_)));
    assert_eq!(loads.count(), found.len(), "each load has an answer");
    drop(spool::verify(&disk));
    drop(Spool::open(&disk, config, &mut |_| ()));
    Ok(())
}

fn batch(choices: &mut Unstructured) -> Result<MadeBatch> {
    let mut batch = MadeBatch {
        is_index: choices.arbitrary()?,
        skew: choices.arbitrary::<u16>()?.into(),
        records: Vec::new(),
    };
    for _ in 0..choices.int_in_range(0..=4)? {
        let kind = choices.int_in_range(1..=9)?;
        // Few messages, so that records speak of the same ones.
        let mut body = vec![choices.int_in_range(1..=4)?, 0, 0, 0, 0, 3, 7, 0];
        body.extend_from_slice(choices.arbitrary()?);
        batch.records.push((kind, choices.arbitrary()?, body));
    }
    Ok(batch)
}
