//! Mail to programs on this machine (`pipe`), which are shell scripts here.

use crate::support::client::Client;
use crate::support::server::{CONFIG, Server, command};
use crate::support::{Files, config, wait_until};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A directory that the scripts' user can write to.
pub(crate) struct Scripts(tempfile::TempDir);

impl Scripts {
    pub(crate) fn new() -> Scripts {
        let place = tempfile::Builder::new().prefix("pipe-").tempdir().expect("a directory");
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(place.path(), open).expect("a directory of ours");
        Scripts(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A route to a script, which has these arguments and works in this directory.
    pub(crate) fn route(
        &self,
        domain: &str,
        script: &str,
        arguments: &[&str],
        keys: &str,
    ) -> String {
        let file = self.path(&format!("{domain}.sh"));
        fs::write(&file, format!("cd {}\n{script}\n", self.0.path().display())).expect("a script");
        let words = ["/bin/sh".to_owned(), file.display().to_string()].into_iter();
        let words = words.chain(arguments.iter().map(|word| (*word).to_owned()));
        let words: Vec<String> = words.map(|word| format!("'{word}'")).collect();
        let user = if is_root() { ", user = \"nobody\"" } else { "" };
        format!(
            "[[route]]\nname = \"{domain}\"\ndomains = [\"{domain}.test\"]\nretry = {{ first = \"1h\" }}\n\
             pipe = {{ command = [{}]{user}{keys} }}\n",
            words.join(", ")
        )
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Reports go to mailboxes.
const REPORTS: &str = "[[route]]\nmaildir = { path = \"mail/{local}\" }\n";

fn start(files: &Files, routes: &str) -> Server {
    Server::start(files, &config(&format!("{routes}{REPORTS}")))
}

fn send(server: &Server, to: &[&str], content: &str) {
    Client::connect(server.address()).mail("me@source.test", to, content);
}

const SHORT: &str = "Subject: x\r\n\r\nbody\r\n";

/// The status and reason of the event about each recipient of this kind, sorted.
fn outcomes(files: &Files, kind: &str) -> Vec<(String, String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let of = |event: &serde_json::Value| {
        let reason = [text(&event["reason"]), text(&event["reply"])].concat();
        let local = text(&event["recipient"]);
        (local.split('@').next().unwrap_or_default().to_owned(), text(&event["status"]), reason)
    };
    let mut all: Vec<_> = files.events_of(kind).iter().map(of).collect();
    all.sort();
    all
}

#[test]
fn exit_status_decides_each_outcome() {
    let (files, scripts) = (Files::new(), Scripts::new());
    let script = "cat > /dev/null\necho \"said $1\"\necho more\n\
                  if [ $1 = kill ]; then kill -9 $$; fi\n\
                  if [ $1 = full ]; then exit 1; fi\nexit $1";
    let full = script.replace("said $1", "4.2.2 said $1");
    let routes = scripts.route("exit", script, &["{local}"], "")
        + &scripts.route("status", &full, &["{local}"], "");
    let server = start(&files, &routes);
    let exits: Vec<String> =
        (64..=78).chain([0, 1, 127]).map(|code| format!("{code}@exit.test")).collect();
    let mut to: Vec<&str> = exits.iter().map(String::as_str).collect();
    to.extend(["kill@exit.test", "full@status.test"]);
    send(&server, &to, SHORT);
    wait_until("outcomes", || {
        outcomes(&files, "failed").len() + outcomes(&files, "deferred").len() >= 19
    });
    // The report may be in its mailbox already.
    let mut delivered = outcomes(&files, "delivered");
    delivered.retain(|(who, ..)| who != "me");
    let [(_, _, said)] = &delivered[..] else { panic!("{:?}", files.events()) };
    assert!(said.contains("delivered to sh: said 0"), "{said}");
    let statuses = |kind| -> Vec<(String, String)> {
        outcomes(&files, kind).into_iter().map(|(who, status, _)| (who, status)).collect()
    };
    let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        all.iter().map(|(who, status)| ((*who).to_owned(), (*status).to_owned())).collect()
    };
    assert_eq!(
        statuses("deferred"),
        pairs(&[("71", "4.3.0"), ("75", "4.3.0"), ("full", "4.2.2"), ("kill", "4.3.0")])
    );
    assert_eq!(
        statuses("failed"),
        pairs(&[
            ("1", "5.3.0"),
            ("127", "5.3.0"),
            ("64", "5.3.0"),
            ("65", "5.6.0"),
            ("66", "5.3.0"),
            ("67", "5.1.1"),
            ("68", "5.1.2"),
            ("69", "5.3.0"),
            ("70", "5.3.0"),
            ("72", "5.3.0"),
            ("73", "5.2.0"),
            ("74", "5.3.0"),
            ("76", "5.5.0"),
            ("77", "5.7.0"),
            ("78", "5.3.5"),
        ])
    );
    let reports = files.wait_maildir("mail/me", 1);
    let report = String::from_utf8_lossy(&reports[0]).into_owned();
    let unfolded = report.replace("\n ", " ").replace("\n\t", " ");
    assert!(unfolded.contains("user unknown (sh exited with 67): said 67"), "{report}");
    server.stop();
}

#[test]
fn program_gets_the_message_and_whole_arguments() {
    let (files, scripts) = (Files::new(), Scripts::new());
    let script = "n=$(mktemp out.XXXXXX)\nfor word; do echo \"[$word]\" >> $n.args; done\n\
                  cat > $n; { id -u; id -G; env; pwd; } > $n.env\nls -l /proc/self/fd > $n.fds; mv $n $n.in";
    let arguments =
        ["{recipient}", "{local}", "{user}", "{tag}", "{domain}", "--from={sender}", "a b"];
    let server = start(&files, &scripts.route("post", script, &arguments, ""));
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<me@source.test>", "250");
    client.say("RCPT TO:<\"Jo;x *+T g\"@post.test>", "250");
    client.say("DATA", "354");
    client.send(SHORT);
    client.say(".", "250");
    let found = |end: &str| -> Vec<String> {
        let all = fs::read_dir(scripts.0.path()).expect("a directory").flatten();
        let all = all.map(|entry| entry.file_name().into_string().expect("text"));
        all.filter(|name| name.ends_with(end)).collect()
    };
    wait_until("a message", || found(".in").len() == 1);
    let args = scripts.read(&found(".args")[0]);
    assert_eq!(
        args.lines().collect::<Vec<_>>(),
        [
            "[\"Jo;x *+T g\"@post.test]",
            "[jo;x *+t g]",
            "[jo;x *]",
            "[t g]",
            "[post.test]",
            "[--from=me@source.test]",
            "[a b]",
        ]
    );
    let input = scripts.read(&found(".in")[0]);
    assert!(input.starts_with("Return-Path: <me@source.test>\nDelivered-To: \"Jo;x"), "{input}");
    assert!(input.ends_with("Subject: x\n\nbody\n") && !input.contains('\r'), "{input}");
    // No descriptor of the server: of its spool, its event loops or its log.
    let descriptors = scripts.read(&found(".fds")[0]);
    let spool = files.dir().display().to_string();
    for ours in [&*spool, "eventpoll", "eventfd", "pidfd"] {
        assert!(descriptors.contains("pipe:") && !descriptors.contains(ours), "{descriptors}");
    }
    let environment = scripts.read(&found(".env")[0]);
    assert!(environment.contains("PATH=/usr/local/bin:/usr/bin:/bin\n"), "{environment}");
    // The shell itself sets PWD and `_`.
    let others = environment.lines().filter(|line| line.contains('='));
    let others = others.filter(|line| {
        !["PATH=", "PWD=", "OLDPWD=", "SHLVL=", "_="].iter().any(|ours| line.starts_with(ours))
    });
    assert_eq!(others.count(), 0, "{environment}");
    if is_root() {
        let mut lines = environment.lines();
        assert_eq!((lines.next(), lines.next()), (Some("65534"), Some("65534")), "{environment}");
    }
    // In a file beside the log, and larger than any pipe.
    let long = format!("Subject: long\r\n\r\n{}", "0123456789\r\n".repeat(300_000));
    send(&server, &["jo@post.test"], &long);
    wait_until("a long message", || found(".in").len() == 2);
    let is_long = |name: &String| scripts.read(name).ends_with(&long.replace('\r', ""));
    assert!(found(".in").iter().any(is_long));
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<me@source.test>", "250");
    client.say("RCPT TO:<-f@post.test>", "550 5.1.3");
    server.stop();
}

#[test]
fn message_loops_end_at_a_program() {
    let (files, scripts) = (Files::new(), Scripts::new());
    let server = start(&files, &scripts.route("post", "cat > got", &[], ""));
    send(&server, &["jo@post.test"], &format!("Delivered-To: jo@post.test\r\n{SHORT}"));
    let failed = files.wait_events("failed", 1).remove(0);
    assert_eq!(failed["status"], "5.4.6", "{failed}");
    server.stop();
}

/// Returns true if there is a process of this number that has not ended.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.rsplit(')').next().unwrap_or_default().starts_with(" Z")
}

#[test]
fn hostile_programs_are_bounded() {
    let (files, scripts) = (Files::new(), Scripts::new());
    let loud = "cat > /dev/null; head -c 1000000000 /dev/zero; exit 0";
    let hanging = "sleep 900 & echo $! > child; cat > /dev/null; sleep 900";
    let forking = "cat > /dev/null; sleep 900 & echo $! > left; exit 0";
    // One that leaves the group and keeps the output open.
    let daemon = "cat > /dev/null; setsid sleep 20 & exit 0";
    let routes = scripts.route("loud", loud, &[], "")
        + &scripts.route("hang", hanging, &[], ", timeout = \"2s\"")
        + &scripts.route("fork", forking, &[], "")
        + &scripts.route("daemon", daemon, &[], "")
        + &scripts.route("deaf", "exit 0", &[], "");
    let server = start(&files, &routes);
    let long = format!("Subject: long\r\n\r\n{}", "0123456789\r\n".repeat(100_000));
    let to = ["a@loud.test", "b@hang.test", "c@fork.test", "d@daemon.test", "e@deaf.test"];
    let begun = Instant::now();
    send(&server, &to, &long);
    wait_until("four deliveries", || files.events_of("delivered").len() == 4);
    let deferred = files.wait_events("deferred", 1).remove(0);
    assert!(begun.elapsed() < Duration::from_secs(18), "{:?}", begun.elapsed());
    assert_eq!(
        (&deferred["recipient"], &deferred["status"]),
        (&"b@hang.test".into(), &"4.3.0".into())
    );
    assert!(deferred["reason"].to_string().contains("sh was killed after 2s"), "{deferred}");
    for left in ["child", "left"] {
        let pid = scripts.read(left);
        wait_until(left, || !is_alive(&pid));
    }
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid().as_raw_nonzero()));
    let status = status.expect("the server runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("memory");
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kilobytes < 600_000, "{peak}");
    server.stop();
}

