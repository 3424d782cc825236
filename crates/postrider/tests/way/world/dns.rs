//! The DNS of the test's world.

use mta::seams::{Dns, DnsError, Mx};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;
use tokio::time::Instant;

/// What a domain's MX records are.
type MxAnswer = Result<Vec<Mx>, DnsError>;

/// What an address is called; `None`: nobody answers.
type NamesAnswer = Option<Result<Vec<String>, DnsError>>;

/// Names in a table; what isn't there does not exist.
#[derive(Default)]
pub(crate) struct TestDns {
    pub(super) mx: RefCell<BTreeMap<String, Result<Vec<Mx>, DnsError>>>,
    pub(super) addresses: RefCell<BTreeMap<String, Result<Vec<IpAddr>, DnsError>>>,
    pub(super) names: RefCell<BTreeMap<IpAddr, NamesAnswer>>,
    pub(super) texts: RefCell<BTreeMap<String, Vec<u8>>>,
    pub(super) silent: RefCell<BTreeSet<String>>,
    pub(super) unanswered: RefCell<BTreeSet<String>>,
    /// How long answers take about names below zones.
    pub(super) slow: RefCell<BTreeMap<String, Duration>>,
    pub(super) is_at_hand: Cell<bool>,
    /// Names whose texts are remembered.
    pub(super) texts_at_hand: RefCell<BTreeSet<String>>,
    pub(super) asked: RefCell<Vec<String>>,
    /// How long MX records count; `None`: nothing is remembered.
    pub(super) lasts: Cell<Option<Duration>>,
    /// What is remembered of them, and until when.
    pub(super) remembered: RefCell<BTreeMap<String, (Instant, MxAnswer)>>,
}

impl TestDns {
    /// # Errors
    /// Nobody answered.
    async fn hear(&self, name: &str) -> Result<(), DnsError> {
        self.asked.borrow_mut().push(name.to_owned());
        if self.silent.borrow().contains(name) {
            std::future::pending().await
        }
        let slow =
            self.slow.borrow().iter().find(|(zone, _)| name.ends_with(*zone)).map(|(_, d)| *d);
        if let Some(takes) = slow {
            tokio::time::sleep(takes).await;
        }
        if self.is_unanswered(name) {
            tokio::time::sleep(Duration::from_secs(10)).await;
            return Err(DnsError::Transient("request timed out".to_owned()));
        }
        Ok(())
    }

    fn is_unanswered(&self, name: &str) -> bool {
        let below = |zone: &String| name.ends_with(zone) || zone.get(1..) == Some(name);
        self.unanswered.borrow().iter().any(below)
    }

    fn is_at_hand(&self, name: &str) -> bool {
        self.is_at_hand.get() && !self.is_unanswered(name)
    }
}

impl Dns for TestDns {
    async fn mx(&self, domain: &str) -> Result<Vec<Mx>, DnsError> {
        if let Some((until, answer)) = self.remembered.borrow().get(domain)
            && Instant::now() < *until
        {
            return answer.clone();
        }
        self.hear(domain).await?;
        let answer = self.mx.borrow().get(domain).cloned();
        let answer = answer.unwrap_or(Err(DnsError::NoSuchDomain));
        if let Some(lasts) = self.lasts.get() {
            let until = Instant::now() + lasts;
            self.remembered.borrow_mut().insert(domain.to_owned(), (until, answer.clone()));
        }
        answer
    }

    fn mx_lasts(&self, domain: &str) -> Duration {
        let Some(lasts) = self.lasts.get() else { return Duration::from_secs(300) };
        let remembered = self.remembered.borrow();
        let until = remembered.get(domain).filter(|_| !lasts.is_zero()).map(|(until, _)| *until);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    fn forget(&self, domain: &str) {
        self.remembered.borrow_mut().remove(domain);
    }

    async fn txt(&self, name: &str) -> Result<Vec<Vec<u8>>, DnsError> {
        self.hear(name).await?;
        let text = self.texts.borrow().get(name).cloned();
        text.map(|text| vec![text]).ok_or(DnsError::NoSuchDomain)
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        self.hear(host).await?;
        let answer = self.addresses.borrow().get(host).cloned();
        answer.unwrap_or(Err(DnsError::NoSuchDomain))
    }

    fn mx_at_hand(&self, domain: &str) -> Option<Result<Vec<Mx>, DnsError>> {
        self.mx.borrow().get(domain).filter(|_| self.is_at_hand(domain)).cloned()
    }

    fn addresses_at_hand(&self, host: &str) -> Option<Result<Vec<IpAddr>, DnsError>> {
        self.addresses.borrow().get(host).filter(|_| self.is_at_hand(host)).cloned()
    }

    fn txt_at_hand(&self, name: &str) -> Option<Result<Vec<Vec<u8>>, DnsError>> {
        let is_at_hand = self.is_at_hand(name) || self.texts_at_hand.borrow().contains(name);
        self.texts.borrow().get(name).filter(|_| is_at_hand).map(|text| Ok(vec![text.clone()]))
    }

    async fn names(&self, address: IpAddr) -> Result<Vec<String>, DnsError> {
        let answer = self.names.borrow().get(&address).cloned();
        match answer.unwrap_or(Some(Err(DnsError::NoSuchDomain))) {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}
