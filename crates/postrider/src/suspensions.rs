//! What an operator has suspended, kept in a small file in the first spool directory: a suspension
//! stands until it is resumed, whatever restarts in between.

use crate::kept_file::KeptFile;
use mail::Wall;
use mta::control::{Scope, Suspension};
use std::path::Path;
use std::sync::Arc;

/// The file's name.
const NAME: &str = "suspensions.json";
/// Suspensions at once.
const SUSPENSIONS_MAX: usize = 1_000;

/// All suspensions, and where they are kept.
#[derive(Debug)]
pub(crate) struct Suspensions {
    file: KeptFile,
    all: Vec<Suspension>,
}

impl Suspensions {
    /// Reads what an earlier server kept in `directory`.
    ///
    /// # Errors
    /// When the file is there and can't be read or understood: what was suspended must not go out
    /// because of that.
    pub(crate) fn open(directory: &Path) -> Result<Suspensions, String> {
        let file = KeptFile::new(directory, NAME, "what is suspended");
        let all = file.read()?;
        Ok(Suspensions { file, all })
    }

    /// Those that have not ended.
    pub(crate) fn in_force(&self, now: Wall) -> Arc<[Suspension]> {
        self.all.iter().filter(|s| s.until.is_none_or(|until| until > now)).cloned().collect()
    }

    /// Suspends, or changes the reason and end of what is suspended. Says what was done.
    ///
    /// # Errors
    /// A sentence; nothing has changed then.
    pub(crate) fn suspend(&mut self, mut new: Suspension, now: Wall) -> Result<String, String> {
        if new.until.is_some_and(|until| until <= now) {
            return Err("it would have ended already".to_owned());
        }
        new.since = now;
        let mut all = self.in_force(now).to_vec();
        if let Some(old) = all.iter().find(|old| old.scope == new.scope) {
            new.since = old.since;
        }
        all.retain(|old| old.scope != new.scope);
        if all.len() >= SUSPENSIONS_MAX {
            return Err(format!("{SUSPENSIONS_MAX} things are suspended already"));
        }
        let until = new.until.map_or_else(
            || "until it is resumed".to_owned(),
            |until| format!("until {until}, if it is not resumed before"),
        );
        let told = format!("suspended {}, {until}", new.scope);
        all.push(new);
        self.write(all)?;
        Ok(told)
    }

    /// Ends a suspension. Says what was done.
    ///
    /// # Errors
    /// A sentence; nothing has changed then.
    pub(crate) fn resume(&mut self, scope: &Scope, now: Wall) -> Result<String, String> {
        let mut all = self.in_force(now).to_vec();
        let before = all.len();
        all.retain(|suspension| suspension.scope != *scope);
        if all.len() == before {
            return Err(format!("{scope} is not suspended; `postrider status` shows what is"));
        }
        self.write(all)?;
        Ok(format!("resumed {scope}"))
    }

    fn write(&mut self, all: Vec<Suspension>) -> Result<(), String> {
        self.file.write(&all)?;
        self.all = all;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspension(scope: Scope, until: Option<u64>) -> Suspension {
        Suspension { scope, reason: "why".to_owned(), since: Wall(0), until: until.map(Wall) }
    }

    #[test]
    fn what_is_suspended_is_found_again_until_it_ends_or_is_resumed() {
        let directory = tempfile::tempdir().unwrap();
        let mut all = Suspensions::open(directory.path()).unwrap();
        let domain = Scope { domain: Some("a.test".to_owned()), ..Scope::default() };
        all.suspend(suspension(domain.clone(), None), Wall(10)).unwrap();
        all.suspend(suspension(Scope::default(), Some(50)), Wall(20)).unwrap();
        assert!(all.suspend(suspension(Scope::default(), Some(20)), Wall(20)).is_err());
        let mut again = Suspensions::open(directory.path()).unwrap();
        assert_eq!(again.in_force(Wall(49)).len(), 2);
        assert_eq!(again.in_force(Wall(50)).len(), 1);
        // Again: another end, since the same time.
        again.suspend(suspension(domain.clone(), Some(90)), Wall(60)).unwrap();
        let [one] = &again.in_force(Wall(60))[..] else { panic!() };
        assert_eq!((one.since, one.until), (Wall(10), Some(Wall(90))));
        assert!(again.resume(&Scope::default(), Wall(60)).is_err());
        assert_eq!(again.resume(&domain, Wall(60)).unwrap(), "resumed the domain a.test");
        assert!(Suspensions::open(directory.path()).unwrap().in_force(Wall(60)).is_empty());
        std::fs::write(directory.path().join(NAME), "{").unwrap();
        let error = Suspensions::open(directory.path()).unwrap_err();
        assert!(error.contains("suspensions.json"), "{error}");
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
        let all = Suspensions::open(directory.path()).unwrap().in_force(Wall(0));
        let scopes: Vec<String> = all.iter().map(|one| one.scope.to_string()).collect();
        let told = ["all delivery", "the domain a.test", "the next hop mx.test", "the source ip-1"];
        assert_eq!(scopes, told);
    }
}
