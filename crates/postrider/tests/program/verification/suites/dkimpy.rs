//! The tests of dkimpy, as Debian's package carries them: the messages that they verify, with the records and the
//! outcome.

use super::{NOBODY, Stand, made, octets, verdicts};
use std::collections::BTreeSet;

const SCRIPT: &str = include_str!("dkimpy_cases.py");

/// The name of a test, what comes of it here, and why.
const DIFFERENT: [(&str, &str, &str); 5] = [
    (
        "dkim dkim_signature_canonicalization",
        "permerror",
        "a key of 512 bits: such count for nothing (RFC 8301 §3.2)",
    ),
    ("dkim l_verify", "policy", "what is behind the length nobody has signed (docs/checks.md)"),
    (
        "dkim_tlsrpt tlsrpt_with_strict_no_tlsrptsvc",
        "pass",
        "a key for everything is one for mail; the test is about reports",
    ),
    ("dkim_tlsrpt tlsrpt_with_strict_tlsrptsvc", "permerror", "a key for reports is none for mail"),
    ("dkim_tlsrpt tlsrpt_with_tlsrptsvc", "permerror", "a key for reports is none for mail"),
];

#[test]
fn the_tests_of_dkimpy_get_their_results_from_the_server() {
    let mut stand = Stand::start("relay.test", "dkim = \"mark\", arc = \"mark\"");
    let made = made(SCRIPT, &[]);
    let (mut seen, mut wrong, mut different) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
    let mut counts = [0, 0];
    for case in made.as_array().expect("cases") {
        if !seen.insert(case.to_string()) {
            continue;
        }
        let of = |n: usize| case[n].as_str().expect("text");
        let (name, check, wanted) = (of(0), of(1), of(4));
        counts[usize::from(check == "arc")] += 1;
        stand.publish(&case[3]);
        let played = stand.play(&NOBODY, &octets(&case[2]));
        let found = played.map(|message| verdicts(&message, check));
        let is_pass = found.as_ref().is_ok_and(|found| found.iter().any(|word| word == "pass"));
        if let Some((name, ours, _)) = DIFFERENT.iter().find(|(of, ..)| *of == name) {
            assert_eq!(found, Ok(vec![(*ours).to_owned()]), "{name}");
            different.insert(*name);
        } else if is_pass != (wanted == "pass") {
            wrong.push(format!("{name} ({check}): {found:?}, not {wanted}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {counts:?}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(counts[0] >= 100 && counts[1] >= 2, "{counts:?}");
    assert_eq!(different.len(), DIFFERENT.len(), "{different:?}");
    stand.server.stop();
}
