//! Suspensions by operators, stored in a state file in the first spool directory, so that they survive restarts until
//! they are resumed.

use crate::kept_file::{KeptList, StateFile};
use mail::Wall;
use mta::control::{Scope, Suspension};
use std::path::Path;
use std::sync::Arc;

/// The file's name.
const NAME: &str = "suspensions.json";
/// Suspensions at once.
const SUSPENSIONS_MAX: usize = 1_000;
/// An operator's reason is cut here, like that of a hold.
const REASON_BYTES_MAX: usize = 512;
/// Maximum length of a name in a scope.
const NAME_BYTES_MAX: usize = 1_024;

/// All suspensions, and their state file.
#[derive(Debug)]
pub(crate) struct Suspensions(KeptList<Suspension>);

impl Suspensions {
    /// Loads the suspensions of an earlier process from `directory`. If the file is unreadable, all delivery is
    /// suspended until it is resumed, so that suspended mail stays suspended. Returns the reason in a sentence.
    pub(crate) fn open(directory: &Path, now: Wall) -> (Suspensions, Option<String>) {
        let file = StateFile::new(directory, NAME, "suspensions");
        let (list, lost) = KeptList::open(file);
        let mut suspensions = Suspensions(list);
        if let Some(why) = &lost {
            let (reason, scope) = (why.clone(), Scope::default());
            let all = Suspension { scope, reason, since: now, until: None };
            // A suspension that does not fit into the file stays in force until the next start.
            if suspensions.suspend(all.clone(), now).is_err() {
                let known = suspensions.0.all_mut();
                known.retain(|old| old.scope != all.scope);
                known.push(all);
            }
        }
        (suspensions, lost)
    }

    /// The list with its file.
    pub(crate) fn list(&mut self) -> &mut KeptList<Suspension> {
        &mut self.0
    }

    /// The suspensions that have not ended.
    pub(crate) fn in_force(&self, now: Wall) -> Arc<[Suspension]> {
        self.0.all().iter().filter(|s| s.until.is_none_or(|until| until > now)).cloned().collect()
    }

    /// Adds a suspension, or changes the reason and end of an existing one. Returns a report. A suspension is in force
    /// even if its file cannot be written: stopping mail must not depend on disk space.
    ///
    /// # Errors
    /// Returns a sentence; nothing has changed then.
    pub(crate) fn suspend(&mut self, mut new: Suspension, now: Wall) -> Result<String, String> {
        if new.until.is_some_and(|until| until <= now) {
            return Err("its end is in the past".to_owned());
        }
        if let Some(name) = new.scope.names().find(|name| name.len() > NAME_BYTES_MAX) {
            let length = name.len();
            return Err(format!("a name of {length} octets: at most {NAME_BYTES_MAX}"));
        }
        new.reason.truncate(new.reason.floor_char_boundary(REASON_BYTES_MAX));
        new.since = now;
        let mut all = self.in_force(now).to_vec();
        if let Some(old) = all.iter().find(|old| old.scope == new.scope) {
            new.since = old.since;
        }
        all.retain(|old| old.scope != new.scope);
        if all.len() >= SUSPENSIONS_MAX {
            return Err(format!("too many suspensions: at most {SUSPENSIONS_MAX}"));
        }
        let until = new.until.map_or_else(
            || "until it is resumed".to_owned(),
            |until| format!("until {until}, unless resumed before"),
        );
        let told = format!("suspended {}, {until}", new.scope);
        all.push(new);
        self.0.write(all)?;
        Ok(self.0.told(told))
    }

