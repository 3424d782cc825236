//! Trust levels of former holders: proven by a recent final answer, or doubtful by silence.

use super::who::TrustLevel;
use mail::Mono;
use std::collections::BTreeMap;
use std::time::Duration;

/// Time for which an answer or a silence counts.
pub const GOOD_FOR: Duration = Duration::from_secs(60 * 60);

impl TrustLevel {
    /// The last known level, unless it is too old.
    pub(crate) fn of_last(last: Option<(Mono, TrustLevel)>, now: Mono) -> TrustLevel {
        match last {
            Some((at, standing)) if now.since(at) < GOOD_FOR => standing,
            _ => TrustLevel::Unknown,
        }
    }
}

/// Trust levels by key, `max` at most. The entries without news for the longest time are dropped first, and are unknown
/// then.
#[derive(Debug)]
pub struct Standings<K> {
    known: BTreeMap<K, (Mono, TrustLevel)>,
    max: usize,
}

impl<K: Ord + Copy> Standings<K> {
    /// Empty, with at most `max` entries.
    #[must_use]
    pub fn new(max: usize) -> Standings<K> {
        Standings { known: BTreeMap::new(), max: max.max(2) }
    }

    /// Notes a final answer: of a lookup, or of a recipient or content that was accepted or rejected.
    pub fn note_answer(&mut self, who: K, now: Mono) {
        self.note(who, now, TrustLevel::Good);
    }

    /// Notes silence, or an end without an answer.
    pub fn note_silence(&mut self, who: K, now: Mono) {
        self.note(who, now, TrustLevel::Doubtful);
    }

    #[must_use]
    pub fn of(&self, who: K, now: Mono) -> TrustLevel {
        TrustLevel::of_last(self.known.get(&who).copied(), now)
    }

    fn note(&mut self, who: K, now: Mono, standing: TrustLevel) {
        if self.known.len() >= self.max && !self.known.contains_key(&who) {
            self.make_room(now);
        }
        self.known.insert(who, (now, standing));
    }

    /// Forgets the older half, so that this is rare.
    fn make_room(&mut self, now: Mono) {
        self.known.retain(|_, (at, _)| now.since(*at) < GOOD_FOR);
        if self.known.len() < self.max {
            return;
        }
        let mut moments: Vec<Mono> = self.known.values().map(|(at, _)| *at).collect();
        let half = self.max / 2;
        let (_, median, _) = moments.select_nth_unstable(half);
        let median = *median;
        self.known.retain(|_, (at, _)| *at > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn an_answer_counts_for_an_hour_or_until_silence() {
        let mut standings = Standings::new(10);
        assert_eq!(standings.of(1, Mono(0)), TrustLevel::Unknown);
        standings.note_answer(1, Mono(0));
        assert_eq!(standings.of(1, Mono(3_599 * SECOND)), TrustLevel::Good);
        assert_eq!(standings.of(1, Mono(3_600 * SECOND)), TrustLevel::Unknown);
        standings.note_silence(1, Mono(10 * SECOND));
        assert_eq!(standings.of(1, Mono(11 * SECOND)), TrustLevel::Doubtful);
        standings.note_answer(1, Mono(12 * SECOND));
        assert_eq!(standings.of(1, Mono(13 * SECOND)), TrustLevel::Good);
    }

    #[test]
    fn the_oldest_are_forgotten_at_the_limit() {
        let mut standings = Standings::new(100);
        for who in 0..100 {
            standings.note_answer(who, Mono(who));
        }
        assert_eq!(standings.of(0, Mono(100)), TrustLevel::Good);
        standings.note_answer(100, Mono(100));
        assert_eq!(standings.of(0, Mono(100)), TrustLevel::Unknown);
        assert_eq!(standings.of(99, Mono(100)), TrustLevel::Good);
        assert!(standings.known.len() <= 100);
        // All at the same time: the limit still holds.
        for who in 1_000..1_500 {
            standings.note_silence(who, Mono(200));
        }
        assert!(standings.known.len() <= 100);
        assert_eq!(standings.of(1_499, Mono(200)), TrustLevel::Doubtful);
    }
}
