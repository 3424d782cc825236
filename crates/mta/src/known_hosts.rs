//! Learnt properties of target hosts, over all shards: the extensions of their last EHLO reply, and TLS on earlier
//! connections. They outlive the next hops of these hosts.

use mail::{Mono, Recent};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum number of hosts; a host that is not looked up while half as many new ones come is forgotten.
const HOSTS_MAX: usize = 20_000;
/// Time for which offers count: the host may change them.
const OFFERS_LAST: Duration = Duration::from_secs(3_600);
/// Time for which TLS is expected after an encrypted connection.
const ENCRYPTED_FOR: Duration = Duration::from_secs(86_400);

/// The extensions of a host that a message may need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// Maximum message size in octets (RFC 1870); `None` without a limit.
    pub size_max: Option<u64>,
    /// 8BITMIME (RFC 6152).
    pub eight_bit_mime: bool,
    /// SMTPUTF8 (RFC 6531).
    pub smtputf8: bool,
    /// REQUIRETLS (RFC 8689).
    pub require_tls: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct HostRecord {
    offers: Option<(Offers, Mono)>,
    encrypted_until: Option<Mono>,
}

/// Name or address of a host, and its port.
type HostPortKey = (Arc<str>, u16);

/// The cache. Its lock is taken when a connection is opened, and for mail that needs an extension.
#[derive(Debug)]
pub struct KnownHosts {
    by_host: Mutex<Recent<HostPortKey, HostRecord>>,
    /// The smallest size limit of all hosts: smaller messages need no lookup.
    size_min: AtomicU64,
}

impl Default for KnownHosts {
    fn default() -> KnownHosts {
        let by_host = Mutex::new(Recent::new(HOSTS_MAX));
        KnownHosts { by_host, size_min: AtomicU64::new(u64::MAX) }
    }
}

impl KnownHosts {
    /// Notes the EHLO reply of a host.
    pub fn note_offers(&self, now: Mono, name: &Arc<str>, port: u16, offers: Offers) {
        self.size_min.fetch_min(offers.size_max.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.change(name, port, |shown| shown.offers = Some((offers, now + OFFERS_LAST)));
    }

    /// Returns true if any host has a smaller limit.
    #[must_use]
    pub fn may_be_too_large(&self, bytes: u64) -> bool {
        bytes > self.size_min.load(Ordering::Relaxed)
    }

    /// Notes an encrypted connection to a host.
    pub fn note_encrypted(&self, now: Mono, name: &Arc<str>, port: u16) {
        self.change(name, port, |shown| shown.encrypted_until = Some(now + ENCRYPTED_FOR));
    }

    /// The extensions that a host offered last, unless too long ago.
    #[must_use]
    pub fn offers(&self, now: Mono, name: &Arc<str>, port: u16) -> Option<Offers> {
        let (offers, until) = self.shown(name, port)?.offers?;
        (now < until).then_some(offers)
    }

    /// Returns true if a connection to the host was encrypted lately.
    #[must_use]
    pub fn was_encrypted(&self, now: Mono, name: &Arc<str>, port: u16) -> bool {
        let until = self.shown(name, port).and_then(|shown| shown.encrypted_until);
        until.is_some_and(|until| now < until)
    }

    fn shown(&self, name: &Arc<str>, port: u16) -> Option<HostRecord> {
        let mut hosts = self.by_host.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.get(&(Arc::clone(name), port))
    }

    fn change(&self, name: &Arc<str>, port: u16, change: impl FnOnce(&mut HostRecord)) {
        let mut hosts = self.by_host.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (Arc::clone(name), port);
        let mut shown = hosts.get(&key).unwrap_or_default();
        change(&mut shown);
        hosts.insert(key, shown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_has_shown_is_believed_for_a_while() {
        let (hosts, mx) = (KnownHosts::default(), Arc::from("mx.far.test"));
        let now = Mono(5);
        assert_eq!(hosts.offers(now, &mx, 25), None);
        assert!(!hosts.was_encrypted(now, &mx, 25));
        assert!(!hosts.may_be_too_large(u64::MAX));
        let offers = Offers { size_max: Some(100), smtputf8: true, ..Offers::default() };
        hosts.note_offers(now, &mx, 25, offers);
        hosts.note_encrypted(now, &mx, 25);
        assert_eq!(hosts.offers(now, &mx, 25), Some(offers));
        assert!(hosts.may_be_too_large(101) && !hosts.may_be_too_large(100));
        assert_eq!(hosts.offers(now, &mx, 26), None, "another port");
        assert_eq!(hosts.offers(now + OFFERS_LAST, &mx, 25), None);
        assert!(hosts.was_encrypted(now + OFFERS_LAST, &mx, 25));
        assert!(!hosts.was_encrypted(now + ENCRYPTED_FOR, &mx, 25));
    }

    #[test]
    fn memory_is_bounded() {
        let hosts = KnownHosts::default();
        for n in 0..HOSTS_MAX * 2 {
            hosts.note_encrypted(Mono(1), &Arc::from(format!("h{n}.test")), 25);
        }
        assert!(hosts.by_host.lock().expect("not poisoned").len() <= HOSTS_MAX);
        assert!(hosts.was_encrypted(
            Mono(2),
            &Arc::from(format!("h{}.test", HOSTS_MAX * 2 - 1)),
            25
        ));
    }
}
