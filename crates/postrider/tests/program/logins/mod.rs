//! Users whom other servers know, by the clients that people have.

mod clients;
pub(crate) mod dovecot_auth;
mod every_client;
mod fail2ban;
mod guesses;
pub(crate) mod tokens;

use crate::directories::slapd::{self, Slapd};
use crate::interop::place::is_possible;
use crate::support::certificate::{EC, make_certificate, make_issued, section};
use crate::support::server::Server;
use crate::support::{Files, tool, wait_until};
use clients::{LISTENERS, Login, Told, has_msmtp, msmtp, swaks};
use dovecot_auth::{DovecotAuth, PASSWORD};

/// On one listener STARTTLS, on the other TLS from the start; `keys` are of both, `rest` stands behind.
fn server(files: &Files, keys: &str, rest: &str) -> Server {
    make_certificate(files.dir(), "mx", EC, &["mail.here.test", "localhost"]);
    let listener = |name: &str, tls: &str| {
        format!(
            "[[listener]]\nname = \"{name}\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
             tls = \"{tls}\"\nlogin_failure_delay = \"0s\"\nlogin_failures_per_hour = 0\n{keys}\n"
        )
    };
    let text = format!(
        "hostname = \"mail.here.test\"\nspool = {{ path = \"spool\" }}\n\
         [admin]\naddress = \"127.0.0.1:0\"\n{}{}{}{rest}\
         [[route]]\nmaildir = {{ path = \"mail/{{local}}\" }}\n",
        section("mx", &["mail.here.test"]),
        listener("submission", "starttls"),
        listener("submissions", "implicit"),
    );
    Server::start(files, &text)
}

/// What is offered at the second listener, in its order.
fn offered(server: &Server) -> String {
    tool::python(
        "import smtplib, ssl, sys\n\
         c = smtplib.SMTP_SSL('127.0.0.1', int(sys.argv[1]), context=ssl._create_unverified_context())\n\
         c.ehlo()\n\
         print(c.esmtp_features.get('auth', 'none'), end='')\n",
        &[&server.addresses[1].port().to_string()],
    )
}

fn jo(mechanism: &str) -> Login<'_> {
    Login { mechanism, user: "jo", password: PASSWORD }
}

fn assert_sent(told: &Told, what: &str) {
    assert!(told.is_sent, "{what}: {}", told.said);
}

/// A wrong password is told from a server that does not answer.
fn assert_refused(told: &Told, status: &str) {
    assert!(!told.is_sent && told.said.contains(status), "{status}: {}", told.said);
}

#[test]
fn dovecot_says_who_users_are() {
    if !is_possible(&["dovecot-lmtpd"]) || !has_msmtp() {
        return;
    }
    let mut dovecot = DovecotAuth::start();
    let files = Files::new();
    let keys = format!(
        "logins = {{ dovecot = \"{}\" }}\n\
         mechanisms = [\"plain\", \"login\", \"scram-sha-256\", \"cram-md5\", \"xoauth2\"]",
        dovecot.socket()
    );
    let server = server(&files, &keys, "");
    // What it has of what is allowed: no XOAUTH2.
    assert_eq!(offered(&server).trim(), "PLAIN LOGIN SCRAM-SHA-256 CRAM-MD5");
    for listener in LISTENERS {
        for mechanism in ["PLAIN", "LOGIN", "CRAM-MD5"] {
            assert_sent(&swaks(&server, listener, jo(mechanism)), mechanism);
        }
        for mechanism in ["PLAIN", "LOGIN", "SCRAM-SHA-256", "CRAM-MD5"] {
            assert_sent(&msmtp(&files, &server, listener, jo(mechanism), &[]), mechanism);
        }
    }
    // He is called as it calls him.
    let loud = Login { mechanism: "PLAIN", user: "JO", password: PASSWORD };
    assert_sent(&swaks(&server, 0, loud), "JO");
    let received = files.wait_events("received", 15);
    assert!(received.iter().all(|event| event["login"] == "jo"), "{received:?}");
    for (mechanism, user) in [("PLAIN", "jo"), ("LOGIN", "nobody"), ("CRAM-MD5", "jo")] {
        let wrong = Login { mechanism, user, password: "pen" };
        assert_refused(&swaks(&server, 0, wrong), "535 5.7.8");
    }
    let wrong = Login { mechanism: "SCRAM-SHA-256", user: "al", password: "pen" };
    assert_refused(&msmtp(&files, &server, 1, wrong, &[]), "535 5.7.8");
    server.wait_console("the failure", |line| line.contains(" user=\"al\""));
    // Away, nobody is told that his password is wrong.
    dovecot.end();
    for mechanism in ["PLAIN", "CRAM-MD5"] {
        assert_refused(&swaks(&server, 0, jo(mechanism)), "454 4.7.0");
    }
    dovecot.start_again();
    assert_sent(&swaks(&server, 0, jo("PLAIN")), "it is back");
    assert_sent(&msmtp(&files, &server, 1, jo("SCRAM-SHA-256"), &[]), "it is back");
    let console = server.console().join("\n");
    assert!(!console.contains(PASSWORD) && !console.contains("amUAcGVuY2ls"), "{console}");
}

