//! What a process has used, from `/proc`.

use crate::outcome::{CommandError, Outcome};
use serde::Serialize;
use std::process::ExitCode;

/// Prints a process's CPU time and memory as JSON.
///
/// Take it before and after a run; the difference of `cpu_seconds` over the messages is the cost of
/// one. Seconds are exact to 1/100.
#[derive(clap::Args, Clone, Debug)]
pub struct CpuOptions {
    /// The process
    #[arg(long)]
    pub pid: u32,
}

/// What a process has used until now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Usage {
    /// Its id.
    pub pid: u32,
    /// In user space, all threads, also those that ended.
    pub user_seconds: f64,
    /// In the kernel.
    pub system_seconds: f64,
    /// Both.
    pub cpu_seconds: f64,
    /// Resident now.
    pub rss_bytes: u64,
    /// The most that ever was resident.
    pub rss_peak_bytes: u64,
    /// Threads now.
    pub thread_count: u64,
}

/// Reads what `pid` has used.
pub fn usage(pid: u32) -> std::io::Result<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    parse(pid, &stat, &status, ticks_per_second).ok_or_else(|| {
        std::io::Error::new(std::io::ErrorKind::InvalidData, "/proc has a form we don't know")
    })
}

/// The fields of `/proc/PID/stat`, by their number in proc_pid_stat(5).
#[derive(Debug)]
pub struct StatFields<'a>(Vec<&'a str>);

impl<'a> StatFields<'a> {
    /// Of the file's text; `None` if it isn't such a file.
    #[must_use]
    pub fn of(stat: &'a str) -> Option<StatFields<'a>> {
        // The second field is the program's name in parentheses and may itself hold spaces and
        // parentheses; what follows the last ')' begins with field 3.
        let fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        Some(StatFields(fields.collect()))
    }

    /// Whether the process has ended and only waits for its parent to notice (proc_pid_stat(5), 3).
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.0.first(), Some(&("Z" | "X")))
    }

    /// Field 3 or a later one.
    #[must_use]
    pub fn number(&self, field: usize) -> Option<u64> {
        self.0.get(field.checked_sub(3)?)?.parse().ok()
    }
}

fn parse(pid: u32, stat: &str, status: &str, ticks_per_second: u64) -> Option<Usage> {
    let fields = StatFields::of(stat)?;
    let seconds = |field| Some(fields.number(field)? as f64 / ticks_per_second as f64);
    let value = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_ascii_whitespace().next()?.parse().ok()
    };
    let (user_seconds, system_seconds) = (seconds(14)?, seconds(15)?);
    Some(Usage {
        pid,
        user_seconds,
        system_seconds,
        cpu_seconds: user_seconds + system_seconds,
        rss_bytes: value("VmRSS")? * 1024,
        rss_peak_bytes: value("VmHWM")? * 1024,
        thread_count: value("Threads")?,
    })
}

/// The command.
pub fn run(options: &CpuOptions) -> Outcome {
    let usage = usage(options.pid)
        .map_err(|error| CommandError::new(format!("process {}: {error}", options.pid)))?;
    println!("{}", serde_json::json!(usage));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::{parse, usage};

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "7 (a) (b c) S 1 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0 3 0 9 0 0";
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t3\n";
        let usage = parse(7, stat, status, 100).expect("well-formed");
        assert_eq!((usage.user_seconds, usage.system_seconds, usage.cpu_seconds), (2.5, 0.5, 3.0));
        assert_eq!((usage.rss_bytes, usage.rss_peak_bytes), (1_048_576, 2_097_152));
        assert_eq!(usage.thread_count, 3);
    }

    #[test]
    fn reads_this_process() {
        let usage = usage(std::process::id()).expect("our own /proc entry");
        assert!(usage.rss_bytes > 0 && usage.rss_peak_bytes >= usage.rss_bytes);
    }
}
