//! What senders are told: non-delivery, delay and delivery reports, as they asked for them.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod support;
use mail::dsn::{DeliveryStatus, parse};
use support::client::Client;
use support::peer::Peer;
use support::server::Server;
use support::tool::free_port;
use support::{Files, config, wait_until};

/// Senders' mail is kept here; the rest goes to `hop`.
fn with_hop(hop: &str, retry: &str) -> String {
    config(&format!(
        r#"
[[route]]
domains = ["source.test"]
maildir = {{ path = "mail/{{local}}" }}
[[route]]
smtp = {{ hosts = ["{hop}"] }}
[retry]
{retry}
"#
    ))
}

/// A peer that refuses recipients whose address begins with `no`.
fn refusing() -> Peer {
    Peer::start(|line| {
        let refuse = line.starts_with("RCPT TO:<no");
        refuse.then(|| "550 5.1.1 no such user here".to_owned())
    })
}

/// A report, taken apart.
struct Report {
    text: String,
    status: DeliveryStatus,
    original: String,
}

/// Takes a report out of a sender's Maildir apart, by its MIME structure.
fn report(message: &[u8]) -> Report {
    let text = String::from_utf8(message.to_vec()).expect("text");
    let unfolded = text.replace("\r\n\t", " ").replace("\r\n ", " ");
    assert!(text.contains("Return-Path: <>\r\n"), "{text}");
    assert!(unfolded.contains("\r\nAuto-Submitted: auto-replied"), "{text}");
    let kind = unfolded.lines().find(|line| line.starts_with("Content-Type:")).expect("a type");
    assert!(kind.contains("multipart/report") && kind.contains("delivery-status"), "{kind}");
    let (_, boundary) = kind.split_once("boundary=\"").expect("a boundary");
    let boundary = format!("\r\n--{}", boundary.split('"').next().expect("a boundary"));
    let parts: Vec<_> = text.split(&boundary).collect();
    let [_, people, status, original, end] = parts[..] else { panic!("three parts: {text}") };
    assert_eq!(end, "--\r\n");
    assert!(people.contains("Content-Type: text/plain"), "{people}");
    let body = |part: &str| part.split_once("\r\n\r\n").expect("a header").1.to_owned();
    assert!(status.contains("message/delivery-status"), "{status}");
    Report {
        status: parse(body(status).as_bytes()),
        original: original.to_owned(),
        text: text.clone(),
    }
}

impl Report {
    /// Final recipient, action, status of the only recipient.
    fn only(&self) -> (&str, &str, String) {
        let [group] = &self.status.recipients[..] else { panic!("one recipient: {}", self.text) };
        let (kind, address) = group.typed("Final-Recipient").expect("a recipient");
        assert_eq!(kind.to_ascii_lowercase(), "rfc822");
        let status = group.status().expect("a status").to_string();
        (address, group.get("Action").expect("an action"), status)
    }
}

fn only_report(files: &Files, sender: &str) -> Report {
    report(&files.wait_maildir(&format!("mail/{sender}"), 1)[0])
}

#[test]
fn a_refused_recipient_is_reported_to_the_sender() {
    let files = Files::new();
    let peer = refusing();
    let server = Server::start(&files, &with_hop(&peer.address, ""));
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<me@source.test> RET=HDRS ENVID=QQ+2B314", "250");
    client.say("RCPT TO:<no@far.test> ORCPT=rfc822;old+2Bname@far.test", "250");
    client.say("RCPT TO:<yes@far.test>", "250");
    client.say("DATA", "354");
    client.send("Subject: Quarterly\r\n\r\nThe secret body.\r\n");
    client.say(".", "250");
    assert_eq!(peer.wait_taken(1)[0].rcpt.len(), 1);
    let report = only_report(&files, "me");
    assert_eq!(report.only(), ("no@far.test", "failed", "5.1.1".to_owned()));
    let [group] = &report.status.recipients[..] else { unreachable!() };
    assert_eq!(group.typed("Original-Recipient"), Some(("rfc822", "old+name@far.test")));
    let said = group.get("Diagnostic-Code").expect("what the peer said");
    assert!(said.contains("550 5.1.1 no such user here"), "{said}");
    assert_eq!(report.status.message.get("Original-Envelope-Id"), Some("QQ+314"));
    assert!(report.status.message.get("Reporting-MTA").is_some_and(|m| m.contains("relay.test")));
    assert!(report.original.contains("Subject: Quarterly"), "{}", report.original);
    assert!(!report.text.contains("secret body"), "{}", report.text);
    // RET=FULL returns the message.
    client.say("MAIL FROM:<full@source.test> RET=FULL", "250");
    client.say("RCPT TO:<no@far.test>", "250");
    client.say("DATA", "354");
    client.send("Subject: Quarterly\r\n\r\nThe secret body.\r\n");
    client.say(".", "250");
    let report = only_report(&files, "full");
    assert!(report.original.contains("message/rfc822"), "{}", report.original);
    assert!(report.original.contains("The secret body."), "{}", report.original);
    wait_until("an empty queue", || server.queue().is_empty());
    let [told, _] = &files.wait_events("dsn_queued", 2)[..] else { unreachable!() };
    assert_eq!(told["action"], "failed", "{told}");
    server.stop();
}

