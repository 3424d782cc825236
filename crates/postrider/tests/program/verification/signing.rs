//! What this server signs, OpenDKIM, rspamd, dkimpy and Mail::DKIM verify; what was changed since, they don't.

use super::judges::Judges;
use super::rspamd::Rspamd;
use super::signers::verdicts;
use super::zone::Zone;
use crate::interop::place::is_possible;
use crate::support::certificate::{EC, make_certificate, section};
use crate::support::server::{self, Server};
use crate::support::{Files, config};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

const SUBMIT: &str = include_str!("submit.py");
const VERIFIERS: &str = include_str!("verifiers.py");
const PERL: &str = include_str!("verifier.pl");

/// Runs a script of Python with this as its input.
fn python(script: &str, words: &[&str], input: &Value) -> Value {
    let mut python = Command::new("/usr/bin/python3");
    python.args(["-c", script]).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().expect("python3");
    let mut stdin = python.stdin.take().expect("a pipe");
    stdin.write_all(input.to_string().as_bytes()).expect("it reads");
    drop(stdin);
    let done = python.wait_with_output().expect("it ends");
    assert!(done.status.success(), "{done:?}");
    serde_json::from_slice(&done.stdout).expect("json")
}

/// Makes a key by the program; returns the TXT record as one text.
pub(super) fn make_key(files: &Files, domain: &str, selector: &str, kind: &str) -> String {
    let file = format!("{selector}.pem");
    let words = ["dkim", "new", domain, selector, "--out", &file, "--algorithm", kind];
    let made = server::program(files.dir(), &words);
    assert_eq!(made.code, 0, "{made:?}");
    record_in(made.out.trim_end(), &format!("{selector}._domainkey.{domain}."))
}

/// The record in a line of a zone file.
fn record_in(line: &str, name: &str) -> String {
    let strings = line.strip_prefix(name).and_then(|rest| rest.trim().strip_prefix("IN TXT ( "));
    let strings = strings.and_then(|rest| rest.strip_suffix(" )")).expect(line);
    strings.split('"').filter(|part| !part.trim().is_empty()).collect()
}

/// An octet for each character.
pub(super) fn text_of(octets: &[u8]) -> String {
    octets.iter().map(|octet| char::from(*octet)).collect()
}

/// Thirty messages without a number, each in its own way.
fn messages() -> Vec<String> {
    let head = "From: Jo <jo@example.org>\r\nTo: al@far.test\r\nSubject: x\r\n\
        Date: Tue, 24 Nov 2026 10:00:00 +0000\r\nMessage-ID: <1@example.org>\r\n";
    let with = |more: &str, body: &str| format!("{head}{more}\r\n{body}");
    let mut messages: Vec<String> = [
        "",
        "\r\n",
        "\r\n\r\n\r\n",
        " \r\n",
        "x",
        "x\r\n",
        "x\r\n\r\n\r\n",
        "x \t \r\n\t\r\n",
        "a  b\tc\r\n d\r\n",
        ".\r\n..\r\n.x\r\n",
        "x\r\n.\r\n",
        "\u{e4}\u{f6}\u{fc}\u{df}\r\n",
        "From: not a field\r\n",
        "\tx\r\n\r\n \r\nx",
    ]
    .iter()
    .map(|body| with("", body))
    .collect();
    for more in [
        "X-Folded: one\r\n two\r\n\tthree\r\n",
        "Cc: a@far.test,\r\n  b@far.test ,\r\n\tc@far.test\r\n",
        "List-Unsubscribe: <https://example.org/u>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n",
        "List-Id: <l.example.org>\r\nlist-help : <https://example.org/h>\r\n",
        "Feedback-ID: a:b:c:d\r\nCFBL-Address: fbl@example.org; report=arf\r\n",
        "MIME-Version: 1.0\r\nContent-Type: text/plain;\r\n charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n",
        "To: second@far.test\r\nTo: third@far.test\r\n",
        "Subject: twice\r\nReply-To: jo@example.org\r\nReply-To: al@example.org\r\n",
        "Comments:\r\nKeywords: \r\n",
        "X-Tenant: hidden@far.test\r\nReferences: <a@b>\r\n <c@d>\r\nIn-Reply-To: <c@d>\r\nSender: jo@example.org\r\n",
        "Bcc: hidden@far.test\r\n",
        "X-Tenant:\r\n hidden@far.test\r\nBcc: hidden@far.test,\r\n other@far.test\r\nResent-Bcc: third@far.test\r\nX-After: it\r\n",
    ] {
        messages.push(with(more, "Dear  reader,\r\n\r\n\u{e4} line \t\r\n..\r\n\r\n"));
    }
    messages.push(with("", &"A line of a newsletter, with <b>tags</b>\r\n".repeat(2_500)));
    messages.push(with("", &format!("{}\r\n", "x".repeat(998))));
    messages.push(with("", &"  indented\t text  \r\n\r\n. \r\n".repeat(20_000)));
    // Beyond `blob_bytes`.
    messages.push(with(
        "Bcc: hidden@far.test\r\nX-Tenant: hidden@far.test\r\n",
        &format!("{}\r\n", "y".repeat(76)).repeat(28_000),
    ));
    assert_eq!(messages.len(), 30);
    messages
}

