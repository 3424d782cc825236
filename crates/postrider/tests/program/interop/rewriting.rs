//! Rewriting side by side with Postfix's canonical and generic maps: the same file, messages and result.

use super::place::Place;
use super::postfix::launch_with;
use crate::support::client::Client;
use crate::support::peer::{Peer, Taken};
use crate::support::server::Server;
use crate::support::{Files, config};
use std::net::SocketAddr;

const MAP: &str = "\
# canonical(5)
root@app1.test          alerts@source.test
jo@app1.test            joanna.doe@source.test
jo+list@app1.test       list@source.test
@app1.test              @source.test
one@circle.test         two@circle.test
two@circle.test         three@circle.test
you@old.test            you@far.test
@far.old.test           @far.test
same@app2.test          Same@app2.test
";

/// Sender, recipient, and header.
const MESSAGES: &[(&str, &str, &str)] = &[
    ("root@app1.test", "you@far.test", "From: Root <root@app1.test>\r\nTo: you@far.test\r\n"),
    (
        "jo@app1.test",
        "you@far.test",
        "From: \"Doe, Jo\" <Jo@App1.test>\r\nTo: jo+list@app1.test\r\n",
    ),
    (
        "jo+tag@app1.test",
        "you@far.test",
        "From: jo+tag@app1.test (Jo)\r\nTo: <jo+list@app1.test>, x@app1.test\r\n",
    ),
    (
        "any+tag@app1.test",
        "you@far.test",
        "From: any+tag@app1.test\r\nCc: A <a@app1.test>,\r\n B <b@other.test>\r\n",
    ),
    ("one@circle.test", "you@far.test", "From: one@circle.test\r\nReply-To: two@circle.test\r\n"),
    (
        "me@app2.test",
        "you@old.test",
        "From: me@app2.test\r\nTo: you@old.test\r\nSender: root@app1.test\r\n",
    ),
    ("me@app2.test", "them@far.old.test", "From: same@app2.test\r\nTo: them@far.old.test\r\n"),
    ("", "you@far.test", "From: me@app2.test\r\nTo: Friends: root@app1.test, jo@app1.test;\r\n"),
];

/// What a peer got: the envelope, and the address fields without folds.
fn told(taken: &Taken) -> Vec<String> {
    let address = |line: &String| line.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
    let mut told = vec![address(&taken.mail)];
    told.extend(taken.rcpt.iter().map(address));
    told.extend(address_fields(&taken.content));
    told
}

/// The values of the address fields, in a fixed order and without folds.
pub(super) fn address_fields(content: &[u8]) -> [String; 5] {
    ["From", "Sender", "Reply-To", "To", "Cc"].map(|name| {
        let field = mail::header::find(content, name);
        let value = field.map(|field| String::from_utf8_lossy(&field.unfolded()).into_owned());
        value.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    })
}

/// Gives all messages to both servers, and compares what their next hops got.
fn compare(map: &str, main: &str, rule: &str) {
    let (theirs, ours, files) = (Peer::start(|_| None), Peer::start(|_| None), Files::new());
    let mut place = Place::new(0);
    place.write("map", map);
    files.write("map", map);
    let (dir, port) = (place.dir(), place.port);
    let (_, next) = theirs.address.split_once(':').expect("a port");
    let lines = format!(
        "relayhost = [127.0.0.1]:{next}\n{main} = texthash:{dir}/map\n\
         local_header_rewrite_clients = permit_mynetworks\nsmtp_tls_security_level = none\n\
         recipient_delimiter = +\n\
         propagate_unmatched_extensions = canonical, generic\n"
    );
    launch_with(&mut place, &lines, &format!("127.0.0.1:{port} inet n - n - - smtpd\n"));
    place.wait_listening(port);
    let text = format!(
        "[[table]]\nname = \"map\"\nfile = {{ path = \"map\" }}\n\
         [[rewrite]]\ntable = \"map\"\n{rule}\n[[route]]\nname = \"out\"\nsmtp = {{ hosts = [\"{}\"] }}\n",
        ours.address
    );
    let server = Server::start(&files, &config(&text));
    let mut wrong = String::new();
    for (at, (from, to, header)) in MESSAGES.iter().enumerate() {
        for address in [SocketAddr::from(([127, 0, 0, 1], port)), server.address()] {
            Client::connect(address).give(
                from,
                &[to],
                &format!("{header}Subject: x\r\n\r\nbody\r\n"),
            );
        }
        let [theirs, ours] = [&theirs, &ours].map(|peer| told(&peer.wait_taken(at + 1)[at]));
        if ours != theirs {
            wrong.push_str(&format!("{main}: {header}Postfix {theirs:?}\nhere    {ours:?}\n"));
        }
    }
    server.stop();
    assert!(wrong.is_empty(), "{wrong}");
}

pub(crate) fn canonical_addresses_are_those_of_postfix() {
    compare(MAP, "canonical_maps", "");
}

pub(crate) fn generic_addresses_are_those_of_postfix() {
    // Postfix looks up the result of a generic map no second time, so its file has no chains.
    let lines = MAP.lines().filter(|line| !line.contains("circle"));
    let map: String = lines.map(|line| format!("{line}\n")).collect();
    compare(&map, "smtp_generic_maps", "routes = [\"out\"]");
}
