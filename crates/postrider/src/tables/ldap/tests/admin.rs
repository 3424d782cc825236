//! Who changes the tests' directory: a client that may write (RFC 4511 §4.6 to §4.8).

use super::peer::{element, message};
use std::io::{Read, Write};
use std::net::TcpStream;

/// A connection as the directory's administrator.
pub(super) struct Admin {
    stream: TcpStream,
    id: u8,
}

impl Admin {
    pub(super) fn connect(port: u16, dn: &str, password: &str) -> Admin {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("slapd listens");
        let mut admin = Admin { stream, id: 0 };
        let name = element(0x04, dn.as_bytes());
        let secret = element(0x80, password.as_bytes());
        admin.request(0x60, &[element(0x02, &[3]), name, secret].concat());
        admin
    }

    /// A person as those of the directory.
    pub(super) fn add(&mut self, dn: &str, attributes: &[(&str, &str)]) {
        let class = [("objectClass", "inetOrgPerson"), ("cn", "x"), ("sn", "x")];
        let list = class.iter().chain(attributes).map(|(name, value)| attribute(name, value));
        let list = element(0x30, &list.collect::<Vec<_>>().concat());
        self.request(0x68, &[element(0x04, dn.as_bytes()), list].concat());
    }

    /// Puts one value in the place of all that there are.
    pub(super) fn replace(&mut self, dn: &str, name: &str, value: &str) {
        let change = [element(0x0a, &[2]), attribute(name, value)].concat();
        let list = element(0x30, &element(0x30, &change));
        self.request(0x66, &[element(0x04, dn.as_bytes()), list].concat());
    }

    pub(super) fn delete(&mut self, dn: &str) {
        self.request(0x4a, dn.as_bytes());
    }

    /// Sends a request that must succeed.
    fn request(&mut self, tag: u8, body: &[u8]) {
        self.id += 1;
        let request = message(self.id, &element(tag, body));
        self.stream.write_all(&request).expect("slapd reads");
        let mut head = [0; 2];
        self.stream.read_exact(&mut head).expect("an answer");
        let mut answer = vec![0; usize::from(head[1])];
        self.stream.read_exact(&mut answer).expect("an answer");
        // SEQUENCE { INTEGER id, [APPLICATION n] { ENUMERATED code, … } }: all of it short.
        assert_eq!(answer[5..8], [0x0a, 1, 0], "refused: {}", String::from_utf8_lossy(&answer));
    }
}

fn attribute(name: &str, value: &str) -> Vec<u8> {
    let values = element(0x31, &element(0x04, value.as_bytes()));
    element(0x30, &[element(0x04, name.as_bytes()), values].concat())
}
