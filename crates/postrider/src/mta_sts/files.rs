//! Policies on disk: a file for each domain, `ID FETCHED_MS SINCE_MS USED_MS crc32c:…` and the policy. The checksum is of
//! all but itself; files of earlier versions have none.

use super::cache::PolicyCacheEntry;
use auth::mta_sts::{POLICY_BYTES_MAX, Policy};
use mail::Wall;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a file has before the policy, at most.
const HEAD_BYTES_MAX: usize = 128;

/// What files have in their names that are not in their place yet; no domain begins so.
const FRESH: &str = ".new-";

/// What there is, and what is there and could not be read.
#[derive(Debug, Default)]
pub(super) struct StoredPolicies {
    pub(super) policies: Vec<(Box<str>, PolicyCacheEntry)>,
    pub(super) unread: UnreadPolicies,
    /// Files that were no policies any more, and are gone.
    pub(super) lost: Vec<PathBuf>,
    /// What went wrong last, with which file.
    pub(super) error: Option<String>,
}

/// Policies that are on disk, and can't be read now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UnreadPolicies {
    /// It may be any.
    All,
    Of(BTreeSet<Box<str>>),
}

impl Default for UnreadPolicies {
    fn default() -> UnreadPolicies {
        UnreadPolicies::Of(BTreeSet::new())
    }
}

impl UnreadPolicies {
    pub(super) fn is_none(&self) -> bool {
        matches!(self, UnreadPolicies::Of(domains) if domains.is_empty())
    }

    pub(super) fn has(&self, domain: &str) -> bool {
        match self {
            UnreadPolicies::All => true,
            UnreadPolicies::Of(domains) => domains.contains(domain),
        }
    }
}

/// Reads all of them. Only what was read and is malformed is removed: what has ended by this machine's
/// clock may hold by the right one.
pub(super) fn read_all(directory: &Path) -> StoredPolicies {
    let told = |path: &Path, error: io::Error| Some(format!("{}: {error}", path.display()));
    let mut found = StoredPolicies::default();
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let entries = match entries {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return found,
        Err(error) => {
            let error = told(directory, error);
            return StoredPolicies { unread: UnreadPolicies::All, error, ..found };
        }
    };
    for entry in entries {
        let (name, path) = (entry.file_name(), entry.path());
        let Some(domain) = name.to_str().filter(|name| is_name(name)) else {
            let _ = fs::remove_file(&path);
            continue;
        };
        match read(&path) {
            Ok(Some(cached)) => found.policies.push((domain.into(), cached)),
            Ok(None) => {
                let _ = fs::remove_file(&path);
                found.lost.push(path);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                if let UnreadPolicies::Of(domains) = &mut found.unread {
                    domains.insert(domain.into());
                }
                found.error = told(&path, error);
            }
        }
    }
    found
}

/// `None`: it is malformed.
///
/// # Errors
/// It can't be read.
fn read(path: &Path) -> io::Result<Option<PolicyCacheEntry>> {
    let mut text = Vec::new();
    let max = HEAD_BYTES_MAX + POLICY_BYTES_MAX;
    File::open(path)?.take(max as u64 + 1).read_to_end(&mut text)?;
    Ok(parsed(&text))
}

fn parsed(text: &[u8]) -> Option<PolicyCacheEntry> {
    let end = text.iter().take(HEAD_BYTES_MAX).position(|byte| *byte == b'\n')?;
    let (head, policy) = text.split_at_checked(end + 1)?;
    let mut words = std::str::from_utf8(head).ok()?.trim_end_matches('\n').split(' ');
    let id = words.next()?;
    let mut moment = || words.next()?.parse().ok().map(Wall);
    let (fetched, since, used) = (moment()?, moment()?, moment()?);
    if let Some(checksum) = words.next() {
        let before = head.strip_suffix(format!(" {checksum}\n").as_bytes())?;
        if checksum != checksum_of(before, policy) || words.next().is_some() {
            return None;
        }
    }
    let policy = Arc::new(Policy::parse(policy).ok()?);
    Some(PolicyCacheEntry { id: id.into(), fetched, since, used, policy })
}

fn written(cached: &PolicyCacheEntry) -> Vec<u8> {
    let PolicyCacheEntry { id, fetched, since, used, policy } = cached;
    let (head, policy) = (format!("{id} {} {} {}", fetched.0, since.0, used.0), policy.to_string());
    let checksum = checksum_of(head.as_bytes(), policy.as_bytes());
    format!("{head} {checksum}\n{policy}").into_bytes()
}