#[test]
fn reports_that_nobody_asked_for_are_not_sent() {
    let files = Files::new();
    let peer = refusing();
    let server = Server::start(&files, &with_hop(&peer.address, ""));
    let mut client = Client::connect(server.address());
    client.mail("never@source.test", &["no@far.test NOTIFY=NEVER"], "Subject: a\r\n\r\n");
    client.mail("success@source.test", &["no@far.test NOTIFY=SUCCESS"], "Subject: b\r\n\r\n");
    client.mail("", &["no@far.test"], "Subject: c\r\n\r\n");
    client.mail("quiet@source.test", &["yes@far.test"], "Subject: d\r\n\r\n");
    // The last one's report shows that the others would have come.
    files.wait_events("failed", 3);
    client.mail("me@source.test", &["no@far.test NOTIFY=FAILURE,DELAY"], "Subject: e\r\n\r\n");
    only_report(&files, "me");
    wait_until("an empty queue", || server.queue().is_empty());
    for sender in ["never", "success", "quiet"] {
        assert_eq!(files.maildir(&format!("mail/{sender}")).len(), 0, "{sender}");
    }
    assert_eq!(files.events_of("dsn_queued").len(), 1);
    server.stop();
}

#[test]
fn success_is_reported_where_it_was_asked_for() {
    let files = Files::new();
    // A next hop that does not know DSNs: from there on nobody would tell.
    let plain = Peer::start_at("127.0.0.1:0", "250 HELP", |_| None);
    let server = Server::start(&files, &with_hop(&plain.address, ""));
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["you@source.test NOTIFY=SUCCESS"], "Subject: a\r\n\r\n");
    files.wait_maildir("mail/you", 1);
    let delivered = only_report(&files, "me");
    assert_eq!(delivered.only(), ("you@source.test", "delivered", "2.0.0".to_owned()));
    client.mail("far@source.test", &["you@far.test NOTIFY=SUCCESS"], "Subject: b\r\n\r\n");
    let relayed = only_report(&files, "far");
    let (to, action, _) = relayed.only();
    assert_eq!((to, action), ("you@far.test", "relayed"));
    server.stop();
}

#[test]
fn a_hop_that_knows_dsns_is_told_what_the_sender_wants() {
    let files = Files::new();
    let peer = Peer::start(|_| None);
    let server = Server::start(&files, &with_hop(&peer.address, ""));
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<me@source.test> RET=HDRS ENVID=abc+3D", "250");
    client.say("RCPT TO:<you@far.test> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;x@y.test", "250");
    client.say("DATA", "354");
    client.say(".", "250");
    let taken = &peer.wait_taken(1)[0];
    assert!(taken.mail.contains(" RET=HDRS") && taken.mail.contains(" ENVID=abc+3D"), "{taken:?}");
    let rcpt = &taken.rcpt[0];
    assert!(rcpt.contains(" NOTIFY=SUCCESS,DELAY"), "{rcpt}");
    assert!(rcpt.contains(" ORCPT=rfc822;x@y.test"), "{rcpt}");
    wait_until("an empty queue", || server.queue().is_empty());
    assert_eq!(files.maildir("mail/me").len(), 0);
    server.stop();
}

#[test]
fn delay_is_told_once_and_age_ends_it() {
    let files = Files::new();
    let hop = format!("127.0.0.1:{}", free_port());
    let retry = "first = \"500ms\"\nlongest = \"500ms\"\nwarn_after = \"1s\"\n\
                 give_up_after = \"3s\"";
    let server = Server::start(&files, &with_hop(&hop, retry));
    let mut client = Client::connect(server.address());
    let words = "Subject: late\r\n\r\n";
    client.mail("me@source.test", &["you@far.test"], words);
    client.mail("never@source.test", &["you@far.test NOTIFY=NEVER"], words);
    client.mail("failure@source.test", &["you@far.test NOTIFY=FAILURE"], words);
    client.mail("", &["you@far.test"], words);
    wait_until("the warning", || !files.maildir("mail/me").is_empty());
    let warning = report(&files.maildir("mail/me")[0]);
    let (to, action, status) = warning.only();
    assert_eq!((to, action), ("you@far.test", "delayed"));
    assert!(status.starts_with("4."), "{status}");
    let [group] = &warning.status.recipients[..] else { unreachable!() };
    assert!(group.get("Will-Retry-Until").is_some(), "{}", warning.text);

    wait_until("an empty queue", || server.queue().is_empty());
    files.wait_events("expired", 4);
    let reports = files.wait_maildir("mail/me", 2);
    let reports: Vec<_> = reports.iter().map(|message| report(message)).collect();
    let ended = reports.iter().find(|report| report.only().1 == "failed").expect("it failed");
    let (to, _, status) = ended.only();
    assert_eq!(to, "you@far.test");
    // RFC 3463 §3.1: class 4 beside "failed" says that sending again later may succeed.
    assert!(status.starts_with("4.4."), "{status}");
    assert!(ended.text.contains("refused"), "the last failure is named: {}", ended.text);
    let (to, action, _) = only_report(&files, "failure").only().into_owned();
    assert_eq!((to.as_str(), action.as_str()), ("you@far.test", "failed"));
    assert_eq!(files.maildir("mail/never").len(), 0);
    let delayed = files.events_of("delayed");
    assert_eq!(delayed.len(), 1, "only who was told: {delayed:#?}");
    assert_eq!(delayed[0]["sender"], "me@source.test");
    server.stop();
}

trait IntoOwned {
    fn into_owned(self) -> (String, String, String);
}

impl IntoOwned for (&str, &str, String) {
    fn into_owned(self) -> (String, String, String) {
        (self.0.to_owned(), self.1.to_owned(), self.2)
    }
}
