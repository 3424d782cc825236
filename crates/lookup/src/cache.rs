//! Cache of answers from remote tables.

use super::Entry;
use mail::Mono;
use mail::map::FixedMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of locks of a cache, each for a part of the keys, so that two lookups rarely contend.
const STRIPES_MAX: usize = 64;
/// Minimum number of answers per part: smaller parts would fill up long before the rest.
const STRIPE_ENTRIES_MIN: usize = 64;
/// Maximum number of recently used answers skipped in search of a victim. It bounds the time a lock is held, however
/// large the cache is.
const CHANCES_MAX: usize = 32;

/// Lifetimes of answers, from the time of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// An entry.
    pub positive: Duration,
    /// Lifetime of the answer that a key is missing.
    pub negative: Duration,
    /// Additional lifetime of an answer while no server gives a new one.
    pub stale: Duration,
}

/// A cached answer and its age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cached {
    /// An answer that counts; `None`: the table does not have the key.
    Fresh(Option<Arc<Entry>>, Duration),
    /// An expired answer, usable while no newer one exists.
    Stale(Option<Arc<Entry>>, Duration),
    /// No answer.
    Missing,
}

/// Size of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Answers, expired ones included: they are dropped only for new ones.
    pub entries: usize,
    /// About how much memory they take.
    pub bytes: usize,
}

/// A cache shared by all shards. It never exceeds the number of entries that it was made for. If it is full, answers
/// not used since they were last passed over are dropped first.
#[derive(Debug)]
pub struct Cache {
    /// As many as a power of two.
    stripes: Box<[Mutex<Stripe>]>,
    lifetimes: Lifetimes,
    seed: u64,
}

impl Cache {
    /// A cache of at most `entries_max` answers. Strangers choose keys: `seed` is one that they do not
    /// know, so that they cannot choose many which fall together.
    #[must_use]
    pub fn new(entries_max: usize, lifetimes: Lifetimes, seed: u64) -> Cache {
        let wanted = (entries_max / STRIPE_ENTRIES_MIN).clamp(1, STRIPES_MAX);
        let count = 1_usize << wanted.ilog2();
        let stripe = |number| {
            let rest = usize::from(number < entries_max % count);
            Mutex::new(Stripe::new(entries_max / count + rest))
        };
        Cache { stripes: (0..count).map(stripe).collect(), lifetimes, seed }
    }

    /// Returns the cached answer for a key.
    #[must_use]
    pub fn get(&self, key: &str, now: Mono) -> Cached {
        let hash = self.hash(key);
        self.stripe(hash).get(hash, key, now, self.lifetimes)
    }

    /// Stores the answer to a request made at `asked`, unless the key was forgotten since, or a later request has been
    /// answered already.
    pub fn put(&self, key: &str, answer: Option<Arc<Entry>>, asked: Mono) {
        let hash = self.hash(key);
        let slot = Slot { hash, key: key.into(), answer, asked, is_used: false };
        // The replaced answer is freed after the lock.
        let _old = self.stripe(hash).put(slot);
    }

    /// Forgets a key, including pending answers to requests from before `now`. Returns true if an answer was cached.
    pub fn forget(&self, key: &str, now: Mono) -> bool {
        let hash = self.hash(key);
        let old = self.stripe(hash).forget(hash, key, now);
        old.is_some()
    }

    /// Forgets all keys, including pending answers to requests from before `now`. Returns the number of dropped
    /// answers.
    pub fn flush(&self, now: Mono) -> usize {
        let flush = |stripe: &Mutex<Stripe>| {
            let old = lock(stripe).flush(now);
            old.len()
        };
        self.stripes.iter().map(flush).sum()
    }

    /// The size of the cache.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        let mut counts = CacheCounts::default();
        for stripe in &self.stripes {
            let stripe = lock(stripe);
            counts.entries += stripe.slots.len();
            counts.bytes += stripe.bytes;
        }
        counts
    }

    /// `SipHash`, keyed by its first input.
    fn hash(&self, key: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        hasher.write(key.as_bytes());
        hasher.finish()
    }

    fn stripe(&self, hash: u64) -> MutexGuard<'_, Stripe> {
        // Chosen by the high bits: the inner map uses all bits.
        lock(&self.stripes[(hash >> 32) as usize & (self.stripes.len() - 1)])
    }
}

