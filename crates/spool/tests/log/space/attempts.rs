//! Messages that are tried for days: what their attempts take is bounded by what is queued.

use super::log::{accept_many, open_all, run, settle_one, small, submit};
use mail::{MessageId, Wall};
use spool::memdisk::MemDisk;
use spool::{Attempt, Disk, Record, SettleKind, Spool, State};

const MESSAGES: u64 = 12;
const RECIPIENTS: u32 = 3;
const ROUNDS: u16 = 400;

/// What was said of the messages beside attempts before these go on and on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    Nothing,
    /// A recipient is settled, the last of four.
    PartSettled,
    /// Held and released, and a notice was sent.
    Noticed,
    Held,
    /// An operator chose something in place of what it says.
    Overridden,
}

/// A name of the route, and words that a later version may have added.
const OVERRIDES: &str = "backup\npool bulk\nwhatever comes";

fn state(sequence: u64, hold: Option<Option<&str>>, notice: Option<bool>) -> Record {
    Record::State(State {
        id: MessageId::new(0, 0, sequence),
        hold: hold.map(|hold| hold.map(Box::from)),
        next_try: None,
        overrides: None,
        delay_notice_sent: notice,
    })
}

fn attempt(sequence: u64, recipients: Vec<u32>, attempts: u16) -> Record {
    Record::Attempt(Attempt {
        id: MessageId::new(0, 0, sequence),
        at: Wall(1),
        recipients,
        attempts,
        next_try: Wall(1_000 + u64::from(attempts)),
        reason: format!("451 4.7.1 greylisted, attempt {attempts}").into(),
    })
}

fn say_before(spool: &mut Spool, disk: &MemDisk, before: Before) {
    for n in 1..=MESSAGES {
        match before {
            Before::Nothing => {}
            Before::PartSettled => {
                assert!(submit(spool, disk, vec![settle_one(n, RECIPIENTS, SettleKind::Relayed)]));
            }
            Before::Noticed => {
                assert!(submit(spool, disk, vec![state(n, Some(Some("wait")), None)]));
                assert!(submit(spool, disk, vec![state(n, Some(None), Some(true))]));
            }
            Before::Held => assert!(submit(spool, disk, vec![state(n, Some(Some("wait")), None)])),
            Before::Overridden => {
                let id = MessageId::new(0, 0, n);
                for overrides in [Some("other"), None, Some(OVERRIDES)] {
                    let overrides = Some(overrides.map(Box::from));
                    let (hold, next_try, delay_notice_sent) = (None, None, None);
                    let state = State { id, hold, next_try, overrides, delay_notice_sent };
                    assert!(submit(spool, disk, vec![Record::State(state)]));
                }
            }
        }
    }
}

/// All is as it was said last.
fn check(disk: &MemDisk, before: Before, attempts: u16, what: &str) -> Spool {
    let verified = spool::verify(disk).expect("verifies");
    assert_eq!(verified.damaged_count, 0, "{what}: {verified:?}");
    let (spool, found) = open_all(disk, small());
    assert_eq!(found.len() as u64, MESSAGES, "{what}");
    let is_settled = before == Before::PartSettled;
    for message in &found {
        assert_eq!(message.open.len() as u32, RECIPIENTS + u32::from(!is_settled), "{what}");
        for recipient in message.open.iter().filter(|to| to.index < RECIPIENTS) {
            let next = Some(Wall(1_000 + u64::from(attempts)));
            assert_eq!((recipient.attempts, recipient.next_try), (attempts, next), "{what}");
        }
        assert_eq!(message.delay_notice_sent, before == Before::Noticed, "{what}");
        assert_eq!(message.hold.is_some(), before == Before::Held, "{what}");
        let overrides = (before == Before::Overridden).then_some(OVERRIDES);
        assert_eq!(message.overrides.as_deref(), overrides, "{what}");
        let reason = format!("451 4.7.1 greylisted, attempt {attempts}");
        assert_eq!(message.last_reason.as_deref(), Some(&*reason), "{what}");
    }
    spool
}

#[test]
fn attempts_without_end_take_no_more_than_what_is_queued() {
    let befores = [Before::Nothing, Before::PartSettled, Before::Noticed, Before::Held];
    for before in befores.into_iter().chain([Before::Overridden]) {
        for apart in [false, true] {
            let what = format!("{before:?}, apart: {apart}");
            let disk = MemDisk::new(7, 1 << 30);
            let (mut spool, _) = open_all(&disk, small());
            for n in 1..=MESSAGES {
                assert!(submit(&mut spool, &disk, accept_many(n, RECIPIENTS + 1, 400)));
            }
            say_before(&mut spool, &disk, before);
            for round in 1..=ROUNDS {
                for n in 1..=MESSAGES {
                    let groups: Vec<Vec<u32>> = if apart {
                        (0..RECIPIENTS).map(|index| vec![index]).collect()
                    } else {
                        vec![(0..RECIPIENTS).collect()]
                    };
                    for group in groups {
                        assert!(submit(&mut spool, &disk, vec![attempt(n, group, round)]));
                    }
                }
                let status = spool.status();
                assert!(status.segments_count <= 8, "{what}, round {round}: {status:?}");
                if round % 90 == 0 {
                    drop(spool);
                    if round % 180 == 0 {
                        disk.crash()
                    } else {
                        disk.kill()
                    }
                    spool = check(&disk, before, round, &what);
                }
            }
            disk.crash();
            spool = check(&disk, before, ROUNDS, &what);
            // What is done with does not come back, whatever of it was thrown away.
            for n in 1..=MESSAGES {
                for index in 0..=RECIPIENTS {
                    let _ =
                        submit(&mut spool, &disk, vec![settle_one(n, index, SettleKind::Failed)]);
                }
            }
            run(&mut spool, &disk);
            disk.crash();
            let (spool, found) = open_all(&disk, small());
            assert_eq!((found.len(), spool.status().live_count), (0, 0), "{what}");
            let names = disk.list().expect("lists");
            assert!(
                names.iter().filter(|name| name.ends_with("segment")).count() <= 3,
                "{names:?}"
            );
        }
    }
}