/// The key's kind and the names of signers, and the records of their keys.
fn make_keys(files: &Files) -> Value {
    let record = |domain: &str, selector: &str, kind: &str| {
        let record = make_key(files, domain, selector, kind);
        (format!("{selector}._domainkey.{domain}"), record)
    };
    let records = [
        record("example.org", "rsa1", "rsa"),
        record("example.org", "ed1", "ed25519"),
        record("esp.test", "esp1", "rsa"),
    ];
    records.into_iter().map(|(name, record)| (name, json!([{ "TXT": record }]))).collect()
}

fn signers(files: &Files) -> String {
    let signer = |keys: &str, selector: &str| {
        let file = files.path(&format!("{selector}.pem")).display().to_string();
        format!("[[signer]]\n{keys}\nselector = \"{selector}\"\nkey = \"{file}\"\n")
    };
    signer("domains = [\"example.org\", \"*.example.org\"]", "rsa1")
        + &signer("domains = [\"example.org\"]", "ed1")
        + &signer("domains = [\"*\"]\nsign_as = \"esp.test\"", "esp1")
}

/// A server where jo submits, which sends all on to this one.
fn submission(files: &Files, to: &Server) -> Server {
    make_certificate(files.dir(), "mx", EC, &["mail.example.org"]);
    let text = format!(
        "hostname = \"mail.example.org\"\nspool = {{ path = \"spool\" }}\n{}\
         [[listener]]\nname = \"submission\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
         tls = \"implicit\"\nlogins = {{ table = \"passwords\" }}\nremove_bcc = true\n\
         steering_from = [\"127.0.0.0/8\"]\n[steering]\ntenant = \"X-Tenant\"\n\
         [[table]]\nname = \"passwords\"\n[table.inline]\njo = '{{PLAIN}}pencil'\n{}\
         [[route]]\nsmtp = {{ hosts = [\"{}\"], tls = \"off\" }}\n",
        section("mx", &["mail.example.org"]),
        signers(files),
        to.address(),
    );
    Server::start(files, &text)
}

/// Those who sign, with what is signed by each alone.
fn by_signer(message: &str) -> Vec<(String, String)> {
    let (mut fields, mut rest) = (Vec::new(), message);
    while rest.starts_with("DKIM-Signature:") {
        let end = rest.match_indices("\r\n").map(|(at, _)| at + 2);
        let end = end.into_iter().find(|at| !rest[*at..].starts_with('\t')).expect("an end");
        fields.push(&rest[..end]);
        rest = &rest[end..];
    }
    let selector = |field: &str| {
        let at = field.find("s=").expect("a selector") + 2;
        field[at..].split(';').next().expect("text").to_owned()
    };
    fields.iter().map(|field| (selector(field), format!("{field}{rest}"))).collect()
}

/// The message with a field more, or another letter.
fn changed(message: &str, n: usize) -> [String; 2] {
    let names = ["From", "To", "Cc", "Subject", "Date", "Reply-To"];
    let name = names[n % names.len()];
    let (signature, rest) = message.split_once("\r\nReceived:").expect("a trace field");
    let added = format!("{signature}\r\n{name}: eve@example.net\r\nReceived:{rest}");
    let letter = match message.rsplit_once("line") {
        Some((before, after)) => format!("{before}lime{after}"),
        None => message.replacen("Subject: x", "Subject: y", 1),
    };
    [added, letter]
}

