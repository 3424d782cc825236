//! GET at a server's administration address.

use std::io::{Read, Write};
use std::net::TcpStream;

/// The whole answer, headers included.
pub fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the admin address answers");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    text
}

/// A number in the text of `/metrics`, its labels added up.
pub fn metric(metrics: &str, name: &str) -> u64 {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let own = lines.filter(|rest| rest.starts_with([' ', '{']));
    own.filter_map(|rest| rest.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}
