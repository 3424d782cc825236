//! Messages that dkimpy, OpenDKIM and rspamd signed, and chains that dkimpy sealed: the verdict is that of
//! dkimpy, OpenDKIM and rspamd, whatever was done to them since.

use super::judges::Judges;
use super::rspamd::Rspamd;
use super::zone::{Zone, now};
use crate::interop::place::is_possible;
use crate::support::Files;
use auth::checks::{CheckSelection, Subject, Verdicts, check};
use serde_json::Value;
use std::process::Command;

const SCRIPT: &str = include_str!("signers.py");

/// What the script makes, with rspamd if there is one: `zone`, `dkim` and `arc`.
fn made(rspamd: Option<&Rspamd>) -> Value {
    let files = Files::new();
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", SCRIPT]).arg(files.dir());
    python.args(rspamd.map(|rspamd| rspamd.port.to_string()));
    let done = python.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

/// The verdicts on a message that comes in pieces of `step` octets.
pub(super) fn verdicts(zone: &Zone, message: &Value, step: usize) -> Verdicts {
    let message: Vec<u8> =
        message.as_str().unwrap().chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    let asked = CheckSelection { dkim: true, arc: true, ..CheckSelection::default() };
    let mut scan = asked.scan();
    message.chunks(step).for_each(|piece| scan.push(piece));
    let message = scan.finish();
    let subject = Subject { question: None, message: &message, now: 0, chance: 0 };
    now(check(zone, asked, subject))
}

#[test]
fn signatures_and_chains_get_the_verdicts_of_others() {
    let rspamd = is_possible(&["opendkim", "rspamd"]).then(Rspamd::start);
    let made = made(rspamd.as_ref());
    let zone = Zone::of(&made["zone"]);
    let mut wrong = Vec::new();
    for kind in ["dkim", "arc"] {
        let cases = made[kind].as_array().unwrap();
        let least = if kind == "dkim" { 200 } else { 15 };
        assert!(cases.len() >= least, "{kind}: {}", cases.len());
        for (n, case) in cases.iter().enumerate() {
            // Pieces of one octet and of many, among others.
            let of = verdicts(&zone, &case[1], [1, 7, 64, 4096, 1 << 20][n % 5]);
            let summary = of.summary();
            let said = match kind {
                "dkim" => summary.dkim.unwrap().as_str(),
                _ => summary.arc.unwrap().as_str(),
            };
            if case[2] != said {
                wrong.push(format!("{}: {said}, not {}: {of:?}", case[0], case[2]));
            }
        }
    }
    if let Some(rspamd) = &rspamd {
        let cases = made["dkim"].as_array().unwrap();
        for signer in ["dkimpy ", "OpenDKIM ", "rspamd "] {
            let its = cases.iter().filter(|case| case[0].as_str().unwrap().starts_with(signer));
            assert!(its.count() >= 20, "{signer}");
        }
        wrong.extend(Judges::start(&made["zone"], rspamd).disagree(cases));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
