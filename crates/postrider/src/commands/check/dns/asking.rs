//! A DNS client that stops after too many failures, and progress of the checks.

use auth::records::{DnsAnswer, Family, Records, Unanswered};
use std::cell::Cell;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Maximum number of unanswered queries in a row, after which no more are sent.
const SILENCE_MAX: u32 = 20;

/// Between two lines about how far it is.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Asks while there are answers.
pub(super) struct DnsProber<R> {
    dns: R,
    unanswered: Cell<u32>,
}

impl<R> DnsProber<R> {
    pub(super) fn new(dns: R) -> DnsProber<R> {
        DnsProber { dns, unanswered: Cell::new(0) }
    }

    /// The answer to a query, unless too many before it had none.
    async fn ask<T>(&self, question: impl AsyncFnOnce(&R) -> DnsAnswer<T>) -> DnsAnswer<T> {
        if self.unanswered.get() >= SILENCE_MAX {
            return Err(Unanswered::NoAnswer("skipped: the name servers do not respond".into()));
        }
        let answer = question(&self.dns).await;
        self.unanswered.set(if answer.is_err() { self.unanswered.get() + 1 } else { 0 });
        answer
    }
}

impl<R: Records> Records for DnsProber<R> {
    async fn txt(&self, name: &str) -> DnsAnswer<Vec<u8>> {
        self.ask(async |dns| dns.txt(name).await).await
    }

    async fn addresses(&self, host: &str, family: Family) -> DnsAnswer<IpAddr> {
        self.ask(async |dns| dns.addresses(host, family).await).await
    }

    async fn mail_hosts(&self, domain: &str) -> DnsAnswer<String> {
        self.ask(async |dns| dns.mail_hosts(domain).await).await
    }

    async fn names(&self, address: IpAddr) -> DnsAnswer<String> {
        self.ask(async |dns| dns.names(address).await).await
    }
}

/// A line on standard error every few seconds, where it takes that long.
pub(super) struct DnsCheckProgress {
    noun: &'static str,
    total: usize,
    begun: Instant,
    told: Instant,
}

impl DnsCheckProgress {
    pub(super) fn new(noun: &'static str, total: usize) -> DnsCheckProgress {
        let now = Instant::now();
        DnsCheckProgress { noun, total, begun: now, told: now }
    }

    /// Reports progress.
    pub(super) fn tell(&mut self, done: usize) {
        if self.told.elapsed() < LINE_INTERVAL {
            return;
        }
        self.told = Instant::now();
        let seconds = self.begun.elapsed().as_secs();
        eprintln!("{seconds:>5} s: {done} of {} {}", self.total, self.noun);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It has no answer, and counts how often it was asked.
    #[derive(Default)]
    struct Dead(Cell<u32>);

    impl Records for Dead {
        async fn txt(&self, name: &str) -> DnsAnswer<Vec<u8>> {
            self.0.set(self.0.get() + 1);
            if name == "here.test" {
                Ok(Vec::new())
            } else {
                Err(Unanswered::NoAnswer("timeout".into()))
            }
        }

        async fn addresses(&self, _: &str, _: Family) -> DnsAnswer<IpAddr> {
            Ok(Vec::new())
        }

        async fn mail_hosts(&self, _: &str) -> DnsAnswer<String> {
            Ok(Vec::new())
        }

        async fn names(&self, _: IpAddr) -> DnsAnswer<String> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn who_does_not_answer_is_left_alone_after_a_while() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let asking = DnsProber::new(Dead::default());
        let ask = |name: &str| runtime.block_on(asking.txt(name));
        for _ in 1..SILENCE_MAX {
            assert!(ask("gone.test").is_err());
        }
        assert!(ask("here.test").is_ok(), "an answer begins the count anew");
        for _ in 0..2 * SILENCE_MAX {
            assert!(ask("gone.test").is_err());
        }
        assert_eq!(asking.dns.0.get(), SILENCE_MAX - 1 + 1 + SILENCE_MAX);
        assert!(ask("here.test").is_err());
    }
}
