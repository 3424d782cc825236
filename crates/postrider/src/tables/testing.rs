//! What the tests of remote tables share: a file with a table in it, a server that follows a script,
//! and other people's servers.

use crate::mutex::lock;
use config::{TableEntry, TableSection};
use lookup::{Answers, Backend, Entry, LookupError};
use mta::console::{Console, Level};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fmt;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Runs a future as the thread of the tables would.
pub(super) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // In a box: the runtime is compiled once for each result, not for each future.
    let future: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(future);
    tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime"), future)
}

/// The table that a configuration has with this line in its `[[table]]`, or what is wrong with it, each
/// mistake with the text that it points at.
pub(super) fn table<S: TableSection>(line: &str) -> Result<Arc<TableEntry>, Vec<String>> {
    let text = format!(
        "hostname = \"relay.test\"\n[spool]\npath = \"/tmp\"\n\
         [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n\
         [[route]]\nsmtp = {{ hosts = [\"192.0.2.1\"] }}\n\
         [[table]]\nname = \"t\"\n{line}\n"
    );
    let schema = channels::sections().table::<S>();
    match schema.parse(&text, "test.toml") {
        Ok(config) => Ok(Arc::clone(&config.tables[0])),
        Err(errors) => {
            let shown = |problem: &config::Problem| {
                format!("{}:{}: {}", problem.line, problem.column, problem.message)
            };
            Err(errors.problems().iter().map(shown).collect())
        }
    }
}

/// The answer to one key.
pub(super) async fn find(backend: &dyn Backend, key: &str) -> Result<Option<Entry>, LookupError> {
    let answers = ask(backend, &[key]).await;
    answers.into_iter().next().expect("an answer for a key")
}

/// The answers to some keys.
pub(super) async fn ask(backend: &dyn Backend, keys: &[&str]) -> Answers {
    assert!(keys.len() <= backend.batch_max());
    let keys: Vec<Box<str>> = keys.iter().map(|key| Box::from(*key)).collect();
    let answers = tokio::time::timeout(Duration::from_secs(30), backend.fetch(&keys)).await;
    let answers = answers.expect("an answer within half a minute");
    assert_eq!(answers.len(), keys.len());
    answers
}

/// An answer that is one text.
pub(super) fn text(text: &str) -> Result<Option<Entry>, LookupError> {
    Ok(Some(Entry::text(text)))
}

/// Serves connections one after the other, each with its number, until the test ends; the port.
pub(super) fn serve(script: impl FnMut(usize, TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    serve_at(listener, script);
    port
}

/// The same at a port of one's own.
pub(super) fn serve_at(
    listener: TcpListener,
    mut script: impl FnMut(usize, TcpStream) + Send + 'static,
) {
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
            script(number, stream);
        }
    });
}

/// Answers the first question of each connection with these bytes, and says no more. Closes then, or
/// not before the other side does.
pub(super) fn serve_answer(answer: Vec<u8>, closes: bool) -> u16 {
    serve(move |_, mut stream| {
        let mut question = [0; 4096];
        if !matches!(stream.read(&mut question), Ok(1..)) || stream.write_all(&answer).is_err() {
            return;
        }
        if !closes {
            std::thread::spawn(move || stream.read(&mut question));
        }
    })
}

/// A console that keeps what is said.
#[derive(Default)]
pub(super) struct CapturedConsole(Mutex<Vec<String>>);

impl CapturedConsole {
    /// What was said so far: level, kind and text.
    pub(super) fn lines(&self) -> Vec<String> {
        lock(&self.0).clone()
    }
}

impl Console for CapturedConsole {
    fn shows(&self, _: Level) -> bool {
        true
    }

    fn line(&self, level: Level, kind: &'static str, text: fmt::Arguments<'_>) {
        lock(&self.0).push(format!("{} {kind}: {text}", level.as_str()));
    }
}

/// A process that ends with the test, and what it started.
pub(super) struct Process(Child);

impl Process {
    /// Has it end by a signal, as it does when it is stopped.
    pub(super) fn end(mut self, signal: Signal) {
        kill_process_group(Pid::from_child(&self.0), signal).expect("a process of ours");
        let start = Instant::now();
        while self.0.try_wait().expect("a child of ours").is_none() {
            assert!(start.elapsed() < Duration::from_secs(30), "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Other people's servers, which never run as root: Debian packages that scripts/with-packages lays
/// over the machine's files, at ports of their own.
pub(super) mod unprivileged {
    use super::*;

    /// Debian's nobody and nogroup.
    const NOBODY: u32 = 65_534;

    fn with_packages() -> Command {
        Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/with-packages"))
    }

    /// Whether servers of these packages can be started: by root, where mounts can be made. What the
    /// machine doesn't allow is skipped in continuous integration, too; packages that are missing are
    /// not.
    pub(in super::super) fn is_possible(packages: &str) -> bool {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: not root");
            return false;
        }
        let trial = with_packages().args([packages, "true"]).output().expect("a script of ours");
        let why = String::from_utf8_lossy(&trial.stderr);
        let is_missing = why.contains("install-test-packages");
        assert!(!is_missing || std::env::var_os("CI").is_none(), "{why}");
        if !trial.status.success() {
            eprintln!("SKIPPED: {why}");
        }
        trial.status.success()
    }

    /// A directory that belongs to whom servers run as.
    pub(in super::super) fn directory() -> tempfile::TempDir {
        let dir = tempfile::Builder::new().prefix("postrider-tables-").tempdir();
        let dir = dir.expect("a directory");
        std::os::unix::fs::chown(dir.path(), Some(NOBODY), Some(NOBODY)).expect("root");
        dir
    }

    pub(in super::super) fn free_port() -> u16 {
        load::listener::free_port().expect("a port")
    }

    /// A line for the shell, which sees these packages, as nobody.
    fn command(packages: &str, line: &str) -> Command {
        let mut command = with_packages();
        let nobody = NOBODY.to_string();
        command.env("HOME", "/nonexistent");
        command.args([packages, "setpriv", "--reuid", &nobody, "--regid", &nobody]);
        command.args(["--clear-groups", "sh", "-c", line]).stdin(Stdio::null()).current_dir("/");
        command
    }

    /// Runs a line to its end.
    pub(in super::super) fn succeed(packages: &str, line: &str) {
        let output = command(packages, line).output().expect("a script of ours");
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&text));
    }

    /// Starts a server, and waits until it listens at a port.
    pub(in super::super) fn start(packages: &str, line: &str, port: u16) -> Process {
        let line = format!("exec {line}");
        let mut command = command(packages, &line);
        command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process(command.spawn().expect("a script of ours"));
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = process.0.try_wait().expect("a child of ours");
            assert!(ended.is_none(), "{line}: {ended:?}");
            assert!(start.elapsed() < Duration::from_secs(60), "{line}: it does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        process
    }
}
