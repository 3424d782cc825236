//! The history of messages: `search`, `trace` and `events`, and the places of a configuration.

use crate::support::certificate::{EC, make_certificate, section};
use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::{CONFIG, POSTRIDER, Server, program};
use crate::support::tool::free_port;
use crate::support::{Files, config, config_with, wait_until};
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;

/// A server with a Maildir for here.test and a next hop at which nobody is.
fn server(files: &Files, events: &str) -> Server {
    let hop = format!("127.0.0.1:{}", free_port());
    Server::start(
        files,
        &config(&format!(
            "[events]\npath = \"spool/events.jsonl\"\nheaders = [\"Subject\"]\n{events}\n\
             [[route]]\nname = \"here\"\ndomains = [\"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n\
             [[route]]\nname = \"far\"\nsmtp = {{ hosts = [\"{hop}\"] }}\n\
             [retry]\nfirst = \"1h\"\nlongest = \"1h\"\n"
        )),
    )
}

fn rows(server: &Server, terms: &str) -> Vec<String> {
    let answer = server.command(&["search", terms, "--json"]);
    let rows = answer.json();
    assert_eq!(answer.code, i32::from(rows.is_empty()), "{terms}: {answer:?}");
    let row = |row: &serde_json::Value| {
        let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
        // A dead next hop may have been tried already.
        let state = text("state").replace("deferred", "queued");
        format!("{} {} {state}", text("id"), text("recipient"))
    };
    rows.iter().map(row).collect()
}

#[test]
fn a_message_is_found_by_its_terms() {
    let files = Files::new();
    let server = server(&files, "");
    let mut client = Client::connect(server.address());
    let ann =
        client.mail("a@one.test", &["ann@here.test", "x@far.test"], "Subject: Big offer\r\n\r\n");
    let bob = client.mail("", &["bob@here.test"], "Subject: Report\r\n\r\n");
    files.wait_events("delivered", 2);
    let all = [
        format!("{ann} ann@here.test delivered"),
        format!("{ann} x@far.test queued"),
        format!("{bob} bob@here.test delivered"),
    ];
    assert_eq!(rows(&server, "to:ANN@here.test since:1h"), all[..1]);
    assert_eq!(rows(&server, "from:a@one.test client:127.0.0.1"), all[..2]);
    assert_eq!(rows(&server, "status:queued"), all[1..2]);
    assert_eq!(rows(&server, "subject:\"big OFFER\" route:here"), all[..1]);
    assert_eq!(rows(&server, "from:<>"), all[2..]);
    assert_eq!(rows(&server, &bob), all[2..]);
    assert_eq!(rows(&server, "since:1h"), all);
    assert!(rows(&server, "until:1h").is_empty());
    let limited = server.command(&["search", "since:1h", "--limit", "1"]);
    assert!(limited.out.lines().count() == 1 && limited.out.contains(&bob), "{limited:?}");
    assert!(limited.err.contains("the newest 1 of 3"), "{limited:?}");
    let wrong = server.command(&["search", "form:a@one.test"]);
    assert!(wrong.code == 2 && wrong.err.contains("form: unknown term"), "{wrong:?}");
    let missing = server.command(&["search", "message-id:<1@one.test>"]);
    assert!(missing.err.contains("add it to `headers` in [events]"), "{missing:?}");
    // The event log alone answers, too.
    server.stop();
    let found = program(files.dir(), &["search", "to:ann@here.test", "--config", CONFIG]);
    assert!(found.code == 0 && found.out.contains(&ann), "{found:?}");
    assert!(found.err.contains("no server answers"), "{found:?}");
    let found = program(files.dir(), &["search", "x@far.test", "--events", "spool/events.jsonl"]);
    assert!(found.code == 0 && found.err.is_empty() && found.out.contains(&ann), "{found:?}");
}

#[test]
fn a_trace_has_each_event_and_the_present_state() {
    let files = Files::new();
    let server = server(&files, "");
    let mut client = Client::connect(server.address());
    let id = client.mail("a@one.test", &["ann@here.test", "x@far.test"], "Subject: Offer\r\n\r\n");
    files.wait_events("delivered", 1);
    server.json(&["queue", "hold", &id, "--reason", "look at it"]);
    files.wait_events("held", 1);
    let traced = server.command(&["trace", &id]);
    let lines: Vec<_> = traced.out.lines().collect();
    assert!(traced.code == 0 && lines.len() == 4, "{traced:?}");
    assert!(
        lines[0].contains(" received   id=") && lines[0].contains("subject=Offer"),
        "{traced:?}"
    );
    assert!(
        lines[1].contains(" delivered  id=") && lines[1].contains("to=<ann@here.test>"),
        "{traced:?}"
    );
    assert!(
        lines[2].contains(" held ") && lines[2].contains("reason=\"look at it\""),
        "{traced:?}"
    );
    assert!(lines[3].contains("x@far.test: waiting for"), "{traced:?}");
    let json = server.command(&["trace", &id, "--json"]).json();
    assert!(json[0]["event"] == "received" && json[3]["response"] == "item", "{json:?}");
    server.json(&["queue", "remove", &id]);
    files.wait_events("removed", 1);
    let traced = server.command(&["trace", &id]);
    assert!(traced.out.ends_with("is not in the queue.\n"), "{traced:?}");
    let unknown = server.command(&["trace", "00000000000000ff"]);
    assert!(unknown.code == 1 && unknown.err.contains("neither in the event log"), "{unknown:?}");
    server.stop();
}

