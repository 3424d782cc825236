//! A name server that says what a test tells it to, over UDP and TCP.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const A: u16 = 1;
const CNAME: u16 = 5;
const PTR: u16 = 12;
const MX: u16 = 15;
const TXT: u16 = 16;
const AAAA: u16 = 28;

/// An answer over UDP has no more octets: what a resolver asks for with EDNS today.
const UDP_BYTES_MAX: usize = 1232;

/// What is wrong with the answers about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// SERVFAIL.
    Fails,
    /// This response code, whatever is asked.
    Code(u8),
    /// The servers of the root, instead of an answer: it looks nothing up.
    Referral,
    /// SERVFAIL to who asks for IPv4 addresses.
    FailsIpv4,
    /// There are none.
    Silent,
    /// There are none about what it has no records of.
    SilentOtherwise,
    /// Those over UDP end after [`UDP_BYTES_MAX`] octets and don't say so.
    Cut,
    /// Those over UDP say that they are truncated; asked over TCP it closes the connection.
    OnlyTruncated,
    /// They are octets that are no answer.
    Garbage,
}

/// What a name has.
#[derive(Clone, Debug, Default)]
struct Name {
    mx: Vec<(u16, String)>,
    addresses: Vec<IpAddr>,
    texts: Vec<String>,
    /// What an address is called.
    names: Vec<String>,
    alias: Option<String>,
    fault: Option<Fault>,
}

/// The addresses of names that were not told of.
type Any = Box<dyn Fn(&str) -> [u8; 4] + Send + Sync>;

struct State {
    names: Mutex<BTreeMap<String, Name>>,
    any: Option<Any>,
    answers: AtomicBool,
    asked: AtomicU64,
    /// How long answers count, in seconds.
    ttl: AtomicU32,
}

/// A scripted name server. Its threads end with the test's process.
pub struct NameServer {
    /// `127.0.0.1:PORT`.
    pub address: String,
    state: Arc<State>,
}

impl NameServer {
    /// Listens on a free port, and knows nothing: names that it was not told of do not exist.
    pub fn start() -> NameServer {
        NameServer::start_with(None, sockets())
    }

    /// The same at an address and port.
    pub fn start_at(address: &str) -> NameServer {
        let udp = UdpSocket::bind(address).expect("the address is free");
        let tcp = TcpListener::bind(address).expect("the address is free");
        NameServer::start_with(None, (udp, tcp))
    }

    /// The same, but every other name exists: the MX of `d.test` is `mx.d.test`, whose address
    /// `address` gives.
    pub fn of_any(address: impl Fn(&str) -> [u8; 4] + Send + Sync + 'static) -> NameServer {
        NameServer::start_with(Some(Box::new(address)), sockets())
    }

