//! Against Debian's redis-server, started by the test, and against servers that speak otherwise.

use super::super::testing::{Process, ask, find, run, serve, table, text, unprivileged};
use super::resp::VALUE_BYTES_MAX;
use super::*;
use config::TableSettings as _;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn settings(keys: &str) -> Redis {
    let table = table::<RedisText>(&format!("redis = {{ {keys} }}"));
    table.expect("a good table").settings.of::<Redis>().expect("its settings").clone()
}

/// Debian's; Valkey speaks the same.
const PACKAGE: &str = "redis-server";

/// redis-server at a port and a socket in a directory of its own.
struct Server {
    dir: tempfile::TempDir,
    port: u16,
    process: Option<Process>,
}

impl Server {
    fn start() -> Option<Server> {
        if !unprivileged::is_possible(PACKAGE) {
            return None;
        }
        let (dir, port) = (unprivileged::directory(), unprivileged::free_port());
        let mut server = Server { dir, port, process: None };
        server.process = Some(server.run());
        Some(server)
    }

    fn run(&self) -> Process {
        let (dir, port) = (self.dir.path().display(), self.port);
        let line = format!(
            "redis-server --port {port} --bind 127.0.0.1 --dir {dir} --save '' --logfile {dir}/log \
             --unixsocket {dir}/socket"
        );
        unprivileged::start(PACKAGE, &line, port)
    }

    /// Gives commands, each its words, and waits for the replies.
    fn say(&self, commands: &[&[&str]]) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("redis-server");
        let mut said = String::new();
        for words in commands.iter().chain([&["PING"].as_slice()]) {
            said.push_str(&format!("*{}\r\n", words.len()));
            words.iter().for_each(|w| said.push_str(&format!("${}\r\n{w}\r\n", w.len())));
        }
        stream.write_all(said.as_bytes()).expect("redis-server");
        let mut heard = String::new();
        let mut buffer = [0; 4096];
        while !heard.ends_with("+PONG\r\n") {
            let read = stream.read(&mut buffer).expect("redis-server");
            heard.push_str(std::str::from_utf8(&buffer[..read]).expect("text"));
            assert!(read > 0, "{heard}");
        }
        assert!(!heard.contains("-ERR"), "{heard}");
    }

    fn keys(&self) -> String {
        format!("server = \"redis://127.0.0.1:{}\"", self.port)
    }

    fn trouble(&self, kind: LookupErrorKind, words: &str) -> Result<Option<Entry>, LookupError> {
        Err(LookupError::new(kind, format!("127.0.0.1:{}: {words}", self.port)))
    }
}

fn fields(fields: &[(&str, &[&str])]) -> Result<Option<Entry>, LookupError> {
    let of = |values: &[&str]| values.iter().map(|value| Box::from(*value)).collect();
    let fields = fields.iter().map(|(name, values)| (Box::from(*name), of(values)));
    Ok(Some(Entry::fields(fields.collect::<Vec<_>>())))
}

#[test]
fn values_and_hashes_are_found() {
    let Some(server) = Server::start() else { return };
    server.say(&[
        &["SET", "alias:you@far.test", "box@near.test, other@near.test"],
        &["HSET", "user:far.test:you", "mailbox", "you/", "quota", "1000"],
        &["HSET", "user:far.test:bare", "shell", "none"],
        &["HSET", "virtual", "you@far.test", "you"],
        &["SET", "empty", ""],
    ]);
    run(async {
        let driver = settings(&format!("{}, key = \"alias:%s\"", server.keys())).backend();
        assert_eq!(driver.server(), None);
        let aliases = text("box@near.test, other@near.test");
        assert_eq!(find(&*driver, "you@far.test").await, aliases);
        assert_eq!(driver.server(), Some(format!("127.0.0.1:{}", server.port)));
        assert_eq!(find(&*driver, "*").await, Ok(None));
        assert_eq!(find(&*driver, "x\r\nFLUSHALL\r\n").await, Ok(None));
        assert_eq!(find(&*driver, "you@far.test").await, aliases);

        let keys = "key = \"user:%d:%u\", fields = [\"mailbox\", \"quota\", \"none\"]";
        let users = settings(&format!("{}, {keys}", server.keys()));
        assert_eq!(users.fields(), ["mailbox", "quota", "none"]);
        let driver = users.backend();
        let answers = ask(&*driver, &["nobody", "you@far.test", "bare@far.test", "him@far.test"]);
        let you = fields(&[("mailbox", &["you/"]), ("quota", &["1000"]), ("none", &[])]);
        // A key without a domain is not asked for; a hash with none of the fields has no answer.
        assert_eq!(answers.await, [Ok(None), you, Ok(None), Ok(None)]);

        let keys = "key = \"virtual\", field = \"%s\"";
        let driver = settings(&format!("{}, {keys}", server.keys())).backend();
        assert_eq!(ask(&*driver, &["you@far.test", "x"]).await, [text("you"), Ok(None)]);
        let driver = settings(&format!("{}, key = \"%s\"", server.keys())).backend();
        assert_eq!(find(&*driver, "empty").await, text(""));
    });
}

