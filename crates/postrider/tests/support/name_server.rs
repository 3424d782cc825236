//! A name server that says what a test tells it to, over UDP.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::{Arc, Mutex};

const A: u16 = 1;
const MX: u16 = 15;
const AAAA: u16 = 28;

/// What a name has.
#[derive(Clone, Debug, Default)]
struct Name {
    mx: Vec<(u16, String)>,
    addresses: Vec<IpAddr>,
    /// SERVFAIL to all questions.
    fails: bool,
}

type Zones = Arc<Mutex<BTreeMap<String, Name>>>;

/// A scripted name server. Names that it was not told of do not exist. Its thread ends with the
/// test's process.
pub struct NameServer {
    /// `127.0.0.1:PORT`.
    pub address: String,
    zones: Zones,
}

impl NameServer {
    /// Listens on a free port, and knows nothing.
    pub fn start() -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("it is bound").to_string();
        let zones = Zones::default();
        let known = Arc::clone(&zones);
        std::thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let zones = known.lock().expect("no panic");
                if let Some(answer) = answer(&buffer[..length], &zones) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        NameServer { address, zones }
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Name)) {
        change(self.zones.lock().expect("no panic").entry(name.to_owned()).or_default());
    }

    /// The domain has these MX records from now on.
    pub fn mx(&self, domain: &str, records: &[(u16, &str)]) {
        let records = records.iter().map(|(preference, host)| (*preference, (*host).to_owned()));
        self.change(domain, |name| name.mx = records.collect());
    }

    /// The host has these addresses from now on.
    pub fn host(&self, host: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().expect("an address"));
        self.change(host, |name| name.addresses = addresses.collect());
    }

    /// Questions about this name are answered with SERVFAIL.
    pub fn fail(&self, domain: &str) {
        self.change(domain, |name| name.fails = true);
    }

    /// The section of a configuration that has this server asked.
    pub fn section(&self) -> String {
        format!("[dns]\nservers = [\"{}\"]\n", self.address)
    }
}

/// RFC 1035 §4.1.
fn answer(query: &[u8], zones: &BTreeMap<String, Name>) -> Option<Vec<u8>> {
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
    let question_type = u16::from_be_bytes([*query.get(at)?, *query.get(at + 1)?]);
    let question = query.get(12..at + 4)?;
    let name = zones.get(&labels.join("."));
    let records = name.map_or(Vec::new(), |name| data(name, question_type));
    let code = match name {
        None => 3,
        Some(name) if name.fails => 2,
        Some(_) => 0,
    };
    let mut answer = query.get(..2)?.to_vec();
    // A response, recursion desired and available.
    answer.extend([0x81, 0x80 | code]);
    let count = u16::try_from(records.len()).ok()?;
    answer.extend([0, 1].iter().chain(&count.to_be_bytes()).chain(&[0, 0, 0, 0]));
    answer.extend(question);
    for data in records {
        // The name of the question, class IN, a TTL of a second.
        answer.extend([0xC0, 12]);
        answer.extend(question_type.to_be_bytes());
        answer.extend([0, 1, 0, 0, 0, 1]);
        answer.extend(u16::try_from(data.len()).ok()?.to_be_bytes());
        answer.extend(data);
    }
    Some(answer)
}

fn data(name: &Name, question_type: u16) -> Vec<Vec<u8>> {
    if name.fails {
        return Vec::new();
    }
    let of_family = |address: &IpAddr| match (address, question_type) {
        (IpAddr::V4(address), A) => Some(address.octets().to_vec()),
        (IpAddr::V6(address), AAAA) => Some(address.octets().to_vec()),
        _ => None,
    };
    let mx = |(preference, host): &(u16, String)| {
        let mut data = preference.to_be_bytes().to_vec();
        for label in host.split('.').filter(|label| !label.is_empty()) {
            data.push(u8::try_from(label.len()).expect("a label"));
            data.extend(label.bytes());
        }
        data.push(0);
        data
    };
    match question_type {
        MX => name.mx.iter().map(mx).collect(),
        _ => name.addresses.iter().filter_map(of_family).collect(),
    }
}
