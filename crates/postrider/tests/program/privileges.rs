//! The server as another user: rights, the files in its reach, and what a reload can still do.

use crate::support::client::Client;
use crate::support::foreign::is_installed;
use crate::support::server::{CONFIG, POSTRIDER, Server, program};
use crate::support::tool::free_port;
use crate::support::{Files, wait_until};
use rustix::process::Signal;
use skips::Machine;
use std::fs::{self, Permissions};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Users of every system, with their numbers.
const USER: (&str, u32) = ("nobody", 65_534);
const OTHER: (&str, u32) = ("daemon", 1);

/// A directory that other users may enter; `None` if the tests do not run as root, or other users cannot get there.
fn files() -> Option<Files> {
    if !rustix::process::geteuid().is_root() {
        skips::machine(Machine::Root, "only root becomes another user");
        return None;
    }
    let files = Files::new();
    set_mode(files.dir(), 0o755);
    let mut look = Command::new("ls");
    look.arg(files.dir()).uid(USER.1).gid(USER.1);
    if !look.output().expect("ls").status.success() {
        skips::machine(Machine::Root, "the directory of the build is root's alone");
        return None;
    }
    Some(files)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a file of ours");
}

fn config(user: &str, listener: &str, rest: &str) -> String {
    format!(
        "hostname = \"relay.test\"\n{user}\nshards = 2\n\
         [spool]\npath = \"spool\"\nsegment_bytes = \"8MiB\"\nmin_free_bytes = \"16MiB\"\n\
         [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n{listener}\n{rest}\n"
    )
}

/// The value of a line of `/proc/PID/status`.
fn field(status: &str, name: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The status of each thread.
fn threads(pid: i32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("Linux").flatten();
    tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok()).collect()
}

/// Checks that each thread of a process is the user's, with these capabilities.
fn assert_rights(pid: i32, capabilities: u64, has_no_new_privs: bool) {
    let all = threads(pid);
    assert!(!all.is_empty());
    for status in all {
        let ids = format!("{0} {0} {0} {0}", USER.1);
        assert_eq!(field(&status, "Uid"), ids, "{status}");
        assert_eq!(field(&status, "Gid"), ids, "{status}");
        for (set, expected) in
            [("CapInh", 0), ("CapPrm", capabilities), ("CapEff", capabilities), ("CapAmb", 0)]
        {
            assert_eq!(field(&status, set), format!("{expected:016x}"), "{set}: {status}");
        }
        assert_eq!(field(&status, "CapBnd"), format!("{capabilities:016x}"), "{status}");
        assert_eq!(field(&status, "NoNewPrivs"), u8::from(has_no_new_privs).to_string());
    }
}

fn pid(server: &Server) -> i32 {
    server.pid().as_raw_nonzero().get()
}

/// A free port that only root may bind.
fn low_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (700..1_000).rev().find(is_free).expect("a free port")
}

fn mail(server: &Server, to: &str) {
    Client::connect(server.address()).mail("a@source.test", &[to], "Subject: x\r\n\r\ny\r\n");
}

#[test]
fn server_keeps_no_right_of_root() {
    let Some(files) = files() else { return };
    let port = low_port();
    let low = format!("[[listener]]\nname = \"low\"\naddress = \"127.0.0.1:{port}\"");
    let text = config("user = \"nobody\"", &low, "[[route]]\ndiscard = {}\n");
    let server = Server::start(&files, &text);
    server.wait_console("the user", |line| {
        line.contains("info  privileges: running as nobody uid=65534 gid=")
            && line.contains(" capabilities=none landlock=")
    });
    mail(&server, "b@far.test");
    drop(Client::connect(SocketAddr::from(([127, 0, 0, 1], port))));
    assert_rights(pid(&server), 0, true);
    assert!(threads(pid(&server)).len() > 4);
    // Made by root, and given away.
    assert_eq!(fs::metadata(files.path("spool")).expect("it is there").uid(), USER.1);
    server.stop();
    assert!(!files.path("spool/control.sock").exists());
}

