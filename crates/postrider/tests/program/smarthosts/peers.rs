//! Other people's servers that take mail of their users only: Postfix, whose users Dovecot knows, and
//! aiosmtpd.

use super::{near, route, send, write_secret};
use crate::interop::place::{Place, is_possible};
use crate::interop::postfix::launch_with;
use crate::logins::dovecot_auth::{DovecotAuth, PASSWORD};
use crate::support::certificate::{EC, make_certificate};
use crate::support::tool::free_port;
use crate::support::{Files, wait_until};
use std::process::Command;

/// How a route logs in, and by which mechanism it should come.
const WAYS: &[(&str, &str, &str)] = &[
    ("any", "", "SCRAM-SHA-256"),
    ("plain", ", mechanisms = [\"plain\"]", "PLAIN"),
    ("login", ", mechanisms = [\"login\"]", "LOGIN"),
    ("scram", ", mechanisms = [\"scram-sha-256\"]", "SCRAM-SHA-256"),
];

/// Routes by each of these ways, and one with another password.
fn routes(port: u16, ways: &[(&str, &str, &str)]) -> String {
    let login = |file: &str, more: &str| {
        format!("tls = \"verified\", login = {{ user = \"jo\", password_file = \"{file}\"{more} }}")
    };
    let right = ways.iter().map(|(name, more, _)| route(name, port, &login("secret", more)));
    right.collect::<String>() + &route("wrong", port, &login("other", ""))
}

/// A relay that logs in with the right password, and with another one.
fn secrets() -> Files {
    let files = Files::new();
    write_secret(&files, "secret", PASSWORD);
    write_secret(&files, "other", "pen");
    files
}

fn is_refused(files: &Files, domain: &str) -> bool {
    files.events_of("suspended").iter().any(|event| {
        let text = event.to_string();
        text.contains("4.7.8") && text.contains("535") && text.contains(domain)
    })
}

#[test]
fn postfix_takes_mail_of_a_user_whom_dovecot_knows() {
    if !is_possible(&["dovecot-lmtpd"]) {
        return;
    }
    let dovecot = DovecotAuth::start();
    let mut place = Place::new(0);
    make_certificate(&place.path("."), "tls", EC, &["IP:127.0.0.1"]);
    let (dir, port) = (place.dir(), place.port);
    let lines = format!(
        "inet_interfaces = 127.0.0.1\nsmtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = dovecot\n\
         smtpd_sasl_path = {}\nsmtpd_tls_auth_only = yes\nsmtpd_tls_security_level = may\n\
         smtpd_tls_chain_files = {dir}/tls.key, {dir}/tls.pem\n\
         smtpd_relay_restrictions = permit_sasl_authenticated, reject\ndefault_transport = discard\n",
        dovecot.socket()
    );
    launch_with(&mut place, &lines, &format!("127.0.0.1:{port} inet n - n - - smtpd\n"));
    place.wait_listening(port);
    let files = secrets();
    let near = near(&files, &routes(port, WAYS), &place.path("tls.pem").display().to_string());
    let log = || std::fs::read_to_string(place.path("postfix.log")).unwrap_or_default();
    for (count, (domain, _, mechanism)) in WAYS.iter().enumerate() {
        send(&near, domain);
        wait_until(domain, || files.events_of("relayed").len() > count);
        let told = format!("sasl_method={mechanism}, sasl_username=jo");
        let last = log().lines().rfind(|line| line.contains("sasl_method=")).map(str::to_owned);
        assert!(last.is_some_and(|line| line.contains(&told)), "{domain}: {}", log());
    }
    send(&near, "wrong");
    wait_until("the other password is refused", || is_refused(&files, "wrong"));
    near.stop();
}

/// Takes mail of `jo` over TLS, and writes by which mechanism he came, a line for each message.
const AIOSMTPD: &str = r#"
import ssl, sys, time
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
port, password = int(sys.argv[1]), sys.argv[2].encode()
def check(server, session, envelope, mechanism, data):
    session.by = mechanism
    return AuthResult(success=data.login == b"jo" and data.password == password, handled=False)
class Handler:
    async def handle_DATA(self, server, session, envelope):
        with open("came", "a") as file:
            print(session.by, file=file)
        return "250 2.0.0 Ok"
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain("tls.pem", "tls.key")
controller = Controller(Handler(), hostname="127.0.0.1", port=port, tls_context=context,
    require_starttls=True, authenticator=check, auth_required=True)
controller.start()
while True:
    time.sleep(60)
"#;

#[test]
fn aiosmtpd_takes_mail_of_its_user() {
    // Debian's package is Debian's Python's.
    let python = "/usr/bin/python3";
    let has_it = Command::new(python).args(["-c", "import aiosmtpd"]).output();
    if !has_it.is_ok_and(|output| output.status.success()) {
        skips::missing("python3-aiosmtpd");
        return;
    }
    let mut place = Place::new(0);
    make_certificate(&place.path("."), "tls", EC, &["IP:127.0.0.1"]);
    let port = free_port();
    let mut command = Command::new(python);
    command.args(["-c", AIOSMTPD, &port.to_string(), PASSWORD]).current_dir(place.path("."));
    place.start(command, "aiosmtpd.log");
    place.wait_listening(port);
    let files = secrets();
    let ways: Vec<_> = WAYS.iter().filter(|way| way.0 != "scram").copied().collect();
    let near = near(&files, &routes(port, &ways), &place.path("tls.pem").display().to_string());
    for (count, (domain, ..)) in ways.iter().enumerate() {
        send(&near, domain);
        wait_until(domain, || files.events_of("relayed").len() > count);
    }
    let came = std::fs::read_to_string(place.path("came")).expect("mail came");
    assert_eq!(came, "PLAIN\nPLAIN\nLOGIN\n");
    send(&near, "wrong");
    wait_until("the other password is refused", || is_refused(&files, "wrong"));
    near.stop();
}
