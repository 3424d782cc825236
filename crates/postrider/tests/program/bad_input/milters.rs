//! Rows about milters, over SMTP as in [`wire`](super::wire): `at` names a listener whose milter misbehaves
//! in one way ([`WAYS`]).

use super::bench::Bench;
use super::table;
use super::wire;
use crate::support::tool::free_port;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// What a milter does.
#[derive(Clone, Copy)]
enum Way {
    /// Nobody listens.
    Gone,
    /// It says this instead of negotiating, and no more.
    Opens(&'static [u8]),
    /// It negotiates these actions and protocol bits.
    Agrees(u32, u32),
    /// It says this to that command, and no more.
    Says(u8, &'static [u8]),
    /// The same, and hangs up.
    Dies(u8, &'static [u8]),
    /// It wants another body, so many pieces of 64 KiB less one, and takes the message.
    Body(usize),
    /// It adds so many recipients.
    Recipients(usize),
}

/// Listeners in their order behind all others: name, what failure does, what the milter does.
const WAYS: [(&str, &str, Way); 30] = [
    ("gone", "accept", Way::Gone),
    ("gone-tempfail", "tempfail", Way::Gone),
    ("gone-reject", "reject", Way::Gone),
    ("mute", "accept", Way::Opens(b"")),
    ("smtp", "accept", Way::Opens(b"220 mx.test ESMTP\r\n")),
    ("version", "accept", Way::Opens(b"\0\0\0\x0dO\0\0\0\x07\0\0\0\0\0\0\0\0")),
    ("actions", "accept", Way::Agrees(0x200, 0)),
    ("steps", "accept", Way::Agrees(0, 0x800)),
    ("empty", "tempfail", Way::Says(b'M', b"\0\0\0\0")),
    ("long", "tempfail", Way::Says(b'M', b"\xff\xff\xff\xffc")),
    ("cut", "tempfail", Way::Says(b'R', b"\0\0\0\x64yno")),
    ("hangs", "tempfail", Way::Says(b'E', b"")),
    ("hangs-reject", "reject", Way::Says(b'T', b"")),
    ("refuses", "accept", Way::Says(b'T', b"\0\0\0\x01r")),
    ("crash", "accept", Way::Dies(b'N', b"")),
    ("crash-tempfail", "tempfail", Way::Dies(b'N', b"")),
    ("half", "accept", Way::Dies(b'E', b"\0\0\0\x08hX-A\0b\0\0")),
    ("changes", "accept", Way::Dies(b'E', b"\0\0\0\x07hX-A\0b\0")),
    ("unknown", "tempfail", Way::Says(b'R', b"\0\0\0\x01X")),
    ("early", "tempfail", Way::Says(b'M', b"\0\0\0\x07hX-A\0b\0")),
    ("twice", "tempfail", Way::Says(b'M', b"\0\0\0\x01c\0\0\0\x01c")),
    ("action", "accept", Way::Agrees(0x1, 0)),
    ("words", "tempfail", Way::Says(b'R', b"\0\0\0\x1dy550 5.7.1 no\r\n250 2.0.0 yes\0")),
    ("success", "tempfail", Way::Says(b'R', b"\0\0\0\x0fy250 2.0.0 yes\0")),
    ("name", "accept", Way::Says(b'E', b"\0\0\0\x0dhX: y\r\nBcc\0b\0\0\0\0\x01c")),
    (
        "lines",
        "accept",
        Way::Says(b'E', b"\0\0\0\x1ahX-A\0b\r\n\r\nbody\r\nBcc: evil\0\0\0\0\x01c"),
    ),
    ("smuggles", "accept", Way::Says(b'E', b"\0\0\0\x14bone\n.\nMAIL\r.\r\ntwo\0\n\0\0\0\x01c")),
    ("nobody", "accept", Way::Says(b'E', b"\0\0\0\x09+nobody\r\0\0\0\0\x01c")),
    ("body", "accept", Way::Body(801)),
    ("recipients", "accept", Way::Recipients(10_000)),
];

fn packet(command: u8, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len() + 1).expect("a packet");
    [&length.to_be_bytes()[..], &[command], data].concat()
}

fn negotiated(actions: u32, protocol: u32) -> Vec<u8> {
    packet(b'O', &[6, actions, protocol].map(u32::to_be_bytes).concat())
}

/// Plays a milter, to the end of what either says.
fn play(mut stream: TcpStream, way: Way) -> std::io::Result<()> {
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut said = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut said)?;
        let command = said[0];
        let answer = match (command, way) {
            (b'D' | b'A' | b'Q', _) => Vec::new(),
            (b'O', Way::Opens(opening)) => opening.to_vec(),
            (b'O', Way::Agrees(actions, protocol)) => negotiated(actions, protocol),
            (b'O', _) => negotiated(0x1ff, 0),
            (other, Way::Says(to, answer) | Way::Dies(to, answer)) if other == to => {
                answer.to_vec()
            }
            // It has not negotiated that it may.
            (b'E', Way::Agrees(..)) => packet(b'b', b"another body\r\n"),
            (b'E', Way::Body(count)) => {
                let piece = packet(b'b', &b"0123456789abcd\r\n".repeat(4096)[..65_535]);
                for _ in 0..count {
                    stream.write_all(&piece)?;
                }
                packet(b'c', b"")
            }
            (b'E', Way::Recipients(count)) => {
                let one = |n| packet(b'+', format!("<r{n}@far.test>\0").as_bytes());
                let all: Vec<u8> = (0..count).flat_map(one).collect();
                [all, packet(b'c', b"")].concat()
            }
            _ => packet(b'c', b""),
        };
        stream.write_all(&answer)?;
        if matches!(way, Way::Dies(to, _) if to == command) {
            return Ok(());
        }
    }
}

fn serve(listener: TcpListener, way: Way) {
    for stream in listener.incoming().map_while(Result::ok) {
        // Whoever hangs up has heard enough.
        std::thread::spawn(move || drop(play(stream, way)));
    }
}

/// The listener of one milter, at a port.
fn section(name: &str, on_failure: &str, listens_at: u16, port: u16) -> String {
    format!(
        "[[listener]]\nname = \"milter-{name}\"\naddress = \"127.0.0.1:{listens_at}\"\n\
         relay_from = [\"127.0.0.0/8\"]\n\
         milters = [{{ address = \"127.0.0.1:{port}\", on_failure = \"{on_failure}\", \
         connect_timeout = \"500ms\", command_timeout = \"500ms\", content_timeout = \"5s\" }}]\n"
    )
}

#[test]
fn milters() {
    // The console doesn't name so many listeners at once.
    let ports = WAYS.map(|_| free_port());
    let mut text = String::new();
    for ((name, on_failure, way), at) in WAYS.into_iter().zip(ports) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        text += &section(name, on_failure, at, listener.local_addr().expect("bound").port());
        match way {
            Way::Gone => drop(listener),
            way => drop(std::thread::spawn(move || serve(listener, way))),
        }
    }
    let bench = Bench::start_with(&text);
    table::check("milters", |row| {
        let name = row.setting("at").expect("a listener").strip_prefix("milter-");
        let name = name.expect("a listener with a milter");
        let place = WAYS.iter().position(|(way, ..)| *way == name);
        let port = ports[place.unwrap_or_else(|| panic!("no listener {name}"))];
        wire::play_at(&bench, row, SocketAddr::from(([127, 0, 0, 1], port)))
    });
    bench.server.stop();
}
