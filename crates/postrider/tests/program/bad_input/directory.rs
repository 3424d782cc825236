//! Rows about recipients that a directory is asked for, over SMTP as in [`wire`](super::wire).
//!
//! Each domain has a directory of its own, which misbehaves in one way ([`WAYS`]). `A:` is a filter
//! that one of them was asked for, as it was sent: what is no letter of an address is shown escaped.

use super::bench::Bench;
use super::table::{self, Row};
use super::wire;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What a directory does with a search.
type Way = fn(&mut TcpStream, u8) -> std::io::Result<()>;

/// The first label of a domain, and what its directory does.
const WAYS: [(&str, Way); 9] = [
    ("well", |stream, id| stream.write_all(&done(id))),
    ("many", |stream, id| {
        (0..100_000).try_for_each(|_| stream.write_all(&found(id, b"box")))?;
        stream.write_all(&done(id))
    }),
    ("garbage", |stream, _| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")),
    ("nonsense", |stream, id| stream.write_all(&message(id, &element(0x64, &[7; 40])))),
    ("huge", |stream, _| stream.write_all(b"\x30\x84\xff\xff\xff\xff\x02\x01")),
    ("never", |_, _| Ok(())),
    ("half", |stream, id| stream.write_all(&found(id, b"box"))),
    ("cut", |stream, id| {
        let whole = [found(id, b"box"), done(id)].concat();
        stream.write_all(&whole[..whole.len() - 3])?;
        Err(std::io::ErrorKind::ConnectionAborted.into())
    }),
    ("lines", |stream, id| {
        stream.write_all(&[found(id, b"box\r\n250 2.1.5 Ok"), done(id)].concat())
    }),
];

pub(super) fn element(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).expect("a short body").to_be_bytes();
    [&[tag, 0x82][..], &length, body].concat()
}

pub(super) fn message(id: u8, operation: &[u8]) -> Vec<u8> {
    element(0x30, &[&element(0x02, &[id])[..], operation].concat())
}

/// An entry with one value of each of these attributes.
pub(super) fn entry(id: u8, attributes: &[(&str, &[u8])]) -> Vec<u8> {
    let attribute = |(name, value): &(&str, &[u8])| {
        let values = element(0x31, &element(0x04, value));
        element(0x30, &[element(0x04, name.as_bytes()), values].concat())
    };
    let attributes = element(0x30, &attributes.iter().flat_map(attribute).collect::<Vec<_>>());
    message(id, &element(0x64, &[element(0x04, b"cn=x"), attributes].concat()))
}

/// The answer of a directory that knows of one mailbox.
fn found(id: u8, path: &[u8]) -> Vec<u8> {
    entry(id, &[("mailPath", path)])
}

/// What ends a search.
pub(super) const DONE: u8 = 0x65;

/// How an operation ended: its tag, and the code.
pub(super) fn outcome(tag: u8, code: u8) -> Vec<u8> {
    element(tag, &[element(0x0a, &[code]), element(0x04, b""), element(0x04, b"")].concat())
}

/// The end of a search that went well.
fn done(id: u8) -> Vec<u8> {
    message(id, &outcome(DONE, 0))
}

/// Answers connections in one way, and notes what is asked.
fn serve(listener: TcpListener, way: Way, asked: &Arc<Mutex<Vec<String>>>) {
    for stream in listener.incoming().map_while(Result::ok) {
        let asked = Arc::clone(asked);
        std::thread::spawn(move || answer(stream, way, &asked));
    }
}

fn answer(mut stream: TcpStream, way: Way, asked: &Mutex<Vec<String>>) {
    while let Some(request) = request(&mut stream) {
        // SEQUENCE { INTEGER id, [APPLICATION 3] … }; ids of these few searches are one byte.
        let (id, operation) = (request[2], request[3]);
        if operation == 0x63 {
            asked.lock().expect("no panic").push(filter(&request));
            if way(&mut stream, id).is_err() {
                return;
            }
        }
    }
}

/// The body of the next request; they are shorter than 256 bytes.
pub(super) fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = [0; 2];
    stream.read_exact(&mut head).ok()?;
    let mut length = [head[1]];
    if head[1] == 0x81 {
        stream.read_exact(&mut length).ok()?;
    }
    let mut body = vec![0; usize::from(length[0])];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

/// The filter of a search. It is a comparison and nothing else: RFC 4511 §4.5.1.7, `0xa3`, two texts.
fn filter(request: &[u8]) -> String {
    let begin = [&[0x04, 4][..], b"mail"].concat();
    let at = request.windows(begin.len()).position(|window| window == begin);
    let at = at.expect("the attribute of the table's filter");
    assert_eq!(request[at - 2], 0xa3, "not a comparison: {request:x?}");
    let value = &request[at + begin.len()..];
    let length = usize::from(value[1]);
    assert_eq!(usize::from(request[at - 1]), begin.len() + 2 + length, "more than a comparison");
    let shown = value[2..2 + length].iter().map(|byte| match byte {
        b'*' | b'(' | b')' | b'\\' | 0..=b' ' | 127.. => format!("\\{byte:02x}"),
        byte => char::from(*byte).to_string(),
    });
    format!("(mail={})", shown.collect::<String>())
}

/// The table and the route of one domain.
fn sections(name: &str, port: u16) -> String {
    format!(
        "[[table]]\nname = \"{name}\"\n\
         ldap = {{ servers = [\"ldap://127.0.0.1:{port}\"], base = \"dc=test\", \
         filter = \"(mail=%s)\", attributes = [\"mailPath\"], timeout = \"500ms\", \
         max_results = 1_000 }}\ncache = {{ negative = \"1ms\" }}\n\
         [[route]]\ndomains = [\"{name}.directory.test\"]\nrecipients = {{ table = \"{name}\" }}\n\
         maildir = {{ path = \"mail/{{domain}}/{{local}}\" }}\n"
    )
}

fn play(bench: &Bench, asked: &Mutex<Vec<String>>, row: &Row) -> Vec<String> {
    asked.lock().expect("no panic").clear();
    let mut seen = wire::play(bench, row);
    if row.lines.iter().any(|line| line.contains("@well.")) {
        let asked = asked.lock().expect("no panic");
        seen.extend(asked.iter().map(|filter| format!("A: {filter}")));
    }
    seen
}

#[test]
fn directory() {
    let asked = Arc::default();
    let mut text = String::new();
    for (name, way) in WAYS {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        text += &sections(name, listener.local_addr().expect("bound").port());
        let asked = Arc::clone(&asked);
        std::thread::spawn(move || serve(listener, way, &asked));
    }
    let bench = Bench::start_with(&text);
    table::check("directory", |row| play(&bench, &asked, row));
    bench.server.stop();
}
