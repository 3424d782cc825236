//! Against a server of ours, of which Postfix says that it speaks the protocol, and against servers
//! that don't.

use super::super::testing::{find, run, serve, serve_answer, serve_at, table, text, unprivileged};
use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

/// Reads a netstring; `None` at the end.
fn read_netstring(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut byte, mut length) = ([0], 0);
    while stream.read_exact(&mut byte).is_ok() {
        if byte[0] == b':' {
            let mut content = vec![0; length + 1];
            stream.read_exact(&mut content).expect("a whole netstring");
            assert_eq!(content.pop(), Some(b','));
            return Some(content);
        }
        length = length * 10 + usize::from(byte[0] - b'0');
    }
    None
}

fn netstring_of(content: &[u8]) -> Vec<u8> {
    [format!("{}:", content.len()).as_bytes(), content, b","].concat()
}

/// A table of a few keys, as a server of socketmaps has it.
fn serve_table(mut stream: TcpStream, questions_max: usize) {
    for _ in 0..questions_max {
        let Some(question) = read_netstring(&mut stream) else { return };
        let reply = match question.as_slice() {
            b"virtual you@far.test" => b"OK box@near.test, other@near.test".to_vec(),
            b"virtual two words" => b"OK yes".to_vec(),
            b"virtual long" => [b"OK ", "x".repeat(REPLY_BYTES_MAX - 3).as_bytes()].concat(),
            b"virtual longer" => [b"OK ", "x".repeat(REPLY_BYTES_MAX - 2).as_bytes()].concat(),
            b"virtual empty" => b"OK ".to_vec(),
            b"virtual lines" => b"OK a\r\nb".to_vec(),
            b"virtual later" => b"TEMP the database\nis away".to_vec(),
            b"virtual slow" => b"TIMEOUT ".to_vec(),
            b"virtual never" => b"PERM no such map".to_vec(),
            _ => b"NOTFOUND ".to_vec(),
        };
        // Who has heard enough hangs up.
        if stream.write_all(&netstring_of(&reply)).is_err() {
            return;
        }
    }
}

fn backend(port: u16) -> Box<dyn Backend> {
    let line = format!("socketmap = {{ server = \"127.0.0.1:{port}\", map = \"virtual\" }}");
    let table = table::<SocketmapText>(&line).expect("a good table");
    assert!(table.is_remote);
    table.settings.of::<Socketmap>().expect("its settings").backend()
}

fn trouble(kind: LookupErrorKind, port: u16, words: &str) -> Result<Option<Entry>, LookupError> {
    Err(LookupError::new(kind, format!("127.0.0.1:{port}: {words}")))
}

#[test]
fn what_a_stranger_is_looked_up_by_is_one_string() {
    let key = "a,7:other x,\u{fc}@x.test";
    let question = Map("users".into()).question(key).expect("a question");
    let text = format!("users {key}");
    assert_eq!(question, format!("{}:{text},", text.len()).into_bytes());
    assert_eq!(question, netstring_of(text.as_bytes()));
}

#[test]
fn postfix_understands_our_server() {
    let port = serve(|_, stream| serve_table(stream, 1));
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("main.cf"), "compatibility_level = 3.6\n").expect("a file");
    let postmap = |key: &str| {
        let table = format!("socketmap:inet:127.0.0.1:{port}:virtual");
        let mut command = Command::new("/usr/sbin/postmap");
        command.arg("-c").arg(dir.path()).args(["-q", key, &table]);
        let output = command.output().expect("postmap (scripts/install-test-packages)");
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        (String::from_utf8(output.stdout).expect("text"), words)
    };
    assert_eq!(postmap("you@far.test").0, "box@near.test, other@near.test\n");
    assert_eq!(postmap("nobody@far.test"), Default::default());
    assert!(postmap("later").1.contains("the database"));
    assert_eq!(postmap("long").0.len(), REPLY_BYTES_MAX - 3 + 1);
    // Postfix's limit and ours are the same.
    assert!(postmap("longer").1.contains("unexpected EOF") || postmap("longer").0.is_empty());
}

#[test]
fn postfix_mta_sts_resolver_is_understood() {
    const PACKAGE: &str = "postfix-mta-sts-resolver";
    if !unprivileged::is_possible(PACKAGE) {
        return;
    }
    let (dir, port) = (unprivileged::directory(), unprivileged::free_port());
    let file = dir.path().join("config.yml");
    let text = format!("host: 127.0.0.1\nport: {port}\ncache:\n  type: internal\n");
    std::fs::write(&file, text).expect("a file");
    let line = format!("/usr/bin/mta-sts-daemon -c {}", file.display());
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let _process = unprivileged::start(PACKAGE, &line, port);
    let backend = backend(port);
    run(async {
        // What it answers without the DNS.
        for key in [".far.test", "[192.0.2.1]", ".near.test"] {
            assert_eq!(find(&*backend, key).await, Ok(None));
        }
        assert!(backend.server().is_some());
    });
}

