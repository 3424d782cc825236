//! Checks of who sends: any message, any DNS.

use auth::checks::{CheckSelection, Subject, Verdicts, check};
use auth::forged::AuthresRenamer;
use auth::records::{DnsAnswer, Family, Records};
use auth::results::lines;
use auth::spf::{Sender, SpfQuery};
use std::cell::Cell;
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The first byte says how the message is cut. Up to a byte 0 follows the message, and behind it records, with
/// bytes 0 between.
pub fn run(data: &[u8]) {
    let Some((step, rest)) = data.split_first() else { return };
    let step = usize::from(*step).max(1);
    let mut parts = rest.split(|byte| *byte == 0);
    let message = parts.next().unwrap_or_default();
    let records: Vec<&[u8]> = parts.collect();
    renamed(message, step);
    let verdicts = verdicts(message, step, &records);
    assert_eq!(verdicts, self::verdicts(message, usize::MAX, &records), "in pieces of {step}");
    for line in lines("mx.test", &verdicts) {
        assert!(
            line.len() <= 998 && line.bytes().all(|byte| (b' '..=b'~').contains(&byte)),
            "{line}"
        );
    }
}

/// Nothing moves, cuts change nothing, and what was renamed stays so.
fn renamed(message: &[u8], step: usize) {
    let rename = |message: &[u8], step: usize| {
        let (mut renamer, mut out) = (AuthresRenamer::new("mx.test"), Vec::new());
        message
            .chunks(step)
            .for_each(|piece| renamer.push(piece, |bytes| out.extend_from_slice(bytes)));
        renamer.finish(|bytes| out.extend_from_slice(bytes));
        out
    };
    let once = rename(message, step);
    assert_eq!(once.len(), message.len());
    assert_eq!(once, rename(message, usize::MAX), "in pieces of {step}");
    assert_eq!(once, rename(&once, 1));
}

/// Answers each question with the next record.
struct Any<'a> {
    records: &'a [&'a [u8]],
    asked: Cell<usize>,
}

impl<'a> Any<'a> {
    fn next(&self) -> Option<&'a [u8]> {
        let asked = self.asked.replace(self.asked.get() + 1);
        // Ten signatures, two policies with their terms, a chain.
        assert!(asked < 400, "it asks for ever");
        self.records.get(asked % self.records.len().max(1)).copied()
    }

    fn text(&self) -> Vec<String> {
        self.next().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).into_iter().collect()
    }
}

impl Records for Any<'_> {
    async fn txt(&self, _name: &str) -> DnsAnswer<Vec<u8>> {
        Ok(self.next().map(<[u8]>::to_vec).into_iter().collect())
    }

    async fn addresses(&self, _host: &str, family: Family) -> DnsAnswer<IpAddr> {
        let address =
            self.next().and_then(|bytes| bytes.first().copied()).map(|byte| match family {
                Family::V4 => IpAddr::from([192, 0, 2, byte]),
                Family::V6 => IpAddr::from([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte]),
            });
        Ok(address.into_iter().collect())
    }

    async fn mail_hosts(&self, _domain: &str) -> DnsAnswer<String> {
        Ok(self.text())
    }

    async fn names(&self, _address: IpAddr) -> DnsAnswer<String> {
        Ok(self.text())
    }
}

fn verdicts(message: &[u8], step: usize, records: &[&[u8]]) -> Verdicts {
    let asked = CheckSelection { spf: true, dkim: true, dmarc: true, arc: true, iprev: false };
    let mut scan = asked.scan();
    message.chunks(step).for_each(|piece| scan.push(piece));
    let message = scan.finish();
    let sender = Sender { local: "jo", domain: "a.test" };
    let client = "192.0.2.1".parse().expect("an address");
    let (helo, receiver) = ("h.test", "mx.test");
    let question = SpfQuery { client, sender: Some(sender), helo, receiver, now: 1 };
    let subject = Subject { question: Some(question), message: &message, now: 1, chance: 0 };
    let dns = Any { records, asked: Cell::new(0) };
    let mut checking = pin!(check(&dns, asked, subject));
    // It lets others run between signatures.
    for _ in 0..100 {
        let polled = checking.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(verdicts) = polled {
            return verdicts;
        }
    }
    panic!("it waits")
}
