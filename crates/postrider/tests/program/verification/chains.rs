//! Chains that dkimpy, rspamd and this server seal in turn: each says the same of them, and nobody takes one
//! that was changed on its way.

use super::rspamd::Rspamd;
use super::sealing::{MESSAGE, other, pass, start};
use super::signers::verdicts;
use super::zone::Zone;
use crate::interop::place::is_possible;
use crate::support::Files;
use crate::support::name_server::NameServer;
use crate::support::server::Server;
use serde_json::{Value, json};

/// Who seals: dkimpy, rspamd, this server. rspamd 3.4 hashes the sets before its own in the wrong order
/// (RFC 8617 §5.1.1 has them in the order of their numbers), so what it seals is good as a first or second hop
/// only: [`rspamds_third_seal_is_good_to_nobody`].
const CHAINS: [&str; 4] = ["DRODO", "RODOD", "ORDOD", "RDOOD"];

struct Hops {
    files: Files,
    server: Server,
    rspamd: Rspamd,
    zone: Zone,
    /// That this server has passed on.
    passed: usize,
}

impl Hops {
    fn start() -> Hops {
        let (files, names, rspamd) = (Files::new(), NameServer::start(), Rspamd::start());
        let server = start(&files, &names);
        let text = std::fs::read_to_string(files.path("zone.json")).expect("the zone");
        let known: serde_json::Map<String, Value> = serde_json::from_str(&text).expect("JSON");
        let record = |record: &Value| record.as_str().expect("text").to_owned();
        rspamd.knows(known.iter().map(|(name, text)| (name, record(text))));
        let zone = known.iter().map(|(name, text)| (name.clone(), json!([{ "TXT": text }])));
        let zone = Zone::of(&Value::Object(zone.collect()));
        Hops { files, server, rspamd, zone, passed: 0 }
    }

    fn message(&self) -> String {
        std::fs::read_to_string(self.files.path("message.eml")).expect("a message")
    }

    fn write(&self, message: &str) {
        self.files.write("message.eml", message);
    }

    /// The message of this chain, sealed by one more; `to` gets it here.
    fn seal(&mut self, who: char, to: &str) {
        let port = self.rspamd.port.to_string();
        match who {
            'D' => _ = other(&self.files, &["seal", "theirs"]),
            'R' => _ = other(&self.files, &["rspamd-seal", "theirs", &port]),
            _ => _ = pass(&self.files, &self.server, to, &mut self.passed),
        }
    }

    /// What dkimpy, rspamd and we say of each message.
    fn verdicts(&self, messages: &[String]) -> Vec<[String; 3]> {
        self.files.write("messages.json", &json!(messages).to_string());
        let said = other(&self.files, &["verify-all", &self.rspamd.port.to_string()]);
        let theirs: Vec<[String; 2]> = serde_json::from_str(&said).expect("verdicts");
        assert_eq!(theirs.len(), messages.len(), "{said}");
        let all = messages.iter().zip(theirs);
        all.map(|(message, [dkimpy, rspamd])| [dkimpy, rspamd, self.verdict(message)]).collect()
    }

    /// What we say of a message.
    fn verdict(&self, message: &str) -> String {
        // As octets, each a character.
        let octets: String = message.bytes().map(char::from).collect();
        let ours = verdicts(&self.zone, &Value::String(octets), 64).summary().arc;
        ours.expect("a verdict").as_str().to_owned()
    }
}

/// What may become of a message between its hops.
fn changed(message: &str) -> Vec<String> {
    let (head, body) = message.split_once("\r\n\r\n").expect("a body");
    // A set that isn't there: of the first hop.
    let at = head.rfind("ARC-Authentication-Results:").expect("results");
    let mut changed = vec![
        format!("{head}\r\n\r\n{}", body.replace("Dear", "Deer")),
        format!("{message}more\r\n"),
        message.replace("Subject:  two", "Subject:  too"),
        message.replace("From: Jo <jo@good.test>", "From: Jo <jo@evil.test>"),
        format!("{}X-{}", &message[..at], &message[at..]),
        // What the first seal says of the chain before it.
        message.replace("cv=none", "cv=pass"),
    ];
    changed.retain(|other| other != message);
    changed
}

#[test]
fn chains_of_five_hops_by_dkimpy_rspamd_and_us_are_good_to_all_of_them() {
    if !is_possible(&["rspamd"]) {
        return;
    }
    let mut hops = Hops::start();
    for (n, chain) in CHAINS.iter().enumerate() {
        hops.write(MESSAGE);
        hops.passed = 0;
        for (hop, who) in chain.chars().enumerate() {
            hops.seal(who, &format!("al{n}"));
            let message = hops.message();
            let sets = message.matches("ARC-Seal:").count();
            assert_eq!(sets, hop + 1, "{chain}: {message}");
            let mut judged = changed(&message);
            assert_eq!(judged.len(), 6, "{message}");
            judged.push(message);
            for (n, said) in hops.verdicts(&judged).into_iter().enumerate() {
                let right = if n < 6 { "fail" } else { "pass" };
                assert_eq!(said, [right; 3], "{chain}, hop {hop}: {}", judged[n]);
            }
        }
    }
    hops.server.stop();
}

#[test]
fn rspamds_third_seal_is_good_to_nobody() {
    if !is_possible(&["rspamd"]) {
        return;
    }
    let mut hops = Hops::start();
    hops.write(MESSAGE);
    for who in "DOR".chars() {
        hops.seal(who, "al");
    }
    let message = hops.message();
    let said = hops.verdicts(std::slice::from_ref(&message));
    assert_eq!(said, [["fail"; 3]], "{message}");
    hops.server.stop();
}
