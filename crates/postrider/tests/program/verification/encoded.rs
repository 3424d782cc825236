//! Signatures on content that next hops don't take as it is.

use super::signing::{judge, make_key, text_of};
use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::Server;
use crate::support::{Files, config_with};
use serde_json::{Value, json};

/// Listeners that encode more and less before they sign.
const RULES: [&str; 3] = ["8bit", "long_lines", "never"];

/// What each listener is handed: short lines of ASCII, a long line, 8-bit text, and parts of both kinds.
fn messages() -> [String; 4] {
    let head = "From: jo@example.org\r\nTo: al@far.test\r\nSubject: x\r\n\
                Date: Tue, 24 Nov 2026 10:00:00 +0000\r\nMessage-ID: <1@example.org>\r\n";
    let mime = "MIME-Version: 1.0\r\nContent-Type: ";
    let eight_bit = "text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n";
    let (long, umlauts) = ("x".repeat(20_000), "Gr\u{fc}\u{df}e \u{20ac}\r\n..\r\n");
    [
        format!("{head}\r\nHello\r\n"),
        format!("{head}\r\nbefore\r\n{long}\r\nafter\r\n"),
        format!("{head}{mime}{eight_bit}\r\n{umlauts}"),
        format!(
            "{head}{mime}multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: {eight_bit}\r\n\
             {umlauts}--b\r\nContent-Type: text/html; charset=us-ascii\r\n\r\n<p>{long}</p>\r\n--b--\r\n"
        ),
    ]
}

/// A server with a listener for each of the rules, whose mail goes to this peer.
fn server(files: &Files, to: &Peer) -> Server {
    let listener = |rule: &str| {
        format!(
            "[[listener]]\nname = \"{rule}\"\naddress = \"127.0.0.1:0\"\n\
             relay_from = [\"127.0.0.0/8\"]\nencode_before_signing = \"{rule}\"\n"
        )
    };
    let others: String = RULES[1..].iter().map(|rule| listener(rule)).collect();
    let first =
        format!("relay_from = [\"127.0.0.0/8\"]\nencode_before_signing = \"{}\"\n", RULES[0]);
    let rest = format!(
        "{others}[[signer]]\ndomains = [\"example.org\"]\nselector = \"rsa1\"\nkey = \"{}\"\n\
         [[route]]\nsmtp = {{ hosts = [\"{}\"], tls = \"off\" }}\n",
        files.path("rsa1.pem").display(),
        to.address,
    );
    Server::start(files, &config_with("", &first, &rest))
}

#[test]
fn what_is_encoded_before_it_is_signed_is_verified_behind_a_peer_without_8bitmime() {
    let files = Files::new();
    let record = make_key(&files, "example.org", "rsa1", "rsa");
    let zone = json!({ "rsa1._domainkey.example.org": [{ "TXT": record }] });
    let peer = Peer::start_at("127.0.0.1:0", "250 SIZE 0", |_| None);
    let server = server(&files, &peer);
    for (address, rule) in server.addresses.iter().zip(RULES) {
        for (n, message) in messages().iter().enumerate() {
            let mut client = Client::connect(*address);
            client.say("MAIL FROM:<jo@example.org> BODY=8BITMIME", "250");
            client.say("RCPT TO:<al@far.test>", "250");
            client.say("DATA", "354");
            let stuffed = format!("X-Case: {rule} {n}\r\n{message}").replace("\r\n.", "\r\n..");
            client.send(stuffed);
            client.say(".", "250");
        }
    }
    let mut cases: Vec<Value> = Vec::new();
    for taken in peer.wait_taken(RULES.len() * messages().len()) {
        assert!(taken.content.is_ascii(), "{}", text_of(&taken.content));
        let longest = taken.content.split(|byte| *byte == b'\n').map(<[u8]>::len).max();
        assert!(longest <= Some(999), "{longest:?}");
        let message = text_of(&taken.content);
        let message = &message[message.find("DKIM-Signature:").expect("signed")..];
        let case = message.split("X-Case: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let case = case.expect("a number").to_owned();
        // What is encoded only on its way out is not what was signed.
        let expected = match &*case {
            "long_lines 2" | "long_lines 3" | "never 1" | "never 2" | "never 3" => "fail",
            _ => "pass",
        };
        cases.push(json!([case, message, expected]));
    }
    server.stop();
    judge(&zone, &cases);
}
