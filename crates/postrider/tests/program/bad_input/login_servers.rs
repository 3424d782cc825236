//! Rows about servers that know users and misbehave, over SMTP as in [`wire`](super::wire): `at` names a
//! listener whose server does so in one way ([`WAYS`]).

use super::bench::Bench;
use super::login::Bridges;
use super::table;
use super::wire;
use crate::support::Files;
use crate::support::certificate::{EC, make_certificate};
use crate::support::tool::free_port;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// What a server speaks.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Dovecot,
    Ldap,
    Introspection,
}

/// What it does.
#[derive(Clone, Copy)]
enum Way {
    /// Nobody listens.
    Gone,
    /// It says this as soon as somebody comes, and no more.
    Opens(&'static [u8]),
    /// It is asked, says this, and no more. Of Dovecot's answers `#` is the number of the question.
    Says(&'static [u8]),
    /// The same, and hangs up.
    Dies(&'static [u8]),
    /// The same, and without end after that.
    Floods(&'static [u8], &'static [u8]),
    /// The same, as a page of its own.
    Json(&'static str),
    /// The same as `Says`, a byte each tenth of a second.
    Drips(&'static [u8]),
}

use Kind::{Dovecot, Introspection, Ldap};
use Way::{Dies, Drips, Floods, Gone, Json, Opens, Says};

const HANDSHAKE: &[u8] =
    b"VERSION\t1\t1\nMECH\tPLAIN\tplaintext\nSPID\t1\nCUID\t1\nCOOKIE\t0123\nDONE\n";

/// Listeners in their order behind all others: name, what the server speaks, what it does.
const WAYS: &[(&str, Kind, Way)] = &[
    ("dovecot-gone", Dovecot, Gone),
    ("dovecot-mute", Dovecot, Opens(b"")),
    ("dovecot-smtp", Dovecot, Opens(b"220 mx.test ESMTP\r\n")),
    ("dovecot-version", Dovecot, Opens(b"VERSION\t2\t0\nMECH\tPLAIN\nDONE\n")),
    ("dovecot-no-version", Dovecot, Opens(b"MECH\tPLAIN\nSPID\t1\nCUID\t1\nDONE\n")),
    ("dovecot-not-done", Dovecot, Opens(b"VERSION\t1\t1\nMECH\tPLAIN\nSPID\t1\nCUID\t1\n")),
    ("dovecot-early", Dovecot, Opens(b"VERSION\t1\t1\nMECH\tPLAIN\nOK\t1\tuser=jo\nDONE\n")),
    ("dovecot-binary", Dovecot, Opens(b"VERSION\t1\t1\n\xff\xfe\0\nDONE\n")),
    ("dovecot-flood", Dovecot, Floods(b"OK\t#\tuser=", b"jjjjjjjjjjjjjjjj")),
    ("dovecot-silent", Dovecot, Says(b"")),
    ("dovecot-drips", Dovecot, Drips(b"OK\t#\tuser=jo\n")),
    ("dovecot-half", Dovecot, Dies(b"OK\t#\tuser=j")),
    ("dovecot-dies", Dovecot, Dies(b"")),
    ("dovecot-other-id", Dovecot, Says(b"OK\t77777\tuser=jo\n")),
    ("dovecot-no-id", Dovecot, Says(b"OK\t\tuser=jo\n")),
    ("dovecot-huge-id", Dovecot, Says(b"OK\t99999999999999999999\tuser=jo\n")),
    ("dovecot-no-user", Dovecot, Says(b"OK\t#\n")),
    ("dovecot-empty-user", Dovecot, Says(b"OK\t#\tuser=\n")),
    ("dovecot-odd-user", Dovecot, Says(b"OK\t#\tuser=jo\x01t1.2.3.4\n")),
    ("dovecot-word", Dovecot, Says(b"YES\t#\tuser=jo\n")),
    ("dovecot-fail", Dovecot, Says(b"FAIL\t#\tuser=jo\n")),
    ("dovecot-fail-bare", Dovecot, Says(b"FAIL\t#\n")),
    ("dovecot-fail-temp", Dovecot, Says(b"FAIL\t#\tuser=jo\ttemp\n")),
    ("dovecot-fail-code", Dovecot, Says(b"FAIL\t#\tcode=temp_fail\n")),
    ("dovecot-both", Dovecot, Says(b"FAIL\t#\tuser=jo\nOK\t#\tuser=jo\n")),
    ("dovecot-asks", Dovecot, Says(b"CONT\t#\tUGFzc3dvcmQ6\n")),
    ("dovecot-asks-badly", Dovecot, Says(b"CONT\t#\t!!\n")),
    ("ldap-gone", Ldap, Gone),
    ("ldap-mute", Ldap, Says(b"")),
    ("ldap-smtp", Ldap, Opens(b"220 mx.test ESMTP\r\n")),
    ("ldap-dies", Ldap, Dies(b"")),
    ("ldap-cut-off", Ldap, Dies(b"\x30\x0c\x02\x01\x03\x61")),
    ("ldap-drips", Ldap, Drips(b"\x30\x0c\x02\x01\x03\x61\x07\x0a\x01\0\x04\0\x04\0")),
    ("ldap-indefinite", Ldap, Says(b"\x30\x80\x02\x01\x03\x61\x07\x0a\x01\0\x04\0\x04\0\0\0")),
    ("ldap-endless", Ldap, Says(b"\x30\x84\x7f\xff\xff\xff\x02\x01\x03")),
    ("ldap-flood", Ldap, Floods(b"\x30\x84\x7f\xff\xff\xff\x02\x01\x03", &[0x61; 64])),
    ("ldap-no-number", Ldap, Says(b"\x30\x09\x61\x07\x0a\x01\0\x04\0\x04\0")),
    ("ldap-other-id", Ldap, Says(b"\x30\x0c\x02\x01\x09\x61\x07\x0a\x01\0\x04\0\x04\0")),
    ("ldap-no-code", Ldap, Says(b"\x30\x05\x02\x01\x03\x61\0")),
    ("ldap-long-code", Ldap, Says(b"\x30\x0d\x02\x01\x03\x61\x08\x0a\x02\x01\0\x04\0\x04\0")),
    ("ldap-search-done", Ldap, Says(b"\x30\x0c\x02\x01\x03\x65\x07\x0a\x01\0\x04\0\x04\0")),
    ("ldap-farewell", Ldap, Says(b"\x30\x0c\x02\x01\0\x78\x07\x0a\x01\x34\x04\0\x04\0")),
    ("ldap-referral", Ldap, Says(b"\x30\x0c\x02\x01\x03\x61\x07\x0a\x01\x0a\x04\0\x04\0")),
    ("ldap-sasl", Ldap, Says(b"\x30\x0c\x02\x01\x03\x61\x07\x0a\x01\x0e\x04\0\x04\0")),
    ("ldap-busy", Ldap, Says(b"\x30\x0c\x02\x01\x03\x61\x07\x0a\x01\x33\x04\0\x04\0")),
    ("ldap-unavailable", Ldap, Says(b"\x30\x0c\x02\x01\x03\x61\x07\x0a\x01\x34\x04\0\x04\0")),
    ("ldap-unwilling", Ldap, Says(b"\x30\x0c\x02\x01\x03\x61\x07\x0a\x01\x35\x04\0\x04\0")),
    ("ldap-wrong", Ldap, Says(b"\x30\x0c\x02\x01\x03\x61\x07\x0a\x01\x31\x04\0\x04\0")),
    ("token-gone", Introspection, Gone),
    ("token-mute", Introspection, Says(b"")),
    ("token-ssh", Introspection, Opens(b"SSH-2.0-OpenSSH_9.2\r\n")),
    ("token-dies", Introspection, Dies(b"HTTP/1.1 200 OK\r\nContent-Le")),
    ("token-drips", Introspection, Drips(b"HTTP/1.1 200 OK\r\nContent-Length: 31\r\n\r\n{}")),
    ("token-old", Introspection, Dies(b"{\"active\":true,\"username\":\"jo\"}")),
    ("token-500", Introspection, Dies(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")),
    (
        "token-moved",
        Introspection,
        Dies(b"HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
    ),
    (
        "token-500-good",
        Introspection,
        Dies(b"HTTP/1.1 500 No\r\nContent-Length: 31\r\n\r\n{\"active\":true,\"username\":\"jo\"}"),
    ),
    ("token-empty", Introspection, Dies(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")),
    (
        "token-short",
        Introspection,
        Dies(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"active\":true,\"username\":\"jo\"}"),
    ),
    (
        "token-header-flood",
        Introspection,
        Floods(b"HTTP/1.1 200 OK\r\n", b"X-A: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n"),
    ),
    (
        "token-chunk-flood",
        Introspection,
        Floods(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"10\r\n{{{{{{{{{{{{{{{{\r\n",
        ),
    ),
    (
        "token-chunk-huge",
        Introspection,
        Dies(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n"),
    ),
    ("token-cut", Introspection, Json(r#"{"active":true,"username":"jo","scope":"mail.send""#)),
    ("token-list", Introspection, Json(r#"[]"#)),
    ("token-text", Introspection, Json(r#"active"#)),
    ("token-not-said", Introspection, Json(r#"{"username":"jo","scope":"mail.send"}"#)),
    ("token-word", Introspection, Json(r#"{"active":"true","username":"jo","scope":"mail.send"}"#)),
    ("token-number", Introspection, Json(r#"{"active":1,"username":"jo","scope":"mail.send"}"#)),
    ("token-no-user", Introspection, Json(r#"{"active":true,"scope":"mail.send"}"#)),
    ("token-odd-user", Introspection, Json(r#"{"active":true,"username":7,"scope":"mail.send"}"#)),
    (
        "token-control",
        Introspection,
        Json(r#"{"active":true,"username":"jo\u000aal","scope":"mail.send"}"#),
    ),
    (
        "token-over",
        Introspection,
        Json(r#"{"active":true,"username":"jo","scope":"mail.send","exp":9}"#),
    ),
    (
        "token-when",
        Introspection,
        Json(r#"{"active":true,"username":"jo","scope":"mail.send","exp":"now"}"#),
    ),
    ("token-scope", Introspection, Json(r#"{"active":true,"username":"jo","scope":"mail.read"}"#)),
    ("token-no-scope", Introspection, Json(r#"{"active":true,"username":"jo"}"#)),
    (
        "token-of-other",
        Introspection,
        Json(r#"{"active":true,"username":"al","scope":"mail.send"}"#),
    ),
    ("token-nobody", Introspection, Json(r#"{"active":false}"#)),
];

/// Whether what was read so far is a whole question.
fn is_asked(kind: Kind, read: &[u8]) -> bool {
    let has = |what: &[u8]| read.windows(what.len()).any(|window| window == what);
    match kind {
        Dovecot => has(b"\nAUTH\t") && read.ends_with(b"\n"),
        Ldap => read.len() > 2 && read.len() >= usize::from(read[1]) + 2,
        Introspection => has(b"\r\n\r\ntoken="),
    }
}

/// An answer to a question.
fn answer_to(kind: Kind, question: &[u8], answer: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(question);
    let number = text.split("\nAUTH\t").nth(1).and_then(|rest| rest.split('\t').next());
    match (kind, number) {
        (Dovecot, Some(number)) => {
            let parts: Vec<&[u8]> = answer.split(|byte| *byte == b'#').collect();
            parts.join(number.as_bytes())
        }
        _ => answer.to_vec(),
    }
}

/// Plays a server, to the end of what either says.
fn play(mut stream: TcpStream, kind: Kind, way: Way) -> std::io::Result<()> {
    let opening = match way {
        Opens(opening) => opening,
        _ if kind == Dovecot => HANDSHAKE,
        _ => b"",
    };
    stream.write_all(opening)?;
    let (mut read, mut piece) = (Vec::new(), [0; 4_096]);
    while !is_asked(kind, &read) {
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            n => read.extend_from_slice(&piece[..n]),
        }
    }
    match way {
        Gone | Opens(_) => {}
        Says(answer) => stream.write_all(&answer_to(kind, &read, answer))?,
        Dies(answer) => return stream.write_all(&answer_to(kind, &read, answer)),
        Json(text) => {
            let length = text.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            return stream.write_all(&[head.as_bytes(), text.as_bytes()].concat());
        }
        Floods(answer, more) => {
            stream.write_all(&answer_to(kind, &read, answer))?;
            let more = more.repeat(256);
            loop {
                stream.write_all(&more)?;
            }
        }
        Drips(answer) => {
            for byte in answer_to(kind, &read, answer) {
                stream.write_all(&[byte])?;
                thread::sleep(Duration::from_millis(100));
            }
        }
    }
    while stream.read(&mut piece)? > 0 {}
    Ok(())
}

fn serve(listener: TcpListener, kind: Kind, way: Way) {
    for stream in listener.incoming().map_while(Result::ok) {
        // Whoever hangs up has heard enough.
        thread::spawn(move || drop(play(stream, kind, way)));
    }
}

/// The listener of one server, at a port.
fn section(name: &str, kind: Kind, listens_at: u16, port: u16, secret: &str) -> String {
    let (logins, mechanism) = match kind {
        Dovecot => (format!("dovecot = \"127.0.0.1:{port}\""), "plain"),
        Ldap => (format!("ldap = \"{name}\""), "plain"),
        Introspection => (
            format!(
                "introspection = {{ url = \"http://127.0.0.1:{port}/\", client_id = \"us\", \
                 secret_file = \"{secret}\", scope = \"mail.send\" }}"
            ),
            "oauthbearer",
        ),
    };
    let listener = format!(
        "[[listener]]\nname = \"{name}\"\nkind = \"submission\"\naddress = \"127.0.0.1:{listens_at}\"\n\
         tls = \"implicit\"\nlogins = {{ {logins}, timeout = \"1s\" }}\nmechanisms = [\"{mechanism}\"]\n\
         login_failures_per_hour = 0\nlogin_failures_per_hour_of_user = 0\nlogin_failure_delay = \"0s\"\n"
    );
    match kind {
        Ldap => format!(
            "{listener}[[table]]\nname = \"{name}\"\n[table.ldap]\n\
             servers = [\"ldap://127.0.0.1:{port}\"]\nbase = \"uid=%s,dc=x\"\nscope = \"base\"\n\
             filter = \"(objectClass=*)\"\nattributes = [\"uid\"]\n"
        ),
        Dovecot | Introspection => listener,
    }
}

#[test]
fn login_servers() {
    let files = Files::new();
    make_certificate(files.dir(), "mx", EC, &["relay.test"]);
    let (chain, key) = (files.path("mx.pem"), files.path("mx.key"));
    let secret = files.write("secret", "secret\n").display().to_string();
    let mut text = format!(
        "[[certificate]]\nnames = [\"relay.test\"]\nchain = \"{}\"\nkey = \"{}\"\n",
        chain.display(),
        key.display()
    );
    let mut listens = Vec::new();
    for &(name, kind, way) in WAYS {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = free_port();
        text += &section(name, kind, at, listener.local_addr().expect("bound").port(), &secret);
        listens.push(SocketAddr::from(([127, 0, 0, 1], at)));
        match way {
            Gone => drop(listener),
            way => drop(thread::spawn(move || serve(listener, kind, way))),
        }
    }
    let bench = Bench::start_with(&text);
    let bridges = Bridges::start(&listens, "encrypted");
    table::check("login_servers", |row| {
        let name = row.setting("at").expect("a listener");
        let place = WAYS.iter().position(|(way, ..)| *way == name);
        let place = place.unwrap_or_else(|| panic!("no listener {name}"));
        wire::play_at(&bench, row, bridges.addresses[place])
    });
    bench.server.stop();
}