    fn start_with(any: Option<Any>, (udp, tcp): (UdpSocket, TcpListener)) -> NameServer {
        let address = udp.local_addr().expect("it is bound").to_string();
        let state = Arc::new(State {
            names: Mutex::default(),
            any,
            answers: AtomicBool::new(true),
            asked: AtomicU64::new(0),
            ttl: AtomicU32::new(1),
        });
        let (of_udp, of_tcp) = (Arc::clone(&state), Arc::clone(&state));
        std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            while let Ok((length, from)) = udp.recv_from(&mut buffer) {
                if let Some(answer) = of_udp.answer(&buffer[..length], false) {
                    let _ = udp.send_to(&answer, from);
                }
            }
        });
        std::thread::spawn(move || {
            for stream in tcp.incoming().map_while(Result::ok) {
                let state = Arc::clone(&of_tcp);
                std::thread::spawn(move || state.serve(stream));
            }
        });
        NameServer { address, state }
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Name)) {
        change(self.state.names.lock().expect("no panic").entry(name.to_owned()).or_default());
    }

    /// The domain has these MX records from now on.
    pub fn mx(&self, domain: &str, records: &[(u16, &str)]) {
        let records = records.iter().map(|(preference, host)| (*preference, (*host).to_owned()));
        self.change(domain, |name| name.mx = records.collect());
    }

    /// The name has these TXT records from now on.
    pub fn txt(&self, name: &str, records: &[&str]) {
        let records = records.iter().map(|text| (*text).to_owned());
        self.change(name, |name| name.texts = records.collect());
    }

    /// The host has these addresses from now on.
    pub fn host(&self, host: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().expect("an address"));
        self.change(host, |name| name.addresses = addresses.collect());
    }

    /// The IPv4 address has these names from now on (RFC 1035 §3.5).
    pub fn names(&self, address: [u8; 4], names: &[&str]) {
        let [a, b, c, d] = address;
        let names = names.iter().map(|name| (*name).to_owned());
        self.change(&format!("{d}.{c}.{b}.{a}.in-addr.arpa"), |name| name.names = names.collect());
    }

    /// The same by the name that an address has for that.
    pub fn pointer(&self, name: &str, names: &[&str]) {
        let names = names.iter().map(|name| (*name).to_owned());
        self.change(name, |name| name.names = names.collect());
    }

    /// Knows nothing any more.
    pub fn forget_all(&self) {
        self.state.names.lock().expect("no panic").clear();
    }

    /// The name is another one's alias (RFC 1035 §3.3.1).
    pub fn alias(&self, name: &str, target: &str) {
        self.change(name, |name| name.alias = Some(target.to_owned()));
    }

    /// Nothing is wrong with answers about this name any more.
    pub fn mend(&self, name: &str) {
        self.change(name, |name| name.fault = None);
    }

    /// What is wrong with answers about this name from now on.
    pub fn fault(&self, name: &str, fault: Fault) {
        self.change(name, |name| name.fault = Some(fault));
    }

    /// Answers from now on, or falls silent.
    pub fn set_answering(&self, answers: bool) {
        self.state.answers.store(answers, Ordering::Relaxed);
    }

    /// Answers count for so many seconds from now on; at first, for one.
    pub fn set_ttl(&self, seconds: u32) {
        self.state.ttl.store(seconds, Ordering::Relaxed);
    }

    /// Questions so far.
    pub fn asked(&self) -> u64 {
        self.state.asked.load(Ordering::Relaxed)
    }

    /// The section of a configuration that has this server asked.
    pub fn section(&self) -> String {
        format!("[dns]\nservers = [\"{}\"]\n", self.address)
    }
}

/// The same port over UDP and TCP.
fn sockets() -> (UdpSocket, TcpListener) {
    loop {
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = udp.local_addr().expect("it is bound");
        if let Ok(tcp) = TcpListener::bind(address) {
            return (udp, tcp);
        }
    }
}

impl State {
    /// RFC 1035 §4.2.2. `None` at the connection's end.
    fn serve(&self, mut stream: TcpStream) -> Option<()> {
        let mut length = [0; 2];
        loop {
            stream.read_exact(&mut length).ok()?;
            let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut query).ok()?;
            let answer = self.answer(&query, true)?;
            let length = u16::try_from(answer.len()).ok()?.to_be_bytes();
            stream.write_all(&[&length[..], &answer].concat()).ok()?;
        }
    }

    fn name(&self, name: &str) -> Option<Name> {
        let told = self.names.lock().expect("no panic").get(name).cloned();
        let any = || {
            let address = self.any.as_ref()?(name);
            let mx = vec![(10, format!("mx.{name}"))];
            Some(Name { mx, addresses: vec![address.into()], ..Name::default() })
        };
        told.or_else(any)
    }

    fn answer(&self, query: &[u8], is_tcp: bool) -> Option<Vec<u8>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let question = Question::read(query)?;
        let name = self.name(&question.name);
        let fault = name.as_ref().and_then(|name| name.fault);
        if !self.answers.load(Ordering::Relaxed) {
            return None;
        }
        match fault {
            Some(Fault::OnlyTruncated) if is_tcp => return None,
            Some(Fault::OnlyTruncated) => return Some(question.reply(TRUNCATED, 0, &[])),
            Some(Fault::Garbage) => return Some([&query[..2], &[0xFF; 40]].concat()),
            Some(Fault::Code(code)) => return Some(question.reply(code.into(), 0, &[])),
            Some(Fault::Referral) => return Some(question.referral()),
            Some(Fault::Fails) => return Some(question.reply(SERVFAIL, 0, &[])),
            Some(Fault::FailsIpv4) if question.kind == A => {
                return Some(question.reply(SERVFAIL, 0, &[]));
            }
            Some(Fault::Silent) => return None,
            Some(Fault::Cut | Fault::FailsIpv4 | Fault::SilentOtherwise) | None => {}
        }
        let Some(name) = name else { return Some(question.reply(NXDOMAIN, 0, &[])) };
        let ttl = self.ttl.load(Ordering::Relaxed);
        let records = self.records(&name, &question);
        if fault == Some(Fault::SilentOtherwise) && records.is_empty() {
            return None;
        }
        let mut reply = question.reply(0, ttl, &records);
        if !is_tcp && reply.len() > UDP_BYTES_MAX {
            match fault {
                Some(Fault::Cut) => reply.truncate(UDP_BYTES_MAX),
                _ => return Some(question.reply(TRUNCATED, 0, &[])),
            }
        }
        Some(reply)
    }

    fn records(&self, name: &Name, question: &Question<'_>) -> Vec<(String, u16, Vec<u8>)> {
        let mut owner = question.name.clone();
        let mut records = Vec::new();
        let mut name = name.clone();
        while let Some(target) = name.alias {
            records.push((owner, CNAME, written(&target)));
            name = self.name(&target).unwrap_or_default();
            owner = target;
        }
        let of_family = |address: &IpAddr| match (address, question.kind) {
            (IpAddr::V4(address), A) => Some(address.octets().to_vec()),
            (IpAddr::V6(address), AAAA) => Some(address.octets().to_vec()),
            _ => None,
        };
        let mx = |(preference, host): &(u16, String)| {
            [&preference.to_be_bytes()[..], &written(host)].concat()
        };
        let data: Vec<_> = match question.kind {
            MX => name.mx.iter().map(mx).collect(),
            PTR => name.names.iter().map(|name| written(name)).collect(),
            TXT => name.texts.iter().map(|text| strings(text)).collect(),
            _ => name.addresses.iter().filter_map(of_family).collect(),
        };
        records.extend(data.into_iter().map(|data| (owner.clone(), question.kind, data)));
        records
    }
}

