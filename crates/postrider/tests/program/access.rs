//! Access rules by Postfix's files, through the real program.

use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::{Files, config};

/// As postmap(1) reads it.
const SENDERS: &str = "\
# Who may not send to us.
spammer@bad.test        REJECT
bad.test                550 5.7.1 Nothing from
    this domain, please
friend@bad.test         OK
.sub.test               REJECT
<>                      DUNNO
notices@                450 4.7.1 Not now
info@odd.test           FILTER smtp:[127.0.0.1]
";

/// As cidr_table(5) has it.
const CLIENTS: &str = "\
192.0.2.0/24            REJECT
127.0.0.0/8             DUNNO
";

fn server(files: &Files) -> Server {
    files.write("senders", SENDERS);
    files.write("clients", CLIENTS);
    Server::start(
        files,
        &config(
            "[[table]]\nname = \"senders\"\nfile = { path = \"senders\" }\n\
             [[table]]\nname = \"clients\"\ncidr = { path = \"clients\" }\n\
             [[access]]\ntable = \"clients\"\nby = \"client\"\ndefault = \"refuse\"\n\
             [[access]]\ntable = \"senders\"\nby = \"sender\"\n\
             [[route]]\nmaildir = { path = \"mail/{local}\" }\n",
        ),
    )
}

fn rcpt(client: &mut Client, sender: &str, reply: &str) {
    client.say(&format!("MAIL FROM:<{sender}>"), "250");
    client.say("RCPT TO:<jo@here.test>", reply);
    client.say("RSET", "250");
}

#[test]
fn a_file_of_postfix_is_read_as_it_is_and_again_when_it_changes() {
    let files = Files::new();
    let server = server(&files);
    let mut client = Client::connect(server.address());
    for (sender, reply) in [
        ("spammer@bad.test", "550 5.7.1 Access denied"),
        ("other@bad.test", "550 5.7.1 Nothing from    this domain, please"),
        ("friend@bad.test", "250 2.1.5"),
        ("me@a.sub.test", "550 5.7.1 Access denied"),
        ("me@sub.test", "250 2.1.5"),
        ("", "250 2.1.5"),
        ("notices+1@any.test", "450 4.7.1 Not now"),
        ("info@odd.test", "451 4.3.5"),
    ] {
        rcpt(&mut client, sender, reply);
    }
    server.wait_console("a mistake", |line| {
        line.contains("table senders: info@odd.test has \"FILTER smtp:[127.0.0.1]\"")
    });
    files.write("senders", "friend@bad.test REJECT 5.7.1 No longer\n");
    server.wait_console("a new table", |line| line.contains("senders read anew"));
    rcpt(&mut client, "friend@bad.test", "550 5.7.1 No longer");
    rcpt(&mut client, "spammer@bad.test", "250 2.1.5");
    client.mail("me@bad.test", &["jo@here.test"], "Subject: one\r\n\r\nBody.\r\n");
    files.wait_maildir("mail/jo", 1);
    server.stop();
}
