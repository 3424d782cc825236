//! What a server with all its processes has used, from `/proc`.

use load::cpu::StatFields;
use load::process::Process;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// What the processes of a tree have used since each began. Processes that have ended count with the
/// one that waited for them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usage {
    pub(super) user_seconds: f64,
    pub(super) system_seconds: f64,
    /// Resident now, added up: what processes share counts with each.
    pub(super) rss_bytes: u64,
    /// Handed to the disk.
    pub(super) written_bytes: u64,
    pub(super) process_count: u64,
}

/// The process and its descendants, it first.
pub(super) fn members(root: u32) -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in all_processes() {
        if let Some(parent) = stat_number(pid, 4) {
            children.entry(parent as u32).or_default().push(pid);
        }
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

fn all_processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// `None` when it has ended meanwhile.
fn stat_number(pid: u32, field: usize) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    StatFields::of(&stat)?.number(field)
}

/// Also when nobody has waited for it yet.
pub(super) fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    StatFields::of(&stat).is_none_or(|fields| fields.has_ended())
}

/// What these processes have used.
pub(super) fn usage(members: &[u32]) -> Usage {
    let mut sum = Usage::default();
    for &pid in members {
        // It may end while it is looked at: its parent has its figures then.
        let Some(one) = usage_of(pid) else { continue };
        sum.user_seconds += one.user_seconds;
        sum.system_seconds += one.system_seconds;
        sum.rss_bytes += one.rss_bytes;
        sum.written_bytes += one.written_bytes;
        sum.process_count += 1;
    }
    sum
}

fn usage_of(pid: u32) -> Option<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields = StatFields::of(&stat)?;
    let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
    // Its own time, and that of children it has waited for (proc_pid_stat(5), 14 to 17).
    let seconds = |own, waited| {
        Some((fields.number(own)? + fields.number(waited)?) as f64 / ticks_per_second)
    };
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Some(Usage {
        user_seconds: seconds(14, 16)?,
        system_seconds: seconds(15, 17)?,
        rss_bytes: fields.number(24)? * rustix::param::page_size() as u64,
        written_bytes: written.and_then(|value| value.parse().ok()).unwrap_or(0),
        process_count: 1,
    })
}

/// Resident memory of these processes with shared pages counted once: each page is divided among those
/// that have it. Slow with many processes. `None` if the kernel doesn't tell.
pub(super) fn proportional_bytes(members: &[u32]) -> Option<u64> {
    let mut sum = None;
    for pid in members {
        let Ok(rollup) = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else {
            continue;
        };
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kilobytes =
            line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
        sum = Some(sum.unwrap_or(0) + kilobytes.unwrap_or(0) * 1024);
    }
    sum
}

/// Ends the process in the orderly way, or else by SIGKILL for it and all its descendants.
///
/// # Errors
/// When it did not end by itself.
pub(super) fn stop(process: Process, root: u32, wait_max: Duration) -> Result<(), String> {
    let stopped = process.stop(wait_max);
    if stopped.is_err() {
        kill(root);
    }
    stopped.map(drop)
}

/// SIGKILL for the process and all its descendants, until none is left.
pub(super) fn kill(root: u32) {
    // Twice: a child may have been born while the list was made.
    for _ in 0..2 {
        for pid in members(root) {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            if let Some(pid) = pid {
                // It may have ended meanwhile.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{kill, members, usage};
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
        assert_eq!(usage(&members(root)).process_count, 3);
        kill(root);
        shell.wait().expect("it ended");
        for pid in &tree[1..] {
            while usage(&[*pid]).rss_bytes > 0 {
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
        let now = || usage(&members(shell.id()));
        while now().user_seconds < 0.05 || now().process_count != 2 {
            assert!(begun.elapsed().as_secs() < 60, "{:?}", now());
        }
        kill(shell.id());
        shell.wait().expect("it ended");
    }
}
