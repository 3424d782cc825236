//! Wireshark's dissectors read what our two ends say to each other.

use crate::{large_apdu, pcap, small_apdu};
use bytes::Bytes;
use std::path::Path;
use std::process::Command;
use x400::association::{
    AbortReason, Event, InitiatorSettings, Mode, ResponderSettings, Selectors,
};
use x400::testing::driver::{initiator, initiator_settings, responder};
use x400::testing::talk::Talk;

/// What dissectors say of what they can't read.
const COMPLAINTS: [&str; 4] = ["Malformed", "BER Error", "BoundError", "Unreassembled"];

fn tshark(path: &Path, words: &[&str]) -> String {
    let output = Command::new("tshark").arg("-r").arg(path).args(words).output();
    let output =
        output.unwrap_or_else(|e| panic!("tshark: {e} (see scripts/install-test-packages)"));
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark: {complained} (see scripts/install-test-packages)");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// All layers as text, in which nothing is wrong.
pub(crate) fn dissect(path: &Path) -> String {
    let text = tshark(path, &["-V", "-O", "tpkt,cotp,ses,pres,acse,rtse,p1,p22,ros"]);
    for complaint in COMPLAINTS {
        let lines: Vec<&str> = text.lines().filter(|line| line.contains(complaint)).collect();
        assert!(lines.is_empty(), "{}: {lines:?}", path.display());
    }
    text
}

/// What the text says behind this label, in order.
fn values<'a>(text: &'a str, label: &str) -> Vec<&'a str> {
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix(label)?.strip_prefix(": "));
    lines.collect()
}

/// The SPDUs, by the letters in brackets behind their names.
fn spdus(text: &str) -> Vec<&str> {
    let lines = values(text, "SPDU Type").into_iter();
    lines.map(|line| line.split(['(', ')']).nth(1).expect("an abbreviation")).collect()
}

/// A conversation: bind, two messages, an APDU refused, release.
fn talk(settings: InitiatorSettings, responder_settings: ResponderSettings) -> Talk {
    let mut talk = Talk::new(initiator(settings), responder(responder_settings));
    talk.initiator.policy.to_send = vec![Bytes::from(small_apdu()), Bytes::from(large_apdu())];
    talk.run(&[usize::MAX]);
    talk.responder.policy.acknowledges = Some(false);
    talk.initiator.policy.to_send.push(Bytes::from(small_apdu()));
    talk.run(&[usize::MAX]);
    talk
}

fn release(mut talk: Talk) -> Talk {
    talk.initiator.policy.releases = true;
    talk.run(&[usize::MAX]);
    assert!(matches!(talk.initiator.events.last(), Some(Event::Ended(_))));
    talk
}

#[test]
fn every_layer_in_normal_mode() {
    let rows = [("normal", 0, 65_408), ("checkpoints", 1, 2_048), ("small", 2, 128)];
    for (name, checkpoint_kib, tpdu_bytes) in rows {
        let selectors = |t: &str| Selectors { t: t.into(), s: b"s".to_vec(), p: b"p".to_vec() };
        let settings = InitiatorSettings {
            called: selectors("called"),
            calling: selectors("calling"),
            checkpoint_kib,
            window: 2,
            tpdu_bytes,
            ..initiator_settings()
        };
        let talk = release(talk(settings, ResponderSettings::default()));
        let text = dissect(&pcap::write(name, &talk.wire));
        let kib = checkpoint_kib.to_string();
        for (label, wanted) in [
            ("Source TSAP", &["calling"][..]),
            ("Destination TSAP", &["called"]),
            ("Calling Session Selector", &["73"]),
            ("called-presentation-selector", &["70"]),
            ("responding-presentation-selector", &["70"]),
            ("aSO-context-name", &["2.6.0.1.6 (id-ac-mts-transfer)"; 2]),
            ("checkpointSize", &[&*kib, &*kib]),
            ("windowSize", &["2", "2"]),
            ("dialogueMode", &["monologue (0)"]),
            ("initiator-name", &["a.test"]),
            ("responder-name", &["b.test"]),
            ("octet-string", &["73656372657461", "73656372657462"]),
            ("Activity Identifier", &["020101", "020102", "020103"]),
        ] {
            let found = values(&text, label);
            let is_as_wanted =
                if label == "Reason code" { found.len() == 2 } else { found == wanted };
            assert!(is_as_wanted, "{name} {label}: {found:?}");
        }
        // Three messages of type 22 were read, each from its first octet to its last.
        assert_eq!(text.matches("X.420 Information Object").count(), 3, "{name}");
        let spdus = spdus(&text);
        for (spdu, count) in [
            ("CN", 1),
            ("AC", 1),
            ("AS", 3),
            ("ED", 1),
            ("AD", 1),
            ("ADA", 1),
            ("FN", 1),
            ("DN", 1),
        ] {
            assert_eq!(
                spdus.iter().filter(|found| **found == spdu).count(),
                count,
                "{name} {spdu}: {spdus:?}"
            );
        }
    }
}

