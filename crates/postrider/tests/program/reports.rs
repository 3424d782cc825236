//! What senders are told: non-delivery, delay and delivery reports, as they asked for them.

use crate::support::client::Client;
use crate::support::name_server::NameServer;
use crate::support::peer::Peer;
use crate::support::server::Server;
use crate::support::tool::free_port;
use crate::support::{Files, config, config_with, wait_until};
use mail::dsn::{DeliveryStatus, parse};

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
    // Lines of a mailbox end with LF.
    let text = String::from_utf8(message.to_vec()).expect("text");
    let text = text.replace("\r\n", "\n").replace('\n', "\r\n");
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

/// Reports in a sender's Maildir, once nothing is queued any more.
fn all_reports(files: &Files, server: &Server, sender: &str) -> Vec<Report> {
    // Twice: a report may be queued, and what it is about leave, while the first list is made.
    wait_until("an empty queue", || server.queue().is_empty() && server.queue().is_empty());
    files.maildir(&format!("mail/{sender}")).iter().map(|message| report(message)).collect()
}

/// Hands in a message to recipients `u0` to `u<count - 1>` at `domain`.
fn mail_to_many(client: &mut Client, sender: &str, count: usize, domain: &str, wish: &str) {
    let recipients: Vec<String> = (0..count).map(|n| format!("u{n}@{domain}{wish}")).collect();
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    client.mail(sender, &recipients, "Subject: to many\r\n\r\n");
}

#[test]
fn a_thousand_recipients_at_a_domain_that_does_not_exist_are_one_report() {
    let files = Files::new();
    let server = Server::start(
        &files,
        &config(&format!(
            r#"
[[route]]
domains = ["source.test"]
maildir = {{ path = "mail/{{local}}" }}
[[route]]
mx = {{}}
{}"#,
            // It knows no name.
            NameServer::start().section()
        )),
    );
    let mut client = Client::connect(server.address());
    mail_to_many(&mut client, "me@source.test", 1_000, "nowhere.test", "");
    let reports = all_reports(&files, &server, "me");
    let [report] = &reports[..] else { panic!("{} reports", reports.len()) };
    assert_eq!(report.status.recipients.len(), 100);
    assert!(report.text.contains("(and 900 more recipients not listed)"), "{}", report.text);
    for recipient in &report.status.recipients {
        assert_eq!(recipient.get("Action"), Some("failed"));
        assert_eq!(recipient.get("Last-Attempt-Date"), None, "none was made");
    }
    assert_eq!(files.wait_events("failed", 1_000).len(), 1_000);
    assert_eq!(files.events_of("dsn_queued").len(), 1);
    server.stop();
}

#[test]
fn recipients_refused_in_several_transactions_are_one_report() {
    let files = Files::new();
    let peer = Peer::start(|line| line.starts_with("RCPT TO:").then(|| "550 no".to_owned()));
    let server = Server::start(&files, &with_hop(&peer.address, ""));
    let mut client = Client::connect(server.address());
    mail_to_many(&mut client, "me@source.test", 200, "far.test", "");
    let reports = all_reports(&files, &server, "me");
    let [report] = &reports[..] else { panic!("{} reports", reports.len()) };
    assert_eq!(report.status.recipients.len(), 100);
    let status = report.status.recipients[0].status().map(|status| status.to_string());
    assert_eq!(status.as_deref(), Some("5.1.1"), "a bare refusal of a recipient");
    assert!(report.text.contains("(in reply to RCPT TO command)"), "{}", report.text);
    assert!(report.status.recipients[0].get("Last-Attempt-Date").is_some());
    server.stop();
}