fn checksum_of(head: &[u8], policy: &[u8]) -> String {
    format!("crc32c:{:08x}", crc32c::crc32c_append(crc32c::crc32c(head), policy))
}

/// Writes one: another file, synced, in place of the old one. Removes those that had to go. One thread
/// does this, a change after the other.
///
/// # Errors
/// As the operating system says.
pub(super) fn write<'a>(
    directory: &Path,
    (domain, cached): (&str, &PolicyCacheEntry),
    gone: impl Iterator<Item = &'a str>,
) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for domain in gone.filter(|domain| is_name(domain)) {
        let _ = fs::remove_file(directory.join(domain));
    }
    if !is_name(domain) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file name"));
    }
    let fresh = directory.join(format!("{FRESH}policy"));
    let mut file = File::create(&fresh)?;
    file.write_all(&written(cached))?;
    file.sync_all()?;
    fs::rename(&fresh, directory.join(domain))?;
    File::open(directory)?.sync_all()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cached(id: &str, fetched: u64) -> PolicyCacheEntry {
        let text = b"version: STSv1\nmode: enforce\nmx: mx.far.test\nmax_age: 1000\n";
        let (since, used) = (Wall(7), Wall(8));
        let policy = Arc::new(Policy::parse(text).unwrap());
        PolicyCacheEntry { id: id.into(), fetched: Wall(fetched), since, used, policy }
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_kept_is_there_after_a_restart_and_what_is_malformed_goes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mta-sts");
        assert!(read_all(&path).policies.is_empty() && read_all(&path).unread.is_none());
        for (domain, id) in [("far.test", "a1"), ("near.test", "a1"), ("far.test", "a2")] {
            write(&path, (domain, &cached(id, 5_000)), std::iter::empty()).unwrap();
        }
        let third = cached("a3", 1);
        write(&path, ("third.test", &third), ["near.test", "../x"].into_iter()).unwrap();
        fs::write(path.join("odd.test"), "nothing").unwrap();
        fs::write(path.join(".new-9"), "cut").unwrap();
        fs::write(path.join("long.test"), vec![b'x'; 1 << 20]).unwrap();
        let mut found = read_all(&path);
        assert_eq!(found.lost.len(), 2);
        found.policies.sort_by(|a, b| a.0.cmp(&b.0));
        let name = Box::<str>::from;
        let kept = vec![(name("far.test"), cached("a2", 5_000)), (name("third.test"), third)];
        assert_eq!((found.policies, found.unread), (kept, UnreadPolicies::default()));
        // However long ago by this machine's clock.
        assert_eq!(names(&path), ["far.test", "third.test"]);
    }

    #[test]
    fn whatever_is_not_what_was_written_shows_and_what_an_earlier_version_wrote_is_read() {
        let whole = written(&cached("a1", 5_000));
        assert_eq!(parsed(&whole), Some(cached("a1", 5_000)));
        for bit in 0..whole.len() * 8 {
            let mut turned = whole.clone();
            turned[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parsed(&turned), None, "{bit}");
        }
        for length in 0..whole.len() {
            assert_eq!(parsed(&whole[..length]), None, "{length}");
        }
        let text = String::from_utf8(whole).unwrap();
        let (head, policy) = text.split_once('\n').unwrap();
        let old = format!("{}\n{policy}", head.rsplit_once(' ').unwrap().0);
        assert_eq!(parsed(old.as_bytes()), Some(cached("a1", 5_000)));
    }

    #[test]
    fn what_can_not_be_read_now_is_kept_and_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("mta-sts");
        write(&path, ("far.test", &cached("a", 1)), std::iter::empty()).unwrap();
        // Reading a directory is an error for anybody, root included.
        fs::create_dir(path.join("stuck.test")).unwrap();
        let found = read_all(&path);
        assert_eq!(found.policies.len(), 1);
        assert!(found.unread.has("stuck.test") && !found.unread.has("far.test"));
        assert!(found.error.unwrap().contains("stuck.test"));
        assert_eq!(names(&path), ["far.test", "stuck.test"]);
        let all = read_all(&path.join("far.test"));
        assert!(all.unread.has("any.test") && !all.unread.is_none());
    }

    #[test]
    fn no_domain_leads_out_of_the_directory() {
        for name in ["", ".", "..", "../x", "a/b", ".new-1", "A.test", "a b", &"x".repeat(254)] {
            assert!(!is_name(name), "{name}");
        }
        assert!(is_name("xn--bcher-kva.example") && is_name(&"x".repeat(253)));
    }
}
