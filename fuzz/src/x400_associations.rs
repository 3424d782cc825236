//! Either end of an association with any peer.

use crate::stream::{Cut, in_pieces};
use bytes::Bytes;
use std::time::Duration;
use x400::association::{Event, InitiatorSettings, Mode, ResponderSettings, Selectors};
use x400::testing::driver::{Driver, Machine, Policy, initiator, initiator_settings, responder};

/// The first byte is what the responder's driver does, the second how the input is cut; the rest is what the
/// caller says.
pub fn respond(data: &[u8]) {
    let Some((&[flags, seed], said)) = data.split_first_chunk::<2>() else { return };
    check(said, seed, || {
        let mut driver = responder(ResponderSettings {
            tpdu_bytes: if flags & 1 == 0 { 65_408 } else { 128 },
            checkpoint_kib: u32::from(flags >> 1 & 1),
            two_way: flags & 4 == 0,
            ..ResponderSettings::default()
        });
        driver.policy = policy(flags);
        driver
    });
}

/// The first byte is what the initiator's driver does, the second how the input is cut; the rest is what the
/// peer says.
pub fn initiate(data: &[u8]) {
    let Some((&[flags, seed], said)) = data.split_first_chunk::<2>() else { return };
    check(said, seed, || {
        let mut driver = initiator(InitiatorSettings {
            mode: match flags & 3 {
                0 | 1 => Mode::Normal,
                2 => Mode::X410,
                _ => Mode::X410Of1984,
            },
            called: Selectors { t: b"t".to_vec(), s: b"s".to_vec(), p: b"p".to_vec() },
            checkpoint_kib: u32::from(flags >> 2 & 1),
            two_way: flags & 8 == 0,
            ..initiator_settings()
        });
        driver.policy = policy(flags);
        driver.run();
        driver
    });
}

fn policy(flags: u8) -> Policy {
    Policy {
        accepts: flags & 128 == 0,
        acknowledges: Some(flags & 64 == 0),
        // When a caller refuses is its own affair, and so where in the stream that is.
        refuses_behind: None,
        to_send: vec![Bytes::from(vec![0xA0; 5_000]), Bytes::new()],
        releases: flags & 16 != 0,
    }
}

fn check<M: Machine>(said: &[u8], seed: u8, begin: impl Fn() -> Driver<M>) {
    let play = |cut| {
        let mut driver = begin();
        in_pieces(said, cut, |piece| driver.feed(piece));
        let played = (driver.events.clone(), driver.contents.clone(), driver.output.clone());
        // Whatever it waits for, it ends.
        let mut deadlines = 0;
        while driver.pass_deadline() {
            deadlines += 1;
            assert!(deadlines < 4, "it goes on waiting");
        }
        driver.pass(Duration::from_secs(1));
        driver.close();
        let ends = driver.events.iter().filter(|event| matches!(event, Event::Ended(_))).count();
        assert_eq!(ends, 1);
        played
    };
    let whole = play(Cut::Whole);
    for cut in [Cut::Bytes, Cut::Seeded(seed)] {
        assert_eq!(whole, play(cut), "{cut:?} makes a difference");
    }
}
