//! Hosts that say they take no mail at all: believed when they have said it again and again.

use mail::{Failure, Mono};
use mta::routing::hosts::Host;
use std::cell::RefCell;
use std::time::Duration;

/// It must have been said so often,
const TIMES_MIN: u32 = 3;
/// and for so long: what one greeting says may come from one bad machine behind many, or from whoever is on the
/// way.
const SAID_FOR: Duration = Duration::from_secs(900);

/// Hosts remembered of one next hop, which seldom has more.
const HOSTS_MAX: usize = 64;

#[derive(Debug)]
struct HostRefusal {
    host: Host,
    times: u32,
    since: Mono,
}

/// Since each host greeted last.
#[derive(Debug, Default)]
pub(super) struct Refusals(RefCell<Vec<HostRefusal>>);

impl Refusals {
    /// Whether what kept a host from taking mail will never pass.
    pub(super) fn is_final(&self, now: Mono, host: &Host, failure: &Failure) -> bool {
        if !is_for_good(failure) {
            return false;
        }
        // RFC 5321 §5.1, or the failure of a loop: that is no word of the host's.
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

/// What is said for good about a host, rather than about the moment. RFC 7504 §3: with 521 a host takes no mail,
/// under any circumstances. Any other greeting of 5yz is a refusal of this client for now, such as that of a list
/// it is on: the next host is tried, and later this one again.
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
