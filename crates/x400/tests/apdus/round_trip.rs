//! A thousand APDUs come back as they were.

use crate::generate::{Generator, Made};
use mail::Random;

#[test]
fn a_thousand_come_back() {
    let mut generator = Generator(Random::new(0x0400));
    for number in 0..1_000 {
        let made = generator.apdu();
        let octets = made.encode();
        let read = match &made {
            Made::Report(..) => {
                let (envelope, _, content) = crate::report(&octets);
                Made::Report(Box::new(envelope), Box::new(content))
            }
            Made::Message(..) => {
                let (envelope, _, content) = crate::message(&octets);
                Made::Message(Box::new(envelope), content)
            }
            Made::Probe(_) => Made::Probe(Box::new(crate::message(&octets).0)),
        };
        assert_eq!(read, made, "number {number}");
        assert_eq!(read.encode(), octets);
    }
}
