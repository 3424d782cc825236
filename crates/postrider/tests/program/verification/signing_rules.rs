//! Who signs what, and what becomes of messages that nobody signs.

use super::signing::make_key;
use crate::support::certificate::{EC, make_certificate, section};
use crate::support::client::Client;
use crate::support::http::{get, metric};
use crate::support::name_server::NameServer;
use crate::support::server::{CONFIG, Server};
use crate::support::{Files, config_with};
use std::fs;

/// Domains of the table.
const DOMAINS: usize = 100_000;

/// Three listeners: where all must be signed, where it need not, and one of strangers.
fn configuration(files: &Files, names: &NameServer, more: &str) -> String {
    let listeners = "relay_from = [\"127.0.0.0/8\"]\nunsigned = \"refuse\"\n\
        [[listener]]\nname = \"open\"\naddress = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n\
        [[listener]]\nname = \"strangers\"\naddress = \"127.0.0.1:0\"\n\
        [[listener]]\nname = \"gateway\"\naddress = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\nsign = false\n";
    let key = |name: &str| files.path(name).display().to_string();
    let rest = format!(
        "{}[admin]\naddress = \"127.0.0.1:0\"\n\
         [[table]]\nname = \"keys\"\nfile = {{ path = \"{}\" }}\n\
         [[signer]]\ndomains = [\"example.org\", \"*.example.org\"]\nselector = \"s1\"\nkey = \"{}\"\n\
         next = {{ selector = \"s2\", key = \"{}\", from = \"FROM\" }}\n\
         [[signer]]\nkeys = {{ table = \"keys\" }}\n\
         [[signer]]\ndomains = [\"relay.test\"]\nselector = \"s1\"\nkey = \"{}\"\n{more}\
         [[route]]\ndomains = [\"far.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n\
         [[route]]\ndomains = [\"nobody.test\"]\nsmtp = {{ hosts = [\"127.0.0.1:1\"], tls = \"off\" }}\n\
         retry = {{ give_up_after = \"1s\", first = \"1s\" }}\n",
        names.section(),
        key("keys"),
        key("s1.pem"),
        key("s2.pem"),
        key("s1.pem"),
    );
    config_with("", listeners, &rest)
}

/// Hands in a message whose header begins with these fields; the reply to its content.
fn hand_in(server: &Server, listener: usize, to: &str, fields: &str) -> String {
    let mut client = Client::connect(server.addresses[listener]);
    client.say("MAIL FROM:<jo@far.test>", "250");
    client.say(&format!("RCPT TO:<{to}@far.test>"), "250");
    client.say("DATA", "354");
    client.send(format!("{fields}Subject: x\r\n\r\nHello\r\n"));
    client.send(".\r\n");
    client.reply()
}

/// Who signed it, each as selector and domain.
fn signers(message: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(message).replace("\n\t", " ");
    let header = text.split("\n\n").next().unwrap();
    let fields = header.lines().filter(|line| line.starts_with("DKIM-Signature:"));
    let tag = |line: &str, tag: &str| {
        let value = line.split(' ').find_map(|word| word.strip_prefix(tag));
        value.expect("a tag").trim_end_matches(';').to_owned()
    };
    fields.map(|line| format!("{} {}", tag(line, "s="), tag(line, "d="))).collect()
}

fn prepare(files: &Files) {
    for selector in ["s1", "s2", "t1"] {
        make_key(files, "example.org", selector, "ed25519");
    }
    let key = files.path("t1.pem").display().to_string();
    let mut keys: String = (0..DOMAINS).map(|n| format!("d{n}.test t{n} {key}\n")).collect();
    keys.push_str("lost.test s1 /nowhere/key.pem\nbroken.test nothing\n");
    fs::write(files.path("keys"), keys).unwrap();
}

