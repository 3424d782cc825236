//! A listener that checks, the DNS that it asks, and clients that are who they say or not.

use crate::support::client::Client;
use crate::support::http::get;
use crate::support::name_server::{Fault, NameServer};
use crate::support::server::Server;
use crate::support::tool::succeed;
use crate::support::{Files, config_with};
use std::process::Command;

/// Signs `message.eml` for good.test by `one._domainkey.good.test`, and prints the key's record.
const SIGN: &str = r#"
import base64, dkim, os, subprocess, sys
path = os.path.join(sys.argv[1], "key")
run = lambda *words: subprocess.run(words, check=True, capture_output=True).stdout
run("openssl", "genrsa", "-traditional", "-out", path, "2048")
public = run("openssl", "rsa", "-in", path, "-pubout", "-outform", "DER")
message = (b"From: Jo <jo@good.test>\r\nTo: al@here.test\r\nSubject: x\r\n"
    b"Authentication-Results: relay.test; dkim=pass header.d=bank.test\r\n\r\n"
    b"Dear reader,\r\n\r\n..\r\nbye\r\n")
key = open(path, "rb").read()
field = dkim.sign(message, b"one", b"good.test", key, include_headers=[b"from", b"to"])
open(os.path.join(sys.argv[1], "message.eml"), "wb").write(field + message)
print("v=DKIM1; p=" + base64.b64encode(public).decode(), end="")
"#;

/// Mail for here.test stays; 127.0.0.1 may not relay.
pub(super) fn config(names: &NameServer, checks: &str) -> String {
    let rest = format!(
        "{}[admin]\naddress = \"127.0.0.1:0\"\n\
         [[route]]\ndomains = [\"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n",
        names.section()
    );
    config_with("", &format!("checks = {{ {checks} }}\n"), &rest)
}

pub(super) const ALL: &str = "spf = \"mark\", dkim = \"mark\", dmarc = \"reject\", arc = \"mark\"";

fn admin(server: &Server) -> String {
    let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
    line.rsplit(' ').next().expect("an address").to_owned()
}

/// The DNS of good.test, which sends from here, and of strict.test, which does not; both ask to have
/// what is not theirs refused. mild.test asks for a quarantine.
pub(super) fn names() -> NameServer {
    let names = NameServer::start();
    names.txt("good.test", &["something", "v=spf1 ip4:127.0.0.1 -all"]);
    names.txt("_dmarc.good.test", &["v=DMARC1; p=reject"]);
    names.txt("strict.test", &["v=spf1 -all"]);
    names.txt("_dmarc.strict.test", &["v=DMARC1; p=reject"]);
    names.txt("_dmarc.mild.test", &["v=DMARC1; p=quarantine"]);
    names
}

/// Writes a message that good.test signed to `message.eml`.
pub(super) fn sign(files: &Files, names: &NameServer) {
    let dir = files.dir().display().to_string();
    let key = succeed("/usr/bin/python3", &["-c", SIGN, &dir]);
    names.txt("one._domainkey.good.test", &[&key]);
}

/// Sends a message to al@here.test; the reply to its content.
fn mail(server: &Server, from: &str, content: &str) -> String {
    let mut client = Client::connect(server.address());
    client.say(&format!("MAIL FROM:<{from}>"), "250");
    client.say("RCPT TO:<al@here.test>", "250");
    client.say("DATA", "354");
    client.send(content);
    client.say("\r\n.", "")
}

/// The value of Authentication-Results of the only message, in one line.
fn results(message: &[u8]) -> String {
    let field = mail::header::find(message, "Authentication-Results").expect("a field");
    String::from_utf8(field.unfolded().into_owned()).unwrap()
}

