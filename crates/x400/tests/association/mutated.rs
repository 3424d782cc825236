//! Captured conversations with octets turned: no harm, an end, and how they are cut changes nothing.

use crate::captures::{CAPTURES, Capture};
use bytes::Bytes;
use proptest::prelude::*;
use x400::association::{Event, InitiatorSettings, ResponderSettings};
use x400::testing::driver::{Driver, Machine, initiator, initiator_settings, responder};

/// A place from 0 to 1 of the conversation, what is put there instead of how many octets.
type Mutation = (f64, usize, Vec<u8>);

fn mutations() -> impl Strategy<Value = Vec<Mutation>> {
    proptest::collection::vec(
        (0.0..1.0, 0_usize..4, proptest::collection::vec(any::<u8>(), 0..4)),
        1..4,
    )
}

fn mutate(mut octets: Vec<u8>, mutations: &[Mutation]) -> Vec<u8> {
    for (place, bytes, instead) in mutations {
        let at = (octets.len() as f64 * place) as usize;
        let end = (at + bytes).min(octets.len());
        octets.splice(at..end, instead.iter().copied());
    }
    octets
}

fn check<M: Machine>(octets: &[u8], begin: impl Fn() -> Driver<M>) {
    let play = |piece| {
        let mut driver = begin();
        driver.run();
        driver.feed_cut(octets, piece);
        let played = (driver.events.clone(), driver.contents.clone(), driver.output.clone());
        driver.close();
        let ends = driver.events.iter().filter(|event| matches!(event, Event::Ended(_))).count();
        assert_eq!(ends, 1);
        played
    };
    let whole = play(usize::MAX);
    for piece in [1, 7] {
        assert!(whole == play(piece), "cut by {piece}: {:?} and {:?}", whole.0, play(piece).0);
    }
}

fn capture() -> impl Strategy<Value = &'static Capture> {
    proptest::sample::select(CAPTURES.iter().collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn a_responder_bears_it(capture in capture(), mutations in mutations(), acknowledges in any::<bool>()) {
        check(&mutate(capture.side(true), &mutations), || {
            let mut driver = responder(ResponderSettings::default());
            driver.policy.acknowledges = Some(acknowledges);
            driver
        });
    }

    #[test]
    fn an_initiator_bears_it(capture in capture(), mutations in mutations(), two_way in any::<bool>()) {
        check(&mutate(capture.side(false), &mutations), || {
            let settings = InitiatorSettings { mode: capture.mode, two_way, ..initiator_settings() };
            let mut driver = initiator(settings);
            driver.policy.to_send = vec![Bytes::from(vec![0xA0; 3_000])];
            driver.policy.releases = true;
            driver
        });
    }
}