#[test]
fn programs_of_a_route_are_limited_and_delay_no_other() {
    let (files, scripts) = (Files::new(), Scripts::new());
    let slow = "cat > /dev/null; echo + >> log; sleep 0.5; echo - >> log";
    let server = start(&files, &scripts.route("slow", slow, &[], ", max_processes = 2"));
    for _ in 0..6 {
        send(&server, &["jo@slow.test"], SHORT);
    }
    let begun = Instant::now();
    send(&server, &["box@here.test"], SHORT);
    files.wait_maildir("mail/box", 1);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    wait_until("six runs", || scripts.read("log").matches('-').count() == 6);
    let (mut now, mut most) = (0, 0);
    for line in scripts.read("log").lines() {
        now += if line == "+" { 1 } else { -1 };
        most = most.max(now);
    }
    assert_eq!(most, 2);
    server.stop();
}

#[test]
fn stop_and_crash_lead_to_another_run() {
    let (files, scripts) = (Files::new(), Scripts::new());
    let script = "echo $$ >> pids; cat > message; if [ ! -e go ]; then sleep 900; fi; exit 0";
    let server = start(&files, &scripts.route("post", script, &[], ""));
    send(&server, &["jo@post.test"], SHORT);
    wait_until("a run", || !scripts.read("message").is_empty());
    let begun = Instant::now();
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    wait_until("its end", || !is_alive(&scripts.read("pids")));
    assert!(files.events_of("delivered").is_empty());
    // Killed before the outcome: the message is given to the program again.
    let server = Server::start_again(&files);
    wait_until("a second run", || scripts.read("pids").lines().count() == 2);
    server.kill();
    fs::write(scripts.path("go"), "").expect("a file");
    let server = Server::start_again(&files);
    files.wait_events("delivered", 1);
    assert_eq!(scripts.read("pids").lines().count(), 3);
    server.stop();
    for pid in scripts.read("pids").lines().filter(|pid| is_alive(pid)) {
        // The run of the killed server.
        let pid = rustix::process::Pid::from_raw(pid.parse().expect("a number")).expect("not 0");
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}

#[test]
fn missing_programs_and_users_are_reported() {
    let files = Files::new();
    let with = |keys: &str| {
        let route =
            format!("[[route]]\nname = \"p\"\npipe = {{ command = [\"/no/program\"]{keys} }}\n");
        files.write(CONFIG, &config(&route));
        command(files.dir(), &["check"])
    };
    let unknown = with(", user = \"no-such-user\"");
    assert!(unknown.code == 2 && unknown.err.contains("route p: unknown user"), "{unknown:?}");
    let root = with(", user = \"root\"");
    assert!(root.code == 2 && root.err.contains("root runs no program"), "{root:?}");
    let none = with("");
    assert_eq!(none.code, if is_root() { 2 } else { 0 }, "{none:?}");
    let nobody = if is_root() { ", user = \"nobody\"" } else { "" };
    let missing = with(nobody);
    assert!(missing.code == 0 && missing.err.contains("/no/program"), "{missing:?}");
    let server = Server::start_again(&files);
    send(&server, &["jo@any.test"], SHORT);
    let deferred = files.wait_events("deferred", 1).remove(0);
    assert_eq!(deferred["status"], "4.3.5", "{deferred}");
    assert!(deferred["reason"].to_string().contains("cannot run /no/program"), "{deferred}");
    server.stop();
}