#[test]
fn signed_mail_is_marked_and_forged_results_renamed() {
    let (files, names) = (Files::new(), names());
    sign(&files, &names);
    let server = Server::start(&files, &config(&names, ALL));
    let signed = std::fs::read(files.path("message.eml")).unwrap();
    // By another one's envelope, as forwarded mail comes.
    let send = |message: &[u8]| {
        let file = files.path("sent.eml");
        std::fs::write(&file, message).unwrap();
        let words =
            ["--server", &server.to(), "--from", "list@strict.test", "--to", "al@here.test"];
        let data = format!("@{}", file.display());
        let swaks = Command::new("swaks").args(words).args(["--data", &data]).output().unwrap();
        String::from_utf8_lossy(&swaks.stdout).into_owned()
    };
    let said = send(&signed);
    assert!(said.contains("<-  250 2.0.0 Ok: queued"), "{said}");
    let message = files.wait_maildir("mail/al", 1).remove(0);
    let message = String::from_utf8(message).unwrap().replace('\n', "\r\n");
    let said = results(message.as_bytes());
    assert!(said.starts_with("relay.test;\tspf=fail reason="), "{said}");
    for wanted in [
        "smtp.mailfrom=strict.test;",
        "dkim=pass header.d=good.test header.s=one header.a=rsa-sha256;",
        "dmarc=pass header.from=good.test;",
        "arc=none",
    ] {
        assert!(said.contains(wanted), "{wanted} in {said}");
    }
    let renamed = "\r\nX-Foreign-Auth-Results: relay.test; dkim=pass header.d=bank.test\r\n";
    assert!(message.contains(renamed), "{message}");
    let received = files.wait_events("received", 1).remove(0);
    let words = ["spf", "dkim", "dmarc", "arc"].map(|check| received[check].as_str().unwrap());
    assert_eq!(words, ["fail", "pass", "pass", "none"]);
    // The same, changed: nothing speaks for the author any more.
    let said = send(&String::from_utf8(signed).unwrap().replace("Dear", "Deer").into_bytes());
    assert!(said.contains("<** 550 5.7.1 Rejected by the DMARC policy of good.test"), "{said}");
    let metrics = get(&admin(&server), "/metrics");
    for line in [
        "postrider_checked_total{check=\"dkim\",verdict=\"pass\"} 1\n",
        "postrider_checked_total{check=\"dkim\",verdict=\"fail\"} 1\n",
        "postrider_checked_total{check=\"dmarc\",verdict=\"fail\"} 1\n",
        "postrider_checked_total{check=\"spf\",verdict=\"fail\"} 2\n",
    ] {
        assert!(metrics.contains(line), "{line}{metrics}");
    }
    server.stop();
}

#[test]
fn the_authors_domain_decides_what_becomes_of_mail_that_is_not_its_own() {
    let (files, names) = (Files::new(), names());
    let server = Server::start(&files, &config(&names, "dmarc = \"reject\""));
    let of = |domain: &str| format!("From: jo@{domain}\r\nSubject: x\r\n\r\nbody");
    for (from, author, reply) in [
        ("jo@good.test", "good.test", "250"),
        ("jo@good.test", "mail.good.test", "250"),
        ("jo@good.test", "strict.test", "550 5.7.1"),
        ("jo@nowhere.test", "nowhere.test", "250"),
        ("jo@mild.test", "mild.test", "250"),
    ] {
        let said = mail(&server, from, &of(author));
        assert!(said.starts_with(reply), "{from} {author}: {said}");
    }
    let several = "From: jo@good.test\r\nFrom: jo@strict.test\r\n\r\nbody";
    let said = mail(&server, "jo@good.test", several);
    assert!(said.starts_with("550 5.7.1 DMARC validation failed: several From fields"), "{said}");
    // The quarantine.
    let held = files.wait_events("held", 1).remove(0);
    assert_eq!(held["reason"], "Rejected by the DMARC policy of mild.test");
    files.wait_maildir("mail/al", 3);
    assert_eq!(server.queue().len(), 1);
    server.stop();
}

#[test]
fn spf_refuses_or_puts_off_where_it_may() {
    let (files, names) = (Files::new(), names());
    names.txt("loud.test", &["v=spf1 -all exp=why.loud.test"]);
    names.txt("why.loud.test", &["%{i} is none of ours"]);
    names.fault("dead.test", Fault::Fails);
    let checks = "spf = \"reject\", temporary = \"defer\"";
    let server = Server::start(&files, &config(&names, checks));
    let content = "From: jo@good.test\r\n\r\nbody";
    for (from, reply) in [
        ("jo@good.test", "250"),
        (
            "jo@strict.test",
            "550 5.7.23 SPF validation failed: client not authorized for strict.test",
        ),
        (
            "jo@loud.test",
            "550 5.7.23 SPF validation failed: client not authorized for loud.test; explanation: 127.0.0.1 is none of ours",
        ),
        ("jo@dead.test", "451 4.7.24"),
        ("", "250"),
    ] {
        let said = mail(&server, from, content);
        assert!(said.starts_with(reply), "{from}: {said}");
    }
    server.stop();
}

#[test]
fn clients_that_may_relay_are_not_checked() {
    let (files, names) = (Files::new(), names());
    let all = format!("relay_from = [\"127.0.0.0/8\"]\nchecks = {{ {ALL} }}\n");
    let rest = format!("{}[[route]]\nmaildir = {{ path = \"mail/{{local}}\" }}\n", names.section());
    let server = Server::start(&files, &config_with("", &all, &rest));
    let content = "From: jo@strict.test\r\nAuthentication-Results: relay.test; none\r\n\r\nbody";
    assert!(mail(&server, "jo@strict.test", content).starts_with("250"));
    let message = String::from_utf8(files.wait_maildir("mail/al", 1).remove(0)).unwrap();
    assert_eq!(results(message.as_bytes()), "relay.test; none");
    assert_eq!(names.asked(), 0);
    assert!(files.wait_events("received", 1)[0].get("spf").is_none());
    server.stop();
}
