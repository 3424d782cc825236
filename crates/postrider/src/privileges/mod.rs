//! Rights of this process: root only opens sockets and reads keys. Then the process becomes another user, without
//! capabilities, without new privileges, and with a few directories in reach (`docs/privileges.md`).
//!
//! Capabilities, no_new_privs and Landlock belong to threads. So they change on the main thread while there is no
//! other one, and every thread of the server inherits the result.

mod confinement;
mod preparation;
mod reach;

use crate::account::Account;
use crate::acme;
use crate::system_user::{Owner, group_named, user_named};
use config::Config;
pub(crate) use confinement::Confinement;
pub(crate) use preparation::prepare;
pub(crate) use reach::{Unreachable, open_to_others, reach_of};
use rustix::thread::{CapabilitySet, capabilities, set_no_new_privs};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Timeout for the end of threads that read files at the start.
const THREADS_TIMEOUT: Duration = Duration::from_secs(2);

/// Ports from here on need no right.
const FIRST_FREE_PORT: u16 = 1024;

/// The capabilities that the configuration needs after the start, each with its reason.
fn needed(config: &Config, account: &Account) -> Vec<(CapabilitySet, &'static str)> {
    let mut all = Vec::new();
    let is_other_user =
        |user: &str| user_named(user).is_ok_and(|owner| owner.user != account.owner.user);
    let is_other_group =
        |group: &str| group_named(group).is_ok_and(|group| !account.groups.contains(&group));
    let gives = channels::keepings(config).any(|of| {
        let (user, group) = (&of.keeping.user, &of.keeping.group);
        of.by_entry.is_some()
            || user.as_ref().is_some_and(|user| is_other_user(&user.name))
            || group.as_ref().is_some_and(|group| is_other_group(&group.name))
    });
    if gives {
        let owners = CapabilitySet::CHOWN | CapabilitySet::FOWNER | CapabilitySet::DAC_OVERRIDE;
        all.push((owners, "mailboxes with owners of their own"));
    }
    let is_low = |acme: &acme::Authority| {
        let port = acme.address.map_or(acme.challenge.port(), |address| address.port());
        port < FIRST_FREE_PORT
    };
    if config.of::<acme::Authority>().is_some_and(is_low) {
        all.push((CapabilitySet::NET_BIND_SERVICE, "the port of ACME challenges"));
    }
    all
}

/// Names of capabilities, for people.
fn names(set: CapabilitySet) -> String {
    let names: Vec<_> = set.iter_names().map(|(name, _)| format!("CAP_{name}")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(" ") }
}

/// Drops all rights that the configuration does not need. To be called on the main thread, while it is the only one. Returns
/// lines for the console.
///
/// # Errors
/// Returns a sentence if something could not be dropped, or threads are left that would keep their rights.
pub(crate) fn drop_rights(
    account: &Account,
    config: &Config,
    confinement: &Confinement,
) -> Result<Vec<String>, String> {
    wait_for_threads()?;
    let needed = needed(config, account);
    let kept = needed.iter().fold(CapabilitySet::empty(), |all, (one, _)| all | *one);
    account.assume(kept)?;
    set_no_new_privs(true).map_err(|error| format!("cannot set no_new_privs: {error}"))?;
    let landlock = confinement.restrict()?;
    let own = capabilities(None).map_err(|error| format!("cannot read capabilities: {error}"))?;
    let Owner { user, group } = account.owner;
    let (name, held) = (&account.name, names(own.permitted));
    let mut lines = vec![format!(
        "running as {name} uid={user} gid={group} capabilities={held} landlock={landlock}"
    )];
    for (wanted, why) in needed {
        let what = if own.permitted.contains(wanted) { "kept" } else { "missing" };
        lines.push(format!("{what} {} for {why}", names(wanted)));
    }
    Ok(lines)
}

/// Waits until this thread is the only one. Threads that read files at the start may still be ending.
fn wait_for_threads() -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let tasks = fs::read_dir("/proc/self/task").map_err(|error| {
            format!("cannot count threads in /proc/self/task: {error}; `user` needs /proc")
        })?;
        let count = tasks.count();
        if count <= 1 {
            return Ok(());
        }
        if begun.elapsed() >= THREADS_TIMEOUT {
            let others = count - 1;
            return Err(format!(
                "{others} threads still read files, and would keep the rights of root: their disk hangs"
            ));
        }
        thread::sleep(Duration::from_millis(1));
    }
}
