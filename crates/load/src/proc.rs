//! What the kernel tells of processes and of the machine in `/proc`, read with crate `procfs`.
//!
//! A meter must not cost what it measures: each file is opened and read once, without a look at the
//! process's directory before.

use procfs::process::{Io, SmapsRollup, Stat, Status};
use procfs::{CpuInfo, Current as _, CurrentSI as _, FromRead as _};
use procfs::{CpuTime, KernelStats, LoadAverage, Meminfo, ProcError};
use std::ops::AddAssign;

/// What processes have used since each of them began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// In user space, in all threads.
    pub user_seconds: f64,
    /// In the kernel.
    pub system_seconds: f64,
    /// Resident now, added up: what processes share counts with each.
    pub rss_bytes: u64,
    /// Handed to the disk.
    pub written_bytes: u64,
    /// How many processes these are.
    pub process_count: u64,
}

impl Usage {
    /// In user space and in the kernel together.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// Of these processes, each with the children it has waited for. One that ends while it is looked
    /// at is left out: its parent has its figures then.
    #[must_use]
    pub fn of(pids: &[u32]) -> Usage {
        let mut sum = Usage::default();
        for &pid in pids {
            let Ok(stat) = stat(pid) else { continue };
            let waited = |ticks: i64| ticks.max(0).unsigned_abs();
            sum += Usage {
                user_seconds: seconds(stat.utime + waited(stat.cutime)),
                system_seconds: seconds(stat.stime + waited(stat.cstime)),
                rss_bytes: stat.rss * procfs::page_size(),
                written_bytes: written_bytes(pid),
                process_count: 1,
            };
        }
        sum
    }

    /// Of this process alone, without any children.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of_one(pid: u32) -> Result<Usage, ProcError> {
        let stat = stat(pid)?;
        Ok(Usage {
            user_seconds: seconds(stat.utime),
            system_seconds: seconds(stat.stime),
            rss_bytes: stat.rss * procfs::page_size(),
            written_bytes: written_bytes(pid),
            process_count: 1,
        })
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.user_seconds += other.user_seconds;
        self.system_seconds += other.system_seconds;
        self.rss_bytes += other.rss_bytes;
        self.written_bytes += other.written_bytes;
        self.process_count += other.process_count;
    }
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / procfs::ticks_per_second() as f64
}

fn stat(pid: u32) -> Result<Stat, ProcError> {
    Stat::from_file(format!("/proc/{pid}/stat"))
}

/// 0 where we may not look.
fn written_bytes(pid: u32) -> u64 {
    Io::from_file(format!("/proc/{pid}/io")).map_or(0, |io| io.write_bytes)
}

/// The memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Resident now.
    pub rss_bytes: u64,
    /// The most that ever was resident.
    pub rss_peak_bytes: u64,
    /// Threads now.
    pub thread_count: u64,
}

impl Memory {
    /// Of this process.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of(pid: u32) -> Result<Memory, ProcError> {
        let status = Status::from_file(format!("/proc/{pid}/status"))?;
        let bytes = |kilobytes: Option<u64>| kilobytes.unwrap_or(0) * 1024;
        Ok(Memory {
            rss_bytes: bytes(status.vmrss),
            rss_peak_bytes: bytes(status.vmhwm),
            thread_count: status.threads,
        })
    }
}

/// Resident memory of these processes with shared pages counted once: each page is divided among those
/// that have it. Slow with many processes. `None` if the kernel doesn't tell.
#[must_use]
pub fn proportional_bytes(pids: &[u32]) -> Option<u64> {
    let rollups = pids.iter().map(|pid| format!("/proc/{pid}/smaps_rollup"));
    let rollups = rollups.filter_map(|path| SmapsRollup::from_file(path).ok());
    let shares = rollups.map(|rollup| {
        let maps = rollup.memory_map_rollup.0;
        maps.iter().filter_map(|map| map.extension.map.get("Pss")).sum::<u64>()
    });
    shares.reduce(|sum, share| sum + share)
}

/// Files that a process has open.
///
/// # Errors
/// When there is no such process, or it is somebody else's.
pub fn open_file_count(pid: u32) -> std::io::Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Whether a process has ended, also when nobody has waited for it yet.
#[must_use]
pub fn has_ended(pid: u32) -> bool {
    stat(pid).map_or(true, |stat| matches!(stat.state, 'Z' | 'X'))
}

