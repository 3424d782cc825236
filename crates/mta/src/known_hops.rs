//! Trust levels of next hops, shared by the shards: a hop that one shard has found working is proven for all, and waits
//! at one place of a [line](crate::line).
//!
//! Without this, a shard that is new to a next hop would wait among the unknown ones. It would hold slots that another
//! shard could use at once.
//!
//! An unknown hop is as doubtful as other hops with hosts in the same zone or network that were silent lately. An
//! attacker has any number of names, but not of zones and networks. Answers from a zone or network prove no other hop.

use crate::line::{FairKey, Owners, Standings, TrustLevel};
use mail::Mono;
use queue::ReadyKey;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of zones and networks.
const OWNERS_MAX: usize = 65_536;

/// Next hops with a ready queue on any shard.
#[derive(Debug, Default)]
pub(crate) struct KnownHops(Mutex<State>);

#[derive(Debug)]
struct State {
    by_key: BTreeMap<ReadyKey, HopHealth>,
    next_number: u32,
    /// Zones and networks of hosts.
    owners: Standings<u64>,
}

impl Default for State {
    fn default() -> State {
        let (by_key, next_number, owners) = (BTreeMap::new(), 0, Standings::new(OWNERS_MAX));
        State { by_key, next_number, owners }
    }
}

impl State {
    /// Returns true if the same hosts are proven from the same source, with other TLS, shaping or login.
    fn is_good_otherwise(&self, key: &ReadyKey, now: Mono) -> bool {
        let nothing: Arc<str> = Arc::from("");
        let (tls, shaping) = (Arc::clone(&nothing), Arc::clone(&nothing));
        let first = ReadyKey { tls, shaping, login: nothing, ..key.clone() };
        let mut same = self.by_key.range(first..).take_while(|(other, _)| {
            (&other.source, &other.next_hop) == (&key.source, &key.next_hop)
        });
        same.any(|(_, known)| known.standing(now) == TrustLevel::Good)
    }
}

#[derive(Debug)]
struct HopHealth {
    who: FairKey,
    /// Number of shards with a ready queue for it.
    shards: u16,
    /// The last result: it accepted or rejected mail, or was silent.
    last: Option<(Mono, TrustLevel)>,
}

impl HopHealth {
    fn standing(&self, now: Mono) -> TrustLevel {
        TrustLevel::of_last(self.last, now)
    }
}

impl KnownHops {
    /// Registers a shard's ready queue for this hop. Returns its key in lines.
    pub(crate) fn enter(&self, key: &ReadyKey) -> FairKey {
        let mut state = self.lock();
        if let Some(known) = state.by_key.get_mut(key) {
            known.shards = known.shards.saturating_add(1);
            return known.who;
        }
        let who = FairKey::hop(state.next_number);
        state.next_number = state.next_number.wrapping_add(1);
        state.by_key.insert(key.clone(), HopHealth { who, shards: 1, last: None });
        who
    }

    /// A shard has removed its ready queue; after the last, the hop is forgotten.
    pub(crate) fn leave(&self, key: &ReadyKey) {
        let mut state = self.lock();
        let Some(known) = state.by_key.get_mut(key) else { return };
        known.shards = known.shards.saturating_sub(1);
        if known.shards == 0 {
            state.by_key.remove(key);
        }
    }

    /// Notes that a connection was opened, or failed. A greeting is no verdict on a message: a doubtful hop is unknown
    /// again, and no hop is proven by it.
    pub(crate) fn note_opening(&self, key: &ReadyKey, opened: bool, now: Mono) {
        if let Some(known) = self.lock().by_key.get_mut(key) {
            match (opened, known.standing(now)) {
                (false, _) => known.last = Some((now, TrustLevel::Doubtful)),
                (true, TrustLevel::Doubtful) => known.last = None,
                (true, TrustLevel::Good | TrustLevel::Unknown) => {}
            }
        }
    }

    /// It has accepted or rejected a recipient or content: it is [proven](TrustLevel::Good) for an hour. Or a
    /// transaction waits in vain: it is doubtful.
    pub(crate) fn note(&self, key: &ReadyKey, standing: TrustLevel, now: Mono) {
        if let Some(known) = self.lock().by_key.get_mut(key) {
            known.last = Some((now, standing));
        }
    }

    /// The trust level over all shards. For an unknown hop, it is enough that the same hosts are proven from the same
    /// source with other TLS requirements or limits: answering depends on neither. Their silence proves nothing, as it
    /// may be due to TLS.
    pub(crate) fn standing(&self, key: &ReadyKey, now: Mono) -> TrustLevel {
        let state = self.lock();
        let own = state.by_key.get(key).map_or(TrustLevel::Unknown, |known| known.standing(now));
        match own {
            TrustLevel::Unknown if state.is_good_otherwise(key, now) => TrustLevel::Good,
            own => own,
        }
    }

    /// Notes that a host has accepted or rejected mail, or was silent, for its zone and its network. Returns true if
    /// one of both is newly doubtful.
    pub(crate) fn note_host(&self, owners: Owners, standing: TrustLevel, now: Mono) -> bool {
        let mut state = self.lock();
        let mut is_news = false;
        for owner in owners {
            match standing {
                TrustLevel::Good => state.owners.note_answer(owner, now),
                _ => {
                    is_news |= state.owners.of(owner, now) != TrustLevel::Doubtful;
                    state.owners.note_silence(owner, now);
                }
            }
        }
        is_news
    }

