//! Hosts that refuse all mail. The refusal is final after several repetitions.

use mail::{Failure, Mono};
use mta::routing::hosts::Host;
use std::cell::RefCell;
use std::time::Duration;

/// Minimum number of refusals.
const TIMES_MIN: u32 = 3;
/// Minimum time between the first and the last refusal. A single greeting may come from one faulty machine of many, or
/// from an attacker on the path.
const SAID_FOR: Duration = Duration::from_secs(900);

/// Maximum number of hosts remembered for a next hop, which seldom has more.
const HOSTS_MAX: usize = 64;

#[derive(Debug)]
struct HostRefusal {
    host: Host,
    times: u32,
    since: Mono,
}

/// Refusals of each host since its last greeting.
#[derive(Debug, Default)]
pub(super) struct Refusals(RefCell<Vec<HostRefusal>>);

impl Refusals {
    /// Returns true if the failure that keeps a host from accepting mail is final.
    pub(super) fn is_final(&self, now: Mono, host: &Host, failure: &Failure) -> bool {
        if !is_for_good(failure) {
            return false;
        }
        // RFC 5321 §5.1, or a loop: the failure is not a reply of the host.
        if failure.reply.is_none() {
            return true;
        }
        let mut all = self.0.borrow_mut();
        if let Some(said) = all.iter_mut().find(|said| said.host == *host) {
            said.times = said.times.saturating_add(1);
            return said.times >= TIMES_MIN && now >= said.since + SAID_FOR;
        }
        if all.len() < HOSTS_MAX {
            all.push(HostRefusal { host: host.clone(), times: 1, since: now });
        }
        false
    }

    /// A host has greeted.
    pub(super) fn greeted(&self, host: &Host) {
        self.0.borrow_mut().retain(|said| said.host != *host);
    }
}

/// Returns true for permanent failures of a host. RFC 7504 §3: a host with 521 never accepts mail. Any other 5yz
/// greeting refuses this client for now, as by a block list. The next host is tried, and later this one again.
pub(super) fn is_for_good(failure: &Failure) -> bool {
    match &failure.reply {
        Some(reply) => reply.code == 521,
        None => failure.class == mail::Class::Permanent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::{Class, EnhancedStatus, Reply, Step};

    fn said(code: u16) -> Failure {
        Failure::peer("mx.far.test", Reply::bare(code, "go away"), Step::Connect)
    }

    fn host(name: &str) -> Host {
        Host { name: name.into(), port: 25 }
    }

    #[test]
    fn a_host_that_takes_no_mail_says_so_again_and_again() {
        let refusals = Refusals::default();
        let (a, b, start) = (host("a"), host("b"), Mono(3));
        let end = start + SAID_FOR;
        assert!(!refusals.is_final(start, &a, &said(521)));
        assert!(!refusals.is_final(Mono(end.0 - 1), &a, &said(521)), "not long enough");
        assert!(!refusals.is_final(end, &b, &said(521)), "another host");
        assert!(refusals.is_final(end, &a, &said(521)));
        refusals.greeted(&a);
        assert!(!refusals.is_final(end, &a, &said(521)), "it had changed its mind");
        assert!(!refusals.is_final(end + SAID_FOR, &a, &said(521)), "not often enough");
        assert!(refusals.is_final(end + SAID_FOR, &a, &said(521)));
    }

    #[test]
    fn other_greetings_are_of_the_moment_and_loops_are_not() {
        let refusals = Refusals::default();
        for code in [421, 450, 500, 550, 554, 571] {
            for _ in 0..10 {
                assert!(!refusals.is_final(Mono(u64::MAX / 2), &host("a"), &said(code)), "{code}");
            }
        }
        let status = EnhancedStatus::new(5, 4, 6);
        let loops = Failure::local(Class::Permanent, status, "it is this server");
        assert!(refusals.is_final(Mono(1), &host("a"), &loops));
    }
}
