//! What peers' refusals mean: in events, metrics and the queue, by our rules and the operator's.

use crate::support::client::Client;
use crate::support::http::{get, metric};
use crate::support::peer::Peer;
use crate::support::server::{self, CONFIG, Server};
use crate::support::tool::{Tool, free_port};
use crate::support::{Files, config};
use serde_json::Value;

/// Two domains by MX, one of them at a host that looks like Microsoft's.
fn zone(files: &Files) -> String {
    let text = "$ORIGIN a.test.\n@ MX 10 mx\nmx A 127.0.0.2\n\
                $ORIGIN b.test.\n@ MX 10 b-test.mail.protection.outlook.com.\n\
                $ORIGIN outlook.com.\nb-test.mail.protection A 127.0.0.2\n";
    files.write("zone", text).display().to_string()
}

/// Refusals in the words of others, for everybody.
fn replies(files: &Files) -> String {
    let text = "rcpt 1000 a.test 452 4.2.2 <{recipient}>: mailbox is full\n\
                rcpt 1000 b.test 550 5.4.1 Recipient address rejected: Access denied.\n";
    files.write("replies", text).display().to_string()
}

/// A server whose mail goes by MX, through our name server, to a sink that refuses.
fn refused(files: &Files, more: &str) -> (Server, Tool, Tool, String) {
    let names = Tool::lab(&["dns", "--zone", &zone(files)]);
    let port = free_port();
    let sink = Tool::sink_at(files, &format!("127.0.0.2:{port}"), &["--replies", &replies(files)]);
    let admin = format!("127.0.0.1:{}", free_port());
    let text = format!(
        "[dns]\nservers = [\"{}\"]\n[admin]\naddress = \"{admin}\"\n{more}\
         [[route]]\nmx = {{ port = {port} }}\n",
        names.address
    );
    let server = Server::start(files, &config(&text));
    let mut client = Client::connect(server.address());
    for to in ["jo@a.test", "jo@b.test"] {
        client.mail("me@source.test", &[to], "Subject: x\r\n\r\nHello.\r\n");
    }
    (server, names, sink, admin)
}

fn classed(event: &Value) -> (&str, &str) {
    (event["class"].as_str().unwrap_or("-"), event["kind"].as_str().unwrap_or("-"))
}

#[test]
fn refusals_have_a_class_wherever_they_are_shown() {
    let files = Files::new();
    let (server, _names, _sink, admin) = refused(&files, "");
    let deferred = files.wait_events("deferred", 1);
    assert_eq!(classed(&deferred[0]), ("mailbox_full", "soft"), "{deferred:?}");
    assert_eq!(deferred[0]["reply"], "452 4.2.2 <jo@a.test>: mailbox is full");
    // By the provider that the host belongs to: others' access is denied by policy.
    let failed = files.wait_events("failed", 1);
    assert_eq!(classed(&failed[0]), ("unknown_recipient", "hard"), "{failed:?}");

    let metrics = get(&admin, "/metrics");
    let full = "postrider_deferrals_by_class_total{class=\"mailbox_full\"}";
    assert_eq!(metric(&metrics, full), 1, "{metrics}");
    assert_eq!(metric(&metrics, "postrider_failures_by_class_total"), 1);
    assert_eq!(metric(&metrics, "postrider_deferrals_by_class_total"), 1);

    let listed = |class: &str| {
        let lines = server.json(&["queue", "list", "--class", class]);
        lines.iter().filter(|line| line["response"] == "item").cloned().collect::<Vec<_>>()
    };
    let full = listed("mailbox_full");
    assert_eq!(full.len(), 1);
    assert_eq!(full[0]["recipients"][0]["class"], "mailbox_full");
    assert!(listed("greylisted").is_empty());
    let summary = server.json(&["queue", "summary"]);
    assert_eq!(summary[0]["classes"][0]["name"], "mailbox_full", "{summary:?}");
    let shown = server.command(&["queue", "summary"]);
    assert!(shown.out.contains("CLASS") && shown.out.contains("mailbox_full"), "{shown:?}");

    // An order for a class reaches it and nobody else.
    assert_eq!(server.command(&["queue", "remove", "--class", "greylisted"]).code, 1);
    assert_eq!(server.command(&["queue", "remove", "--class", "mailbox_full"]).code, 0);
    files.wait_events("removed", 1);
    server.stop();
}

