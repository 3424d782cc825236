//! REQUIRETLS and `TLS-Required: No` (RFC 8689): what goes where, and what comes back.

use crate::interop::place::{Place, is_possible};
use crate::smarthosts::start_exim;
use crate::support::certificate::{EC, make_certificate, section};
use crate::support::client::Client;
use crate::support::http::get;
use crate::support::server::{CONFIG, Server};
use crate::support::tool::{free_port, python};
use crate::support::{Files, wait_until};
use serde_json::Value;

/// Hands a message in over TLS, where REQUIRETLS is `offered`, and never in clear.
const HAND_IN: &str = "\
import smtplib, ssl, sys
port, sender, recipient, options = sys.argv[1:5]
client = smtplib.SMTP('127.0.0.1', int(port))
client.ehlo()
assert not client.has_extn('requiretls'), 'offered in clear'
client.starttls(context=ssl._create_unverified_context())
client.ehlo()
assert client.has_extn('requiretls') == (sys.argv[5] == 'offered'), client.esmtp_features
client.sendmail(sender, [recipient], 'Subject: x\\r\\n\\r\\nthe secret\\r\\n', options.split())
client.quit()
";

pub(crate) fn hand_in(server: &Server, sender: &str, recipient: &str, options: &str) {
    let port = server.address().port().to_string();
    python(HAND_IN, &[&port, sender, recipient, options, "offered"]);
}

/// A next hop that keeps what it gets.
fn host(files: &Files, port: u16, keys: &str, sections: &str) -> Server {
    let config = format!(
        "hostname = \"far.test\"\nspool = {{ path = \"spool\" }}\n{sections}[[listener]]\n\
         address = \"127.0.0.1:{port}\"\n{keys}[[route]]\ndomains = [\"*.test\"]\n\
         maildir = {{ path = \"mail/{{local}}\" }}\n"
    );
    Server::start(files, &config)
}

/// A route to it, in clear as far as the file says.
fn route(domain: &str, port: u16) -> String {
    format!(
        "[[route]]\nname = \"{domain}\"\ndomains = [\"{domain}.test\"]\nretry = {{ first = \"1s\" }}\n\
         smtp = {{ hosts = [\"127.0.0.1:{port}\"], tls = \"off\" }}\n"
    )
}

/// A relay with these routes, and a mailbox for whoever is told what became of the mail.
fn near(files: &Files, routes: &str, roots: &str) -> Server {
    make_certificate(files.dir(), "mx", EC, &["near.test"]);
    let config = format!(
        "hostname = \"near.test\"\nspool = {{ path = \"spool\" }}\n\
         [admin]\naddress = \"127.0.0.1:0\"\n{}\
         [[listener]]\naddress = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n{routes}[[route]]\n\
         domains = [\"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n",
        section("mx", &["near.test"])
    );
    files.write(CONFIG, &config);
    Server::start_trusting(files, roots)
}

/// The one event of this kind about a recipient.
fn event(files: &Files, kind: &str, recipient: &str) -> Value {
    let is_it = |event: &Value| event["recipient"] == recipient;
    let find = || files.events_of(kind).into_iter().find(is_it);
    wait_until(&format!("{recipient}: {kind}"), || find().is_some());
    find().expect("it was there")
}

fn text_of(message: &[u8]) -> String {
    String::from_utf8_lossy(message).into_owned()
}

