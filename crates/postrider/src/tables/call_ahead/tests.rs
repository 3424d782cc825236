//! Against next hops that follow a script.

use super::super::testing::{find, run, serve_at, text};
use super::*;
use crate::mutex::lock;
use config::{Config, ConfigErrors};
use lookup::LookupErrorKind;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// What a host says to a command; `None`: it hangs up. The greeting is what it says to nothing.
type Script = fn(&str) -> Option<&'static str>;

/// What a host was told: the number of the connection, and the command.
type Heard = Arc<Mutex<Vec<String>>>;

/// What most replies are.
fn usual(command: &str) -> Option<&'static str> {
    Some(match command.split(' ').next() {
        Some("") => "220 next.test\r\n",
        Some("EHLO" | "LHLO") => "250-next.test\r\n250-ENHANCEDSTATUSCODES\r\n250 PIPELINING\r\n",
        Some("MAIL" | "RSET") => "250 2.0.0 Ok\r\n",
        Some("RCPT") if command.contains("no") => "550 5.1.1 No such user here\r\n",
        Some("RCPT") => "250 2.1.5 Ok\r\n",
        Some("QUIT") => "221 2.0.0 Bye\r\n",
        _ => "502 5.5.1 What?\r\n",
    })
}

fn converse(number: usize, stream: TcpStream, script: Script, heard: &Heard) {
    stream.set_nodelay(true).expect("a connection");
    let Ok(mut writer) = stream.try_clone() else { return };
    let greeting = script("");
    if greeting.is_none_or(|greeting| writer.write_all(greeting.as_bytes()).is_err()) {
        return;
    }
    for command in BufReader::new(stream).lines().map_while(Result::ok) {
        lock(heard).push(format!("{number} {command}"));
        let Some(reply) = script(&command) else { return };
        if writer.write_all(reply.as_bytes()).is_err() || command == "QUIT" {
            return;
        }
    }
}

/// A host at this port; each connection has a thread of its own.
fn host_at(listener: TcpListener, script: Script) -> Heard {
    let heard = Heard::default();
    let told = Arc::clone(&heard);
    serve_at(listener, move |number, stream| {
        let told = Arc::clone(&told);
        std::thread::spawn(move || converse(number, stream, script, &told));
    });
    heard
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    (listener, port)
}

/// A table that asks a host with this script.
fn asking(script: Script) -> (Box<dyn Backend>, u16, Heard) {
    let (listener, port) = listener();
    let channel = format!("smtp = {{ hosts = [\"127.0.0.1:{port}\"], tls = \"off\" }}");
    (backend(&channel, ""), port, host_at(listener, script))
}

fn config(route: &str, table: &str) -> Result<Config, ConfigErrors> {
    let text = format!(
        "hostname = \"relay.test\"\n[spool]\npath = \"/tmp\"\n\
         [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n\
         [[table]]\nname = \"ahead\"\ncall_ahead = {{ {table} }}\n\
         [[route]]\nname = \"boxes\"\ndomains = [\"x.test\"]\n\
         recipients = {{ table = \"ahead\" }}\n{route}\n\
         [[route]]\nname = \"else\"\nmx = {{}}\n"
    );
    channels::sections().table::<CallAheadText>().parse(&text, "test.toml")
}

fn backend(route: &str, keys: &str) -> Box<dyn Backend> {
    let config = config(route, &format!("route = \"boxes\"{keys}"));
    let config = config.unwrap_or_else(|errors| panic!("{errors}"));
    let table = &config.tables[0];
    assert!(table.is_remote && table.settings.has_patterns());
    let hop = AskedHop::of(&config, table).expect("a hop");
    table.settings.of::<CallAhead>().expect("its settings").backend(hop)
}

/// What a host has heard, once it has heard so much.
fn heard(heard: &Heard, count: usize) -> Vec<String> {
    let start = Instant::now();
    while lock(heard).len() < count && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    lock(heard).clone()
}

fn trouble(answer: Result<Option<Entry>, LookupError>) -> (LookupErrorKind, String) {
    let trouble = answer.expect_err("no answer");
    (trouble.kind, trouble.text.into())
}