#[test]
fn mail_of_the_house_is_signed_by_all_who_sign_for_its_author_and_no_other_mail() {
    let (files, names) = (Files::new(), NameServer::start());
    prepare(&files);
    let text = configuration(&files, &names, "").replace("FROM", "2099-01-01T00:00:00Z");
    let server = Server::start(&files, &text);
    for (to, fields, expected) in [
        ("own", "From: Jo <jo@Example.org>\r\n", "s1 example.org"),
        ("below", "From: jo@a.b.example.org\r\n", "s1 example.org"),
        ("table", "From: jo@d99999.test\r\n", "t99999 d99999.test"),
        ("again", "From: jo@d99998.test\r\n", "t99998 d99998.test"),
    ] {
        let reply = hand_in(&server, 0, to, fields);
        assert!(reply.starts_with("250 "), "{to}: {reply}");
        assert_eq!(signers(&files.wait_maildir(&format!("mail/{to}"), 1)[0]), [expected]);
    }
    for (fields, expected) in [
        ("", "550 5.7.20 "),
        ("From: jo@example.org\r\nFrom: al@example.org\r\n", "550 5.7.20 "),
        ("From: jo\r\n", "550 5.7.20 "),
        ("From: jo@elsewhere.test\r\n", "550 5.7.20 "),
        ("From: jo@lost.test\r\n", "451 4.7.5 "),
        ("From: jo@broken.test\r\n", "451 4.7.5 "),
    ] {
        let reply = hand_in(&server, 0, "none", fields);
        assert!(reply.starts_with(expected), "{fields:?}: {reply}");
    }
    server.wait_console("signing", |line| line.contains("/nowhere/key.pem"));
    // Where it need not be signed it is sent as it is; but not bare for want of a key.
    assert!(hand_in(&server, 1, "bare", "From: jo@elsewhere.test\r\n").starts_with("250 "));
    assert!(hand_in(&server, 1, "lost", "From: jo@lost.test\r\n").starts_with("451 4.7.5 "));
    // What strangers say, and what others wrote, nobody signs.
    assert!(hand_in(&server, 2, "strange", "From: jo@example.org\r\n").starts_with("250 "));
    assert!(hand_in(&server, 3, "passed", "From: jo@example.org\r\n").starts_with("250 "));
    for to in ["bare", "strange", "passed"] {
        assert_eq!(signers(&files.wait_maildir(&format!("mail/{to}"), 1)[0]), [""; 0], "{to}");
    }
    let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
    let metrics = get(line.rsplit(' ').next().unwrap(), "/metrics");
    for (name, expected) in [
        ("postrider_signatures_total{algorithm=\"ed25519-sha256\"}", 4),
        ("postrider_unsigned_total{reason=\"no_author\"}", 3),
        ("postrider_unsigned_total{reason=\"no_signer\"}", 2),
        ("postrider_signing_failures_total", 3),
    ] {
        assert_eq!(metric(&metrics, name), expected, "{name}");
    }
    server.stop();
}

#[test]
fn reports_are_signed_and_keys_follow_each_other() {
    let (files, names) = (Files::new(), NameServer::start());
    prepare(&files);
    let text = configuration(&files, &names, "");
    let later = text.replace("FROM", "2099-01-01T00:00:00Z");
    let server = Server::start(&files, &later);
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<sender@far.test>", "250");
    client.say("RCPT TO:<al@nobody.test>", "250");
    client.say("DATA", "354");
    client.send("From: jo@example.org\r\n\r\nHello\r\n");
    client.say(".", "250");
    assert_eq!(signers(&files.wait_maildir("mail/sender", 1)[0]), ["s1 relay.test"]);
    assert!(hand_in(&server, 0, "before", "From: jo@example.org\r\n").starts_with("250 "));
    files.write(CONFIG, &text.replace("FROM", "2020-01-01T00:00:00Z"));
    let reloaded = server.command(&["reload"]);
    assert_eq!(reloaded.code, 0, "{reloaded:?}");
    assert!(hand_in(&server, 0, "after", "From: jo@example.org\r\n").starts_with("250 "));
    assert_eq!(signers(&files.wait_maildir("mail/before", 1)[0]), ["s1 example.org"]);
    assert_eq!(signers(&files.wait_maildir("mail/after", 1)[0]), ["s2 example.org"]);
    // A key that is none any more: that which was read stays.
    fs::write(files.path("s2.pem"), "nothing").unwrap();
    server.wait_console("signing", |line| line.contains("s2.pem unchanged"));
    assert!(hand_in(&server, 0, "still", "From: jo@example.org\r\n").starts_with("250 "));
    assert_eq!(signers(&files.wait_maildir("mail/still", 1)[0]), ["s2 example.org"]);
    let reloaded = server.command(&["reload"]);
    assert!(reloaded.code != 0 && reloaded.err.contains(&format!("{CONFIG}:")), "{reloaded:?}");
    server.stop();
}

