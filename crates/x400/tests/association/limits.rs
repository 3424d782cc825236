//! Deadlines, and limits at their edges.

use crate::hex::{hex, packet};
use bytes::Bytes;
use std::time::Duration;
use x400::association::{
    AssociationEnd, Event, InitiatorSettings, Phase, ResponderSettings, Timeouts,
};
use x400::session::SPDU_BYTES_MAX;
use x400::testing::driver::{initiator, initiator_settings, responder};
use x400::testing::said::names;
use x400::testing::talk::Talk;

fn timeouts() -> Timeouts {
    Timeouts {
        bind: Duration::from_secs(1),
        receive: Duration::from_secs(2),
        window: Duration::from_secs(3),
        acknowledge: Duration::from_secs(4),
        answer: Duration::from_secs(5),
        idle: Duration::from_secs(6),
    }
}

fn bound(two_way: bool) -> Talk {
    let settings = InitiatorSettings {
        timeouts: timeouts(),
        checkpoint_kib: 1,
        two_way,
        ..initiator_settings()
    };
    let responder_settings =
        ResponderSettings { timeouts: timeouts(), ..ResponderSettings::default() };
    let mut talk = Talk::new(initiator(settings), responder(responder_settings));
    talk.run(&[usize::MAX]);
    talk
}

fn timed_out(phase: Phase) -> Event {
    Event::Ended(AssociationEnd::TimedOut(phase))
}

#[test]
fn a_caller_that_says_nothing_is_not_waited_for() {
    let mut driver =
        responder(ResponderSettings { timeouts: timeouts(), ..ResponderSettings::default() });
    driver.run();
    driver.pass(Duration::from_millis(999));
    assert!(driver.events.is_empty());
    // However steadily octets come.
    driver.feed(&[3]);
    driver.pass(Duration::from_millis(1));
    assert_eq!(driver.events, [timed_out(Phase::Bind)]);
    assert!(driver.machine.is_closed() && driver.output.is_empty());
}

#[test]
fn a_called_one_that_says_nothing_is_not_waited_for() {
    let mut driver = initiator(InitiatorSettings { timeouts: timeouts(), ..initiator_settings() });
    driver.run();
    driver.pass(Duration::from_secs(1));
    assert_eq!(driver.events, [timed_out(Phase::Bind)]);
    assert!(driver.machine.is_closed());
}

#[test]
fn silence_in_an_activity() {
    let mut talk = bound(false);
    talk.responder.feed(&packet(&hex("0100 2D05 2903 020101")));
    talk.responder.pass(Duration::from_millis(1_999));
    talk.responder.feed(&packet(&hex("0100 3103 2a0131"))[..5]);
    talk.responder.pass(Duration::from_millis(1_999));
    assert_eq!(talk.responder.events.last(), Some(&Event::ActivityStarted));
    let said = talk.responder.output.len();
    talk.responder.pass(Duration::from_millis(1));
    assert_eq!(talk.responder.events.last(), Some(&timed_out(Phase::Receive)));
    assert_eq!(names(&talk.responder.output[said..]), ["AB 3"]);
    // The peer doesn't go: it is not waited for either.
    assert!(!talk.responder.machine.is_closed());
    talk.responder.pass(Duration::from_secs(5));
    assert!(talk.responder.machine.is_closed());
}

#[test]
fn nothing_to_transfer() {
    let mut talk = bound(false);
    assert_eq!(talk.initiator.machine.next_deadline(), None, "its caller decides");
    talk.responder.pass(Duration::from_millis(5_999));
    assert!(!matches!(talk.responder.events.last(), Some(Event::Ended(_))));
    talk.responder.pass(Duration::from_millis(1));
    assert_eq!(talk.responder.events.last(), Some(&timed_out(Phase::Idle)));
}

#[test]
fn a_window_that_is_never_acknowledged() {
    let mut talk = bound(false);
    talk.initiator.policy.to_send = vec![Bytes::from(vec![0xA0; 10_000])];
    talk.initiator.run();
    talk.initiator.pass(Duration::from_millis(2_999));
    assert!(talk.initiator.events.len() == 1);
    // What was written is progress.
    talk.initiator.machine.handle_written(talk.initiator.now);
    talk.initiator.pass(Duration::from_millis(2_999));
    assert!(talk.initiator.events.len() == 1);
    talk.initiator.pass(Duration::from_millis(1));
    assert_eq!(talk.initiator.events.last(), Some(&timed_out(Phase::Window)));
}

#[test]
fn an_apdu_that_is_never_acknowledged() {
    let mut talk = bound(false);
    talk.initiator.policy.to_send = vec![Bytes::from(vec![0xA0; 100])];
    talk.initiator.run();
    talk.responder.policy.acknowledges = None;
    talk.run(&[usize::MAX]);
    assert_eq!(talk.responder.machine.next_deadline(), None, "its caller makes it durable");
    talk.initiator.pass(Duration::from_secs(4));
    assert_eq!(talk.initiator.events.last(), Some(&timed_out(Phase::Acknowledge)));
    // Late, but it is ours now: the sender sends it again, which is for the caller to see.
    talk.run(&[usize::MAX]);
    talk.responder.acknowledge();
    talk.responder.run();
}

