//! What clients say of how their mail is to be sent, through the real program, Python's smtplib before it.

use crate::support::server::Server;
use crate::support::{Files, config, wait_until};
use mail::Wall;
use std::process::Command;

/// argv: port, then parameters of MAIL. In the environment FIELDS: header fields.
const SUBMIT: &str = "
import os, smtplib, sys
client = smtplib.SMTP('127.0.0.1', int(sys.argv[1]), timeout=60)
client.ehlo('client.test')
offered = [name for name in ('mt-priority', 'futurerelease', 'deliverby') if client.has_extn(name)]
assert len(offered) == 3, client.esmtp_features
code, said = client.mail('me@source.test', sys.argv[2:])
assert code == 250, said
code, said = client.rcpt('you@there.test')
assert code == 250, said
content = os.environ['FIELDS'] + 'Subject: x\\r\\n\\r\\nbody\\r\\n'
print(client.data(content.encode())[0])
client.quit()
";

fn submit(to: &Server, fields: &str, parameters: &[&str]) {
    let port = to.address().port().to_string();
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", SUBMIT, &port]).args(parameters).env("FIELDS", fields);
    let done = python.output().expect("python3");
    assert!(done.status.success(), "{done:?}");
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "250");
}

/// A server that obeys, and sends all on to another.
fn near(files: &Files, far: &Server) -> Server {
    let text = format!(
        "hostname = \"near.test\"\nspool = {{ path = \"spool\" }}\n[[listener]]\naddress = \"127.0.0.1:0\"\n\
         relay_from = [\"127.0.0.0/8\"]\nsteering_from = [\"127.0.0.0/8\"]\n\
         [steering]\ntenant = \"X-Tenant\"\nnot_before = \"X-Not-Before\"\nexpires = \"X-Expires\"\n\
         window = \"X-Window\"\n[[route]]\nsmtp = {{ hosts = [\"{}\"], tls = \"off\" }}\n",
        far.address()
    );
    Server::start(files, &text)
}

fn now() -> Wall {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Wall(u64::try_from(since.expect("a clock").as_millis()).expect("a time"))
}

#[test]
fn times_hold_over_a_kill_and_no_field_leaves() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far =
        Server::start(&far_files, &config("[[route]]\nmaildir = { path = \"mail/{local}\" }\n"));
    let server = near(&near_files, &far);
    // Times are named in whole seconds.
    let at = Wall((now().0 + 6_000) / 1_000 * 1_000);
    submit(&server, &format!("X-Tenant: acme\r\nX-Not-Before: {at}\r\n"), &["BY=600;R"]);
    submit(&server, "x-tenant: acme\r\n", &["HOLDFOR=6", "MT-PRIORITY=4"]);
    submit(&server, "X-Window: 00:00-24:00 Europe/Berlin\r\n", &[]);
    near_files.wait_events("relayed", 1);
    let waiting = server.queue();
    assert_eq!(waiting.len(), 2, "{waiting:?}");
    for item in &waiting {
        let text = &item["recipients"][0]["blocker"]["text"];
        assert_eq!(text, "the time that its sender set: not before", "{item}");
    }
    server.kill();
    let server = Server::start_again(&near_files);
    let relayed = near_files.wait_events("relayed", 3);
    for event in &relayed[1..] {
        let when = Wall::parse_rfc3339(event["time"].as_str().expect("a time")).expect("a time");
        assert!(when >= at, "{event} before {at}");
    }
    for message in far_files.wait_maildir("mail/you", 3) {
        let text = String::from_utf8_lossy(&message).to_lowercase();
        assert!(!text.contains("x-tenant") && !text.contains("x-not-before"), "{text}");
        assert!(text.contains("subject: x") && !text.contains("x-window"), "{text}");
    }
    server.stop();
    far.stop();
}

#[test]
fn what_expires_while_its_next_hop_is_away_is_returned_though_the_server_was_killed() {
    let (near_files, far_files) = (Files::new(), Files::new());
    let far =
        Server::start(&far_files, &config("[[route]]\nmaildir = { path = \"mail/{local}\" }\n"));
    let server = near(&near_files, &far);
    far.kill();
    let at = Wall(now().0 + 4_000);
    submit(&server, &format!("X-Tenant: acme\r\nX-Expires: {}\r\n", at.rfc5322()), &[]);
    server.kill();
    let server = Server::start_again(&near_files);
    let expired = near_files.wait_events("expired", 1).remove(0);
    assert_eq!(expired["status"], "5.4.7", "{expired}");
    // To the second that was named, which has no parts.
    let when = Wall::parse_rfc3339(expired["time"].as_str().expect("a time")).expect("a time");
    assert!(when.0 >= at.0 / 1_000 * 1_000, "{expired} before {at}");
    wait_until("its report is queued", || !near_files.events_of("dsn_queued").is_empty());
    server.stop();
}