#[test]
fn a_directory_lets_users_bind() {
    if !is_possible(&["slapd"]) {
        return;
    }
    let mut slapd = Slapd::start();
    let files = Files::new();
    let table = format!(
        "[[table]]\nname = \"people\"\nrewrite = [\"lower\"]\n\
         ldap = {{ servers = [\"ldap://127.0.0.1:9\", \"{}\"], base = \"{}\", filter = \"(uid=%u)\", \
         attributes = [\"uid\"], connect_timeout = \"2s\", timeout = \"2s\" }}\n",
        slapd.url(),
        slapd::BASE
    );
    let server = server(&files, "logins = { ldap = \"people\" }", &table);
    assert_eq!(offered(&server).trim(), "PLAIN LOGIN");
    let login = |mechanism, user, password| swaks(&server, 0, Login { mechanism, user, password });
    assert_sent(&login("PLAIN", "joe", "password of joe"), "joe");
    assert_sent(&login("LOGIN", "Ann", "password of ann"), "ann");
    for (user, password) in [
        ("joe", "password of ann"),
        ("nobody", "password of joe"),
        ("*", "password of joe"),
        ("joe)(uid=ann", "password of ann"),
    ] {
        assert_refused(&login("PLAIN", user, password), "535 5.7.8");
    }
    // The entry has no password: nobody binds as eve, with an empty one least of all.
    assert_refused(&login("PLAIN", "eve", "x"), "535 5.7.8");
    let empty = tool::python(
        "import base64, smtplib, ssl, sys\n\
         c = smtplib.SMTP_SSL('127.0.0.1', int(sys.argv[1]), context=ssl._create_unverified_context())\n\
         c.ehlo()\n\
         print(c.docmd('AUTH PLAIN ' + base64.b64encode(b'\\0joe\\0').decode())[0])\n\
         print(c.docmd('AUTH LOGIN')[0], c.docmd(base64.b64encode(b'joe').decode())[0], c.docmd('')[0])\n",
        &[&server.addresses[1].port().to_string()],
    );
    assert_eq!(empty, "501\n334 334 501\n");
    slapd.stop();
    assert_refused(&login("PLAIN", "joe", "password of joe"), "454 4.7.0");
    slapd.run();
    wait_until("it is back", || login("PLAIN", "joe", "password of joe").is_sent);
    let console = server.console().join("\n");
    assert!(!console.contains("password of"), "{console}");
}

