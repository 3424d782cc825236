//! Server and client over a real socket, and clients that behave badly.

use super::*;
use mta::commands::{NodeJob, NodeRequest, QueueRemove, Reload, ServerStatus};
use mta::control::{Select, ShardAnswer, Status, Tally};
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::thread;
use tokio::sync::{mpsc, oneshot};

struct Server {
    path: PathBuf,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

/// Two shards that remove one message each, and a node that can't reload.
fn serve() -> Server {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let socket = ControlSocket::bind(&path).unwrap();
    let (stop, stopped) = oneshot::channel();
    let thread = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let (node, mut jobs) = mpsc::channel::<NodeJob>(4);
            tokio::spawn(async move {
                while let Some(job) = jobs.recv().await {
                    match job.request {
                        NodeRequest::Reload(_) => {
                            job.answer.told(Err("line 3: no such key".to_owned()));
                        }
                        NodeRequest::ServerStatus(_) => {
                            job.answer.items([ControlResponse::Status(Status::default())]);
                        }
                        other => panic!("{other:?}"),
                    }
                }
            });
            let shard = || -> mta::commands::ShardPort {
                Box::new(|_, answer| {
                    let tally = Tally { messages: 1, recipients: 1, ..Tally::default() };
                    let part = ShardAnswer { tally, ..ShardAnswer::default() };
                    let _ = answer.try_send(part.clone());
                    let _ = answer.try_send(ShardAnswer { is_last: true, ..part });
                })
            };
            let plane = Arc::new(ControlPlane::new(vec![shard(), shard()], node));
            tokio::select! {
                biased;
                _ = stopped => {}
                served = socket.serve(plane) => served.unwrap(),
            }
        });
    });
    Server { path, stop: Some(stop), thread: Some(thread), _directory: directory }
}

fn answers(path: &Path, request: &ControlRequest) -> Vec<ControlResponse> {
    let mut seen = Vec::new();
    ask(path, request, |response| {
        seen.push(response);
        Ok(())
    })
    .unwrap();
    seen
}

fn raw(path: &Path, request: &[u8]) -> String {
    let mut stream = BlockingStream::connect(path).unwrap();
    // The server may have closed before all of it is sent.
    let _ = stream.write_all(request);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn requests_reach_all_shards_and_the_node() {
    let server = serve();
    let remove = ControlRequest::QueueRemove(QueueRemove { select: Select::All });
    let tally = Some(Tally { messages: 2, recipients: 2, ..Tally::default() });
    let text = Some("2 messages removed".to_owned());
    let mut said = answers(&server.path, &remove);
    assert_eq!(said.pop(), Some(ControlResponse::Done { matched: 2, tally, text }));
    assert!(!said.is_empty() && said.iter().all(|r| matches!(r, ControlResponse::Progress(_))));
    // Who does not say which version it speaks hears of no progress.
    let first = raw(&server.path, b"{\"command\":\"queue_remove\",\"select\":\"all\"}\n");
    assert_eq!(first.lines().count(), 1, "{first}");
    assert_eq!(
        answers(&server.path, &Reload {}.into()),
        [ControlResponse::Error {
            code: ErrorCode::Failed,
            text: "line 3: no such key".to_owned()
        }]
    );
}

#[test]
fn only_the_owner_may_connect_and_the_file_goes_with_the_server() {
    let server = serve();
    let meta = fs::symlink_metadata(&server.path).unwrap();
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    let path = server.path.clone();
    assert!(!path.with_extension("sock.new").exists());
    drop(server);
    assert!(!path.exists());
}

#[test]
fn bad_requests_get_a_sentence() {
    let server = serve();
    for (request, expected) in [
        (&b"{\"command\":\"explode\"}\n"[..], "unknown variant `explode`"),
        (b"\xff\xff\n", "invalid request"),
        (b"{\"command\":\"status\"", "must be one line"),
        (b"", "must be one line"),
        (b"{\"command\":\"status\",\"version\":3}\n", "supports protocol versions 1 to 2"),
        (&[b' '; REQUEST_BYTES_MAX + 1], "longer than 65536 bytes"),
    ] {
        let answer = raw(&server.path, request);
        assert!(answer.contains("\"bad_request\"") && answer.contains(expected), "{answer}");
    }
    // And it still works.
    let said = answers(&server.path, &ServerStatus {}.into());
    assert!(said.iter().any(|response| matches!(response, ControlResponse::Status(_))));
}

#[test]
fn a_request_that_is_much_too_long_gets_its_answer() {
    let server = serve();
    let mut stream = BlockingStream::connect(&server.path).unwrap();
    stream.write_all(&vec![b' '; 4 * REQUEST_BYTES_MAX]).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("longer than 65536 bytes"), "{answer}");
}

