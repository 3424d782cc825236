//! `postrider init --dns`, and the check of its records afterwards: each that is missing or wrong is named, with the
//! record to publish.

use super::{certificate, init, startable};
use crate::support::Files;
use crate::support::name_server::NameServer;
use crate::support::server::{Answer, POSTRIDER, command};
use crate::support::tool::{Tool, free_port};
use skips::Machine;
use std::process::Command;

const WORDS: [&str; 8] = [
    "--kind",
    "mail-host",
    "--hostname",
    "mx.example.org",
    "--user",
    "jo",
    "--address",
    "192.0.2.1",
];

const PTR: &str = "1.2.0.192.in-addr.arpa. IN PTR mx.example.org.";
const MX: &str = "example.org. IN MX 10 mx.example.org.";
const SPF: &str = "example.org. IN TXT ( \"v=spf1 ip4:192.0.2.1 -all\" )";
const SPF_OF_HOST: &str = "mx.example.org. IN TXT ( \"v=spf1 ip4:192.0.2.1 -all\" )";
const DMARC: &str =
    "_dmarc.example.org. IN TXT ( \"v=DMARC1; p=none; rua=mailto:postmaster@example.org\" )";

/// Returns true if the resolver's file can be replaced for a command.
fn is_root() -> bool {
    if !rustix::process::geteuid().is_root() {
        skips::machine(Machine::Root, "the resolver's file is replaced");
        return false;
    }
    let trial = Command::new("unshare").args(["--mount", "true"]).output().expect("util-linux");
    if !trial.status.success() {
        skips::machine(Machine::Namespaces, &String::from_utf8_lossy(&trial.stderr));
    }
    trial.status.success()
}