#[test]
fn local_deliveries_of_one_message_are_one_report() {
    let files = Files::new();
    let server = Server::start(&files, &with_hop("127.0.0.1:9", ""));
    let mut client = Client::connect(server.address());
    mail_to_many(&mut client, "me@source.test", 300, "source.test", " NOTIFY=SUCCESS");
    files.wait_events("dsn_queued", 1);
    let reports = all_reports(&files, &server, "me");
    let [report] = &reports[..] else { panic!("{} reports", reports.len()) };
    assert_eq!(report.status.recipients.len(), 100);
    assert!(report.text.contains("(and 200 more recipients not listed)"), "{}", report.text);
    let first = &report.status.recipients[0];
    assert_eq!(first.get("Action"), Some("delivered"));
    assert_eq!(first.get("Diagnostic-Code"), None, "no SMTP server said anything");
    assert_eq!(files.wait_events("delivered", 301).len(), 301);
    server.stop();
}

#[test]
fn the_delay_and_then_the_failure_of_many_recipients_are_one_report_each() {
    let files = Files::new();
    let hop = format!("127.0.0.1:{}", free_port());
    let retry = "first = \"500ms\"\nlongest = \"500ms\"\nwarn_after = \"1s\"\n\
                 give_up_after = \"4s\"";
    let server = Server::start(&files, &with_hop(&hop, retry));
    let mut client = Client::connect(server.address());
    mail_to_many(&mut client, "me@source.test", 50, "far.test", "");
    files.wait_events("expired", 50);
    let reports = all_reports(&files, &server, "me");
    let actions: Vec<_> = reports
        .iter()
        .map(|report| {
            let all = &report.status.recipients;
            assert_eq!(all.len(), 50);
            all[0].get("Action").expect("an action").to_owned()
        })
        .collect();
    assert_eq!(actions, ["delayed", "failed"]);
    assert!(
        reports[1].text.contains("Delivery was attempted for 4 seconds."),
        "{}",
        reports[1].text
    );
    server.stop();
}

#[test]
fn recipients_that_will_be_reported_are_listed_and_survive_a_crash() {
    let files = Files::new();
    // The second transaction takes its time.
    let peer = Peer::start(|line| {
        if line.starts_with("RCPT TO:<u150@") {
            std::thread::sleep(std::time::Duration::from_secs(2));
        }
        line.starts_with("RCPT TO:").then(|| "550 5.1.1 no".to_owned())
    });
    let server = Server::start(&files, &with_hop(&peer.address, ""));
    let mut client = Client::connect(server.address());
    mail_to_many(&mut client, "me@source.test", 200, "far.test", "");
    let unreported = || {
        // A list shows some of the recipients only.
        let ids =
            server.queue().into_iter().map(|item| item["id"].as_str().expect("an id").to_owned());
        let items: Vec<_> = ids.flat_map(|id| server.json(&["queue", "why", &id])).collect();
        let all = items.iter().filter_map(|item| item["recipients"].as_array());
        all.flatten().filter(|recipient| recipient["state"] == "unreported").count()
    };
    wait_until("the first transaction", || unreported() == 100);
    assert_eq!(files.maildir("mail/me").len(), 0);
    server.kill();
    // Nothing was settled: they are tried, and refused, again.
    let server = Server::start_again(&files);
    files.wait_events("failed", 200);
    let reports = all_reports(&files, &server, "me");
    assert_eq!(reports.len(), 1);
    assert!(reports[0].text.contains("(and 100 more recipients not listed)"));
    assert_eq!(files.events_of("failed").len(), 200);
    // A stop does not wait for more: the report is written, and delivered after the next start.
    mail_to_many(&mut Client::connect(server.address()), "stop@source.test", 200, "far.test", "");
    wait_until("the first transaction", || {
        server.queue().iter().any(|item| item["sender"] == "stop@source.test")
    });
    server.stop();
    let server = Server::start_again(&files);
    files.wait_events("failed", 400);
    assert!((1..=2).contains(&all_reports(&files, &server, "stop").len()));
    assert_eq!(files.events_of("failed").len(), 400, "each was settled once");
    server.stop();
}

