//! Capabilities of a next hop's hosts, learnt from replies beyond their EHLO reply.

use mail::Mono;
use mta::seams::Endpoint;
use smtp::client::HostQuirk;
use std::cell::RefCell;
use std::time::Duration;

/// Time for which a lesson is valid. The host may be repaired, or its reply may have been an exception.
const LESSON_LASTS: Duration = Duration::from_secs(3600);

/// Maximum number of lessons for a next hop. The oldest is dropped first.
const LESSONS_MAX: usize = 64;

/// By the host's address, the latest last.
#[derive(Debug, Default)]
pub(super) struct HostQuirks(RefCell<Vec<(Endpoint, HostQuirk, Mono)>>);

impl HostQuirks {
    /// Records a lesson of a transaction, replacing an earlier one of the same kind.
    pub(super) fn learn(&self, now: Mono, peer: &Endpoint, lesson: HostQuirk) {
        let mut all = self.0.borrow_mut();
        let kind = std::mem::discriminant::<HostQuirk>;
        let is_same = |other: &HostQuirk| kind(other) == kind(&lesson);
        all.retain(|(whose, what, until)| now < *until && !(whose == peer && is_same(what)));
        if all.len() == LESSONS_MAX {
            all.remove(0);
        }
        all.push((peer.clone(), lesson, now + LESSON_LASTS));
    }

    /// Returns true if the host offers CHUNKING but does not implement BDAT.
    pub(super) fn is_bdat_unusable(&self, now: Mono, peer: &Endpoint) -> bool {
        self.find(now, peer, |lesson| (lesson == HostQuirk::BdatUnusable).then_some(())).is_some()
    }

    /// Maximum number of recipients that the host accepts in a transaction, as far as known.
    pub(super) fn recipients_max(&self, now: Mono, peer: &Endpoint) -> Option<usize> {
        self.find(now, peer, |lesson| match lesson {
            HostQuirk::RecipientsMax(max) => Some(max),
            _ => None,
        })
    }

    /// Maximum number of recipient domains that the host accepts in a transaction, as far as known.
    pub(super) fn domains_max(&self, now: Mono, peer: &Endpoint) -> Option<usize> {
        self.find(now, peer, |lesson| match lesson {
            HostQuirk::DomainsMax(max) => Some(max),
            _ => None,
        })
    }

    fn find<T>(
        &self,
        now: Mono,
        peer: &Endpoint,
        is: impl Fn(HostQuirk) -> Option<T>,
    ) -> Option<T> {
        let all = self.0.borrow();
        let own = all.iter().filter(|(whose, _, until)| whose == peer && now < *until);
        own.into_iter().find_map(|(_, lesson, _)| is(*lesson))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn lessons_are_of_one_host_and_fade() {
        let host = |n: u16| Endpoint::Tcp(SocketAddr::from(([192, 0, 2, 1], n)));
        let lessons = HostQuirks::default();
        lessons.learn(Mono(0), &host(1), HostQuirk::BdatUnusable);
        lessons.learn(Mono(0), &host(1), HostQuirk::RecipientsMax(7));
        lessons.learn(Mono(1), &host(1), HostQuirk::RecipientsMax(5));
        lessons.learn(Mono(1), &host(2), HostQuirk::DomainsMax(1));
        lessons.learn(Mono(2), &host(2), HostQuirk::DomainsMax(1));
        assert_eq!(lessons.0.borrow().len(), 3);
        assert_eq!(lessons.domains_max(Mono(2), &host(2)), Some(1));
        assert_eq!(lessons.domains_max(Mono(2), &host(1)), None);
        assert!(lessons.is_bdat_unusable(Mono(2), &host(1)));
        assert!(!lessons.is_bdat_unusable(Mono(2), &host(2)));
        assert_eq!(lessons.recipients_max(Mono(2), &host(1)), Some(5));
        assert_eq!(lessons.recipients_max(Mono(2), &host(2)), None);
        let later = Mono(0) + LESSON_LASTS;
        assert!(!lessons.is_bdat_unusable(later, &host(1)));
        assert_eq!(lessons.recipients_max(later, &host(1)), Some(5));
        assert_eq!(lessons.recipients_max(Mono(1) + LESSON_LASTS, &host(1)), None);
        for n in 0..=LESSONS_MAX as u16 {
            lessons.learn(Mono(3), &host(100 + n), HostQuirk::BdatUnusable);
        }
        assert_eq!(lessons.0.borrow().len(), LESSONS_MAX);
        assert!(!lessons.is_bdat_unusable(Mono(4), &host(100)));
    }
}
