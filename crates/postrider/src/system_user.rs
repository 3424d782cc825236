//! Users and groups of the system, by name or number.

use nix::unistd::{Group, Uid, User};
use rustix::process::{getegid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, capabilities};
use serde::{Deserialize, Serialize};
use std::io;

/// A user and a group of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// No user or group has this number: where it is written it means that nothing is to change (chown(2)).
const NOBODY: u32 = u32::MAX;

/// The user of this process, and its group.
pub(crate) fn own() -> Owner {
    Owner { user: geteuid().as_raw(), group: getegid().as_raw() }
}

/// Returns true if this process may give files to other users: root, or a server that kept the right to.
pub(crate) fn may_give_files() -> bool {
    let has_right =
        || capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::CHOWN));
    geteuid().is_root() || has_right()
}

/// Returns true if this process belongs to the group.
pub(crate) fn is_own_group(group: u32) -> bool {
    let groups = getgroups().unwrap_or_default();
    group == own().group || groups.iter().any(|mine| mine.as_raw() == group)
}

/// A user and its own group. One that is only a number has this process's.
///
/// # Errors
/// Returns the end of a sentence if the user does not exist.
pub(crate) fn user_named(name: &str) -> Result<Owner, String> {
    let number = name.parse().ok().filter(|number| *number != NOBODY);
    let found = match number {
        Some(number) => User::from_uid(Uid::from_raw(number)),
        None => User::from_name(name),
    };
    match (found, number) {
        (Ok(Some(user)), _) => Ok(Owner { user: user.uid.as_raw(), group: user.gid.as_raw() }),
        (_, Some(user)) => Ok(Owner { user, group: own().group }),
        (Ok(None), None) => Err(format!("unknown user \"{name}\"")),
        (Err(error), None) => Err(format!("cannot look up user \"{name}\": {error}")),
    }
}

/// The name of a user; its number, if it has none. Blocks while a remote directory of users is asked.
///
/// # Errors
/// The directory of users cannot be read.
pub(crate) fn name_of(user: u32) -> io::Result<String> {
    match User::from_uid(Uid::from_raw(user)) {
        Ok(found) => Ok(found.map_or_else(|| user.to_string(), |found| found.name)),
        Err(error) => Err(error.into()),
    }
}

/// The number of a group.
///
/// # Errors
/// Returns the end of a sentence if the group does not exist.
pub(crate) fn group_named(name: &str) -> Result<u32, String> {
    if let Some(number) = name.parse().ok().filter(|number| *number != NOBODY) {
        return Ok(number);
    }
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(format!("unknown group \"{name}\"")),
        Err(error) => Err(format!("cannot look up group \"{name}\": {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_have_names_or_numbers() {
        assert_eq!(user_named("root"), Ok(Owner { user: 0, group: 0 }));
        assert_eq!(user_named("0"), user_named("root"));
        assert_eq!(group_named("root"), Ok(0));
        assert_eq!(name_of(0).unwrap(), "root");
        assert_eq!(name_of(54_321).unwrap(), "54321", "unless a user has it");
        // A number needs no entry in the directory of users.
        assert_eq!(user_named("54321"), Ok(Owner { user: 54_321, group: own().group }));
        let nobody = u32::MAX.to_string();
        assert!(user_named(&nobody).unwrap_err().contains("unknown user"));
        assert!(group_named("no-such-group").unwrap_err().contains("unknown group"));
        assert!(is_own_group(own().group) && !is_own_group(u32::MAX));
    }
}
