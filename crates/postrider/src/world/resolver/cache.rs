//! A cache of DNS answers that is limited in octets. The library's own cache counts answers, each up to 64 KiB. The
//! owner of a wildcard with large TXT records could fill gigabytes by making us check mail from many names. This cache
//! also stores only the used parts of an answer.

use super::written;
use crate::mutex::lock;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use mail::Recent;
use mta::seams::{DnsError, Mx};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Maximum size of a cached answer. Answers for checks of unauthenticated clients and for deliveries are far smaller; a
/// few larger ones would evict the useful ones.
const ANSWER_BYTES_MAX: usize = 8 * 1024;

/// Maximum lifetime of an answer, regardless of its TTL.
const POSITIVE_MAX: Duration = Duration::from_secs(86_400);
/// Maximum lifetime of a negative answer: one to three hours have been found to work well (RFC 2308 §5).
const NEGATIVE_MAX: Duration = Duration::from_secs(3 * 3_600);

/// Approximate overhead of the allocator and the map per allocation.
const OVERHEAD_BYTES: usize = 32;

/// The used part of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Mx(Mx),
    Address(IpAddr),
    Text(Box<[u8]>),
    Name(Box<str>),
}

impl Value {
    pub(super) fn of(record: &Record) -> Option<Value> {
        Some(match &record.data {
            RData::MX(mx) => {
                Value::Mx(Mx { preference: mx.preference, host: written(&mx.exchange) })
            }
            RData::A(address) => Value::Address(address.0.into()),
            RData::AAAA(address) => Value::Address(address.0.into()),
            RData::TXT(text) => Value::Text(text.txt_data.concat().into()),
            RData::PTR(name) => Value::Name(written(name).into()),
            _ => return None,
        })
    }

    fn bytes(&self) -> usize {
        let own = match self {
            Value::Mx(mx) => mx.host.capacity(),
            Value::Address(_) => return size_of::<Value>(),
            Value::Text(text) => text.len(),
            Value::Name(name) => name.len(),
        };
        size_of::<Value>() + OVERHEAD_BYTES + own
    }
}

/// The records, or a negative answer.
pub(super) type CachedRecords = Result<Arc<[Value]>, DnsError>;

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DnsQuestion {
    name: Box<str>,
    kind: u16,
}

impl DnsQuestion {
    pub(super) fn new(name: &Name, kind: RecordType) -> DnsQuestion {
        DnsQuestion { name: written(name).into(), kind: kind.into() }
    }
}

#[derive(Clone, Debug)]
struct Slot {
    answer: CachedRecords,
    until: Instant,
}

/// Clones are of one.
#[derive(Clone)]
pub(super) struct Cache {
    /// Weighted by size in octets.
    recent: Arc<Mutex<Recent<DnsQuestion, Slot>>>,
    answers_max: usize,
    bytes_max: usize,
}

impl Cache {
    pub(super) fn new(answers_max: u32, bytes_max: u64) -> Cache {
        let answers_max = answers_max as usize;
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let recent = Arc::new(Mutex::new(Recent::weighing(answers_max, bytes_max)));
        Cache { recent, answers_max, bytes_max }
    }

    /// An answer that still counts.
    pub(super) fn get(&self, key: &DnsQuestion, now: Instant) -> Option<CachedRecords> {
        let mut recent = lock(&self.recent);
        let answer = recent.peek(key).filter(|slot| slot.until > now)?.answer.clone();
        let gone = recent.touch(key);
        // Dropping many answers takes time: release the lock first.
        drop(recent);
        drop(gone);
        Some(answer)
    }

    /// The remaining lifetime of a cached answer.
    pub(super) fn lasts(&self, key: &DnsQuestion, now: Instant) -> Duration {
        let recent = lock(&self.recent);
        let slot = recent.peek(key);
        slot.map_or(Duration::ZERO, |slot| slot.until.saturating_duration_since(now))
    }

    /// Removes an answer. Returns the values that were cached.
    pub(super) fn forget(&self, key: &DnsQuestion) -> Arc<[Value]> {
        lock(&self.recent).remove(key).and_then(|slot| slot.answer.ok()).unwrap_or_default()
    }