/// PLEASE TOKENS, which may come at any time.
const PLEASE: &str = "0203 100101";

#[test]
fn who_is_waited_for_gains_no_time_by_asking_for_the_turn() {
    for (bytes, phase, seconds) in [(10_000, Phase::Window, 3), (100, Phase::Acknowledge, 4)] {
        let mut talk = bound(true);
        talk.initiator.policy.to_send = vec![Bytes::from(vec![0xA0; bytes])];
        talk.initiator.run();
        for _ in 0..seconds * 2 {
            assert!(!matches!(talk.initiator.events.last(), Some(Event::Ended(_))), "{phase:?}");
            talk.initiator.feed(&packet(&hex(PLEASE)));
            talk.initiator.pass(Duration::from_millis(500));
        }
        assert_eq!(talk.initiator.events.last(), Some(&timed_out(phase)));
    }
    let mut talk = bound(true);
    talk.initiator.machine.release(talk.initiator.now);
    talk.initiator.run();
    (0..10).for_each(|_| talk.initiator.pass(Duration::from_millis(500)));
    assert_eq!(talk.initiator.events.last(), Some(&timed_out(Phase::Answer)));
    // Nor does an association stay open that carries nothing.
    let mut talk = bound(true);
    for _ in 0..12 {
        assert!(!matches!(talk.responder.events.last(), Some(Event::Ended(_))));
        talk.responder.feed(&packet(&hex(PLEASE)));
        talk.responder.pass(Duration::from_millis(500));
    }
    assert_eq!(talk.responder.events.last(), Some(&timed_out(Phase::Idle)));
}

#[test]
fn checkpoints_that_are_acknowledged_give_time_and_the_same_one_again_gives_none() {
    let mut talk = bound(false);
    talk.initiator.policy.to_send = vec![Bytes::from(vec![0xA0; 10_000])];
    talk.initiator.run();
    talk.initiator.pass(Duration::from_millis(2_500));
    let acknowledged = packet(&hex("0100 3203 2a0131"));
    talk.initiator.feed(&acknowledged);
    talk.initiator.pass(Duration::from_millis(2_500));
    talk.initiator.feed(&acknowledged);
    assert!(talk.initiator.events.len() == 1);
    talk.initiator.pass(Duration::from_millis(500));
    assert_eq!(talk.initiator.events.last(), Some(&timed_out(Phase::Window)));
}

#[test]
fn a_turn_that_is_not_confirmed_and_a_release_that_is_not_answered() {
    for releases in [false, true] {
        let mut talk = bound(!releases);
        if releases {
            talk.initiator.machine.release(talk.initiator.now);
        } else {
            talk.initiator.machine.give_turn(talk.initiator.now);
        }
        talk.initiator.run();
        talk.initiator.pass(Duration::from_millis(4_999));
        assert!(talk.initiator.events.len() == 1);
        talk.initiator.pass(Duration::from_millis(1));
        assert_eq!(talk.initiator.events.last(), Some(&timed_out(Phase::Answer)));
    }
}

#[test]
fn a_connection_that_is_lost() {
    let mut talk = bound(false);
    talk.initiator.policy.to_send = vec![Bytes::from(vec![0xA0; 100])];
    talk.initiator.run();
    talk.initiator.close();
    assert_eq!(talk.initiator.events.last(), Some(&Event::Ended(AssociationEnd::Lost)));
    talk.responder.close();
    assert_eq!(talk.responder.events.last(), Some(&Event::Ended(AssociationEnd::Lost)));
}

#[test]
fn an_spdu_before_the_bind_has_64_kib_at_most() {
    // CN with one parameter that fills it: a header of four octets.
    for (bytes, is_read) in [(SPDU_BYTES_MAX - 4, true), (SPDU_BYTES_MAX - 3, false)] {
        let mut driver = responder(ResponderSettings::default());
        driver.feed(&hex("0300000b 06e000000001 00"));
        let mut tsdu = vec![0x0D, 0xFF];
        tsdu.extend((bytes as u16).to_be_bytes());
        tsdu.extend([0xC1, 0xFF]);
        tsdu.extend((bytes as u16 - 4).to_be_bytes());
        tsdu.resize(4 + bytes, 0);
        for (index, part) in tsdu.chunks(60_000).enumerate() {
            let mut packet = x400::tpkt::header(part.len() + 3).to_vec();
            packet.extend([2, 0xF0, if index == 1 { 0x80 } else { 0 }]);
            packet.extend(part);
            driver.feed(&packet);
        }
        let last = names(&driver.output).pop();
        // Read, it is too much user data for a CONNECT; longer, it is no SPDU for us.
        assert_eq!(last.as_deref(), Some(if is_read { "RF 134" } else { "AB 5" }), "{bytes}");
        assert!(matches!(driver.events.last(), Some(Event::Ended(_))));
    }
}
