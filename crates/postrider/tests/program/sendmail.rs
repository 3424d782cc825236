//! `sendmail`, `mailq` and `newaliases`, beside Postfix's.

use crate::support::peer::Peer;
use crate::support::server::{POSTRIDER, Server};
use crate::support::{Files, wait_until};
use skips::Machine;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

/// All mail stays here, except for users and domains that no route takes.
const CONFIG: &str = "hostname = \"mail.here.test\"\nspool = { path = \"spool\" }\n\
     [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n\
     [[listener]]\nname = \"local\"\nkind = \"local\"\nsocket = \"submit.sock\"\nmax_message_bytes = \"64KiB\"\n\
     [[access]]\ntable = \"rules\"\nby = \"recipient\"\nclients = \"all\"\n\
     [[table]]\nname = \"rules\"\ninline = { \"blocked@x.test\" = \"REJECT\", \"later@x.test\" = \"DEFER\" }\n\
     [[route]]\ndomains = [\"table.test\"]\nrecipients = { table = \"users\" }\nmaildir = { path = \"mail/{local}\" }\n\
     [[table]]\nname = \"users\"\ninline = { \"known@table.test\" = \"\" }\n\
     [[route]]\nmaildir = { path = \"mail/{local}\" }\n";

const MESSAGE: &str = "Subject: one\n\nBody.\n";

