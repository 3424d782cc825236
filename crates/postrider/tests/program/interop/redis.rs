//! Redis as the directory of users: where the mailbox of each is, whose it is, and how much it may have.

use super::place::Place;
use crate::support::client::Client;
use crate::support::server::{Server, command};
use crate::support::tool::free_port;
use crate::support::{Files, config, wait_until};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt as _;

/// Runs redis-server, as nobody.
fn start(place: &mut Place, port: u16) {
    let (dir, port) = (place.dir(), port.to_string());
    let words = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let server =
        ["redis-server", "--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir", &dir];
    let command = place.command("redis-server", &[&words[..], &server[..]].concat());
    place.start(command, "redis.log");
    place.wait_listening(port.parse().expect("a port"));
}

/// Gives redis-server a command.
fn say(port: u16, words: &[&str]) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("redis-server");
    let mut said = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| said.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    stream.write_all(said.as_bytes()).expect("redis-server");
    let mut heard = [0; 64];
    let read = stream.read(&mut heard).expect("redis-server");
    assert!(matches!(heard.first(), Some(b'+' | b':')), "{:?}", &heard[..read]);
}

/// A server for the users that are at a port. What they are is known for a moment only.
fn server(files: &Files, port: u16) -> Server {
    let text = format!(
        "[[table]]\nname = \"users\"\n\
         redis = {{ server = \"127.0.0.1:{port}\", key = \"user:%s\", fields = [\"home\", \"quota\", \"uid\"] }}\n\
         cache = {{ positive = \"1ms\", negative = \"1ms\", stale = \"0\" }}\n\
         [[route]]\nname = \"here\"\ndomains = [\"box.test\"]\nrecipients = {{ table = \"users\" }}\n\
         maildir = {{ path = \"mail/{{domain}}/{{home}}\", quota = \"{{quota}}\", user = \"{{uid}}\" }}\n\
         [[route]]\ndiscard = {{}}\n"
    );
    Server::start(files, &config(&text))
}

pub(crate) fn entries_name_mailboxes() {
    let (mut place, files, port) = (Place::new(0), Files::new(), free_port());
    start(&mut place, port);
    let jo = |home: &str, uid: &str| {
        say(port, &["HSET", "user:jo@box.test", "home", home, "quota", "5MiB", "uid", uid]);
    };
    jo("j/jo/Maildir", "54321");
    let server = server(&files, port);
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["jo+tag@box.test"], "Subject: one\r\n\r\nBody.\r\n");
    files.wait_maildir("mail/box.test/j/jo/Maildir", 1);
    let owner = |path: &str| std::fs::metadata(files.path(path)).expect("it is there").uid();
    assert_eq!(owner("mail/box.test/j/jo/Maildir/new"), 54_321);
    assert_eq!(owner("mail/box.test/j/jo"), 0, "what others may come to have is nobody's");
    let sizes = files.path("mail/box.test/j/jo/Maildir/maildirsize");
    let sizes = std::fs::read_to_string(sizes).expect("a file");
    assert!(sizes.starts_with("5242880S\n"), "{sizes}");
    explained(&files, port);
    // The directory goes while a message waits, and comes back with another answer.
    jo("../../../outside", "54321");
    client.mail("me@source.test", &["jo@box.test"], "Subject: two\r\n\r\nBody.\r\n");
    let deferred = files.wait_events("deferred", 1).remove(0);
    assert_eq!(deferred["status"], "4.2.0", "{deferred}");
    drop(place);
    server.command(&["queue", "retry", "--all"]);
    let deferred = files.wait_events("deferred", 2).remove(1);
    assert_eq!(deferred["status"], "4.4.3", "{deferred}");
    let mut place = Place::new(0);
    start(&mut place, port);
    jo("moved", "0");
    wait_until("it is asked again", || {
        server.command(&["queue", "retry", "--all"]);
        let last = files.events_of("deferred").pop().expect("some");
        last["reason"].to_string().contains("`uid` of the recipient's entry is root's")
    });
    jo("moved", "54322");
    wait_until("it is delivered", || {
        server.command(&["queue", "retry", "--all"]);
        files.maildir("mail/box.test/moved").len() == 1
    });
    assert_eq!(owner("mail/box.test/moved/new"), 54_322);
    assert_eq!(files.events_of("suspended").len(), 0, "the mailboxes were well");
    server.stop();
}

/// What `explain` says of a user, of a tag, of nobody, and without asking.
fn explained(files: &Files, port: u16) {
    let explain = |words: &[&str]| {
        let answer = command(files.dir(), &[&["explain"], words].concat());
        assert_eq!((answer.code, &*answer.err), (0, ""), "{words:?}");
        answer.out
    };
    let has = |text: &str, words: &[&str]| {
        let is_there = |line: &str| {
            line.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(&words.join(" "))
        };
        assert!(text.lines().any(is_there), "{words:?} in\n{text}");
    };
    let source = format!("127.0.0.1:{port}");
    let jo = explain(&["jo+tag@box.test"]);
    has(&jo, &["jo+tag@box.test from <>: accepted"]);
    has(&jo, &["table \"users\" jo+tag@box.test: key not found"]);
    has(&jo, &["table \"users\" jo@box.test: j/jo/Maildir,5MiB,54321", &source]);
    has(&jo, &["path mail/box.test/j/jo/Maildir postrider.toml:"]);
    has(&jo, &["quota 5MiB"]);
    has(&jo, &["user 54321"]);
    let nobody = explain(&["nobody@box.test"]);
    has(&nobody, &["nobody@box.test from <>: refused"]);
    has(&nobody, &["table \"users\" @box.test: key not found"]);
    has(
        &nobody,
        &["acceptance rejected for an unauthenticated client: 550 5.1.1 Recipient unknown"],
    );
    let offline = explain(&["jo@box.test", "--offline"]);
    has(&offline, &["path mail/{domain}/{home}"]);
    has(&offline, &["quota `quota` of the recipient's entry"]);
    assert!(!offline.contains("table \"users\""), "{offline}");
}
