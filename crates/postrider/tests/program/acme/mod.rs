//! Certificates from an authority, which is Pebble.

mod pebble;

use crate::support::client::Client;
use crate::support::http::{get, metric};
use crate::support::server::{CONFIG, Server, command};
use crate::support::{Files, WAIT_MAX, tool, wait_until};
use pebble::{Pebble, Place};
use serde_json::json;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const CERTIFICATE: &str = "[[certificate]]\nnames = [\"mx.here.test\"]\nacme = true\n";
const ISSUED: &str = "has issued the certificate for mx.here.test";

/// A server with STARTTLS on its first listener, and TLS from the start on its second.
fn config(sections: &str) -> String {
    format!(
        "hostname = \"mx.here.test\"\nspool = {{ path = \"spool\" }}\n\
         [[listener]]\nname = \"mx\"\naddress = \"127.0.0.1:0\"\n\
         [[listener]]\nname = \"smtps\"\naddress = \"127.0.0.1:0\"\ntls = \"implicit\"\n\
         [[route]]\ndomains = [\"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n\
         [admin]\naddress = \"127.0.0.1:0\"\n{sections}"
    )
}

fn orders(server: &Server, outcome: &str) -> u64 {
    let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
    let metrics = get(line.rsplit(' ').next().expect("an address"), "/metrics");
    metric(&metrics, &format!("postrider_acme_orders_total{{outcome=\"{outcome}\"}}"))
}

