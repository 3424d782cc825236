//! Postfix as a client that is put off, comes again, and is remembered.

use super::chain::Hop as _;
use super::postfix;
use crate::support::Files;
use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::tool::free_port;
use std::net::SocketAddr;
use std::path::PathBuf;

fn config(port: u16) -> String {
    format!(
        "hostname = \"relay.test\"\n\
         [spool]\npath = \"spool\"\nsegment_bytes = \"8MiB\"\nmin_free_bytes = \"16MiB\"\n\
         [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:{port}\"\n\
         checks = {{ greylist = {{ delay = \"2s\", by_spf = false }} }}\n\
         [[route]]\ndomains = [\"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n"
    )
}

fn file(files: &Files) -> PathBuf {
    files.path("spool/greylist.records")
}

pub(super) fn postfix_comes_again_and_is_remembered() {
    let (files, port) = (Files::new(), free_port());
    let server = Server::start(&files, &config(port));
    let postfix = postfix::start(port);
    let address = SocketAddr::from(([127, 0, 0, 1], postfix.port()));
    let send = |number: usize| {
        let mut client = Client::connect(address);
        client.say(&format!("MAIL FROM:<list-{number}@far.test>"), "250");
        client.say("RCPT TO:<al@here.test>", "250");
        client.say("DATA", "354");
        client.send(format!("Subject: {number}\r\n\r\nbody\r\n"));
        client.say(".", "250");
        files.wait_maildir("mail/al", number);
    };
    send(1);
    let refused = files.wait_events("refused", 1);
    assert_eq!((&refused[0]["step"], &refused[0]["status"]), (&"RCPT".into(), &"4.7.1".into()));
    let count = refused.len();
    // Another number is the same sender: known.
    send(2);
    server.stop();
    // Over a stop, too.
    let server = Server::start_again(&files);
    send(3);
    server.stop();
    assert_eq!(files.events_of("refused").len(), count);
    // A file that makes no sense costs what was known, and nothing else.
    let mut turned = std::fs::read(file(&files)).expect("a file");
    turned[40] ^= 1;
    std::fs::write(file(&files), turned).expect("a file");
    let server = Server::start_again(&files);
    server.wait_console("damage", |line| {
        line.contains("greylist.records is damaged") && line.contains("all clients are new")
    });
    send(4);
    assert!(files.events_of("refused").len() > count);
    server.kill();
    assert!(files.path("spool/greylist.records.damaged").exists());
    // One that can't be opened has all kept in memory.
    std::fs::remove_file(file(&files)).expect("a file");
    std::fs::create_dir(file(&files)).expect("a directory");
    let server = Server::start_again(&files);
    server.wait_console("no file", |line| {
        line.contains("new clients are forgotten at the next start")
    });
    send(5);
    server.stop();
}
