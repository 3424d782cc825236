//! What strangers write is looked up, and put together with what the operator wrote; it is never read as if the
//! operator had written it. Through the real program, with tables as people have them.

use crate::support::certificate::{EC, make_certificate, section};
use crate::support::client::Client;
use crate::support::server::Server;
use crate::support::{Files, config};

fn table(name: &str, kind: &str, text: &str, files: &Files) -> String {
    files.write(name, text);
    format!("[[table]]\nname = \"{name}\"\n{kind} = {{ path = \"{name}\" }}\n")
}

fn rcpt(client: &mut Client, sender: &str, recipient: &str) -> String {
    client.say(&format!("MAIL FROM:<{sender}>"), "250");
    client.send(format!("RCPT TO:<{recipient}>\r\n"));
    let reply = client.reply();
    client.say("RSET", "250");
    reply
}

#[test]
fn a_pair_is_looked_up_in_patterns_unless_it_lacks_quotes() {
    for kind in ["pcre", "regexp"] {
        for composed in ["", "[[table]]\nname = \"all\"\nfirst = { tables = [\"pairs\"] }\n"] {
            let files = Files::new();
            let rules =
                "/^jo@x\\.test,list@here\\.test$/ OK\n/,list@here\\.test$/ REJECT not for you\n";
            let name = if composed.is_empty() { "pairs" } else { "all" };
            let text = table("pairs", kind, rules, &files)
                + composed
                + &format!(
                    "[[access]]\nclients = \"all\"\ntable = \"{name}\"\nby = \"sender+recipient\"\n\
                     [[route]]\nmaildir = {{ path = \"mail/{{local}}\" }}\n"
                );
            let server = Server::start(&files, &config(&text));
            let mut client = Client::connect(server.address());
            for (sender, recipient, expected) in [
                ("jo@x.test", "list@here.test", "250 2.1.5"),
                ("Jo@X.test", "list@here.test", "250 2.1.5"),
                ("al@x.test", "list@here.test", "550 5.7.1 not for you"),
                ("al@x.test", "jo@here.test", "250 2.1.5"),
                ("\"jo@x.test,list@here.test\"@evil.test", "list@here.test", "550 5.7.1"),
                ("jo@x.test", "\"al@y.test,list\"@here.test", "250 2.1.5"),
            ] {
                let reply = rcpt(&mut client, sender, recipient);
                assert!(reply.starts_with(expected), "{kind} {name} {sender} {recipient}: {reply}");
            }
            server.stop();
        }
    }
}

#[test]
fn a_user_is_granted_no_address_by_how_he_is_called() {
    let files = Files::new();
    make_certificate(files.dir(), "mx", EC, &["mail.here.test", "localhost"]);
    let patterns = "/^(.*)@crew\\.test$/ ${1}@crew.test all@crew.test\n/^raw:(.*)$/ $1\n/^(.*)$/ ${1}@y.test\n";
    let text = format!(
        "hostname = \"mail.here.test\"\nspool = {{ path = \"spool\" }}\n{}{}\
         [[table]]\nname = \"passwords\"\n[table.inline]\nx = \"!\"\n\
         [[listener]]\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\ntls = \"starttls\"\n\
         logins = {{ table = \"passwords\" }}\nsenders = {{ table = \"senders\" }}\n\
         authors = \"senders\"\nxclient_from = [\"127.0.0.1\"]\n\
         [[route]]\nmaildir = {{ path = \"mail/{{local}}\" }}\n",
        section("mx", &["mail.here.test"]),
        table("senders", "pcre", patterns, &files),
    );
    let server = Server::start(&files, &text);
    for (login, sender, is_his) in [
        ("jo", "jo@y.test", true),
        ("jo", "ceo@y.test", false),
        ("ceo@y.test,jo", "ceo@y.test", false),
        ("ceo@y.test+20jo", "ceo@y.test", false),
        ("+22,ceo@y.test,+22", "ceo@y.test", false),
        ("jo@crew.test", "jo@crew.test", true),
        ("jo@crew.test", "all@crew.test", true),
        ("ceo@x.test,jo@crew.test", "ceo@x.test", false),
        ("ceo@x.test+20jo@crew.test", "ceo@x.test", false),
        ("raw:jo@x.test", "jo@x.test", true),
        ("raw:x.test", "ceo@x.test", false),
        ("raw:@x.test", "ceo@x.test", false),
        ("raw:a,x.test", "ceo@x.test", false),
    ] {
        let mut client = Client::connect(server.address());
        client.say(&format!("XCLIENT ADDR=192.0.2.7 LOGIN={login}"), "220");
        client.say("EHLO client.test", "250");
        let expected = if is_his { "250" } else { "553 5.7.1" };
        client.say(&format!("MAIL FROM:<{sender}>"), expected);
        // The same of whom the header names.
        client.say("RSET", "250");
        client.say("MAIL FROM:<>", "250");
        client.say("RCPT TO:<al@far.test>", "250");
        client.say("DATA", "354");
        let expected = if is_his { "250" } else { "550 5.7.1" };
        client.say(&format!("From: {sender}\r\n\r\nx\r\n."), expected);
    }
    server.stop();
}

#[test]
fn an_address_leads_into_no_other_mailbox() {
    let files = Files::new();
    let patterns = "/^(.*)@(here\\.test)$/ $2/$1/\n";
    let text = table("users", "pcre", patterns, &files)
        + "[[route]]\nrecipients = { table = \"users\" }\nmaildir = { path = \"mail/{value}\" }\n";
    let server = Server::start(&files, &config(&text));
    let mut client = Client::connect(server.address());
    for recipient in
        ["jo@here.test", "jo/.trash@here.test", "jo/new@here.test", "\"a/b\"@here.test"]
    {
        client.mail("me@source.test", &[recipient], "Subject: x\r\n\r\nx\r\n");
    }
    for (path, count) in [("jo", 1), ("jo%2F.trash", 1), ("jo%2Fnew", 1), ("\"a%2Fb\"", 1)] {
        files.wait_maildir(&format!("mail/here.test/{path}"), count);
    }
    assert!(!files.path("mail/here.test/jo/.trash").exists());
    assert_eq!(files.maildir("mail/here.test/jo").len(), 1);
    server.stop();
}