/// RFC 1035 §3.1.
fn written(name: &str) -> Vec<u8> {
    let mut data = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        data.push(u8::try_from(label.len()).expect("a label"));
        data.extend(label.bytes());
    }
    data.push(0);
    data
}

/// RFC 1035 §3.3.14: strings of up to 255 octets.
fn strings(text: &str) -> Vec<u8> {
    let string = |piece: &[u8]| {
        let length = u8::try_from(piece.len()).expect("a short string");
        [&[length], piece].concat()
    };
    text.as_bytes().chunks(255).flat_map(string).collect()
}

/// RFC 1035 §4.1.1: TC and response codes, as the second half of the flags.
const TRUNCATED: u16 = 0x0200;
const SERVFAIL: u16 = 2;
const NXDOMAIN: u16 = 3;

/// The only question of a query, RFC 1035 §4.1.
struct Question<'a> {
    id: &'a [u8],
    bytes: &'a [u8],
    /// In lower case.
    name: String,
    kind: u16,
}

impl Question<'_> {
    fn read(query: &[u8]) -> Option<Question<'_>> {
        let mut at = 12;
        let mut labels = Vec::new();
        loop {
            let length = usize::from(*query.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_ascii_lowercase());
            at += length;
        }
        let bytes = query.get(12..at + 4)?;
        let kind = u16::from_be_bytes([query[at], query[at + 1]]);
        Some(Question { id: &query[..2], bytes, name: labels.join("."), kind })
    }

    /// RFC 1035 §4.3.2: where to ask, in the authority section.
    fn referral(&self) -> Vec<u8> {
        let mut reply = self.reply(0, 0, &[]);
        reply[9] = 1;
        reply.push(0);
        // NS, IN, a time to live, and a name.
        let name = written("a.root-servers.net");
        reply.extend([0, 2, 0, 1, 0, 0, 0, 60, 0]);
        reply.push(u8::try_from(name.len()).expect("a length"));
        reply.extend(name);
        reply
    }

    /// Without what EDNS may have added to the query.
    fn reply(&self, flags: u16, ttl: u32, records: &[(String, u16, Vec<u8>)]) -> Vec<u8> {
        let mut reply = self.id.to_vec();
        // A response; recursion desired and available.
        reply.extend((0x8180 | flags).to_be_bytes());
        let count = u16::try_from(records.len()).expect("a count");
        reply.extend([0, 1].iter().chain(&count.to_be_bytes()).chain(&[0, 0, 0, 0]));
        reply.extend(self.bytes);
        for (owner, kind, data) in records {
            match *owner == self.name {
                // The name of the question, by a pointer to it.
                true => reply.extend([0xC0, 12]),
                false => reply.extend(written(owner)),
            }
            reply.extend(kind.to_be_bytes());
            // Class IN.
            reply.extend([0, 1]);
            reply.extend(ttl.to_be_bytes());
            reply.extend(u16::try_from(data.len()).expect("a length").to_be_bytes());
            reply.extend(data);
        }
        reply
    }
}
