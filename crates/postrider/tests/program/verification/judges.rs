//! OpenDKIM and rspamd as judges of messages that others signed, or they themselves.

use super::rspamd::Rspamd;
use crate::interop::place::Place;
use crate::support::tool::free_port;
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("judges.py");

/// Who judges otherwise than we do: how the case's name begins and ends, what OpenDKIM and rspamd say, and why
/// that is so.
const KNOWN: [(&str, &str, [&str; 2], &str); 7] = [
    (
        "OpenDKIM",
        "second From",
        ["pass", "fail"],
        "it signs one From, and takes another in front of it",
    ),
    ("a length", ", and more", ["pass", "pass"], "what is behind the length nobody has signed"),
    ("a length", ", and less", ["", "fail"], "OpenDKIM says nothing of a length that is not there"),
    ("", "blanks alone", ["pass", "fail"], "rspamd takes a body of blanks for one that has a line"),
    (
        "",
        "a blank before a colon",
        ["pass", "fail"],
        "rspamd takes it for a part of the field's name",
    ),
    ("", "a field twice", ["pass", "fail"], "rspamd takes them in another order"),
    ("opendkim-testmsg", "", ["pass", "pass"], "both still count rsa-sha1, which RFC 8301 forbids"),
];

/// Both.
pub(super) struct Judges<'a> {
    _place: Place,
    opendkim: u16,
    rspamd: &'a Rspamd,
}

impl Judges<'_> {
    /// They know the keys of this zone.
    pub(super) fn start<'a>(zone: &Value, rspamd: &'a Rspamd) -> Judges<'a> {
        let (mut place, opendkim) = (Place::new(0), free_port());
        let line = |(name, record): (&String, String)| format!("{name} {record}\n");
        let dns: String = records(zone).map(line).collect();
        place.write("dns", &dns);
        let dir = place.dir();
        let text = format!(
            "Socket inet:{opendkim}@127.0.0.1\nMode v\nTestDNSData {dir}/dns\nBackground no\nUMask 002\n"
        );
        place.write("opendkim.conf", &text);
        let conf = place.path("opendkim.conf").display().to_string();
        let command = place.command("opendkim", &["opendkim", "-f", "-x", &conf]);
        place.start(command, "opendkim.log");
        place.wait_listening(opendkim);
        rspamd.knows(records(zone));
        Judges { _place: place, opendkim, rspamd }
    }

    /// Where they don't say what is expected of each case: `[name, message, verdict]`.
    pub(super) fn disagree(&self, cases: &[Value]) -> Vec<String> {
        let messages: Vec<&Value> = cases.iter().map(|case| &case[1]).collect();
        let mut python = Command::new("/usr/bin/python3");
        let ports = [self.opendkim, self.rspamd.port].map(|port| port.to_string());
        python.args(["-c", SCRIPT]).args(ports);
        let mut python =
            python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3");
        let mut stdin = python.stdin.take().expect("a pipe");
        stdin.write_all(&serde_json::to_vec(&messages).expect("json")).expect("it reads");
        drop(stdin);
        let done = python.wait_with_output().expect("it ends");
        assert!(done.status.success(), "{done:?}");
        let said: Vec<[String; 2]> = serde_json::from_slice(&done.stdout).expect("json");
        assert_eq!(said.len(), cases.len());
        let mut wrong = Vec::new();
        for (case, said) in cases.iter().zip(&said) {
            let (name, verdict) = (case[0].as_str().expect("a name"), case[2].as_str());
            let verdict = verdict.expect("a verdict");
            let known = KNOWN
                .iter()
                .find(|(begin, end, ..)| name.starts_with(begin) && name.ends_with(end));
            let is_known = known.is_some_and(|(.., expected, _)| said == expected);
            if !is_known && *said != [verdict, verdict] {
                wrong.push(format!("{name}: {said:?}, not {verdict}; known: {known:?}"));
            }
        }
        wrong
    }
}

/// The TXT records of a zone.
fn records(zone: &Value) -> impl Iterator<Item = (&String, String)> {
    zone.as_object().expect("names").iter().map(|(name, records)| {
        let record = match &records[0]["TXT"] {
            Value::Array(pieces) => pieces.iter().filter_map(Value::as_str).collect(),
            text => text.as_str().expect("text").to_owned(),
        };
        (name, record)
    })
}