/// What `openssl s_client` says of STARTTLS at an address, with the authority's root.
fn shown(files: &Files, address: SocketAddr, name: &str) -> String {
    let (to, root) = (address.to_string(), files.path("root.pem").display().to_string());
    let words = [
        "s_client",
        "-starttls",
        "smtp",
        "-connect",
        &to,
        "-servername",
        name,
        "-CAfile",
        &root,
        "-verify_hostname",
        name,
        "-verify_return_error",
        "-showcerts",
    ];
    let output = tool::run("openssl", &words);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The serial number of what is shown, which is valid.
fn serial(files: &Files, address: SocketAddr) -> String {
    let text = shown(files, address, "mx.here.test");
    assert!(text.contains("Verify return code: 0 (ok)"), "{text}");
    files.write("shown.pem", &text);
    let path = files.path("shown.pem").display().to_string();
    tool::succeed("openssl", &["x509", "-noout", "-serial", "-in", &path])
}

fn offers_tls(server: &Server) -> bool {
    let mut client = Client::raw(server.address());
    client.expect("220");
    client.say("EHLO client.test", "250").contains("STARTTLS")
}

fn stored(files: &Files) -> Vec<PathBuf> {
    let entries = fs::read_dir(files.path("spool/acme")).expect("a directory");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

#[test]
fn a_certificate_comes_by_http_and_is_served() {
    let Some(program) = pebble::program() else { return };
    let files = Files::new();
    let place = Place::new(&files);
    let _pebble = Pebble::start(&program, &files, &place, &[], &[]);
    let certificate =
        "[[certificate]]\nnames = [\"mx.here.test\", \"WWW.here.test\"]\nacme = true\n";
    let server = Server::start(&files, &config(&(place.section("") + certificate)));
    server.wait_console("issued", |line| line.contains(ISSUED));
    wait_until("it is in use", || offers_tls(&server));
    for name in ["mx.here.test", "www.here.test"] {
        let text = shown(&files, server.address(), name);
        assert!(text.contains("Verify return code: 0 (ok)"), "{text}");
        assert!(text.contains("id-ecPublicKey") || text.contains("EC, 256"), "{text}");
    }
    for path in stored(&files) {
        let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
    assert_eq!(stored(&files).len(), 3, "the account, the certificate, when it was ordered");
    assert_eq!([orders(&server, "issued"), orders(&server, "refused")], [1, 0]);
    // Its port tells nobody anything.
    let at = SocketAddr::from(([127, 0, 0, 1], place.answers));
    for path in ["/", "/.well-known/acme-challenge/x", "/.well-known/acme-challenge/"] {
        let url = format!("http://{at}{path}");
        let code = tool::succeed("curl", &["-s", "-o", "/dev/null", "-w", "%{http_code}", &url]);
        assert_eq!(code, "404", "{path}");
    }
    let checked = command(files.dir(), &["check"]);
    let line = "certificate for mx.here.test, www.here.test from https://localhost:";
    assert!(checked.code == 0 && checked.out.contains(line), "{checked:?}");
    assert!(checked.out.contains("stored in spool/acme/mx.here.test.pem"), "{checked:?}");
}

#[test]
fn a_certificate_comes_by_tls_for_a_customer_of_the_authority() {
    let Some(program) = pebble::program() else { return };
    let files = Files::new();
    let place = Place::new(&files);
    let more = [
        ("externalAccountBindingRequired", json!(true)),
        (
            "externalAccountMACKeys",
            json!({ "kid-1": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W" }),
        ),
    ];
    let _pebble = Pebble::start(&program, &files, &place, &more, &[]);
    let key = files
        .write("eab.key", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W\n");
    fs::set_permissions(key, fs::Permissions::from_mode(0o600)).expect("a file of ours");
    let acme = place.section(
        "challenge = \"tls-alpn-01\"\nexternal_account = { key_id = \"kid-1\", key_file = \"eab.key\" }",
    );
    let rsa = format!("{CERTIFICATE}key_type = \"rsa\"\n");
    let server = Server::start(&files, &config(&(acme + CERTIFICATE + &rsa)));
    let is_issued = || {
        stored(&files).iter().filter(|path| path.extension().is_some_and(|e| e == "pem")).count()
            == 2
    };
    server.wait_console("issued", |line| line.contains(ISSUED));
    wait_until("both", is_issued);
    wait_until("both are told", || orders(&server, "issued") == 2);
    for (curve, kind) in [("ECDSA+SHA256", "ECDSA"), ("RSA-PSS+SHA256", "RSA-PSS")] {
        let to = server.address().to_string();
        let root = files.path("root.pem").display().to_string();
        let words = [
            "s_client",
            "-starttls",
            "smtp",
            "-connect",
            &to,
            "-servername",
            "mx.here.test",
            "-CAfile",
            &root,
            "-verify_return_error",
            "-sigalgs",
            curve,
        ];
        let output = tool::run("openssl", &words);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(&format!("Peer signature type: {kind}")), "{text}");
    }
    assert_eq!(orders(&server, "refused"), 0);
}

#[test]
fn a_restart_keeps_the_certificate_and_orders_none() {
    let Some(program) = pebble::program() else { return };
    let files = Files::new();
    let place = Place::new(&files);
    let _pebble = Pebble::start(&program, &files, &place, &[], &[]);
    let server = Server::start(&files, &config(&(place.section("") + CERTIFICATE)));
    server.wait_console("issued", |line| line.contains(ISSUED));
    wait_until("it is in use", || offers_tls(&server));
    let first = serial(&files, server.address());
    server.stop();
    let server = Server::start_again(&files);
    assert_eq!(serial(&files, server.address()), first, "from the start");
    // Whatever was due would be ordered before this one.
    let other = "[[certificate]]\nnames = [\"www.here.test\"]\nacme = true\n";
    files.write(CONFIG, &config(&(place.section("") + CERTIFICATE + other)));
    assert_eq!(server.command(&["reload"]).code, 0);
    server.wait_console("issued", |line| line.contains("the certificate for www.here.test"));
    wait_until("it is told", || orders(&server, "issued") > 0);
    assert_eq!(orders(&server, "issued"), 1);
    assert_eq!(serial(&files, server.address()), first);
    // A file that is damaged is told, and does not keep the server from starting.
    server.stop();
    files.write("spool/acme/mx.here.test.pem", "nothing\n");
    let server = Server::start_again(&files);
    server.wait_console("the damage", |line| line.contains("skipped: certificate of line "));
    server.wait_console("issued", |line| line.contains(ISSUED));
    wait_until("another one", || {
        shown(&files, server.address(), "mx.here.test").contains("Verify return code: 0 (ok)")
    });
}

/// Sends mail over STARTTLS until a file says that it is enough; says how much it was.
const SENDER: &str = "\
import os, smtplib, ssl, sys\n\
count = 0\n\
while not os.path.exists(sys.argv[2]):\n\
\x20   client = smtplib.SMTP('127.0.0.1', int(sys.argv[1]))\n\
\x20   client.starttls(context=ssl._create_unverified_context())\n\
\x20   client.sendmail('me@source.test', ['you@here.test'], b'Subject: x\\r\\n\\r\\nx\\r\\n')\n\
\x20   client.quit()\n\
\x20   count += 1\n\
print(count)\n";

#[test]
fn a_certificate_is_renewed_while_mail_comes_in() {
    let Some(program) = pebble::program() else { return };
    let files = Files::new();
    let place = Place::new(&files);
    let brief = [("profiles", json!({ "default": { "description": "", "validityPeriod": 10 } }))];
    let _pebble = Pebble::start(&program, &files, &place, &brief, &[]);
    let certificate = format!("{CERTIFICATE}reuse_key = true\n");
    let server = Server::start(&files, &config(&(place.section("") + &certificate)));
    server.wait_console("issued", |line| line.contains(ISSUED));
    wait_until("it is in use", || offers_tls(&server));
    let end = files.path("enough");
    let mut sender = Command::new("python3");
    sender.args(["-c", SENDER, &server.address().port().to_string()]).arg(&end);
    let sender = sender.stdout(Stdio::piped()).spawn().expect("python3");
    let key = || {
        let path = files.path("spool/acme/mx.here.test.pem").display().to_string();
        tool::succeed("openssl", &["pkey", "-pubout", "-in", &path])
    };
    let (first, first_key) = (serial(&files, server.address()), key());
    wait_until("another one", || serial(&files, server.address()) != first);
    assert_eq!(key(), first_key);
    fs::write(&end, "").expect("a file");
    let output = sender.wait_with_output().expect("a child of ours");
    assert!(output.status.success(), "{output:?}");
    let count: usize = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a count");
    assert!(count > 0);
    files.wait_maildir("mail/you", count);
    assert_eq!(orders(&server, "refused"), 0);
}

#[test]
fn an_authority_that_is_away_is_waited_for_while_mail_comes_in() {
    let Some(program) = pebble::program() else { return };
    let files = Files::new();
    let place = Place::new(&files);
    let server = Server::start(&files, &config(&(place.section("") + CERTIFICATE)));
    server.wait_console("the failure", |line| {
        line.contains("no certificate for mx.here.test from localhost:")
            && line.contains("refused")
            && line.contains("; next try at ")
    });
    // Nothing that can't be done is offered, and mail goes on.
    assert!(!offers_tls(&server));
    let mut client = Client::connect(server.address());
    client.say("STARTTLS", "502 5.5.1");
    client.mail("me@source.test", &["you@here.test"], "Subject: x\r\n\r\nx\r\n");
    assert_eq!(Client::raw(server.addresses[1]).rest(), "", "nothing in clear");
    files.wait_maildir("mail/you", 1);
    let _pebble = Pebble::start(&program, &files, &place, &[], &[]);
    // Pauses double while the authority takes its time to start: the next try may be the better part of a minute away.
    let (is_issued, begun) = (|line: &String| line.contains(ISSUED), Instant::now());
    while begun.elapsed() < 3 * WAIT_MAX && !server.console().iter().any(is_issued) {
        thread::sleep(Duration::from_millis(50));
    }
    server.wait_console("issued", |line| line.contains(ISSUED));
    wait_until("it is in use", || offers_tls(&server));
    assert!(serial(&files, server.address()).starts_with("serial="));
    let counts = [orders(&server, "issued"), orders(&server, "refused")];
    assert!(counts == [1, 0] && orders(&server, "unreached") > 0);
}

#[test]
fn an_authority_that_refuses_is_told_in_its_words_and_takes_nothing_away() {
    let Some(program) = pebble::program() else { return };
    let files = Files::new();
    let place = Place::new(&files);
    let blocked = [("domainBlocklist", json!(["blocked.test"]))];
    let pebble = Pebble::start(&program, &files, &place, &blocked, &[]);
    // Elsewhere than here nobody answers for us.
    place.names.host("mx.here.test", &["127.0.0.9"]);
    let server = Server::start(&files, &config(&(place.section("") + CERTIFICATE)));
    let line = server.wait_console("the refusal", |line| line.contains("; next try at "));
    assert!(line.contains("from localhost:") && line.contains(": mx.here.test: "), "{line}");
    assert!(line.contains("127.0.0.9") && line.ends_with('Z'), "{line}");
    place.names.host("mx.here.test", &["127.0.0.1"]);
    server.wait_console("issued", |line| line.contains(ISSUED));
    wait_until("it is in use", || offers_tls(&server));
    let first = serial(&files, server.address());
    assert!(orders(&server, "refused") > 0);
    // A name more, which it doesn't take: the old certificate stays, and so after a restart.
    let more = CERTIFICATE.replace("\"]", "\", \"blocked.test\"]");
    files.write(CONFIG, &config(&(place.section("") + &more)));
    assert_eq!(server.command(&["reload"]).code, 0);
    let told = server.wait_console("the words", |line| line.contains("rejectedIdentifier"));
    assert!(told.contains("no certificate for mx.here.test, blocked.test"), "{told}");
    assert_eq!(serial(&files, server.address()), first);
    server.stop();
    let server = Server::start_again(&files);
    assert_eq!(serial(&files, server.address()), first);
    // An authority that knows the account no more is asked for another one.
    server.stop();
    drop(pebble);
    place.names.host("blocked.test", &["127.0.0.1"]);
    let _pebble = Pebble::start(&program, &files, &place, &[], &[]);
    let server = Server::start_again(&files);
    server
        .wait_console("issued", |line| line.contains("certificate for mx.here.test, blocked.test"));
    let gone =
        stored(&files).into_iter().filter(|path| path.extension().is_some_and(|e| e == "gone"));
    assert_eq!(gone.count(), 1);
    drop(server);
}

#[test]
fn nonces_that_an_authority_rejects_are_tried_again() {
    let Some(program) = pebble::program() else { return };
    let files = Files::new();
    let place = Place::new(&files);
    let half = [("PEBBLE_WFE_NONCEREJECT", "30")];
    let _pebble = Pebble::start(&program, &files, &place, &[], &half);
    let server = Server::start(&files, &config(&(place.section("") + CERTIFICATE)));
    server.wait_console("issued", |line| line.contains(ISSUED));
    let log = fs::read_to_string(files.path("pebble.log")).expect("its log");
    assert!(log.contains("badNonce") || log.contains("nonce"), "{log}");
}
