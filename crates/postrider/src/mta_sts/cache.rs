//! Policies that were fetched, in memory and in a file for each domain: `ID FETCHED_MS` and the policy as
//! it came.

use auth::mta_sts::{POLICY_BYTES_MAX, Policy};
use mail::Wall;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

/// Policies that are kept; the one that was fetched first goes first.
const POLICIES_MAX: usize = 10_000;

/// Octets of all of them together.
const BYTES_MAX: usize = 16 << 20;

/// A policy that is older than half of its age, or a day, is fetched again while it still holds.
const RENEWED_AFTER_MS: u64 = 86_400_000;

/// What a file has before the policy, at most.
const HEAD_BYTES_MAX: usize = 64;

/// What files have in their names that are not in their place yet; no domain begins so.
const FRESH: &str = ".new-";

/// A policy, and when it came.
#[derive(Clone, Debug)]
pub(super) struct Cached {
    /// Of the TXT record that it was fetched for.
    pub(super) id: Box<str>,
    pub(super) fetched: Wall,
    pub(super) policy: Arc<Policy>,
}

impl Cached {
    fn age_ms(&self, now: Wall) -> u64 {
        // A clock that was put back makes nothing older.
        now.0.saturating_sub(self.fetched.0)
    }

    fn max_age_ms(&self) -> u64 {
        u64::try_from(self.policy.max_age.as_millis()).unwrap_or(u64::MAX)
    }

    fn holds(&self, now: Wall) -> bool {
        self.age_ms(now) < self.max_age_ms()
    }

    /// RFC 8461 §3.3: it is fetched again before it ends.
    pub(super) fn wants_renewal(&self, now: Wall) -> bool {
        self.age_ms(now) >= RENEWED_AFTER_MS.min(self.max_age_ms() / 2)
    }
}

/// All of them, by domain.
#[derive(Debug, Default)]
pub(super) struct Cache {
    policies: BTreeMap<Box<str>, (Cached, usize)>,
    bytes: usize,
    /// Changes that were made.
    changes: u64,
}

/// What is to be done on disk.
#[derive(Debug)]
pub(super) struct Change {
    domain: Box<str>,
    text: Vec<u8>,
    /// For the name of its file until that is in place.
    number: u64,
    gone: Vec<Box<str>>,
}

impl Cache {
    /// What was kept and still holds. What can't be read is no policy.
    pub(super) fn open(directory: &Path, now: Wall) -> Cache {
        let mut cache = Cache::default();
        let Ok(entries) = fs::read_dir(directory) else { return cache };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let read = name.to_str().filter(|name| is_name(name)).and_then(|domain| {
                let (cached, bytes) = read(&entry.path()).filter(|(c, _)| c.holds(now))?;
                Some((domain, cached, bytes))
            });
            match read {
                Some((domain, cached, bytes)) => _ = cache.put(domain, cached, bytes),
                None => _ = fs::remove_file(entry.path()),
            }
        }
        cache
    }

    pub(super) fn len(&self) -> usize {
        self.policies.len()
    }

    /// That of a domain, if it still holds.
    pub(super) fn get(&self, domain: &str, now: Wall) -> Option<Cached> {
        let cached = self.policies.get(domain).map(|(cached, _)| cached);
        cached.filter(|cached| cached.holds(now)).cloned()
    }

    /// Keeps one, and says what is to be written.
    #[must_use]
    pub(super) fn insert(&mut self, domain: &str, cached: Cached, text: &[u8]) -> Change {
        let mut file = format!("{} {}\n", cached.id, cached.fetched.0).into_bytes();
        file.extend_from_slice(text);
        let gone = self.put(domain, cached, file.len());
        self.changes += 1;
        Change { domain: domain.into(), text: file, number: self.changes, gone }
    }

    /// Those that had to go for it.
    fn put(&mut self, domain: &str, cached: Cached, bytes: usize) -> Vec<Box<str>> {
        if let Some((_, bytes)) = self.policies.remove(domain) {
            self.bytes -= bytes;
        }
        let mut gone = Vec::new();
        while self.policies.len() >= POLICIES_MAX || self.bytes + bytes > BYTES_MAX {
            let oldest = self.policies.iter().min_by_key(|(_, (cached, _))| cached.fetched);
            let Some(oldest) = oldest.map(|(domain, _)| domain.clone()) else { break };
            if let Some((_, bytes)) = self.policies.remove(&oldest) {
                self.bytes -= bytes;
            }
            gone.push(oldest);
        }
        self.bytes += bytes;
        self.policies.insert(domain.into(), (cached, bytes));
        gone
    }
}

