//! Owners of mailboxes: users and groups by name, and the check that this process may write for them.

use super::file_system::FileSystems;
use crate::beside_spool::{above, has_a_spool, make_within};
use crate::mutex::lock;
pub(super) use crate::system_user::{Owner, own};
use crate::system_user::{group_named, is_own_group, may_give_files, user_named};
use channels::RouteKeeping;
use config::{Config, Problem};
use mta::seams::{Keeping, MailboxError, SystemAccount};
use rustix::fs::Mode;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Mutex;

/// Maximum number of cached owners; at the limit the cache is cleared. Tables may name one per entry.
const REMEMBERED_MAX: usize = 65_536;

/// Cached owners, so that a lookup is not needed for each message.
#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<BTreeMap<Names, Owner>>);

/// User and group as the configuration has them, or a table.
type Names = (Option<SystemAccount>, Option<SystemAccount>);

impl Owners {
    /// Resolves the user and group.
    ///
    /// # Errors
    /// Returns the end of a sentence if the user or group does not exist.
    pub(super) fn of(&self, keeping: &Keeping) -> Result<Owner, String> {
        let names = (keeping.user.clone(), keeping.group.clone());
        if let Some(owner) = lock(&self.0).get(&names) {
            return Ok(*owner);
        }
        let owner = look_up(keeping)?;
        let mut remembered = lock(&self.0);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(names, owner);
        Ok(owner)
    }
}

/// Finds users and groups that do not exist, or to which this process cannot give files.
pub(crate) fn check(config: &Config) -> Vec<Problem> {
    let wrong = |of: RouteKeeping<'_>| {
        let why = check_one(&of).err()?;
        Some(config.mistake_at(&format!("route[{}].maildir", of.route.index), why))
    };
    channels::keepings(config).filter_map(wrong).collect()
}

fn check_one(RouteKeeping { route, keeping, by_entry }: &RouteKeeping<'_>) -> Result<(), String> {
    let route = &route.name;
    let owner = look_up(keeping).map_err(|why| format!("route {route}: {why}"))?;
    let own = own();
    let is_own = owner.user == own.user && is_own_group(owner.group);
    if may_give_files() || (is_own && by_entry.is_none()) {
        return Ok(());
    }
    let Keeping { user, group, .. } = keeping;
    let mut written = [("user", user), ("group", group)].into_iter();
    let named = by_entry.clone().or_else(|| {
        written.find_map(|(key, it)| Some(format!("{key} = \"{}\"", it.as_ref()?.name)))
    });
    Err(format!(
        "route {route}: `{}`: only root can change the owner of mailboxes: start as root or as \
         that user, or leave the key out",
        named.unwrap_or_default()
    ))
}

/// Asks the system.
fn look_up(keeping: &Keeping) -> Result<Owner, String> {
    let own = own();
    let (user, group) = match &keeping.user {
        None => (own.user, own.group),
        Some(account) => {
            let Owner { user, group } = user_named(&account.name)?;
            (unless_root(user, account, "user")?, group)
        }
    };
    let group = match &keeping.group {
        None => group,
        Some(account) => unless_root(group_named(&account.name)?, account, "group")?,
    };
    Ok(Owner { user, group })
}

/// The number that an account has, which a table must not make root's.
fn unless_root(number: u32, account: &SystemAccount, kind: &str) -> Result<u32, String> {
    if account.by_table && number == 0 {
        return Err(format!("its {kind} \"{}\" is root", account.name));
    }
    Ok(number)
}

/// Other users must be able to reach their mailboxes in it.
const MODE: u32 = 0o711;

/// Creates the root directory, only beside a spool.
///
/// # Errors
/// Returns `Missing` if its disk may not be mounted, or the operating system's error.
pub(super) fn make_root(
    root: &Path,
    file_systems: &dyn FileSystems,
) -> Result<OwnedFd, MailboxError> {
    let missing = || MailboxError::Missing(root.to_owned());
    let (above, name) = (above(root), root.file_name().ok_or_else(missing)?);
    let above = match file_systems.open_root(above) {
        Err(Errno::NOENT) => return Err(missing()),
        other => other.map_err(io::Error::from)?,
    };
    if !has_a_spool(&above).map_err(io::Error::from)? {
        return Err(missing());
    }
    make_within(&above, name, Mode::from_raw_mode(MODE)).map_err(io::Error::from)?;
    Ok(file_systems.open_root(root).map_err(io::Error::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeping(user: Option<&str>, group: Option<&str>) -> Keeping {
        accounts(user, group, false)
    }

    fn accounts(user: Option<&str>, group: Option<&str>, by_table: bool) -> Keeping {
        let account = |name: &str| SystemAccount { name: name.to_owned(), by_table };
        Keeping { user: user.map(account), group: group.map(account), ..Keeping::default() }
    }

    #[test]
    fn users_and_groups_are_found_by_name_and_number() {
        let owners = Owners::default();
        let of = |user, group| owners.of(&keeping(user, group));
        assert_eq!(of(None, None), Ok(own()));
        assert_eq!(of(Some("root"), None), Ok(Owner { user: 0, group: 0 }));
        assert_eq!(of(Some("0"), Some("12345")), Ok(Owner { user: 0, group: 12_345 }));
        assert_eq!(of(Some("4000000000"), None), Ok(Owner { user: 4_000_000_000, ..own() }));
        assert_eq!(of(Some("no-such-user"), None), Err("unknown user \"no-such-user\"".to_owned()));
        let error = of(None, Some("no-such-group"));
        assert_eq!(error, Err("unknown group \"no-such-group\"".to_owned()));
        assert!(of(Some("4294967294"), None).is_ok());
        assert_eq!(
            of(Some("4294967295"), None),
            Err("unknown user \"4294967295\"".to_owned()),
            "for chown it means that nothing changes"
        );
        assert!(of(None, Some("4294967295")).is_err());
    }

    #[test]
    fn what_tables_name_is_never_root() {
        let owners = Owners::default();
        let of = |user, group| owners.of(&accounts(user, group, true));
        assert_eq!(of(Some("root"), None), Err("its user \"root\" is root".to_owned()));
        assert_eq!(of(Some("000"), None), Err("its user \"000\" is root".to_owned()));
        assert_eq!(of(Some("12345"), Some("root")), Err("its group \"root\" is root".to_owned()));
        assert_eq!(of(Some("12345"), Some("1")), Ok(Owner { user: 12_345, group: 1 }));
        assert!(owners.of(&keeping(Some("root"), None)).is_ok(), "the operator may");
    }

    #[test]
    fn as_many_are_remembered_as_are_allowed() {
        let owners = Owners::default();
        let of = |number: usize| owners.of(&keeping(None, Some(&number.to_string())));
        for number in 1..=REMEMBERED_MAX {
            assert!(of(number).is_ok());
        }
        assert_eq!(lock(&owners.0).len(), REMEMBERED_MAX);
        assert!(of(REMEMBERED_MAX + 1).is_ok());
        assert_eq!(lock(&owners.0).len(), 1);
    }
}