/// RTSE's X.410 mode has no contexts by which Wireshark could know what DATA is: it reads the rest.
#[test]
fn the_bind_in_x410_mode() {
    for (mode, protocol) in [(Mode::X410, "12"), (Mode::X410Of1984, "1")] {
        let settings = InitiatorSettings { mode, checkpoint_kib: 3, ..initiator_settings() };
        let talk = release(talk(settings, ResponderSettings::default()));
        let text = dissect(&pcap::write(&format!("x410-{protocol}"), &talk.wire));
        assert_eq!(values(&text, "mode-value"), ["x410-1984-mode (0)"; 2]);
        assert_eq!(values(&text, "checkpointSize"), ["3", "3"]);
        let protocols = values(&text, "applicationProtocol");
        assert!(protocols.len() == 1 && protocols[0].contains(protocol), "{protocols:?}");
        assert_eq!(values(&text, "initiator-name"), ["a.test"]);
        assert_eq!(values(&text, "ia5-string"), ["secreta", "secretb"]);
        assert!(spdus(&text).ends_with(&["FN", "DN"]));
    }
}

#[test]
fn refusals_and_aborts() {
    for mode in [Mode::Normal, Mode::X410] {
        let settings = || InitiatorSettings { mode, two_way: true, ..initiator_settings() };
        let mut refused = Talk::new(initiator(settings()), responder(ResponderSettings::default()));
        refused.responder.policy.accepts = false;
        refused.run(&[usize::MAX]);
        let text = dissect(&pcap::write(&format!("refused-{mode:?}"), &refused.wire));
        assert_eq!(spdus(&text), ["CN", "RF"]);
        if mode == Mode::Normal {
            assert_eq!(
                values(&text, "result"),
                ["acceptance (0)", "acceptance (0)", "acceptance (0)", "rejected-permanent (1)"]
            );
            assert_eq!(values(&text, "MTABindError"), ["authentication-error (2)"]);
        }
        let mut aborted = Talk::new(initiator(settings()), responder(ResponderSettings::default()));
        aborted.run(&[usize::MAX]);
        aborted.initiator.machine.give_turn(aborted.initiator.now);
        aborted.run(&[usize::MAX]);
        aborted.initiator.machine.request_turn(2, aborted.initiator.now);
        aborted.run(&[usize::MAX]);
        aborted.responder.machine.abort(AbortReason::TemporaryProblem, aborted.responder.now);
        aborted.responder.run();
        aborted.run(&[usize::MAX]);
        let text = dissect(&pcap::write(&format!("aborted-{mode:?}"), &aborted.wire));
        // It shows PT without letters.
        assert_eq!(spdus(&text), ["CN", "AC", "GTC", "GTA", "2", "GTC", "GTA", "AB"]);
        assert_eq!(values(&text, "dialogueMode"), ["twa (1)"]);
        if mode == Mode::Normal {
            assert_eq!(values(&text, "abortReason"), ["temporaryProblem (3)"]);
        }
    }
}
