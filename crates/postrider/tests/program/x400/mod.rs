//! X.400 through the real program: a foreign MTA binds and transfers, two servers pass messages on, and reports
//! find their way back.

mod gateway;
mod load;
mod peer;

use crate::support::server::{Server, command};
use crate::support::{Files, wait_until};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// A server with a listener for P1, and more sections.
fn config(mta: &str, prmd: &str, rest: &str) -> String {
    format!(
        r#"hostname = "{mta}.test"

[spool]
path = "spool"
segment_bytes = "8MiB"
min_free_bytes = "16MiB"

[[listener]]
name = "p1"
kind = "p1"
address = "127.0.0.1:0"

[x400]
mta = "{mta}"
domain = "/PRMD={prmd}/ADMD= /C=GB/"

{rest}
"#
    )
}

/// The server at the end: it takes everything of peer `relay`.
fn last(files: &Files) -> Server {
    let rest = r#"
[[x400.peer]]
name = "relay"
their_name = "mta.relay"
their_password = "from-relay"
our_name = "mta.last"
our_password = "from-last"

[[route]]
or_addresses = ["/PRMD=TestB/ADMD= /C=GB/", "/PRMD=TestC/ADMD= /C=GB/"]
discard = {}
"#;
    Server::start(files, &config("last", "Last", rest))
}

/// The one in between, whose peer is the foreign client, and the last one.
fn relay_config(last: &str, keys: &str) -> String {
    let rest = format!(
        r#"
[[x400.peer]]
name = "client"
their_name = "client.test"
their_password = "secretc"
our_password = "secreta"

[[x400.peer]]
name = "last"
hosts = ["{last}"]
their_name = "mta.last"
their_password = "from-last"
our_name = "mta.relay"
our_password = "from-relay"
{keys}

[[route]]
name = "onward"
or_addresses = ["/O=Beta/PRMD=TestB/ADMD= /C=GB/", "/PRMD=TestC/ADMD= /C=GB/"]
x400 = {{ peer = "last" }}
"#
    );
    config("relay", "Relay", &rest)
}

/// Runs the foreign client, a sending MTA written from the standards alone.
fn client(to: &Server, words: &[&str]) -> Output {
    run("../x400/tests/witness/p1client.py", to, words)
}