/// All processes, each with its parent.
pub(crate) fn parents() -> impl Iterator<Item = (u32, u32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, u32::try_from(stat(pid).ok()?.ppid).ok()?)))
}

/// Time that all processors have been busy, and in all, since the machine started.
#[derive(Clone, Copy, Debug)]
pub struct Busy {
    busy: f64,
    total: f64,
}

impl Busy {
    /// Until now; no time at all where the kernel doesn't tell.
    #[must_use]
    pub fn now() -> Busy {
        KernelStats::current()
            .map_or(Busy { busy: 0.0, total: 0.0 }, |stats| Busy::of(&stats.total))
    }

    /// What guests use is part of the user's time (proc_stat(5)).
    fn of(time: &CpuTime) -> Busy {
        let or_none = |ticks: Option<u64>| ticks.unwrap_or(0);
        let idle = time.idle + or_none(time.iowait);
        let interrupts = or_none(time.irq) + or_none(time.softirq);
        let busy = time.user + time.nice + time.system + interrupts + or_none(time.steal);
        Busy { busy: busy as f64, total: (busy + idle) as f64 }
    }

    /// Percent of all processors' time between `before` and this.
    #[must_use]
    pub fn percent_since(self, before: Busy) -> f64 {
        let total = self.total - before.total;
        if total > 0.0 { (self.busy - before.busy) / total * 100.0 } else { 0.0 }
    }
}

/// The processor's name.
#[must_use]
pub fn cpu_model() -> Option<String> {
    CpuInfo::current().ok()?.model_name(0).map(str::to_owned)
}

/// Memory of the machine.
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    Some(Meminfo::current().ok()?.mem_total)
}

/// Processes that ran or wanted to, on average over the last minute.
#[must_use]
pub fn load_average() -> Option<f64> {
    // As it is written: two digits behind the point, which a float of 32 bits would blur.
    Some((f64::from(LoadAverage::current().ok()?.one) * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::{Busy, Memory, Usage, cpu_model, has_ended, memory_bytes, open_file_count};
    use super::{parents, proportional_bytes};

    #[test]
    fn reads_this_process() {
        let pid = std::process::id();
        let memory = Memory::of(pid).expect("our own");
        assert!(memory.rss_bytes > 0 && memory.rss_peak_bytes >= memory.rss_bytes);
        assert!(memory.thread_count >= 1);
        let (one, all) = (Usage::of_one(pid).expect("our own"), Usage::of(&[pid]));
        assert!(one.rss_bytes > 0 && all.rss_bytes > 0);
        assert_eq!((one.process_count, all.process_count), (1, 1));
        assert!(all.cpu_seconds() >= one.cpu_seconds());
        // Shared pages are divided: never more than what is resident.
        let share = proportional_bytes(&[pid]).expect("kernels of this century tell");
        assert!(share > 0 && share <= Memory::of(pid).expect("our own").rss_peak_bytes);
        assert!(open_file_count(pid).expect("our own") >= 3);
        assert!(!has_ended(pid));
        assert!(
            parents().any(
                |(known, parent)| known == pid && parent == std::os::unix::process::parent_id()
            )
        );
    }

    #[test]
    fn what_is_not_there_is_nothing_or_an_error() {
        let nobody = u32::MAX;
        assert!(has_ended(nobody));
        assert_eq!(Usage::of(&[nobody]), Usage::default());
        assert_eq!(proportional_bytes(&[nobody]), None);
        let error = Usage::of_one(nobody).expect_err("no such process");
        assert!(error.to_string().contains(&nobody.to_string()), "{error}");
    }

    #[test]
    fn burnt_time_is_user_time_and_keeps_a_processor_busy() {
        let pid = std::process::id();
        let (machine, before) = (Busy::now(), Usage::of(&[pid]).user_seconds);
        let begun = std::time::Instant::now();
        while Usage::of(&[pid]).user_seconds < before + 0.02 {
            assert!(begun.elapsed().as_secs() < 60, "no time passes");
            (0..100_000_u64).for_each(|n| {
                std::hint::black_box(n);
            });
        }
        assert!(Busy::now().percent_since(machine) > 0.0);
    }

    #[test]
    fn the_machine_has_a_name_and_memory() {
        assert!(cpu_model().is_some_and(|name| !name.is_empty()));
        assert!(memory_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
