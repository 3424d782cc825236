use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SECOND: Duration = Duration::from_secs(1);
const LIFETIMES: Lifetimes = Lifetimes {
    positive: Duration::from_secs(10),
    negative: SECOND,
    stale: Duration::from_secs(5),
};

fn at(seconds: u64) -> Mono {
    Mono(0) + SECOND * u32::try_from(seconds).unwrap()
}

fn entry(text: &str) -> Option<Arc<Entry>> {
    Some(Arc::new(Entry::text(text)))
}

fn text_of(cached: &Cached) -> Option<&str> {
    match cached {
        Cached::Fresh(entry, _) | Cached::Stale(entry, _) => {
            Some(entry.as_ref().map_or("", |entry| &entry.text))
        }
        Cached::Missing => None,
    }
}

#[test]
fn each_lifetime_ends_to_the_microsecond() {
    let cache = Cache::new(10, LIFETIMES, 1);
    let asked = at(100);
    cache.put("yes", entry("x"), asked);
    cache.put("no", None, asked);
    let us = Duration::from_micros(1);
    for (key, answer, fresh) in
        [("yes", entry("x"), LIFETIMES.positive), ("no", None, LIFETIMES.negative)]
    {
        let get = |age| cache.get(key, asked + age);
        let gone = fresh + LIFETIMES.stale;
        assert_eq!(get(Duration::ZERO), Cached::Fresh(answer.clone(), Duration::ZERO));
        assert_eq!(get(fresh - us), Cached::Fresh(answer.clone(), fresh - us));
        assert_eq!(get(fresh), Cached::Stale(answer.clone(), fresh));
        assert_eq!(get(gone - us), Cached::Stale(answer.clone(), gone - us));
        assert_eq!(get(gone), Cached::Missing);
    }
    assert_eq!(cache.get("other", asked), Cached::Missing);
}

#[test]
fn without_a_lifetime_nothing_is_served() {
    let none = Lifetimes { positive: Duration::ZERO, negative: SECOND, stale: Duration::ZERO };
    let cache = Cache::new(10, none, 1);
    cache.put("yes", entry("x"), at(1));
    cache.put("no", None, at(1));
    assert_eq!(cache.get("yes", at(1)), Cached::Missing);
    assert_eq!(cache.get("no", at(1)), Cached::Fresh(None, Duration::ZERO));
}

#[test]
fn the_bound_is_exact_however_the_keys_fall() {
    for entries_max in [0, 1, 2, 63, 64, 65, 127, 128, 1_000, 4_095, 4_096, 5_000] {
        let cache = Cache::new(entries_max, LIFETIMES, 7);
        for n in 0..3 * entries_max + 10 {
            cache.put(&n.to_string(), entry("x"), at(1));
            assert!(cache.counts().entries <= entries_max);
        }
        assert_eq!(cache.counts().entries, entries_max, "every part is full in the end");
        let room: usize = cache.stripes.iter().map(|stripe| lock(stripe).entries_max).sum();
        assert_eq!(room, entries_max);
    }
    assert_eq!(Cache::new(STRIPE_ENTRIES_MIN - 1, LIFETIMES, 7).stripes.len(), 1);
    let full = STRIPE_ENTRIES_MIN * STRIPES_MAX;
    assert_eq!(Cache::new(full - 1, LIFETIMES, 7).stripes.len(), STRIPES_MAX / 2);
    assert_eq!(Cache::new(full, LIFETIMES, 7).stripes.len(), STRIPES_MAX);
    assert_eq!(Cache::new(1_000 * full, LIFETIMES, 7).stripes.len(), STRIPES_MAX);
}

#[test]
fn what_is_used_outlives_a_flood_of_keys_that_are_asked_once() {
    let cache = Cache::new(1_000, LIFETIMES, 3);
    let users: Vec<String> = (0..100).map(|n| format!("user{n}")).collect();
    for user in &users {
        cache.put(user, entry(user), at(1));
    }
    for n in 0..20_000 {
        if n % 100 == 0 {
            for user in &users {
                assert_eq!(text_of(&cache.get(user, at(2))), Some(&**user), "after {n}");
            }
        }
        cache.put(&format!("guess{n}"), None, at(2));
    }
    assert_eq!(cache.counts().entries, 1_000);
}

