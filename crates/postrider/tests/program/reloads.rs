//! Another configuration is put in force whole, or not at all.

use crate::support::certificate::{EC, make_certificate, section};
use crate::support::client::Client;
use crate::support::server::{CONFIG, Server};
use crate::support::{Files, tool};
use std::net::TcpListener;

/// A configuration whose every part says which one it is.
fn config(which: &str, more: &str) -> String {
    format!(
        "hostname = \"{which}.test\"\nspool = {{ path = \"spool\" }}\n{more}\n\
         [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n\
         max_recipients = {limit}\n\
         [[signer]]\ndomains = [\"author.test\"]\nselector = \"{which}\"\nkey = \"{which}.dkim\"\n\
         [[table]]\nname = \"users\"\n[table.inline]\n\"{which}@here.test\" = \"\"\n\
         [[route]]\nname = \"here\"\ndomains = [\"here.test\"]\nrecipients = {{ table = \"users\" }}\n\
         maildir = {{ path = \"mail/{which}\" }}\n\
         [[route]]\ndomains = [\"{which}.only.test\"]\ndiscard = {{}}\n{certificate}",
        limit = if which == "old" { 100 } else { 200 },
        certificate = section(which, &["mx.here.test"]),
    )
}

/// What a client and an operator see of it.
fn seen(files: &Files, server: &Server) -> Vec<String> {
    let mut client = Client::connect(server.address());
    let greeting = client.say("EHLO client.test", "250");
    let mut seen = vec![greeting.lines().next().unwrap_or_default().to_owned()];
    client.say("MAIL FROM:<jo@author.test>", "250");
    for which in ["old", "new"] {
        for to in [format!("{which}@here.test"), format!("x@{which}.only.test")] {
            client.send(format!("RCPT TO:<{to}>\r\n"));
            seen.push(format!("{to} {}", &client.reply()[..3]));
        }
    }
    let words = ["s_client", "-starttls", "smtp", "-connect", &server.to()];
    let shown = tool::run("openssl", &words);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let begin = shown.find("-----BEGIN").expect("a certificate");
    let end = shown.find("-----END").expect("its end");
    let of = |which: &str| std::fs::read_to_string(files.path(which)).expect("a certificate");
    let whose = ["old.pem", "new.pem"].map(|file| of(file).contains(shown[begin..end].trim()));
    seen.push(format!("{whose:?}"));
    seen
}

/// The selector that signs a message, and the mailbox that it lies in.
fn signed(files: &Files, server: &Server, which: &str) {
    let count = files.maildir(&format!("mail/{which}")).len();
    let content = "From: <jo@author.test>\r\nSubject: s\r\n\r\nx\r\n";
    let to = format!("{which}@here.test");
    Client::connect(server.address()).mail("jo@author.test", &[&to], content);
    let mails = files.wait_maildir(&format!("mail/{which}"), count + 1);
    let selector = format!("s={which};");
    let is_signed = |mail: &Vec<u8>| String::from_utf8_lossy(mail).contains(&selector);
    assert!(mails.iter().all(is_signed), "{which}");
}

#[test]
fn reload_keeps_everything_when_one_service_cannot_follow() {
    let files = Files::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    for which in ["old", "new"] {
        make_certificate(files.dir(), which, EC, &["mx.here.test"]);
        let key = files.path(&format!("{which}.dkim")).display().to_string();
        tool::succeed("sh", &["-c", &format!("umask 77; openssl genrsa -out {key} 2048")]);
    }
    let server = Server::start(&files, &config("old", ""));
    let before = seen(&files, &server);
    assert_eq!(before[1..3], ["old@here.test 250", "x@old.only.test 250"], "{before:?}");
    signed(&files, &server, "old");
    let port = taken.local_addr().expect("an address").port();
    let ordered = format!(
        "[acme]\ndirectory = \"https://localhost:9/dir\"\nterms_agreed = true\n\
         address = \"127.0.0.1:{port}\"\n[[certificate]]\nnames = [\"other.test\"]\nacme = true\n"
    );
    // Each is found by another service, and all else in the file is new.
    let mistakes: [(&str, &str); 9] = [
        ("[[table]]\nname = \"t\"\nfile = { path = \"missing\" }\n", "missing"),
        (
            "[[signer]]\ndomains = [\"x.test\"]\nselector = \"x\"\nkey = \"missing.dkim\"\n",
            "missing.dkim",
        ),
        (
            "[[certificate]]\nnames = [\"x.test\"]\nchain = \"new.pem\"\nkey = \"old.key\"\n",
            "old.key",
        ),
        ("classes = { files = [\"missing.classes\"] }\n", "missing.classes"),
        ("shaping = [\"missing.shaping\"]\n", "missing.shaping"),
        ("[srs]\ndomain = \"srs.test\"\nsecret_file = \"missing.srs\"\n", "missing.srs"),
        (
            "[[route]]\ndomains = [\"x.test\"]\nmaildir = { path = \"x\", user = \"no-such-user\" }\n",
            "no-such-user",
        ),
        (
            "[[route]]\ndomains = [\"x.test\"]\nsmtp = { hosts = [\"x.test\"], tls = \"required\", \
             login = { user = \"u\", password_file = \"missing.password\" } }\n",
            "missing.password",
        ),
        (&ordered, "127.0.0.1"),
    ];
    for (section, named) in mistakes {
        files.write(CONFIG, &config("new", section));
        let reload = server.command(&["reload"]);
        assert!(reload.code != 0 && reload.err.contains(named), "{section}: {reload:?}");
        assert!(reload.err.contains("the old configuration stays"), "{section}: {reload:?}");
        assert_eq!(seen(&files, &server), before, "{section}");
        signed(&files, &server, "old");
    }
    files.write(CONFIG, &config("new", ""));
    assert_eq!(server.command(&["reload"]).code, 0);
    let after = seen(&files, &server);
    assert_eq!(after[3..], ["new@here.test 250", "x@new.only.test 250", "[false, true]"]);
    signed(&files, &server, "new");
    server.stop();
}