#[test]
fn events_are_followed_over_rotations() {
    let files = Files::new();
    let server = server(&files, "rotate_bytes = 4_096");
    let mut client = Client::connect(server.address());
    let first = client.mail("a@one.test", &["first@here.test"], "\r\n");
    files.wait_events("delivered", 1);
    let mut child = Command::new(POSTRIDER)
        .args(["events", "--follow", "--json", "to:here.test status:delivered since:1h"])
        .args(["--config", CONFIG])
        .current_dir(files.dir())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let (sender, followed) = mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let mut ids = vec![first];
    for _ in 0..40 {
        ids.push(client.mail("a@one.test", &["more@here.test"], "\r\n"));
    }
    let mut seen: Vec<String> = ids
        .iter()
        .map(|_| {
            let line = followed.recv_timeout(crate::support::WAIT_MAX).expect("an event");
            let event: serde_json::Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(event["event"], "delivered", "{event}");
            event["id"].as_str().expect("an id").to_owned()
        })
        .collect();
    // Messages that are delivered together have no order.
    seen.sort();
    let mut all = ids.clone();
    all.sort();
    assert_eq!(seen, all, "each event once");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    // The file was rotated meanwhile, and the whole log is printed.
    let rotated = || std::fs::read_dir(files.path("spool")).expect("a directory").flatten();
    let count =
        rotated().filter(|f| f.file_name().to_string_lossy().starts_with("events.jsonl.")).count();
    assert!(count >= 2, "{count} rotated files");
    wait_until("all events", || {
        let printed = server.command(&["events", "status:delivered"]);
        assert_eq!(printed.code, 0, "{printed:?}");
        printed.out.lines().count() == ids.len()
    });
    assert_eq!(rows(&server, &ids[0]), [format!("{} first@here.test delivered", ids[0])]);
    server.stop();
}

/// The queue still has the login when the file with the message's `received` is gone.
#[test]
fn queued_mail_is_found_by_login_after_rotations() {
    let files = Files::new();
    let hop = format!("127.0.0.1:{}", free_port());
    make_certificate(files.dir(), "mx", EC, &["relay.test"]);
    let keys =
        "kind = \"submission\"\nlogins = { table = \"passwords\" }\nxclient_from = [\"127.0.0.1\"]";
    let rest = format!(
        "{}[[table]]\nname = \"passwords\"\ninline = {{ \"Ann\" = \"{{PLAIN}}x\" }}\n[events]\npath = \"spool/events.jsonl\"\nrotate_bytes = 4_096\nkeep_files = 1\n\
         [[route]]\ndomains = [\"here.test\"]\nmaildir = {{ path = \"mail/{{local}}\" }}\n\
         [[route]]\nsmtp = {{ hosts = [\"{hop}\"] }}\n\
         [retry]\nfirst = \"1h\"\nlongest = \"1h\"\n",
        section("mx", &["relay.test"])
    );
    let server = Server::start(&files, &config_with("", keys, &rest));
    let as_user = |login: &str| {
        let mut client = Client::raw(server.address());
        client.expect("220");
        client.say("EHLO proxy.test", "250");
        client.say(&format!("XCLIENT LOGIN={login} HELO=client.test PROTO=ESMTP"), "220");
        client
    };
    let to = ["ann@here.test", "x@far.test"];
    let id = as_user("Ann").mail("a@one.test", &to, "Subject: x\r\n\r\n");
    as_user("joann").mail("a@one.test", &["y@far.test"], "Subject: x\r\n\r\n");
    files.wait_events("delivered", 1);
    let both = [format!("{id} ann@here.test delivered"), format!("{id} x@far.test queued")];
    assert_eq!(rows(&server, "login:ann"), both);
    let mut client = as_user("zoe");
    wait_until("its events are gone", || {
        client.mail("b@two.test", &["more@here.test"], "Subject: x\r\n\r\n");
        rows(&server, &format!("to:ann@here.test id:{id}")).is_empty()
    });
    assert_eq!(rows(&server, "login:ANN"), both[1..]);
    assert_eq!(rows(&server, "login:ann status:queued to:far.test"), both[1..]);
    let shown = server.command(&["queue", "show", &id]);
    assert!(shown.out.contains("\nLogin       ann\n"), "{shown:?}");
    server.stop();
}