#[test]
fn every_status_has_its_meaning() {
    let port = serve(|_, stream| serve_table(stream, usize::MAX));
    let backend = backend(port);
    run(async {
        assert_eq!(backend.server(), None);
        let find = async |key| find(&*backend, key).await;
        assert_eq!(find("you@far.test").await, text("box@near.test, other@near.test"));
        assert_eq!(backend.server(), Some(format!("127.0.0.1:{port}")));
        assert_eq!(find("two words").await, text("yes"));
        assert_eq!(find("nobody@far.test").await, Ok(None));
        assert_eq!(find("empty").await, text(""));
        let words = "TEMP the database is away";
        assert_eq!(find("later").await, trouble(LookupErrorKind::Wrong, port, words));
        assert_eq!(find("slow").await, trouble(LookupErrorKind::Timeout, port, "TIMEOUT"));
        assert_eq!(find("never").await, trouble(LookupErrorKind::Wrong, port, "PERM no such map"));
        let words = "the answer has a control character (U+000D)";
        assert_eq!(find("lines").await, trouble(LookupErrorKind::Key, port, words));
        // All on one connection: the server takes one after the other.
        assert_eq!(find("you@far.test").await, text("box@near.test, other@near.test"));
    });
}

#[test]
fn a_reply_of_100000_bytes_is_taken_and_none_that_is_longer() {
    let port = serve(|_, stream| serve_table(stream, usize::MAX));
    let backend = backend(port);
    run(async {
        let long = find(&*backend, "long").await.unwrap().unwrap();
        assert_eq!(long.text.len(), REPLY_BYTES_MAX - 3);
        let words = "the reply has 100001 bytes: at most 100000";
        assert_eq!(find(&*backend, "longer").await, trouble(LookupErrorKind::Key, port, words));
        assert_eq!(find(&*backend, "empty").await, text(""));
    });
}

#[test]
fn a_server_that_closes_comes_back_or_stays_away() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // The first connection is closed after its second answer, as if the server were started anew; the
    // second is the last.
    std::thread::spawn(move || {
        for questions_max in [2, 1] {
            let (stream, _) = listener.accept().expect("a connection");
            serve_table(stream, questions_max);
        }
    });
    let backend = backend(port);
    run(async {
        for _ in 0..3 {
            assert_eq!(find(&*backend, "empty").await, text(""));
        }
        // Until the thread that listened is gone, connections are taken and then reset.
        let gone = find(&*backend, "empty").await.unwrap_err();
        assert_eq!(gone.kind, LookupErrorKind::Unreachable, "{gone}");
        let refused = find(&*backend, "empty").await.unwrap_err();
        assert!(refused.text.contains("Connection refused"), "{refused}");
        assert_eq!(backend.server(), None);
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the same port");
        serve_at(listener, |_, stream| serve_table(stream, usize::MAX));
        assert_eq!(find(&*backend, "empty").await, text(""));
        assert!(backend.server().is_some());
    });
}

#[test]
fn what_is_no_answer_is_told_and_ends_the_connection() {
    let half = "closed the connection during its reply";
    let silent = "closed the connection without a reply";
    for (reply, closes, kind, words) in [
        ("", true, LookupErrorKind::Unreachable, silent),
        ("8:OK x", true, LookupErrorKind::Wrong, half),
        ("8", true, LookupErrorKind::Wrong, half),
        (
            "220 mail.test ESMTP\r\n",
            false,
            LookupErrorKind::Wrong,
            "the reply is not a netstring: 220 mail.test ESMTP",
        ),
        (":OK x,", false, LookupErrorKind::Wrong, "the reply is not a netstring: :OK x,"),
        (
            "4:OK x;",
            false,
            LookupErrorKind::Wrong,
            "the reply is not a netstring: no comma at its end",
        ),
        ("4:OK x,4:OK y,", false, LookupErrorKind::Wrong, "more than one reply"),
        ("9999999999:", false, LookupErrorKind::Wrong, "the reply is not a netstring: 9999999999:"),
        (
            "999999999:",
            false,
            LookupErrorKind::Key,
            "the reply has 999999999 bytes: at most 100000",
        ),
        ("2:OK,", false, LookupErrorKind::Wrong, "OK"),
        ("0:,", false, LookupErrorKind::Wrong, ""),
        ("9:WHATEVER ,", false, LookupErrorKind::Wrong, "WHATEVER"),
    ] {
        let port = serve_answer(reply.into(), closes);
        let backend = backend(port);
        let answer = run(async { find(&*backend, "key").await });
        assert_eq!(answer, trouble(kind, port, words), "{reply:?}");
    }
}

