//! The same of P1: the acknowledgement of an activity's end (X.225 §8.3.27, X.218 §8.4) is its 250.

use super::{BLOB_BYTES, Judge, Sent, Traced};
use crate::trace::Call;
use std::path::Path;
use std::process::Command;

/// So many messages, one after the other on one association.
const MESSAGES: usize = 10;
/// Please tokens, then MAJOR SYNC ACK, as strace shows the octets.
const ACKNOWLEDGEMENT: &str = r"\2\0*\";

fn start(durability: &str) -> Traced {
    Traced::start_with(|spool| {
        format!(
            "hostname = \"relay.test\"\n\
             [spool]\npath = {spool:?}\ndurability = \"{durability}\"\n\
             segment_bytes = \"1MiB\"\nblob_bytes = {BLOB_BYTES}\nmin_free_bytes = \"1MiB\"\n\
             [[listener]]\nkind = \"p1\"\naddress = \"127.0.0.1:0\"\n\
             [x400]\nmta = \"relay\"\ndomain = \"/ADMD= /C=GB/\"\n\
             [[x400.peer]]\nname = \"client\"\ntheir_name = \"client.test\"\ntheir_password = \"secretc\"\n\
             [[route]]\nor_addresses = [\"/C=GB/\"]\ndiscard = {{}}\n"
        )
    })
}

/// What the judge says of each message, each of so many octets.
fn run(durability: &str, content_bytes: usize) -> Vec<Result<(), String>> {
    let relay = start(durability);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../x400/tests/witness/p1client.py");
    let mut client = Command::new("python3");
    client.arg("-B").arg(script).arg(relay.relay.address().port().to_string());
    client.args(["-n", &MESSAGES.to_string(), "--size", &content_bytes.to_string()]);
    let done = client.output().expect("python3 runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let directory = relay.files.path("spool");
    let directory = directory.to_str().expect("UTF-8").to_owned();
    let trace = relay.finish();
    let is_acknowledgement =
        |call: &&Call| call.is_socket() && call.arguments.contains(ACKNOWLEDGEMENT);
    let acknowledgements: Vec<&Call> = trace.calls().filter(is_acknowledgement).collect();
    assert_eq!(acknowledgements.len(), MESSAGES);
    let judge = Judge { trace: &trace, directory: &directory };
    let verdict = |(number, acknowledgement): (usize, &&Call)| {
        // The record has its subject: the client counts them.
        let sent = Sent { name: format!("Test {number}"), content_bytes, id: String::new() };
        judge.check_until(&sent, [&sent.name, "xxxxxxxx"], acknowledgement.begin)
    };
    acknowledgements.iter().enumerate().map(verdict).collect()
}

#[test]
fn every_acknowledgement_of_p1_follows_a_sync_that_covers_its_record() {
    for verdict in run("sync", 1_000) {
        assert_eq!(verdict, Ok(()));
    }
}

#[test]
fn without_syncs_the_same_judge_objects_to_p1() {
    for verdict in run("os", 1_000) {
        let objection = verdict.expect_err("it has no sync");
        assert!(objection.contains("not synced"), "{objection}");
    }
}