/// `init --dns` as on a machine with this resolver.
fn init_with(files: &Files, resolver: &str, words: &[&str]) -> Answer {
    let text = format!("nameserver {resolver}\noptions timeout:2 attempts:1\n");
    let file = files.write("resolv.conf", &text);
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\""])
        .arg(file)
        .args([POSTRIDER, "init", "example.org", "--dns"])
        .args(words)
        .args(["--out", "etc", "--spool", "spool", "--mail", "mail"])
        .current_dir(files.dir())
        .env("POSTRIDER_CONFIG", "")
        .output()
        .expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Answer {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

/// The records that `init` printed, without their comments.
fn records(made: &Answer) -> Vec<String> {
    let lines = made.out.lines().filter(|line| line.contains(" IN ") && !line.starts_with(' '));
    lines.map(|line| line.split("  ;").next().unwrap_or(line).to_owned()).collect()
}

/// Asserts that a finding begins so, with these records to publish.
#[track_caller]
fn assert_named(answer: &Answer, begin: &str, publish: &[&str]) {
    let mut lines = answer.out.lines().skip_while(|line| !line.starts_with(begin));
    assert!(lines.next().is_some(), "{begin}\n{}", answer.out);
    let named: Vec<&str> =
        lines.map_while(|line| line.strip_prefix("            publish: ")).collect();
    assert_eq!(named, publish, "{begin}\n{}", answer.out);
}

#[test]
fn init_names_records_that_the_dns_lacks() {
    if !is_root() {
        return;
    }
    let files = Files::new();
    // Port 53 of an address that no other test has.
    let [high, low] = free_port().to_be_bytes();
    let resolver = format!("127.{high}.{low}.53");
    let names = NameServer::start_at(&format!("{resolver}:53"));
    names.host("mx.example.org", &["192.0.2.1"]);
    let tls = certificate(&files, "mx.example.org");
    let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
    let made = init_with(&files, &resolver, &[&WORDS[..], &tls].concat());
    assert_eq!(made.code, 1, "{made:?}");
    let records = records(&made);
    let key = records.iter().find(|record| record.starts_with("s1._domainkey."));
    let key = key.expect("a key").as_str();
    for (begin, publish) in [
        ("error ptr   192.0.2.1 (this server): no PTR record", PTR),
        ("error spf   mx.example.org: no record", SPF_OF_HOST),
        ("error spf   example.org: no record", SPF),
        ("error dmarc example.org: no policy", DMARC),
        ("error mx    example.org: neither MX nor address", MX),
        ("error dkim  s1._domainkey.example.org: no record", key),
    ] {
        assert_named(&made, begin, &[publish]);
    }
    assert!(made.out.contains("6 errors, 1 warning"), "{made:?}");
}

/// Checks with these records in the DNS.
fn check(files: &Files, records: &[String]) -> Answer {
    let zones = "$ORIGIN org.\n$ORIGIN 2.0.192.in-addr.arpa.\n$ORIGIN test.\nhost A 192.0.2.9\n";
    let zone = format!("{zones}{}\n", records.join("\n"));
    let names = Tool::lab(&["dns", "--zone", &files.write("zone", &zone).display().to_string()]);
    startable(files, &[], &format!("[dns]\nservers = [\"{}\"]\n", names.address));
    command(files.dir(), &["check", "--dns"])
}

const ADDRESS: &str = "mx.example.org. IN A ";
/// The signing key's record, and one with another key: they differ in each run.
const KEY: &str = "s1._domainkey.";
const OTHER_KEY: &str = "other key";

/// The begin of a record, what is there instead, the begin of the finding, and the records to publish.
type Case = (&'static str, &'static str, &'static str, &'static [&'static str]);

const CASES: [Case; 16] = [
    (PTR, "", "error ptr   192.0.2.1 (this server): no PTR record", &[PTR]),
    (
        PTR,
        "1.2.0.192.in-addr.arpa. IN PTR host.test.",
        "error ptr   192.0.2.1 (this server): its name is host.test, not forward-confirmed; its \
     EHLO name is mx.example.org",
        &[PTR],
    ),
    (ADDRESS, "", "error ptr   mx.example.org: this server's name has no address", &[]),
    (
        ADDRESS,
        "mx.example.org. IN A 192.0.2.9",
        "error ptr   192.0.2.9 (this server): no PTR record",
        &["9.2.0.192.in-addr.arpa. IN PTR mx.example.org."],
    ),
    (MX, "", "error mx    example.org: neither MX nor address", &[MX]),
    (
        MX,
        "example.org. IN MX 10 gone.example.org.",
        "error mx    example.org: hosts without an address: gone.example.org",
        &[MX],
    ),
    (MX, "example.org. IN MX 0 .", "error mx    example.org: it accepts no mail (MX 0 .)", &[MX]),
    ("example.org. IN TXT", "", "error spf   example.org: no record", &[SPF]),
    (
        "example.org. IN TXT",
        "example.org. IN TXT ( \"v=spf1 ip4:192.0.2.7 ~all\" )",
        "error spf   example.org: softfail for 192.0.2.1: ",
        &["example.org. IN TXT ( \"v=spf1 ip4:192.0.2.1 ip4:192.0.2.7 ~all\" )"],
    ),
    (
        "example.org. IN TXT",
        "example.org. IN TXT ( \"v=spf1 ip4:192.0.2.300 -all\" )",
        "error spf   example.org: permerror for 192.0.2.1: ",
        &[],
    ),
    ("mx.example.org. IN TXT", "", "error spf   mx.example.org: no record", &[SPF_OF_HOST]),
    (
        "mx.example.org. IN TXT",
        "mx.example.org. IN TXT ( \"v=spf1 -all\" )",
        "error spf   mx.example.org: fail for 192.0.2.1: ",
        &["mx.example.org. IN TXT ( \"v=spf1 ip4:192.0.2.1 -all\" )"],
    ),
    (KEY, "", "error dkim  s1._domainkey.example.org: no record", &[KEY]),
    (KEY, OTHER_KEY, "error dkim  s1._domainkey.example.org: the record has another key", &[KEY]),
    ("_dmarc.", "", "error dmarc example.org: no policy", &[DMARC]),
    (
        "_dmarc.",
        "_dmarc.example.org. IN TXT ( \"v=DMARC1; adkim=s\" )",
        "error dmarc example.org: ",
        &[DMARC],
    ),
];

#[test]
fn each_record_of_init_is_checked() {
    let files = Files::new();
    let tls = certificate(&files, "mx.example.org");
    let tls: Vec<&str> = tls.iter().map(String::as_str).collect();
    let made = init(&files, &[&WORDS[..], &tls].concat());
    let all = records(&made);
    assert_eq!(all.len(), 7, "{made:?}");
    let right = check(&files, &all);
    assert!(right.code == 0 && right.out.contains("0 errors, 0 warnings\n"), "{right:?}");
    let key = all.iter().find(|record| record.starts_with("s1._domainkey."));
    let key = key.expect("a key").as_str();
    // Another modulus.
    let at = key.find("p=").expect("a key") + 80;
    let mut other_key = key.to_owned();
    other_key.replace_range(at..=at, if key[at..].starts_with('A') { "B" } else { "A" });
    for (record, instead, begin, publish) in CASES {
        let mut records = all.clone();
        let at = records.iter().position(|one| one.starts_with(record)).expect("a record");
        match instead {
            "" => drop(records.remove(at)),
            OTHER_KEY => records[at].clone_from(&other_key),
            instead => instead.clone_into(&mut records[at]),
        }
        let answer = check(&files, &records);
        let publish: Vec<&str> =
            publish.iter().map(|record| if *record == KEY { key } else { record }).collect();
        assert_named(&answer, begin, &publish);
        assert_eq!(answer.code, 1, "{begin}\n{}", answer.out);
    }
}
