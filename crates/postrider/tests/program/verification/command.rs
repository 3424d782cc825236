//! `postrider auth check`, and what `explain` says of checks.

use super::listeners::{ALL, config, names, sign};
use crate::support::Files;
use crate::support::server::command;
use serde_json::Value;

#[test]
fn a_message_in_a_file_is_checked_and_the_records_shown() {
    let (files, names) = (Files::new(), names());
    files.write("postrider.toml", &config(&names, ALL));
    sign(&files, &names);
    let envelope = ["--client-ip", "127.0.0.1", "--helo", "h.test", "--from", "jo@good.test"];
    let check = |words: &[&str]| {
        let words = [&["auth", "check", "message.eml"], words].concat();
        let answer = command(files.dir(), &words);
        assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{}", answer.out);
        answer.out
    };
    let json: Value = serde_json::from_str(&check(&[&envelope[..], &["--json"]].concat())).unwrap();
    let verdicts = ["spf", "dmarc", "arc"].map(|check| json[check]["verdict"].as_str().unwrap());
    assert_eq!(verdicts, ["pass", "pass", "none"], "{json:#}");
    assert_eq!(json["dkim"][0]["verdict"], "pass");
    assert_eq!(json["dkim"][0]["selector"], "one");
    assert_eq!(json["spf"]["reason"], "\"ip4:127.0.0.1\" of good.test");
    let names = ["good.test", "one._domainkey.good.test", "_dmarc.good.test"];
    for name in names {
        let records = json["records"].as_array().unwrap();
        assert!(records.iter().any(|record| record["name"] == name), "{name}: {json:#}");
    }
    // Lines of a file may end as those of this system do; and for people.
    let message = std::fs::read_to_string(files.path("message.eml")).unwrap();
    files.write("message.eml", &message.replace("\r\n", "\n"));
    let text = check(&[]);
    for wanted in [
        "spf    none       the client address is unknown\n",
        "dkim   pass       good.test, one, rsa-sha256\n",
        "dmarc  pass       good.test: DKIM passed for good.test\n",
        "TXT  _dmarc.good.test: v=DMARC1; p=reject\n",
        "\nAuthentication-Results: relay.test;\n",
    ] {
        assert!(text.contains(wanted), "{wanted}{text}");
    }
    let none = command(files.dir(), &["auth", "check", "none.eml"]);
    assert_eq!((none.code, none.err.contains("none.eml")), (1, true), "{}", none.err);
}

#[test]
fn explain_names_the_checks_of_strangers() {
    let (files, names) = (Files::new(), names());
    files.write("postrider.toml", &config(&names, "spf = \"mark\", dmarc = \"reject\""));
    let explain = |words: &[&str]| {
        let words = [&["explain", "al@here.test", "--offline"], words].concat();
        command(files.dir(), &words).out
    };
    let text = explain(&[]);
    assert_eq!(explain(&["--from", "<>"]), text, "the null sender is the default");
    let line = text.lines().find(|line| line.contains("spf marks, dmarc refuses"));
    assert!(line.is_some_and(|line| line.contains("postrider.toml:")), "{text}");
}