    /// The trust level of a host if its next hop is unknown.
    pub(crate) fn standing_of_host(&self, owners: Owners, now: Mono) -> TrustLevel {
        let state = self.lock();
        let is_doubtful = |owner: u64| state.owners.of(owner, now) == TrustLevel::Doubtful;
        match owners.into_iter().any(is_doubtful) {
            true => TrustLevel::Doubtful,
            false => TrustLevel::Unknown,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::{GOOD_FOR, Owner};

    const NOW: Mono = Mono(1_000);

    fn key(source: &str, hop: &str, tls: &str) -> ReadyKey {
        ReadyKey {
            source: source.into(),
            next_hop: hop.into(),
            tls: tls.into(),
            shaping: "".into(),
            login: "".into(),
        }
    }

    #[test]
    fn hosts_that_answer_are_good_for_mail_that_asks_for_other_tls_too() {
        let hops = KnownHops::default();
        let (plain, strict, other) =
            (key("", "a", ""), key("", "a", "requiretls"), key("ip-1", "a", ""));
        for known in [&plain, &strict, &other] {
            hops.enter(known);
        }
        hops.note_opening(&strict, false, NOW);
        assert_eq!(hops.standing(&plain, NOW), TrustLevel::Unknown, "TLS may be what was missing");
        hops.note(&plain, TrustLevel::Good, NOW);
        assert_eq!(hops.standing(&strict, NOW), TrustLevel::Doubtful, "it knows better");
        assert_eq!(hops.standing(&other, NOW), TrustLevel::Unknown, "they may mind the other");
        hops.leave(&strict);
        hops.enter(&strict);
        assert_eq!(hops.standing(&strict, NOW), TrustLevel::Good);
        let far = key("", "b", "");
        hops.enter(&far);
        assert_eq!(hops.standing(&far, NOW), TrustLevel::Unknown);
    }

    #[test]
    fn what_one_shard_learns_all_know_until_the_last_forgets() {
        let hops = KnownHops::default();
        let (one, other) = (key("", "a", ""), key("", "b", ""));
        let who = hops.enter(&one);
        assert_eq!(hops.enter(&one), who, "one place for all shards");
        assert_ne!(hops.enter(&other), who);
        hops.note(&one, TrustLevel::Good, NOW);
        assert_eq!(hops.standing(&one, NOW), TrustLevel::Good);
        assert_eq!(hops.standing(&other, NOW), TrustLevel::Unknown);
        hops.note_opening(&one, false, NOW);
        hops.leave(&one);
        assert_eq!(
            hops.standing(&one, NOW),
            TrustLevel::Doubtful,
            "the other shard is still there"
        );
        hops.leave(&one);
        assert_eq!(hops.standing(&one, NOW), TrustLevel::Unknown);
        hops.note(&one, TrustLevel::Good, NOW);
        assert_eq!(hops.standing(&one, NOW), TrustLevel::Unknown, "nobody has a queue for it");
    }

    #[test]
    fn a_silent_host_makes_others_of_its_zone_and_its_network_doubtful_until_one_answers() {
        let hops = KnownHops::default();
        let owners = |zone: &str, ip: &str| {
            let network = Owner::network(ip.parse().expect("an address"));
            FairKey::hop(1).of(network).within(Owner::zone(zone)).owners()
        };
        let one = owners("a.wild.test", "2001:db8::1");
        assert_eq!(hops.standing_of_host(one, NOW), TrustLevel::Unknown);
        assert!(hops.note_host(one, TrustLevel::Doubtful, NOW));
        assert!(!hops.note_host(one, TrustLevel::Doubtful, NOW), "it was before");
        for doubtful in [owners("b.wild.test", "192.0.2.1"), owners("other.test", "2001:db8::2")] {
            assert_eq!(hops.standing_of_host(doubtful, NOW), TrustLevel::Doubtful);
        }
        let far = owners("far.test", "2001:db8:0:1::1");
        assert_eq!(hops.standing_of_host(far, NOW), TrustLevel::Unknown);
        hops.note_host(one, TrustLevel::Good, NOW);
        assert_eq!(hops.standing_of_host(one, NOW), TrustLevel::Unknown, "names are free");
        assert!(hops.note_host(one, TrustLevel::Doubtful, NOW));
        assert_eq!(hops.standing_of_host(one, NOW + GOOD_FOR), TrustLevel::Unknown);
    }

    #[test]
    fn a_greeting_proves_nothing_and_a_verdict_counts_for_an_hour_or_until_silence() {
        let hops = KnownHops::default();
        let one = key("", "a", "");
        hops.enter(&one);
        hops.note_opening(&one, true, NOW);
        assert_eq!(hops.standing(&one, NOW), TrustLevel::Unknown);
        hops.note_opening(&one, false, NOW);
        assert_eq!(hops.standing(&one, NOW), TrustLevel::Doubtful);
        hops.note_opening(&one, true, NOW);
        assert_eq!(hops.standing(&one, NOW), TrustLevel::Unknown, "it is back");
        hops.note(&one, TrustLevel::Good, NOW);
        hops.note_opening(&one, true, NOW);
        assert_eq!(hops.standing(&one, NOW), TrustLevel::Good);
        assert_eq!(hops.standing(&one, NOW + GOOD_FOR), TrustLevel::Unknown);
        hops.note(&one, TrustLevel::Doubtful, NOW);
        assert_eq!(hops.standing(&one, NOW), TrustLevel::Doubtful);
    }
}
