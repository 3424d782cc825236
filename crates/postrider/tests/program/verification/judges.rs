//! OpenDKIM and rspamd as judges of messages that others signed.

use crate::interop::place::Place;
use crate::support::name_server::NameServer;
use crate::support::tool::free_port;
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("judges.py");

/// rspamd with nothing but its module for DKIM, that looks at mail of this machine, too.
const RSPAMD: &str = r#"
options {
    pidfile = "DIR/pid"; tempdir = "DIR"; hs_cache_dir = "DIR"; url_tld = "DIR/tld"; filters = "dkim";
    control_socket = "DIR/control mode=0600";
    dns { nameserver = ["DNS"]; timeout = 1s; retransmits = 3; }
}
logging { type = "console"; level = "info"; }
actions { reject = 1500; add_header = 600; }
dkim { check_local = true; check_authed = true; }
metric "default" { symbol "R_DKIM_ALLOW" { weight = 0; } }
worker "normal" { bind_socket = "127.0.0.1:PORT"; count = 1; }
"#;

/// Who judges otherwise than we do: the case's name, what OpenDKIM and rspamd say, and why that is so.
const KNOWN: [(&str, [&str; 2], &str); 3] = [
    ("a length, and more", ["pass", "pass"], "what is behind the length nobody has signed"),
    ("a length, and less", ["", "fail"], "OpenDKIM says nothing of a length that is not there"),
    ("OpenDKIM", ["pass", "pass"], "both still count rsa-sha1, which RFC 8301 forbids"),
];

/// Both, and the name server that they ask.
pub(super) struct Judges {
    _place: Place,
    ports: [u16; 2],
}

impl Judges {
    /// They know the keys of this zone.
    pub(super) fn start(zone: &Value) -> Judges {
        let (mut place, names) = (Place::new(0), NameServer::start());
        let ports = [free_port(), free_port()];
        let mut dns = String::new();
        for (name, records) in zone.as_object().expect("names") {
            let pieces = match &records[0]["TXT"] {
                Value::Array(pieces) => pieces.iter().filter_map(Value::as_str).collect(),
                text => text.as_str().expect("text").to_owned(),
            };
            dns += &format!("{name} {pieces}\n");
            names.txt(name, &[&pieces]);
        }
        place.write("dns", &dns);
        place.write("tld", "com\norg\ntest\n");
        let dir = place.dir();
        let opendkim = format!(
            "Socket inet:{}@127.0.0.1\nMode v\nTestDNSData {dir}/dns\nBackground no\nUMask 002\n",
            ports[0]
        );
        place.write("opendkim.conf", &opendkim);
        let rspamd = RSPAMD.replace("DIR", &dir).replace("DNS", &names.address);
        place.write("rspamd.conf", &rspamd.replace("PORT", &ports[1].to_string()));
        let conf = place.path("opendkim.conf").display().to_string();
        let command = place.command("opendkim", &["opendkim", "-f", "-x", &conf]);
        place.start(command, "opendkim.log");
        let conf = place.path("rspamd.conf").display().to_string();
        let users = ["rspamd", "--user=nobody", "--group=nogroup", "--insecure", "--no-fork"];
        let command = place.command("rspamd", &[&users[..], &["--config", &conf]].concat());
        place.start(command, "rspamd.log");
        ports.iter().for_each(|port| place.wait_listening(*port));
        Judges { _place: place, ports }
    }

    /// Where they don't say what is expected of each case: `[name, message, verdict]`.
    pub(super) fn disagree(&self, cases: &[Value]) -> Vec<String> {
        let messages: Vec<&Value> = cases.iter().map(|case| &case[1]).collect();
        let mut python = Command::new("/usr/bin/python3");
        python.args(["-c", SCRIPT]).args(self.ports.map(|port| port.to_string()));
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
            let known = KNOWN.iter().find(|(known, ..)| *known == name);
            let is_known = known.is_some_and(|(_, expected, _)| said == expected);
            if !is_known && *said != [verdict, verdict] {
                wrong.push(format!("{name}: {said:?}, not {verdict}; known: {known:?}"));
            }
        }
        wrong
    }
}