/// Runs a program with this standard input, in a clean environment.
fn run(program: &Path, dir: &Path, words: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(program)
        .args(words)
        .current_dir(dir)
        .env_remove("NAME")
        .env("POSTRIDER_CONFIG", dir.join("postrider.toml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program is there");
    // A wrong command line is refused before the message is read.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait_with_output().expect("it ends")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it exits")
}

/// The program under test by another name.
fn link(files: &Files, name: &str) -> PathBuf {
    let path = files.path(name);
    if !path.exists() {
        symlink(POSTRIDER, &path).expect("a link");
    }
    path
}

fn sendmail(files: &Files, words: &[&str], input: &str) -> Output {
    run(&link(files, "sendmail"), files.dir(), words, input.as_bytes())
}

/// Its mail, as text.
fn mail_of(files: &Files, user: &str, count: usize) -> Vec<String> {
    let mail = files.wait_maildir(&format!("mail/{user}"), count);
    mail.into_iter().map(|one| String::from_utf8(one).expect("text")).collect()
}

#[test]
fn message_arrives_as_its_options_want() {
    let files = Files::new();
    let server = Server::start(&files, CONFIG);
    // As cron sends.
    let cron = "To: root\nSubject: Cron\n\nfirst\n.\nlast";
    let sent = sendmail(&files, &["-i", "-FCron Daemon", "-B8BITMIME", "-oem", "root"], cron);
    assert_eq!(code(&sent), 0, "{sent:?}");
    let mail = mail_of(&files, "root", 1).remove(0);
    assert!(mail.contains("\nFrom: Cron Daemon <"), "{mail}");
    assert!(mail.ends_with("\n\nfirst\n.\nlast\n"), "{mail}");
    // As PHP sends.
    let php = "To: a@x.test, Bo <b@x.test>\r\nBcc: c@x.test\r\nFrom: w@x.test\r\n\r\nbody\r\n.\r\nno body\r\n";
    let sent = sendmail(&files, &["-t", "-fw@x.test", "--", "-d@x.test"], php);
    assert_eq!(code(&sent), 0, "{sent:?}");
    for user in ["a", "b", "c", "-d"] {
        let mail = mail_of(&files, user, 1).remove(0);
        assert!(mail.ends_with("\n\nbody\n") && !mail.contains("Bcc"), "{mail}");
        assert!(!mail.contains("From: root"), "{mail}");
    }
    // A report about success goes to the sender.
    let wishes =
        ["-N", "success", "-R", "hdrs", "-V", "a+b", "-f", "asker@x.test", "known@table.test"];
    assert_eq!(code(&sendmail(&files, &wishes, MESSAGE)), 0);
    let report = mail_of(&files, "asker", 1).remove(0);
    assert!(report.contains("Original-Envelope-Id: a+b"), "{report}");
    assert!(report.contains("Action: delivered") && !report.contains("Body."), "{report}");
    server.stop();
}

#[test]
fn refusals_have_exit_codes_and_are_named() {
    let files = Files::new();
    let nowhere = CONFIG.replace("submit.sock\"", "submit.sock\"\ndrop = \"\"");
    let server = Server::start(&files, &nowhere);
    let large = format!("Subject: x\n\n{}", "x".repeat(100_000));
    for (words, input, expected, told) in [
        (&["unknown@table.test"][..], MESSAGE, 67, "unknown@table.test: 550 5.1.1 "),
        (&["blocked@x.test"], MESSAGE, 77, "blocked@x.test: 550 5.7.1 "),
        (&["later@x.test"], MESSAGE, 75, "later@x.test: 4."),
        (&["a b@@x"], MESSAGE, 65, "5.1.3 "),
        (&["a@x.test\r\nDATA"], MESSAGE, 65, "5.1.3 "),
        (&["-f", "a\r\nDATA", "root"], MESSAGE, 65, "the sender is no address"),
        (&["root"], &large, 65, "552 5.3.4 "),
        (&[], MESSAGE, 64, "no recipients"),
        (&["-t"], "Subject: x\n\n", 64, "no recipient addresses"),
        (&["-C", "none.toml", "root"], MESSAGE, 78, "none.toml"),
        (&["-Z"], MESSAGE, 64, "invalid option -- 'Z'"),
    ] {
        let output = sendmail(&files, words, input);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(code(&output) == expected && error.contains(told), "{words:?}: {output:?}");
    }
    // The others get it.
    let output = sendmail(&files, &["unknown@table.test", "known@table.test"], MESSAGE);
    assert_eq!(code(&output), 67, "{output:?}");
    mail_of(&files, "known", 1);
    let output = sendmail(&files, &["-bv", "unknown@table.test", "known@table.test"], "");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(code(&output), 67, "{output:?}");
    assert!(text.contains("unknown@table.test... undeliverable: 550"), "{text}");
    assert!(text.contains("known@table.test... deliverable: 250"), "{text}");
    let dialogue = "EHLO x\r\nMAIL FROM:<>\r\nRCPT TO:<typed@x.test>\r\nDATA\r\nA: b\r\n\r\nc\r\n.\r\nQUIT\r\n";
    let output = sendmail(&files, &["-bs"], dialogue);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(code(&output) == 0 && text.contains("\r\n250 2.0.0 Ok: queued as "), "{output:?}");
    mail_of(&files, "typed", 1);
    // Input that ends within the content is not accepted, and does not wait.
    let (cut, _) = dialogue.split_once("\r\n.\r\n").expect("content");
    let output = sendmail(&files, &["-bs"], cut);
    assert_eq!(code(&output), 74, "{output:?}");
    server.stop();
    assert_eq!(code(&sendmail(&files, &["-bv", "root"], "")), 75, "no server");
    assert_eq!(code(&sendmail(&files, &["root"], MESSAGE)), 75, "no server, and no directory");
}

/// The files in the directory of dropped messages, by name.
fn dropped(files: &Files) -> Vec<PathBuf> {
    let entries = fs::read_dir(files.path("spool-drop")).expect("a directory");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    paths
}

/// Lets a server create the directory.
fn started_and_stopped(files: &Files) {
    let server = Server::start(files, CONFIG);
    let mode = || fs::metadata(files.path("spool-drop")).map(|meta| meta.permissions().mode());
    wait_until("a directory", || mode().is_ok_and(|mode| mode & 0o1000 != 0));
    server.stop();
}

#[test]
fn message_waits_while_the_server_is_down() {
    let files = Files::new();
    started_and_stopped(&files);
    let mode = fs::metadata(files.path("spool-drop")).expect("a directory").permissions().mode();
    assert_eq!(mode & 0o7777, 0o1733);
    assert_eq!(code(&sendmail(&files, &["-f", "me@x.test", "root"], MESSAGE)), 0);
    let wrong = ["-f", "asker@x.test", "unknown@table.test", "known@table.test"];
    assert_eq!(code(&sendmail(&files, &wrong, MESSAGE)), 0);
    assert_eq!(dropped(&files).len(), 2);
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        // As if another user had sent it.
        chown(&dropped(&files)[0], Some(65_534), Some(65_534)).expect("root may");
    } else {
        skips::machine(Machine::Root, "a file of another user");
    }
    let server = Server::start_again(&files);
    mail_of(&files, "root", 1);
    mail_of(&files, "known", 1);
    wait_until("all files taken up", || dropped(&files).is_empty());
    let events = files.events_of("received");
    let of_other = events.iter().find(|event| event["recipients"][0] == "root@mail.here.test");
    let of_other = of_other.expect("an event");
    if is_root {
        assert_eq!(of_other["login"], "nobody", "{of_other}");
        assert_eq!(of_other["sender"], "nobody@mail.here.test", "not trusted: {of_other}");
    }
    let report = mail_of(&files, "asker", 1).remove(0);
    assert!(report.contains("<unknown@table.test>: 550 5.1.1 "), "{report}");
    assert!(report.contains("Subject: one") && !report.contains("Body."), "{report}");
    // A message of a running server that is left there is found, too.
    server.stop();
    assert_eq!(code(&sendmail(&files, &["later"], MESSAGE)), 0);
    let left = dropped(&files).remove(0);
    fs::rename(&left, files.path("away")).expect("the same disk");
    let server = Server::start_again(&files);
    fs::rename(files.path("away"), left).expect("the same disk");
    mail_of(&files, "later", 1);
    server.stop();
}

