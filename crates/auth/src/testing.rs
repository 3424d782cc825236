//! A DNS in memory, for tests.

use crate::records::{DnsAnswer, Family, Records, Unanswered};
use std::cell::Cell;
use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// TXT records by names, and hosts; other kinds there are none of. A name with the text `?` gets no answer, one
/// with the text `!` is not asked for by our own limit.
#[derive(Debug, Default)]
pub(crate) struct Zone {
    pub(crate) txt: Vec<(&'static str, String)>,
    /// Names that have mail hosts.
    pub(crate) hosts: Vec<&'static str>,
    pub(crate) asked: Cell<u32>,
}

impl Zone {
    pub(crate) fn of(txt: &[(&'static str, &str)]) -> Zone {
        let txt = txt.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        Zone { txt, ..Zone::default() }
    }
}

impl Records for Zone {
    async fn txt(&self, name: &str) -> DnsAnswer<Vec<u8>> {
        self.asked.set(self.asked.get() + 1);
        let texts = self.txt.iter().filter(|(of, _)| *of == name).map(|(_, text)| text.clone());
        let texts: Vec<String> = texts.collect();
        if texts.iter().any(|text| text == "?") {
            return Err(Unanswered::NoAnswer("timeout".into()));
        }
        if texts.iter().any(|text| text == "!") {
            return Err(Unanswered::OurLimit("too many lookups".into()));
        }
        Ok(texts.into_iter().map(String::into_bytes).collect())
    }

    async fn addresses(&self, _host: &str, _family: Family) -> DnsAnswer<IpAddr> {
        Ok(Vec::new())
    }

    async fn mail_hosts(&self, domain: &str) -> DnsAnswer<String> {
        Ok(self.hosts.iter().filter(|host| **host == domain).map(|host| (*host).into()).collect())
    }

    async fn names(&self, _address: IpAddr) -> DnsAnswer<String> {
        Ok(Vec::new())
    }
}

/// What a future gives that waits for nothing; it may let others run.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..1_000 {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
    }
    panic!("it waits");
}
