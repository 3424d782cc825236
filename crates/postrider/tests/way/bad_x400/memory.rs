//! Memory stays bounded whatever a peer says. Each flood has a process of its own, whose highest use of memory is
//! looked at: the other tests of this program would be counted, too.

use super::{apdus, say};
use crate::node::{self, Node};
use crate::x400::{Answer, CONFIG, Caller, Hub};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::timeout;

/// The usual one, with a limit that a flood passes soon.
fn config() -> String {
    CONFIG.replace("name = \"in\"\n", "name = \"in\"\nmax_message_bytes = \"64KiB\"\n")
}

/// What one peer can make a server use at most, beside what it uses anyway.
const GROWTH_BYTES_MAX: u64 = 24 << 20;
/// Twice that.
const FLOOD_BYTES: usize = 48 << 20;
const PIECE_BYTES: usize = 60_000;
/// Behind the message's own header, which says less than 65,536 octets.
const ENVELOPE_AT: usize = 3;
const FLOOD: &str = "POSTRIDER_TEST_FLOOD";

/// What is said before a flood, and what is said in it again and again.
const FLOODS: [(&str, &[&str], &str); 6] = [
    ("content", &["CR", "CN", "AS"], "content"),
    ("an APDU that nobody can read", &["CR", "CN", "AS"], "rubbish"),
    ("an envelope", &["CR", "CN", "AS"], "envelope"),
    ("an envelope in single octets", &["CR", "CN", "AS"], "octets"),
    ("recipients that are others' to serve", &["CR", "CN", "AS"], "recipients"),
    ("checkpoints whose acknowledgements are not read", &["CR", "CN checkpoint=1", "AS"], "points"),
];

#[test]
fn floods_cost_no_memory() {
    let program = std::env::current_exe().expect("this program");
    for (name, ..) in FLOODS {
        let mut child = Command::new(&program);
        child.args(["bad_x400::memory::flood", "--exact", "--ignored", "--nocapture"]);
        let done = child.env(FLOOD, name).output().expect("it runs");
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success(), "{name}: {out}{}", String::from_utf8_lossy(&done.stderr));
        let grown = out.lines().find_map(|line| line.rsplit_once("grown by ")?.1.parse().ok());
        let grown: u64 = grown.unwrap_or_else(|| panic!("{name}: {out}"));
        assert!(grown < GROWTH_BYTES_MAX, "{name}: {grown} octets");
    }
}

#[test]
#[ignore = "run by floods_cost_no_memory, each flood in a process of its own"]
fn flood() {
    let name = std::env::var(FLOOD).expect("a flood");
    let (_, before, what) = FLOODS.into_iter().find(|flood| flood.0 == name).expect("a flood");
    node::play(|| async move {
        let node = Node::start(&config()).await;
        let hub = Hub::at(&node, |_| Answer::Take);
        let mut beside = Caller::bound(&node).await;
        beside.transfer(&apdus::apdu("content-60000")).await;
        let mut stream =
            node.accept(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2)), 40_001));
        for line in before {
            say(&mut stream, &say::octets(line), true).await;
        }
        let (first, then) = pieces(what);
        let reads = what != "points";
        let start = high_water_bytes();
        let mut said = 0;
        for piece in std::iter::once(&first).chain(then.iter().cycle()) {
            if said >= FLOOD_BYTES || !say(&mut stream, piece, reads).await {
                break;
            }
            said += piece.len();
        }
        // Another association goes on, and the flood was no test if nobody took it.
        beside.transfer(&apdus::apdu("message")).await;
        node.wait_for("relayed", 2).await;
        assert!(hub.taken().len() >= 2);
        assert!(said >= 1 << 20, "{name}: {said} octets");
        println!("{name}: {said} octets, grown by {}", high_water_bytes() - start);
    });
}

/// What is said once, and what is said over and over behind it.
fn pieces(what: &str) -> (Vec<u8>, Vec<Vec<u8>>) {
    let filler = |octet: u8| vec![say::slice(&vec![octet; PIECE_BYTES])];
    // In an EXTERNAL that has no end.
    let begin = |apdu: &[u8]| say::slice(&[&[0x28, 0x80, 2, 1, 5, 0xa0, 0x80][..], apdu].concat());
    // A message, its envelope, and a field in that which nobody knows, each of a gigabyte.
    let endless = begin(&[
        0xa0, 0x84, 0x40, 0, 0, 0, 0x31, 0x84, 0x3f, 0, 0, 0, 0x9f, 0x63, 0x84, 0x3e, 0, 0, 0,
    ]);
    match what {
        "rubbish" => (begin(&[0xa7, 0x84, 0x40, 0, 0, 0]), filler(4)),
        "envelope" => (endless, filler(0)),
        "octets" => (endless, vec![say::slice(&[0]).repeat(2_000)]),
        "content" => {
            let apdu = apdus::apdu("content-1");
            let envelope = apdu.get(ENVELOPE_AT..apdu.len() - 3).expect("an envelope");
            let front = [&[0xa0, 0x84, 0x40, 0, 0, 0][..], envelope, &[4, 0x84, 0x3e, 0, 0, 0]];
            (begin(&front.concat()), filler(b'x'))
        }
        "recipients" => {
            let whole = ["DT others-6000", "AE 1", "AS"].map(say::octets).concat();
            (whole.clone(), vec![whole])
        }
        "points" => {
            let points: Vec<Vec<u8>> =
                (1..=200_000).map(|n| say::octets(&format!("MIP {n}"))).collect();
            (Vec::new(), points.chunks(1_000).map(<[Vec<u8>]>::concat).collect())
        }
        other => panic!("{other}"),
    }
}

/// Whether it was taken. What is answered is read, or not.
async fn say(stream: &mut DuplexStream, octets: &[u8], reads: bool) -> bool {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let write = timeout(Duration::from_secs(3_600), writer.write_all(octets));
    let read = async {
        let mut buffer = vec![0; 65_536];
        while reads && matches!(reader.read(&mut buffer).await, Ok(1..)) {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        written = write => matches!(written, Ok(Ok(()))),
        () = read => false,
    }
}

/// The most memory that this process ever had.
fn high_water_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 =
        kib.and_then(|kib| kib.trim().strip_suffix(" kB")?.parse().ok()).expect("a size");
    kib << 10
}