#[test]
fn the_dns_is_held_against_keys() {
    let (files, names) = (Files::new(), NameServer::start());
    prepare(&files);
    let record = make_key(&files, "example.org", "s3", "rsa");
    fs::rename(files.path("s3.pem"), files.path("s1.pem")).unwrap();
    let text = configuration(&files, &names, "").replace("FROM", "2099-01-01T00:00:00Z");
    files.write(CONFIG, &text);
    let check = || crate::support::server::command(files.dir(), &["dkim", "check", "example.org"]);
    let missing = check();
    assert_eq!((missing.code, missing.out.matches("no record").count()), (1, 2), "{missing:?}");
    assert!(missing.out.contains("s2._domainkey.example.org (from 2099-01-01T00:00:00.000Z)"));
    names.txt("s1._domainkey.example.org", &[&format!("{record}; t=y")]);
    names.txt("s2._domainkey.example.org", &[&record]);
    let wrong = check();
    assert!(wrong.out.contains("t=y") && wrong.out.contains("algorithm differ"), "{wrong:?}");
    let said = crate::support::server::program(
        files.dir(),
        &["dkim", "new", "example.org", "s1", "--out", "s1.pem"],
    );
    assert!(said.code == 1 && said.err.contains("exists"), "{said:?}");
    assert!(said.out.is_empty());
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(fs::metadata(files.path("s1.pem")).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A listener for users, who are announced by name, and signers for some of them.
fn with_users(files: &Files) -> String {
    make_certificate(files.dir(), "mx", EC, &["relay.test"]);
    let key = files.path("s1.pem").display().to_string();
    let signer = |domain: &str, whose: &str| {
        format!(
            "[[signer]]\ndomains = [\"{domain}\"]\nselector = \"s1\"\nkey = \"{key}\"\n{whose}\n"
        )
    };
    format!(
        "hostname = \"relay.test\"\nspool = {{ path = \"spool\" }}\n{}\
         [[listener]]\nname = \"users\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
         logins = {{ table = \"passwords\" }}\nxclient_from = [\"127.0.0.1\"]\n\
         unsigned = \"refuse\"\n\
         [[table]]\nname = \"passwords\"\n[table.inline]\nJo = \"{{PLAIN}}x\"\nal = \"{{PLAIN}}x\"\n\
         [[tenant]]\nname = \"acme\"\nlogins = [\"al\"]\n{}{}{}\
         [[route]]\ndomains = [\"far.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n",
        section("mx", &["relay.test"]),
        signer("logins.test", "logins = [\"jo\"]"),
        signer("tenants.test", "tenants = [\"acme\"]"),
        signer("all.test", ""),
    )
}

#[test]
fn a_signer_signs_mail_of_its_tenants_and_users_alone() {
    let files = Files::new();
    make_key(&files, "example.org", "s1", "ed25519");
    let server = Server::start(&files, &with_users(&files));
    for (user, mailbox, own, other) in [
        ("jo", "small", "logins.test", "tenants.test"),
        ("JO", "capitals", "logins.test", "tenants.test"),
        ("al", "tenant", "tenants.test", "logins.test"),
    ] {
        let mut client = Client::connect(server.address());
        client.say(&format!("XCLIENT LOGIN={user} HELO=a.test PROTO=ESMTP"), "220");
        for (author, reply) in [(own, "250"), ("all.test", "250"), (other, "550 5.7.20")] {
            client.say("MAIL FROM:<jo@far.test>", "250");
            client.say(&format!("RCPT TO:<{author}-{mailbox}@far.test>"), "250");
            client.say("DATA", "354");
            client.send(format!("From: jo@{author}\r\n\r\nHello\r\n.\r\n"));
            let said = client.reply();
            assert!(said.starts_with(reply), "{user} {author}: {said}");
        }
        for author in [own, "all.test"] {
            for message in files.wait_maildir(&format!("mail/{author}-{mailbox}"), 1) {
                assert_eq!(signers(&message), [format!("s1 {author}")]);
            }
        }
    }
    server.stop();
}
