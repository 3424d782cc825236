//! A network of its own, with the programs in it.

use crate::stand::error::Result;
use crate::stand::system;
use load::on_panic::OnPanic;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What the names of our namespaces and devices begin with; the process id follows.
const PREFIX: &str = "prl";

/// How long a program that got SIGKILL may take to end.
const END_WAIT: Duration = Duration::from_secs(5);

/// A network namespace that is there as long as this value, or until a panic. What runs in it ends with it.
#[derive(Debug)]
pub(super) struct NetworkNamespace {
    name: String,
    _on_panic: OnPanic,
}

impl NetworkNamespace {
    /// Makes the `n`th one of this process, its loopback device up.
    pub(super) fn new(n: u32) -> Result<NetworkNamespace> {
        let name = format!("{PREFIX}{}-{n}", std::process::id());
        ip(&["netns", "add", &name])?;
        let removed = name.clone();
        let on_panic = OnPanic::new(move || remove(&removed));
        let namespace = NetworkNamespace { name, _on_panic: on_panic };
        namespace.ip(&["link", "set", "dev", "lo", "up"])?;
        Ok(namespace)
    }

    /// Its name for `ip netns`, of at most 14 bytes: a device's name with a letter behind it fits.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with `arguments` inside.
    pub(super) fn ip(&self, arguments: &[&str]) -> Result<String> {
        ip(&[&["-netns", &self.name], arguments].concat())
    }

    /// A command that will run inside.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Takes the calling thread inside, for good.
    pub(super) fn enter(&self) -> std::io::Result<()> {
        let file = File::open(Path::new("/run/netns").join(&self.name))?;
        Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}

impl Drop for NetworkNamespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Ends what runs in a namespace and removes it. Errors are told, not returned: this also happens
/// while something else failed.
fn remove(name: &str) {
    let begun = Instant::now();
    while let Ok(pids) = ip(&["netns", "pids", name]) {
        // A thread of this very process that went inside is not to be killed, nor its process.
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let pids = pids.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok());
        let others: Vec<Pid> = pids.filter(|pid| *pid != own).filter_map(Pid::from_raw).collect();
        if others.is_empty() || begun.elapsed() > END_WAIT {
            break;
        }
        for pid in others {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    if let Err(error) = ip(&["netns", "delete", name]) {
        // Not `eprintln!`: this happens at a panic, too.
        let text = format!("network namespace {name} stays behind: {error}");
        let _ = writeln!(io::stderr(), "postrider-lab: {text}");
    }
}

/// Removes what runs left behind that were killed: names with the id of a process that is no more.
pub(super) fn remove_stale() -> Result<()> {
    for name in names(&ip(&["-j", "netns", "list"])?, "name") {
        remove(&name);
    }
    // A device usually goes with its namespace or with its process.
    for name in names(&ip(&["-j", "link", "show"])?, "ifname") {
        // Gone meanwhile is as good.
        let _ = ip(&["link", "delete", "dev", &name]);
    }
    Ok(())
}

/// Of the names in the JSON that `ip` printed, ours whose process is no more.
fn names(listing: &str, key: &str) -> Vec<String> {
    let listing: Value = serde_json::from_str(listing).unwrap_or(Value::Null);
    let names = listing.as_array().into_iter().flatten().filter_map(|entry| entry[key].as_str());
    names.filter(|name| owner(name).is_some_and(is_gone)).map(str::to_owned).collect()
}

/// The id of the process that made something of this name, if it is one of ours.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

fn is_gone(pid: u32) -> bool {
    !Path::new("/proc").join(pid.to_string()).exists()
}

/// Runs `ip`; what it printed, or what it complained of.
pub(super) fn ip(arguments: &[&str]) -> Result<String> {
    system::run_words("ip", arguments)
}

#[cfg(test)]
mod tests {
    use super::{PREFIX, names, owner};

    #[test]
    fn only_our_own_names_of_dead_processes_are_stale() {
        assert_eq!(owner("prl4194304-0a"), Some(4_194_304));
        assert_eq!(owner("prl12"), None);
        assert_eq!(owner("eth0"), None);
        let own = std::process::id();
        // The kernel gives no process an id beyond 2^22 (proc_sys_kernel(5), pid_max).
        let gone = format!("{PREFIX}4194305-0");
        let listing =
            format!(r#"[{{"name":"{PREFIX}{own}-0"}},{{"name":"web"}},{{"name":"{gone}"}}]"#);
        assert_eq!(names(&listing, "name"), [gone]);
        assert!(names("", "name").is_empty(), "ip prints nothing when there is none");
    }
}