#[test]
fn strange_files_are_not_taken_up() {
    let files = Files::new();
    started_and_stopped(&files);
    for user in ["good", "linked", "open", "cut"] {
        assert_eq!(code(&sendmail(&files, &[user], MESSAGE)), 0);
    }
    let all = dropped(&files);
    let drop = |name: &str| files.path("spool-drop").join(name);
    files.write("secret", "mine");
    symlink(files.path("secret"), drop("msg-link")).expect("a link");
    fs::hard_link(&all[1], files.path("second-name")).expect("a link");
    fs::set_permissions(&all[2], fs::Permissions::from_mode(0o666)).expect("our file");
    let whole = fs::read(&all[3]).expect("a file");
    fs::write(&all[3], &whole[..whole.len() - 1]).expect("room");
    let made = Command::new("mkfifo").arg(drop("msg-pipe")).status().expect("mkfifo(1)");
    assert!(made.success());
    fs::create_dir(drop("msg-directory")).expect("room");
    fs::write(drop("msg-text"), "Subject: no envelope\n\n").expect("room");
    // The server would wait for the end of its content.
    let text = String::from_utf8(whole).expect("text");
    let endless = text.replace("Body.\r\n", "Body...");
    fs::write(drop("msg-endless"), endless).expect("room");
    fs::write(drop("msg-line\nbreak"), "").expect("room");
    fs::write(drop("other"), "none of ours").expect("room");
    let old = fs::File::create(drop("new-old")).expect("room");
    old.set_modified(SystemTime::now() - Duration::from_secs(2 * 86_400)).expect("a time");
    fs::write(drop("new-young"), "").expect("room");
    let server = Server::start_again(&files);
    mail_of(&files, "good", 1);
    let name = |path: &Path| path.file_name().expect("a name").to_str().expect("text").to_owned();
    for (file, why) in [
        ("msg-link".to_owned(), "it is a symbolic link"),
        (name(&all[1]), "it has several names"),
        (name(&all[2]), "other users may write to it"),
        (name(&all[3]), "it is cut"),
        ("msg-pipe".to_owned(), "it is not a regular file"),
        ("msg-endless".to_owned(), "its last line has no end"),
        ("msg-text".to_owned(), "it is no message of sendmail"),
        ("msg-line\\nbreak".to_owned(), "it is no message of sendmail"),
        ("new-old".to_owned(), "it was never completed"),
    ] {
        let line = server.wait_console(why, |line| line.contains(&file));
        assert!(line.contains("drop: file refused") && line.ends_with(why), "{line}");
    }
    wait_until("refused files are gone", || dropped(&files).len() == 3);
    assert_eq!(fs::read_to_string(files.path("secret")).expect("a file"), "mine");
    assert!(files.path("second-name").exists());
    assert_eq!(files.wait_events("received", 1).len(), 1);
    server.stop();
}

