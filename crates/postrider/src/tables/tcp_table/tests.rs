//! Against a server of ours, of which Postfix says that it speaks the protocol, against PostSRSd, and
//! against servers that speak otherwise.

use super::super::testing::{find, run, serve, serve_answer, table, text, unprivileged};
use super::*;
use crate::world::clock::wall_now;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::Command;

/// A table of a few keys, as a server of tcp tables has it.
fn serve_table(stream: TcpStream) {
    let mut writer = stream.try_clone().expect("a descriptor");
    for question in BufReader::new(stream).lines().map_while(Result::ok) {
        let reply = match question.strip_prefix("get ").expect("a question") {
            "you@far.test" => "200 box@near.test,%20other@near.test".to_owned(),
            "100%25%20%C3%BC" => "200 for%c3%bc".to_owned(),
            "longest" => format!("200 {}", "x".repeat(LINE_BYTES_MAX - 5)),
            "plain" => "200 with spaces".to_owned(),
            "later" => "400 the database is away".to_owned(),
            "bent" => "200 50%".to_owned(),
            "bare" => "500".to_owned(),
            _ => "500 no such key".to_owned(),
        };
        writer.write_all(format!("{reply}\n").as_bytes()).expect("somebody who listens");
    }
}

fn backend(port: u16) -> Box<dyn Backend> {
    let table = table::<TcpTableText>(&format!("tcp = {{ server = \"127.0.0.1:{port}\" }}"));
    let table = table.expect("a good table");
    table.settings.of::<TcpTable>().expect("its settings").backend()
}

fn trouble(kind: LookupErrorKind, port: u16, words: &str) -> Result<Option<Entry>, LookupError> {
    Err(LookupError::new(kind, format!("127.0.0.1:{port}: {words}")))
}

#[test]
fn postfix_understands_our_server() {
    let port = serve(|_, stream| serve_table(stream));
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("main.cf"), "compatibility_level = 3.6\n").expect("a file");
    let postmap = |key: &str| {
        let mut command = Command::new("/usr/sbin/postmap");
        command.arg("-c").arg(dir.path()).args(["-q", key, &format!("tcp:127.0.0.1:{port}")]);
        let output = command.output().expect("postmap (scripts/install-test-packages)");
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(postmap("you@far.test"), "box@near.test, other@near.test\n");
    assert_eq!(postmap("100% ü"), "forü\n");
    assert_eq!(postmap("plain"), "with spaces\n");
    assert_eq!(postmap("nobody"), "");
    assert_eq!(postmap("later"), "");
}

#[test]
fn every_code_has_its_meaning() {
    let port = serve(|_, stream| serve_table(stream));
    let backend = backend(port);
    run(async {
        let find = async |key| find(&*backend, key).await;
        assert_eq!(find("you@far.test").await, text("box@near.test, other@near.test"));
        assert_eq!(backend.server(), Some(format!("127.0.0.1:{port}")));
        assert_eq!(find("100% ü").await, text("forü"));
        assert_eq!(find("plain").await, text("with spaces"));
        assert_eq!(find("bare").await, Ok(None));
        assert_eq!(find("nobody").await, Ok(None));
        let words = "400 the database is away";
        assert_eq!(find("later").await, trouble(LookupErrorKind::Wrong, port, words));
        assert_eq!(find("bent").await, trouble(LookupErrorKind::Wrong, port, "200 50%"));
        let longest = find("longest").await.unwrap().unwrap();
        assert_eq!(longest.text.len(), LINE_BYTES_MAX - 5);
        // No key is a second question.
        assert_eq!(find("x\nget you@far.test").await, Ok(None));
    });
}

