//! Logins that an operator has revoked, stored in a state file in the first spool directory, so that they stay revoked
//! over restarts until they are allowed again.

use crate::kept_file::{KeptList, StateFile};
use mail::Wall;
use mta::control::Revocation;
use std::path::Path;

/// The file's name.
const NAME: &str = "revoked-logins.json";
/// Revoked logins at once.
const REVOKED_MAX: usize = 10_000;
/// An operator's reason is cut here, like that of a hold.
const REASON_BYTES_MAX: usize = 512;
/// Maximum length of a login (RFC 4616 §2).
const LOGIN_BYTES_MAX: usize = 255;

/// The revoked logins, and their state file.
#[derive(Debug)]
pub(crate) struct RevokedLogins(KeptList<Revocation>);

impl RevokedLogins {
    /// Loads the revocations of an earlier process. Returns the reason why some are lost, in a sentence.
    pub(crate) fn open(directory: &Path) -> (RevokedLogins, Option<String>) {
        let (list, lost) = KeptList::open(state_file(directory));
        (RevokedLogins(list), lost)
    }

    /// Returns true if the running server, or the next one, refuses the login.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn has(directory: &Path, login: &str) -> Result<bool, String> {
        let all = state_file(directory).peek::<Revocation>()?;
        Ok(all.iter().any(|revoked| is_same(&revoked.login, login)))
    }

    /// The list with its file.
    pub(crate) fn list(&mut self) -> &mut KeptList<Revocation> {
        &mut self.0
    }

    /// All revocations.
    pub(crate) fn all(&self) -> &[Revocation] {
        self.0.all()
    }

    /// Adds a revocation, or changes the reason of an existing one. Returns a report.
    ///
    /// # Errors
    /// Returns a sentence; nothing has changed then.
    pub(crate) fn revoke(&mut self, mut new: Revocation, now: Wall) -> Result<String, String> {
        if new.login.is_empty() || new.login.len() > LOGIN_BYTES_MAX {
            return Err(format!("a login has 1 to {LOGIN_BYTES_MAX} octets"));
        }
        new.reason.truncate(new.reason.floor_char_boundary(REASON_BYTES_MAX));
        new.since = now;
        let mut all = self.0.all().to_vec();
        if let Some(old) = all.iter().find(|old| is_same(&old.login, &new.login)) {
            new.since = old.since;
        }
        all.retain(|old| !is_same(&old.login, &new.login));
        if all.len() >= REVOKED_MAX {
            return Err(format!("too many revoked logins: at most {REVOKED_MAX}"));
        }
        let told = format!("login {} revoked until it is allowed again", new.login);
        all.push(new);
        self.0.write(all)?;
        Ok(self.0.told(told))
    }

    /// Ends a revocation. Returns a report.
    ///
    /// # Errors
    /// Returns a sentence; nothing has changed then.
    pub(crate) fn allow(&mut self, login: &str) -> Result<String, String> {
        let mut all = self.0.all().to_vec();
        let before = all.len();
        all.retain(|old| !is_same(&old.login, login));
        if all.len() == before {
            return Err(format!("login {login} is not revoked; see `postrider login list`"));
        }
        self.0.write(all)?;
        Ok(self.0.told(format!("login {login} allowed")))
    }
}

fn state_file(directory: &Path) -> StateFile {
    StateFile::new(directory, NAME, "revoked logins")
}

/// Case makes no difference, as in [`mta::login_registry`].
fn is_same(one: &str, other: &str) -> bool {
    one.to_lowercase() == other.to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revocation(login: &str) -> Revocation {
        Revocation { login: login.to_owned(), reason: "x".repeat(600), since: Wall(0) }
    }

    #[test]
    fn revocation_lasts_until_the_login_is_allowed() {
        let directory = tempfile::tempdir().unwrap();
        let (mut revoked, lost) = RevokedLogins::open(directory.path());
        assert_eq!(lost, None);
        revoked.revoke(revocation("jo"), Wall(10)).unwrap();
        revoked.revoke(revocation("Jo"), Wall(20)).unwrap();
        assert_eq!(
            ["JO", "al"].map(|login| RevokedLogins::has(directory.path(), login)),
            [Ok(true), Ok(false)]
        );
        let (mut again, _) = RevokedLogins::open(directory.path());
        let [one] = again.all() else { panic!("{again:?}") };
        assert_eq!((one.since, one.reason.len()), (Wall(10), REASON_BYTES_MAX));
        assert!(again.allow("al").is_err() && again.allow("JO").is_ok());
        assert!(RevokedLogins::open(directory.path()).0.all().is_empty());
        for bad in ["", &"x".repeat(LOGIN_BYTES_MAX + 1)] {
            assert!(again.revoke(revocation(bad), Wall(0)).is_err());
        }
    }

    #[test]
    fn revocations_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let (mut revoked, _) = RevokedLogins::open(directory.path());
        let all = (0..REVOKED_MAX)
            .map(|n| Revocation { reason: String::new(), ..revocation(&format!("user{n}")) });
        revoked.list().write(all.collect()).unwrap();
        assert!(revoked.revoke(revocation("one more"), Wall(0)).is_err());
        assert!(revoked.revoke(revocation("user7"), Wall(0)).is_ok());
    }
}
