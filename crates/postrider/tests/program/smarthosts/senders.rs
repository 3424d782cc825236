//! Logins by sender at a Postfix whose users Dovecot knows.

use super::near_with;
use crate::interop::place::{Place, is_possible};
use crate::interop::postfix::{is_startable, launch_with};
use crate::logins::dovecot_auth::{DovecotAuth, PASSWORD};
use crate::support::certificate::{EC, make_certificate};
use crate::support::client::Client;
use crate::support::peer::{Peer, Taken};
use crate::support::{Files, wait_until};

/// Relays for users alone, and names them in Received.
fn start_postfix(next: &Peer, auth: &DovecotAuth) -> Place {
    let mut place = Place::new(0);
    make_certificate(&place.path("."), "tls", EC, &["IP:127.0.0.1"]);
    let (_, next) = next.address.split_once(':').expect("a port");
    let (dir, port, auth) = (place.dir(), place.port, auth.socket());
    let lines = format!(
        "relayhost = [127.0.0.1]:{next}\nsmtp_tls_security_level = none\nmynetworks = 127.0.9.9\n\
         smtpd_tls_security_level = may\nsmtpd_tls_auth_only = yes\n\
         smtpd_tls_chain_files = {dir}/tls.key, {dir}/tls.pem\nsmtpd_sasl_auth_enable = yes\n\
         smtpd_sasl_type = dovecot\nsmtpd_sasl_path = {auth}\nsmtpd_sasl_authenticated_header = yes\n\
         smtpd_relay_restrictions = permit_sasl_authenticated, reject\n"
    );
    launch_with(&mut place, &lines, &format!("127.0.0.1:{port} inet n - n - - smtpd\n"));
    place.wait_listening(port);
    place
}

/// The file of logins; Eve's has this password.
fn logins(files: &Files, port: u16, password: &str) {
    let text = format!(
        "jo@here.test jo:{PASSWORD}\nal@here.test al:{PASSWORD}\neve@here.test al:{password}\n\
         [127.0.0.1]:{port} hub:{PASSWORD}\n"
    );
    files.write("sasl_passwd", &text);
}

/// Senders, and the users that their mail is sent as: without an entry, that of the host.
const SENDERS: [(&str, &str); 5] = [
    ("jo@here.test", "jo"),
    ("al@here.test", "al"),
    ("cy@here.test", "hub"),
    ("jo+tag@here.test", "jo"),
    ("", "hub"),
];

/// Sender and user of a message at the end of its way.
fn told(taken: &Taken) -> (String, String) {
    let between = |text: &str, begin: &str, end: char| {
        let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("{begin}: {text}"));
        rest.split(end).next().unwrap_or_default().to_owned()
    };
    let content = String::from_utf8_lossy(&taken.content);
    (between(&taken.mail, "FROM:<", '>'), between(&content, "(Authenticated sender: ", ')'))
}

#[test]
fn postfix_takes_mail_by_the_login_of_its_sender() {
    if !is_possible(&["dovecot-lmtpd"]) || !is_startable() {
        return;
    }
    let (auth, next, files) = (DovecotAuth::start(), Peer::start(|_| None), Files::new());
    let place = start_postfix(&next, &auth);
    logins(&files, place.port, "wrong");
    let routes = format!(
        "[[table]]\nname = \"logins\"\nfile = {{ path = \"sasl_passwd\" }}\n\
         [[route]]\nretry = {{ first = \"1h\", longest = \"1h\" }}\n\
         smtp = {{ hosts = [\"127.0.0.1:{}\"], tls = \"verified\", \
         login = {{ table = \"logins\", key = \"sender\" }} }}\n",
        place.port
    );
    let roots = place.path("tls.pem").display().to_string();
    let near = near_with(&files, &routes, &[("SSL_CERT_FILE", &roots)]);
    let mut client = Client::connect(near.address());
    let mut send = |sender: &str| client.mail(sender, &["you@far.test"], "Subject: x\r\n\r\nx\r\n");
    // Idle connections of the senders before are open in each round.
    let mut sent = Vec::new();
    for round in 1..=3 {
        for (sender, user) in SENDERS {
            send(sender);
            sent.push((sender.to_owned(), user.to_owned()));
        }
        next.wait_taken(round * SENDERS.len());
    }
    // A wrong password suspends its sender's mail only.
    let id = send("eve@here.test");
    let refused = |event: &serde_json::Value| {
        event["reply"].as_str().is_some_and(|reply| reply.starts_with("535 5.7.8"))
    };
    wait_until("the login is refused", || files.events_of("suspended").iter().any(refused));
    for (sender, user) in SENDERS {
        send(sender);
        sent.push((sender.to_owned(), user.to_owned()));
    }
    next.wait_taken(sent.len());
    assert!(files.events_of("suspended").iter().all(refused), "{:#?}", files.events());
    assert!(files.events_of("deferred").is_empty() && files.events_of("failed").is_empty());
    let waiting = near.json(&["queue", "list"]);
    let waiting: Vec<_> = waiting.iter().filter(|one| one["response"] == "item").collect();
    assert!(waiting.len() == 1 && waiting[0]["id"] == id.as_str(), "{waiting:#?}");
    logins(&files, place.port, PASSWORD);
    assert_eq!(near.command(&["reload"]).code, 0);
    wait_until("it goes with its new password", || {
        near.command(&["queue", "retry", "--all"]);
        next.taken().len() > sent.len()
    });
    sent.push(("eve@here.test".to_owned(), "al".to_owned()));
    let mut arrived: Vec<_> = next.taken().iter().map(told).collect();
    sent.sort();
    arrived.sort();
    assert_eq!(arrived, sent);
    near.stop();
}