#[test]
fn reload_reads_files_of_root_until_they_are_replaced() {
    let Some(files) = files() else { return };
    let table = "[[table]]\nname = \"users\"\nfile = { path = \"users\" }\n\
                 [[route]]\ndomains = [\"x.test\"]\nrecipients = { table = \"users\" }\ndiscard = {}\n\
                 [[route]]\ndiscard = {}\n";
    let secret = |name: &str, text: &str| {
        files.write(name, text);
        set_mode(&files.path(name), 0o600);
    };
    secret("users", "jo@x.test jo\n");
    secret(CONFIG, &config("user = \"nobody\"", "", table));
    let server = Server::start_again(&files);
    let reloaded = server.command(&["reload"]);
    assert_eq!(reloaded.code, 0, "{reloaded:?}");
    // In place, the descriptor leads to the new content.
    fs::write(files.path("users"), "jo@x.test jo\nal@x.test al\n").expect("root");
    assert_eq!(server.command(&["reload"]).code, 0);
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<a@source.test>", "250");
    client.say("RCPT TO:<al@x.test>", "250");
    secret("users.new", "jo@x.test jo\n");
    fs::rename(files.path("users.new"), files.path("users")).expect("root");
    let refused = server.command(&["reload"]);
    let why = "it was replaced since the start, and only root may read it";
    assert!(refused.code != 0 && refused.err.contains(why), "{refused:?}");
    set_mode(&files.path("users"), 0o644);
    assert_eq!(server.command(&["reload"]).code, 0);
    server.stop();
}

#[test]
fn reload_names_files_out_of_reach() {
    let Some(files) = files() else { return };
    let other = Files::new();
    set_mode(other.dir(), 0o755);
    let table = other.write("users", "jo@x.test\n");
    let route = "[[route]]\ndiscard = {}\n";
    let server = Server::start(&files, &config("user = \"nobody\"", "", route));
    let line = server.wait_console("the user", |line| line.contains(" landlock="));
    if line.ends_with("landlock=unavailable") {
        skips::machine(Machine::Namespaces, "the kernel has no Landlock");
        return;
    }
    let named =
        format!("[[table]]\nname = \"users\"\nfile = {{ path = \"{}\" }}\n", table.display());
    files.write(CONFIG, &config("user = \"nobody\"", "", &format!("{named}{route}")));
    let refused = server.command(&["reload"]);
    assert!(refused.code != 0, "{refused:?}");
    assert!(refused.err.contains("is in a directory out of the server's reach"), "{refused:?}");
    assert!(refused.err.contains("postrider.toml:"), "{refused:?}");
    server.stop();
}

/// The roots of the paths in the trace of a confined server.
const SYSTEM: [&str; 8] = [
    "/etc/",
    "/usr/",
    "/lib",
    "/proc/self",
    "/sys/fs/cgroup",
    "/dev/null",
    "/dev/urandom",
    "/run/",
];

#[test]
fn confined_server_opens_no_other_files() {
    let Some(files) = files() else { return };
    if !is_installed("strace") {
        return;
    }
    let text = config(
        "user = \"nobody\"",
        "",
        "[[route]]\nmaildir = { path = \"spool/boxes/{local}\" }\n",
    );
    files.write(CONFIG, &text);
    let trace = files.path("trace");
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-y", "-e", "trace=%file,execve,landlock_restrict_self", "-o"]);
    command.arg(&trace).args([POSTRIDER, "serve", "--config", CONFIG]);
    let server = Server::spawn(command, files.dir());
    mail(&server, "jo@far.test");
    assert_eq!(server.command(&["reload"]).code, 0);
    server.stop();
    let text = fs::read_to_string(&trace).expect("a trace");
    let Some((_, confined)) = text.split_once("landlock_restrict_self(") else {
        panic!("no Landlock: {text}");
    };
    if !confined.lines().next().is_some_and(|line| line.ends_with("= 0")) {
        skips::machine(Machine::Namespaces, "the kernel has no Landlock");
        return;
    }
    let own = files.dir().canonicalize().expect("a directory").display().to_string();
    let mut count = 0;
    for line in confined.lines().filter(|line| line.contains("openat(") || line.contains("exec")) {
        assert!(!line.contains("exec"), "{line}");
        // `openat(…) = 7</path>`: the file itself, whatever its name was.
        let Some((_, opened)) = line.rsplit_once(" = ") else { continue };
        let Some((_, path)) = opened.split_once('<') else { continue };
        let path = path.trim_end_matches('>');
        let is_stated = path.starts_with(&own)
            || path.starts_with("/proc/")
            || SYSTEM.iter().any(|root| path.starts_with(root));
        assert!(is_stated, "{line}");
        count += 1;
    }
    assert!(count > 10, "{count}: {confined}");
}