    /// Caches an answer for its lifetime; failed lookups are not cached.
    pub(super) fn put(
        &self,
        key: DnsQuestion,
        answer: &CachedRecords,
        lasts: Duration,
        now: Instant,
    ) {
        let (own, lasts) = match answer {
            Ok(values) => {
                let own: usize = values.iter().map(Value::bytes).sum();
                (own + OVERHEAD_BYTES, lasts.min(POSITIVE_MAX))
            }
            Err(DnsError::NoSuchDomain | DnsError::NoRecords) => (0, lasts.min(NEGATIVE_MAX)),
            Err(_) => return,
        };
        let fixed = size_of::<(DnsQuestion, Slot, usize)>() + 2 * OVERHEAD_BYTES;
        let bytes = fixed + key.name.len() + own;
        let has_room = bytes <= ANSWER_BYTES_MAX.min(self.bytes_max / 2) && self.answers_max > 1;
        if lasts.is_zero() || !has_room {
            return;
        }
        let slot = Slot { answer: answer.clone(), until: now + lasts };
        let gone = lock(&self.recent).insert_weighing(key, slot, bytes);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn key(name: &str) -> DnsQuestion {
        DnsQuestion::new(&Name::from_ascii(name).unwrap(), RecordType::TXT)
    }

    fn text(bytes: usize) -> CachedRecords {
        Ok([Value::Text(vec![b'x'; bytes].into())].into())
    }

    /// Answers, and the octets that they take.
    fn held(cache: &Cache) -> (usize, usize) {
        let recent = lock(&cache.recent);
        (recent.len(), recent.weight())
    }

    #[test]
    fn no_more_is_remembered_than_so_many_octets_and_what_is_used_stays() {
        let (cache, now) = (Cache::new(65_536, 1 << 20), Instant::now());
        cache.put(key("used.test"), &text(100), HOUR, now);
        for n in 0..10_000 {
            cache.put(key(&format!("n{n}.wild.test")), &text(4_000), HOUR, now);
            assert!(cache.get(&key("used.test"), now).is_some(), "{n}");
        }
        let (answers, bytes) = held(&cache);
        assert!((100..260).contains(&answers) && bytes <= 1 << 20, "{answers} {bytes}");
        assert!(cache.get(&key("n0.wild.test"), now).is_none());
        // Nor is a single large one, which would push out many.
        cache.put(key("large.test"), &text(ANSWER_BYTES_MAX), HOUR, now);
        assert!(cache.get(&key("large.test"), now).is_none());
    }

    #[test]
    fn no_more_is_remembered_than_so_many_answers() {
        let (cache, now) = (Cache::new(100, 1 << 20), Instant::now());
        for n in 0..1_000 {
            cache.put(key(&format!("n{n}.test")), &text(1), HOUR, now);
            assert!(held(&cache).0 <= 100);
        }
        assert!(cache.get(&key("n999.test"), now).is_some());
        let none = Cache::new(0, 1 << 20);
        none.put(key("a.test"), &text(1), HOUR, now);
        assert_eq!(held(&none), (0, 0));
    }

    #[test]
    fn an_answer_counts_as_long_as_it_says_but_not_for_ever() {
        let (cache, now) = (Cache::new(100, 1 << 20), Instant::now());
        let week = 7 * 24 * HOUR;
        let absent = || Err(DnsError::NoSuchDomain);
        let failed = || Err(DnsError::Transient(String::new()));
        let cases = [
            ("hour.test", text(1), HOUR, HOUR),
            ("week.test", text(1), week, POSITIVE_MAX),
            ("absent.test", absent(), HOUR, HOUR),
            ("absent-week.test", absent(), week, NEGATIVE_MAX),
            ("now.test", text(1), Duration::ZERO, Duration::ZERO),
            ("failed.test", failed(), HOUR, Duration::ZERO),
        ];
        for (name, answer, lasts, counts) in cases {
            cache.put(key(name), &answer, lasts, now);
            let just_before = (now + counts).checked_sub(Duration::from_secs(1));
            if let Some(at) = just_before.filter(|at| *at >= now) {
                assert_eq!(cache.get(&key(name), at), Some(answer), "{name}");
            }
            assert_eq!(cache.get(&key(name), now + counts), None, "{name}");
        }
    }

    #[test]
    fn a_later_answer_takes_the_place_of_an_earlier_one() {
        let (cache, now) = (Cache::new(4, 1 << 20), Instant::now());
        cache.put(key("A.test"), &text(1), HOUR, now);
        for n in 0..2 {
            cache.put(key(&format!("n{n}.test")), &text(1), HOUR, now);
        }
        // The first one is old by now.
        cache.put(key("a.test"), &text(2), HOUR, now);
        cache.put(key("a.test"), &text(3), HOUR, now);
        assert_eq!(cache.get(&key("a.TEST"), now), Some(text(3)));
        assert_eq!(held(&cache).0, 3);
        assert_eq!(cache.lasts(&key("a.test"), now + HOUR / 4), HOUR * 3 / 4);
        assert_eq!(cache.lasts(&key("a.test"), now + HOUR * 2), Duration::ZERO);
        // One that is forgotten is in neither.
        assert_eq!(Ok(cache.forget(&key("a.test"))), text(3));
        assert_eq!(cache.get(&key("a.test"), now), None);
        assert_eq!(cache.lasts(&key("a.test"), now), Duration::ZERO);
    }
}
