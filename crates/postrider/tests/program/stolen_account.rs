//! A stolen password: how much is sent with it, where that shows, and how it is stopped.

use crate::support::certificate::{EC, make_certificate, section};
use crate::support::http::{get, metric};
use crate::support::server::{CONFIG, Server, command};
use crate::support::{Files, tool, wait_until};
use serde_json::Value;
use std::time::{Duration, Instant};

fn server(files: &Files, limits: &str) -> Server {
    make_certificate(files.dir(), "mx", EC, &["mail.here.test", "localhost"]);
    let text = format!(
        "hostname = \"mail.here.test\"\nspool = {{ path = \"spool\" }}\n\
         [admin]\naddress = \"127.0.0.1:0\"\n{}\
         [[listener]]\nname = \"submissions\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
         tls = \"implicit\"\nlogins = {{ table = \"passwords\" }}\n{limits}\
         [[table]]\nname = \"passwords\"\n[table.inline]\njo = \"{{PLAIN}}pencil\"\n\
         al = \"{{PLAIN}}pencil\"\n\
         [[route]]\nsmtp = {{ hosts = [\"127.0.0.1:9\"] }}\n",
        section("mx", &["mail.here.test"]),
    );
    Server::start(files, &text)
}

/// Sends messages with three recipients each by one login, in one session. Returns the accepted messages and
/// recipients, and the first refusal.
fn flood(server: &Server, user: &str, messages: usize) -> (u64, u64, String) {
    let script = "import smtplib, ssl, sys\n\
        port, user, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])\n\
        s = smtplib.SMTP_SSL('127.0.0.1', port, context=ssl._create_unverified_context())\n\
        s.login(user, 'pencil')\n\
        messages = recipients = 0\n\
        refused = ''\n\
        def said(answer):\n\
        \x20   global refused\n\
        \x20   code, text = answer\n\
        \x20   if code >= 400 and not refused: refused = '%d %s' % (code, text.decode())\n\
        \x20   return code < 400\n\
        try:\n\
        \x20   for n in range(count):\n\
        \x20       if not said(s.mail('me@source.test')): continue\n\
        \x20       took = sum(said(s.rcpt('you%d@there.test' % k)) for k in range(3))\n\
        \x20       if took and said(s.data(b'From: me@source.test\\r\\nSubject: x\\r\\n\\r\\nx\\r\\n')):\n\
        \x20           messages += 1; recipients += took\n\
        \x20       elif not took: s.rset()\n\
        except smtplib.SMTPServerDisconnected: pass # too many refusals\n\
        print(messages, recipients, refused)\n";
    let (port, count) = (server.address().port().to_string(), messages.to_string());
    let said = tool::run("python3", &["-c", script, &port, user, &count]);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut words = text.trim().splitn(3, ' ');
    let mut number = || words.next().and_then(|word| word.parse().ok()).expect("a number");
    (number(), number(), words.next().unwrap_or_default().to_owned())
}

fn metrics(server: &Server) -> String {
    let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
    get(line.rsplit(' ').next().expect("an address"), "/metrics")
}

/// The reply to a login.
fn log_in(server: &Server, user: &str) -> String {
    let script = "import smtplib, ssl, sys\n\
        context = ssl._create_unverified_context()\n\
        s = smtplib.SMTP_SSL('127.0.0.1', int(sys.argv[1]), context=context)\n\
        try: print(*s.login(sys.argv[2], 'pencil'))\n\
        except smtplib.SMTPAuthenticationError as e: print(e.smtp_code, e.smtp_error.decode())\n";
    let port = server.address().port().to_string();
    let said = tool::run("python3", &["-c", script, &port, user]);
    String::from_utf8_lossy(&said.stdout).trim().to_owned()
}