#[test]
fn what_is_signed_is_verified_by_all_and_not_when_it_was_changed() {
    let (files, far) = (Files::new(), Files::new());
    let zone = make_keys(&files);
    let next = Server::start(&far, &config("[[route]]\nmaildir = { path = \"mail/{local}\" }\n"));
    let server = submission(&files, &next);
    let mut orders = Vec::new();
    for how in ["DATA", "BDAT"] {
        for message in messages() {
            orders.push(json!([how, format!("X-Case: {}\r\n{message}", orders.len())]));
        }
    }
    let port = server.address().port().to_string();
    let replies = python(SUBMIT, &[&port], &json!(orders));
    assert!(
        replies.as_array().unwrap().iter().all(|r| r.as_str().unwrap().starts_with("250 ")),
        "{replies}"
    );
    let mut received: Vec<String> = far
        .wait_maildir("mail/al", orders.len())
        .iter()
        .map(|message| text_of(message).replace('\n', "\r\n"))
        .map(|message| message[message.find("DKIM-Signature:").expect("signed")..].to_owned())
        .collect();
    let case = |message: &String| -> usize {
        let at = message.find("X-Case: ").expect("a number") + 8;
        message[at..].split("\r\n").next().unwrap().parse().unwrap()
    };
    received.sort_by_key(case);
    let mut cases = Vec::new();
    for (n, message) in received.iter().enumerate() {
        assert!(!message.contains("hidden@far.test"), "{n}");
        let signed = by_signer(message);
        let names: Vec<&str> = signed.iter().map(|(selector, _)| &**selector).collect();
        assert_eq!(names, ["rsa1", "ed1", "esp1"], "{n}");
        for (selector, message) in signed {
            for (what, changed) in ["added", "letter"].iter().zip(changed(&message, n)) {
                cases.push(json!([format!("{selector} {n} {what}"), changed, "fail"]));
            }
            let what = match n % 30 {
                3 => "blanks alone",
                17 => "a blank before a colon",
                20 | 21 => "a field twice",
                _ => "",
            };
            cases.push(json!([format!("{selector} {n} {what}"), message, "pass"]));
        }
    }
    let signed = json!([
        "rsa1._domainkey.example.org",
        "ed1._domainkey.example.org",
        "esp1._domainkey.esp.test"
    ]);
    for event in files.wait_events("received", orders.len()) {
        assert_eq!(event["signed"], signed, "{event}");
    }
    server.stop();
    next.stop();
    judge(&zone, &cases);
}

/// Asks all who verify.
pub(super) fn judge(zone: &Value, cases: &[Value]) {
    let mut wrong = String::new();
    let is_rsa = |case: &Value| !case[0].as_str().unwrap().starts_with("ed1");
    let own = Zone::of(zone);
    for (n, case) in cases.iter().enumerate() {
        let said =
            verdicts(&own, &case[1], [1 << 20, 4096][n % 2]).summary().dkim.unwrap().as_str();
        if case[2] != said {
            writeln!(wrong, "{}: we say {said}", case[0]).unwrap();
        }
    }
    let records: Value = zone
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, records)| (name.clone(), records[0]["TXT"].clone()))
        .collect();
    let messages: Vec<&Value> = cases.iter().map(|case| &case[1]).collect();
    let said = python(VERIFIERS, &[PERL], &json!([records, messages]));
    for (case, said) in cases.iter().zip(said.as_array().unwrap()) {
        let is_right = |said: &Value| said.as_str().unwrap().starts_with(case[2].as_str().unwrap());
        // dkimpy reads no such header at all.
        let is_read = !case[0].as_str().unwrap().ends_with("a blank before a colon");
        if is_read && !is_right(&said[0]) || is_rsa(case) && !is_right(&said[1]) {
            writeln!(wrong, "{}: dkimpy and Mail::DKIM say {said}", case[0]).unwrap();
        }
    }
    if is_possible(&["opendkim", "rspamd"]) {
        let rspamd = Rspamd::start();
        let mut rsa: Vec<Value> = cases.iter().filter(|case| is_rsa(case)).cloned().collect();
        for case in &mut rsa {
            // OpenDKIM says nothing of a message without an end, as BDAT may bring it; what is signed has one.
            let message = case[1].as_str().unwrap();
            if !message.ends_with("\r\n") {
                case[1] = json!(format!("{message}\r\n"));
            }
        }
        for line in Judges::start(zone, &rspamd).disagree(&rsa) {
            writeln!(wrong, "{line}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong:.4000}");
}
