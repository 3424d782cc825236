//! At what pace mail goes to whom: files that know providers by their MX hosts.

use crate::support::Files;
use crate::support::client::Client;
use crate::support::name_server::NameServer;
use crate::support::peer::Peer;
use crate::support::server::{Server, control};

const OURS: &str = "# Ours.\n[default]\nmax_connections = 4\n\n[provider.big]\nmx = [\"*.big.test\"]\n\
                    messages_per_connection = 7\ntogether = { max_connections = 2, rate = [\"50/s\"] }\n";

/// A relay by MX that is shaped, and the one host of `a.test`, which is big's.
fn place(files: &Files) -> (NameServer, Peer, String) {
    let (names, peer) = (NameServer::start(), Peer::start(|_| None));
    names.mx("a.test", &[(10, "mx.big.test")]);
    names.mx("b.test", &[(10, "mx.other.test")]);
    names.host("mx.big.test", &["127.0.0.1"]);
    names.host("mx.other.test", &["127.0.0.1"]);
    let port = peer.address.rsplit_once(':').expect("a port").1.to_owned();
    files.write("shaping.toml", OURS);
    let config = format!(
        "hostname = \"near.test\"\nshaping = [\"builtin\", \"shaping.toml\"]\nspool = {{ path = \"spool\" }}\n{}\
         [[listener]]\naddress = \"127.0.0.1:0\"\nrelay_from = [\"127.0.0.0/8\"]\n[[route]]\n\
         mx = {{ port = {port}, max_opens = 9 }}\n",
        names.section()
    );
    (names, peer, config)
}

#[test]
fn mail_is_the_provider_s_and_each_limit_names_its_line() {
    let files = Files::new();
    let (_names, peer, config) = place(&files);
    let server = Server::start(&files, &config);
    let mut client = Client::connect(server.address());
    for to in ["you@a.test", "you@b.test"] {
        client.mail("me@source.test", &[to], "Subject: x\r\n\r\nx\r\n");
    }
    peer.wait_taken(2);
    files.wait_events("relayed", 2);
    let provider = |domain: &str| {
        let events = files.events_of("relayed");
        let event = events.iter().find(|event| event["recipient"] == format!("you@{domain}"));
        event.expect("it is relayed")["provider"].clone()
    };
    assert_eq!((provider("a.test"), provider("b.test")), ("big".into(), serde_json::Value::Null));
    let told = server.command(&["explain", "you@a.test"]).out;
    for (what, value, place) in [
        ("provider", "big", "shaping.toml:5"),
        ("max_connections", "4", "shaping.toml:3"),
        ("max_opens", "9", "postrider.toml:"),
        ("messages_per_connection", "7", "shaping.toml:7"),
        ("recipients_per_message", "50", "builtin:"),
        ("max_connections together", "2", "shaping.toml:8"),
        ("rate together", "50/s", "shaping.toml:8"),
    ] {
        let is_it = |line: &&str| {
            let line = line.replace(['│', '|'], " ");
            let words: Vec<&str> = line.split_whitespace().collect();
            let wanted: Vec<&str> = what.split(' ').chain([value]).collect();
            words.starts_with(&wanted) && words.last().is_some_and(|last| last.starts_with(place))
        };
        assert!(told.lines().any(|line| is_it(&line)), "{what} {value} {place}\n{told}");
    }
    server.stop();
}

#[test]
fn a_reload_takes_files_anew_and_refuses_what_is_wrong_with_them() {
    let files = Files::new();
    let (_names, peer, config) = place(&files);
    let server = Server::start(&files, &config);
    files.write("shaping.toml", "[provider.big]\nmax_conections = 3\n");
    let refused = control(files.dir(), &["reload"]);
    assert_eq!(refused.code, 1);
    let told = format!("{}{}", refused.out, refused.err);
    assert!(
        told.contains("shaping.toml:2:1: error: unknown key `max_conections` in `provider.big`"),
        "{told}"
    );
    std::fs::remove_file(files.path("shaping.toml")).expect("it was there");
    let refused = control(files.dir(), &["reload"]);
    let told = format!("{}{}", refused.out, refused.err);
    assert!(told.contains("postrider.toml:2:23: error: cannot read shaping.toml: "), "{told}");
    // A name of somebody whom this program knows.
    files.write("shaping.toml", "[provider.mine]\nmx = [\"*.google.com\"]\n");
    let refused = control(files.dir(), &["reload"]);
    let told = format!("{}{}", refused.out, refused.err);
    assert!(told.contains("shaping.toml:2:1: error: a name of both provider \"google\""), "{told}");
    assert!(told.contains("builtin:"), "{told}");
    // What was in force still is.
    let mut client = Client::connect(server.address());
    client.mail("me@source.test", &["you@a.test"], "Subject: x\r\n\r\nx\r\n");
    peer.wait_taken(1);
    files.write("shaping.toml", &OURS.replace("provider.big", "provider.huge"));
    assert_eq!(control(files.dir(), &["reload"]).code, 0);
    client.mail("me@source.test", &["me@a.test"], "Subject: x\r\n\r\nx\r\n");
    peer.wait_taken(2);
    files.wait_events("relayed", 2);
    let providers: Vec<_> =
        files.events_of("relayed").iter().map(|event| event["provider"].clone()).collect();
    assert_eq!(providers, ["big", "huge"]);
    server.stop();
}