#[test]
fn postsrsd_is_understood() {
    if !unprivileged::is_possible("postsrsd") {
        return;
    }
    let (dir, forward, reverse) =
        (unprivileged::directory(), unprivileged::free_port(), unprivileged::free_port());
    std::fs::write(dir.path().join("secret"), "a secret of ours\n").expect("a file");
    let secret = dir.path().join("secret");
    std::os::unix::fs::chown(&secret, Some(65_534), None).expect("root");
    let line = format!(
        "/usr/sbin/postsrsd -4 -f{forward} -r{reverse} -l127.0.0.1 -drelay.test -s{}",
        secret.display()
    );
    let _process = unprivileged::start("postsrsd", &line, reverse);
    run(async {
        let forward = backend(forward);
        let rewritten = find(&*forward, "me@source.test").await.unwrap().expect("a new address");
        assert!(rewritten.text.starts_with("SRS0=") && rewritten.text.ends_with("@relay.test"));
        // Its own domain is not rewritten.
        assert_eq!(find(&*forward, "me@relay.test").await, text("me@relay.test"));
        let back = find(&*backend(reverse), &rewritten.text).await;
        assert_eq!(back, text("me@source.test"));
        assert_eq!(find(&*backend(reverse), "SRS0=no@relay.test").await, Ok(None));
        // Each reads what the other has made.
        let domain = mail::Domain::parse("relay.test").expect("a domain");
        let srs = auth::srs::Srs::new(domain, [b"a secret of ours"[..].into()]).expect("a secret");
        let address = |text: &str| mail::Mailbox::parse(text, true).expect("an address");
        let ours = |text: &str| srs.forward(&address(text), wall_now()).expect("an address");
        for sender in ["me@source.test", "Some+One=x@Sub.Source.TEST"] {
            let theirs = find(&*forward, sender).await.unwrap().expect("a new address");
            assert_eq!(*theirs.text, *ours(sender).as_str());
            assert_eq!(srs.reverse(&address(&theirs.text), wall_now()), Ok(address(sender)));
        }
        let first = "SRS0=abcd=AB=source.test=me@first.test";
        let theirs = find(&*forward, first).await.unwrap().expect("a new address");
        assert_eq!(*theirs.text, *ours(first).as_str());
        let back = find(&*backend(reverse), ours("jo@source.test").as_str()).await;
        assert_eq!(back, text("jo@source.test"));
    });
}

#[test]
fn what_a_stranger_is_looked_up_by_is_one_line() {
    let line = request("a b\nget c\r\0%0A\u{fc}@x.test").unwrap();
    assert_eq!(String::from_utf8_lossy(&line), "get a%20b%0Aget%20c%0D%00%250A%C3%BC@x.test\n");
}

#[test]
fn a_line_has_4096_bytes_there_and_back() {
    assert_eq!(request(&"k".repeat(LINE_BYTES_MAX - 5)).unwrap().len(), LINE_BYTES_MAX);
    for long in ["k".repeat(LINE_BYTES_MAX - 4), "%".repeat(LINE_BYTES_MAX / 3)] {
        assert_eq!(request(&long).unwrap_err().kind, LookupErrorKind::Key);
    }
    let text = "x".repeat(LINE_BYTES_MAX - 5);
    let port = serve_answer(format!("200 {text}x\n").into(), false);
    let words = "the reply has more than 4096 bytes";
    let answer = run(async { find(&*backend(port), "key").await });
    assert_eq!(answer, trouble(LookupErrorKind::Key, port, words));
}

#[test]
fn what_is_no_answer_is_told_and_ends_the_connection() {
    let half = "closed the connection during its reply";
    let silent = "closed the connection without a reply";
    for (reply, closes, kind, words) in [
        ("", true, LookupErrorKind::Unreachable, silent),
        ("200 bo", true, LookupErrorKind::Wrong, half),
        ("200 a\n200 b\n", false, LookupErrorKind::Wrong, "more than one reply"),
        ("200\n", false, LookupErrorKind::Wrong, "200"),
        ("250 2.0.0 Ok\r\n", false, LookupErrorKind::Wrong, "250 2.0.0 Ok"),
        ("\n", false, LookupErrorKind::Wrong, ""),
        ("200 %ff\n", false, LookupErrorKind::Key, "the answer is not UTF-8"),
        ("200 a%0Ab\n", false, LookupErrorKind::Key, "the answer has a control character (U+000A)"),
        ("200 %+1\n", false, LookupErrorKind::Wrong, "200 %+1"),
    ] {
        let port = serve_answer(reply.into(), closes);
        let answer = run(async { find(&*backend(port), "key").await });
        assert_eq!(answer, trouble(kind, port, words), "{reply:?}");
    }
}

#[test]
fn mistakes_in_the_file_are_told_with_their_places() {
    for (keys, message) in [
        ("", "11:1: a table without `server`"),
        ("server = \"127.0.0.1\"", "11:18: \"127.0.0.1\" has no port"),
        ("server = \"h:1\", connect_timeout = \"soon\"", "\"soon\" is not a duration"),
    ] {
        let problems = table::<TcpTableText>(&format!("tcp = {{ {keys} }}")).unwrap_err();
        assert!(problems.iter().any(|p| p.contains(message)), "{keys}: {problems:?}");
    }
    let settings = |line| Arc::clone(&table::<TcpTableText>(line).unwrap().settings);
    let here = settings("tcp = { server = \"h:1\" }");
    assert!(here.is_like(&*settings("tcp = { server = \"h:1\" }")));
    assert!(!here.is_like(&*settings("tcp = { server = \"h:2\" }")));
}
