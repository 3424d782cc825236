//! The account that the server runs as, and the change to it.

use crate::system_user::{Owner, group_named, is_own_group, name_of, own, user_named};
use config::{Config, Problem};
use nix::unistd::{Gid, Uid, getgrouplist, setgroups, setresgid, setresuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities,
};
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::io;

/// The account that the server runs as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    pub(crate) owner: Owner,
    /// All groups of the user, with its own.
    pub(crate) groups: Vec<u32>,
    pub(crate) name: String,
}

impl Account {
    /// Looks up a user by name or number, and its groups. `group` replaces its own one.
    ///
    /// # Errors
    /// Returns the end of a sentence if the user or group does not exist, or is root.
    pub(crate) fn named(name: &str, group: Option<&str>) -> Result<Account, String> {
        let mut owner = user_named(name)?;
        if owner.user == 0 {
            return Err("root keeps all rights: name another user".to_owned());
        }
        let name = name_of(owner.user).map_err(|error| format!("cannot look up users: {error}"))?;
        let is_a_number = name.parse::<u32>().is_ok();
        match group {
            Some(group) => owner.group = group_named(group)?,
            None if is_a_number => {
                return Err(format!("user {name} has no entry in the directory: set `group` too"));
            }
            None => {}
        }
        let mut groups = vec![owner.group];
        if let (false, Ok(text)) = (is_a_number, CString::new(&*name)) {
            let all = getgrouplist(&text, Gid::from_raw(owner.group)).unwrap_or_default();
            groups.extend(all.iter().map(|group| group.as_raw()).filter(|gid| *gid != owner.group));
        }
        Ok(Account { owner, groups, name })
    }

    /// The account of `user` and `group`; `None` if the file has neither.
    ///
    /// # Errors
    /// Returns an error at its place if the user or group does not exist.
    pub(crate) fn of(config: &Config) -> Result<Option<Account>, Problem> {
        let Some(user) = &config.user else { return Ok(None) };
        let account = Account::named(user, config.group.as_deref());
        let is_group = |why: &str| config.group.is_some() && why.starts_with("unknown group");
        account
            .map(Some)
            .map_err(|why| config.mistake_at(if is_group(&why) { "group" } else { "user" }, why))
    }

    /// Checks that this process may become the account.
    ///
    /// # Errors
    /// Returns an error at its place.
    pub(crate) fn check(&self, config: &Config) -> Result<(), Problem> {
        let (own, Owner { user, group }) = (own(), self.owner);
        if own.user == 0 {
            return Ok(());
        }
        let is_other_group = config.group.is_some() && !is_own_group(group);
        let key = match own.user == user {
            true if !is_other_group => return Ok(()),
            true => "group",
            false => "user",
        };
        let name = name_of(own.user).unwrap_or_else(|_| own.user.to_string());
        let why = format!("this process runs as {name}: only root can become another {key}");
        Err(config.mistake_at(key, why))
    }

    /// The same account without other groups.
    pub(crate) fn alone(self) -> Account {
        Account { groups: Vec::new(), ..self }
    }

    /// Becomes the user, on all threads, and keeps these capabilities.
    ///
    /// # Errors
    /// Returns a sentence about the step that failed.
    pub(crate) fn assume(&self, kept: CapabilitySet) -> Result<(), String> {
        let wrong = |what: &str, error: io::Error| format!("cannot {what}: {error}");
        let Owner { user, group } = self.owner;
        let may_drop =
            capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SETPCAP));
        // Without the right to it, the set stays: without new privileges it grants nothing.
        if may_drop {
            bound(kept).map_err(|error| wrong("limit capabilities", error))?;
        }
        if self.groups.is_empty() && own().user != 0 {
            // Without the right to it, the groups stay: programs run as this user then.
            let _ = setgroups(&[]);
        }
        if own().user == 0 {
            let groups: Vec<Gid> = self.groups.iter().copied().map(Gid::from_raw).collect();
            setgroups(&groups).map_err(|error| wrong("set the groups", error.into()))?;
            let (gid, uid) = (Gid::from_raw(group), Uid::from_raw(user));
            setresgid(gid, gid, gid).map_err(|error| wrong("set the group", error.into()))?;
            let keep = set_keep_capabilities(!kept.is_empty());
            keep.map_err(|error| wrong("keep capabilities", error.into()))?;
            setresuid(uid, uid, uid).map_err(|error| wrong("set the user", error.into()))?;
        }
        let permitted = capabilities(None).map_or(CapabilitySet::empty(), |own| own.permitted);
        let kept = kept & permitted;
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: none };
        set_capabilities(None, sets).map_err(|error| wrong("drop capabilities", error.into()))?;
        clear_ambient_capability_set().map_err(|error| wrong("drop capabilities", error.into()))
    }
}

/// Removes all but these from the bounding set.
fn bound(kept: CapabilitySet) -> io::Result<()> {
    for bit in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        if kept.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // Beyond the last one that the kernel knows.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