#[test]
fn what_one_key_has_too_much_of_is_no_trouble_of_the_others() {
    let Some(server) = Server::start() else { return };
    let (longest, longer) = ("x".repeat(VALUE_BYTES_MAX), "x".repeat(VALUE_BYTES_MAX + 1));
    let huge = "x".repeat(1_000_000);
    server.say(&[
        &["SET", "good", "yes"],
        &["SET", "longest", &longest],
        &["SET", "longer", &longer],
        &["SET", "huge", &huge],
        &["RPUSH", "list", "a"],
        &["SET", "lines", "a\r\nb"],
        &["EVAL", "redis.call('SET', 'bytes', '\\255')", "0"],
    ]);
    run(async {
        let driver = settings(&format!("{}, key = \"%s\"", server.keys())).backend();
        let too_much = "the reply has a value of more than 100000 bytes";
        let wrong_type = "WRONGTYPE Operation against a key holding the wrong kind of value";
        let keys = ["good", "longest", "longer", "list", "lines", "bytes", "none"];
        let answers = ask(&*driver, &keys).await;
        let key = |words| server.trouble(LookupErrorKind::Key, words);
        assert_eq!(answers[..3], [text("yes"), text(&longest), key(too_much)]);
        assert_eq!(answers[3], key(wrong_type));
        assert_eq!(answers[4], key("the answer has a control character (U+000D)"));
        assert_eq!(answers[5..], [key("the answer is not UTF-8"), Ok(None)]);
        // More than the whole request may have.
        let answers = ask(&*driver, &["good", "huge", "none"]).await;
        assert_eq!(answers, [text("yes"), key(too_much), Ok(None)]);
        assert_eq!(find(&*driver, "good").await, text("yes"));
    });
}