/// What becomes of a login by the certificate in these files, or by none, in words of the client.
fn external(server: &Server, listener: usize, dir: &Files, file: &str, identity: &str) -> String {
    let port = server.addresses[listener].port().to_string();
    let file = if file.is_empty() { String::new() } else { dir.path(file).display().to_string() };
    tool::python(
        "import base64, smtplib, ssl, sys\n\
         port, implicit, file, identity = int(sys.argv[1]), sys.argv[2] == '1', sys.argv[3], sys.argv[4]\n\
         context = ssl._create_unverified_context()\n\
         if file: context.load_cert_chain(file + '.pem', file + '.key')\n\
         try:\n\
         \x20   if implicit:\n\
         \x20       c = smtplib.SMTP_SSL('127.0.0.1', port, context=context)\n\
         \x20   else:\n\
         \x20       c = smtplib.SMTP('127.0.0.1', port)\n\
         \x20       c.starttls(context=context)\n\
         \x20   c.ehlo()\n\
         \x20   said = c.docmd('AUTH EXTERNAL ' + (base64.b64encode(identity.encode()).decode() or '='))\n\
         \x20   print(said[0], said[1].decode().split(' ')[0], end='')\n\
         \x20   if said[0] == 235: c.sendmail('me@source.test', ['you@far.test'], b'Subject: x\\r\\n\\r\\nbody\\r\\n')\n\
         except (OSError, smtplib.SMTPServerDisconnected):\n\
         \x20   print('no handshake', end='')\n",
        &[&port, &listener.to_string(), &file, identity],
    )
}

#[test]
fn certificates_say_who_users_are() {
    let files = Files::new();
    make_issued(files.dir(), "ca", &[("jo", "jo.users.test"), ("al", "al.users.test")]);
    make_issued(files.dir(), "others", &[("mallory", "jo.users.test")]);
    make_certificate(files.dir(), "self", EC, &["jo.users.test"]);
    let users = "[[table]]\nname = \"users\"\n[table.inline]\n\"jo.users.test\" = \"jo\"\n";
    let keys = "mechanisms = [\"external\"]\n\
                client_certificates = { authorities = \"ca.pem\", users = { table = \"users\" } }";
    let server = server(&files, keys, users);
    for listener in LISTENERS {
        let login =
            |file: &str, identity: &str| external(&server, listener, &files, file, identity);
        assert_eq!(login("jo", ""), "235 2.7.0");
        assert_eq!(login("jo", "jo"), "235 2.7.0");
        assert_eq!(login("jo", "al"), "535 5.7.8");
        // Nobody knows al, and what another authority or nobody has signed is as none.
        for file in ["al", "mallory", "self", ""] {
            assert_eq!(login(file, ""), "504 5.5.4", "{file}");
        }
    }
    let received = files.wait_events("received", 4);
    assert!(received.iter().all(|event| event["login"] == "jo" && event["tls_client"] == "jo"));
    let text = String::from_utf8(files.wait_maildir("mail/you", 4).remove(0)).expect("text");
    assert!(text.contains("(certificate of jo)") && text.contains("with ESMTPSA"), "{text}");
    if has_msmtp() {
        let [pem, key] = ["pem", "key"].map(|kind| files.path(&format!("jo.{kind}")));
        let more = [
            &format!("--tls-cert-file={}", pem.display())[..],
            &format!("--tls-key-file={}", key.display())[..],
        ];
        for listener in LISTENERS {
            let told = msmtp(&files, &server, listener, jo("EXTERNAL"), &more);
            assert_sent(&told, "msmtp");
        }
    }
}

#[test]
fn a_required_certificate_is_part_of_the_handshake() {
    let files = Files::new();
    make_issued(files.dir(), "ca", &[("jo", "jo.users.test")]);
    make_issued(files.dir(), "others", &[("mallory", "jo.users.test")]);
    let keys = "mechanisms = [\"external\"]\n\
                client_certificates = { authorities = \"ca.pem\", required = true }";
    let server = server(&files, keys, "");
    for listener in LISTENERS {
        assert_eq!(external(&server, listener, &files, "jo", "jo.users.test"), "235 2.7.0");
        for file in ["mallory", ""] {
            assert_eq!(external(&server, listener, &files, file, ""), "no handshake", "{file}");
        }
    }
    files.wait_events("received", 2);
}