#[test]
fn strangers_hear_of_failures_only() {
    let files = Files::new();
    let peer = refusing();
    let hop = &peer.address;
    let server = Server::start(
        &files,
        &config_with(
            "",
            "dsn = true",
            &format!(
                r#"
[[route]]
domains = ["source.test"]
maildir = {{ path = "mail/{{local}}" }}
[[route]]
domains = ["far.test"]
smtp = {{ hosts = ["{hop}"] }}
[[route]]
domains = ["late.test"]
smtp = {{ hosts = ["127.0.0.1:{}"] }}
retry = {{ first = "500ms", warn_after = "1s", give_up_after = "3s" }}
"#,
                free_port()
            ),
        ),
    );
    let mut client = Client::connect(server.address());
    let content = "Subject: x\r\n\r\n";
    client.send(
        "MAIL FROM:<success@source.test>\r\nRCPT TO:<u@source.test> NOTIFY=SUCCESS\r\nRSET\r\n",
    );
    let (_, offered, _) = (client.reply(), client.reply().starts_with("250"), client.reply());
    if offered {
        client.mail("success@source.test", &["u@source.test NOTIFY=SUCCESS"], content);
        client.mail("success@source.test", &["u@far.test NOTIFY=SUCCESS,DELAY"], content);
        assert!(
            !peer.wait_taken(1)[0].rcpt[0].contains("SUCCESS"),
            "nor does the next hop hear it"
        );
    }
    client.mail("late@source.test", &["u@late.test"], content);
    client.mail("me@source.test", &["no@far.test"], content);
    files.wait_events("dsn_queued", 2);
    let reports = all_reports(&files, &server, "late");
    let [report] = &reports[..] else { panic!("{} reports", reports.len()) };
    assert_eq!(report.only().1, "failed", "it was delayed before, and nobody was told");
    assert_eq!(all_reports(&files, &server, "me")[0].only().1, "failed");
    assert_eq!(all_reports(&files, &server, "success").len(), 0);
    assert_eq!(files.events_of("dsn_queued").len(), 2);
    server.stop();
}

#[test]
fn the_header_of_a_large_message_is_returned() {
    let files = Files::new();
    let peer = refusing();
    let server = Server::start(&files, &with_hop(&peer.address, ""));
    let mut client = Client::connect(server.address());
    let filler = format!("X-Filler: {}\r\n", "x".repeat(60)).repeat(1_000);
    let content = format!(
        "Subject: large\r\nMessage-ID: <large@source.test>\r\n{filler}\r\n{}",
        format!("{}\r\n", "y".repeat(70)).repeat(40_000)
    );
    client.mail("me@source.test", &["no@far.test"], &content);
    let report = only_report(&files, "me");
    assert!(report.original.contains("Subject: large"), "{}", report.original);
    assert!(report.text.contains("\r\nIn-Reply-To: <large@source.test>\r\n"), "{}", report.text);
    assert!(report.original.len() < 17 * 1024, "{}", report.original.len());
    server.stop();
}

#[test]
fn the_last_failure_survives_a_restart() {
    let files = Files::new();
    let peer = Peer::start(|line| {
        line.starts_with("RCPT TO:").then(|| "450 4.2.0 <you@far.test> is asleep".to_owned())
    });
    let settings = |give_up: &str| {
        let retry = format!("first = \"1h\"\ngive_up_after = \"{give_up}\"");
        with_hop(&peer.address, &retry)
    };
    let server = Server::start(&files, &settings("5d"));
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["you@far.test"], "Subject: x\r\n\r\n");
    files.wait_events("deferred", 1);
    server.stop();
    // The hop is away: what the report says is remembered.
    drop(peer);
    let hop = format!("127.0.0.1:{}", free_port());
    let server = Server::start(&files, &with_hop(&hop, "first = \"1h\"\ngive_up_after = \"5d\""));
    let shown = server.queue()[0]["recipients"][0]["last_failure"].to_string();
    assert!(shown.contains("450 4.2.0 <you@far.test> is asleep"), "{shown}");
    server.stop();
    let server = Server::start(&files, &with_hop(&hop, "first = \"1s\"\ngive_up_after = \"1s\""));
    let report = only_report(&files, "me");
    assert!(
        report.text.contains("is asleep") || report.text.contains("refused"),
        "{}",
        report.text
    );
    server.stop();
}

