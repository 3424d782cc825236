//! Aggregate reports: what is counted one day is sent on another, to those who may get it, and can be read
//! by a program that is not ours.

use super::listeners::{config, names};
use crate::support::client::Client;
use crate::support::name_server::NameServer;
use crate::support::server::Server;
use crate::support::tool::succeed;
use crate::support::{Files, wait_until};
use serde_json::Value;
use std::path::PathBuf;

/// Prints the report in a file as JSON.
const READ: &str = r#"
import email, email.policy, gzip, json, sys
import xml.etree.ElementTree as tree
with open(sys.argv[1], "rb") as file:
    message = email.message_from_binary_file(file, policy=email.policy.default)
(part,) = list(message.iter_attachments())
report = tree.fromstring(gzip.decompress(part.get_content()))
def shown(element):
    children = list(element)
    if not children:
        return element.text or ""
    out = {}
    for child in children:
        out.setdefault(child.tag, []).append(shown(child))
    return {tag: all[0] if len(all) == 1 else all for tag, all in out.items()}
print(json.dumps({"subject": message["subject"], "to": message["to"], "from": message["from"],
    "kind": part.get_content_type(), "name": part.get_filename(), "report": shown(report)}))
"#;

fn mail(server: &Server, from: &str, author: &str) -> String {
    let mut client = Client::connect(server.address());
    client.say(&format!("MAIL FROM:<{from}>"), "250");
    client.say("RCPT TO:<al@here.test>", "250");
    client.say("DATA", "354");
    client.send(format!("From: jo@{author}\r\nSubject: x\r\n\r\nbody"));
    client.say("\r\n.", "")
}

/// The file of the only day that there is.
fn counted(files: &Files) -> PathBuf {
    let directory = files.path("spool/dmarc-reports");
    let entries = std::fs::read_dir(directory).expect("what was counted");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
    paths.remove(0)
}

fn start(files: &Files, names: &NameServer) -> Server {
    let section =
        "[dmarc_reports]\nfrom = \"dmarc@relay.test\"\norganization_name = \"Relay & Co\"\n";
    Server::start(files, &(config(names, "dmarc = \"reject\"") + section))
}

/// What the reports that were sent say, by the domain that they are about.
fn read(files: &Files, count: usize) -> Vec<Value> {
    let mut read = Vec::new();
    for message in files.wait_maildir("mail/dmarc", count) {
        let path = files.path("report.eml");
        std::fs::write(&path, message).unwrap();
        let path = path.display().to_string();
        let text = succeed("/usr/bin/python3", &["-c", READ, &path]);
        read.push(serde_json::from_str::<Value>(&text).unwrap());
    }
    read.sort_by_key(|value| value["subject"].to_string());
    read
}

/// The report about good.test.
fn check_good(good: &Value, day: u64) {
    let (begin, end) = (day * 86_400, day * 86_400 + 86_399);
    assert!(good["subject"].as_str().unwrap().starts_with("Report Domain: good.test"), "{good}");
    assert_eq!(good["to"], "dmarc@here.test");
    assert_eq!(good["kind"], "application/gzip");
    assert_eq!(good["name"], format!("relay.test!good.test!{begin}!{end}.xml.gz"));
    let report = &good["report"];
    assert_eq!(report["report_metadata"]["org_name"], "Relay & Co");
    assert_eq!(report["report_metadata"]["date_range"]["begin"], begin.to_string());
    let published = &report["policy_published"];
    let policy = ["domain", "p", "sp", "adkim", "pct", "fo"].map(|key| published[key].as_str());
    let expected = ["good.test", "reject", "none", "r", "100", "1"].map(Some);
    assert_eq!(policy, expected, "{published}");
    let rows = report["record"].as_array().unwrap();
    let row = |spf: &str| {
        let is_it = |row: &&Value| row["row"]["policy_evaluated"]["spf"] == spf;
        rows.iter().find(is_it).unwrap_or_else(|| panic!("{rows:?}"))
    };
    assert_eq!(rows.len(), 2);
    let (pass, fail) = (row("pass"), row("fail"));
    assert_eq!((&pass["row"]["count"], &fail["row"]["count"]), (&"2".into(), &"1".into()));
    assert_eq!(pass["row"]["source_ip"], "127.0.0.1");
    assert_eq!(pass["row"]["policy_evaluated"]["disposition"], "none");
    assert_eq!(fail["row"]["policy_evaluated"]["disposition"], "reject");
    assert_eq!(fail["identifiers"]["envelope_from"], "strict.test");
    assert_eq!(fail["identifiers"]["header_from"], "good.test");
    assert_eq!(fail["auth_results"]["spf"]["result"], "fail");
}