#[test]
fn room_is_found_when_everything_was_used() {
    let mut stripe = Stripe::new(2 * CHANCES_MAX);
    let slot = |n: usize| Slot {
        hash: n as u64,
        key: n.to_string().into(),
        answer: None,
        asked: at(1),
        is_used: true,
    };
    for n in 0..2 * CHANCES_MAX {
        assert!(stripe.put(slot(n)).is_none());
    }
    // The first have had their chances; those after them still have theirs.
    assert_eq!(stripe.put(slot(1_000)).map(|slot| slot.hash), Some(CHANCES_MAX as u64));
    assert_eq!(stripe.slots.iter().filter(|slot| slot.is_used).count(), CHANCES_MAX);
}

#[test]
fn what_was_asked_before_a_flush_is_not_kept_after_it() {
    let cache = Cache::new(10, LIFETIMES, 1);
    cache.put("a", entry("old"), at(1));
    cache.put("b", entry("old"), at(1));
    assert_eq!(cache.flush(at(2)), 2);
    assert_eq!(cache.counts(), CacheCounts::default());
    cache.put("a", entry("older"), at(1));
    cache.put("a", entry("older"), at(2));
    assert_eq!(cache.get("a", at(2)), Cached::Missing);
    cache.put("a", entry("new"), at(3));
    assert_eq!(text_of(&cache.get("a", at(3))), Some("new"));
    assert!(cache.forget("a", at(4)) && !cache.forget("a", at(4)));
    cache.put("a", entry("new"), at(4));
    assert_eq!(cache.get("a", at(4)), Cached::Missing);
    assert!(!cache.forget("a", at(1)), "an earlier moment takes nothing back");
    cache.put("a", entry("late"), at(3));
    assert_eq!(cache.get("a", at(4)), Cached::Missing);
}

#[test]
fn the_later_question_has_the_last_word() {
    let cache = Cache::new(10, LIFETIMES, 1);
    cache.put("a", entry("second"), at(2));
    cache.put("a", entry("first"), at(1));
    assert_eq!(text_of(&cache.get("a", at(2))), Some("second"));
    cache.put("a", None, at(2));
    assert_eq!(text_of(&cache.get("a", at(2))), Some(""));
}

#[test]
fn keys_of_one_hash_are_told_apart() {
    let mut stripe = Stripe::new(10);
    let slot = |key: &str| Slot {
        hash: 5,
        key: key.into(),
        answer: entry(key),
        asked: at(1),
        is_used: false,
    };
    assert!(stripe.put(slot("a")).is_none());
    assert_eq!(stripe.get(5, "b", at(1), LIFETIMES), Cached::Missing);
    assert!(stripe.forget(5, "b", Mono(0)).is_none());
    let out = stripe.put(slot("b"));
    assert_eq!(out.map(|slot| slot.key), Some("a".into()));
    assert_eq!(stripe.get(5, "a", at(1), LIFETIMES), Cached::Missing);
    assert_eq!(text_of(&stripe.get(5, "b", at(1), LIFETIMES)), Some("b"));
}

#[test]
fn another_seed_spreads_keys_in_another_way() {
    let stripes = |seed| {
        let cache = Cache::new(STRIPES_MAX * STRIPE_ENTRIES_MIN, LIFETIMES, seed);
        (0..100).map(|n| cache.hash(&n.to_string()) >> 32 & 63).collect::<Vec<_>>()
    };
    assert_eq!(stripes(1), stripes(1));
    assert_ne!(stripes(1), stripes(2));
}

#[test]
fn threads_that_meet_lose_nothing_and_mix_nothing_up() {
    let cache = Cache::new(10_000, LIFETIMES, 5);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let cache = &cache;
            scope.spawn(move || {
                for n in 0..20_000_u64 {
                    let key = ((n * 7 + thread) % 5_000).to_string();
                    match n % 10 {
                        0 => cache.put(&key, entry(&key), at(1)),
                        9 if n % 1_000 == 999 => drop(cache.forget(&key, Mono(0))),
                        _ => {
                            let cached = cache.get(&key, at(1));
                            assert!(text_of(&cached).is_none_or(|text| text == key));
                        }
                    }
                }
            });
        }
    });
    assert!(cache.counts().entries <= 5_000);
    for stripe in &cache.stripes {
        check(&lock(stripe));
    }
}

