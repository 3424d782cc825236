//! A message that rewriting splits: all parts are durable before the reply, and each is signed over its own content.

use super::signing::{judge, make_key, text_of};
use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::Server;
use crate::support::{Files, config};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const HEADER: &str = "From: Root <root@app1.example.org>\r\nReply-To: root@app1.example.org\r\n\
    To: a@in.test, b@out.test\r\nSubject: x\r\nDate: Tue, 24 Nov 2026 10:00:00 +0000\r\n\
    Message-ID: <1@example.org>\r\n\r\n";

/// A peer that ends each transaction while it is not open.
fn peer(is_open: &Arc<AtomicBool>) -> Peer {
    let is_open = Arc::clone(is_open);
    Peer::start(move |line| {
        (line.starts_with("MAIL") && !is_open.load(Ordering::Relaxed)).then(String::new)
    })
}

/// Two routes, of which one rewrites.
fn routes(files: &Files, inside: &Peer, outside: &Peer) -> String {
    format!(
        "[[signer]]\ndomains = [\"example.org\", \"*.example.org\"]\nselector = \"rsa1\"\n\
         key = \"{}\"\nsign_as = \"example.org\"\n\
         [[table]]\nname = \"generic\"\nfile = {{ path = \"generic\" }}\n\
         [[rewrite]]\ntable = \"generic\"\nroutes = [\"outside\"]\n\
         addresses = [\"envelope_sender\", \"from\", \"reply_to\"]\n\
         [retry]\nfirst = \"1s\"\n\
         [[route]]\nname = \"inside\"\ndomains = [\"in.test\"]\nsmtp = {{ hosts = [\"{}\"], tls = \"off\" }}\n\
         [[route]]\nname = \"outside\"\nsmtp = {{ hosts = [\"{}\"], tls = \"off\" }}\n",
        files.path("rsa1.pem").display(),
        inside.address,
        outside.address
    )
}

#[test]
fn parts_of_a_rewritten_message_are_durable_and_each_is_signed() {
    let files = Files::new();
    let record = make_key(&files, "example.org", "rsa1", "rsa");
    let zone = json!({ "rsa1._domainkey.example.org": [{ "TXT": record }] });
    files.write("generic", "root@app1.example.org alerts@example.org\n");
    let is_open = Arc::new(AtomicBool::new(false));
    let (inside, outside) = (peer(&is_open), peer(&is_open));
    let server = Server::start(&files, &config(&routes(&files, &inside, &outside)));
    let mut client = Client::connect(server.address());
    let to = ["a@in.test", "b@out.test"];
    // The second one is beyond `blob_bytes`: each part has its own body file.
    let bodies = ["A line\r\n".to_owned(), format!("{}\r\n", "y".repeat(76)).repeat(28_000)];
    for body in &bodies {
        client.mail("root@app1.example.org", &to, &format!("{HEADER}{body}"));
    }
    server.kill();
    is_open.store(true, Ordering::Relaxed);
    let server = Server::start_again(&files);
    server.wait_console("all parts", |line| line.contains(" queued=4 "));
    let mut cases = Vec::new();
    for (peer, address) in [(&inside, "root@app1.example.org"), (&outside, "alerts@example.org")] {
        for taken in peer.wait_taken(bodies.len()) {
            assert!(taken.mail.contains(&format!("<{address}>")), "{taken:?}");
            let content = text_of(&taken.content);
            assert!(
                content.contains(&format!("From: Root <{address}>\r\nReply-To: {address}\r\n"))
            );
            let signed = content.find("DKIM-Signature:").expect("signed");
            let case: [Value; 3] = [address.into(), content[signed..].into(), "pass".into()];
            cases.push(Value::from(case.to_vec()));
        }
    }
    server.stop();
    judge(&zone, &cases);
}