/// Gives the only file in the directory this age.
fn age_dropped(files: &Files, days: u64) {
    let path = dropped(files).remove(0);
    let file = fs::OpenOptions::new().write(true).open(path).expect("our file");
    file.set_modified(SystemTime::now() - Duration::from_secs(days * 86_400)).expect("a time");
}

#[test]
fn deferred_message_waits_and_delays_no_other() {
    let files = Files::new();
    started_and_stopped(&files);
    assert_eq!(code(&sendmail(&files, &["later@x.test", "known@table.test"], MESSAGE)), 0);
    let server = Server::start_again(&files);
    server.wait_console("deferred", |line| line.contains("drop: message deferred"));
    // Left by another program while the server runs.
    let path = dropped(&files).remove(0);
    let text = fs::read_to_string(&path).expect("text").replace("later@x.test", "other@x.test");
    let changed = text.replace("known@table.test", "second@x.test");
    fs::write(files.path("changed"), changed).expect("room");
    fs::rename(files.path("changed"), path.with_file_name("msg-second")).expect("the same disk");
    mail_of(&files, "second", 1);
    assert_eq!(dropped(&files), [path], "the first one waits, and no recipient got it");
    assert!(!files.path("mail/known").exists());
    server.stop();
    // At the end of its time it goes to those that take it.
    age_dropped(&files, 6);
    let server = Server::start_again(&files);
    mail_of(&files, "known", 1);
    let report = mail_of(&files, "root", 1).remove(0);
    assert!(report.contains("<later@x.test>: 451 4.") && !report.contains("known"), "{report}");
    wait_until("the file is gone", || dropped(&files).is_empty());
    server.stop();
}

#[test]
fn file_that_stays_is_submitted_once() {
    let files = Files::new();
    started_and_stopped(&files);
    assert_eq!(code(&sendmail(&files, &["once"], MESSAGE)), 0);
    let path = dropped(&files).remove(0);
    let change = |how| Command::new("chattr").arg(how).arg(&path).output().expect("chattr(1)");
    if !change("+i").status.success() {
        return skips::machine(Machine::Root, "a file that can't be removed");
    }
    let server = Server::start_again(&files);
    server.wait_console("a file", |line| line.contains("drop: submitted file not removed"));
    assert!(path.exists());
    assert!(change("-i").status.success());
    wait_until("the file is gone", || !path.exists());
    assert_eq!(mail_of(&files, "once", 1).len(), 1);
    server.stop();
}

#[test]
fn dropped_message_is_synced_with_its_name() {
    let files = Files::new();
    started_and_stopped(&files);
    let sendmail = link(&files, "sendmail");
    fs::set_permissions(files.dir(), fs::Permissions::from_mode(0o755)).expect("own directory");
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skips::machine(Machine::Root, "a user that may not list the directory");
    }
    for (user, last) in [(None, "fsync"), (Some(65_534), "syncfs")] {
        if user.is_some() && !is_root {
            continue;
        }
        let trace = files.path("trace").with_extension(last);
        fs::write(&trace, "").expect("room");
        fs::set_permissions(&trace, fs::Permissions::from_mode(0o666)).expect("own file");
        let mut traced = Command::new("strace");
        traced.args(["-f", "-y", "-e", "trace=fsync,syncfs,rename", "-o"]).arg(&trace);
        traced.arg(&sendmail).arg("root").current_dir(files.dir());
        traced.env("POSTRIDER_CONFIG", files.path("postrider.toml"));
        if let Some(user) = user {
            traced.uid(user).gid(user);
        }
        let mut child = traced.stdin(Stdio::piped()).spawn().expect("strace is there");
        child.stdin.take().expect("a pipe").write_all(MESSAGE.as_bytes()).expect("it reads");
        assert!(child.wait().expect("it ends").success());
        let text = fs::read_to_string(&trace).expect("text");
        let calls: Vec<&str> = text.lines().filter(|line| line.ends_with(" = 0")).collect();
        let [content, name, names] = calls[..] else { panic!("{text}") };
        assert!(content.contains(" fsync(") && content.contains("/new-"), "{text}");
        assert!(name.contains(" rename(") && name.contains("/msg-"), "{text}");
        assert!(names.contains(&format!(" {last}(")) && names.contains("spool-drop"), "{text}");
    }
    assert_eq!(dropped(&files).len(), if is_root { 2 } else { 1 });
}

