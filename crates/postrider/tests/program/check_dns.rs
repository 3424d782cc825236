//! `postrider check --dns`, against our own name server.

use crate::support::server::{self, Answer, CONFIG};
use crate::support::tool::Tool;
use crate::support::{Files, config};
use serde_json::Value;

/// The records of keys.
fn make_keys(files: &Files) -> String {
    let new = |selector: &str, domain: &str| {
        let out = format!("{selector}.pem");
        let words = ["dkim", "new", domain, selector, "--out", &out, "--algorithm", "ed25519"];
        let made = server::program(files.dir(), &words);
        assert_eq!(made.code, 0, "{made:?}");
        made.out
    };
    [new("s1", "example.test"), new("s2", "example.test"), new("e1", "esp.test")].concat()
}

/// Two addresses of two sources, and those who sign.
fn configuration(files: &Files, names: &str) -> String {
    let key = |selector: &str| files.path(&format!("{selector}.pem")).display().to_string();
    let text = format!(
        "[dns]\nservers = [\"{names}\"]\ntimeout = \"2s\"\nattempts = 1\n\
         [[source]]\nname = \"ip-1\"\naddress = \"192.0.2.11\"\nehlo = \"m1.example.test\"\n\
         [[source]]\nname = \"ip-2\"\naddress = \"192.0.2.12\"\naddress6 = \"2001:db8::12\"\n\
         ehlo = \"m2.example.test\"\n\
         [[pool]]\nname = \"bulk\"\nsources = [{{ name = \"ip-1\" }}, {{ name = \"ip-2\" }}]\n\
         [[signer]]\ndomains = [\"example.test\", \"*.example.test\"]\nselector = \"s1\"\n\
         key = \"{}\"\nnext = {{ selector = \"s2\", key = \"{}\", from = \"2099-01-01T00:00:00Z\" }}\n\
         [[signer]]\ndomains = [\"*\"]\nsign_as = \"esp.test\"\nselector = \"e1\"\nkey = \"{}\"\n\
         [[route]]\npool = \"bulk\"\nmx = {{}}\n",
        key("s1"),
        key("s2"),
        key("e1"),
    );
    config(&text)
}

/// The reverse zones, without a name in them.
const REVERSE: &str = "$ORIGIN 2.0.192.in-addr.arpa.\n$ORIGIN 8.b.d.0.1.0.0.2.ip6.arpa.\n";

/// Checks with these zones.
fn check(files: &Files, zone: &str, words: &[&str]) -> Answer {
    let zone = files.write("zone", zone).display().to_string();
    let names = Tool::lab(&["dns", "--zone", &zone]);
    files.write(CONFIG, &configuration(files, &names.address));
    server::command(files.dir(), &[&["check", "--dns"], words].concat())
}

/// What was found, by JSON.
fn found(answer: &Answer) -> Vec<Value> {
    let said: Value = serde_json::from_str(&answer.out).expect("JSON");
    assert_eq!(said["valid"], true, "{answer:?}");
    said["dns"].as_array().expect("a list").clone()
}

#[test]
fn what_is_advised_makes_an_empty_zone_right() {
    let files = Files::new();
    make_keys(&files);
    let empty = format!("$ORIGIN test.\nrelay A 192.0.2.1\n{REVERSE}");
    let before = check(&files, &empty, &["--json"]);
    assert_eq!(before.code, 1, "{before:?}");
    let advised = found(&before);
    let records: Vec<&str> = advised
        .iter()
        .flat_map(|finding| finding["publish"].as_array().into_iter().flatten())
        .map(|record| record.as_str().expect("text"))
        .collect();
    // Names and addresses both ways, SPF of three names, three keys, DMARC, MX.
    assert_eq!(records.len(), 3 + 3 + 3 + 3 + 1 + 1, "{records:#?}");
    for expected in [
        "11.2.0.192.in-addr.arpa. IN PTR m1.example.test.",
        "m2.example.test. IN AAAA 2001:db8::12",
        "example.test. IN TXT ( \"v=spf1 ip4:192.0.2.11 ip4:192.0.2.12 ip6:2001:db8::12 -all\" )",
        "m1.example.test. IN TXT ( \"v=spf1 ip4:192.0.2.11 -all\" )",
        "example.test. IN MX 10 relay.test.",
    ] {
        assert!(records.contains(&expected), "{expected}: {records:#?}");
    }
    let text = check(&files, &empty, &[]);
    assert!(
        text.out.contains("\nerror ptr   192.0.2.11 (source ip-1): no PTR record\n"),
        "{text:?}"
    );
    assert!(text.out.contains("            publish: 11.2.0.192.in-addr.arpa. IN PTR"), "{text:?}");
    let after = check(&files, &format!("{empty}{}\n", records.join("\n")), &["--json"]);
    assert_eq!(after.code, 0, "{after:?}");
    let is_right = |finding: &&Value| finding["severity"] == "ok";
    assert_eq!(found(&after).iter().filter(is_right).count(), 3 + 3 + 3 + 1 + 1, "{after:?}");
    // What can't be known is said: whom "*" and "*.example.test" stand for.
    let notes = found(&after).iter().filter(|finding| finding["severity"] == "note").count();
    assert_eq!(notes, 2, "{after:?}");
}