/// The parts of a stripe agree.
fn check(stripe: &Stripe) {
    assert_eq!(stripe.by_hash.len(), stripe.slots.len());
    for (place, slot) in stripe.slots.iter().enumerate() {
        assert_eq!(stripe.by_hash.get(&slot.hash), Some(&(place as u32)));
    }
    assert_eq!(stripe.bytes, stripe.slots.iter().map(Slot::bytes).sum::<usize>());
    assert!(stripe.slots.len() <= stripe.entries_max);
    assert!(stripe.hand < stripe.slots.len().max(1));
}

#[derive(Clone, Debug)]
enum Step {
    Put { key: u8, answer: Option<u8>, ago: u64 },
    Get { key: u8 },
    Forget { key: u8 },
    Flush,
    Wait { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..20_u8, any::<Option<u8>>(), 0..3_u64)
            .prop_map(|(key, answer, ago)| Step::Put { key, answer, ago }),
        8 => (0..20_u8).prop_map(|key| Step::Get { key }),
        1 => (0..20_u8).prop_map(|key| Step::Forget { key }),
        1 => Just(Step::Flush),
        4 => (0..4_u64).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

/// What a cache without a bound would know: what was asked last, by key, and when.
#[derive(Default)]
struct Model {
    known: BTreeMap<u8, (Option<u8>, Mono)>,
    /// Until when answers do not count. One stripe: one moment for all keys.
    forgotten: Option<Mono>,
}

impl Model {
    fn put(&mut self, key: u8, answer: Option<u8>, asked: Mono) {
        let is_older = self.known.get(&key).is_some_and(|(_, known)| *known > asked);
        if !is_older && self.forgotten.is_none_or(|until| asked > until) {
            self.known.insert(key, (answer, asked));
        }
    }

    fn get(&self, key: u8, now: Mono) -> Cached {
        let Some((answer, asked)) = self.known.get(&key) else { return Cached::Missing };
        let age = now.since(*asked);
        let fresh = answer.map_or(LIFETIMES.negative, |_| LIFETIMES.positive);
        let answer = answer.and_then(|answer| entry(&answer.to_string()));
        match age {
            age if age < fresh => Cached::Fresh(answer, age),
            age if age < fresh + LIFETIMES.stale => Cached::Stale(answer, age),
            _ => Cached::Missing,
        }
    }
}

proptest! {
    #[test]
    fn a_cache_says_what_was_said_last_or_nothing(
        steps in prop::collection::vec(step(), 1..200),
        entries_max in 1..30_usize,
    ) {
        let cache = Cache::new(entries_max, LIFETIMES, 11);
        let mut model = Model::default();
        let mut now = at(100);
        for step in steps {
            match step {
                Step::Put { key, answer, ago } => {
                    // Who had to leave is not there to be known as the later answer.
                    let ago = if entries_max < 20 { 0 } else { ago };
                    let asked = now - SECOND * u32::try_from(ago).unwrap();
                    let text = answer.and_then(|answer| entry(&answer.to_string()));
                    cache.put(&key.to_string(), text, asked);
                    model.put(key, answer, asked);
                }
                Step::Get { key } => {
                    let (seen, known) = (cache.get(&key.to_string(), now), model.get(key, now));
                    // Only for lack of room may it have forgotten.
                    let is_pushed_out = seen == Cached::Missing && entries_max < 20;
                    prop_assert!(seen == known || is_pushed_out, "{:?} for {:?}", seen, known);
                }
                Step::Forget { key } => {
                    cache.forget(&key.to_string(), now);
                    model.known.remove(&key);
                    model.forgotten = Some(now);
                }
                Step::Flush => {
                    cache.flush(now);
                    model = Model { forgotten: Some(now), ..Model::default() };
                }
                Step::Wait { seconds } => now = now + SECOND * u32::try_from(seconds).unwrap(),
            }
            check(&lock(&cache.stripes[0]));
        }
    }
}