#[test]
fn mailboxes_with_owners_keep_their_capabilities() {
    let Some(files) = files() else { return };
    let route =
        "[[route]]\nmaildir = { path = \"mail/{local}\", user = \"daemon\", group = \"daemon\" }\n";
    let server = Server::start(&files, &config("user = \"nobody\"", "", route));
    server.wait_console("the reason", |line| {
        let held = "kept CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER for mailboxes with owners";
        line.contains(held)
    });
    // CAP_CHOWN is 0, CAP_DAC_OVERRIDE 1, CAP_FOWNER 3.
    assert_rights(pid(&server), 0b1011, true);
    mail(&server, "jo@far.test");
    files.wait_maildir("mail/jo", 1);
    let meta = fs::metadata(files.path("mail/jo")).expect("a mailbox");
    assert_eq!((meta.uid(), meta.gid()), (OTHER.1, OTHER.1));
    server.stop();
}

/// A route whose program writes into `out`.
fn pipe(files: &Files, script: &str, rest: &str) -> String {
    let out = files.path("out");
    fs::create_dir_all(&out).expect("room");
    set_mode(&out, 0o777);
    let script = script.replace("OUT", &out.display().to_string());
    format!(
        "[[route]]\npipe = {{ command = [\"/bin/sh\", \"-c\", \"{script}\", \"sh\", \"{{recipient}}\"], \
         user = \"daemon\"{rest} }}\n"
    )
}

/// The process that starts programs for a server.
fn starter(server: &Server) -> Option<i32> {
    let parent = pid(server).to_string();
    let all = fs::read_dir("/proc").expect("Linux").flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.find(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        field(&status, "PPid") == parent && line.starts_with("postrider-starter")
    })
}

#[test]
fn programs_are_started_by_a_process_of_two_capabilities() {
    let Some(files) = files() else { return };
    let script = "id -u > OUT/user; id -G > OUT/groups; grep NoNewPrivs /proc/self/status > OUT/status; \
                  echo $1 > OUT/words; cat > OUT/mail";
    let text = config("user = \"nobody\"", "", &pipe(&files, script, ""));
    let server = Server::start(&files, &text);
    assert_rights(pid(&server), 0, true);
    let starter = starter(&server).expect("a child of the server");
    // CAP_SETGID is 6, CAP_SETUID 7.
    assert_rights(starter, 0b1100_0000, false);
    mail(&server, "jo@far.test");
    let read = |name: &str| fs::read_to_string(files.path("out").join(name)).unwrap_or_default();
    wait_until("the program", || read("mail").contains("Subject: x"));
    assert_eq!(read("user").trim(), OTHER.1.to_string());
    assert_eq!(read("groups").trim(), OTHER.1.to_string());
    assert_eq!(read("status").split_whitespace().last(), Some("0"));
    assert_eq!(read("words").trim(), "jo@far.test");
    files.wait_events("delivered", 1);
    // Another command is a matter of a restart.
    files.write(CONFIG, &text.replace("id -G", "id -g"));
    let refused = server.command(&["reload"]);
    let why = "commands and users of `pipe` are fixed at the start";
    assert!(refused.code != 0 && refused.err.contains(why), "{refused:?}");
    server.stop();
    wait_until("the end of its starter", || !Path::new(&format!("/proc/{starter}/mem")).exists());
}

#[test]
fn program_of_another_user_is_killed_at_its_timeout() {
    let Some(files) = files() else { return };
    let script = "echo $$ > OUT/pid; sleep 600";
    let text = config("user = \"nobody\"", "", &pipe(&files, script, ", timeout = \"1s\""));
    let server = Server::start(&files, &text);
    mail(&server, "jo@far.test");
    let deferred = files.wait_events("deferred", 1);
    assert!(deferred[0].to_string().contains("4.3.0"), "{deferred:?}");
    let pid = fs::read_to_string(files.path("out/pid")).expect("it ran");
    let is_gone = || !PathBuf::from(format!("/proc/{}", pid.trim())).exists();
    wait_until("its end", is_gone);
    server.stop();
}