#[test]
fn those_who_send_nothing_keep_nobody_from_giving_orders() {
    let server = serve();
    let connect = |_| BlockingStream::connect(&server.path).unwrap();
    let mut idle: Vec<BlockingStream> = (0..2 * CLIENTS_MAX).map(connect).collect();
    let begun = std::time::Instant::now();
    for _ in 0..CLIENTS_MAX {
        let said = answers(&server.path, &ServerStatus {}.into());
        assert!(said.iter().any(|response| matches!(response, ControlResponse::Status(_))));
    }
    assert!(begun.elapsed() < REQUEST_TIMEOUT, "nobody waited for them");
    // The oldest gave way.
    let mut answer = String::new();
    idle[0].read_to_string(&mut answer).unwrap();
    assert!(answer.contains("other connections wait"), "{answer}");
}

#[test]
fn a_stale_file_is_replaced_a_live_server_and_other_files_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a killed server leaves its file");
    let first = ControlSocket::bind(&path).unwrap();
    let error = ControlSocket::bind(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{error}");
    drop(first);
    fs::write(&path, "precious").unwrap();
    let error = ControlSocket::bind(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_path_that_is_too_long_is_named_as_such() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x".repeat(120));
    let error = ControlSocket::bind(&path).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
}

#[test]
fn nobody_there_is_told_apart_from_a_broken_answer() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("control.sock");
    let outcome = ask(&path, &ServerStatus {}.into(), |_| Ok(()));
    assert!(matches!(outcome, Err(ClientError::Unreachable(_))), "{outcome:?}");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let silent = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 64];
        let _ = stream.read(&mut request).unwrap();
    });
    let outcome = ask(&path, &ServerStatus {}.into(), |_| Ok(()));
    assert!(matches!(outcome, Err(ClientError::Broken(_))), "{outcome:?}");
    silent.join().unwrap();
}

#[test]
fn the_longest_path_that_a_configuration_may_name_can_be_bound() {
    let directory = tempfile::tempdir().unwrap();
    let path = |length: usize| {
        let name = "x".repeat(length - directory.path().as_os_str().len() - 1);
        directory.path().join(name)
    };
    let longest = path(config::CONTROL_PATH_BYTES_MAX);
    ControlSocket::bind(&longest).unwrap();
    let error = ControlSocket::bind(&path(config::CONTROL_PATH_BYTES_MAX + 1)).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
}

#[test]
fn the_server_is_reached_without_its_file_by_its_own_user_alone() {
    use std::os::unix::process::CommandExt as _;
    let server = serve();
    fs::remove_file(&server.path).unwrap();
    let mut last = None;
    ask(&server.path, &ServerStatus {}.into(), |response| {
        last = Some(response);
        Ok(())
    })
    .unwrap();
    assert!(matches!(last, Some(ControlResponse::Done { .. })), "{last:?}");
    let other = server.path.with_file_name("other.sock");
    let outcome = ask(&other, &ServerStatus {}.into(), |_| Ok(()));
    assert!(matches!(outcome, Err(ClientError::Unreachable(_))), "{outcome:?}");
    // Only root can be somebody else.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let name = abstract_socket::name(&server.path).unwrap();
    let script = "import socket, sys\n\
                  s = socket.socket(socket.AF_UNIX)\n\
                  s.connect(sys.argv[1].replace('@', '\\0', 1))\n\
                  try: s.sendall(b'{\"command\":\"status\"}\\n'); print(len(s.recv(99)))\n\
                  except OSError: print(0)\n";
    for (uid, is_answered) in [(0, true), (65_534, false)] {
        let mut python = std::process::Command::new("/usr/bin/python3");
        let name = String::from_utf8_lossy(&name).replacen('\0', "@", 1);
        let ran = python.args(["-c", script, &name]).uid(uid).output().unwrap();
        let count = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(count != "0", is_answered, "uid {uid}: {count}");
    }
}