impl Change {
    /// Writes it: another file, synced, in place of the old one.
    ///
    /// # Errors
    /// As the operating system says.
    pub(super) fn write(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        for domain in self.gone.iter().filter(|domain| is_name(domain)) {
            let _ = fs::remove_file(directory.join(&**domain));
        }
        if !is_name(&self.domain) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no name of a file"));
        }
        let fresh = directory.join(format!("{FRESH}{}", self.number));
        let mut file = File::create(&fresh)?;
        file.write_all(&self.text)?;
        file.sync_all()?;
        fs::rename(&fresh, directory.join(&*self.domain))?;
        File::open(directory)?.sync_all()
    }
}

/// A domain in lower case, which is no path.
fn is_name(domain: &str) -> bool {
    let is_part = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.')
    };
    domain.len() <= 253
        && !domain.starts_with('.')
        && !domain.is_empty()
        && domain.bytes().all(is_part)
}

fn read(path: &Path) -> Option<(Cached, usize)> {
    let mut text = Vec::new();
    let max = HEAD_BYTES_MAX + POLICY_BYTES_MAX;
    File::open(path).ok()?.take(max as u64 + 1).read_to_end(&mut text).ok()?;
    let end = text.iter().take(HEAD_BYTES_MAX).position(|byte| *byte == b'\n')?;
    let (head, policy) = text.split_at_checked(end + 1)?;
    let (id, fetched) = std::str::from_utf8(head).ok()?.trim_end().split_once(' ')?;
    let policy = Arc::new(Policy::parse(policy).ok()?);
    Some((Cached { id: id.into(), fetched: Wall(fetched.parse().ok()?), policy }, text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "version: STSv1\nmode: enforce\nmx: mx.far.test\nmax_age: 1000\n";

    fn cached(id: &str, fetched: u64, text: &str) -> Cached {
        let policy = Arc::new(Policy::parse(text.as_bytes()).unwrap());
        Cached { id: id.into(), fetched: Wall(fetched), policy }
    }

    #[test]
    fn what_was_kept_is_there_after_a_restart_for_as_long_as_it_holds() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mta-sts");
        let mut cache = Cache::open(&path, Wall(0));
        for (domain, fetched) in [("far.test", 5_000), ("near.test", 1_000)] {
            let change = cache.insert(domain, cached("a1", fetched, TEXT), TEXT.as_bytes());
            change.write(&path).unwrap();
        }
        let again = cache.insert("far.test", cached("a2", 6_000, TEXT), TEXT.as_bytes());
        again.write(&path).unwrap();
        fs::write(path.join("odd.test"), "nothing").unwrap();
        fs::write(path.join(".new-9"), "cut").unwrap();
        fs::write(path.join("long.test"), vec![b'x'; 1 << 20]).unwrap();
        let now = Wall(1_000_000 + 1_000);
        let cache = Cache::open(&path, now);
        let kept = cache.get("far.test", now).unwrap();
        assert_eq!((&*kept.id, kept.fetched, cache.len()), ("a2", Wall(6_000), 1));
        assert!(kept.policy.has_host("mx.far.test") && cache.get("near.test", now).is_none());
        assert!(cache.get("far.test", Wall(1_005_999)).is_some());
        assert!(cache.get("far.test", Wall(1_006_000)).is_none());
        let left: Vec<_> = fs::read_dir(&path).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["far.test"]);
    }

    #[test]
    fn a_policy_is_renewed_in_time_and_a_clock_that_goes_back_does_no_harm() {
        let policy = cached("a", 10_000, TEXT);
        assert!(!policy.wants_renewal(Wall(509_999)) && policy.wants_renewal(Wall(510_000)));
        assert!(policy.holds(Wall(0)) && !policy.wants_renewal(Wall(0)));
        let long = cached("a", 0, &TEXT.replace("1000", "31557600"));
        assert!(!long.wants_renewal(Wall(86_399_999)) && long.wants_renewal(Wall(86_400_000)));
    }

    #[test]
    fn no_more_are_kept_than_so_many_and_so_much() {
        let mut cache = Cache::default();
        for n in 0..POLICIES_MAX as u64 {
            assert!(cache.put(&format!("d{n}.test"), cached("a", n + 1, TEXT), 100).is_empty());
        }
        assert_eq!(cache.put("more.test", cached("a", 0, TEXT), 100), [Box::from("d0.test")]);
        assert_eq!(cache.len(), POLICIES_MAX);
        let mut cache = Cache::default();
        for n in 0..16 {
            assert!(
                cache.put(&format!("d{n}.test"), cached("a", 9 - n % 9, TEXT), 1 << 20).is_empty()
            );
        }
        assert_eq!(cache.put("more.test", cached("a", 99, TEXT), 1).len(), 1);
        assert!(cache.bytes <= BYTES_MAX);
    }

    #[test]
    fn no_domain_leads_out_of_the_directory() {
        for name in ["", ".", "..", "../x", "a/b", ".new-1", "A.test", "a b", &"x".repeat(254)] {
            assert!(!is_name(name), "{name}");
        }
        assert!(is_name("xn--bcher-kva.example") && is_name(&"x".repeat(253)));
    }
}