#[test]
fn commands_find_the_configuration() {
    let files = Files::new();
    let server = server(&files, "");
    let run = |directory: &str, variable: Option<&str>| {
        let mut command = Command::new(POSTRIDER);
        command.args(["queue", "list"]).current_dir(files.path(directory));
        match variable {
            Some(value) => command.env("POSTRIDER_CONFIG", value),
            None => command.env_remove("POSTRIDER_CONFIG"),
        };
        let output = command.output().expect("it runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (output.status.code().unwrap_or(-1), text(output.stdout) + &text(output.stderr))
    };
    let (code, text) = run("mail", Some("../postrider.toml"));
    // Relative paths are those of the working directory, as with `--config`.
    assert!(code == 3 && text.contains("spool/control.sock"), "{text}");
    let (code, text) = run(".", Some(CONFIG));
    assert!(code == 0 && text.contains("Nothing is queued"), "{text}");
    let (code, text) = run(".", Some("missing.toml"));
    assert!(
        code == 2 && text.contains("missing.toml") && text.contains("POSTRIDER_CONFIG"),
        "{text}"
    );
    let (code, text) = run(".", Some(""));
    assert!(code == 3 && text.contains("postrider-data/spool/control.sock"), "{text}");
    if std::fs::exists("/etc/postrider/postrider.toml").unwrap_or(true) {
        skips::machine(
            skips::Machine::SystemConfiguration,
            "/etc/postrider/postrider.toml is used",
        );
        return server.stop();
    }
    let set_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("a file of ours");
    };
    // The file and its directory must be the caller's alone.
    let (file, directory) = (files.path(CONFIG), files.dir());
    for (of_file, of_directory, why) in [
        (0o644, 0o755, None),
        (0o664, 0o755, Some("other users may write to it; name it with --config postrider.toml")),
        (0o644, 0o777, Some("other users may write to its directory")),
    ] {
        set_mode(&file, of_file);
        set_mode(directory, of_directory);
        let (code, text) = run(".", None);
        match why {
            None => assert!(code == 0 && text.contains("Nothing is queued"), "{text}"),
            Some(why) => {
                let note = format!("postrider: ./postrider.toml is not used: {why}");
                assert!(code == 3 && text.contains(&note), "{text}");
                assert!(text.contains("postrider-data/spool/control.sock"), "{text}");
            }
        }
    }
    server.stop();
}

#[test]
fn deliveries_are_logged_line_by_line() {
    let files = Files::new();
    let text = config(
        "[log]\ndeliveries = true\n[[route]]\ndomains = [\"here.test\"]\nmaildir = { path = \"mail/{local}\" }\n\
         [[route]]\ndiscard = {}\n",
    );
    let server = Server::start(&files, &text);
    let mut client = Client::connect(server.address());
    let ids: Vec<_> =
        (0..30).map(|_| client.mail("a@one.test", &["ann@here.test"], "\r\n")).collect();
    for id in &ids {
        let line = server.wait_console("a delivery", |line| line.contains(id.as_str()));
        assert!(line.contains(" info  delivery: delivered  id="), "{line}");
        assert!(line.contains("to=<ann@here.test>") && line.contains(" attempts=1"), "{line}");
    }
    // A reload turns it off.
    files.write(CONFIG, &text.replace("deliveries = true", "deliveries = false"));
    let reloaded = server.command(&["reload"]);
    assert_eq!(reloaded.code, 0, "{reloaded:?}");
    let id = client.mail("a@one.test", &["ann@here.test"], "\r\n");
    files.wait_events("delivered", ids.len() + 1);
    assert!(!server.console().iter().any(|line| line.contains(&id)), "{:#?}", server.console());
    server.stop();
}

#[test]
fn the_last_failed_dialogue_is_shown() {
    let files = Files::new();
    let hop = format!("127.0.0.1:{}", free_port());
    let peer = Peer::start_at(&hop, "250 HELP", |line| {
        line.starts_with("RCPT").then(|| "450 4.2.0 Greylisted".to_owned())
    });
    let text = format!(
        "[[route]]\nsmtp = {{ hosts = [\"{hop}\"] }}\n[retry]\nfirst = \"1h\"\nlongest = \"1h\"\n"
    );
    let server = Server::start(&files, &config(&text));
    let id = Client::connect(server.address()).mail("a@one.test", &["x@far.test"], "\r\n");
    files.wait_events("deferred", 1);
    let why = server.command(&["queue", "why", &id, "--dialogue"]);
    assert_eq!(why.code, 0, "{why:?}");
    for line in
        ["  > EHLO relay.test\n", "  > RCPT TO:<x@far.test>\n", "  < 450 4.2.0 Greylisted\n"]
    {
        assert!(why.out.contains(line), "{line} {why:?}");
    }
    assert!(
        why.out.contains(&format!("with {hop} at ")) || why.out.contains(&format!("{hop}, with ")),
        "{why:?}"
    );
    let plain = server.command(&["queue", "why", &id]);
    assert!(!plain.out.contains("EHLO"), "{plain:?}");
    drop(peer);
    server.stop();
}