#[test]
fn the_operators_rules_go_first_and_a_reload_brings_others() {
    let files = Files::new();
    files.write("my.classes", "452 4.2.2 * inactive_mailbox/hard  mailbox is full\n");
    let (server, _names, _sink, _) = refused(&files, "[classes]\nfiles = [\"my.classes\"]\n");
    let deferred = files.wait_events("deferred", 1);
    assert_eq!(classed(&deferred[0]), ("inactive_mailbox", "hard"), "{deferred:?}");
    let told = server.command(&["classify", "452 4.2.2 the mailbox is full"]);
    assert!(
        told.out.contains("inactive_mailbox") && told.out.contains("my.classes, line 1"),
        "{told:?}"
    );

    // A file with a mistake: the old rules stay.
    files.write("my.classes", "\n452 4.2.2 * mailbox_empty x\n");
    let refused = server.command(&["reload"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let place = "my.classes:2:13: unknown class `mailbox_empty`";
    assert!(refused.err.contains(place), "{refused:?}");
    let checked = server.command(&["check"]);
    assert!(checked.code == 2 && checked.err.contains(place), "{checked:?}");

    files.write("my.classes", "452 4.2.2 * rate_limited  mailbox is full\n");
    assert_eq!(server.command(&["reload"]).code, 0);
    let item = &server.queue()[0];
    assert_eq!(item["recipients"][0]["class"], "rate_limited", "{item}");
    server.stop();

    files.write("my.classes", "452 4.2.2 * mailbox_full .*\n");
    let start = server::command(files.dir(), &["serve"]);
    assert_ne!(start.code, 0);
    assert!(start.err.contains("my.classes:1:26: this pattern matches everything"), "{start:?}");
    assert!(files.path(CONFIG).exists());
}

#[test]
fn a_reply_is_classed_on_the_command_line() {
    let files = Files::new();
    let classify = |words: &[&str]| {
        let words: Vec<&str> = ["classify"].iter().chain(words).copied().collect();
        server::program(files.dir(), &words)
    };
    let text = classify(&["550 5.1.1 <jo@a.test>: User unknown"]);
    assert_eq!(text.code, 0, "{text:?}");
    assert!(text.out.contains("unknown_recipient") && text.out.contains("hard"), "{text:?}");
    assert!(text.out.contains("rule      builtin, line "), "{text:?}");
    let json = |words: &[&str]| -> Value {
        let answer = classify(&[words, &["--json"]].concat());
        serde_json::from_str(&answer.out).unwrap_or_else(|e| panic!("{e}: {answer:?}"))
    };
    let denied = "550 5.4.1 Recipient address rejected: Access denied.";
    assert_eq!(json(&[denied])["class"], "policy");
    let by_host = json(&["--mx", "x.mail.protection.outlook.com", denied]);
    assert_eq!(by_host["class"], "unknown_recipient");
    assert_eq!(by_host["provider"], "microsoft-365");
    assert_eq!(json(&["--provider", "microsoft-365", denied])["line"], by_host["line"]);
    let none = classify(&["599 lorem ipsum"]);
    assert!(none.code == 1 && none.out.contains("no rule matches"), "{none:?}");
    // Rules of the operator's may name whom the shaping files know.
    let files = Files::new();
    files.write("my.classes", "550 * acme policy x\n");
    files.write("shaping.toml", "[provider.acme]\nmx = [\"*.acme.test\"]\n");
    let config = |shaping: &str| {
        format!(
            "hostname = \"here.test\"\n{shaping}classes = {{ files = [\"my.classes\"] }}\n[[listener]]\n\
             address = \"127.0.0.1:0\"\n[[route]]\ndiscard = {{}}\n"
        )
    };
    files.write(CONFIG, &config(""));
    let checked = server::command(files.dir(), &["check"]);
    let told = format!("{}{}", checked.out, checked.err);
    assert_eq!(checked.code, 2, "{told}");
    assert!(
        told.contains("my.classes:1:7: unknown provider `acme`: not in the shaping files"),
        "{told}"
    );
    files.write(CONFIG, &config("shaping = [\"shaping.toml\"]\n"));
    let checked = server::command(files.dir(), &["check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    for (words, told) in [
        (&["250 2.0.0 Ok"][..], "250 is not a failure"),
        (&["hello"], "begins with its code"),
        (&["550 x", "--provider", "nobody"], "unknown provider `nobody`: not in the shaping files"),
    ] {
        let wrong = classify(words);
        assert!(wrong.code == 2 && wrong.err.contains(told), "{words:?}: {wrong:?}");
    }
}

#[test]
fn refusals_of_deferred_classes_stay_queued() {
    let files = Files::new();
    let peer = Peer::start(|line| match line.split_once(" TO:")?.1 {
        to if to.starts_with("<a@") => {
            Some("550 5.7.1 Service unavailable; client blocked using zen.spamhaus.org".to_owned())
        }
        to if to.starts_with("<b@") => Some("550 5.1.1 User unknown".to_owned()),
        _ => None,
    });
    let route = |more: &str, address: &str| {
        let text = format!("[[route]]\n{more}smtp = {{ hosts = [\"{address}\"] }}\n");
        config(&format!("{text}[retry]\nfirst = \"1h\"\nlongest = \"1h\"\n"))
    };
    let soft = route("defer_classes = [\"reputation\"]\n", &peer.address);
    let server = Server::start(&files, &soft);
    let mut client = Client::connect(server.address());
    let id = client.mail("me@source.test", &["a@there.test", "b@there.test"], "\r\n");
    let deferred = files.wait_events("deferred", 1);
    assert_eq!(classed(&deferred[0]), ("reputation", "block"), "{deferred:?}");
    assert_eq!(deferred[0]["status"], "4.7.1", "{deferred:?}");
    assert!(deferred[0]["reply"].as_str().is_some_and(|reply| reply.starts_with("550 5.7.1")));
    let failed = files.wait_events("failed", 1);
    assert_eq!(failed[0]["recipient"], "b@there.test", "{failed:?}");
    let queue = server.queue();
    let kept = queue.iter().find(|item| item["id"] == id.as_str()).expect("the message waits");
    assert_eq!(kept["recipients"][0]["address"], "a@there.test", "{kept}");
    // Without the key, after a reload, the refusal is final.
    files.write(CONFIG, &route("", &peer.address));
    assert_eq!(server.command(&["reload"]).code, 0);
    server.json(&["queue", "retry", &id]);
    let failed = files.wait_events("failed", 2);
    assert_eq!(failed[1]["recipient"], "a@there.test", "{failed:?}");
    server.stop();
}