#[test]
fn recipients_are_asked_for_on_one_connection_and_nothing_is_sent() {
    let (backend, port, told) = asking(usual);
    run(async {
        assert_eq!(find(&*backend, "jo@x.test").await, text("jo@x.test"));
        assert_eq!(backend.server(), Some(format!("127.0.0.1:{port}")));
        assert_eq!(find(&*backend, "nobody@x.test").await, Ok(None));
        // Whoever looks up what is no address asks nobody.
        for key in ["x.test", "@x.test", "", "a b@x.test", "jo@x.test\r\nDATA"] {
            assert_eq!(find(&*backend, key).await, Ok(None), "{key:?}");
        }
        drop(backend);
    });
    let expected = [
        "0 EHLO relay.test",
        "0 MAIL FROM:<>",
        "0 RCPT TO:<jo@x.test>",
        "0 RSET",
        "0 MAIL FROM:<>",
        "0 RCPT TO:<nobody@x.test>",
        "0 RSET",
        "0 QUIT",
    ];
    assert_eq!(heard(&told, expected.len()), expected);
}

#[test]
fn only_what_is_said_of_the_address_is_a_no() {
    let (backend, port, _) = asking(|command| {
        let Some(("RCPT TO:<", rest)) = command.split_at_checked(9) else { return usual(command) };
        Some(match rest.split('@').next() {
            Some("251") => "251 2.1.5 Will forward\r\n",
            Some("252") => "252 2.1.5 Cannot verify\r\n",
            Some("550") => "550 No such user\r\n",
            Some("552") => "552 5.2.2 Mailbox full\r\n",
            Some("554") => "554-5.7.1 Relay\r\n554 5.7.1 access denied\r\n",
            Some("501") => "501 5.1.3 Bad address syntax\r\n",
            Some("500") => "500 5.5.2 What?\r\n",
            Some("503") => "503 Bad sequence\r\n",
            Some("530") => "530 5.7.0 Must issue STARTTLS\r\n",
            Some("450") => "450 4.7.1 Greylisted\r\n",
            _ => "452 4.2.2 Over quota\r\n",
        })
    });
    run(async {
        for there in ["251@x.test", "252@x.test"] {
            assert_eq!(find(&*backend, there).await, text(there));
        }
        for none in ["550@x.test", "552@x.test", "554@x.test", "501@x.test"] {
            assert_eq!(find(&*backend, none).await, Ok(None), "{none}");
        }
        for key in ["500@x.test", "503@x.test", "530@x.test", "450@x.test", "452@x.test"] {
            let (kind, words) = trouble(find(&*backend, key).await);
            let begin = format!("127.0.0.1:{port} said: {} ", &key[..3]);
            assert_eq!((kind, words.starts_with(&begin)), (LookupErrorKind::Key, true), "{words}");
        }
        // Without SMTPUTF8 this address can't be said (RFC 6531).
        assert_eq!(trouble(find(&*backend, "\u{fc}@x.test").await).0, LookupErrorKind::Key);
    });
}

#[test]
fn what_fails_before_the_recipient_says_nothing_of_it() {
    let scripts: [(Script, LookupErrorKind, &str); 9] = [
        (|_| None, LookupErrorKind::Unreachable, "waiting for the greeting"),
        (|_| Some("554 5.7.1 Not you\r\n"), LookupErrorKind::Unreachable, "554 5.7.1 Not you"),
        (
            |_| Some("HTTP/1.1 400 Bad Request\r\n"),
            LookupErrorKind::Unreachable,
            "not an SMTP reply",
        ),
        (
            |c| if c.starts_with("EHLO") { Some("554 No\r\n") } else { usual(c) },
            LookupErrorKind::Unreachable,
            "554 No",
        ),
        (
            |c| if c.starts_with("MAIL") { Some("550 5.7.1 No reports\r\n") } else { usual(c) },
            LookupErrorKind::Wrong,
            "550 5.7.1 No reports (in reply to MAIL FROM command)",
        ),
        (
            |c| if c.starts_with("MAIL") { Some("451 4.3.0 Later\r\n") } else { usual(c) },
            LookupErrorKind::Wrong,
            "451 4.3.0 Later (in reply to MAIL FROM command)",
        ),
        (
            |c| if c.starts_with("RCPT") { Some("421 4.3.2 Going\r\n") } else { usual(c) },
            LookupErrorKind::Wrong,
            "421 4.3.2 Going",
        ),
        (
            |c| if c.starts_with("RCPT") { Some("yes, sure\r\n") } else { usual(c) },
            LookupErrorKind::Wrong,
            "not an SMTP reply",
        ),
        (
            |c| if c.starts_with("RCPT") { None } else { usual(c) },
            LookupErrorKind::Unreachable,
            "waiting for the reply to RCPT TO",
        ),
    ];
    for (script, kind, words) in scripts {
        let (backend, port, _) = asking(script);
        let (of, text) = run(async { trouble(find(&*backend, "jo@x.test").await) });
        assert_eq!(of, kind, "{text}");
        assert!(text.contains(words) && text.contains(&format!("127.0.0.1:{port}")), "{text}");
    }
}