#[test]
fn queue_is_listed_and_retried_by_the_old_names() {
    let files = Files::new();
    let held = CONFIG.replace(
        "[[route]]\nmaildir",
        "[[route]]\ndomains = [\"away.test\"]\nsmtp = { hosts = [\"PEER\"] }\n[[route]]\nmaildir",
    );
    let peer =
        Peer::start(|line| line.starts_with("RCPT").then(|| "450 4.2.0 Greylisted".to_owned()));
    let server = Server::start(&files, &held.replace("PEER", &peer.address));
    let (mailq, newaliases) = (link(&files, "mailq"), link(&files, "newaliases"));
    let run = |program: &Path, words: &[&str]| {
        let output = run(program, files.dir(), words, b"");
        (code(&output), String::from_utf8(output.stdout).expect("text"))
    };
    assert_eq!(run(&mailq, &[]), (0, "Mail queue is empty\n".to_owned()));
    assert_eq!(code(&sendmail(&files, &["-f", "me@x.test", "jo@away.test"], MESSAGE)), 0);
    files.wait_events("deferred", 1);
    let (_, list) = run(&mailq, &[]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines[0], "-Queue ID-  --Size-- ----Arrival Time---- -Sender/Recipient-------");
    assert!(lines[1].ends_with("  me@x.test") && lines[2].trim_start().starts_with('('), "{list}");
    assert_eq!(lines[3].trim(), "jo@away.test", "{list}");
    assert!(lines[5].starts_with("-- 1 Kbytes in 1 Request."), "{list}");
    let before = files.events_of("deferred").len();
    assert_eq!(code(&sendmail(&files, &["-qRaway.test"], "")), 0);
    files.wait_events("deferred", before + 1);
    assert_eq!(code(&sendmail(&files, &["-q"], "")), 0);
    assert_eq!(run(&newaliases, &[]).0, 0);
    if rustix::process::geteuid().is_root() {
        list_is_for_the_servers_user(&files, &mailq);
    } else {
        skips::machine(Machine::Root, "another user's mailq");
    }
    server.stop();
    assert_eq!(run(&mailq, &[]).0, 69, "no server");
}

fn list_is_for_the_servers_user(files: &Files, mailq: &Path) {
    fs::set_permissions(files.dir(), fs::Permissions::from_mode(0o755)).expect("own directory");
    let config = files.path("postrider.toml");
    for (mode, unopened) in [(0o644, "control.sock"), (0o600, "postrider.toml")] {
        fs::set_permissions(&config, fs::Permissions::from_mode(mode)).expect("own file");
        let mut command = Command::new(mailq);
        command.uid(65_534).gid(65_534).current_dir(files.dir());
        let output = command.env("POSTRIDER_CONFIG", &config).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(code(&output), 77, "{output:?}");
        assert!(error.contains(unopened) && error.contains("run `sudo mailq`"), "{error}");
    }
}