/// The error of a start.
fn refused(files: &Files, user: Option<u32>) -> String {
    let mut command = Command::new("timeout");
    command.args(["60", POSTRIDER, "serve", "--config", CONFIG]).current_dir(files.dir());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let output = command.output().expect("it runs");
    assert!(!output.status.success());
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn unusable_user_is_an_error_with_its_place() {
    let files = Files::new();
    let route = "[[route]]\ndiscard = {}\n";
    for (user, line, why) in [
        ("user = \"no-such-user\"", 2, "unknown user \"no-such-user\""),
        ("user = \"root\"", 2, "root keeps all rights: name another user"),
        ("user = \"\"", 2, "not a name"),
        ("group = \"daemon\"", 2, "`group` without `user`"),
        ("user = \"nobody\"\ngroup = \"no-such-group\"", 3, "unknown group \"no-such-group\""),
        ("user = \"54321\"", 2, "user 54321 has no entry in the directory: set `group` too"),
    ] {
        files.write(CONFIG, &config(user, "", route));
        let place = format!("postrider.toml:{line}:");
        for error in
            [refused(&files, None), program(files.dir(), &["check", "--config", CONFIG]).err]
        {
            assert!(error.contains(why) && error.contains(&place), "{user}: {error}");
        }
    }
}

#[test]
fn process_of_a_user_becomes_no_other_one() {
    let Some(files) = files() else { return };
    chown(files.dir(), Some(USER.1), Some(USER.1)).expect("root");
    let route = "[[route]]\ndiscard = {}\n";
    files.write(CONFIG, &config("user = \"daemon\"", "", route));
    let error = refused(&files, Some(USER.1));
    let why = "this process runs as nobody: only root can become another user";
    assert!(error.contains(why) && error.contains("postrider.toml:2:"), "{error}");
    // The own name confines the process as well.
    files.write(CONFIG, &config("user = \"nobody\"", "", route));
    let mut command = Command::new(POSTRIDER);
    command.args(["serve", "--config", CONFIG]).uid(USER.1).gid(USER.1);
    let server = Server::spawn(command, files.dir());
    for status in threads(pid(&server)) {
        assert_eq!(field(&status, "NoNewPrivs"), "1", "{status}");
        assert_eq!(field(&status, "CapEff"), "0000000000000000", "{status}");
    }
    mail(&server, "b@far.test");
    server.signal(Signal::HUP);
    server.wait_console("the reload", |line| line.contains("configuration reloaded"));
    server.stop();
}

#[test]
fn check_names_files_out_of_reach_of_a_user() {
    let Some(files) = files() else { return };
    let users = files.write("users", "jo@x.test\n");
    set_mode(&users, 0o600);
    let spool = files.path("spool");
    fs::create_dir(&spool).expect("room");
    let table = "[[table]]\nname = \"users\"\nfile = { path = \"users\" }\n\
                 [[route]]\nrecipients = { table = \"users\" }\ndiscard = {}\n";
    files.write(CONFIG, &config("", "", table));
    let check = |words: &[&str]| {
        let words = [&["check", "--config", CONFIG, "--as", "nobody"], words].concat();
        program(files.dir(), &words)
    };
    let found = check(&[]);
    assert_eq!(found.code, 1, "{found:?}");
    for line in
        ["nobody cannot read users: ", "nobody cannot write spool: ", "2 files out of reach"]
    {
        assert!(found.out.contains(line), "{line}: {found:?}");
    }
    let found = check(&["--json"]);
    let all: serde_json::Value = serde_json::from_str(&found.out).expect("JSON");
    assert_eq!(all["unreachable"].as_array().map(Vec::len), Some(2), "{all}");
    set_mode(&users, 0o644);
    chown(&spool, Some(USER.1), None).expect("root");
    let found = check(&[]);
    assert!(found.code == 0 && found.out.contains("0 files out of reach of nobody"), "{found:?}");
    let unknown = program(files.dir(), &["check", "--config", CONFIG, "--as", "no-such-user"]);
    assert!(unknown.code == 2 && unknown.err.contains("unknown user"), "{unknown:?}");
}

#[test]
fn files_open_to_other_users_are_reported() {
    let files = Files::new();
    let path = files.write(CONFIG, &config("", "", "[[route]]\ndiscard = {}\n"));
    for (mode, is_open) in [(0o644, false), (0o640, false), (0o664, true), (0o666, true)] {
        set_mode(&path, mode);
        let checked = program(files.dir(), &["check", "--config", CONFIG]);
        assert_eq!(checked.code, 0, "{checked:?}");
        let text =
            format!("other users may change the configuration (mode {mode:04o}): chmod go-w");
        assert_eq!(checked.err.contains(&text), is_open, "{mode:o}: {checked:?}");
    }
    let port = free_port();
    let server = Server::start(
        &files,
        &config("", "", "[[route]]\ndiscard = {}\n")
            .replace("127.0.0.1:0", &format!("127.0.0.1:{port}")),
    );
    server.wait_console("a warning", |line| {
        line.contains("warn  config: postrider.toml: other users may change the configuration")
    });
    server.stop();
}