#[test]
fn what_requires_tls_goes_over_it_to_who_promises_the_same_even_after_a_restart() {
    let (far_files, files, port) = (Files::new(), Files::new(), free_port());
    make_certificate(far_files.dir(), "mx", EC, &["IP:127.0.0.1"]);
    let roots = far_files.path("mx.pem").display().to_string();
    let first = near(&files, &route("far", port), &roots);
    hand_in(&first, "me@here.test", "you@far.test", "REQUIRETLS");
    hand_in(&first, "me@here.test", "usual@far.test", "BODY=8BITMIME");
    files.wait_events("suspended", 1);
    first.stop();
    let second = Server::start_trusting(&files, &roots);
    let far = host(&far_files, port, "", &section("mx", &["far.test"]));
    let told = event(&files, "relayed", "you@far.test");
    assert_eq!(
        (&told["tls_policy"], &told["tls_version"]),
        (&"requiretls".into(), &"TLSv1.3".into())
    );
    // What doesn't ask for it goes as the route says, by a connection of its own.
    assert_eq!(event(&files, "relayed", "usual@far.test")["tls_version"], Value::Null);
    let received = far_files.wait_events("received", 2);
    let asked = |recipient: &str| {
        let of = received.iter().find(|event| event["recipients"][0] == recipient);
        of.expect("it was received")["require_tls"].clone()
    };
    assert_eq!(asked("you@far.test"), "yes");
    assert_eq!(asked("usual@far.test"), Value::Null);
    let stored = far_files.wait_maildir("mail/you", 1);
    assert!(text_of(&stored[0]).contains(" with ESMTPS id "));
    second.stop();
    far.stop();
}

