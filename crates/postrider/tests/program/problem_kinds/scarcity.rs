//! Problems whose cause is outside of the configuration: no descriptors, no disk space, wrong passwords, files that are
//! unreadable or damaged.

use super::Observed;
use crate::support::certificate;
use crate::support::client::Client;
use crate::support::http::metric;
use crate::support::server::{CONFIG, Server};
use crate::support::tool::{free_port, python};
use crate::support::{Files, config, wait_until};
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A connection to the admin address, for several requests.
struct Kept(BufReader<TcpStream>);

impl Kept {
    fn open(address: &str) -> Kept {
        Kept(BufReader::new(TcpStream::connect(address).expect("it answers")))
    }

    /// The body of the answer, whatever its code.
    fn get(&mut self, path: &str) -> String {
        write!(self.0.get_mut(), "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .expect("it reads");
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).expect("text") > 0, "it closed");
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().expect("a number");
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a body");
        String::from_utf8(body).expect("text")
    }
}

#[test]
fn listener_without_descriptors_is_a_problem_until_it_accepts() {
    let place = Observed::start(Files::new(), "[[route]]\ndiscard = {}\n");
    place.send("a@source.test", "b@far.test");
    place.files.wait_events("received", 1);
    let pid = place.server.pid();
    // By inode: the connection of the mail may end meanwhile.
    let sockets = || -> BTreeSet<PathBuf> {
        let path = format!("/proc/{}/fd", pid.as_raw_nonzero());
        let open = fs::read_dir(path).into_iter().flatten().flatten();
        let targets = open.filter_map(|one| fs::read_link(one.path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).collect()
    };
    // Connections for the questions are opened before.
    let mut kept = Kept::open(&place.admin);
    assert!(kept.get("/healthz").contains("\"status\":\"ok\""));
    let before = sockets();
    let control = UnixStream::connect(place.files.path("spool/control.sock"));
    let mut control = control.expect("it listens");
    wait_until("the connection is accepted", || !sockets().is_subset(&before));
    let set = |limit: Rlimit| prlimit(Some(pid), Resource::Nofile, limit).expect("a child of ours");
    // None is left below this number.
    let maximum = getrlimit(Resource::Nofile).maximum;
    let former = set(Rlimit { current: Some(3), maximum });
    let client = TcpStream::connect(place.server.address()).expect("the backlog has room");
    place.wait_console("cannot accept connections");
    place.wait_events("problem", "listener");
    let health = kept.get("/healthz");
    assert!(health.contains("\"status\":\"failing\""), "{health}");
    assert!(health.contains("\"kind\":\"listener\""), "{health}");
    let metrics = kept.get("/metrics");
    let name = "postrider_problem{kind=\"listener\",severity=\"error\"}";
    assert_eq!(metric(&metrics, name), 1, "{metrics}");
    control.write_all(b"{\"command\":\"status\"}\n").expect("it reads");
    let mut answer = String::new();
    BufReader::new(control).read_line(&mut answer).expect("an answer");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    let list = answer["problem_list"].as_array().expect("a list");
    assert!(list.iter().any(|one| one["kind"] == "listener"), "{answer}");
    set(former);
    let mut greeting = String::new();
    BufReader::new(client).read_line(&mut greeting).expect("a greeting");
    assert!(greeting.starts_with("220 "), "{greeting}");
    place.wait_cleared("listener", "error");
    place.wait_events("problem_cleared", "listener");
}

/// Fails to log in.
const GUESS: &str = "import base64, smtplib, ssl, sys\n\
    for n in range(int(sys.argv[2])):\n\
    \x20   if n % 20 == 0:\n\
    \x20       c = smtplib.SMTP_SSL('127.0.0.1', int(sys.argv[1]), context=ssl._create_unverified_context())\n\
    \x20       c.ehlo()\n\
    \x20   said = base64.b64encode(b'\\0jo\\0pen').decode()\n\
    \x20   assert c.docmd('AUTH PLAIN ' + said)[0] == 535\n";

#[test]
fn hundred_failed_logins_are_a_problem() {
    let files = Files::new();
    certificate::make_certificate(files.dir(), "mx", certificate::EC, &["mx.test"]);
    let more = format!(
        "{}[[listener]]\nname = \"users\"\nkind = \"submission\"\naddress = \"127.0.0.1:0\"\n\
         tls = \"implicit\"\nlogins = {{ table = \"passwords\" }}\nmax_login_failures = 100\n\
         login_failure_delay = \"0s\"\nlogin_failures_per_hour = 0\nlogin_failures_per_hour_of_user = 0\n\
         [[table]]\nname = \"passwords\"\ninline = {{ jo = \"{{PLAIN}}pencil\" }}\n\
         [[route]]\ndiscard = {{}}\n",
        certificate::section("mx", &["mx.test"])
    );
    let place = Observed::start(files, &more);
    let port = place.server.addresses[1].port().to_string();
    python(GUESS, &[&port, "99"]);
    assert!(place.of("login_failures").is_empty() && place.is_well());
    python(GUESS, &[&port, "1"]);
    let found = place.wait_problem("login_failures", "warning");
    assert_eq!(found["text"], "100 logins failed within an hour, 0 in the hour before");
    place.wait_console("100 logins failed within an hour");
    place.wait_events("problem", "login_failures");
    assert!(!place.is_well());
}

/// A spool on a small disk that only the server sees, with further sections; `None` where no disk can be mounted.
pub(crate) fn with_small_disk(bytes: u64, more: &str) -> Option<(Observed, PathBuf)> {
    let unshare = ["--mount", "--map-root-user"];
    let mount = ["mount", "-t", "tmpfs", "none", "/mnt"];
    let answer = Command::new("unshare").args(unshare).args(mount).output().expect("util-linux");
    if !answer.status.success() {
        skips::machine(skips::Machine::Namespaces, &String::from_utf8_lossy(&answer.stderr));
        return None;
    }
    let files = Files::new();
    for name in ["disk", "spool"] {
        fs::create_dir(files.path(name)).expect("a directory");
    }
    let admin = format!("127.0.0.1:{}", free_port());
    let text = config(&format!(
        "[admin]\naddress = \"{admin}\"\ncontrol = \"spool/control.sock\"\n\
         [events]\npath = \"spool/events.jsonl\"\n{more}"
    ));
    let text = text.replace("path = \"spool\"", "path = \"disk/spool\"");
    files.write(CONFIG, &text.replace("\"16MiB\"", "\"32MiB\""));
    let program = crate::support::server::POSTRIDER;
    let line = format!(
        "mount -t tmpfs -o size={bytes} none disk && exec {program} serve --config {CONFIG}"
    );
    let mut command = Command::new("unshare");
    command.args(unshare).args(["sh", "-c", &line]);
    let server = Server::spawn(command, files.dir());
    let inside = format!("/proc/{}/root", server.pid().as_raw_nonzero());
    let disk = files.path("disk");
    let disk = Path::new(&inside).join(disk.strip_prefix("/").expect("an absolute path"));
    Some((Observed { files, server, admin }, disk))
}

/// Leaves so many octets on a disk, by a file.
pub(crate) fn fill(disk: &Path, left: u64) -> PathBuf {
    let other = disk.join("other");
    let bytes = vec![1; usize::try_from(free_bytes(disk) - left).expect("a small disk")];
    File::create(&other).and_then(|mut file| file.write_all(&bytes)).expect("room");
    other
}

fn free_bytes(disk: &Path) -> u64 {
    let space = rustix::fs::statvfs(disk).expect("a file system");
    space.f_bavail * space.f_frsize
}

/// Octets of the files that the log has for records.
fn bytes_of_segments(spool: &Path) -> u64 {
    let all = fs::read_dir(spool).expect("a spool").flatten();
    let is_of_log =
        |name: &Path| name.extension().is_some_and(|it| it == "segment" || it == "spare");
    let segments = all.filter(|entry| is_of_log(&entry.path()));
    segments.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

#[test]
fn disk_with_little_room_is_a_problem_until_room_is_made() {
    const MIB: u64 = 1 << 20;
    let Some((place, disk)) = with_small_disk(160 * MIB, "[[route]]\ndiscard = {}\n") else {
        return;
    };
    assert!(place.is_well());
    assert!(free_bytes(&disk) > 64 * MIB, "{}", free_bytes(&disk));
    let is_room_known = || {
        let room = metric(&place.get("/metrics"), "postrider_spool_room_bytes");
        let expected = free_bytes(&disk) + bytes_of_segments(&disk.join("spool"));
        room.abs_diff(expected) <= expected / 100
    };
    wait_until("the room is known", is_room_known);
    let other = fill(&disk, 48 * MIB);
    let found = place.wait_problem("disk_space", "warning");
    assert!(
        found["text"].as_str().is_some_and(|text| text.contains("refused below 32MiB")),
        "{found}"
    );
    place.wait_console("mail is refused below 32MiB");
    place.wait_events("problem", "disk_space");
    wait_until("the room is known", is_room_known);
    place.send("a@source.test", "b@far.test");
    fs::remove_file(&other).expect("it is there");
    place.wait_cleared("disk_space", "warning");
    place.wait_events("problem_cleared", "disk_space");
}

#[test]
fn unreadable_list_is_a_problem_until_it_is_read() {
    let files = Files::new();
    let lists = files.path("lists");
    fs::create_dir(&lists).expect("a directory");
    let lists = lists.display().to_string();
    files.write("lists/staff", "jo@here.test\n");
    files.write("aliases", &format!("staff@here.test :include:{lists}/staff\n"));
    let place = Observed::start(
        files,
        &format!(
            "[[table]]\nname = \"aliases\"\nfile = {{ path = \"aliases\" }}\n\
             [[route]]\naliases = {{ table = \"aliases\" }}\ninclude = [\"{lists}\"]\n\
             maildir = {{ path = \"mail/{{local}}\" }}\n"
        ),
    );
    let becomes = |begin: &str| {
        wait_until(&format!("RCPT: {begin}"), || {
            let mut client = Client::connect(place.server.address());
            client.say("MAIL FROM:<a@source.test>", "250");
            client.send("RCPT TO:<staff@here.test>\r\n");
            client.reply().starts_with(begin)
        });
    };
    becomes("250 2.1.5");
    assert!(place.is_well());
    // Unreadable even for root.
    let staff = place.files.path("lists/staff");
    fs::remove_file(&staff).expect("it is there");
    symlink("staff", &staff).expect("a link");
    becomes("451 4.3.5");
    let found = place.wait_problem("list", "warning");
    assert!(found["text"].as_str().is_some_and(|text| text.contains("lists/staff")), "{found}");
    place.wait_console("cannot read the list");
    place.wait_events("problem", "list");
    fs::remove_file(&staff).expect("it is there");
    place.files.write("lists/staff", "ann@here.test\n");
    becomes("250 2.1.5");
    place.wait_cleared("list", "warning");
    place.wait_events("problem_cleared", "list");
    // Another shard may know the last answer a little longer.
    wait_until("mail for the list is accepted", || {
        let mut client = Client::connect(place.server.address());
        client.say("MAIL FROM:<a@source.test>", "250");
        if !client.say("RCPT TO:<staff@here.test>", "").starts_with("250") {
            return false;
        }
        client.say("DATA", "354");
        client.send("Subject: x\r\n\r\nx\r\n");
        client.say(".", "250");
        true
    });
    place.files.wait_maildir("mail/ann", 1);
    let count = || metric(&place.get("/metrics"), "postrider_mailbox_write_seconds_count");
    wait_until("its write is measured", || count() == 1);
}

#[test]
fn damage_found_at_a_start_is_a_problem_until_the_next() {
    let place = Observed::start(
        Files::new(),
        &format!("[[route]]\nsmtp = {{ hosts = [\"127.0.0.1:{}\"] }}\n", free_port()),
    );
    let mut client = Client::connect(place.server.address());
    for subject in ["one", "two"] {
        let content = format!("Subject: {subject}\r\n\r\nx\r\n");
        client.mail("a@source.test", &["b@far.test"], &content);
    }
    drop(client);
    let Observed { files, server, admin } = place;
    // After a regular end the last segment would not be read.
    server.kill();
    let of_log = |path: &PathBuf| path.extension().is_some_and(|it| it == "segment");
    let all = fs::read_dir(files.path("spool")).expect("a spool").flatten();
    let needle = b"Subject: one";
    let harmed = all.map(|entry| entry.path()).filter(of_log).filter(|path| {
        let mut bytes = fs::read(path).expect("a segment");
        let at = bytes.windows(needle.len()).position(|part| part == needle);
        at.is_some_and(|at| {
            bytes[at] ^= 1;
            fs::write(path, bytes).is_ok()
        })
    });
    assert_eq!(harmed.count(), 1);
    // The message behind the damage is delivered.
    let text = fs::read_to_string(files.path(CONFIG)).expect("it is there");
    let (before, _) = text.split_once("smtp = ").expect("a route");
    files.write(CONFIG, &format!("{before}discard = {{}}\n"));
    let server = Server::start_again(&files);
    let place = Observed { files, server, admin };
    let found = place.wait_problem("state_file", "warning");
    let names_it =
        |text: &str| text.contains("1 damages in the spool") && text.contains(".segment at");
    assert!(found["text"].as_str().is_some_and(names_it), "{found}");
    place.wait_console("damage: ");
    place.files.wait_events("delivered", 1);
    assert!(!place.is_well());
    let Observed { files, server, admin } = place;
    server.stop();
    let server = Server::start_again(&files);
    let place = Observed { files, server, admin };
    place.wait_cleared("state_file", "warning");
}
