//! Who the client is: as swaks says it (XCLIENT), and as the DNS calls it.

use crate::support::certificate::{EC, make_certificate, section};
use crate::support::http::{get, metric};
use crate::support::name_server::{Fault, NameServer};
use crate::support::server::Server;
use crate::support::tool::{run, succeed};
use crate::support::{Files, config_with};
use serde_json::Value;

/// Mail for here.test stays; this machine is believed, and relays only as itself.
fn server(files: &Files, names: &NameServer, keys: &str) -> Server {
    let rest = format!(
        "{}[admin]\naddress = \"127.0.0.1:0\"\n\
         [[route]]\ndomains = [\"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n\
         [[route]]\nsmtp = {{ hosts = [\"127.0.0.1:9\"] }}\n",
        names.section()
    );
    let keys = format!("relay_from = [\"127.0.0.1\"]\nxclient_from = [\"127.0.0.1\"]\n{keys}\n");
    Server::start(files, &config_with("", &keys, &rest))
}

/// swaks's words for a message to a recipient.
fn words<'a>(server: &'a str, to: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let all = ["--server", server, "--from", "me@source.test", "--to", to, "--helo", "swaks.test"];
    [&all[..], more].concat()
}

fn received(files: &Files, count: usize) -> Value {
    files.wait_events("received", count);
    files.events_of("received").pop().expect("an event")
}

const SPOKEN_FOR: [&str; 10] = [
    "--xclient-addr",
    "192.0.2.17",
    "--xclient-port",
    "4711",
    "--xclient-name",
    "mail.far.test",
    "--xclient-helo",
    "mail.far.test",
    "--xclient-proto",
    "ESMTP",
];

#[test]
fn swaks_speaks_for_another_client() {
    let (files, names) = (Files::new(), NameServer::start());
    let server = server(&files, &names, "checks = { client_name = \"mark\" }");
    succeed("swaks", &words(&server.to(), "you@here.test", &SPOKEN_FOR));
    let event = received(&files, 1);
    let seen = |name: &str| event[name].as_str().unwrap_or("-");
    assert_eq!(
        ["client", "client_name", "proxy", "helo", "iprev"].map(seen),
        ["192.0.2.17", "mail.far.test", "127.0.0.1", "swaks.test", "pass"]
    );
    assert_eq!(event["client_port"], 4711);
    let message = files.wait_maildir("mail/you", 1).remove(0);
    let text = String::from_utf8(message).expect("text");
    assert!(text.contains("from swaks.test (mail.far.test [192.0.2.17])"), "{text}");
    assert!(text.contains("iprev=pass policy.iprev=192.0.2.17 (mail.far.test)"), "{text}");
    // This machine may relay; whom it speaks for may not.
    let refused = run("swaks", &words(&server.to(), "you@elsewhere.test", &SPOKEN_FOR));
    assert_eq!(refused.status.code(), Some(24), "no recipient was accepted");
    assert!(String::from_utf8_lossy(&refused.stdout).contains("550 5.7.1 Relay access denied"));
    let ipv6 = ["--xclient-addr", "IPV6:2001:db8::9", "--xclient-name", "[UNAVAILABLE]"];
    succeed("swaks", &words(&server.to(), "you@here.test", &ipv6));
    let event = received(&files, 2);
    assert_eq!((&event["client"], &event["iprev"]), (&"2001:db8::9".into(), &"permerror".into()));
    assert_eq!(names.asked(), 0, "what is said is not looked up");
    server.stop();
}

#[test]
fn swaks_speaks_for_a_user_who_has_logged_in() {
    let files = Files::new();
    make_certificate(files.dir(), "mx", EC, &["mail.here.test"]);
    let server = Server::start(
        &files,
        &format!(
            "hostname = \"mail.here.test\"\nspool = {{ path = \"spool\" }}\n{}\
             [[listener]]\nname = \"submission\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
             logins = {{ table = \"passwords\" }}\nsenders = {{ table = \"senders\" }}\n\
             xclient_from = [\"127.0.0.1\"]\n\
             [[table]]\nname = \"passwords\"\ninline = {{ jo = \"{{PLAIN}}right\" }}\n\
             [[table]]\nname = \"senders\"\ninline = {{ jo = \"me@source.test\" }}\n\
             [[route]]\nmaildir = {{ path = \"mail/{{local}}\" }}\n",
            section("mx", &["mail.here.test"])
        ),
    );
    let login = |user: &'static str| ["--xclient-login", user, "--xclient-addr", "192.0.2.17"];
    succeed("swaks", &words(&server.to(), "you@anywhere.test", &login("jo")));
    let event = received(&files, 1);
    assert_eq!((&event["login"], &event["protocol"]), (&"jo".into(), &"ESMTPA".into()));
    // What a user may send from holds for him, too.
    let refused = run("swaks", &words(&server.to(), "you@anywhere.test", &login("al")));
    assert!(String::from_utf8_lossy(&refused.stdout).contains("553 5.7.1 "));
    server.stop();
}

#[test]
fn a_client_is_called_what_the_dns_calls_it_both_ways() {
    let (files, names) = (Files::new(), NameServer::start());
    names.names([192, 0, 2, 17], &["Other.far.test", "mail.far.test"]);
    names.host("other.far.test", &["192.0.2.99"]);
    names.host("mail.far.test", &["192.0.2.17", "2001:db8::9"]);
    names.names([192, 0, 2, 18], &["mail.far.test"]);
    names.fault("19.2.0.192.in-addr.arpa", Fault::Fails);
    let server =
        server(&files, &names, "checks = { client_name = \"reject\", temporary = \"defer\" }");
    let say = |client: &str| {
        let words = words(&server.to(), "you@here.test", &["--xclient-addr", client]).join(" ");
        let output = run("sh", &["-c", &format!("swaks {words}")]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(say("192.0.2.17").contains("250 2.0.0 Ok: queued as "));
    let event = received(&files, 1);
    let named = (&event["client_name"], &event["iprev"]);
    assert_eq!(named, (&"mail.far.test".into(), &"pass".into()));
    assert!(
        say("192.0.2.18")
            .contains("550 5.7.25 Client host rejected: forward and reverse DNS do not match")
    );
    assert!(say("192.0.2.19").contains("450 4.7.25 Temporary DNS failure"));
    assert!(
        say("192.0.2.20").contains("550 5.7.25 Client host rejected: cannot find your hostname")
    );
    let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
    let metrics = get(line.rsplit(' ').next().expect("an address"), "/metrics");
    assert_eq!(metric(&metrics, "postrider_refused_total"), 3);
    server.stop();
}