#[test]
fn stolen_account_stops_at_its_limit_and_shows_everywhere() {
    let files = Files::new();
    let server = server(&files, "");
    server.wait_console("the default", |line| {
        line.contains("200/h messages and 1000/d and 300/h recipients by default")
    });
    let (messages, recipients, refused) = flood(&server, "jo", 300);
    let begun = Instant::now();
    assert_eq!((messages, recipients), (100, 300));
    assert_eq!(refused, "450 4.7.1 Recipient limit reached; try again later");
    // All four places, within a second of the end.
    server.wait_console("a line", |line| {
        line.contains("limit reached by=login value=\"jo\" limit=300/h unit=recipients over=defer")
    });
    let status = server.command(&["status"]).out;
    assert!(status.contains("login jo has reached its limit of 300/h recipients"), "{status}");
    let metrics = metrics(&server);
    assert_eq!(metric(&metrics, "postrider_limits_reached_total{by=\"login\"}"), 1);
    assert!(metric(&metrics, "postrider_limit_excess_total{by=\"login\"}") >= 3);
    files.wait_events("limited", 1);
    let event = files.events_of("limited").remove(0);
    assert_eq!((&event["value"], &event["limit"]), (&"jo".into(), &"300/h".into()));
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    // Nobody else is concerned, and a restart resets nothing.
    assert_eq!(flood(&server, "al", 1).0, 1);
    server.stop();
    let server = Server::start_again(&files);
    assert_eq!(flood(&server, "jo", 1), (0, 0, refused));
    // One command holds all of it, another removes it.
    let held = server.command(&["queue", "hold", "--login", "jo", "--reason", "stolen"]);
    assert_eq!((held.code, held.out.trim()), (0, "100 messages held"), "{held:?}");
    let removed = server.command(&["queue", "remove", "--login", "JO"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    wait_until("the other login's mail is left", || server.queue().len() == 1);
    server.stop();
}

#[test]
fn mail_beyond_a_limit_is_held_and_removed_by_one_command() {
    let files = Files::new();
    let limit = "[[limit]]\nby = \"login\"\nmessages = \"10/h\"\nover = \"hold\"\n";
    let server = server(&files, limit);
    assert_eq!(flood(&server, "jo", 30), (30, 90, String::new()));
    let held = || server.queue().iter().filter(|item| item["held"] != Value::Null).count();
    wait_until("twenty are held", || held() == 20);
    let removed = server.command(&["queue", "remove", "--login", "jo", "--state", "held"]);
    assert_eq!(removed.code, 0, "{removed:?}");
    wait_until("ten are left", || server.queue().len() == 10);
    server.stop();
}

#[test]
fn revoked_login_is_closed_and_refused_until_it_is_allowed() {
    let files = Files::new();
    let server = server(&files, "");
    assert!(log_in(&server, "jo").starts_with("235"));
    let script = "import smtplib, ssl, sys\n\
        context = ssl._create_unverified_context()\n\
        s = smtplib.SMTP_SSL('127.0.0.1', int(sys.argv[1]), context=context)\n\
        s.login('jo', 'pencil')\n\
        open(sys.argv[2], 'w').close()\n\
        print(*s.getreply())\n";
    let port = server.address().port().to_string();
    let there = files.path("logged-in");
    let session = std::thread::spawn({
        let there = there.display().to_string();
        move || tool::run("python3", &["-c", script, &port, &there])
    });
    wait_until("the session is there", || there.exists());
    let listed = server.command(&["login", "list"]).out;
    assert!(listed.lines().any(|line| line.trim_start().starts_with("jo ")), "{listed}");
    let explained = |offline: &[&str]| {
        let words =
            ["explain", "you@far.test", "--login", "jo", "--from", "jo@here.test", "--json"];
        let answer = command(files.dir(), &[&words, offline].concat());
        let explained: Value = serde_json::from_str(&answer.out).expect("JSON");
        let steps = explained["steps"].as_array().expect("steps").clone();
        let step = steps.into_iter().find(|step| step["what"] == "acceptance").expect("a step");
        (explained["accepted"].clone(), step["value"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(explained(&[]).0, true);
    let revoked = server.command(&["login", "revoke", "JO", "--reason", "stolen"]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    let said = session.join().expect("a session");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(
        said.starts_with("421 b'4.7.0 mail.here.test Access rights changed; reconnect'"),
        "{said}"
    );
    let refusal = "535 5.7.8 Authentication credentials invalid";
    assert_eq!(log_in(&server, "jo"), refusal);
    for offline in [&[][..], &["--offline"]] {
        let (accepted, text) = explained(offline);
        assert!(accepted == false && text.ends_with(refusal), "{text}");
        assert!(text.starts_with("rejected at AUTH for user jo: "), "{text}");
    }
    assert!(log_in(&server, "al").starts_with("235"));
    server.stop();
    let server = Server::start_again(&files);
    assert_eq!(log_in(&server, "jo"), refusal);
    let listed = server.command(&["login", "list"]).out;
    assert!(listed.contains("revoked since ") && listed.contains(": stolen"), "{listed}");
    assert_eq!(server.command(&["login", "allow", "jo"]).code, 0);
    assert_eq!(server.command(&["login", "allow", "jo"]).code, 1);
    assert!(log_in(&server, "jo").starts_with("235"));
    assert_eq!(explained(&[]).0, true);
    server.stop();
}

#[test]
fn client_that_guessed_is_listed_and_unblocked() {
    let files = Files::new();
    let server = server(&files, "");
    let text = std::fs::read_to_string(files.path(CONFIG)).expect("it is there");
    let few = "tls = \"implicit\"\nlogin_failures_per_hour = 2\nlogin_failure_delay = \"0\"\n";
    files.write(CONFIG, &text.replace("tls = \"implicit\"\n", few));
    assert_eq!(server.command(&["reload"]).code, 0);
    assert_eq!(server.command(&["login", "blocked"]).out, "No client is blocked.\n");
    // By PLAIN, then by LOGIN: two failures.
    assert!(log_in(&server, "nobody").starts_with("535"));
    let listed = server.command(&["login", "blocked"]).out;
    assert!(listed.starts_with("127.0.0.1  until "), "{listed}");
    assert_eq!(server.command(&["login", "unblock", "127.0.0.1"]).code, 0);
    assert!(log_in(&server, "jo").starts_with("235"));
    assert_eq!(server.command(&["login", "unblock", "192.0.2.9"]).code, 1);
    server.stop();
}