#[test]
fn half_a_reply_is_none_and_is_not_waited_for_without_end() {
    let half: Script = |c| if c.starts_with("RCPT") { Some("550 5.1.1 No su") } else { usual(c) };
    let (listener, port) = listener();
    let _told = host_at(listener, half);
    let channel = format!(
        "smtp = {{ hosts = [\"127.0.0.1:{port}\"], tls = \"off\", command_timeout = \"300ms\" }}"
    );
    let (kind, text) = run(async { trouble(find(&*backend(&channel, ""), "jo@x.test").await) });
    assert_eq!(kind, LookupErrorKind::Unreachable, "{text}");
    assert!(text.contains("timed out while waiting for the reply to RCPT TO"), "{text}");
}

#[test]
fn an_answer_counts_whatever_follows_it() {
    // No reply to RSET, and none to anything else.
    let (backend, _, told) = asking(|c| if c == "RSET" { Some("") } else { usual(c) });
    run(async {
        assert_eq!(find(&*backend, "jo@x.test").await, text("jo@x.test"));
        assert_eq!(find(&*backend, "no@x.test").await, Ok(None));
    });
    let all = heard(&told, 8);
    assert_eq!(all.iter().filter(|said| said.ends_with("EHLO relay.test")).count(), 2, "{all:?}");
}

#[test]
fn a_connection_has_a_few_refusals_and_no_more() {
    let (backend, _, told) = asking(usual);
    run(async {
        for number in 0..=REFUSED {
            assert_eq!(find(&*backend, &format!("no{number}@x.test")).await, Ok(None));
        }
    });
    let all = heard(&told, 3 * REFUSED + 6);
    let last = |number: &str| all.iter().rfind(|said| said.starts_with(number)).cloned();
    assert_eq!(last("0 ").as_deref(), Some("0 QUIT"));
    let asked = all.iter().filter(|said| said.starts_with("0 RCPT")).count();
    assert_eq!(asked, REFUSED, "{all:?}");
    assert!(all.contains(&format!("1 RCPT TO:<no{REFUSED}@x.test>")), "{all:?}");
}

/// As a connection has.
const REFUSED: usize = 8;