/// The same doing what it should not.
fn odd(to: &Server, what: &str) -> String {
    let done = run("tests/program/x400/odd.py", to, &[what]);
    assert!(done.status.success(), "{what}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

fn run(script: &str, to: &Server, words: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let mut command = Command::new("python3");
    command.arg("-B").arg(script).arg(to.address().port().to_string()).args(words);
    command.output().expect("python3 runs")
}

fn transfer(to: &Server, words: &[&str]) {
    let done = client(to, words);
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

fn apdu(event: &Value) -> String {
    event["headers"]["X400-APDU"].as_str().unwrap_or_default().to_owned()
}

/// Waits until all that was sent to the relay is delivered at the last server, each message once.
fn passes(keys: &str, words: &[&str], count: usize) {
    let (files, last_files) = (Files::new(), Files::new());
    let last = last(&last_files);
    let relay = Server::start(&files, &relay_config(&last.to(), keys));
    transfer(&relay, words);
    let delivered = last_files.wait_events("delivered", count);
    assert_eq!(delivered.len(), count);
    wait_until("an empty queue", || relay.queue().is_empty());
    let received = last_files.events_of("received");
    assert_eq!(received.len(), count, "{received:?}");
    for event in &received {
        assert_eq!(apdu(event), "message");
        assert_eq!(event["headers"]["X400-Content-Type"], "P2-1988 (22)");
        assert_eq!(event["sender"], "/G=Carol/S=Sender/O=Gamma/PRMD=TestC/ADMD= /C=GB/");
    }
    let identifiers: std::collections::BTreeSet<String> =
        received.iter().map(|event| event["headers"]["X400-MTS-Identifier"].to_string()).collect();
    assert_eq!(identifiers.len(), count);
    relay.stop();
    last.stop();
}

#[test]
fn messages_of_a_foreign_mta_pass_through() {
    passes("", &["-n", "20"], 20);
}

#[test]
fn checkpoints_are_confirmed_and_made() {
    passes("checkpoint_kib = 1", &["-n", "3", "--ck", "1", "--size", "12000"], 3);
}

#[test]
fn a_dialogue_with_turns_is_taken() {
    passes("tpdu_bytes = 2048", &["-n", "2", "--twa"], 2);
}

#[test]
fn x_410_mode_is_spoken_between_two_that_agree() {
    passes("mode = \"x410\"", &["-n", "2", "--size", "5000"], 2);
    passes("mode = \"x410-1984\"", &["-n", "2"], 2);
}

#[test]
fn content_in_a_file_of_its_own_passes_through() {
    passes("", &["--size", "5000000"], 1);
}

#[test]
fn what_no_route_takes_is_reported_to_its_originator() {
    let (files, last_files) = (Files::new(), Files::new());
    let last = last(&last_files);
    let relay = Server::start(&files, &relay_config(&last.to(), ""));
    transfer(&relay, &["--to", "a"]);
    let received = last_files.wait_events("received", 1);
    assert_eq!(apdu(&received[0]), "report");
    assert_eq!(received[0]["sender"], "");
    let failed = files.wait_events("failed", 1);
    assert_eq!(failed[0]["recipient"], "/S=bob/O=Alpha/PRMD=TestA/ADMD= /C=GB/");
    let queued = files.wait_events("dsn_queued", 1);
    assert_eq!(queued[0]["action"], "failed");
    relay.stop();
    last.stop();
}

#[test]
fn who_shows_a_wrong_password_is_refused_and_named() {
    let files = Files::new();
    let wrong = relay_config("127.0.0.1:9", "").replace("secretc", "another");
    let relay = Server::start(&files, &wrong);
    let refused = client(&relay, &[]);
    assert!(!refused.status.success());
    let line = relay.wait_console("a refusal", |line| line.contains("bind of"));
    assert!(line.contains("\"client.test\"") && line.contains("password"), "{line}");
    assert!(!line.contains("secretc"), "{line}");
    relay.stop();
}

#[test]
fn a_peer_is_pinged_stopped_and_started() {
    let (files, last_files) = (Files::new(), Files::new());
    let last = last(&last_files);
    let relay = Server::start(&files, &relay_config(&last.to(), ""));
    let ping = command(files.dir(), &["x400", "ping", "last"]);
    assert_eq!(ping.code, 0, "{ping:?}");
    assert!(ping.out.contains("accepted the association as \"mta.last\""), "{ping:?}");
    let listed = command(files.dir(), &["x400", "peers"]);
    assert!(listed.out.contains("routes  onward"), "{listed:?}");
    assert_eq!(command(files.dir(), &["x400", "stop", "last"]).code, 0);
    transfer(&relay, &["-n", "2"]);
    assert_eq!(relay.queue().len(), 2, "what comes is taken");
    assert!(last_files.events_of("received").is_empty());
    assert_eq!(command(files.dir(), &["x400", "start", "last"]).code, 0);
    last_files.wait_events("delivered", 2);
    assert_eq!(command(files.dir(), &["x400", "stop", "nobody"]).code, 2);
    relay.stop();
    last.stop();
}

#[test]
fn wrong_credentials_towards_a_peer_are_named_and_mail_waits() {
    let (files, last_files) = (Files::new(), Files::new());
    let last = last(&last_files);
    let config = relay_config(&last.to(), "")
        .replace("our_password = \"from-relay\"", "our_password = \"x\"");
    let relay = Server::start(&files, &config);
    transfer(&relay, &[]);
    wait_until("a refusal", || {
        files
            .events()
            .iter()
            .any(|event| event.to_string().contains("authentication failed for our name"))
    });
    assert!(last_files.events_of("received").is_empty());
    relay.kill();
    last.stop();
}

#[test]
fn what_was_acknowledged_outlives_a_kill() {
    let (files, last_files) = (Files::new(), Files::new());
    let relay = Server::start(&files, &relay_config("127.0.0.1:9", ""));
    transfer(&relay, &["-n", "30"]);
    relay.kill();
    let last = last(&last_files);
    files.write("postrider.toml", &relay_config(&last.to(), ""));
    let relay = Server::start_again(&files);
    last_files.wait_events("delivered", 30);
    assert_eq!(last_files.events_of("received").len(), 30);
    wait_until("an empty queue", || relay.queue().is_empty());
    relay.stop();
    last.stop();
}

#[test]
fn addresses_are_shown_in_all_forms() {
    let files = Files::new();
    files.write("postrider.toml", &relay_config("127.0.0.1:9", ""));
    let words = ["x400", "address", "G=Bob; S=R; O=Beta; P=TestB; C=GB"];
    let shown = command(files.dir(), &words);
    assert_eq!(shown.code, 0, "{shown:?}");
    for part in ["/G=Bob/S=R/O=Beta/PRMD=TestB/ADMD= /C=GB/", "route      onward"] {
        assert!(shown.out.contains(part), "{shown:?}");
    }
    assert_eq!(command(files.dir(), &["x400", "address", "G=Bob; Z=1"]).code, 2);
    let mapped = command(files.dir(), &["x400", "address", "Tom_Harris@cs.widget.com"]);
    assert!(mapped.out.contains("DD.RFC-822=Tom(u)Harris(a)cs.widget.com/"), "{mapped:?}");
    assert!(mapped.out.contains("as mail    Tom_Harris@cs.widget.com"), "{mapped:?}");
    let explained = command(files.dir(), &["explain", "/S=R/O=Beta/PRMD=TestB/ADMD= /C=GB/"]);
    assert_eq!(explained.code, 0, "{explained:?}");
    assert!(explained.out.contains("x400"), "{explained:?}");
}

#[test]
fn a_resend_after_a_lost_acknowledgement_gets_no_second_copy() {
    let (files, last_files) = (Files::new(), Files::new());
    let last = last(&last_files);
    let relay = Server::start(&files, &relay_config(&last.to(), ""));
    odd(&relay, "resend");
    relay.wait_console("the resend", |line| line.contains("no second copy peer=client"));
    // The third was meant: two are delivered.
    last_files.wait_events("delivered", 2);
    wait_until("an empty queue", || relay.queue().is_empty());
    assert_eq!(files.events_of("received").len(), 2);
    relay.stop();
    last.stop();
}

#[test]
fn passwords_of_peers_are_read_from_files() {
    let files = Files::new();
    for (name, password) in [("theirs", "secretc\n"), ("ours", "secreta\n")] {
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(files.write(name, password), private).expect("a file of ours");
    }
    let config = relay_config("127.0.0.1:9", "")
        .replace("their_password = \"secretc\"", "their_password_file = \"theirs\"")
        .replace("our_password = \"secreta\"", "our_password_file = \"ours\"");
    let relay = Server::start(&files, &config);
    transfer(&relay, &["-n", "1"]);
    files.wait_events("received", 1);
    files.write("theirs", "another\n");
    assert_eq!(relay.command(&["reload"]).code, 0);
    assert!(!client(&relay, &["-n", "1"]).status.success());
    relay.wait_console("a refusal", |line| line.contains("wrong password"));
    files.write("theirs", "secretc\n");
    assert_eq!(relay.command(&["reload"]).code, 0);
    transfer(&relay, &["-n", "1"]);
    relay.stop();
}

#[test]
fn a_full_spool_refuses_for_now() {
    let files = Files::new();
    let full = relay_config("127.0.0.1:9", "").replace("\"16MiB\"", "\"1TiB\"");
    let relay = Server::start(&files, &full);
    let said = odd(&relay, "full");
    // PT and ED, temporarily unable; then PT and ADA (X.225 §8.3.22, §8.3.29).
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["02003003320101", "02003a00"]);
    assert!(files.events_of("received").is_empty());
    relay.stop();
}

#[test]
fn what_can_not_be_read_is_acknowledged_and_held() {
    let files = Files::new();
    let relay = Server::start(&files, &relay_config("127.0.0.1:9", ""));
    odd(&relay, "unreadable");
    let held = files.wait_events("held", 1);
    let reason = held[0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("peer client") && reason.contains("octet"), "{reason}");
    assert_eq!(files.wait_events("received", 2).len(), 2, "what follows is taken");
    let status = relay.json(&["status"]);
    let problems = status[0]["problem_list"].as_array().cloned().unwrap_or_default();
    let kind = "unreadable_messages";
    let problem = problems.iter().find(|problem| problem["kind"] == kind).expect("a problem");
    assert_eq!((&problem["about"], &problem["severity"]), (&"client".into(), &"warning".into()));
    relay.kill();
}

/// What the report to the originator says of a message that is refused.
fn refused(what: &str, listener: &str, status: &str) {
    let (files, last_files) = (Files::new(), Files::new());
    let last = last(&last_files);
    let address = "address = \"127.0.0.1:0\"";
    let config = relay_config(&last.to(), "").replace(address, &format!("{address}\n{listener}"));
    let relay = Server::start(&files, &config);
    odd(&relay, what);
    let received = last_files.wait_events("received", 1);
    assert_eq!(apdu(&received[0]), "report", "{what}");
    let failed = files.wait_events("failed", 1);
    assert_eq!(failed[0]["status"], status, "{what}: {}", failed[0]);
    relay.stop();
    last.stop();
}

#[test]
fn refusals_become_reports() {
    refused("long", "max_message_bytes = \"64KiB\"", "5.2.3");
    refused("many", "max_recipients = 100", "5.5.3");
    refused("loop", "", "5.4.6");
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let (files, last_files) = (Files::new(), Files::new());
    let last = last(&last_files);
    let relay = Server::start(&files, &relay_config(&last.to(), ""));
    odd(&relay, "garbage");
    last_files.wait_events("delivered", 1);
    relay.stop();
    last.stop();
}