#[test]
fn reports_go_where_the_configuration_says() {
    let files = Files::new();
    let peer = refusing();
    let hop = &peer.address;
    let server = Server::start(
        &files,
        &config(&format!(
            r#"
[[route]]
domains = ["source.test"]
maildir = {{ path = "mail/{{local}}" }}
[[route]]
domains = ["off.test"]
smtp = {{ hosts = ["{hop}"] }}
reports = {{ to = "nobody" }}
[[route]]
domains = ["kept.test"]
smtp = {{ hosts = ["{hop}"] }}
reports = {{ to = "nobody", directory = "kept" }}
[[route]]
domains = ["copied.test"]
smtp = {{ hosts = ["{hop}"] }}
reports = {{ copy_to = "copies@source.test", returns = "headers" }}
[[route]]
domains = ["redirected.test"]
smtp = {{ hosts = ["{hop}"] }}
reports = {{ to = "support@source.test" }}
[reports]
double_bounce_to = "bounced@source.test"
"#
        )),
    );
    let mut client = Client::connect(server.address());
    for route in ["off", "kept", "copied", "redirected"] {
        let to = format!("no@{route}.test");
        let full = "Subject: x\r\n\r\nThe body.\r\n";
        client.say(&format!("MAIL FROM:<{route}@source.test> RET=FULL"), "250");
        client.say(&format!("RCPT TO:<{to}>"), "250");
        client.say("DATA", "354");
        client.send(full);
        client.say(".", "250");
    }
    // A report that bounces.
    client.mail("", &["no@off.test"], "Subject: a report\r\n\r\n");
    for (sender, count) in
        [("off", 0), ("kept", 0), ("copied", 1), ("copies", 1), ("redirected", 0), ("support", 1)]
    {
        assert_eq!(all_reports(&files, &server, sender).len(), count, "{sender}");
    }
    let kept = files.maildir("kept");
    assert!(kept.len() == 1 && kept[0].starts_with(b"From: Mail Delivery System"), "{kept:?}");
    let copied = only_report(&files, "copies");
    assert!(!copied.text.contains("The body."), "{}", copied.text);
    assert!(only_report(&files, "support").text.contains("The body."));
    let bounced = only_report(&files, "bounced");
    assert!(bounced.text.contains("To: <bounced@source.test>"), "{}", bounced.text);
    assert!(bounced.original.contains("Subject: a report"), "{}", bounced.original);
    let suppressed = files.wait_events("dsn_suppressed", 1);
    assert_eq!((suppressed.len(), &suppressed[0]["why"]), (1, &"off".into()));
    server.stop();
}

#[test]
fn a_forged_sender_gets_so_many_reports_an_hour() {
    let files = Files::new();
    let peer = refusing();
    let hop = &peer.address;
    let server = Server::start(
        &files,
        &config_with(
            "",
            "",
            &format!(
                r#"
[[route]]
domains = ["source.test"]
maildir = {{ path = "mail/{{local}}" }}
[[route]]
domains = ["far.test"]
smtp = {{ hosts = ["{hop}"] }}
[reports]
per_sender_per_hour = 3
"#
            ),
        ),
    );
    let mut client = Client::connect(server.address());
    for _ in 0..5 {
        client.mail("me@source.test", &["no@far.test"], "Subject: x\r\n\r\n");
    }
    files.wait_events("failed", 5);
    assert_eq!(all_reports(&files, &server, "me").len(), 3);
    let suppressed = files.wait_events("dsn_suppressed", 2);
    assert_eq!((suppressed.len(), &suppressed[0]["why"]), (2, &"limit".into()));
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
