//! Messages go through, every one exactly once and unaltered.

mod support;
use support::client::Client;
use support::server::Server;
use support::{Files, config};

#[test]
fn a_message_is_kept_in_a_maildir() {
    let files = Files::new();
    let server =
        Server::start(&files, &config("[[route]]\nmaildir = { path = \"mail/{domain}/{local}\" }"));
    let mut client = Client::connect(server.address());
    client.mail("me@example.org", &["you@example.net"], "Subject: Hello\r\n\r\nFirst light.\r\n");
    let [message] = &files.wait_maildir("mail/example.net/you", 1)[..] else { unreachable!() };
    assert!(message.ends_with(b"Subject: Hello\r\n\r\nFirst light.\r\n"));
    server.stop();
}