    /// Ends a suspension. Returns a report.
    ///
    /// # Errors
    /// Returns a sentence; nothing has changed then.
    pub(crate) fn resume(&mut self, scope: &Scope, now: Wall) -> Result<String, String> {
        let mut all = self.in_force(now).to_vec();
        let before = all.len();
        all.retain(|suspension| suspension.scope != *scope);
        if all.len() == before {
            return Err(format!("{scope} is not suspended; see `postrider status`"));
        }
        self.0.write(all)?;
        Ok(self.0.told(format!("resumed {scope}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(directory: &Path) -> Suspensions {
        let (suspensions, lost) = Suspensions::open(directory, Wall(0));
        assert_eq!(lost, None);
        suspensions
    }

    fn suspension(scope: Scope, until: Option<u64>) -> Suspension {
        Suspension { scope, reason: "why".to_owned(), since: Wall(0), until: until.map(Wall) }
    }

    #[test]
    fn what_is_suspended_is_found_again_until_it_ends_or_is_resumed() {
        let directory = tempfile::tempdir().unwrap();
        let mut all = opened(directory.path());
        let domain = Scope { domain: Some("a.test".to_owned()), ..Scope::default() };
        all.suspend(suspension(domain.clone(), None), Wall(10)).unwrap();
        all.suspend(suspension(Scope::default(), Some(50)), Wall(20)).unwrap();
        assert!(all.suspend(suspension(Scope::default(), Some(20)), Wall(20)).is_err());
        let mut again = opened(directory.path());
        assert_eq!(again.in_force(Wall(49)).len(), 2);
        assert_eq!(again.in_force(Wall(50)).len(), 1);
        // Again: another end, since the same time.
        again.suspend(suspension(domain.clone(), Some(90)), Wall(60)).unwrap();
        let [one] = &again.in_force(Wall(60))[..] else { panic!() };
        assert_eq!((one.since, one.until), (Wall(10), Some(Wall(90))));
        assert!(again.resume(&Scope::default(), Wall(60)).is_err());
        assert_eq!(again.resume(&domain, Wall(60)).unwrap(), "resumed the domain a.test");
        assert!(opened(directory.path()).in_force(Wall(60)).is_empty());
    }

    #[test]
    fn what_can_not_be_read_suspends_all_until_it_is_resumed() {
        let directory = tempfile::tempdir().unwrap();
        let domain = Scope { domain: Some("a.test".to_owned()), ..Scope::default() };
        opened(directory.path()).suspend(suspension(domain.clone(), None), Wall(10)).unwrap();
        let whole = std::fs::read(directory.path().join(NAME)).unwrap();
        for at in 0..whole.len() {
            for bit in [0, 5, 7] {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                std::fs::write(directory.path().join(NAME), &bytes).unwrap();
                let (all, lost) = Suspensions::open(directory.path(), Wall(20));
                let why = lost.unwrap_or_else(|| panic!("bit {bit} of octet {at}"));
                let first = all.in_force(Wall(20));
                let first = first.iter().find(|one| one.scope == Scope::default()).unwrap();
                assert!(why.starts_with(&first.reason) && why.contains(NAME), "{why}");
                // Over starts.
                let mut again = opened(directory.path());
                assert_eq!(again.in_force(Wall(30)).len(), all.in_force(Wall(30)).len());
                again.resume(&Scope::default(), Wall(30)).unwrap();
            }
        }
    }

    #[test]
    fn what_can_not_be_written_is_in_force_and_is_written_later() {
        let directory = tempfile::tempdir().unwrap();
        let mut all = opened(directory.path());
        let kept = Scope { domain: Some("kept.test".to_owned()), ..Scope::default() };
        all.suspend(suspension(kept.clone(), None), Wall(10)).unwrap();
        // Nothing new can be made in its place.
        let fresh = directory.path().join("suspensions.json.new");
        std::fs::create_dir(&fresh).unwrap();
        let unkept = "; not yet kept over a restart: cannot write ";
        let new = Scope { domain: Some("new.test".to_owned()), ..Scope::default() };
        let told = all.suspend(suspension(new.clone(), None), Wall(20)).unwrap();
        assert!(told.starts_with("suspended the domain new.test, until"), "{told}");
        assert!(told.contains(unkept) && told.contains(NAME), "{told}");
        let told = all.resume(&kept, Wall(20)).unwrap();
        assert!(told.starts_with("resumed the domain kept.test; not yet kept"), "{told}");
        let names = |all: &Suspensions| {
            all.in_force(Wall(20)).iter().map(|one| one.scope.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&all), std::slice::from_ref(&new));
        assert_eq!(names(&opened(directory.path())), [kept], "the file is as it was");
        all.list().keep();
        assert!(all.list().unkept().is_some());
        std::fs::remove_dir(&fresh).unwrap();
        all.list().keep();
        assert_eq!(all.list().unkept(), None);
        assert_eq!(names(&opened(directory.path())), [new]);
    }

    #[test]
    fn what_may_be_suspended_can_be_read_again() {
        let directory = tempfile::tempdir().unwrap();
        // Each octet takes six in the file: the file is full before there are a thousand.
        let name = |n: usize| format!("{n:04}{}", "\u{1}".repeat(NAME_BYTES_MAX - 4));
        let reason = "\u{1}".repeat(REASON_BYTES_MAX);
        // One by one, each of them would write the file.
        let first = |n| {
            let scope = serde_json::json!({ "domain": name(n), "route": name(n) });
            serde_json::json!({ "scope": scope, "reason": reason, "since": "2026-11-21T10:11:12.345Z" })
        };
        let written = 400;
        let text = serde_json::to_vec(&(0..written).map(first).collect::<Vec<_>>()).unwrap();
        std::fs::write(directory.path().join(NAME), text).unwrap();
        let (mut all, mut done) = (opened(directory.path()), written);
        for n in written..SUSPENSIONS_MAX {
            let scope = Scope { domain: Some(name(n)), route: Some(name(n)), ..Scope::default() };
            let reason = "\u{1}".repeat(60_000);
            let one = Suspension { scope, reason, since: Wall(0), until: None };
            match all.suspend(one, Wall(1)) {
                Ok(_) => done += 1,
                Err(why) => {
                    assert_eq!(why, "suspensions would exceed 8388608 octets");
                    break;
                }
            }
        }
        assert!(done > written, "{done}");
        assert_eq!(opened(directory.path()).in_force(Wall(2)).len(), done);
        let scope = Scope { domain: Some("x".repeat(NAME_BYTES_MAX + 1)), ..Scope::default() };
        let why = all.suspend(suspension(scope, None), Wall(1)).unwrap_err();
        assert_eq!(why, "a name of 1025 octets: at most 1024");
    }

    #[test]
    fn what_an_earlier_version_kept_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let text = r#"[
            { "scope": "all", "reason": "", "since": "2026-11-21T10:11:12.345Z" },
            { "scope": { "domain": "a.test" }, "since": "2026-11-21T10:11:12.345Z" },
            { "scope": { "next_hop": "mx.test" }, "reason": "why",
              "since": "2026-11-21T10:11:12.345Z", "until": "2036-11-21T10:11:12.345Z" },
            { "scope": { "source": "ip-1" }, "reason": "why", "since": "2026-11-21T10:11:12.345Z" }
        ]"#;
        std::fs::write(directory.path().join(NAME), text).unwrap();
        let all = opened(directory.path()).in_force(Wall(0));
        let scopes: Vec<String> = all.iter().map(|one| one.scope.to_string()).collect();
        let told = ["all delivery", "the domain a.test", "the next hop mx.test", "the source ip-1"];
        assert_eq!(scopes, told);
    }
}
