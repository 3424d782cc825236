//! Files that do not answer, one kind after the other: mail, orders and signals go on.

use crate::configured_files::{READ, make_files, with};
use crate::support::client::Client;
use crate::support::http::{get, metric};
use crate::support::server::{Answer, CONFIG, POSTRIDER, Server, command, control};
use crate::support::{Files, WAIT_MAX, config, wait_until};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What an operator and a service manager wait for.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(5);

/// Who opens it to read waits for somebody who writes: a disk that hangs.
pub(crate) fn pipe(files: &Files, name: &str) {
    let _ = fs::remove_file(files.path(name));
    mknodat(CWD, files.path(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
}

/// Lets whoever waits read nothing; whether anybody did.
pub(crate) fn release(files: &Files, name: &str) -> bool {
    open(files.path(name), OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).is_ok()
}

/// A command for the server, which names the configuration, or the socket where the configuration hangs.
type Asked = fn(&Path, &[&str]) -> Answer;

fn reload(files: &Files, ask: Asked) -> JoinHandle<Answer> {
    let dir = files.dir().to_owned();
    thread::spawn(move || ask(&dir, &["reload"]))
}

pub(crate) fn all_else_goes_on(server: &Server, status: impl FnOnce() -> Answer, what: &str) {
    let begun = Instant::now();
    let status = status();
    assert_eq!(status.code, 0, "{what}: {status:?}");
    let mut client = Client::connect(server.address());
    client.mail("a@source.test", &["b@far.test"], "Subject: x\r\n\r\n");
    assert!(begun.elapsed() < AT_ONCE, "{what}: {:?}", begun.elapsed());
}

#[test]
fn a_reload_whose_files_hang_stops_nothing_else() {
    let files = Files::new();
    // A route for everything would have to be the last.
    let plain = config("[[route]]\ndomains = [\"far.test\"]\ndiscard = {}\n");
    make_files(&files);
    let server = Server::start(&files, &plain);
    let (mut hung, mut unread) = (0, Vec::new());
    // And the configuration itself.
    let kinds = READ.iter().map(|(_, first, rest)| (*first, *rest)).chain([("", "")]);
    for (first, rest) in kinds {
        let what = format!("{first}{rest}");
        pipe(&files, "pipe");
        match what.is_empty() {
            // The configuration itself.
            true => pipe(&files, CONFIG),
            false => _ = files.write(CONFIG, &with(&plain, (first, rest))),
        }
        let ask: Asked = if what.is_empty() { control } else { command };
        let reload = reload(&files, ask);
        let begun = Instant::now();
        while !reload.is_finished() && begun.elapsed() < Duration::from_millis(500) {
            thread::sleep(Duration::from_millis(10));
        }
        all_else_goes_on(&server, || ask(files.dir(), &["status"]), &what);
        if !reload.is_finished() {
            hung += 1;
            let second = ask(files.dir(), &["reload"]);
            let second = format!("{}{}", second.out, second.err);
            assert!(second.contains("a reload has been running"), "{what}: {second}");
        }
        let name = if what.is_empty() { CONFIG } else { "pipe" };
        let mut is_read = false;
        wait_until(&what, || {
            is_read |= release(&files, name);
            reload.is_finished()
        });
        // It has read nothing: some files may be empty. Of some a pipe is refused at once.
        let told = reload.join().expect("no panic");
        assert!(told.code <= 1, "{what}: {told:?}");
        let is_named = format!("{}{}", told.out, told.err).contains("pipe");
        if !is_read && !is_named && !what.contains("snapshot_path") {
            unread.push(format!("{what}: {told:?}"));
        }
        if what.is_empty() {
            // A command that is to find the socket in a file that hangs gives up.
            let begun = Instant::now();
            let status = server.command(&["status"]);
            assert!(status.code == 2 && status.err.contains("did not respond"), "{status:?}");
            assert!(begun.elapsed() < 2 * AT_ONCE, "{:?}", begun.elapsed());
            fs::remove_file(files.path(CONFIG)).expect("a pipe");
        }
    }
    assert!(unread.is_empty(), "{unread:#?}");
    assert!(hung >= 16, "{hung}");
}

#[test]
fn a_reload_that_goes_on_for_long_is_answered_makes_room_for_another_and_holds_up_no_stop() {
    let files = Files::new();
    let plain = config("[[route]]\ndomains = [\"far.test\"]\ndiscard = {}\n");
    let mut server = Server::start(&files, &plain);
    pipe(&files, "pipe");
    files.write(CONFIG, &format!("{plain}{}", READ[0].2));
    let begun = Instant::now();
    let late = reload(&files, command).join().expect("no panic");
    assert_eq!(late.code, 1);
    assert!(format!("{}{}", late.out, late.err).contains("reading table t"), "{late:?}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    let status = server.command(&["status"]);
    assert!(status.out.contains("a reload has been reading table t"), "{status:?}");
    files.write(CONFIG, &plain);
    assert_eq!(server.command(&["reload"]).code, 0);
    files.write(CONFIG, &format!("{plain}{}", READ[0].2));
    let pending = reload(&files, command);
    server.wait_console("the last", |line| line.contains("configuration reloaded"));
    thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    assert_eq!(pending.join().expect("no panic").code, 1);
}

/// A start that waits says for what, and heeds signals.
pub(crate) fn a_start_says_what_it_waits_for(files: &Files, what: &str) {
    let console = files.path("console");
    let mut child = Command::new(POSTRIDER)
        .args(["serve", "--config", CONFIG])
        .current_dir(files.dir())
        .stdin(Stdio::null())
        .stderr(File::create(&console).expect("room"))
        .spawn()
        .expect("it runs");
    let said = || fs::read_to_string(&console).unwrap_or_default();
    wait_until(&format!("a word about {what}"), || said().contains(what));
    let begun = Instant::now();
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    wait_until("its end", || child.try_wait().expect("a child").is_some());
    assert!(begun.elapsed() < AT_ONCE, "{:?}: {}", begun.elapsed(), said());
}

#[test]
fn a_start_whose_disk_hangs_says_so_and_heeds_signals() {
    let files = Files::new();
    let text = config("[[route]]\ndiscard = {}\n");
    let both = text.replace("path = \"spool\"", "paths = [\"spool\", \"second\"]");
    Server::start(&files, &both).stop();
    let name = "second/logs.json";
    pipe(&files, name);
    a_start_says_what_it_waits_for(&files, "reading the spool in second");
    let said = fs::read_to_string(files.path("console")).expect("it is there");
    assert!(said.contains("stopped during the start"), "{said}");
    fs::remove_file(files.path(name)).expect("a pipe");
    // One that is not used any more, and may hold mail.
    pipe(&files, "second/register");
    files.write(CONFIG, &text);
    a_start_says_what_it_waits_for(&files, "second, which is not in `paths`");
    // What is read before the server heeds signals itself.
    pipe(&files, "pipe");
    let (_, _, secret) =
        READ.iter().find(|(keys, ..)| keys.contains(&"srs.secret_file")).expect("a row");
    files.write(CONFIG, &format!("{text}{secret}"));
    a_start_says_what_it_waits_for(&files, "reading secrets");
    pipe(&files, CONFIG);
    a_start_says_what_it_waits_for(&files, "reading the configuration");
}

#[test]
fn an_event_log_that_hangs_is_seen_and_holds_up_neither_mail_nor_a_stop() {
    let files = Files::new();
    pipe(&files, "pipe");
    let text = "[admin]\naddress = \"127.0.0.1:0\"\n[events]\npath = \"pipe\"\nwaiting_max = 100\n\
                [[route]]\ndiscard = {}\n";
    let mut server = Server::start(&files, &config(text));
    // A pipe that nobody empties takes 64 KiB.
    let mut client = Client::connect(server.address());
    for _ in 0..400 {
        client.mail("a@source.test", &["b@far.test"], "Subject: x\r\n\r\n");
    }
    let status = || server.command(&["status"]).out;
    wait_until("a word about it", || status().contains("the event log pipe has not responded"));
    all_else_goes_on(&server, || server.command(&["status"]), "events");
    let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
    let (_, address) = line.rsplit_once(' ').expect("an address");
    let told = get(address.trim_start_matches("http://"), "/metrics");
    assert!(metric(&told, "postrider_events_total") >= 800, "{told}");
    assert!(metric(&told, "postrider_events_lag") > 0, "{told}");
    drop(client);
    let begun = Instant::now();
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    server.wait_console("what is lost", |line| line.contains("events were not written lost="));
}

#[test]
fn a_database_that_is_written_over_in_place_fails_for_now_and_stops_nothing() {
    let files = Files::new();
    let build = |count: usize, name: &str| {
        let value = "x".repeat(100);
        let users: String = (0..count).map(|n| format!("u{n}@db.test {value}{n}\n")).collect();
        files.write("users.txt", &users);
        let words = ["table", "build", "--from", "users.txt", "--to", name];
        let built = Command::new(POSTRIDER).args(words).current_dir(files.dir()).output();
        assert!(built.expect("it runs").status.success());
    };
    build(40_000, "users.db");
    build(25_000, "fewer.db");
    let text = "[[table]]\nname = \"db\"\ndatabase = { path = \"users.db\" }\n\
                [[route]]\ndomains = [\"db.test\"]\nrecipients = { table = \"db\" }\ndiscard = {}\n";
    let server = Server::start(&files, &config(text));
    let rcpt = |user: usize| {
        let mut client = Client::connect(server.address());
        client.say("MAIL FROM:<a@source.test>", "250");
        client.send(format!("RCPT TO:<u{user}@db.test>\r\n"));
        client.reply()
    };
    assert!(rcpt(39_999).starts_with("250"));
    // As `cp` does it.
    fs::copy(files.path("fewer.db"), files.path("users.db")).expect("room");
    for user in (0..40_000).step_by(400) {
        let reply = rcpt(user);
        assert!(reply.starts_with("250") || reply.starts_with("451"), "{user}: {reply}");
    }
    wait_until("the new file", || rcpt(39_999).starts_with("550"));
    assert!(rcpt(24_999).starts_with("250"));
    server.stop();
}

#[test]
fn a_file_that_empties_refuses_nobody_for_a_while() {
    let files = Files::new();
    let users =
        |count: usize| (0..count).map(|n| format!("u{n}@here.test x\n")).collect::<String>();
    files.write("users", &users(200));
    let text = "[[table]]\nname = \"u\"\nfile = { path = \"users\" }\n\
                [[route]]\ndomains = [\"here.test\"]\nrecipients = { table = \"u\" }\ndiscard = {}\n";
    let server = Server::start(&files, &config(text));
    let mut client = Client::connect(server.address());
    let mut is_taken = |user: usize| {
        client.say("MAIL FROM:<a@source.test>", "250");
        client.send(format!("RCPT TO:<u{user}@here.test>\r\n"));
        let reply = client.reply();
        client.say("RSET", "250");
        reply.starts_with("250")
    };
    for count in [0, 90] {
        files.write("users", &users(count));
        server.wait_console("a doubt", |line| line.contains(&format!("keys={count} before=200")));
        assert!(is_taken(150), "{count}");
        // Nor does a reload take it up.
        assert_eq!(server.command(&["reload"]).code, 0);
        assert!(is_taken(150), "{count}");
    }
    // Half of it, and more, is another list.
    files.write("users", &users(140));
    server.wait_console("another list", |line| line.contains("reloaded keys=140"));
    assert!(!is_taken(150) && is_taken(100));
    server.stop();
}

/// Asks for a token twice, the second time after a pause: a server that refuses each has the client come again.
fn asked_twice(endpoint: &TcpListener) {
    for _ in 0..2 {
        let (mut client, _) = endpoint.accept().expect("a client");
        let mut request = [0; 4_096];
        assert!(client.read(&mut request).expect("a request") > 0);
        let refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
        client.write_all(refusal.as_bytes()).expect("it reads");
    }
}

#[test]
fn files_of_services_that_hang_delay_their_service_only() {
    let files = Files::new();
    make_files(&files);
    let endpoint = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = endpoint.local_addr().expect("an address").port();
    Server::start(&files, &config("[[route]]\ndiscard = {}\n")).stop();
    let planted = [
        "spool/acme/mx.here.test.ordered",
        "spool/dmarc-reports/1.json",
        "spool/tls-reports/1.json",
        "spool/mta-sts/far.test",
    ];
    for name in planted {
        let path = files.path(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("room");
        pipe(&files, name);
    }
    let sections = format!(
        "[[route]]\ndomains = [\"y.test\"]\n\
         smtp = {{ hosts = [\"127.0.0.1:9\"], tls = \"required\", login = {{ user = \"u\", oauth = {{ \
         url = \"http://127.0.0.1:{port}/t\", client_id = \"c\", client_secret_file = \"secret\" }} }} }}\n\
         [[route]]\ndomains = [\"x.test\"]\nmx = {{ tls = \"mta-sts\" }}\n\
         [[route]]\ndiscard = {{}}\n\
         [[certificate]]\nnames = [\"mx.here.test\"]\nacme = true\n\
         [acme]\ndirectory = \"https://127.0.0.1:9/dir\"\nterms_agreed = true\naddress = \"127.0.0.1:0\"\n\
         [dmarc_reports]\nfrom = \"dmarc@here.test\"\n[tls_reports]\nfrom = \"tls@here.test\"\n"
    );
    let server = Server::start(&files, &config(&sections));
    let (asked, when_asked) = mpsc::channel();
    thread::spawn(move || {
        asked_twice(&endpoint);
        asked.send(())
    });
    when_asked.recv_timeout(WAIT_MAX).expect("tokens are asked for again and again");
    all_else_goes_on(&server, || server.command(&["status"]), "services");
    for name in planted {
        wait_until(name, || release(&files, name));
    }
    server.stop();
}