fn lock(stripe: &Mutex<Stripe>) -> MutexGuard<'_, Stripe> {
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answers to a part of the keys.
#[derive(Debug)]
struct Stripe {
    /// Places in `slots`. Two keys of one hash would share a place, and each would push the other out:
    /// one more question for the server, never a wrong answer.
    by_hash: FixedMap<u64, u32>,
    slots: Vec<Slot>,
    /// The first position examined for a victim.
    hand: usize,
    entries_max: usize,
    bytes: usize,
    /// Answers to requests made until then are not cached.
    forgotten: Option<Mono>,
}

#[derive(Debug)]
struct Slot {
    hash: u64,
    key: Box<str>,
    answer: Option<Arc<Entry>>,
    asked: Mono,
    /// Somebody was served from it since the hand passed over it.
    is_used: bool,
}

impl Slot {
    fn bytes(&self) -> usize {
        size_of::<Slot>() + self.key.len() + self.answer.as_ref().map_or(0, |entry| entry.bytes())
    }
}

impl Stripe {
    fn new(entries_max: usize) -> Stripe {
        Stripe {
            by_hash: FixedMap::default(),
            slots: Vec::new(),
            hand: 0,
            // Places are numbered with 32 bits.
            entries_max: entries_max.min(u32::MAX as usize),
            bytes: 0,
            forgotten: None,
        }
    }

    fn place(&self, hash: u64, key: &str) -> Option<usize> {
        let place = *self.by_hash.get(&hash)? as usize;
        self.slots.get(place).is_some_and(|slot| *slot.key == *key).then_some(place)
    }

    fn get(&mut self, hash: u64, key: &str, now: Mono, lifetimes: Lifetimes) -> Cached {
        let Some(place) = self.place(hash, key) else { return Cached::Missing };
        let slot = &mut self.slots[place];
        let age = now.since(slot.asked);
        let fresh = if slot.answer.is_some() { lifetimes.positive } else { lifetimes.negative };
        if age < fresh {
            slot.is_used = true;
            Cached::Fresh(slot.answer.clone(), age)
        } else if age < fresh.saturating_add(lifetimes.stale) {
            slot.is_used = true;
            Cached::Stale(slot.answer.clone(), age)
        } else {
            Cached::Missing
        }
    }

    /// Stores an answer. Returns the dropped one, which may be the argument.
    fn put(&mut self, mut slot: Slot) -> Option<Slot> {
        if self.entries_max == 0 || self.forgotten.is_some_and(|until| slot.asked <= until) {
            return Some(slot);
        }
        if let Some(&place) = self.by_hash.get(&slot.hash) {
            let known = &self.slots[place as usize];
            if known.key == slot.key {
                if known.asked > slot.asked {
                    return Some(slot);
                }
                slot.is_used = known.is_used;
            }
            return Some(self.replace(place as usize, slot));
        }
        if self.slots.len() < self.entries_max {
            self.by_hash.insert(slot.hash, self.slots.len() as u32);
            self.bytes += slot.bytes();
            self.slots.push(slot);
            return None;
        }
        let place = self.least_used();
        self.by_hash.remove(&self.slots[place].hash);
        self.by_hash.insert(slot.hash, place as u32);
        Some(self.replace(place, slot))
    }

    fn replace(&mut self, place: usize, slot: Slot) -> Slot {
        self.bytes += slot.bytes();
        let old = std::mem::replace(&mut self.slots[place], slot);
        self.bytes -= old.bytes();
        old
    }

    /// The position to reuse: the first not used since the hand last passed, or the one after [`CHANCES_MAX`] used
    /// ones.
    fn least_used(&mut self) -> usize {
        for _ in 0..CHANCES_MAX {
            let place = self.step();
            if !std::mem::take(&mut self.slots[place].is_used) {
                return place;
            }
        }
        self.step()
    }

    fn step(&mut self) -> usize {
        let place = self.hand;
        self.hand = (place + 1) % self.slots.len();
        place
    }

    fn forget(&mut self, hash: u64, key: &str, now: Mono) -> Option<Slot> {
        self.forgotten = self.forgotten.max(Some(now));
        let place = self.place(hash, key)?;
        let old = self.slots.swap_remove(place);
        self.by_hash.remove(&hash);
        if let Some(moved) = self.slots.get(place) {
            self.by_hash.insert(moved.hash, place as u32);
        }
        if self.hand >= self.slots.len() {
            self.hand = 0;
        }
        self.bytes -= old.bytes();
        Some(old)
    }

    fn flush(&mut self, now: Mono) -> Vec<Slot> {
        let empty =
            Stripe { forgotten: self.forgotten.max(Some(now)), ..Stripe::new(self.entries_max) };
        std::mem::replace(self, empty).slots
    }
}

#[cfg(test)]
mod tests;
