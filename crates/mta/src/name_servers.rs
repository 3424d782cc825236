//! Health of the name servers, from the lookups of all shards. A dead zone delays only mail for its own domains; if no
//! name is found any more, this is reported as a problem.

use crate::line::Owner;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Minimum number of consecutive failed lookups, of any names.
const SILENCE_MIN: u32 = 8;
/// Minimum number of zones of these names: fewer zones may be silent by themselves, without lookups in other zones.
const ZONES_MIN: usize = 3;

/// Results of recent lookups.
#[derive(Debug, Default)]
pub struct NameServers {
    /// The last lookup failed.
    is_silent: AtomicBool,
    silence: Mutex<Silence>,
}

/// The failed lookups since the last answer.
#[derive(Debug, Default)]
struct Silence {
    count: u32,
    /// Their zones, up to [`ZONES_MIN`].
    zones: Vec<Owner>,
    /// The last failure.
    reason: String,
    is_told: bool,
}

impl Silence {
    fn is_long(&self) -> bool {
        self.count >= SILENCE_MIN
    }

    fn is_general(&self) -> bool {
        self.is_long() && self.zones.len() >= ZONES_MIN
    }
}

impl NameServers {
    /// Notes an answer, even NXDOMAIN. Returns true if this ends a reported silence.
    pub(crate) fn answered(&self) -> bool {
        // In most cases there is nothing to do: a read does not contend with other shards.
        if !self.is_silent.load(Ordering::Relaxed) {
            return false;
        }
        let mut silence = self.lock();
        self.is_silent.store(false, Ordering::Relaxed);
        std::mem::take(&mut *silence).is_told
    }

    /// Notes a failed lookup in this zone. Returns the number of consecutive failures if the silence is due to be
    /// reported.
    pub(crate) fn unanswered(&self, zone: Owner, reason: &str) -> Option<u32> {
        let mut silence = self.lock();
        self.is_silent.store(true, Ordering::Relaxed);
        silence.count = silence.count.saturating_add(1);
        reason.clone_into(&mut silence.reason);
        if silence.zones.len() < ZONES_MIN && !silence.zones.contains(&zone) {
            silence.zones.push(zone);
        }
        let is_news = silence.is_general() && !silence.is_told;
        silence.is_told |= is_news;
        is_news.then_some(silence.count)
    }

    /// A sentence while they do not answer.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        let silence = self.lock();
        let text = || format!("name servers do not respond: {}", silence.reason);
        silence.is_general().then(text)
    }

    /// A sentence about zones without an answer, if no other zone was looked up: it is unknown then if the name servers
    /// answer for other zones.
    #[must_use]
    pub fn silent_zones(&self) -> Option<String> {
        let silence = self.lock();
        if !silence.is_long() || silence.is_general() {
            return None;
        }
        let names: Vec<&str> = silence.zones.iter().map(Owner::name).collect();
        let noun = if names.len() == 1 { "zone" } else { "zones" };
        Some(format!("DNS lookups fail for {noun} {}: {}", names.join(" and "), silence.reason))
    }

    fn lock(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Owner {
        Owner::zone(name)
    }

    #[test]
    fn silence_is_told_once_and_so_is_its_end() {
        let servers = NameServers::default();
        assert!(!servers.answered(), "there was no trouble");
        let names = ["a.test", "mx.b.test", "c.test"];
        for name in names.into_iter().cycle().take(SILENCE_MIN as usize - 1) {
            assert_eq!(servers.unanswered(zone(name), "timed out"), None);
        }
        assert_eq!((servers.trouble(), servers.silent_zones()), (None, None));
        assert_eq!(servers.unanswered(zone("a.test"), "timed out"), Some(SILENCE_MIN));
        assert_eq!(servers.unanswered(zone("a.test"), "SERVFAIL"), None, "told already");
        assert_eq!(servers.trouble().as_deref(), Some("name servers do not respond: SERVFAIL"));
        assert_eq!(servers.silent_zones(), None);
        assert!(servers.answered());
        assert!(!servers.answered());
        assert_eq!(servers.trouble(), None);
    }

    #[test]
    fn an_answer_in_between_is_an_answer() {
        let servers = NameServers::default();
        for n in 0..10 * SILENCE_MIN {
            assert_eq!(servers.unanswered(zone(&format!("d{n}.test")), "timed out"), None);
            assert!(!servers.answered());
        }
    }

    #[test]
    fn zones_that_are_silent_alone_are_named_and_the_name_servers_are_not() {
        let servers = NameServers::default();
        for n in 0..10 * SILENCE_MIN {
            let name = format!("d{n}.example.org");
            assert_eq!(servers.unanswered(zone(&name), "timed out"), None);
        }
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(servers.trouble(), None);
        assert_eq!(
            servers.silent_zones(),
            text("DNS lookups fail for zone example.org: timed out")
        );
        assert_eq!(servers.unanswered(zone("b.test"), "SERVFAIL"), None);
        let both = text("DNS lookups fail for zones example.org and b.test: SERVFAIL");
        assert_eq!(servers.silent_zones(), both);
        // A third zone shows that the zones are not the reason.
        assert_eq!(servers.unanswered(zone("c.test"), "timed out"), Some(10 * SILENCE_MIN + 2));
        assert_eq!(servers.silent_zones(), None);
        assert!(servers.trouble().is_some() && servers.answered());
        // Nor after an answer.
        assert_eq!(servers.unanswered(zone("example.org"), "timed out"), None);
        assert_eq!((servers.trouble(), servers.silent_zones()), (None, None));
    }
}
