//! Rows about recipients that a copy of a directory has, over SMTP as in [`wire`](super::wire).
//!
//! Each domain has a directory of its own, which misbehaves in one way ([`WAYS`]), and a copy of it. `H:` is
//! what `table list` shows of the copy when the row is played.

use super::bench::Bench;
use super::directory::{DONE, element, entry, message, outcome, request};
use super::table::{self, Row};
use super::wire;
use crate::support::{Files, wait_until};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};

/// What a directory says to one search.
#[derive(Clone, Copy)]
enum Say {
    /// So many entries, and that this was all.
    All(u32),
    /// So many entries, and with this cookie that there are more.
    More(u32, &'static [u8]),
    /// So many entries, and then nothing more.
    Silence(u32),
    /// So many entries, and it hangs up in the middle of the next.
    Cut(u32),
    /// So many entries, and the end with a control that is nonsense.
    Nonsense(u32),
    /// So many entries, and this code.
    Refused(u32, u8),
    /// That it can tell of changes (RFC 4533); without it, that it can't.
    Tells,
    /// News between entries.
    News(&'static [u8]),
}

/// The control by which a server tells of changes.
const SYNC: &[u8] = b"1.3.6.1.4.1.4203.1.9.1.1";

/// What it says to the searches of one reading.
type Reading = &'static [Say];

/// The first label of a domain, the readings of its directory, the last two of them again and again, and what
/// `table list` must show before the row is played.
const WAYS: [(&str, &[Reading], &str); 13] = [
    ("cut", &[&[Say::Cut(3)]], "closed the connection"),
    ("cut-later", &[&[Say::All(10)], &[Say::Cut(3)]], "closed the connection"),
    ("half", &[&[Say::More(3, b"x"), Say::Silence(3)]], "nothing within"),
    ("cookie", &[&[Say::More(3, b"\xff\x00\r\n"), Say::Refused(0, 53)]], "unwilling"),
    ("nonsense", &[&[Say::Nonsense(3)]], "truncated element"),
    ("limit", &[&[Say::Refused(500, 4)]], "sizeLimitExceeded"),
    ("halved", &[&[Say::All(4)], &[Say::All(10)]], "ignored until confirmed"),
    ("gone", &[&[Say::All(10)], &[Say::All(0)], &[Say::All(0)]], "\"changed\":\""),
    ("empty", &[&[Say::All(0)], &[Say::All(10)]], "ignored until confirmed"),
    ("none", &[&[Say::All(0)]], "\"age_s\":0"),
    ("stateless", &[&[Say::Tells, Say::All(10)]], "without its state"),
    ("no-news", &[&[Say::Tells, Say::News(b"\xa4\x00")]], "sync info message"),
    ("uuid", &[&[Say::Tells, Say::News(b"\xa3\x04\x31\x02\x04\x00")]], "UUID"),
];

/// Answers one connection: what it can do, and then as the script says.
fn answer(stream: &mut TcpStream, reading: Reading) -> std::io::Result<()> {
    let (can, mut says): (Vec<(&str, &[u8])>, _) = match reading {
        [Say::Tells, says @ ..] => (vec![("supportedControl", SYNC)], says.iter()),
        says => (Vec::new(), says.iter()),
    };
    let mut is_first = true;
    while let Some(request) = request(stream) {
        // SEQUENCE { INTEGER id, [APPLICATION 3] … }; ids of these few searches are one byte.
        let (id, operation) = (request[2], request[3]);
        if operation != 0x63 {
            continue;
        }
        if std::mem::take(&mut is_first) {
            stream.write_all(&[entry(id, &can), message(id, &outcome(DONE, 0))].concat())?;
            continue;
        }
        let Some(say) = says.next() else { return Ok(()) };
        speak(stream, id, *say)?;
    }
    Ok(())
}

fn speak(stream: &mut TcpStream, id: u8, say: Say) -> std::io::Result<()> {
    let user = |n: u32| {
        let mail = format!("user{n}@x.test");
        entry(id, &[("mail", mail.as_bytes()), ("mailPath", b"box")])
    };
    let users = |count| (0..count).map(user).collect::<Vec<_>>().concat();
    let end = |code: u8, control: &[u8]| {
        let controls = element(0xa0, &element(0x30, control));
        message(id, &[outcome(DONE, code), controls].concat())
    };
    let paged =
        |value: &[u8]| [element(0x04, b"1.2.840.113556.1.4.319"), element(0x04, value)].concat();
    let page = |cookie: &[u8]| {
        paged(&element(0x30, &[element(0x02, &[0]), element(0x04, cookie)].concat()))
    };
    let text = match say {
        Say::All(count) => [users(count), end(0, &page(b""))].concat(),
        Say::More(count, cookie) => [users(count), end(0, &page(cookie))].concat(),
        Say::Silence(count) => users(count),
        Say::Cut(count) => {
            let whole = users(count + 1);
            stream.write_all(&whole[..whole.len() - 3])?;
            return Err(std::io::ErrorKind::ConnectionAborted.into());
        }
        Say::Nonsense(count) => {
            [users(count), end(0, &paged(b"\x30\x84\xff\xff\xff\xff"))].concat()
        }
        Say::Refused(count, code) => [users(count), end(code, &page(b""))].concat(),
        Say::Tells => unreachable!("the first that is said"),
        Say::News(value) => {
            let news = [element(0x80, b"1.3.6.1.4.1.4203.1.9.1.4"), element(0x81, value)];
            message(id, &element(0x79, &news.concat()))
        }
    };
    stream.write_all(&text)
}

/// Each connection is a reading.
fn serve(listener: TcpListener, readings: &'static [Reading]) {
    for (number, stream) in listener.incoming().map_while(Result::ok).enumerate() {
        // Beyond the last the last two take turns.
        let period = readings.len().min(2);
        let at = match number.checked_sub(readings.len()) {
            None => number,
            Some(beyond) => readings.len() - period + beyond % period,
        };
        let reading = readings[at];
        std::thread::spawn(move || {
            let mut stream = stream;
            // Who hangs up has had enough.
            let _ = answer(&mut stream, reading);
        });
    }
}

/// The table and the route of one domain.
fn sections(name: &str, port: u16, more: &str) -> String {
    format!(
        "[[table]]\nname = \"{name}\"\n\
         ldap = {{ mode = \"snapshot\", servers = [\"ldap://127.0.0.1:{port}\"], base = \"dc=test\", \
         filter = \"(mail=%u@x.test)\", attributes = [\"mailPath\"], timeout = \"500ms\", \
         refresh = \"1s\"{more} }}\n\
         [[route]]\ndomains = [\"{name}.copy.test\"]\nrecipients = {{ table = \"{name}\" }}\n\
         maildir = {{ path = \"mail/{{domain}}/{{local}}\" }}\n"
    )
}

/// What `table list` shows of a table.
fn shown(bench: &Bench, name: &str) -> Value {
    let listed = bench.server.command(&["table", "list", "--json"]);
    let tables = listed.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut named = tables.filter(|table| table["name"] == name);
    named.next().unwrap_or_else(|| panic!("no table {name}: {}", listed.out))
}

/// Entries and trouble, without what differs from run to run.
fn health(table: &Value) -> String {
    let entries = &table["snapshot"]["entries"];
    let trouble = table["trouble"].as_str().unwrap_or("well");
    let trouble = trouble.split_once("Z: ").map_or(trouble, |(_, trouble)| trouble);
    let url = trouble.split([' ', ';']).find(|word| word.starts_with("ldap://"));
    let url = url.unwrap_or("ldap://nobody").trim_end_matches(':');
    format!("{entries} entries; {}", trouble.replace(url, "ldap://directory"))
}

fn play(bench: &Bench, row: &Row) -> Vec<String> {
    let line = row.lines.iter().find_map(|line| line.split_once(".copy.test")).expect("an address");
    let name = line.0.rsplit_once('@').expect("an address").1;
    let wanted = WAYS.iter().find(|way| way.0 == name).map_or("refused", |way| way.2);
    let mut seen = Value::Null;
    wait_until("the copy is as the row wants it", || {
        seen = shown(bench, name);
        seen.to_string().contains(wanted)
    });
    let mut lines = wire::play(bench, row);
    lines.push(format!("H: {}", health(&seen)));
    lines
}

#[test]
fn copies() {
    let mut text = String::new();
    for (name, readings, _) in WAYS {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        text += &sections(name, listener.local_addr().expect("bound").port(), "");
        std::thread::spawn(move || serve(listener, readings));
    }
    // A port of ours at which nobody listens.
    let nobody = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    nobody.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
    let port = nobody.local_addr().expect("bound").as_socket().expect("of IPv4").port();
    let files = Files::new();
    for (name, bytes) in [("damaged", &[7; 5000][..]), ("void", b"")] {
        std::fs::write(files.path(name), bytes).expect("a file");
        let more = format!(", snapshot_path = {:?}", files.path(name).display().to_string());
        text += &sections(name, port, &more);
    }
    let bench = Bench::start_with(&text);
    for name in ["damaged", "void"] {
        bench.server.wait_console("it is told", |line| {
            line.contains(&format!("{name}: ")) && line.contains("no answers until")
        });
    }
    table::check("copies", |row| play(&bench, row));
    bench.server.stop();
}