#[test]
fn a_hundred_keys_are_one_request() {
    let Some(server) = Server::start() else { return };
    for number in 0..KEYS_MAX {
        server.say(&[&["SET", &format!("key{number}"), &format!("value{number}")]]);
    }
    run(async {
        let driver = settings(&format!("{}, key = \"%s\"", server.keys())).backend();
        assert_eq!(driver.batch_max(), KEYS_MAX);
        let keys: Vec<String> = (0..KEYS_MAX).map(|n| format!("key{n}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        for (number, answer) in ask(&*driver, &keys).await.into_iter().enumerate() {
            assert_eq!(answer, text(&format!("value{number}")));
        }
        assert!(ask(&*driver, &[]).await.is_empty());
    });
}

#[test]
fn who_is_let_in_is_the_servers_business() {
    let Some(server) = Server::start() else { return };
    server.say(&[
        &["SET", "key", "zero"],
        &["SELECT", "5"],
        &["SET", "key", "five"],
        &["ACL", "SETUSER", "reader", "on", ">letmein", "~key", "+get", "+select"],
        &["ACL", "SETUSER", "default", "resetpass", ">secret"],
    ]);
    let file = server.dir.path().join("password");
    let with = |more: &str, password: &str| {
        std::fs::write(&file, password).expect("a file");
        let more = more.replace("FILE", &file.display().to_string());
        settings(&format!("{more}, key = \"%s\"")).backend()
    };
    run(async {
        let tcp = server.keys();
        let driver = with(&tcp, "");
        let words = "NOAUTH Authentication required.";
        assert_eq!(
            find(&*driver, "key").await,
            server.trouble(LookupErrorKind::Unreachable, words)
        );
        let driver = with(&format!("{tcp}, password_file = \"FILE\""), "wrong");
        let refused = find(&*driver, "key").await.unwrap_err();
        assert_eq!(refused.kind, LookupErrorKind::Unreachable);
        assert!(refused.text.contains("WRONGPASS invalid username-password pair"), "{refused}");
        // The password is mended without a reload.
        std::fs::write(&file, "secret\n").expect("a file");
        assert_eq!(find(&*driver, "key").await, text("zero"));
        let keys = tcp.replace(&server.port.to_string(), &format!("{}/5", server.port));
        let reader = format!("{keys}, user = \"reader\", password_file = \"FILE\"");
        let driver = with(&reader, "letmein");
        assert_eq!(find(&*driver, "key").await, text("five"));
        let denied = find(&*driver, "other").await.unwrap_err();
        assert_eq!(denied.kind, LookupErrorKind::Wrong);
        assert!(denied.text.contains("NOPERM"), "{denied}");
        let socket = server.dir.path().join("socket");
        let keys = format!("server = \"unix:{}\", database = 5", socket.display());
        let driver = with(&format!("{keys}, password_file = \"FILE\""), "secret");
        assert_eq!(find(&*driver, "key").await, text("five"));
        assert_eq!(driver.server(), Some(format!("unix:{}", socket.display())));
        let none = with(&format!("{tcp}, password_file = \"/nonexistent\""), "");
        let words = "password_file /nonexistent: No such file or directory (os error 2)";
        assert_eq!(find(&*none, "key").await, server.trouble(LookupErrorKind::Unreachable, words));
    });
}

#[test]
fn a_server_that_is_stopped_comes_back() {
    let Some(mut server) = Server::start() else { return };
    server.say(&[&["SET", "key", "one"]]);
    run(async {
        let driver = settings(&format!("{}, key = \"%s\"", server.keys())).backend();
        assert_eq!(find(&*driver, "key").await, text("one"));
        drop(server.process.take());
        let away = find(&*driver, "key").await.unwrap_err();
        assert_eq!(away.kind, LookupErrorKind::Unreachable);
        assert!(away.text.contains("Connection refused"), "{away}");
        assert_eq!(driver.server(), None);
        server.process = Some(server.run());
        server.say(&[&["SET", "key", "two"]]);
        assert_eq!(find(&*driver, "key").await, text("two"));
        // And once more while a connection is kept.
        drop(server.process.take());
        server.process = Some(server.run());
        assert_eq!(find(&*driver, "key").await, Ok(None));
        assert!(driver.server().is_some());
    });
}

#[test]
fn what_is_no_answer_is_told() {
    let trouble_of = |answer: &'static str| {
        let port = serve(move |_, mut stream| {
            if matches!(stream.read(&mut [0; 4096]), Ok(1..)) {
                // A client that is gone already has heard nothing.
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let driver = settings(&format!("server = \"127.0.0.1:{port}\", key = \"%s\"")).backend();
        let trouble = run(async { find(&*driver, "key").await }).unwrap_err();
        assert!(trouble.text.starts_with(&format!("127.0.0.1:{port}: ")), "{trouble}");
        trouble
    };
    assert_eq!(trouble_of("").kind, LookupErrorKind::Unreachable);
    // Who has something to say at once is heard, though nothing was asked.
    let port = serve(move |_, mut stream| {
        let _ = stream.write_all(b"-ERR max number of clients reached\r\n");
        let _ = stream.read(&mut [0; 4096]);
    });
    let driver = settings(&format!("server = \"127.0.0.1:{port}\", key = \"%s\"")).backend();
    let full = run(async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        find(&*driver, "key").await
    });
    assert!(full.unwrap_err().text.ends_with("ERR max number of clients reached"));
    for answer in [
        "220 mail.test ESMTP\r\n",
        "$x\r\n",
        "$4\r\nab",
        "*1000000000\r\n",
        "?what\r\n",
        ":1\r\n",
        "*0\r\n",
        "+text\r\n",
        "-ERR broken\r\n",
    ] {
        let trouble = trouble_of(answer);
        assert_eq!(trouble.kind, LookupErrorKind::Wrong, "{answer:?}: {trouble}");
    }
}

#[test]
fn mistakes_in_the_file_are_told_with_their_places() {
    let many = (0..=64).map(|n| format!("\"f{n}\"")).collect::<Vec<_>>().join(", ");
    let many = format!("server = \"h\", key = \"%s\", fields = [{many}]");
    for (keys, message) in [
        ("key = \"%s\"", "11:1: a table without `server`"),
        ("server = \"h\"", "11:1: a redis table without `key`"),
        ("server = \"redis://h:6379/x\", key = \"%s\"", "11:20: \"x\" is not a database number"),
        (
            "server = \"redis://h/1\", database = 2, key = \"%s\"",
            "11:46: `server` already has a database",
        ),
        ("server = \"redis://u:p@h/1\", key = \"%s\"", "11:20: user and password in `server`"),
        ("server = \"rediss://h/1\", key = \"%s\"", "11:20: TLS to Redis"),
        ("server = \"redis://:x/1\", key = \"%s\"", "11:20: \":x\" is not a server"),
        ("server = \"h\", key = \"user\"", "the query does not depend on the key"),
        (
            "server = \"h\", key = \"%x\"",
            "after % use s, u, d, a digit from 1 to 9, or %, at character 2",
        ),
        (
            "server = \"h\", key = \"k\", field = \"100%\"",
            "after % use s, u, d, a digit from 1 to 9, or %, at character 5",
        ),
        ("server = \"h\", key = \"%s\", user = \"u\"", "a user without `password_file`"),
        ("server = \"h\", key = \"%s\", field = \"f\", fields = [\"g\"]", "exclude each other"),
        (
            "server = \"h\", key = \"%s\", fields = [\"a\", \"A\"]",
            "the field \"A\" is listed twice",
        ),
        ("server = \"h\", key = \"%s\", fields = [\"\"]", "a field without a name"),
        (&many, "more than 64 fields"),
    ] {
        let problems = table::<RedisText>(&format!("redis = {{ {keys} }}")).unwrap_err();
        assert!(problems.iter().any(|p| p.contains(message)), "{keys}: {problems:?}");
    }
    let at_the_edge = many.replace("\"f64\"", "").replace(", ]", "]");
    assert_eq!(settings(&at_the_edge).fields.len(), 64);
    let like = |a: &str, b: &str| settings(a).is_like(&settings(b));
    let one = "server = \"h\", key = \"%s\"";
    assert!(like(one, "server = \"redis://h:6379/0\", key = \"%s\""));
    assert!(!like(one, "server = \"redis://h:6379/1\", key = \"%s\""));
    assert!(!like(one, "server = \"h\", key = \"%u\""));
}