#[test]
fn a_connection_that_was_closed_meanwhile_is_replaced_unseen() {
    // It says so, as Postfix does, or goes without a word.
    for farewell in ["250 2.0.0 Ok\r\n421 4.4.2 Timeout\r\n", "250 2.0.0 Ok\r\n"] {
        let (listener, port) = listener();
        serve_at(listener, move |_, stream| {
            let mut writer = stream.try_clone().expect("a descriptor");
            writer.write_all(b"220 next.test\r\n").expect("somebody who listens");
            for command in BufReader::new(stream).lines().map_while(Result::ok) {
                let reply = if command == "RSET" { Some(farewell) } else { usual(&command) };
                writer.write_all(reply.unwrap_or_default().as_bytes()).expect("somebody");
                if command == "RSET" {
                    return;
                }
            }
        });
        let channel = format!("smtp = {{ hosts = [\"127.0.0.1:{port}\"], tls = \"off\" }}");
        let backend = backend(&channel, "");
        run(async {
            for key in ["jo@x.test", "ann@x.test", "sam@x.test"] {
                assert_eq!(find(&*backend, key).await, text(key), "{farewell:?}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
    }
}

#[test]
fn the_next_host_is_tried_and_kept_while_it_answers() {
    let (silent, silent_port) = listener();
    let _told = host_at(silent, |_| Some(""));
    let (closed, closed_port) = listener();
    drop(closed);
    let (well, port) = listener();
    let told = host_at(well, usual);
    let channel = format!(
        "smtp = {{ hosts = [\"127.0.0.1:{closed_port}\", \"127.0.0.1:{silent_port}\", \
         \"127.0.0.1:{port}\"], tls = \"off\", balance = \"failover\" }}"
    );
    let backend = backend(&channel, ", connect_timeout = \"300ms\"");
    run(async {
        let start = Instant::now();
        assert_eq!(find(&*backend, "jo@x.test").await, text("jo@x.test"));
        assert!(start.elapsed() >= Duration::from_millis(300));
        assert_eq!(backend.server(), Some(format!("127.0.0.1:{port}")));
        let start = Instant::now();
        for number in 0..=REFUSED {
            assert_eq!(find(&*backend, &format!("no{number}@x.test")).await, Ok(None));
        }
        assert!(start.elapsed() < Duration::from_millis(300), "no host was waited for again");
    });
    assert!(heard(&told, 1).contains(&"0 EHLO relay.test".to_owned()));
}

#[test]
fn lmtp_is_asked_over_a_socket_with_the_sender_of_the_table() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("lmtp");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let peer = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        let mut writer = stream.try_clone().expect("a descriptor");
        writer.write_all(b"220 next.test\r\n").expect("somebody who listens");
        let mut heard = Vec::new();
        for command in BufReader::new(stream).lines().map_while(Result::ok) {
            let reply = usual(&command).expect("a reply");
            heard.push(command);
            if writer.write_all(reply.as_bytes()).is_err() {
                break;
            }
        }
        heard
    });
    let channel = format!("lmtp = {{ hosts = [\"{}\"], tls = \"required\" }}", path.display());
    let backend = backend(&channel, ", sender = \"probe@relay.test\"");
    run(async {
        assert_eq!(find(&*backend, "jo@x.test").await, text("jo@x.test"));
        drop(backend);
    });
    let heard = peer.join().expect("no panic");
    assert_eq!(heard[..2], ["LHLO relay.test", "MAIL FROM:<probe@relay.test>"]);
}

#[test]
fn tls_is_asked_for_as_the_route_has_it() {
    let (listener, port) = listener();
    // It offers TLS, and hangs up when it begins.
    let told = host_at(listener, |command| match command {
        "STARTTLS" => Some("220 Go ahead\r\n"),
        "EHLO relay.test" => Some("250-next.test\r\n250 STARTTLS\r\n"),
        command => usual(command),
    });
    let channel =
        |tls: &str| format!("smtp = {{ hosts = [\"127.0.0.1:{port}\"], tls = \"{tls}\" }}");
    run(async {
        for tls in ["required", "verified"] {
            let (kind, text) = trouble(find(&*backend(&channel(tls), ""), "jo@x.test").await);
            assert_eq!(kind, LookupErrorKind::Unreachable, "{text}");
        }
        // The handshake fails, and it goes in clear.
        let opportunistic = backend(&channel("opportunistic"), "");
        assert_eq!(find(&*opportunistic, "jo@x.test").await, text("jo@x.test"));
    });
    let asked = heard(&told, 1).iter().filter(|said| said.contains("RCPT")).count();
    assert_eq!(asked, 1, "nobody is named in clear where that is not allowed");
}

#[test]
fn mistakes_in_the_file_are_told_with_their_places() {
    let lmtp = "lmtp = { hosts = [\"127.0.0.1:24\"] }";
    for (route, table, message) in [
        (lmtp, "", "a call-ahead without `route`"),
        (lmtp, "route = \"box\"", "unknown route \"box\""),
        (lmtp, "route = \"else\"", "route \"else\" has no fixed hosts"),
        ("discard = {}", "route = \"boxes\"", "route \"boxes\" has no fixed hosts"),
        (lmtp, "route = \"boxes\", sender = \"jo\"", "\"jo\" is not an address"),
        (lmtp, "route = \"boxes\", connect_timeout = \"0s\"", "longer than 0"),
    ] {
        let errors = config(route, table).expect_err("a mistake");
        let problems = errors.problems();
        assert!(problems.iter().any(|p| p.message.contains(message)), "{table}: {errors}");
        assert!(problems.iter().any(|p| p.line == 9), "{table}: {errors}");
    }
}

#[test]
fn what_the_route_is_told_is_what_the_table_is_told() {
    let hop = |route: &str| {
        let config = config(route, "route = \"boxes\"").expect("right");
        AskedHop::of(&config, &config.tables[0]).expect("a hop")
    };
    let one = hop("lmtp = { hosts = [\"127.0.0.1:24\"] }");
    assert!(one.is_like(&hop("lmtp = { hosts = [\"127.0.0.1\"] }")));
    assert!(!one.is_like(&hop("lmtp = { hosts = [\"127.0.0.2\"] }")));
    assert!(!one.is_like(&hop("lmtp = { hosts = [\"127.0.0.1\"], tls = \"off\" }")));
}