/// Command lines that Postfix's sendmail and this one must take or refuse alike.
const LINES: [&[&str]; 62] = [
    &["root"],
    &[],
    &["-t"],
    &["-t", "root"],
    &["-i", "root"],
    &["root", "-i"],
    &["-it", "root"],
    &["--", "-x"],
    &["-x", "root"],
    &["-Z", "root"],
    &["-B8BITMIME", "root"],
    &["-B", "7BIT", "root"],
    &["-B", "9BIT", "root"],
    &["-B", "8bitmime", "root"],
    &["-N", "success", "root"],
    &["-N", "never", "root"],
    &["-Nsuccess,failure,delay", "root"],
    &["-N", "never,success", "root"],
    &["-N", "bad", "root"],
    &["-N", "", "root"],
    &["-R", "full", "root"],
    &["-R", "hdrs", "root"],
    &["-R", "bad", "root"],
    &["-V", "id", "root"],
    &["-V", "", "root"],
    &["-XVid", "root"],
    &["-f"],
    &["-f", "a@b.test", "root"],
    &["-fa@b.test", "root"],
    &["-r", "a@b.test", "root"],
    &["-f", "", "root"],
    &["-f", "<>", "root"],
    &["-F"],
    &["-F", "A Name", "root"],
    &["-n", "root"],
    &["-b", "root"],
    &["-bm", "root"],
    &["-bz", "root"],
    &["-ba", "root"],
    &["-bt"],
    &["-bi"],
    &["-bh"],
    &["-I"],
    &["-oi", "root"],
    &["-oem", "-odi", "root"],
    &["-oA", "root"],
    &["-o7", "-o8", "root"],
    &["-o", "root"],
    &["-O", "x=y", "root"],
    &["-A", "root"],
    &["-Am", "root"],
    &["-L", "tag", "root"],
    &["-G", "root"],
    &["-X", "/dev/null", "root"],
    &["-q30m"],
    &["-qSfoo"],
    &["-e", "m", "root"],
    &["-h", "3", "root"],
    &["-m", "-U", "-c", "root"],
    &["-d", "root"],
    &["a@b.test, c@d.test"],
    &["--help"],
];

/// Postfix's sendmail with a queue of its own, in which nothing runs.
fn postfix(files: &Files) -> bool {
    if !rustix::process::geteuid().is_root() {
        skips::machine(Machine::Root, "Postfix's queue belongs to its user");
        return false;
    }
    if !Path::new("/usr/lib/postfix/sbin/master").exists() {
        return skips::missing("postfix");
    }
    let dir = files.dir();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("own directory");
    let main = format!(
        "compatibility_level = 3.6\nqueue_directory = {0}/queue\ndata_directory = {0}/queue\n\
         daemon_directory = /usr/lib/postfix/sbin\ncommand_directory = /usr/sbin\nmail_owner = postfix\n\
         setgid_group = postdrop\nmyhostname = postfix.test\nmydestination =\ninet_protocols = ipv4\n\
         alias_maps =\nalias_database =\n",
        dir.display()
    );
    fs::create_dir_all(files.path("etc")).expect("room");
    files.write("etc/main.cf", &main);
    files.write("etc/master.cf", "");
    let id = |kind: &str, name: &str| {
        let out = Command::new("getent").args([kind, name]).output().expect("getent(1)").stdout;
        let out = String::from_utf8(out).expect("text");
        out.split(':').nth(2).and_then(|id| id.parse::<u32>().ok()).expect("an id")
    };
    let (user, group) = (id("passwd", "postfix"), id("group", "postdrop"));
    for (name, mode) in [("queue/maildrop", 0o1730), ("queue/public", 0o710), ("queue/pid", 0o755)]
    {
        let path = files.path(name);
        fs::create_dir_all(&path).expect("room");
        chown(&path, Some(user), Some(group)).expect("root may");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("root may");
    }
    true
}

#[test]
fn command_lines_are_taken_and_refused_as_by_postfix() {
    let files = Files::new();
    if !postfix(&files) {
        return;
    }
    let server = Server::start(&files, CONFIG);
    let config = files.path("etc").display().to_string();
    for words in LINES {
        let ours = sendmail(&files, words, MESSAGE);
        let named: Vec<&str> = ["-C", &config].into_iter().chain(words.iter().copied()).collect();
        let theirs = run(Path::new("/usr/sbin/sendmail"), files.dir(), &named, MESSAGE.as_bytes());
        let agree = (code(&ours) == 0) == (code(&theirs) == 0);
        assert!(agree, "{words:?}: {ours:?} and Postfix: {theirs:?}");
        // Postfix's message about the wrong line, then an exit that callers take for a passing failure.
        let expected = if code(&theirs) == 0 { (0, 0) } else { (64, 75) };
        assert_eq!((code(&ours), code(&theirs)), expected, "{words:?}: {ours:?} {theirs:?}");
    }
    server.stop();
}
