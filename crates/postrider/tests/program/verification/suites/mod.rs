//! Other people's test suites, out of the packages that carry them, and rows in the manner of those that no package
//! has: played through the program, with every difference that is expected named.

mod authres;
mod dkimpy;
mod idna;
mod opendmarc;
mod rows;

use crate::support::client::Client;
use crate::support::name_server::NameServer;
use crate::support::server::Server;
use crate::support::{Files, config_with};
use serde_json::Value;
use std::process::Command;

/// What a script prints, as JSON.
fn made(script: &str, words: &[&str]) -> Value {
    let mut python = Command::new("/usr/bin/python3");
    let done = python.args(["-c", script]).args(words).output().expect("python3");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("JSON")
}

/// Text whose characters are octets.
fn octets(text: &Value) -> Vec<u8> {
    let octet = |c: char| u8::try_from(u32::from(c)).expect("an octet");
    text.as_str().expect("text").chars().map(octet).collect()
}

/// A server that checks, the names that it asks, and a client whom it believes all that a proxy may say.
struct Stand {
    files: Files,
    names: NameServer,
    server: Server,
    sent: usize,
}

/// What comes before content.
struct Envelope<'a> {
    client: &'a str,
    helo: &'a str,
    sender: &'a str,
}

const NOBODY: Envelope<'static> =
    Envelope { client: "192.0.2.1", helo: "client.test", sender: "u@client.test" };

/// What became of a message: how it was delivered, or the reply that refused it.
type Played = Result<Vec<u8>, String>;

impl Stand {
    /// `name` is the server's.
    fn start(name: &str, checks: &str) -> Stand {
        let (files, names) = (Files::new(), NameServer::start());
        names.set_ttl(0);
        let listener = format!(
            "checks = {{ {checks} }}\nxclient_from = [\"127.0.0.1\"]\n\
             exempt_from_limits = [\"0.0.0.0/0\", \"::/0\"]\n"
        );
        let rest = format!(
            "{}timeout = \"250ms\"\nattempts = 1\n\
             [[route]]\ndomains = [\"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n",
            names.section()
        );
        let config = config_with("", &listener, &rest);
        let config = config.replace("hostname = \"relay.test\"", &format!("hostname = \"{name}\""));
        let server = Server::start(&files, &config);
        Stand { files, names, server, sent: 0 }
    }

    /// Publishes TXT records by name, and no others.
    fn publish(&self, records: &Value) {
        self.names.forget_all();
        for (name, text) in records.as_object().expect("names") {
            let text = text.as_str().expect("text");
            self.names.txt(&name.to_ascii_lowercase(), &[text]);
        }
    }

    /// Sends a message, with line ends as SMTP has them.
    fn play(&mut self, envelope: &Envelope<'_>, message: &[u8]) -> Played {
        let Envelope { client: address, helo, sender } = envelope;
        let mut client = Client::connect(self.server.address());
        // Of what is no name in EHLO a proxy speaks.
        let text: String = helo.bytes().map(xtext).collect();
        client.say(&format!("XCLIENT ADDR={address} NAME=[UNAVAILABLE] HELO={text}"), "220");
        let commands = [
            "EHLO client.test".to_owned(),
            format!("MAIL FROM:<{sender}>"),
            format!("RCPT TO:<n{}@here.test>", self.sent),
            "DATA".to_owned(),
        ];
        for command in commands {
            let reply = client.say(&command, "");
            if !reply.starts_with(['2', '3']) {
                return Err(reply);
            }
        }
        let mut stuffed = Vec::with_capacity(message.len() + 16);
        for line in message.split_inclusive(|octet| *octet == b'\n') {
            if line.starts_with(b".") {
                stuffed.push(b'.');
            }
            stuffed.extend(line);
        }
        if !stuffed.ends_with(b"\r\n") {
            stuffed.extend(b"\r\n");
        }
        client.send(stuffed);
        let reply = client.say(".", "");
        if !reply.starts_with("250") {
            return Err(reply);
        }
        let mailbox = format!("mail/n{}", self.sent);
        self.sent += 1;
        let message = self.files.wait_maildir(&mailbox, 1).remove(0);
        Ok(message)
    }
}

/// As XCLIENT has octets (RFC 3461 §4: xtext).
fn xtext(octet: u8) -> String {
    match octet {
        b'+' | b'=' | ..=b' ' | 0x7f.. => format!("+{octet:02X}"),
        _ => char::from(octet).to_string(),
    }
}

/// The words behind `CHECK=` in the results that the server added.
fn verdicts(message: &[u8], check: &str) -> Vec<String> {
    let field = mail::header::find(message, "Authentication-Results").expect("a field");
    let text = String::from_utf8(field.unfolded().into_owned()).expect("UTF-8");
    let begin = format!("{check}=");
    let words = text.split([';', ' ', '\t']).filter_map(|word| word.strip_prefix(&begin));
    words.map(str::to_owned).collect()
}