#[test]
fn bytes_that_nobody_asked_for_are_no_answer_to_the_next_question() {
    let (said, heard) = std::sync::mpsc::channel();
    let port = serve(move |number, mut stream| {
        if number > 0 {
            return serve_table(stream, usize::MAX);
        }
        read_netstring(&mut stream).expect("a question");
        stream.write_all(b"4:OK 1,").expect("somebody who listens");
        std::thread::sleep(Duration::from_millis(200));
        stream.write_all(b"4:OK 2,").expect("somebody who listens");
        said.send(()).expect("a test");
    });
    let backend = backend(port);
    run(async {
        assert_eq!(find(&*backend, "first").await, text("1"));
        tokio::task::spawn_blocking(move || heard.recv()).await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(find(&*backend, "second").await, Ok(None));
    });
}

#[test]
fn a_question_that_is_given_up_leaves_its_answer_to_nobody() {
    let port = serve(|number, mut stream| {
        if number > 0 {
            return serve_table(stream, usize::MAX);
        }
        std::thread::spawn(move || {
            read_netstring(&mut stream).expect("a question");
            std::thread::sleep(Duration::from_millis(300));
            // Too late: whether it can be written doesn't matter.
            let _ = stream.write_all(b"7:OK late,");
        });
    });
    let backend = backend(port);
    run(async {
        let keys = [Box::from("slow one")];
        let wait = Duration::from_millis(100);
        assert!(tokio::time::timeout(wait, backend.fetch(&keys)).await.is_err());
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(find(&*backend, "nobody").await, Ok(None));
    });
}

#[test]
fn a_server_that_does_not_let_us_in_is_not_waited_for() {
    // A connection that nobody accepts is complete all the same; one whose queue is full is not.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let address: std::net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&address.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let _first = TcpStream::connect(address).unwrap();
    let line = format!(
        "socketmap = {{ server = \"{address}\", map = \"m\", connect_timeout = \"300ms\" }}"
    );
    let table = table::<SocketmapText>(&line).unwrap();
    let backend = table.settings.of::<Socketmap>().unwrap().backend();
    let trouble = run(async { find(&*backend, "key").await }).unwrap_err();
    assert_eq!(trouble.kind, LookupErrorKind::Unreachable);
    assert_eq!(&*trouble.text, format!("{address}: no connection within 300ms"));
}

#[test]
fn a_unix_socket_serves_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("map");
    let line = format!("socketmap = {{ server = \"unix:{}\", map = \"virtual\" }}", path.display());
    let table = table::<SocketmapText>(&line).unwrap();
    let backend = table.settings.of::<Socketmap>().unwrap().backend();
    run(async {
        let away = find(&*backend, "empty").await.unwrap_err();
        assert_eq!(away.kind, LookupErrorKind::Unreachable);
        assert!(away.text.starts_with(&format!("unix:{}: ", path.display())), "{away}");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut question = [0; 64];
            let read = stream.read(&mut question).expect("a question");
            assert_eq!(&question[..read], b"13:virtual empty,");
            stream.write_all(b"3:OK ,").expect("somebody who listens");
        });
        assert_eq!(find(&*backend, "empty").await, text(""));
    });
}

#[test]
fn mistakes_in_the_file_are_told_with_their_places() {
    for (keys, message) in [
        ("map = \"m\"", "11:1: a table without `server`"),
        ("server = \"127.0.0.1:1\"", "11:1: a socketmap without `map`"),
        ("server = \"127.0.0.1\", map = \"m\"", "11:24: \"127.0.0.1\" has no port"),
        ("server = \"a b:1\", map = \"m\"", "11:24: \"a b:1\" is not a server: "),
        ("server = \"unix:x\", map = \"m\"", "11:24: \"unix:x\" is not a server: a socket path"),
        ("server = \"h:1\", map = \"a b\"", "11:37: \"a b\" is not a map name"),
        ("server = \"h:1\", map = \"m\", connect_timeout = \"0s\"", "a timeout must be longer"),
        ("server = \"h:1\", map = \"m\", sever = 1", "sever"),
    ] {
        let problems = table::<SocketmapText>(&format!("socketmap = {{ {keys} }}")).unwrap_err();
        assert!(problems.iter().any(|p| p.contains(message)), "{keys}: {problems:?}");
    }
}

#[test]
fn settings_are_alike_when_they_say_the_same() {
    let settings = |map: &str| {
        let line = format!("socketmap = {{ server = \"h:1\", map = \"{map}\" }}");
        Arc::clone(&table::<SocketmapText>(&line).unwrap().settings)
    };
    assert!(settings("a").is_like(&*settings("a")));
    assert!(!settings("a").is_like(&*settings("b")));
}
