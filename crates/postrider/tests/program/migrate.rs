//! `postrider migrate postfix`: files, exit codes, and that the result loads.

use crate::support::Files;
use crate::support::server::{Answer, program};
use std::fs;

const MASTER: &str = "smtp inet n - y - - smtpd\n";

/// Runs the command over `main.cf` with these lines.
fn migrate(files: &Files, main: &str, words: &[&str]) -> Answer {
    fs::create_dir_all(files.path("etc")).expect("a directory");
    files.write("etc/main.cf", main);
    files.write("etc/master.cf", MASTER);
    let usual = ["migrate", "postfix", "--dir", "etc", "--out", "new"];
    program(files.dir(), &[&usual[..], words].concat())
}

const MAIN: &str = "myhostname = mail.example.org\nmydestination =\nrelayhost = [192.0.2.1]\n\
                    inet_interfaces = loopback-only\ninet_protocols = ipv4\nmaster_service_disable = x\n";

#[test]
fn migration_writes_once_and_loads() {
    let files = Files::new();
    let answer = migrate(&files, MAIN, &[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(
        answer.out.contains("Not carried (") && answer.out.contains("etc/main.cf:6: "),
        "{answer:?}"
    );
    assert!(
        answer.out.contains("wrote ") && answer.out.contains("new/postrider.toml"),
        "{answer:?}"
    );
    let text = fs::read_to_string(files.path("new/postrider.toml")).expect("a file");
    let text = text.replace("127.0.0.1:25", "127.0.0.1:0");
    files.write("check.toml", &format!("{text}[spool]\npath = \"spool\"\n"));
    let checked = program(files.dir(), &["check", "--config", "check.toml"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let again = migrate(&files, MAIN, &[]);
    assert!(again.code == 2 && again.err.contains("postrider.toml exists"), "{again:?}");
}

#[test]
fn migration_fails_if_more_is_accepted() {
    let files = Files::new();
    let main = format!("{MAIN}smtpd_sender_restrictions = reject_unlisted_sender\n");
    let answer = migrate(&files, &main, &["--json"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    let report: serde_json::Value = serde_json::from_str(&answer.out).expect("JSON");
    assert_eq!(report["accepts_more"], true);
    let rows = report["report"].as_array().expect("a list");
    let open: Vec<_> = rows.iter().filter(|row| row["accepts_more"] == true).collect();
    assert!(open.len() == 1 && open[0]["line"] == 7, "{open:?}");
    assert!(files.path("new/postrider.toml").exists());
}

#[test]
fn migration_without_main_cf_writes_nothing() {
    let files = Files::new();
    let answer = program(files.dir(), &["migrate", "postfix", "--dir", "none", "--out", "new"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.err.contains("none/main.cf: No such file"), "{answer:?}");
    assert!(!files.path("new").exists());
}