#[test]
fn what_requires_tls_is_returned_where_a_host_does_not_have_it_and_so_is_told_only_of_its_header() {
    let (far, blunt, strange, clear) = (Files::new(), Files::new(), Files::new(), Files::new());
    let ports = [0; 4].map(|_| free_port());
    make_certificate(far.dir(), "mx", EC, &["IP:127.0.0.1"]);
    make_certificate(strange.dir(), "mx", EC, &["IP:127.0.0.1"]);
    for extension in ["pem", "key"] {
        let name = format!("mx.{extension}");
        std::fs::copy(far.path(&name), blunt.path(&name)).expect("copied");
    }
    let with_tls = section("mx", &["far.test"]);
    let hosts = [
        host(&far, ports[0], "", &with_tls),
        host(&blunt, ports[1], "requiretls = false\n", &with_tls),
        host(&strange, ports[2], "", &with_tls),
        host(&clear, ports[3], "", ""),
    ];
    let names = ["far", "blunt", "strange", "clear"];
    let routes: String = names.iter().zip(ports).map(|(name, port)| route(name, port)).collect();
    let (files, roots) = (Files::new(), far.path("mx.pem").display().to_string());
    let near = near(&files, &routes, &roots);
    for (name, status) in [("blunt", "5.7.30"), ("strange", "5.7.10"), ("clear", "5.7.10")] {
        let recipient = format!("you@{name}.test");
        hand_in(&near, "me@here.test", &recipient, "REQUIRETLS RET=FULL");
        let failed = event(&files, "failed", &recipient);
        assert_eq!(failed["status"], status, "{failed}");
        let reason = failed["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("REQUIRETLS"), "{reason}");
    }
    let admin = near.wait_console("admin", |line| line.contains("metrics and health on "));
    let metrics = get(admin.rsplit(' ').next().expect("an address"), "/metrics");
    for (reason, count) in [("encryption", 2), ("requiretls", 1)] {
        let name = format!("postrider_require_tls_failures_total{{reason=\"{reason}\"}} {count}\n");
        assert!(metrics.contains(&name), "{metrics}");
    }
    let reports = files.wait_maildir("mail/me", 3);
    for report in reports.iter().map(|report| text_of(report)) {
        assert!(report.contains("Subject: x") && !report.contains("the secret"), "{report}");
    }
    // Reports ask for the same where it is to be had, and go all the same where it is not (§5).
    hand_in(&near, "me@far.test", "you@blunt.test", "REQUIRETLS");
    hand_in(&near, "me@clear.test", "you@blunt.test", "REQUIRETLS");
    for (files, asked) in [(&far, Value::Null), (&clear, Value::Null)] {
        let received = files.wait_events("received", 1);
        assert_eq!((&received[0]["sender"], &received[0]["require_tls"]), (&"".into(), &asked));
    }
    for files in [&blunt, &strange] {
        assert_eq!(files.events_of("received"), Vec::<Value>::new());
    }
    near.stop();
    hosts.into_iter().for_each(Server::stop);
}

#[test]
fn a_report_asks_for_tls_where_its_route_knows_the_host() {
    let (far_files, files) = (Files::new(), Files::new());
    let (port, nobody) = (free_port(), free_port());
    make_certificate(far_files.dir(), "mx", EC, &["IP:127.0.0.1"]);
    let far = host(&far_files, port, "", &section("mx", &["far.test"]));
    let refusing = Files::new();
    let clear = host(&refusing, nobody, "", "");
    let verified = route("far", port).replace("\"off\"", "\"verified\"");
    let roots = far_files.path("mx.pem").display().to_string();
    let near = near(&files, &(verified + &route("clear", nobody)), &roots);
    hand_in(&near, "me@far.test", "you@clear.test", "REQUIRETLS");
    let received = far_files.wait_events("received", 1);
    assert_eq!((&received[0]["sender"], &received[0]["require_tls"]), (&"".into(), &"yes".into()));
    near.stop();
    clear.stop();
    far.stop();
}

#[test]
fn what_stays_here_has_come_to_the_end_of_its_way() {
    let files = Files::new();
    let near = near(&files, "", "/dev/null");
    hand_in(&near, "me@here.test", "you@here.test", "REQUIRETLS");
    files.wait_maildir("mail/you", 1);
    assert_eq!(files.wait_events("received", 1)[0]["require_tls"], "yes");
    near.stop();
}

#[test]
fn a_header_that_asks_for_no_tls_is_heard_from_who_may_relay_and_from_strangers() {
    let files = Files::new();
    let near = near(&files, "", "/dev/null");
    let config = std::fs::read_to_string(files.path(CONFIG)).expect("it is there");
    near.stop();
    files.write(
        CONFIG,
        &(config + "[[listener]]\nname = \"strangers\"\naddress = \"127.0.0.1:0\"\n"),
    );
    let near = Server::start_trusting(&files, "/dev/null");
    for (count, at) in [0, 1].into_iter().enumerate() {
        let mut client = Client::connect(near.addresses[at]);
        let content = "Subject: x\r\nTLS-Required: No\r\n\r\nx\r\n";
        client.mail("me@source.test", &["you@here.test"], content);
        assert_eq!(files.wait_events("received", count + 1)[count]["require_tls"], "no", "{at}");
    }
    near.stop();
}

#[test]
fn a_listener_need_not_offer_it() {
    let files = Files::new();
    let near = near(&files, "", "/dev/null");
    let config = std::fs::read_to_string(files.path(CONFIG)).expect("it is there");
    near.stop();
    files.write(CONFIG, &config.replace("relay_from", "requiretls = false\nrelay_from"));
    let near = Server::start_trusting(&files, "/dev/null");
    let port = near.address().port().to_string();
    python(HAND_IN, &[&port, "me@here.test", "you@here.test", "BODY=8BITMIME", "not"]);
    files.wait_maildir("mail/you", 1);
    near.stop();
}

#[test]
fn exim_which_does_not_know_of_it_gets_nothing_that_requires_tls() {
    if !is_possible(&["exim4-daemon-light"]) {
        return;
    }
    let mut place = Place::new(free_port());
    make_certificate(&place.path("."), "tls", EC, &["IP:127.0.0.1"]);
    start_exim(&mut place, "");
    let (files, roots) = (Files::new(), place.path("tls.pem").display().to_string());
    let near = near(&files, &route("exim", place.port), &roots);
    hand_in(&near, "me@here.test", "you@exim.test", "REQUIRETLS");
    let failed = event(&files, "failed", "you@exim.test");
    assert_eq!(failed["status"], "5.7.30", "{failed}");
    hand_in(&near, "me@here.test", "usual@exim.test", "BODY=8BITMIME");
    event(&files, "relayed", "usual@exim.test");
    near.stop();
}
