//! A thousand APDUs come back as they were.

use crate::generate::{Generator, Made};
use mail::Random;

/// Reads an APDU of the kind that was made.
pub(crate) fn read(octets: &[u8], made: &Made) -> Made {
    match made {
        Made::Report(..) => {
            let (envelope, _, content) = crate::report(octets);
            Made::Report(Box::new(envelope), Box::new(content))
        }
        Made::Message(..) => {
            let (envelope, _, content) = crate::message(octets);
            Made::Message(Box::new(envelope), content)
        }
        Made::Probe(_) => Made::Probe(Box::new(crate::message(octets).0)),
    }
}

#[test]
fn a_thousand_come_back() {
    let mut generator = Generator { random: Random::new(0x0400), has_zones: true };
    for number in 0..1_000 {
        let made = generator.apdu();
        let octets = made.encode();
        let read = read(&octets, &made);
        assert_eq!(read, made, "number {number}");
        assert_eq!(read.encode(), octets);
    }
}
