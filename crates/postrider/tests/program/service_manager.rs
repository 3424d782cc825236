//! The service manager's protocols: notices over its socket, and sockets that it hands over.

use crate::support::client::Client;
use crate::support::foreign::is_installed;
use crate::support::server::{CONFIG, POSTRIDER, Server, control};
use crate::support::tool::free_port;
use crate::support::{Files, WAIT_MAX, config, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use skips::Machine;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A service manager's socket.
struct Manager {
    socket: UnixDatagram,
    path: String,
}

impl Manager {
    fn new(files: &Files) -> Manager {
        let path = files.path("notify.sock");
        let socket = UnixDatagram::bind(&path).expect("a short path");
        socket.set_read_timeout(Some(WAIT_MAX)).expect("a socket");
        Manager { socket, path: path.display().to_string() }
    }

    /// The next notice.
    fn next(&self) -> String {
        let mut bytes = [0; 4_096];
        let count = self.socket.recv(&mut bytes).expect("a notice");
        String::from_utf8(bytes[..count].to_vec()).expect("text")
    }

    /// The next notice that begins with this; status and signs of life are left out.
    fn wait(&self, start: &str) -> String {
        let begun = Instant::now();
        loop {
            let notice = self.next();
            assert!(begun.elapsed() < WAIT_MAX, "no {start}: {notice}");
            if notice.starts_with(start) {
                return notice;
            }
            let is_other = ["WATCHDOG=1", "STATUS=", "EXTEND_TIMEOUT_USEC="];
            assert!(is_other.iter().any(|other| notice.starts_with(other)), "{start}: {notice}");
        }
    }
}

fn discarding() -> String {
    config("[[route]]\ndiscard = {}\n")
}

/// The time of a notice of a reload.
fn micros(notice: &str) -> u64 {
    let line = notice.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
    line.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{notice}"))
}

#[test]
fn notices_follow_start_reload_and_stop() {
    let files = Files::new();
    let manager = Manager::new(&files);
    let environment = [("NOTIFY_SOCKET", &*manager.path), ("WATCHDOG_USEC", "1000000")];
    files.write(CONFIG, &discarding());
    let server = Server::start_with(&files, &environment);
    let ready = manager.wait("READY=1");
    assert!(ready.contains("STATUS=Accepting mail; messages in the spool: 0"), "{ready}");
    drop(Client::connect(server.address()));
    manager.wait("WATCHDOG=1");
    server.signal(Signal::HUP);
    let first = micros(&manager.wait("RELOADING=1"));
    let ready = manager.wait("READY=1");
    assert!(ready.contains("STATUS=configuration reloaded from"), "{ready}");
    files.write(CONFIG, "hostname = 7\n");
    control(files.dir(), &["reload"]);
    assert!(micros(&manager.wait("RELOADING=1")) > first);
    let ready = manager.wait("READY=1");
    assert!(ready.contains("STATUS=reload failed, the old configuration"), "{ready}");
    server.stop();
    manager.wait("STOPPING=1");
}

#[test]
fn watchdog_of_another_process_is_left_alone() {
    let files = Files::new();
    let manager = Manager::new(&files);
    let environment =
        [("NOTIFY_SOCKET", &*manager.path), ("WATCHDOG_USEC", "20000"), ("WATCHDOG_PID", "1")];
    files.write(CONFIG, &discarding());
    let server = Server::start_with(&files, &environment);
    manager.wait("READY=1");
    std::thread::sleep(Duration::from_millis(200));
    server.stop();
    let notice = manager.next();
    assert!(notice.starts_with("STOPPING=1"), "{notice}");
}

#[test]
fn slow_start_extends_its_time() {
    let files = Files::new();
    let manager = Manager::new(&files);
    // A pipe that no process writes to, as a disk that does not answer.
    let table = "[[table]]\nname = \"users\"\nfile = { path = \"users\" }\n\
                 [[route]]\ndomains = [\"x.test\"]\nrecipients = { table = \"users\" }\ndiscard = {}\n";
    files.write(CONFIG, &config(table));
    let pipe = files.path("postrider.fifo");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let mut child = Command::new(POSTRIDER)
        .args(["serve", "--config", "postrider.fifo"])
        .current_dir(files.dir())
        .env("NOTIFY_SOCKET", &manager.path)
        .stderr(Stdio::null())
        .spawn()
        .expect("the program");
    let notice = manager.next();
    assert!(notice.starts_with("EXTEND_TIMEOUT_USEC=60000000\nSTATUS=Reading "), "{notice}");
    let again = manager.next();
    assert!(again.starts_with("EXTEND_TIMEOUT_USEC="), "{again}");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

/// The thread of a server with this name.
fn thread(server: &Server, name: &str) -> String {
    let tasks = format!("/proc/{}/task", server.pid().as_raw_nonzero());
    let is_it = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    let found = fs::read_dir(&tasks).expect("Linux").flatten().find(is_it);
    found.expect("a thread").file_name().to_string_lossy().into_owned()
}

#[test]
fn stuck_shard_ends_signs_of_life() {
    if !is_installed("strace") {
        return;
    }
    let files = Files::new();
    let manager = Manager::new(&files);
    let environment = [("NOTIFY_SOCKET", &*manager.path), ("WATCHDOG_USEC", "1000000")];
    files.write(CONFIG, &format!("shards = 2\n{}", discarding()));
    let server = Server::start_with(&files, &environment);
    manager.wait("READY=1");
    manager.wait("WATCHDOG=1");
    // One of two threads hangs in a system call.
    let shard = thread(&server, "shard-1");
    let inject = "inject=epoll_wait,epoll_pwait,epoll_pwait2:delay_enter=60000000";
    let mut strace = Command::new("strace")
        .args(["-p", &shard, "-e", inject, "-o", "/dev/null"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("strace");
    let mut said = String::new();
    let _ = BufReader::new(strace.stderr.take().expect("a pipe")).read_line(&mut said);
    if !said.contains("attached") {
        skips::machine(Machine::Namespaces, &format!("no tracing here: {said}"));
        let _ = strace.wait();
        return;
    }
    // Signs of life before may still arrive.
    manager.socket.set_read_timeout(Some(Duration::from_secs(3))).expect("a socket");
    let mut bytes = [0; 4_096];
    let mut late = 0;
    while let Ok(count) = manager.socket.recv(&mut bytes) {
        let notice = String::from_utf8_lossy(&bytes[..count]);
        late += usize::from(notice.starts_with("WATCHDOG=1"));
        assert!(late <= 2, "a stuck shard is noticed");
    }
    let _ = kill_process(Pid::from_child(&strace), Signal::KILL);
    let _ = strace.wait();
    manager.socket.set_read_timeout(Some(WAIT_MAX)).expect("a socket");
    manager.wait("WATCHDOG=1");
}

#[test]
fn unusable_notify_socket_is_reported() {
    let files = Files::new();
    files.write(CONFIG, &discarding());
    let server = Server::start_with(&files, &[("NOTIFY_SOCKET", "/no/such/socket")]);
    server.wait_console("a warning", |line| {
        line.contains("warn  start: cannot notify the service manager at /no/such/socket: ")
    });
    server.stop();
}

/// Starts a program with sockets from descriptor 3 on: `KIND=PLACE` for each, their names, the program.
const HAND_OVER: &str = r#"
import os, socket, sys
count = int(sys.argv[1])
kept = []
for number, spec in enumerate(sys.argv[2:2 + count]):
    kind, place = spec.split("=", 1)
    if kind in ("tcp", "bound", "udp"):
        host, port = place.rsplit(":", 1)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        one = socket.socket(family, socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        one.bind((host, int(port)))
    elif kind == "file":
        one = open(place)
    else:
        kinds = {"unix": socket.SOCK_STREAM, "dgram": socket.SOCK_DGRAM}
        one = socket.socket(socket.AF_UNIX, kinds[kind])
        one.bind(place)
    if kind in ("tcp", "unix"):
        one.listen(64)
    kept.append(one)
held = [os.dup(one.fileno()) for one in kept]
held = [os.dup2(one, 100 + number) for number, one in enumerate(held)]
for number, one in enumerate(held):
    os.dup2(one, 3 + number, inheritable=True)
    os.close(one)
os.environ["LISTEN_FDS"] = str(count)
os.environ["LISTEN_PID"] = str(os.getpid())
names = sys.argv[2 + count]
if names != "-":
    os.environ["LISTEN_FDNAMES"] = names
os.execv(sys.argv[3 + count], sys.argv[3 + count:])
"#;

/// The server with these sockets.
fn handing(sockets: &[&str], names: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", HAND_OVER, &sockets.len().to_string()]).args(sockets).arg(names);
    command.args([POSTRIDER, "serve", "--config", CONFIG]);
    command
}

#[test]
fn handed_sockets_are_used_by_name_or_address() {
    let files = Files::new();
    let ports = [(); 3].map(|()| free_port());
    let control = files.path("control.sock").display().to_string();
    let local = files.path("submit.sock").display().to_string();
    let text = format!(
        "hostname = \"relay.test\"\nspool = {{ path = \"spool\" }}\n\
         [admin]\ncontrol = \"{control}\"\naddress = \"127.0.0.1:{}\"\n\
         [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:{}\"\n\
         [[listener]]\nname = \"other\"\naddress = \"127.0.0.1:{}\"\n\
         [[listener]]\nname = \"local\"\nkind = \"local\"\nsocket = \"submit.sock\"\n\
         [[listener]]\nname = \"own\"\naddress = \"127.0.0.1:0\"\n\
         [[route]]\ndiscard = {{}}\n",
        ports[0], ports[1], ports[2]
    );
    let tcp = ports.map(|port| format!("tcp=127.0.0.1:{port}"));
    let unix = [format!("unix={control}"), format!("unix={local}")];
    let sockets = [&*tcp[2], &tcp[1], &unix[0], &tcp[0], &unix[1]];
    for names in ["other:in:control:admin:local", "-", "unknown:postrider.socket:::"] {
        files.write(CONFIG, &text);
        let server = Server::spawn(handing(&sockets, names), files.dir());
        for port in [ports[1], ports[2]] {
            let at = SocketAddr::from(([127, 0, 0, 1], port));
            drop(Client::connect(at));
        }
        let page = crate::support::http::get(&format!("127.0.0.1:{}", ports[0]), "/healthz");
        assert!(page.contains("200"), "{names}: {page}");
        let status =
            crate::support::server::program(files.dir(), &["status", "--control", &control]);
        assert_eq!(status.code, 0, "{names}: {status:?}");
        server.stop();
        // The next server gets them, too.
        for path in [&control, &local] {
            assert!(Path::new(path).exists(), "{names}: {path}");
            fs::remove_file(path).expect("a socket");
        }
    }
}

/// The error of a start with these sockets.
fn refused(files: &Files, sockets: &[&str], names: &str) -> String {
    let output = handing(sockets, names).current_dir(files.dir()).output().expect("python3");
    assert!(!output.status.success());
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn socket_of_the_wrong_kind_is_named() {
    let files = Files::new();
    let port = free_port();
    let text = config("[[route]]\ndiscard = {}\n");
    files.write(CONFIG, &text.replace("127.0.0.1:0", &format!("127.0.0.1:{port}")));
    let at = |kind: &str| format!("{kind}=127.0.0.1:{port}");
    let unix = format!("unix={}", files.path("a.sock").display());
    let datagrams = format!("dgram={}", files.path("b.sock").display());
    let elsewhere = format!("tcp=127.0.0.1:{}", free_port());
    let file = format!("file={}", files.path(CONFIG).display());
    let both = format!("tcp=::1:{port}");
    let kind = "descriptor 3 (LISTEN_FDNAMES=\"in\") is ";
    for (socket, names, why) in [
        (at("udp"), "in", format!("{kind}a UDP socket, not a stream socket that listens")),
        (datagrams, "in", format!("{kind}a Unix datagram socket, not a stream socket")),
        (at("bound"), "in", format!("{kind}a TCP socket that does not listen, not a stream")),
        (file, "in", format!("{kind}no socket of a known kind, not a stream")),
        (unix.clone(), "in", format!("{kind}a Unix socket, but its place is here")),
        (elsewhere.clone(), "in", format!("{kind}at {}, but its", &elsewhere[4..])),
        (both, "in", format!("{kind}at [::1]:{port}, but its place")),
        (at("tcp"), "out", "(LISTEN_FDNAMES=\"out\") at 127.0.0.1:".to_owned()),
        (at("tcp"), "admin", "belongs to no listener: name it after a listener".to_owned()),
        (elsewhere, "-", "descriptor 3 (LISTEN_FDS) at 127.0.0.1:".to_owned()),
        (at("tcp"), "control", "is a TCP socket, but its place is here".to_owned()),
    ] {
        for path in ["a.sock", "b.sock"] {
            let _ = fs::remove_file(files.path(path));
        }
        let error = refused(&files, &[&socket], names);
        let plain = error.replace("\n", " ");
        assert!(plain.contains(&why), "{socket} {names}: {error}");
        let has_place = why.contains("but its");
        assert_eq!(plain.contains(CONFIG), has_place, "{socket} {names}: {error}");
    }
    let error = refused(&files, &[&at("tcp"), &unix], "in:in");
    assert!(error.contains("descriptor 4") && error.contains("a Unix socket"), "{error}");
}

#[test]
fn ipv6_socket_for_ipv4_clients_is_refused() {
    let files = Files::new();
    let port = free_port();
    let text = config("[[route]]\ndiscard = {}\n");
    files.write(CONFIG, &text.replace("127.0.0.1:0", &format!("[::]:{port}")));
    let error = refused(&files, &[&format!("tcp=:::{port}")], "in");
    if error.contains("Address family not supported") {
        skips::machine(Machine::Path, "no IPv6 here");
        return;
    }
    assert!(error.contains("for IPv4 clients too (set BindIPv6Only=ipv6-only)"), "{error}");
}

#[test]
fn socket_activation_serves_the_client_that_caused_it() {
    if !is_installed("systemd-socket-activate") {
        return;
    }
    let files = Files::new();
    let at = format!("127.0.0.1:{}", free_port());
    files.write(CONFIG, &discarding().replace("127.0.0.1:0", &at));
    let mut activator = Command::new("systemd-socket-activate")
        .args(["-l", &at, "--fdname=in", POSTRIDER, "serve", "--config", CONFIG])
        .current_dir(files.dir())
        .stderr(Stdio::piped())
        .spawn()
        .expect("systemd-socket-activate");
    wait_until("the socket", || TcpStream::connect(&at).is_ok());
    drop(Client::connect(at.parse().expect("an address")));
    kill_process(Pid::from_child(&activator), Signal::TERM).expect("it runs");
    let status = activator.wait().expect("a child of ours");
    let mut said = String::new();
    let _ = activator.stderr.take().expect("a pipe").read_to_string(&mut said);
    assert!(status.success(), "{status}: {said}");
}

/// Holds a socket and starts the server anew whenever it ends; prints the process of each.
const KEEPER: &str = r#"
import os, socket, subprocess, sys
one = socket.socket()
one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
one.bind(("127.0.0.1", int(sys.argv[1])))
one.listen(512)
if one.fileno() == 3:
    os.set_inheritable(3, True)
else:
    os.dup2(one.fileno(), 3, inheritable=True)
environment = dict(os.environ, LISTEN_FDS="1", LISTEN_FDNAMES="in")
for turn in range(int(sys.argv[2])):
    child = subprocess.Popen(sys.argv[3:], env=environment, close_fds=False, stdin=subprocess.DEVNULL)
    print(child.pid, flush=True)
    child.wait()
"#;

/// Ended with the test.
struct Keeper(Child);

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn restart_refuses_no_connection() {
    const RESTARTS: usize = 3;
    let files = Files::new();
    let port = free_port();
    files.write(CONFIG, &discarding().replace("127.0.0.1:0", &format!("127.0.0.1:{port}")));
    let child = Command::new("python3")
        .args(["-c", KEEPER, &port.to_string(), &(RESTARTS + 1).to_string()])
        .args([POSTRIDER, "serve", "--config", CONFIG])
        .current_dir(files.dir())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut keeper = Keeper(child.expect("python3"));
    let mut lines = BufReader::new(keeper.0.stdout.take().expect("a pipe")).lines();
    let mut next = || lines.next().expect("a line").expect("text").parse::<i32>().expect("a pid");
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    let mut server = next();
    let is_over = AtomicBool::new(false);
    let (served, stopped) = std::thread::scope(|scope| {
        let clients = scope.spawn(|| {
            let (mut served, mut stopped) = (0, 0);
            while !is_over.load(Ordering::Relaxed) {
                match greeting(at) {
                    Some(220) => served += 1,
                    // A client of the moment of the stop is asked to come again.
                    _ => stopped += 1,
                }
            }
            (served, stopped)
        });
        for _ in 0..RESTARTS {
            greeting(at);
            let pid = Pid::from_raw(server).expect("a process");
            kill_process(pid, Signal::TERM).expect("it runs");
            server = next();
        }
        greeting(at);
        is_over.store(true, Ordering::Relaxed);
        clients.join().expect("no connection was refused")
    });
    let _ = kill_process(Pid::from_raw(server).expect("a process"), Signal::KILL);
    assert!(served >= RESTARTS && stopped <= RESTARTS * 2, "{served} {stopped}");
}

/// The code of the greeting; a refused connection fails the test.
fn greeting(at: SocketAddr) -> Option<u16> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(at).expect("the socket is held");
    stream.set_read_timeout(Some(WAIT_MAX)).expect("a socket");
    let mut code = [0; 3];
    let read = stream.read_exact(&mut code);
    assert!(begun.elapsed() < WAIT_MAX, "no greeting");
    read.ok()?;
    let _ = stream.write_all(b"QUIT\r\n");
    std::str::from_utf8(&code).ok()?.parse().ok()
}