#[test]
fn domains_hear_of_mail_in_their_name_if_they_want_to() {
    let (files, names) = (Files::new(), names());
    let wants = |domain: &str, rua: &str| {
        let record = format!("v=DMARC1; p=reject; sp=none; fo=1; rua={rua}");
        names.txt(&format!("_dmarc.{domain}"), &[&record]);
    };
    wants("good.test", "https://good.test/,mailto:dmarc@here.test!10m,mailto:small@here.test!1");
    wants("strict.test", "mailto:dmarc@here.test");
    // Nobody at here.test has said that he wants these.
    wants("mild.test", "mailto:dmarc@here.test");
    // A hundred addresses, of which the first ten count.
    let many: String = (0..100).map(|n| format!("mailto:d{n}@many.test,")).collect();
    wants("many.test", &many);
    for domain in ["good.test", "strict.test"] {
        names.txt(&format!("{domain}._report._dmarc.here.test"), &["v=DMARC1;"]);
    }
    let server = start(&files, &names);
    for (from, author, reply) in [
        ("jo@good.test", "good.test", "250"),
        ("jo@good.test", "good.test", "250"),
        ("jo@strict.test", "good.test", "550"),
        ("jo@strict.test", "strict.test", "550"),
        ("jo@strict.test", "sub.strict.test", "250"),
        ("jo@strict.test", "mild.test", "550"),
        ("", "many.test", "550"),
        ("jo@nowhere.test", "nowhere.test", "250"),
    ] {
        let said = mail(&server, from, author);
        assert!(said.starts_with(reply), "{from} {author}: {said}");
    }
    server.stop();
    // It was the day before yesterday.
    let path = counted(&files);
    let today: u64 = path.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    let day = today - 2;
    std::fs::rename(&path, path.with_file_name(format!("{day}.json"))).unwrap();
    let server = Server::start_again(&files);
    let reports = read(&files, 2);
    check_good(&reports[0], day);
    let strict = reports[1]["report"]["record"].as_array().unwrap();
    let headers: Vec<&str> =
        strict.iter().map(|row| row["identifiers"]["header_from"].as_str().unwrap()).collect();
    assert!(headers.contains(&"sub.strict.test") && headers.len() == 2, "{headers:?}");
    for (domain, why) in [
        ("good.test for small@here.test", "larger than its size limit"),
        ("mild.test for dmarc@here.test", "its domain does not permit them"),
    ] {
        server.wait_console("no report", |line| line.contains(domain) && line.contains(why));
    }
    // All of it was seen to.
    wait_until("nothing left", || {
        std::fs::read_dir(files.path("spool/dmarc-reports")).unwrap().count() == 0
    });
    let own: Vec<Value> = files.events_of("received");
    let own: Vec<&Value> = own.iter().filter(|e| e["listener"] == "dmarc_reports").collect();
    // The one to many.test is in the queue: it leads nowhere.
    assert_eq!(own.len(), 3, "{own:?}");
    let many = own.iter().find(|event| event["recipients"].as_array().unwrap().len() > 1);
    assert_eq!(many.unwrap()["recipients"].as_array().unwrap().len(), 10);
    server.stop();
}