#[test]
fn without_an_answer_nothing_is_right_but_the_file() {
    let files = Files::new();
    make_keys(&files);
    files.write(CONFIG, &configuration(&files, "127.0.0.1:1"));
    let plain = server::command(files.dir(), &["check"]);
    assert_eq!((plain.code, plain.out.contains(": OK (")), (0, true), "{plain:?}");
    let asked = server::command(files.dir(), &["check", "--dns"]);
    assert!(asked.code == 1 && asked.out.contains("no answer"), "{asked:?}");
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    let files = Files::new();
    let keys = make_keys(&files);
    let of = |name: &str| keys.lines().find(|line| line.starts_with(name)).expect("a record");
    let other = of("s1.").replace("s1._domainkey.example.test.", "e1._domainkey.esp.test.");
    let zone = format!(
        "$ORIGIN test.\nrelay A 192.0.2.1\nm1.example A 192.0.2.99\nm1.example TXT \"v=spf1 a -all\"\n\
         m2.example A 192.0.2.12\nm2.example AAAA 2001:db8::12\nm2.example TXT \"v=spf1 a -all\"\n\
         host A 192.0.2.12\nexample MX 0 .\nexample TXT \"v=spf1 ip4:192.0.2.11 ~all\"\n\
         _dmarc.example TXT \"v=DMARC1; p=none\"\n_dmarc.example TXT \"v=DMARC1; p=reject\"\n\
         _dmarc.other TXT \"v=DMARC1; p=quarantine; adkim=s\"\nother MX 10 relay\nother MX 20 gone\n\
         other TXT \"v=spf1 include:other.test -all\"\n{}\n{other}\n\
         $ORIGIN 2.0.192.in-addr.arpa.\n11 PTR m1.example.test.\n12 PTR host.test.\n\
         $ORIGIN 8.b.d.0.1.0.0.2.ip6.arpa.\n2.1.0.0{} PTR m2.example.test.\n",
        of("s1."),
        ".0".repeat(20),
    );
    let answer = check(&files, &zone, &["--domain", "other.test"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    for expected in [
        "error ptr   192.0.2.11 (source ip-1): its name m1.example.test does not resolve to it\n            publish: m1.example.test. IN A 192.0.2.11\n",
        "warn  ptr   192.0.2.12 (source ip-2): its name is host.test, forward-confirmed; its EHLO name is m2.example.test\n            publish: 12.2.0.192.in-addr.arpa. IN PTR m2.example.test.\n",
        "ok    ptr   2001:db8::12 (source ip-2): m2.example.test, forward-confirmed\n",
        "warn  spf   m1.example.test: fail for 192.0.2.11 (as EHLO name, for mail with a null sender): ",
        "publish: m1.example.test. IN TXT ( \"v=spf1 ip4:192.0.2.11 a -all\" )\n",
        "ok    spf   m2.example.test: pass for 192.0.2.12, 2001:db8::12 (as EHLO name",
        "ok    spf   example.test: pass for 192.0.2.11\n",
        "error spf   example.test: softfail for 192.0.2.12, 2001:db8::12: ",
        "publish: example.test. IN TXT ( \"v=spf1 ip4:192.0.2.12 ip6:2001:db8::12 ip4:192.0.2.11 ~all\" )\n",
        "error spf   other.test: permerror for 192.0.2.11, 192.0.2.12, 2001:db8::12: ",
        "error dmarc example.test: more than one policy record: none applies\n            publish: _dmarc.example.test. IN TXT ( \"v=DMARC1; p=none; rua=mailto:postmaster@example.test\" )\n",
        "error dmarc other.test: p=quarantine, no reports; no aligned signature: d=esp.test (adkim=s: only d=other.test aligns)",
        "error mx    example.test: it accepts no mail (MX 0 .)",
        "warn  mx    other.test: hosts without an address: gone.test\n",
        "ok    dkim  s1._domainkey.example.test: matches\n",
        "warn  dkim  s2._domainkey.example.test: signs from 2099-01-01T00:00:00.000Z: no record\n",
        "error dkim  e1._domainkey.esp.test: the record has another key\n            publish: e1._domainkey.esp.test. IN TXT ( ",
        "7 errors, 4 warnings\n",
    ] {
        assert!(answer.out.contains(expected), "{expected}{}", answer.out);
    }
}
