//! A process with all that descend from it.

use crate::proc::parents;
use crate::process::{Process, ProcessError};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The process and its descendants, it first.
#[must_use]
pub fn members(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, parent) in parents() {
        children.entry(parent).or_default().push(pid);
    }
    let mut members = Vec::new();
    if Path::new(&format!("/proc/{root}")).exists() {
        members.push(root);
    }
    let mut next = 0;
    while let Some(pid) = members.get(next) {
        members.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    members
}

/// Ends the process in the orderly way, or else by SIGKILL for it and all its descendants.
///
/// # Errors
/// When it did not end by itself.
pub fn stop(process: Process, root: u32, wait_max: Duration) -> Result<(), ProcessError> {
    let stopped = process.stop(wait_max);
    if stopped.is_err() {
        kill(root);
    }
    stopped.map(drop)
}

/// SIGKILL for the process and all its descendants, until none is left.
pub fn kill(root: u32) {
    // Twice: a child may have been born while the list was made.
    for _ in 0..2 {
        for pid in members(root) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // It may have ended meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{kill, members};
    use crate::proc::Usage;
    use std::process::Command;

    #[test]
    fn children_and_their_children_belong_to_it_and_end_with_it() {
        let mut shell = Command::new("sh")
            .args(["-c", "sh -c 'sleep 1000; true' & wait; true"])
            .spawn()
            .expect("a shell");
        let root = shell.id();
        let begun = std::time::Instant::now();
        while members(root).len() < 3 {
            assert!(begun.elapsed().as_secs() < 60, "they don't start");
        }
        let tree = members(root);
        assert_eq!(tree[0], root);
        assert_eq!(Usage::of(&members(root)).process_count, 3);
        kill(root);
        shell.wait().expect("it ended");
        for pid in &tree[1..] {
            while Usage::of(&[*pid]).rss_bytes > 0 {
                assert!(begun.elapsed().as_secs() < 60, "{pid} lives on");
            }
        }
    }

    #[test]
    fn the_time_of_those_that_ended_is_not_lost() {
        let burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let mut shell = Command::new("sh")
            .args(["-c", &format!("sh -c '{burn}'; sleep 1000; true")])
            .spawn()
            .expect("a shell");
        let begun = std::time::Instant::now();
        let now = || Usage::of(&members(shell.id()));
        while now().user_seconds < 0.05 || now().process_count != 2 {
            assert!(begun.elapsed().as_secs() < 60, "{:?}", now());
        }
        kill(shell.id());
        shell.wait().expect("it ended");
    }
}
