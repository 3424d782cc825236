//! What others make of what we say, and we of what they say: tshark dissects our two ends' conversations, a
//! client in Python and a peer in Node, whose ASN.1 was generated from the ITU's modules, transfer to us and
//! from us. Nobody of them shares code with us.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod apdus;
#[path = "../apdus/generate.rs"]
mod generate;
mod net;
mod pcap;
mod programs;
mod tshark;

use x400::testing::driver::responder;

/// An APDU that a client of PP transferred, as captured.
fn captured_apdu(capture: &str) -> Vec<u8> {
    let mut driver = responder(x400::association::ResponderSettings::default());
    let mut first = None;
    for line in capture.lines() {
        let mut columns = line.split('\t').skip(1);
        let (port, octets) = (columns.next().expect("a port"), columns.next().expect("octets"));
        if *first.get_or_insert(port) == port {
            let digits: Vec<u8> =
                octets.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
            let octets: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
            driver.feed(&octets);
        }
    }
    driver.received.pop().expect("an APDU")
}

/// A message of some hundred octets.
fn small_apdu() -> Vec<u8> {
    captured_apdu(include_str!("../association/golden/py2pp.hex"))
}

/// One of twelve thousand.
fn large_apdu() -> Vec<u8> {
    captured_apdu(include_str!("../association/golden/py2pp_ck.hex"))
}
