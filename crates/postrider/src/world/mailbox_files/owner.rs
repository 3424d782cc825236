//! Whose mailboxes are: users and groups by name, and whether this process may write for them.

use crate::mutex::lock;
use config::Config;
use mta::seams::Keeping;
use nix::unistd::{Group, User};
use rustix::process::{getegid, geteuid, getgroups};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A user and a group of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) user: u32,
    pub(super) group: u32,
}

/// Those that were looked up: who they are is asked once, not for each message.
#[derive(Debug, Default)]
pub(super) struct Owners(Mutex<BTreeMap<Names, Owner>>);

/// User and group as the configuration has them.
type Names = (Option<String>, Option<String>);

impl Owners {
    /// Who that is.
    ///
    /// # Errors
    /// When there is no such user or group: a sentence's end.
    pub(super) fn of(&self, keeping: &Keeping) -> Result<Owner, String> {
        let names = (keeping.user.clone(), keeping.group.clone());
        if let Some(owner) = lock(&self.0).get(&names) {
            return Ok(*owner);
        }
        let owner = look_up(keeping)?;
        lock(&self.0).insert(names, owner);
        Ok(owner)
    }
}

/// The user of this process, and its group.
pub(super) fn own() -> Owner {
    Owner { user: geteuid().as_raw(), group: getegid().as_raw() }
}

/// Looks for users and groups that don't exist, or whom this process can't give files to.
///
/// # Errors
/// A sentence that names the route.
pub(crate) fn check(config: &Config) -> Result<(), String> {
    for (route, keeping) in channels::keepings(config) {
        let owner = look_up(keeping).map_err(|why| format!("route {route}: {why}"))?;
        let own = own();
        let is_mine = |group: u32| {
            let groups = getgroups().unwrap_or_default();
            group == own.group || groups.iter().any(|mine| mine.as_raw() == group)
        };
        if own.user == 0 || (owner.user == own.user && is_mine(owner.group)) {
            continue;
        }
        let Keeping { user, group, .. } = keeping;
        let named = [("user", user), ("group", group)]
            .into_iter()
            .find_map(|(kind, name)| name.as_ref().map(|name| format!("`{kind} = \"{name}\"`")));
        return Err(format!(
            "route {route}: {}: only root can give mailboxes to others: start as root or as that \
             user, or leave the key out",
            named.unwrap_or_default()
        ));
    }
    Ok(())
}

/// Asks the system.
fn look_up(keeping: &Keeping) -> Result<Owner, String> {
    let own = own();
    let (user, group) = match &keeping.user {
        None => (own.user, own.group),
        Some(name) => user_of(name)?,
    };
    let group = keeping.group.as_ref().map_or(Ok(group), |name| group_of(name))?;
    Ok(Owner { user, group })
}

/// A user and its own group. One that is only a number has this process's.
fn user_of(name: &str) -> Result<(u32, u32), String> {
    let number = name.parse::<u32>().ok();
    let found = match number {
        Some(number) => User::from_uid(number.into()),
        None => User::from_name(name),
    };
    match (found, number) {
        (Ok(Some(user)), _) => Ok((user.uid.as_raw(), user.gid.as_raw())),
        (_, Some(number)) => Ok((number, own().group)),
        (Ok(None), None) => Err(format!("there is no user \"{name}\"")),
        (Err(error), None) => Err(format!("user \"{name}\" can't be looked up: {error}")),
    }
}

fn group_of(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(format!("there is no group \"{name}\"")),
        Err(error) => Err(format!("group \"{name}\" can't be looked up: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeping(user: Option<&str>, group: Option<&str>) -> Keeping {
        let owned = |name: Option<&str>| name.map(str::to_owned);
        Keeping { user: owned(user), group: owned(group), ..Keeping::default() }
    }

    #[test]
    fn users_and_groups_are_found_by_name_and_number() {
        let owners = Owners::default();
        let of = |user, group| owners.of(&keeping(user, group));
        assert_eq!(of(None, None), Ok(own()));
        assert_eq!(of(Some("root"), None), Ok(Owner { user: 0, group: 0 }));
        assert_eq!(of(Some("0"), Some("12345")), Ok(Owner { user: 0, group: 12_345 }));
        assert_eq!(of(Some("4000000000"), None), Ok(Owner { user: 4_000_000_000, ..own() }));
        assert_eq!(
            of(Some("no-such-user"), None),
            Err("there is no user \"no-such-user\"".to_owned())
        );
        let error = of(None, Some("no-such-group"));
        assert_eq!(error, Err("there is no group \"no-such-group\"".to_owned()));
    }
}
