//! TLS failures of a next hop's addresses, and the fallback to clear text.

use mail::Mono;
use mta::seams::Endpoint;
use std::cell::RefCell;
use std::time::Duration;

/// Time for which TLS is not tried after it failed. The host may be repaired, or the failure may have been an
/// exception.
const CLEAR_FOR: Duration = Duration::from_secs(3600);

/// Time for which TLS must have failed before mail goes in clear to a host that used TLS before. A single failed
/// handshake is no reason, and an attacker on the path can cause one.
const CLEAR_AFTER: Duration = Duration::from_secs(300);

/// Maximum number of addresses remembered for a next hop. The oldest is dropped first.
const LESSONS_MAX: usize = 64;

#[derive(Debug)]
struct TlsFallback {
    peer: Endpoint,
    /// Time of the first of the uninterrupted failures.
    since: Mono,
    /// Time at which the fallback began, and its end.
    clear: Option<(Mono, Mono)>,
}

/// By address, the latest last.
#[derive(Debug, Default)]
pub(super) struct TlsFallbacks(RefCell<Vec<TlsFallback>>);

impl TlsFallbacks {
    /// Records a TLS failure. Returns true if mail may go in clear: at once if `was_encrypted` is false, otherwise
    /// after repeated failures.
    pub(super) fn failed(&self, now: Mono, peer: &Endpoint, was_encrypted: bool) -> bool {
        let mut all = self.0.borrow_mut();
        let known = all.iter().position(|learnt| learnt.peer == *peer);
        let mut learnt = match known {
            Some(at) => all.remove(at),
            None => TlsFallback { peer: peer.clone(), since: now, clear: None },
        };
        let may_be_clear = !was_encrypted || now >= learnt.since + CLEAR_AFTER;
        if may_be_clear {
            learnt.clear = Some((now, now + CLEAR_FOR));
        }
        if all.len() == LESSONS_MAX {
            all.remove(0);
        }
        all.push(learnt);
        may_be_clear
    }

    /// Returns true if STARTTLS is not used. Fallbacks that began before `retried_at` are ignored.
    pub(super) fn is_unusable(&self, now: Mono, peer: &Endpoint, retried_at: Mono) -> bool {
        let all = self.0.borrow();
        let clear = all.iter().find(|learnt| learnt.peer == *peer).and_then(|learnt| learnt.clear);
        clear.is_some_and(|(at, until)| at > retried_at && now < until)
    }

    /// The host refuses mail in clear that it may accept over TLS, so TLS is tried again.
    pub(super) fn doubt(&self, peer: &Endpoint) {
        for learnt in self.0.borrow_mut().iter_mut().filter(|learnt| learnt.peer == *peer) {
            learnt.clear = None;
        }
    }

    /// A connection was encrypted.
    pub(super) fn succeeded(&self, peer: &Endpoint) {
        self.0.borrow_mut().retain(|learnt| learnt.peer != *peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn host(n: u16) -> Endpoint {
        Endpoint::Tcp(SocketAddr::from(([192, 0, 2, 1], n)))
    }

    #[test]
    fn a_host_that_never_did_is_spared_tls_for_a_while() {
        let lessons = TlsFallbacks::default();
        let now = Mono(7);
        assert!(lessons.failed(now, &host(1), false));
        assert!(lessons.is_unusable(now, &host(1), Mono(0)));
        assert!(!lessons.is_unusable(now, &host(2), Mono(0)));
        assert!(!lessons.is_unusable(now + CLEAR_FOR, &host(1), Mono(0)), "it may be mended");
        assert!(!lessons.is_unusable(now, &host(1), now), "an operator wants to know");
        lessons.doubt(&host(1));
        assert!(!lessons.is_unusable(now, &host(1), Mono(0)));
    }

    #[test]
    fn a_host_that_was_encrypted_is_not_spoken_to_in_clear_for_one_failure() {
        let lessons = TlsFallbacks::default();
        let now = Mono(7);
        assert!(!lessons.failed(now, &host(1), true));
        assert!(!lessons.is_unusable(now, &host(1), Mono(0)));
        let later = now + CLEAR_AFTER;
        assert!(!lessons.failed(Mono(later.0 - 1), &host(1), true));
        assert!(lessons.failed(later, &host(1), true));
        assert!(lessons.is_unusable(later, &host(1), Mono(0)));
        lessons.succeeded(&host(1));
        assert!(!lessons.failed(later, &host(1), true), "from the beginning");
    }

    #[test]
    fn memory_is_bounded() {
        let lessons = TlsFallbacks::default();
        for n in 0..=LESSONS_MAX as u16 {
            lessons.failed(Mono(3), &host(n), false);
        }
        assert_eq!(lessons.0.borrow().len(), LESSONS_MAX);
        assert!(!lessons.is_unusable(Mono(4), &host(0), Mono(0)));
    }
}
